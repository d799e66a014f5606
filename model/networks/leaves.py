"""The last step of a gradient through a sum-product network: for the operations of torch (spn.py) and the kernels alike.

N  samples      K  outputs      D  input features      B  branches of a state      L  depths of the tree
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from phonechain.model.device import multiply_in


def finish_gradients(
    ctx: Any, x: Tensor, weight: Tensor, grad: Tensor, biases: list[Tensor]
) -> tuple[Tensor | None, ...]:
    """What a backward pass gives, from the gradients of the leaves [K B^L, N] and of the biases of each depth."""
    with multiply_in("bfloat16" if ctx.reduced else "float32", x.device):
        to_x = grad.T @ weight if ctx.needs_input_grad[0] else None
        to_weight = grad @ x if ctx.needs_input_grad[1] else None
    return (to_x, to_weight, None, None, *(g.view(shape) for g, shape in zip(biases, ctx.bias_shapes, strict=True)))
