"""log Z of a chain and its gradients, which are the marginals: by the sweeps of its order, or by sums of logs.

    N  packed rows (see packing.py)      B  sequences      Y  labels      T  longest sequence
    i, j, k  labels of positions t-2, t-1, t

One forward and one backward sweep give both: on scaled probabilities in the dtype, or in float64, where the range of the
n-gram log-potentials allows it (scaling.py); beyond that by sums of logs.
"""

from __future__ import annotations

import torch
from torch import Tensor

from phonechain.model.chain import first_order, second_order
from phonechain.model.chain.potentials import Potentials, log_step
from phonechain.model.chain.scaling import SAFE_RANGE, Gradients


def log_z_and_gradients(
    potentials: Potentials, want: tuple[bool, ...], weight: Tensor | None = None
) -> tuple[Tensor, Gradients]:
    """log Z [B] and its gradients in the five potentials (None where not wanted), weighted by sequence if asked.

    The shared tables' gradients are sums over rows; the others' are marginals.
    """
    dtype = potentials.unary.dtype
    spread = _ngram_range(potentials)
    order = potentials.order
    if dtype == torch.float32 and spread > SAFE_RANGE[order, torch.float32]:
        log_z, grads = log_z_and_gradients(
            potentials.to(torch.float64), want, None if weight is None else weight.to(torch.float64)
        )
        return log_z.to(dtype), tuple(None if g is None else g.to(dtype) for g in grads)  # type: ignore[return-value]
    if not spread <= SAFE_RANGE[order, torch.float64]:
        return _by_logs(potentials, want, weight)
    return (
        first_order.sweep(potentials, want, weight, spread)
        if order == 1
        else second_order.sweep(potentials, want, weight)
    )


def _ngram_range(potentials: Potentials) -> float:
    """Nats between the largest and the smallest n-gram log-potential of a position (an upper bound where tables add up)."""
    spread = 0.0
    for table in (potentials.bigram, potentials.trigram):
        if table is not None:
            low, high = table.aminmax()
            spread += float(high - low)
    offsets = potentials.packing.offsets
    for table, start in ((potentials.edge, offsets[1]), (potentials.hyperedge, offsets[min(2, len(offsets) - 1)])):
        if table is not None and start < table.shape[0]:
            rows = table[start:].flatten(1)
            spread += float((rows.amax(1) - rows.amin(1)).max())
    return spread


def _by_logs(potentials: Potentials, want: tuple[bool, ...], weight: Tensor | None) -> tuple[Tensor, Gradients]:
    """The same by sums of logs and automatic differentiation: slow, and right for any finite potentials."""
    with torch.enable_grad():
        n, y = potentials.unary.shape
        shapes = ((n, y), (y, y), (n, y, y), (y, y, y), (n, y, y, y))
        leaves = [  # a wanted marginal whose table is absent is the gradient in a table of zeros
            None
            if x is None and not wanted
            else (potentials.unary.new_zeros(shape) if x is None else x.detach().clone())
            for x, wanted, shape in zip(potentials.tensors(), want, shapes, strict=True)
        ]
        for x, wanted in zip(leaves, want, strict=True):
            if x is not None:
                x.requires_grad_(wanted)
        packing = potentials.packing
        local = Potentials(packing, *leaves)  # type: ignore[arg-type]
        state: Tensor | None = None
        ends = []
        for t, size in enumerate(packing.batch_sizes):
            state = log_step(local, state, t, torch.logsumexp)
            following = packing.batch_sizes[t + 1] if t + 1 < len(packing.batch_sizes) else 0
            ends.append(state[following:size].flatten(1).logsumexp(1))  # sequences whose last position is t
        log_z = torch.cat(ends[::-1])
        asked = [x for x in leaves if x is not None and x.requires_grad]
        total = (log_z if weight is None else log_z * weight).sum()
        # nothing depends on an n-gram table alone where no sequence is that long
        found = iter(
            torch.autograd.grad(total, asked, allow_unused=True) if total.requires_grad else [None] * len(asked)
        )
    grads: list[Tensor | None] = []
    for x in leaves:
        g = next(found) if x is not None and x.requires_grad else None
        grads.append(torch.zeros_like(x) if g is None and x is not None and x.requires_grad else g)
    return log_z.detach(), tuple(grads)  # type: ignore[return-value]
