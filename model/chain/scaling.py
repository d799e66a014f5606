"""Shared by the sweeps over scaled probabilities: the range in which scaling is exact, and exp of log-potentials.

Axes: see the package.

Why scaling is safe. With p = exp(unary) and E = exp(n-gram log-potentials), a label is lost at a position only if its p
underflows, that is, if it is a factor of e^-87 (float32) or e^-708 (float64) below the best one there. Its n-grams can raise
it again by the range of E, once for each n-gram that contains it: twice in a chain of order 1, three times in one of order 2.
If they cannot raise it to where it matters, nothing is lost, however large the unary potentials are. So the range of the
n-gram log-potentials alone decides whether float32 is exact, float64 is needed, or (beyond that) sums of logs.
"""

from __future__ import annotations

import torch
from torch import Tensor

SAFE_RANGE = {(1, torch.float32): 36.0, (1, torch.float64): 336.0, (2, torch.float32): 24.0, (2, torch.float64): 224.0}
"""By order and dtype, the n-gram range in nats up to which the loss is below the dtype's own rounding.

(87 - 15) and (708 - 36) nats, over 2 or 3.
"""


def local_table(edge: Tensor, shared: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """([j, k, N] exp of the local log-potentials less their maximum, times `shared` [j, k] if given; [N] that maximum)."""
    turned = edge.permute(1, 2, 0).contiguous()  # no copy where the factor made it in this order
    top = turned.flatten(0, 1).amax(0)
    table = torch.sub(turned, top).exp_()
    return (table if shared is None else table.mul_(shared[:, :, None])), top
