"""The device that a model computes on, the CPU or a GPU that torch can use through CUDA, and in which precision.

A model's weights and everything that a batch computes live on one device. Inputs go there once per batch, answers come back
once per batch; files hold no trace of it.
"""

from __future__ import annotations

import importlib.util
import logging
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Literal, TypeVar, get_args

import torch

from phonechain.features.errors import SettingsError

CPU = torch.device("cpu")

Accelerator = Literal["kernels"]
"""Faster ways to the same answers on a GPU, used only where asked for: "kernels", for sum-product networks, by Triton."""

EXPECTED = "auto, cpu, cuda or cuda:N"

Precision = Literal["float32", "bfloat16"]
"""Of the numbers that the products of encoders and factors multiply. The chain's sums are always of 32 bits or more."""

_NAME = re.compile(r"(auto|cpu|cuda|cuda:\d{1,3})", re.ASCII)

_used: set[Accelerator] = set()

_told: set[torch.device] = set()

logger = logging.getLogger(__name__)

Result = TypeVar("Result")


def choose_device(name: str | torch.device = "auto") -> torch.device:
    """The device of that name; "auto" is the first GPU where torch can use one, else the CPU.

    Raises:
        SettingsError: another name, or a GPU that torch cannot use.

    Examples:
        >>> choose_device("cpu")
        device(type='cpu')
    """
    given = str(name)
    if not _NAME.fullmatch(given):
        raise SettingsError(f"expected {EXPECTED}, got {given[:40]!r}", pointer="device", value=given[:40])
    usable = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if given == "cpu" or (given == "auto" and not usable):
        return CPU
    number = int(given.partition(":")[2] or 0)
    if number >= usable:
        raise SettingsError(f"{given}: {_why_not(usable)}", pointer="device", value=given)
    return torch.device("cuda", number)


def describe_device(device: torch.device) -> str:
    """The device with its model, for people: "cpu", or "cuda:0 (NVIDIA H100)".

    Examples:
        >>> describe_device(torch.device("cpu"))
        'cpu'
    """
    return str(device) if device.type != "cuda" else f"{device} ({torch.cuda.get_device_name(device)})"


def make_generator(seed: int, device: torch.device) -> torch.Generator:
    """A generator of random numbers on the device."""
    return torch.Generator(device).manual_seed(seed)


def multiply_in(precision: Precision, device: torch.device) -> AbstractContextManager[object]:
    """Within it torch multiplies matrices, convolves and runs recurrent layers in that precision; results may be of 16 bits.

    bfloat16 keeps 8 binary digits of a number in the range of float32. Processors with units for it, such as AMX or those of
    GPUs, multiply several times as fast; others are slower with it.

    Examples:
        >>> with multiply_in("bfloat16", torch.device("cpu")):
        ...     (torch.ones(2, 2) @ torch.ones(2, 2)).dtype
        torch.bfloat16
    """
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16")


def accelerate(*names: Accelerator) -> None:
    """Use these on GPUs from now on in this process, and no others. What computes on the CPU is not touched.

    Raises:
        SettingsError: another name, or Triton is not installed.

    Examples:
        >>> accelerate()
        >>> uses("kernels")
        False
    """
    for name in names:
        if name not in get_args(Accelerator):
            raise SettingsError(f"expected {', '.join(get_args(Accelerator))}, got {name!r}", pointer="accelerate")
    if "kernels" in names and importlib.util.find_spec("triton") is None:
        raise SettingsError(
            "kernels: Triton is not installed; it comes with torch's builds for CUDA", pointer="accelerate"
        )
    _used.clear()
    _used.update(names)


def uses(name: Accelerator) -> bool:
    """Whether that was asked for."""
    return name in _used


def note_out_of_memory(device: torch.device) -> None:
    """Give memory that torch keeps for later back to the device, and log, once in a process, that it did not suffice."""
    if device not in _told:
        _told.add(device)
        logger.warning("out of memory on %s: batches that do not fit are done in halves", device)
    if device.type == "cuda":
        torch.cuda.empty_cache()


def try_halves(whole: Callable[[], Result], halves: Callable[[], Result], device: torch.device) -> Result:
    """`whole()`, or where the device's memory is too small for it `halves()`, which does the same with less at a time."""
    try:
        return whole()
    except torch.OutOfMemoryError:
        pass  # outside the handler the failed attempt's tensors are free
    note_out_of_memory(device)
    return halves()


def try_batches(run: Callable[[int], Result], size: int, device: torch.device) -> Result:
    """`run(size)`, or where the device's memory is too small the same with half the size, down to 1."""
    if size == 1:
        return run(1)
    return try_halves(lambda: run(size), lambda: try_batches(run, size // 2, device), device)


def _why_not(usable: int) -> str:
    if usable:
        return f"torch can use {usable} GPU{'s' if usable > 1 else ''}, the first of which is cuda:0"
    if torch.version.cuda is None:
        return "no GPU that torch can use (torch is a CPU build)"
    return "no GPU that torch can use (is there a driver, and does the container see the GPU?)"
