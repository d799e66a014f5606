"""The most probable label sequences of a chain, and samples of it.

Axes: see the package.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from phonechain.model.chain.potentials import Potentials, edge_table, log_step, triple_table


def viterbi(potentials: Potentials) -> tuple[Tensor, Tensor]:
    """Most probable label sequences: labels [N] and their log-potentials [B]; no gradient.

    Examples:
        >>> from phonechain.model.chain.packing import Packing
        >>> unary = torch.tensor([[0.0, 1.0], [0.0, 0.0]])
        >>> swap = torch.tensor([[0.0, 3.0], [3.0, 0.0]])
        >>> viterbi(Potentials(Packing((2,)), unary, bigram=swap))
        (tensor([1, 0]), tensor([4.]))
    """
    labels, scores = k_best(potentials, 1)
    return labels[0], scores[0]


def k_best(potentials: Potentials, k: int) -> tuple[Tensor, Tensor]:
    """The k most probable label sequences of each chain, best first; no gradient.

    Returns:
        labels [k, N] and log-potentials [k, B]; where fewer than k sequences are possible, the score is -inf and the labels 0.
    """
    with torch.no_grad():
        p = potentials.detach()
        packing, y = p.packing, p.labels
        minus = float("-inf")
        # score[b, state, rank]; a state is a label (order 1, and position 0) or the pair (j, k) flattened
        score = p.unary.new_full((packing.batch_sizes[0], y, k), minus)
        score[:, :, 0] = p.unary[: packing.batch_sizes[0]]
        back: list[Tensor] = []  # of position t >= 1: [b, state, rank] -> previous label * k + previous rank
        small = torch.int16 if y * k < 2**15 else torch.int32
        finals: list[Tensor] = []  # of position t: [ending there, state, rank]
        for t in range(1, len(packing.batch_sizes)):
            here, size = slice(packing.offsets[t], packing.offsets[t + 1]), packing.batch_sizes[t]
            unary, edge = p.unary[here], edge_table(p, here)
            if p.order == 1:
                grown = score[:size, :, None, :] + edge[..., None]  # [b, j, k, rank]
                flat = grown.permute(0, 2, 1, 3).reshape(size, y, y * k)
                best, where = flat.topk(min(k, y * k), -1)
                best = best + unary[:, :, None]
            elif t == 1:
                best = score[:size, :, None, :] + edge[..., None] + unary[:, None, :, None]
                where = torch.arange(k, device=best.device).expand_as(best).contiguous()
                best, where = best.flatten(1, 2), where.flatten(1, 2)
            else:
                pairs = score[:size].view(size, y, y, 1, k)  # [b, i, j, ., rank]
                grown = pairs + triple_table(p, here)[..., None]
                flat = grown.permute(0, 2, 3, 1, 4).reshape(size, y * y, y * k)  # [b, (j k), i rank]
                best, where = flat.topk(min(k, y * k), -1)
                best = best + (edge + unary[:, None, :]).flatten(1)[..., None]
            finals.append(score[size:])
            score = best
            back.append(where.to(small))
        finals.append(score)
        return _trace_back(p, k, finals, back)


def viterbi_in_windows(potentials_of: Callable[[slice], Potentials], length: int, size: int) -> Tensor:
    """[T] the most probable labels of one long sequence, `size` positions at a time; no gradient.

    The potentials of a window are released after it; one index for each state of each position is kept.

    Args:
        potentials_of: the potentials of some positions; `edge` and `hyperedge` have to be those of the whole sequence.
        length: T.
    """
    with torch.no_grad():
        score = torch.empty(0)
        back: list[Tensor] = []  # of position t >= 1: [states] previous label that is best, on the host
        labels = 0
        for at in range(0, length, size):
            p = potentials_of(slice(at, min(at + size, length))).detach()
            labels = p.labels
            small = torch.uint8 if labels <= 256 else torch.int16
            found_here = []
            for n in range(p.packing.rows):
                here, t = slice(n, n + 1), at + n
                if t == 0:
                    score = p.unary[0]
                    continue
                onward = edge_table(p, here)[0]
                if p.order == 2 and t > 1:
                    score, where = (score[:, :, None] + triple_table(p, here)[0]).max(0)
                    score = score + (onward + p.unary[n])
                elif p.order == 2:
                    score, where = (
                        score[:, None] + onward + p.unary[n],
                        torch.arange(labels, device=score.device)[:, None].expand(-1, labels),
                    )
                else:
                    score, where = (score[:, None] + onward).max(0)
                    score = score + p.unary[n]
                found_here.append(where.to(small))
            if found_here:  # over to the host once per window, not at every step back
                back += torch.stack(found_here).cpu().unbind()
        found, device = torch.empty(length, dtype=torch.long), score.device
        state = [int(k) for k in np.unravel_index(int(score.argmax()), score.shape)]  # the last label, or the last two
        for t in range(length - 1, 0, -1):
            found[t] = state[-1]
            before = int(back[t - 1][tuple(state)])
            state = [before] if len(state) == 1 else [before, state[0]] if t > 1 else [state[0]]
        found[0] = state[-1]
        return found.to(device)


def _trace_back(p: Potentials, k: int, finals: list[Tensor], back: list[Tensor]) -> tuple[Tensor, Tensor]:
    packing, y = p.packing, p.labels
    labels = torch.zeros(k, packing.rows, dtype=torch.long, device=p.unary.device)
    scores = p.unary.new_full((k, len(packing.lengths)), float("-inf"))
    state = rank = torch.empty(0, dtype=torch.long, device=p.unary.device)
    alive = 0
    for t in range(len(packing.batch_sizes) - 1, -1, -1):
        size = packing.batch_sizes[t]
        if size > alive:  # chains that end here start here
            ending = finals[t]
            best, where = ending.flatten(1).topk(min(k, ending[0].numel()), -1)
            scores[: best.shape[1], alive:size] = best.T
            where = torch.nn.functional.pad(where, (0, k - where.shape[1]))
            new_state, new_rank = where // ending.shape[2], where % ending.shape[2]
            state = torch.cat([state, new_state]) if alive else new_state
            rank = torch.cat([rank, new_rank]) if alive else new_rank
            alive = size
        rows = slice(packing.offsets[t], packing.offsets[t + 1])
        pairs = p.order == 2 and t >= 1
        labels[:, rows] = (state % y if pairs else state).T
        if t:
            where = back[t - 1].flatten(1).gather(1, state * back[t - 1].shape[2] + rank).long()
            if p.order == 1:
                state, rank = where // k, where % k
            elif t == 1:
                state, rank = state // y, where
            else:
                state, rank = (where // k) * y + state // y, where % k
    return labels.masked_fill_(scores.isneginf()[:, packing.sequence], 0), scores


def sample(potentials: Potentials, n: int, generator: torch.Generator | None = None) -> Tensor:
    """[n, N] label sequences drawn from p(y | x), each chain on its own: forward filtering, backward sampling; no gradient."""
    with torch.no_grad():
        p = potentials.detach().to(torch.float64)
        packing, y = p.packing, p.labels
        states: list[Tensor] = []
        for t in range(len(packing.batch_sizes)):
            states.append(log_step(p, states[-1] if states else None, t, torch.logsumexp))
        labels = torch.zeros(n, packing.rows, dtype=torch.long, device=p.unary.device)

        def draw(logits: Tensor) -> Tensor:  # [n, states] -> [n]
            return torch.multinomial(torch.softmax(logits, -1), 1, generator=generator)[:, 0]

        for b, length in enumerate(packing.lengths):
            rows = [packing.offsets[t] + b for t in range(length)]
            last = draw(states[length - 1][b].flatten().expand(n, -1))
            labels[:, rows[-1]] = last % y
            if p.order == 2 and length > 1:
                labels[:, rows[-2]] = last // y
            for t in range(length - 1 - p.order, -1, -1):
                if p.order == 1:
                    table = edge_table(p, slice(rows[t + 1], rows[t + 1] + 1))[0]
                    logits = states[t][b] + table[:, labels[:, rows[t + 1]]].T
                else:
                    table = triple_table(p, slice(rows[t + 2], rows[t + 2] + 1))[0]
                    j, k = labels[:, rows[t + 1]], labels[:, rows[t + 2]]
                    logits = (states[t + 1][b][:, j] + table[:, j, k]).T
                labels[:, rows[t]] = draw(logits)
        return labels
