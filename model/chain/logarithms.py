"""The sums of a chain in logarithms, with automatic differentiation: slow, but correct for any potentials below +inf.

Axes: see the package.
"""

from __future__ import annotations

import torch
from torch import Tensor

from phonechain.model.chain.potentials import Gradients, Potentials, Want, log_step, log_sum_exp


def sweep(potentials: Potentials, want: Want, weight: Tensor | None) -> tuple[Tensor, Gradients]:
    """log Z [B], float64, and its gradients where wanted, weighted by sequence if given."""
    potentials, shift = potentials.without_offsets()
    with torch.enable_grad():
        n, y = potentials.unary.shape
        shapes = ((n, y), (y, y), (n, y, y), (y, y, y), (n, y, y, y))

        def leaf(table: Tensor | None, shape: tuple[int, ...], wanted: bool) -> Tensor | None:
            if table is None:  # a wanted marginal whose table is absent is the gradient in a table of zeros
                return potentials.unary.new_zeros(shape, requires_grad=True) if wanted else None
            return table.detach().clone().requires_grad_(wanted)

        unary, *tables = (leaf(*x) for x in zip(potentials.tensors(), shapes, want, strict=True))
        assert unary is not None
        leaves = (unary, *tables)
        log_z = _log_z(Potentials(potentials.packing, unary, *tables))
        asked = [x for x in leaves if x is not None and x.requires_grad]
        total = (log_z if weight is None else log_z * weight)[log_z.isfinite()].sum()
        # log Z does not depend on an n-gram table where no sequence is that long
        found = torch.autograd.grad(total, asked, allow_unused=True) if total.requires_grad else [None] * len(asked)
    grads = iter(torch.zeros_like(x) if g is None else g for x, g in zip(asked, found, strict=True))
    return log_z.detach() + shift, Gradients(*(next(grads) if wanted else None for wanted in want))


def _log_z(potentials: Potentials) -> Tensor:
    sizes = potentials.packing.batch_sizes
    state: Tensor | None = None
    ends = []
    for t, size in enumerate(sizes):
        state = log_step(potentials, state, t, log_sum_exp)
        following = sizes[t + 1] if t + 1 < len(sizes) else 0
        ends.append(log_sum_exp(state[following:size].flatten(1), 1))  # sequences whose last position is t
    return torch.cat(ends[::-1])
