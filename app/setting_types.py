"""Kinds of settings that are checked beyond their type: addresses, names, origins, amounts of memory."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, SecretStr
from pydantic_core import PydanticCustomError

_ADDRESS = re.compile(r"(tcp|tls|ws|wss|ucx)://[^/\s:]+:\d{1,5}|(tcp|tls|ws|wss)://\[[0-9a-fA-F:]+\]:\d{1,5}")
_HOST = re.compile(r"(\*\.)?[A-Za-z0-9._-]+|\[[0-9a-fA-F:.]+\]")
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://([A-Za-z0-9._-]+|\[[0-9a-fA-F:.]+\])(:\d{1,5})?")
_DEVICE = re.compile(r"auto|cpu|cuda(:\d{1,3})?", re.ASCII)
_MEMORY = re.compile(r"auto|\d+(\.\d+)? ?([kMGT]i?)?B?", re.IGNORECASE)


def split_list(value: str) -> list[str]:
    """What stands between the commas."""
    return [one.strip() for one in value.split(",") if one.strip()]


def _each(good: Callable[[str], object], said: str) -> AfterValidator:
    """Every entry of a list with commas passes `good`."""

    def check(value: str) -> str:
        for one in split_list(value):
            if not good(one):
                raise PydanticCustomError("setting", said)
        return value

    return AfterValidator(check)


def _network(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return text == "*"
    return True


def _long_enough(value: SecretStr) -> SecretStr:
    if len(value.get_secret_value()) < 16:
        raise PydanticCustomError("admin_key", "expected a key of at least 16 characters")
    return value


def _memory(value: str) -> str:
    if not _MEMORY.fullmatch(value):
        raise PydanticCustomError("worker_memory", "expected auto, 0, or bytes such as 2GiB")
    return value


def _device(value: str) -> str:
    if not _DEVICE.fullmatch(value):
        raise PydanticCustomError("device", "expected auto, cpu, cuda or cuda:N")
    return value


def _address(value: str) -> str:
    if not _ADDRESS.fullmatch(value):
        raise PydanticCustomError("scheduler", "expected an address such as tcp://HOST:8786")
    return value


def _web_address(value: str) -> str:
    if not re.fullmatch(r"https?://[^/\s@]+(/\S*)?", value):
        raise PydanticCustomError("label_studio", "expected an address that begins with http:// or https://")
    return value


Device = Annotated[str, AfterValidator(_device)]
AdminKey = Annotated[SecretStr, AfterValidator(_long_enough)]
Scheduler = Annotated[str, AfterValidator(_address)]
WebAddress = Annotated[str, AfterValidator(_web_address)]
Memory = Annotated[str, AfterValidator(_memory)]
Roots = Annotated[
    str,
    _each(
        lambda one: "://" in one or Path(one).is_absolute(), "expected absolute folders or URLs, with commas between"
    ),
]
Networks = Annotated[str, _each(_network, "expected addresses or networks, or *")]
Hosts = Annotated[
    str, _each(lambda one: one == "*" or _HOST.fullmatch(one), "expected names without a port, *.NAME or *")
]
OriginList = Annotated[
    str,
    _each(
        lambda one: one == "*" or _ORIGIN.fullmatch(one),
        "expected origins such as https://example.org, with commas between",
    ),
]
