"""The Triton kernels of the sum-product network against its definition, by Triton's interpreter on the CPU.

The interpreter runs every program of a kernel with numpy; it says nothing about speed, or about a GPU's own arithmetic, which
scripts/gpu_check.sh compares with the CPU's where there is one. That the kernels compile to machine code is a slow test.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any, Literal

import numpy as np
import pytest
import torch

from phonechain.features.errors import SettingsError
from phonechain.model import device
from phonechain.model.networks.spn import SumProductNetwork, _SumProduct, choose_operation
from tests.far import DEVICE, Gpu

needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="Triton is not installed: pip install -e '.[gpu]'"
)


@pytest.fixture(scope="module")
def kernels() -> Iterator[ModuleType]:
    """The module of the kernels, interpreted."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_INTERPRET", "1")
        yield importlib.import_module("phonechain.model.networks.kernels")


Case = tuple[int, int, int, int, int, int, Literal["sum", "max"], torch.dtype]

CASES: list[Case] = [  # layers, products, states, outputs, samples, inputs
    (1, 1, 1, 3, 5, 4, "sum", torch.float64),
    (1, 2, 3, 5, 7, 40, "sum", torch.float64),  # more inputs than a step of the products
    (2, 2, 3, 33, 65, 35, "sum", torch.float64),  # one more output and sample than a program has
    (2, 2, 3, 33, 65, 35, "max", torch.float64),
    (3, 2, 2, 3, 9, 6, "sum", torch.float64),
    (3, 1, 3, 4, 130, 6, "max", torch.float64),  # more samples than a step of the backward pass
    (1, 1, 17, 2, 3, 5, "sum", torch.float64),  # states that fill no power of two
    (2, 2, 3, 39, 70, 92, "sum", torch.float32),
]


def draw(case: Case) -> tuple[SumProductNetwork, torch.Tensor]:
    layers, products, states, outputs, samples, inputs, operator, kind = case
    torch.manual_seed(layers)
    network = SumProductNetwork(inputs, outputs, layers=layers, products=products, states=states, operator=operator)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(0.0, 0.7)
    return network.to(kind), torch.randn(samples, inputs).to(kind)


def run(operation: type[torch.autograd.Function], network: SumProductNetwork, x: torch.Tensor) -> list[torch.Tensor]:
    """The output, and its gradient, for an uneven weight of each entry, in the input and all weights."""
    x = x.clone().requires_grad_()
    shape = (network.layers, network.products, network.states)
    parameters = [network.weight, *network.bias]
    out = operation.apply(x, network.weight, shape, network.operator, *network.bias)
    weight = torch.cos(torch.arange(out.numel(), dtype=x.dtype)).view_as(out)
    return [out.detach(), *torch.autograd.grad(out, [x, *parameters], weight)]


@needs_triton
@pytest.mark.parametrize("case", CASES, ids=str)
def test_values_and_gradients_are_those_of_the_definition(case: Case, kernels: ModuleType) -> None:
    network, x = draw(case)
    found = run(kernels.FusedSumProduct, network, x)
    bound = 1e-11 if x.dtype == torch.float64 else 5e-4
    with torch.no_grad():  # the plain definition, without any of the operations' shortcuts
        expected = network.double().collapse(network.leaves(x.double()))
    torch.testing.assert_close(found[0].double(), expected, atol=bound, rtol=0)
    for mine, other in zip(found, run(_SumProduct, network, x.double()), strict=True):
        torch.testing.assert_close(mine.double(), other, atol=bound, rtol=0)


@needs_triton
def test_without_gradients_nothing_is_kept_and_the_answer_is_the_same(kernels: ModuleType) -> None:
    network, x = draw(CASES[2])
    arguments = (x, network.weight, (2, 2, 3), "sum", *network.bias)
    with torch.no_grad():
        plain = kernels.FusedSumProduct.apply(*arguments)
    assert torch.equal(plain, kernels.FusedSumProduct.apply(*arguments).detach())
    assert kernels.FusedSumProduct.apply(x[:0], *arguments[1:]).shape == (33, 0)


@needs_triton
def test_equally_good_states_share_the_gradient(kernels: ModuleType) -> None:
    network, x = draw((1, 2, 3, 4, 5, 6, "max", torch.float64))
    with torch.no_grad():
        network.weight.zero_()
        network.bias[1].zero_()
    for mine, other in zip(run(kernels.FusedSumProduct, network, x), run(_SumProduct, network, x), strict=True):
        torch.testing.assert_close(mine, other, atol=1e-12, rtol=0)


@pytest.fixture
def bfloat16_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton 3.9's interpreter multiplies the bits of bfloat16 as if they were integers; here it multiplies their values."""
    import triton.language as tl
    from triton.runtime.interpreter import InterpreterBuilder

    multiply = InterpreterBuilder.create_dot

    def widen(handle: Any) -> Any:
        if handle.data.dtype != np.uint16:
            return handle
        bits = handle.data.astype(np.uint32) << 16
        return type(handle)(bits.view(np.float32), tl.float32)

    monkeypatch.setattr(
        InterpreterBuilder, "create_dot", lambda self, a, b, *rest: multiply(self, widen(a), widen(b), *rest)
    )


@needs_triton
@pytest.mark.usefixtures("bfloat16_products")
def test_products_in_bfloat16_are_near_those_of_torch(kernels: ModuleType) -> None:
    network, x = draw(CASES[-1])
    exact = run(_SumProduct, network, x)
    with torch.autocast("cpu", torch.bfloat16):
        found = run(kernels.FusedSumProduct, network, x)
        rounded = run(_SumProduct, network, x)
    assert found[0].dtype == torch.float32
    error, other = (float((r[0] - exact[0]).abs().max()) for r in (found, rounded))
    assert 0 < error < 4 * other  # the interpreter cuts digits off where torch and a GPU round
    for mine, full in zip(found[1:], exact[1:], strict=True):
        assert float((mine - full).norm() / full.norm()) < 0.02


def test_they_are_used_on_a_gpu_only_where_asked_for() -> None:
    with Gpu():
        far = torch.ones(2, 3, device=DEVICE)
        assert choose_operation(far) is _SumProduct
    with pytest.raises(SettingsError, match="expected kernels, got 'speed'"):
        device.accelerate("speed")  # type: ignore[arg-type]


@needs_triton
def test_asked_for_they_are_used_on_a_gpu_alone(kernels: ModuleType) -> None:
    device.accelerate("kernels")
    try:
        with Gpu():
            assert choose_operation(torch.ones(2, 3, device=DEVICE)) is kernels.FusedSumProduct
        assert choose_operation(torch.ones(2, 3)) is _SumProduct
    finally:
        device.accelerate()


@pytest.mark.skipif(importlib.util.find_spec("triton") is not None, reason="Triton is installed")
def test_without_triton_they_are_refused() -> None:
    with pytest.raises(SettingsError, match="Triton is not installed"):
        device.accelerate("kernels")


COMPILE = """
import sys, triton.language as tl, triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from phonechain.model.networks import kernels

def build(kernel, constants, options):
    kinds = {n: "i32" if n in ("outputs", "samples", "features", "variables") else "*fp32" for n in kernel.arg_names}
    signature = {n: "constexpr" if n in constants else kind for n, kind in kinds.items()}
    places = {(kernel.arg_names.index(n),): value for n, value in constants.items()}
    source = ASTSource(fn=kernel, signature=signature, constexprs=places)
    return triton.compile(source, target=GPUTarget("cuda", int(sys.argv[1]), 32), options=options).asm["cubin"]

shape = dict(PRODUCTS=2, STATES=3, SUM=True, KIND=tl.float32)
for layers in (1, 2, 3):
    for keep in (False, True):
        sizes = dict(ROWS=kernels.OUTPUTS, COLUMNS=kernels.SAMPLES, BLOCK=kernels.FEATURES)
        assert build(
            kernels._sweep_up, dict(LAYERS=layers, KEEP=keep, REDUCED=layers == 2, **shape, **sizes), {"num_warps": kernels.WARPS}
        )
assert build(kernels._spread, dict(ROWS=4, PADDED=4, COLUMNS=kernels.SPREAD, **shape), {})
print("compiled")
"""


@needs_triton
@pytest.mark.slow
@pytest.mark.parametrize("capability", ["80", "90"])
def test_they_compile_to_machine_code_without_a_gpu(capability: str) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    done = subprocess.run([sys.executable, "-c", COMPILE, capability], env=environment, capture_output=True, text=True)
    assert done.stdout.strip() == "compiled", done.stderr[-2000:]
