"""Schemas of `/label-studio`: the requests of Label Studio to its backends. Unknown members are ignored."""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field

MAX_TASKS = 1000
_Config = Annotated[str, Field(max_length=1_000_000, description="The project's labelling interface (XML).")]


def _params(value: Any) -> Any:
    """Extra parameters come as an object, or as JSON text from the connection form."""
    if value is None or value == "":
        return {}
    if isinstance(value, str):
        try:
            return json.loads(value)
        except ValueError:
            return {}
    return value


_Params = Annotated[dict[str, Any], BeforeValidator(_params)]


class Health(BaseModel):
    """The backend is running."""

    status: str
    model_class: str


class Setup(BaseModel):
    """A project to connect."""

    project: str | int = Field("", description="Id of the project.")
    label_config: _Config = Field("", validation_alias="schema")
    extra_params: _Params = Field(default_factory=dict, description="`model`: name of the model that predicts.")


class SetUp(BaseModel):
    """The model that predicts."""

    model_version: str


class Predict(BaseModel):
    """Tasks to predict."""

    tasks: list[dict[str, Any]] = Field(min_length=1, max_length=MAX_TASKS)
    label_config: _Config
    project: str | int = ""
    params: _Params = Field(
        default_factory=dict, description="`context`: the regions on the screen; `model`: the model that predicts."
    )


class Predictions(BaseModel):
    """A prediction for each task, in order."""

    results: list[dict[str, Any]]
    model_version: str


class Project(BaseModel):
    """A project as webhooks describe it."""

    id: int
    title: str | None = Field(None, max_length=200)
    label_config: _Config = ""


class Webhook(BaseModel):
    """An event."""

    action: str = Field(max_length=100)
    project: Project


class Trained(BaseModel):
    """The result of an event: a job, or nothing."""

    status: str
    job: str | None = Field(description="Id of the training job.")
