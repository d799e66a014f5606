"""A stand-in for a GPU: a tensor that claims `cuda:0` and computes on the CPU, for tests of where things live.

What a GPU refuses, it refuses: tensors of two devices in one operation (single numbers on the CPU excepted, as with torch), and
`.numpy()`. Beyond that it refuses what torch allows at a price: `.tolist()`, and indices from the CPU, which are copied each
time. Waits for the device are counted (`Gpu.syncs`), and so are copies to it (`Gpu.uploads`); an operation can be made to run
out of memory (`Gpu.limit`).

It is not a GPU: it says nothing about kernels, their precision, their speed or real memory, and has no bfloat16.

How it works: `Far` wraps a tensor of the CPU. To torch's C++ it is a tensor on `meta`, the one device that needs no backend and
whose gradients run in the calling thread; `Gpu`, a TorchFunctionMode, creates and moves tensors where Python names the device.
"""

from __future__ import annotations

import itertools
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

DEVICE = torch.device("cuda", 0)

_META = torch.device("meta")
_ATEN = torch.ops.aten

_TRANSFERS = {_ATEN._to_copy.default, _ATEN.copy_.default}
_SYNCS = {
    _ATEN._local_scalar_dense.default, _ATEN.nonzero.default, _ATEN.masked_select.default, _ATEN.equal.default,
    _ATEN.repeat_interleave.Tensor, _ATEN.bincount.default, _ATEN._unique2.default, _ATEN.unique_dim.default,
}  # fmt: skip
_INDEXED = {_ATEN.index.Tensor, _ATEN.index_put.default, _ATEN.index_put_.default}


class Far(torch.Tensor):
    """A tensor on the stand-in. `near` has its numbers."""

    near: torch.Tensor
    is_meta = False
    is_cuda = True
    is_cpu = False
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @staticmethod
    def __new__(cls, near: torch.Tensor) -> Far:
        made = torch.Tensor._make_wrapper_subclass(
            cls, near.size(), strides=near.stride(), storage_offset=near.storage_offset(), dtype=near.dtype,
            layout=near.layout, device=_META, requires_grad=False,
        )  # fmt: skip
        made.near = near
        return made

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return DEVICE

    def numpy(self, **_: Any) -> Any:
        raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() first.")

    def __array__(self, *_: Any) -> Any:
        return self.numpy()

    def tolist(self) -> Any:
        raise TypeError("tolist() of a tensor on cuda:0: use Tensor.cpu() first, once for all")

    def cuda(self, *_: Any, **__: Any) -> Far:
        return self

    def __repr__(self) -> str:  # type: ignore[override]
        return f"Far({self.near!r})"

    def __deepcopy__(self, memo: dict[int, Any]) -> Far:
        made = Far(self.near.clone())
        made.requires_grad_(self.requires_grad)
        if isinstance(self, torch.nn.Parameter):
            made._is_param = True
        memo[id(self)] = made
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        kwargs = kwargs or {}
        if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd"):
            with _Factories():
                made = func.decompose(*args, **kwargs)  # in inference mode they come here whole
            if made is not NotImplemented:
                return made
        flat, _ = tree_flatten((args, kwargs))
        if func not in _TRANSFERS:
            for x in flat:
                if isinstance(x, torch.Tensor) and not isinstance(x, Far) and x.dim():
                    raise RuntimeError(
                        f"Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu ({func})"
                    )
        Gpu.count(func, flat)
        target = kwargs.get("device")
        if func is _ATEN._to_copy.default and target is not None and torch.device(target) != _META:
            Gpu.syncs += 1
            return func(*tree_map(_near, args), **tree_map(_near, kwargs))
        if func is _ATEN.copy_.default and not isinstance(args[0], Far):
            Gpu.syncs += 1
            return args[0].copy_(args[1].near)
        if target is not None:
            kwargs = kwargs | {"device": torch.device("cpu")}
        found = func(*tree_map(_near, args), **tree_map(_near, kwargs))
        return _wrap_results(func, args, kwargs, found)


def _near(x: Any) -> Any:
    return x.near if isinstance(x, Far) else x


def _wrap(x: Any) -> Any:
    return Far(x) if isinstance(x, torch.Tensor) and not isinstance(x, Far) else x


def _wrap_results(func: Any, args: Any, kwargs: Any, found: Any) -> Any:
    """The results as far tensors; those that are an argument written in place are that argument."""
    written: list[Any] = []
    for n, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            given = kwargs.get(argument.name) if argument.name in kwargs else args[n] if n < len(args) else None
            written += [x for x in (given if isinstance(given, list | tuple) else [given]) if isinstance(x, Far)]
    own = {id(x.near): x for x in written}
    for x in written:
        if x.shape != x.near.shape:
            raise RuntimeError(f"{func} resized a tensor of the stand-in, which cannot follow")
    return tree_map(lambda x: own.get(id(x)) if id(x) in own else _wrap(x), found)


class _Factories(TorchDispatchMode):
    """Tensors that torch's own operations make on `meta`, such as the scalars of `where`, are the stand-in's."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        flat, _ = tree_flatten((args, kwargs))
        device = kwargs.get("device")
        if device is not None and torch.device(device) == _META and not any(isinstance(x, torch.Tensor) for x in flat):
            return Far(func(*args, **kwargs | {"device": torch.device("cpu")}))
        return func(*args, **kwargs)


class _Generator(torch.Generator):
    """A generator that is said to be on any device; the stand-in draws with the CPU's."""

    def __new__(cls, device: Any = "cpu") -> _Generator:
        return super().__new__(cls)


def _choose_autocast(autocast: Any) -> Any:
    """torch's, but on the stand-in, which multiplies in 32 bits whatever it is told."""
    return lambda kind, *args, **kwargs: nullcontext() if kind == "cuda" else autocast(kind, *args, **kwargs)


class Gpu(TorchFunctionMode):
    """While it is entered, torch has a GPU `cuda:0`, the stand-in.

    Attributes:
        syncs: times that the host has waited for the device since the start: transfers to it, `.item()`, shapes that depend
            on data, boolean masks as indices.
        uploads: tensors copied to the device.
        limit: elements of a result of a matrix product above which it is out of memory; None for no limit.
    """

    syncs = uploads = 0
    limit: int | None = None

    def __enter__(self) -> Gpu:
        self._patches = pytest.MonkeyPatch()
        self._patches.setattr(torch.cuda, "is_available", lambda: True)
        self._patches.setattr(torch.cuda, "device_count", lambda: 1)
        self._patches.setattr(torch.cuda, "get_device_name", lambda *_: "stand-in")
        self._patches.setattr(torch.cuda, "empty_cache", lambda: None)
        self._patches.setattr(torch, "Generator", _Generator)
        self._patches.setattr(torch, "autocast", _choose_autocast(torch.autocast))
        self._patches.setattr(torch, "inference_mode", torch.no_grad)  # in which a wrapper's views cannot be made
        Gpu.syncs, Gpu.uploads, Gpu.limit = 0, 0, None
        self._factories = _Factories()
        self._factories.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *reason: Any) -> None:
        super().__exit__(*reason)
        self._factories.__exit__(*reason)
        self._patches.undo()
        Gpu.limit = None

    @classmethod
    def count(cls, func: Any, flat: list[Any]) -> None:
        """Note an operation before it runs. Raises torch.OutOfMemoryError where it takes more than the limit."""
        masks = any(isinstance(x, torch.Tensor) and x.dtype in (torch.bool, torch.uint8) for x in flat[1:])
        if func in _SYNCS or (func in _INDEXED and masks):
            cls.syncs += 1
        if cls.limit is not None:
            size = max((x.numel() for x in flat if isinstance(x, Far)), default=0)
            if size > cls.limit:
                raise torch.OutOfMemoryError(f"CUDA out of memory: {size} elements (stand-in)")

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func in (torch.Tensor.to, torch.Tensor.cuda):
            return self._move(func, args, kwargs)
        device = kwargs.get("device")
        far = device is not None and torch.device(device).type == "cuda"
        if device is not None:
            kwargs["device"] = torch.device("cpu") if far else device
        method = bool(args) and isinstance(args[0], Far)
        if far and method:  # new_zeros(..., device=), zeros_like(x, device=)
            del kwargs["device"]
        if far and func in (torch.tensor, torch.as_tensor):
            Gpu.uploads += 1
        found = func(*args, **kwargs)
        return tree_map(_wrap, found) if far and not method else found

    def _move(self, func: Any, args: Any, kwargs: Any) -> Any:
        x, *rest = args
        values = [*rest, *kwargs.values()]
        far = any(_names(v, "cuda") for v in values) or any(isinstance(v, Far) for v in values)
        near = any(_names(v, "cpu") for v in values)
        if not far:
            return func(x, *rest, **kwargs) if near or not isinstance(x, Far) else self._cast(func, x, rest, kwargs)
        rest = [v for v in rest if not _names(v, "cuda")]
        kwargs = {k: v for k, v in kwargs.items() if not _names(v, "cuda")}
        kwargs.pop("non_blocking", None)
        rest = [v for v in rest if not isinstance(v, bool) and v is not None]
        Gpu.uploads += not isinstance(x, Far)
        moved = x if isinstance(x, Far) else Far(x.detach().clone())
        return func(moved, *rest, **kwargs) if rest or kwargs else moved

    @staticmethod
    def _cast(func: Any, x: Far, rest: Any, kwargs: Any) -> Any:
        return func(x, *[v for v in rest if v is not None], **{k: v for k, v in kwargs.items() if v is not None})


def _names(value: Any, kind: str) -> bool:
    """Whether a value is a device of that kind, or its name."""
    if isinstance(value, torch.device):
        return value.type == kind
    return isinstance(value, str) and value.partition(":")[0] == kind


def place(module: torch.nn.Module) -> set[str]:
    """The kinds of devices on which a module's weights and buffers are."""
    return {t.device.type for t in itertools.chain(module.parameters(), module.buffers())}
