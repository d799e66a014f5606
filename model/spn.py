"""The sum-product network of Eq. Qsp: log-potentials of labels, and posteriors of its hidden variables.

    N  samples                     K  outputs (labels, or label n-grams)       D  input features
    L  layers of hidden variables  I  variables a parent state has in a layer  H  states of a variable

For each output a tree of L layers. With S_0 = y and a path S_1, S_2, ... of hidden variables down the tree, every prefix of
the path has a weight, and the last state has log-linear leaf features w^T x:

    log Q(y, x) = b_0[y] + sum_i log sum_h exp( b_1[y, i, h] + sum_i' log sum_h' exp( b_2[y, i, h, i', h'] + ... + w^T x ) )

The arrays keep the samples last, so that every sum over I or H runs along whole rows of N contiguous numbers.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

Operator = Literal["sum", "max"]


class SumProductNetwork(nn.Module):
    """log Q(y, x) for every output y (Eq. Qsp).

    Args:
        inputs: D.
        outputs: K.
        layers: L >= 1.
        products: I >= 1.
        states: H >= 1.
        operator: "sum" marginalises the hidden variables; "max" takes their best states, as the paper does for TIMIT.
        scale: standard deviation of the leaf weights at the start. Zero would be a saddle: all states of a variable would
            stay equal for ever.

    Shape:
        x [N, D] -> [N, K]
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
        return self.collapse(self.leaves(x)).T

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
        with torch.enable_grad():
            n = x.shape[0]
            bias = [b.detach()[..., None].expand(*b.shape, n).clone().requires_grad_() for b in self.bias]
            log_q = self.collapse(self.leaves(x).detach(), bias)
            grads = torch.autograd.grad(log_q.sum(), bias[1:])
        return [g.movedim(-1, 0) for g in grads]
