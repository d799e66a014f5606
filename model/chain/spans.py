"""The probability of given labels over a span, such as a word.

Axes: see the package. With pair and single marginals p, and messages beta from the end of the sequence,

    p(y_a .. y_b | x)  =  p(y_a)  prod_{t=a+1..b} psi_t(y_{t-1}, y_t)  beta_b(y_b) / beta_a(y_a)                 (order 1)
    p(y_a .. y_b | x)  =  p(y_a, y_{a+1})  prod_{t=a+2..b} psi_t  beta_b(y_{b-1}, y_b) / beta_{a+1}(y_a, y_{a+1})  (order 2)

where psi_t is exp of all log-potentials that end at t.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from phonechain.model.chain.inference import marginals
from phonechain.model.chain.potentials import Potentials, edge_table, log_sum_exp, triple_table


def span_log_probabilities(potentials: Potentials, labels: Tensor, spans: Sequence[tuple[int, int]]) -> Tensor:
    """[S] log p(y_a .. y_{b-1} = labels | x) of each span (a, b) of one sequence; no gradient; in float64.

    Args:
        potentials: of a batch of one sequence.
        labels: [T].
        spans: a < b <= T.

    Raises:
        ValueError: a span outside the sequence, or a sequence whose log-potentials leave no label sequence possible.

    Examples:
        >>> from phonechain.model.chain.packing import Packing
        >>> potentials = Potentials(Packing((3,)), torch.zeros(3, 4))  # 4 labels, all alike
        >>> span_log_probabilities(potentials, torch.tensor([0, 1, 2]), [(0, 1), (1, 3)]).exp()
        tensor([0.2500, 0.0625], dtype=torch.float64)
    """
    length = potentials.packing.rows
    for a, b in spans:
        if not 0 <= a < b <= length:
            raise ValueError(f"expected spans within {length} positions, got {a} to {b}")
    with torch.no_grad():
        p = potentials.detach().to(torch.float64)
        y = labels.tolist()
        found = marginals(p, pairs=p.order == 2)
        after = _messages(p)
        gained = [0.0, *(_step_score(p, y, t) for t in range(1, length))]
        values = []
        for a, b in spans:
            first = a + p.order - 1  # of the conditional steps
            if b - a < p.order:
                log = found.unary[a, y[a]].log()
            else:
                start = (
                    found.unary[a, y[a]] if p.order == 1 or found.pair is None else found.pair[first, y[a], y[first]]
                )
                log = (
                    start.log()
                    + sum(gained[first + 1 : b])
                    + _message_at(after[b - 1], y, b - 1)
                    - _message_at(after[first], y, first)
                )
            values.append(log.masked_fill(log.isnan(), float("-inf")))  # where the start is impossible
        return torch.stack(values) if values else p.unary.new_zeros(0)


def _messages(p: Potentials) -> list[Tensor]:
    """log beta_t: [k], or [j, k] from the second position on with order 2."""
    last = p.packing.rows - 1
    pairs = p.order == 2 and last > 0
    found = [p.unary.new_zeros((p.labels,) * (2 if pairs else 1))]
    for t in range(last, 0, -1):
        here = slice(t, t + 1)
        onward = edge_table(p, here)[0] + p.unary[t]  # [j, k]
        if p.order == 2 and t > 1:
            found.append(log_sum_exp(triple_table(p, here)[0] + onward + found[-1], 2))  # [i, j]
        else:
            found.append(log_sum_exp(onward + found[-1], 1))
    return found[::-1]


def _step_score(p: Potentials, y: Sequence[int], t: int) -> float:
    """Sum of the log-potentials that end at t, for the given labels."""
    here = slice(t, t + 1)
    value = p.unary[t, y[t]] + edge_table(p, here)[0, y[t - 1], y[t]]
    if p.order == 2 and t > 1:
        value = value + triple_table(p, here)[0, y[t - 2], y[t - 1], y[t]]
    return float(value)


def _message_at(message: Tensor, y: Sequence[int], t: int) -> Tensor:
    return message[y[t]] if message.dim() == 1 else message[y[t - 1], y[t]]
