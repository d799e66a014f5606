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

from phonechain.model.chain.inference import marginals, row_scores
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
        if not spans:
            return p.unary.new_zeros(0)
        begin, end = torch.tensor(spans, device=labels.device).unbind(1)
        first = (begin + p.order - 1).clamp_max(
            length - 1
        )  # the position whose probability the conditional steps go on from
        found = marginals(p, pairs=p.order == 2)
        single = found.unary.gather(1, labels[:, None])[:, 0]
        start = single if found.pair is None else _at_labels(found.pair, labels)
        after = _at_labels(_messages(p), labels)
        gained, barred = _cumulate(row_scores(p, labels))
        log = start[first].log() + gained[end - 1] - gained[first] + after[end - 1] - after[first]
        log = torch.where(end - begin < p.order, single[begin].log(), log)
        barred = (barred[end - 1] > barred[first]) & (end - begin >= p.order)
        return log.masked_fill(log.isnan() | barred, float("-inf"))  # NaN where the start is impossible


def _cumulate(rows: Tensor) -> tuple[Tensor, Tensor]:
    """[T] sums of the rows up to each, without those of -inf; and how many of those there were."""
    barred = rows.isneginf()
    return rows.masked_fill(barred, 0.0).cumsum(0), barred.cumsum(0)


def _at_labels(tables: Tensor, labels: Tensor) -> Tensor:
    """[T] of tables [T, k] or [T, j, k] the entry of each position's label, or of its label and the one before."""
    if tables.dim() == 2:
        return tables.gather(1, labels[:, None])[:, 0]
    code = labels.roll(1) * tables.shape[2] + labels
    return tables.flatten(1).gather(1, code[:, None])[:, 0]


def _messages(p: Potentials) -> Tensor:
    """log beta_t: [T, k]; or with order 2 [T, j, k], that of the first position repeated for all j."""
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
    if pairs:
        found[-1] = found[-1].expand_as(found[0])
    return torch.stack(found[::-1])
