"""The schema of problem documents, for the description of the interface."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Finding(BaseModel):
    """One of several errors."""

    model_config = ConfigDict(extra="allow")

    detail: str
    pointer: str | None = Field(None, description="Location in the body: a JSON pointer as a fragment.")
    parameter: str | None = Field(None, description="Name of the query parameter.")
    value: Any = Field(None, description="The value received.")
    limit: Any = Field(None, description="The limit on the value.")


class Problem(BaseModel):
    """An error as in RFC 9457. `type` is stable, for programs to test; its address explains it."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str
    instance: str | None = None
    request_id: str | None = None
    pointer: str | None = Field(None, description="Location in the body: a JSON pointer as a fragment.")
    line: int | None = Field(None, description="Line of the annotation file, from 1.")
    value: Any = None
    limit: Any = None
    errors: list[Finding] | None = None


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The statuses of a route that have a problem document, for its description."""
    return {status: {"model": Problem} for status in statuses}
