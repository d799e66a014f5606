"""The shape of an error answer, for the interface's description."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Finding(BaseModel):
    """One of several things that are wrong."""

    model_config = ConfigDict(extra="allow")

    detail: str
    pointer: str | None = Field(None, description="Workspace in the body: a JSON pointer as a fragment.")
    parameter: str | None = Field(None, description="Name of the query parameter.")
    value: Any = Field(None, description="What came.")
    limit: Any = Field(None, description="What it may be.")


class Problem(BaseModel):
    """An error, after RFC 9457. `type` is stable: programs decide by it, and its address explains it."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str
    instance: str | None = None
    request_id: str | None = None
    pointer: str | None = Field(None, description="Workspace in the body: a JSON pointer as a fragment.")
    line: int | None = Field(None, description="Line of the annotation file, from 1.")
    value: Any = None
    limit: Any = None
    errors: list[Finding] | None = None


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """For the description of a route: the statuses that are answered with a problem document."""
    return {status: {"model": Problem} for status in statuses}
