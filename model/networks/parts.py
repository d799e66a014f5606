"""A large batch in parts: some sequences at a time, a long sequence in windows, so that memory does not grow with it.

N  packed rows      Y  labels
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor

from phonechain.model.chain.inference import ngram_range
from phonechain.model.chain.packing import Packing
from phonechain.model.chain.potentials import Potentials, Want
from phonechain.model.chain.scaling import SAFE_RANGE
from phonechain.model.chain.search import viterbi_in_windows
from phonechain.model.chain.single import sweep_windows

Whole = Callable[[Tensor, Packing], Tensor]
Window = Callable[[Tensor, Packing, slice], Potentials]


def posteriors_in_parts(x: Tensor, packing: Packing, rows: int, whole: Whole, window: Window) -> Tensor:
    """[N, Y] posteriors of features x [N, D], about `rows` segments at a time; a sequence of a quarter of them in windows.

    For batches of more rows, or with a longer sequence; others are done as a whole.

    Args:
        whole: posteriors of a batch.
        window: potentials of some positions of a batch of one sequence.
    """
    found: Tensor | None = None
    for first, last in _groups(packing.lengths, rows):
        where = torch.cat([packing.rows_of(n) for n in range(first, last)])
        part = Packing(packing.lengths[first:last], packing.device)
        order = where[part.from_concatenated]
        features = x.index_select(0, order)
        answer = None
        if last == first + 1 and part.rows > rows // 4:
            answer = marginals_in_windows(partial(window, features, part), part.rows, rows // 16)
        if answer is None:
            answer = whole(features, part)
        if found is None:
            found = answer.new_empty(packing.rows, answer.shape[1])
        found.index_copy_(0, order, answer)
    assert found is not None
    return found


def decode_in_parts(
    x: Tensor, packing: Packing, rows: int, whole: Callable[[Tensor, Packing], Tensor], window: Window
) -> Tensor:
    """[N] most probable label sequences, likewise; `whole` gives those of a batch."""
    if packing.rows <= rows and packing.lengths[0] <= rows // 4:
        return whole(x, packing)
    found = torch.empty(packing.rows, dtype=torch.long, device=x.device)
    for first, last in _groups(packing.lengths, rows):
        where = torch.cat([packing.rows_of(n) for n in range(first, last)])
        part = Packing(packing.lengths[first:last], packing.device)
        order = where[part.from_concatenated]
        features = x.index_select(0, order)
        if last == first + 1 and part.rows > rows // 4:
            potentials_of = partial(window, features, part)
            found[order] = viterbi_in_windows(potentials_of, part.rows, max(2, rows // 16))
        else:
            found[order] = whole(features, part)
    return found


def _groups(lengths: tuple[int, ...], rows: int) -> Iterator[tuple[int, int]]:
    """Groups (first, last + 1) of consecutive sequences with at most `rows` rows; one with more than a quarter is alone."""
    first = total = 0
    for n, length in enumerate(lengths):
        if n > first and (total + length > rows or lengths[n - 1] > rows // 4):
            yield first, n
            first, total = n, 0
        total += length
    yield first, len(lengths)


class _TooWide(Exception):
    """The n-gram potentials of a window have a range at which scaled probabilities are not exact."""


def marginals_in_windows(potentials_of: Callable[[slice], Potentials], length: int, size: int) -> Tensor | None:
    """[T, Y] posteriors of one long sequence, `size` positions at a time, from the potentials of some of them.

    None where only logarithms are exact, which need the whole sequence.
    """
    kind = torch.float32

    def potentials(span: slice) -> Potentials:
        nonlocal kind
        found = potentials_of(span).detach()
        kind = found.unary.dtype
        found = found.to(torch.float64)
        if not ngram_range(found, begins=span.start == 0) <= SAFE_RANGE[2, torch.float64]:
            raise _TooWide
        return found

    answer: Tensor | None = None
    try:
        for part in sweep_windows(potentials, length, size, Want(unary=True)):
            unary = part.marginals.unary
            assert unary is not None
            if answer is None:
                answer = unary.new_empty(length, unary.shape[1], dtype=kind)
            answer[part.rows] = unary.to(answer.dtype)
    except _TooWide:
        return None
    return answer
