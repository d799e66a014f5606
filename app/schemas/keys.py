"""Schemas of `/keys`: requests and answers."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Scope = Literal["read", "label", "train", "admin"]


class NewKey(BaseModel):
    """A key to create."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(description="Name of the key's user.", min_length=1, max_length=200, pattern="^[^\x00]*$")
    scopes: list[Scope] = Field(description="Each scope includes those before it.", min_length=1, max_length=4)


class KeyOut(BaseModel):
    """A key, without its secret."""

    id: str
    name: str
    scopes: list[Scope]
    created: str
    revoked: str | None = None


class KeyMade(KeyOut):
    """A new key."""

    key: str = Field(description="The key itself; it is never shown again.")


class KeyList(BaseModel):
    """Every key."""

    keys: list[KeyOut]
