"""Which options a body takes at a place, so that an error about a wrong name lists the right ones."""

from __future__ import annotations

import difflib
import types
import typing
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, Union

from pydantic import BaseModel


def known_options(kind: Any, place: Sequence[str | int]) -> list[str]:
    """Names beside the last part of `place`, where a body of the type `kind` was found to be wrong.

    `place` is the `loc` of a pydantic error: names, indices, and the tags of unions.
    """
    here = list(_models(kind))
    for part in place[:-1]:
        tagged = [model for model in here if part in _tags(model)]
        here = tagged or [
            inner
            for model in here
            if (field := model.model_fields.get(str(part))) is not None
            for inner in _models(field.annotation)
        ]
        if not tagged and not here:
            return []
    return list(dict.fromkeys(field.alias or name for model in here for name, field in model.model_fields.items()))


def wrong_option(name: str, known: Sequence[str]) -> str:
    """The sentence about a name that is no option."""
    near = difflib.get_close_matches(name, known, n=1)
    return f"expected one of {', '.join(known)}" + (f"; did you mean {near[0]}?" if near else "")


def _models(kind: Any) -> Iterator[type[BaseModel]]:
    """The models that a type may hold, or a list or a mapping of it."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind
        return
    origin = typing.get_origin(kind)
    if origin in (Annotated, Union, types.UnionType, list, tuple, dict):
        for inner in typing.get_args(kind)[: 1 if origin is Annotated else None]:
            yield from _models(inner)


def _tags(model: type[BaseModel]) -> set[Any]:
    return {
        value
        for field in model.model_fields.values()
        if typing.get_origin(field.annotation) is Literal
        for value in typing.get_args(field.annotation)
    }
