"""log Z of a chain and its gradients, which are the marginals: by the sweeps of its order, or in logarithms.

Axes: see the package.

One forward and one backward sweep give both: on scaled probabilities in the dtype, or in float64, where the range of the
n-gram log-potentials allows it (scaling.py); beyond that by sums of logs.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from phonechain.model.chain import first_order, second_order, single
from phonechain.model.chain.potentials import Gradients, Potentials, Want, log_step, log_sum_exp
from phonechain.model.chain.scaling import SAFE_RANGE


def log_z_and_gradients(potentials: Potentials, want: Want, weight: Tensor | None = None) -> tuple[Tensor, Gradients]:
    """log Z [B], float64, and its gradients with respect to the five potentials where wanted, weighted by sequence if given.

    Potentials of -inf are handled exactly, in logarithms; a sequence without any possible labels has log Z = -inf and
    gradients of zero.
    """
    dtype = potentials.unary.dtype
    spread = ngram_range(potentials)
    order = potentials.order
    if dtype == torch.float32 and not spread <= SAFE_RANGE[order, torch.float32]:
        wide = None if weight is None else weight.double()
        log_z, grads = log_z_and_gradients(potentials.to(torch.float64), want, wide)
        return log_z, grads.map(lambda g: g.to(dtype))
    if not spread <= SAFE_RANGE[order, torch.float64]:
        return _all_nan(potentials, want) if _has_nan(potentials) else _sweep_logs(potentials, want, weight)
    if order == 1:
        log_z, grads = first_order.sweep(potentials, want, weight, spread)
    elif len(potentials.packing.lengths) == 1:
        log_z, grads = single.sweep(potentials, want, weight)
    else:
        log_z, grads = second_order.sweep(potentials, want, weight)
    if math.isfinite(float(log_z.sum())) or _has_nan(potentials):
        return log_z, grads
    wide = None if weight is None else weight.double()  # unaries of -inf at all labels of a position
    log_z, grads = _sweep_logs(potentials.to(torch.float64), want, wide)
    return log_z, grads.map(lambda g: g.to(dtype))


def ngram_range(potentials: Potentials, *, begins: bool = True) -> float:
    """Nats between the largest and the smallest n-gram log-potential of a position (an upper bound where tables add up).

    `begins` says whether the first positions begin their sequences, so that their n-grams are not read.
    """
    spread = 0.0
    for table in (potentials.bigram, potentials.trigram):
        if table is not None:
            low, high = table.aminmax()
            spread += float(high - low)
    offsets = potentials.packing.offsets if begins else (0, 0, 0)
    for table, start in ((potentials.edge, offsets[1]), (potentials.hyperedge, offsets[min(2, len(offsets) - 1)])):
        if table is not None and start < table.shape[0]:
            rows = table[start:].flatten(1)
            spread += float((rows.amax(1) - rows.amin(1)).max())
    return spread


def _has_nan(potentials: Potentials) -> bool:
    return any(x is not None and bool(x.isnan().any()) for x in potentials.tensors())


def _all_nan(potentials: Potentials, want: Want) -> tuple[Tensor, Gradients]:
    """NaN as log Z and as every wanted gradient."""
    unary = potentials.unary
    n, y = unary.shape
    shapes = ((n, y), (y, y), (n, y, y), (y, y, y), (n, y, y, y))
    grads = (unary.new_full(shape, torch.nan) if wanted else None for shape, wanted in zip(shapes, want, strict=True))
    return unary.new_full((len(potentials.packing.lengths),), torch.nan, dtype=torch.float64), Gradients(*grads)


def _sweep_logs(potentials: Potentials, want: Want, weight: Tensor | None) -> tuple[Tensor, Gradients]:
    """The same in logarithms with automatic differentiation: slow, but correct for any potentials below +inf."""
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
