"""One chain learns from another: the counts that the other expects, and the cross entropy between the two distributions.

For chains q and p over the same labels, with q's expected counts of what each table of p's log-potentials scores,

    -sum_y q(y | x) log p(y | x)  =  log Z  -  <log-potentials of p, expected counts under q>

so that its gradient is p's expected counts minus q's, as the gradient of the likelihood is p's minus those of the labels:
whole sequences are compared, exactly, at the price of one more sweep. (The same for q of first order: Wang et al. 2020,
"Structure-level knowledge distillation for multilingual sequence labeling".)
"""

from __future__ import annotations

import torch
from torch import Tensor

from phonechain.model.chain.inference import check_possible, log_partition, log_z_and_gradients
from phonechain.model.chain.potentials import Gradients, Potentials, Want


def expected_counts(potentials: Potentials, like: Potentials) -> Gradients:
    """What a chain expects of each table that `like` has, in its shape, whichever tables it has itself; no gradient.

    Raises:
        ValueError: a sequence whose log-potentials leave no label sequence possible.

    Examples:
        >>> from phonechain.model.chain.packing import Packing
        >>> fair = Potentials(Packing((3,)), torch.zeros(3, 2))
        >>> expected_counts(fair, Potentials(Packing((3,)), torch.zeros(3, 2), bigram=torch.zeros(2, 2))).bigram
        tensor([[0.5000, 0.5000],
                [0.5000, 0.5000]])
    """
    wanted = like.tensors()
    with torch.no_grad():
        tables = [
            torch.zeros_like(other) if own is None and other is not None else own
            for own, other in zip(potentials.tensors(), wanted, strict=True)
        ]
        unary, *others = tables
        assert unary is not None
        filled = Potentials(potentials.packing, unary, *others)
        log_z, counts = log_z_and_gradients(filled, Want(*(table is not None for table in wanted)))
    check_possible(log_z)
    return counts


def cross_entropy(potentials: Potentials, counts: Gradients) -> Tensor:
    """[] -sum_y q(y | x) log p(y | x) in nats, over all sequences, from q's expected counts; differentiable.

    Examples:
        >>> from phonechain.model.chain.packing import Packing
        >>> fair = Potentials(Packing((3,)), torch.zeros(3, 2))
        >>> cross_entropy(fair, expected_counts(fair, fair)).exp().round()  # its own entropy: that of three coins
        tensor(8.)
    """
    value = log_partition(potentials).double().sum()
    for table, count in zip(potentials.tensors(), counts, strict=True):
        if table is not None and count is not None:
            value = value - (table * count).sum(
                dtype=torch.float64
            )  # large, as log Z is, where their difference is small
    return value.to(potentials.unary.dtype)
