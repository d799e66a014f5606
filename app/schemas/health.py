"""What the health routes give."""

from __future__ import annotations

from pydantic import BaseModel, Field


class Live(BaseModel):
    """The event loop turns."""

    status: str = "alive"


class Ready(BaseModel):
    """Requests are taken."""

    status: str = "ready"
    models: list[str] = Field(description="The models that are loaded.")
    requests: int = Field(description="Requests that are decoded, waiting or being labelled.")
    limit: int = Field(description="How many of them there may be.")
    parts: dict[str, str] = Field(description="`ready` for the models, the database and the scheduler.")
