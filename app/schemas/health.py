"""Schemas of the health routes."""

from __future__ import annotations

from pydantic import BaseModel, Field


class Live(BaseModel):
    """The process is alive."""

    status: str = "alive"


class Ready(BaseModel):
    """The service accepts requests."""

    status: str = "ready"
    models: list[str] = Field(description="The models that are loaded.")
    device: str = Field(description="Where the models compute: `cpu`, or a GPU such as `cuda:0`.")
    precision: str = Field(description="Precision in which labelling models multiply: `float32` or `bfloat16`.")
    requests: int = Field(description="Requests being decoded, waiting or being labelled.")
    limit: int = Field(description="Maximum number of these requests.")
    parts: dict[str, str] = Field(description="`ready` for the models, the database and the scheduler.")
