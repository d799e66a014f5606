"""Schemas of `/models` and `/aliases`."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from phonechain.app.models.repository import Kind


class ModelSummary(BaseModel):
    """A model of the service."""

    name: str = Field(description="Its name for `model` in a request.")
    kind: Kind = Field(
        description="`labelling` for `POST /classify` and the like, `alignment` for `POST /align` and `POST /recognize`."
    )
    version: str = Field(description="Changes with every change of the model file.")
    labels: int = Field(description="Number of labels.")
    title: str | None = Field(None, description="The name on its card.")
    size: int | None = Field(None, description="Size of its file in bytes, for a stored version.")
    job: str | None = Field(None, description="The job that trained it, if any.")
    created: str | None = Field(None, description="When it was stored; null for a model loaded at start-up.")


class ModelDetail(ModelSummary):
    """A model with its card: its training data, figures and limitations."""

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
    """The target of an alias."""

    model_config = ConfigDict(extra="forbid")

    model: str = Field(description="Name, `name@version` or another alias.", max_length=200, pattern="^[^\x00]*$")


class ModelList(BaseModel):
    """The models loaded at start-up, and the stored versions."""

    models: list[ModelSummary]
    aliases: list[AliasOut] = Field(default_factory=list)
