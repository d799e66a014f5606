"""The sum-product network of Eq. Qsp: log-potentials of labels, and posteriors of its hidden variables.

    N  samples                     K  outputs (labels, or label n-grams)       D  input features
    L  layers of hidden variables  I  child variables per parent state         H  states per variable

Each output has a tree of L layers. With S_0 = y and a path S_1, S_2, ... of hidden variables down the tree, every prefix of the
path has a weight, and the last state has log-linear leaf features w^T x:

    log Q(y, x) = b_0[y] + sum_i log sum_h exp( b_1[y, i, h] + sum_i' log sum_h' exp( b_2[y, i, h, i', h'] + ... + w^T x ) )

The arrays keep the samples last, so that every sum over I or H runs along whole rows of N contiguous numbers.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from torch import Tensor, nn

from phonechain.model.device import uses
from phonechain.model.networks.base import Factor
from phonechain.model.networks.leaves import finish_gradients

Operator = Literal["sum", "max"]

SCORED = 2**17
"""Leaves that are computed at once where only scores are wanted: half a megabyte, which stays in the cache."""

LARGEST_PRODUCT = 1e30
"""Far below what overflows single precision."""


class SumProductNetwork(Factor):
    """log Q(y, x) for every output y (Eq. Qsp).

    Args:
        inputs: D.
        outputs: K.
        layers: L >= 1.
        products: I >= 1.
        states: H >= 1.
        operator: "sum" marginalises the hidden variables; "max" takes their best states, as the paper does for TIMIT.
        scale: standard deviation of the initial leaf weights. Zero would be a saddle point: all states of a variable would stay
            equal.

    Shape:
        x [N, D] -> [N, K]

    Examples:
        >>> factor = SumProductNetwork(92, 39, layers=2, products=2, states=3)
        >>> factor(torch.zeros(5, 92)).shape
        torch.Size([5, 39])
    """

    def __init__(
        self, inputs: int, outputs: int, *, layers: int, products: int, states: int, operator: Operator = "sum", scale: float = 0.02
    ) -> None:  # fmt: skip
        super().__init__()
        self.inputs, self.outputs = inputs, outputs
        self.layers, self.products, self.states = layers, products, states
        self.operator: Operator = operator
        self.scale = scale
        branches = (products * states) ** layers
        self.weight = nn.Parameter(torch.empty(outputs * branches, inputs))  # rows in the order [K, I, H, I, H, ...]
        self.bias = nn.ParameterList(
            nn.Parameter(torch.empty(outputs, *[products, states] * depth)) for depth in range(layers + 1)
        )
        self.reset()

    def reset(self, generator: torch.Generator | None = None) -> None:
        """Draw the weights: leaves and the biases of hidden states small and random, output biases zero."""
        with torch.no_grad():
            self.weight.normal_(0.0, self.scale, generator=generator)
            for depth, bias in enumerate(self.bias):
                bias.zero_() if depth == 0 else bias.normal_(0.0, self.scale, generator=generator)

    def forward(self, x: Tensor) -> Tensor:
        shape = (self.layers, self.products, self.states)
        operation = choose_operation(x)
        if operation is _SumProduct and not torch.is_grad_enabled():
            return score(x, self.weight, shape, self.operator, *self.bias).T
        return operation.apply(x, self.weight, shape, self.operator, *self.bias).T

    def constant(self) -> float:
        """log of the number of joint assignments of the hidden variables, 0 for the maximum (see Factor)."""
        value = 0.0
        for _ in range(self.layers if self.operator == "sum" else 0):
            value = self.products * (math.log(self.states) + value)
        return value

    def leaves(self, x: Tensor) -> Tensor:
        """[K, I, H, ..., N] leaf log-potentials w^T x, without any bias."""
        shape = (self.outputs, *[self.products, self.states] * self.layers, x.shape[0])
        return (self.weight @ x.T).view(shape)

    def collapse(self, leaves: Tensor, bias: list[Tensor] | None = None) -> Tensor:
        """[K, N] from leaves [K, I, H, ..., N]: alternate sums over states (in logs) and over variables, the last layer first.

        `bias` replaces the module's own: one tensor a depth, of shape [K, I, H, ...] or with a last axis N.
        """
        biases = [b[..., None] for b in self.bias] if bias is None else bias
        value = leaves
        for depth in range(self.layers, 0, -1):
            value = value + biases[depth]
            value = (torch.logsumexp(value, -2) if self.operator == "sum" else value.amax(-2)).sum(-2)
        return value + biases[0]

    def hidden_posteriors(self, x: Tensor) -> list[Tensor]:
        """Posteriors of the hidden variables given x and the output, layer by layer.

        Entry l - 1 is [N, K, I, H, ..., I, H] (l pairs): the probability that the variables on that path prefix have these
        states, given that the output is K's. They are the gradients of log Q in the biases (for "max": indicators of the
        best states). Multiply by the posterior of the output for the joint one.
        """
        shape = (self.layers, self.products, self.states)
        with torch.no_grad():
            _, posteriors = _sweep_up(x, self.weight, shape, self.operator, *self.bias)
            path = x.new_ones(self.outputs, x.shape[0])
            tables = []
            for depth, posterior in enumerate(reversed(posteriors), 1):
                path = (posterior * path[:, None, None, :]).flatten(0, 2)
                tables.append(path.view(*self.bias[depth].shape, x.shape[0]).movedim(-1, 0))
        return tables


def choose_operation(x: Tensor) -> type[torch.autograd.Function]:
    """What computes log Q: the kernels for a GPU, where they were asked for, else the operations of torch."""
    if x.device.type == "cuda" and x.dtype == torch.float32 and uses("kernels"):
        from phonechain.model.networks.kernels import FusedSumProduct  # which needs Triton

        return FusedSumProduct
    return _SumProduct


def score(x: Tensor, weight: Tensor, shape: tuple[int, int, int], operator: Operator, *bias: Tensor) -> Tensor:
    """log Q [K, N] alone, without the states' posteriors, which only a gradient needs; on a CPU some outputs at a time.

    The sums of a product are multiplied before their logarithm is taken: each is from 1, since its largest term is divided
    out, to H.
    """
    layers, products, states = shape
    found = x.new_empty(len(bias[0]), len(x))
    leaves = (products * states) ** layers
    step = max(1, SCORED // (leaves * max(1, len(x)))) if x.device.type == "cpu" else len(found)
    for first in range(0, len(found), step):
        here = slice(first, min(first + step, len(found)))
        rows = slice(here.start * leaves, here.stop * leaves)
        value = torch.addmm(bias[layers][here].reshape(-1, 1), weight[rows], x.T).to(weight.dtype)
        for depth in range(layers, 0, -1):
            best, sums = _sum_states(value.view(-1, states, len(x)), operator)
            value = best.view(-1, products, len(x)).sum(1).add_(bias[depth - 1][here].reshape(-1, 1))
            if sums is not None:
                value += _log_of_product(sums.view(-1, products, len(x)), states)
        found[here] = value
    return found


def _sum_states(value: Tensor, operator: Operator) -> tuple[Tensor, Tensor | None]:
    """[R, N] the largest over states [R, H, N], and the sum of all divided by it, which is None for the maximum."""
    if value.shape[1] == 2:
        one, other = value.unbind(1)
        best = torch.maximum(one, other)
        return best, (one - other).abs_().neg_().exp_().add_(1.0) if operator == "sum" else None
    top = value.amax(1, keepdim=True)
    return top[:, 0], value.sub_(top).exp_().sum(1) if operator == "sum" else None


def _log_of_product(sums: Tensor, most: int) -> Tensor:
    """[R, N] log of the product over the variables [R, I, N] of sums from 1 to `most`."""
    if most ** sums.shape[1] > LARGEST_PRODUCT:
        return sums.log_().sum(1)
    return (sums[:, 0] * sums[:, 1] if sums.shape[1] == 2 else sums.prod(1)).log_()


def _sweep_up(
    x: Tensor, weight: Tensor, shape: tuple[int, int, int], operator: Operator, *bias: Tensor
) -> tuple[Tensor, list[Tensor]]:
    """log Q [K, N]; and the states' posteriors given the path above them, [rows above, I, H, N] of depth L, ..., 1."""
    layers, products, states = shape
    value = torch.addmm(bias[layers].reshape(-1, 1), weight, x.T).to(weight.dtype)  # [K I H ... I H, N]
    rows, n = value.shape
    posteriors = []
    for depth in range(layers, 0, -1):
        rows //= products * states  # of the depth above
        value = value.view(rows * products, states, n)
        top = value.amax(1, keepdim=True)
        if operator == "sum":
            posterior = value.sub_(top).exp_()
            norm = posterior.sum(1, keepdim=True)
            posterior.div_(norm)
            top += norm.log_()
        else:  # equally good states share the gradient
            posterior = (value == top).to(value.dtype)
            posterior.div_(posterior.sum(1, keepdim=True))
        posteriors.append(posterior.view(rows, products, states, n))
        value = top.view(rows, products, n).sum(1).add_(bias[depth - 1].reshape(-1, 1))
    return value, posteriors


class _SumProduct(torch.autograd.Function):
    """`collapse(leaves(x))` in few passes over the leaves: the sweep up leaves the states' posteriors in their place,
    and the gradient of a leaf is the product of the posteriors on its path."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, shape: tuple[int, int, int], operator: Operator, *bias: Tensor
    ) -> Tensor:
        value, posteriors = _sweep_up(x, weight, shape, operator, *bias)
        ctx.save_for_backward(x, weight, *posteriors)
        ctx.bias_shapes = [b.shape for b in bias]
        ctx.reduced = torch.is_autocast_enabled(x.device.type)
        return value

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *outputs: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, *posteriors = ctx.saved_tensors
        grad = outputs[0].contiguous()  # [rows of this depth, N]
        biases = [grad.sum(1)]
        for posterior in reversed(posteriors):
            grad = (posterior * grad[:, None, None, :]).flatten(0, 2)
            biases.append(grad.sum(1))
        return finish_gradients(ctx, x, weight, grad, biases)
