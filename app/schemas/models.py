"""What `GET /models` gives."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class ModelSummary(BaseModel):
    """A model that the service has loaded."""

    name: str = Field(description="What `model` in a request calls it.")
    version: str = Field(description="Changes with every change of the model file.")
    labels: int = Field(description="How many labels it tells apart.")
    title: str | None = Field(None, description="The name on its card.")
    size: int | None = Field(None, description="Bytes of its file, for a version on the versions.")
    job: str | None = Field(None, description="The job that trained it, if one did.")
    created: str | None = Field(None, description="When it was stored; null for a model that the service came with.")


class ModelDetail(ModelSummary):
    """A model with its card: what it was trained on, how good it is, what it is not good for."""

    label_set: list[str]
    card: dict[str, Any]


class AliasOut(BaseModel):
    """Another name for a version."""

    alias: str
    name: str
    version: str


class AliasList(BaseModel):
    """Every alias."""

    aliases: list[AliasOut]


class PointAlias(BaseModel):
    """What an alias is to stand for."""

    model_config = ConfigDict(extra="forbid")

    model: str = Field(description="Name, `name@version` or another alias.", max_length=200, pattern="^[^\x00]*$")


class ModelList(BaseModel):
    """The models that the service came with, and the versions on its versions."""

    models: list[ModelSummary]
    aliases: list[AliasOut] = Field(default_factory=list)
