"""What `GET /models` gives."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field


class ModelSummary(BaseModel):
    """A model that the service has loaded."""

    name: str = Field(description="What `model` in a request calls it.")
    version: str = Field(description="Changes with every change of the model file.")
    labels: int = Field(description="How many labels it tells apart.")
    title: str | None = Field(None, description="The name on its card.")


class ModelDetail(ModelSummary):
    """A model with its card: what it was trained on, how good it is, what it is not good for."""

    label_set: list[str]
    card: dict[str, Any]


class ModelList(BaseModel):
    """The models that the service has loaded."""

    models: list[ModelSummary]
