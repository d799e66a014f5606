"""The sum-product network of spn.py as Triton kernels: leaf products and sums in one pass, for GPUs.

    N  samples      K  outputs      D  input features      B  branches of a state, I times H      d  depth in the tree, 0 to L

A program walks down the tree of some outputs for some samples, depth first. The product of a leaf goes straight into the sum
over its states, so that the leaves [K B^L, N] are only written where a gradient will need them, and never read again before.

Imported only where Triton is installed and its kernels were asked for (model/device.py); checked by Triton's interpreter on
the CPU (tests/model/test_kernels.py) and by scripts/gpu_check.sh on a GPU.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from phonechain.model.networks.leaves import finish_gradients

OUTPUTS, SAMPLES, FEATURES = 32, 64, 32
"""Outputs and samples of a program of the forward pass, and features of a step of its products."""

WARPS = 8
"""Of the forward pass: with 4, its registers overflow (as compiled for compute capability 9.0)."""

SPREAD = 128
"""Samples of a step of the backward pass."""


@triton.jit
def _value(
    x, weight, bias, values, norms, k, n, path, outputs, samples, features,
    DEPTH: tl.constexpr, LAYERS: tl.constexpr, PRODUCTS: tl.constexpr, STATES: tl.constexpr,
    SUM: tl.constexpr, KEEP: tl.constexpr, REDUCED: tl.constexpr, BLOCK: tl.constexpr, KIND: tl.constexpr,
):  # fmt: skip
    """[k, n] value of the state at the end of a path, for the outputs k and samples n, from everything below it.

    `bias`, `values` and `norms` point to the rows of this depth: K B^d of the first two, K B^d I of the last, which has the
    sums over the variables below.
    """
    here = k[:, None] < outputs
    inside = here & (n[None, :] < samples)
    rows = outputs
    row = k
    for _ in tl.static_range(DEPTH):
        rows *= PRODUCTS * STATES
        row *= PRODUCTS * STATES
    row = row + path
    own = tl.load(bias + row, mask=k < outputs, other=0.0)
    value = tl.zeros((k.shape[0], n.shape[0]), KIND) + own[:, None]
    if DEPTH == LAYERS:
        for at in range(0, features, BLOCK):
            column = at + tl.arange(0, BLOCK)
            seen = column < features
            w = tl.load(
                weight + row[:, None].to(tl.int64) * features + column[None, :], mask=here & seen[None, :], other=0.0
            )
            given = tl.load(
                x + n[None, :].to(tl.int64) * features + column[:, None],
                mask=(n[None, :] < samples) & seen[:, None],
                other=0.0,
            )
            if REDUCED:
                w, given = w.to(tl.bfloat16), given.to(tl.bfloat16)
            value = tl.dot(w, given, value, input_precision="ieee", out_dtype=KIND)
    else:
        for i in range(PRODUCTS):
            top = tl.full((k.shape[0], n.shape[0]), float("-inf"), KIND)
            total = tl.zeros((k.shape[0], n.shape[0]), KIND)
            for h in range(STATES):
                child = _value(
                    x, weight, bias + rows, values + (rows.to(tl.int64) * samples if DEPTH > 0 else 0),
                    norms + rows.to(tl.int64) * PRODUCTS * samples, k, n, (path * PRODUCTS + i) * STATES + h,
                    outputs, samples, features, DEPTH + 1, LAYERS, PRODUCTS, STATES, SUM, KEEP, REDUCED, BLOCK, KIND,
                )  # fmt: skip
                high = tl.maximum(top, child)
                if SUM:
                    total = total * tl.exp(top - high) + tl.exp(child - high)
                top = high
            if SUM:
                top += tl.log(total)
            if KEEP:
                at = (row[:, None].to(tl.int64) * PRODUCTS + i) * samples + n[None, :]
                tl.store(norms + at, top, mask=inside)
            value += top
    if KEEP and DEPTH > 0:
        tl.store(values + row[:, None].to(tl.int64) * samples + n[None, :], value, mask=inside)
    return value


@triton.jit
def _sweep_up(
    x, weight, bias, values, norms, out, outputs, samples, features,
    LAYERS: tl.constexpr, PRODUCTS: tl.constexpr, STATES: tl.constexpr, SUM: tl.constexpr, KEEP: tl.constexpr,
    REDUCED: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, BLOCK: tl.constexpr, KIND: tl.constexpr,
):  # fmt: skip
    """log Q [K, N] of some outputs and samples; with KEEP also `values` and `norms` of every depth."""
    k = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    n = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    value = _value(
        x, weight, bias, values, norms, k, n, 0, outputs, samples, features,
        0, LAYERS, PRODUCTS, STATES, SUM, KEEP, REDUCED, BLOCK, KIND,
    )  # fmt: skip
    inside = (k[:, None] < outputs) & (n[None, :] < samples)
    tl.store(out + k[:, None].to(tl.int64) * samples + n[None, :], value, mask=inside)


@triton.jit
def _spread(
    values, norms, grad, bias_grad, variables, samples,
    PRODUCTS: tl.constexpr, STATES: tl.constexpr, SUM: tl.constexpr, ROWS: tl.constexpr, PADDED: tl.constexpr,
    COLUMNS: tl.constexpr, KIND: tl.constexpr,
):  # fmt: skip
    """In place of the values [V, H, N] of a depth their gradients, from those of the depth above [V / I, N]; and their sums."""
    v = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    h = tl.arange(0, PADDED)
    total = tl.zeros((ROWS, PADDED), KIND)
    state = (v[:, None] < variables) & (h[None, :] < STATES)
    for start in range(0, samples, COLUMNS):
        n = start + tl.arange(0, COLUMNS)
        inside = (v[:, None] < variables) & (n[None, :] < samples)
        g = tl.load(grad + (v // PRODUCTS)[:, None].to(tl.int64) * samples + n[None, :], mask=inside, other=0.0)
        norm = tl.load(norms + v[:, None].to(tl.int64) * samples + n[None, :], mask=inside, other=0.0)
        place = values + (v[:, None, None].to(tl.int64) * STATES + h[None, :, None]) * samples + n[None, None, :]
        there = state[:, :, None] & (n[None, None, :] < samples)
        value = tl.load(place, mask=there, other=float("-inf"))
        if SUM:
            posterior = tl.exp(value - norm[:, None, :])
        else:  # equally good states share the gradient
            best = (value == norm[:, None, :]).to(KIND)
            posterior = best / tl.maximum(tl.sum(best, 1), 1.0)[:, None, :]
        part = posterior * g[:, None, :]
        tl.store(place, part, mask=there)
        total += tl.sum(tl.where(there, part, 0.0), 2)
    tl.store(bias_grad + v[:, None] * STATES + h[None, :], total, mask=state)


class FusedSumProduct(torch.autograd.Function):
    """As `_SumProduct` of spn.py: log Q [K, N] from x [N, D], the leaves' weights [K B^L, D] and the biases of each depth."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, shape: tuple[int, int, int], operator: str, *bias: Tensor
    ) -> Tensor:
        layers, products, states = shape
        x, weight = x.contiguous(), weight.contiguous()
        samples, outputs = len(x), bias[0].numel()
        keep = any(ctx.needs_input_grad)
        rows = [b.numel() for b in bias]
        values = weight.new_empty(sum(rows[1:]) if keep else 0, samples)
        norms = weight.new_empty(sum(rows[:-1]) * products if keep else 0, samples)
        out = weight.new_empty(outputs, samples)
        reduced = torch.is_autocast_enabled(x.device.type)
        if samples:
            _sweep_up[triton.cdiv(outputs, OUTPUTS), triton.cdiv(samples, SAMPLES)](
                x, weight, torch.cat([b.flatten() for b in bias]), values, norms, out, outputs, samples, x.shape[1],
                layers, products, states, operator == "sum", keep, reduced, OUTPUTS, SAMPLES, FEATURES, _kind(weight),
                num_warps=WARPS,
            )  # fmt: skip
        ctx.save_for_backward(x, weight, values, norms)
        ctx.shape, ctx.operator, ctx.reduced = shape, operator, reduced
        ctx.bias_shapes = [b.shape for b in bias]
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *outputs: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, values, norms = ctx.saved_tensors
        layers, products, states = ctx.shape
        padded = triton.next_power_of_2(states)
        grad = outputs[0].contiguous()
        biases = [grad.sum(1)]
        above = below = 0  # rows of the sums and of the values of the depths before
        for _ in range(layers):
            variables = len(grad) * products
            own, sums = values[below : below + variables * states], norms[above : above + variables]
            biases.append(own.new_zeros(len(own)))
            if len(x):
                step = max(1, 16 // padded)
                _spread[triton.cdiv(variables, step),](
                    own, sums, grad, biases[-1], variables, len(x),
                    products, states, ctx.operator == "sum", step, padded, SPREAD, _kind(weight),
                )  # fmt: skip
            above, below, grad = above + variables, below + len(own), own
        return finish_gradients(ctx, x, weight, grad, biases)


def _kind(weight: Tensor) -> tl.dtype:
    return tl.float64 if weight.dtype == torch.float64 else tl.float32
