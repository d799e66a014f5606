"""The n-gram inventory: which label bigrams and trigrams training has seen, and the way between sparse and dense scores.

Sparse factors exist for seen n-grams only. An unseen n-gram has log-potential 0: it is not forbidden.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor


def seen(sequences: Iterable[np.ndarray], n: int) -> Tensor:
    """[P, n] the different label n-grams of the sequences (arrays of label indices), in lexicographic order.

    Labels of -1 are gaps: no n-gram goes across them.
    """
    found = [np.lib.stride_tricks.sliding_window_view(y, n) for y in sequences if len(y) >= n]
    if not found:
        return torch.zeros(0, n, dtype=torch.long)
    different = np.unique(np.concatenate(found), axis=0).astype(np.int64)
    return torch.from_numpy(different[(different >= 0).all(1)])


def flat(ngrams: Tensor, labels: int) -> Tensor:
    """[P] positions of the n-grams [P, n] in a dense table of `labels` ** n entries."""
    index = torch.zeros(len(ngrams), dtype=torch.long, device=ngrams.device)
    for column in ngrams.unbind(1):
        index = index * labels + column
    return index


def to_dense(scores: Tensor, ngrams: Tensor, labels: int) -> Tensor:
    """[P] or [N, P] scores of the inventory -> [Y, Y(, Y)] or [N, Y, Y(, Y)], zero where nothing was seen; differentiable.

    In memory the samples come last, as the factors make them and the chain reads them.
    """
    n = ngrams.shape[1]
    table = scores.new_zeros(labels**n, *scores.shape[:-1])
    dense = table.index_copy(0, flat(ngrams, labels), scores.movedim(-1, 0))
    return dense.view(*(labels,) * n, *scores.shape[:-1]).movedim(list(range(n)), list(range(-n, 0)))
