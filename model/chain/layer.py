"""A CRF as a layer on top of any network: padded batches in and out, the packed chain inside.

    B  sequences      T  positions of the longest      C  tags      N  positions of all sequences (packed rows)

Parameters of order 1 have the names and shapes of pytorch-crf's, so that its weights load.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from phonechain.model.chain import inference as chain
from phonechain.model.chain.packing import Packing
from phonechain.model.chain.potentials import Potentials

Reduction = Literal["none", "sum", "mean", "token_mean"]


class CRF(nn.Module):
    """Linear-chain conditional random field over tag sequences, of order 1 or 2.

    The score of a sequence is the sum of its emissions, of `start_transitions` at its first tag, `end_transitions` at its
    last one, `transitions` [from, to] between neighbours and, of order 2, `second_transitions` [C, C, C] over three in a row.

    Args:
        num_tags: C.
        order: 1 or 2.

    Raises:
        ValueError: no tags, or another order.

    Examples:
        >>> crf = CRF(3)
        >>> emissions = torch.zeros(2, 4, 3)  # [B, T, C], from any network
        >>> tags = torch.tensor([[0, 1, 2, 0], [2, 2, 0, 0]])
        >>> mask = torch.tensor([[True, True, True, True], [True, True, False, False]])
        >>> loss = -crf(emissions, tags, mask, reduction="mean")
        >>> loss.backward()
        >>> crf.decode(emissions, mask).shape
        torch.Size([2, 4])
        >>> crf.marginals(emissions, mask).sum(2).round(decimals=4)
        tensor([[1., 1., 1., 1.],
                [1., 1., 0., 0.]])
    """

    def __init__(self, num_tags: int, order: int = 1) -> None:
        super().__init__()
        if num_tags < 1:
            raise ValueError(f"expected at least one tag, got num_tags = {num_tags}")
        if order not in (1, 2):
            raise ValueError(f"expected an order of 1 or 2, got {order}")
        self.num_tags, self.order = num_tags, order
        self.start_transitions = nn.Parameter(torch.empty(num_tags))
        self.end_transitions = nn.Parameter(torch.empty(num_tags))
        self.transitions = nn.Parameter(torch.empty(num_tags, num_tags))
        self.second_transitions = nn.Parameter(torch.empty((num_tags,) * 3)) if order == 2 else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw every weight uniformly between -0.1 and 0.1."""
        for weight in self.parameters():
            nn.init.uniform_(weight, -0.1, 0.1)

    def extra_repr(self) -> str:
        """What `repr` shows in the parentheses."""
        return f"num_tags={self.num_tags}, order={self.order}"

    def forward(
        self, emissions: Tensor, tags: Tensor, mask: Tensor | None = None, reduction: Reduction = "sum"
    ) -> Tensor:
        """Log-likelihood log p(tags | emissions), differentiable in the emissions and every weight.

        Args:
            emissions: [B, T, C] scores of each tag at each position.
            tags: [B, T], 0 to C - 1 where the mask is on; not read elsewhere.
            mask: [B, T] bool, on for the first positions of each sequence, at least one; None: all of them.
            reduction: "none" for [B]; "sum" or "mean" over sequences; "token_mean" over positions.

        Raises:
            ValueError: shapes that do not fit, a mask with gaps, tags outside 0 to C - 1, or another reduction.

        Examples:
            >>> crf = CRF(2)
            >>> crf(torch.zeros(5, 3, 2), torch.ones(5, 3, dtype=torch.long), reduction="none").shape
            torch.Size([5])
        """
        if reduction not in ("none", "sum", "mean", "token_mean"):
            raise ValueError(f'expected reduction to be "none", "sum", "mean" or "token_mean", got {reduction!r}')
        rows = self._rows(emissions, mask)
        if tags.shape != emissions.shape[:2]:
            raise ValueError(f"expected tags of shape {tuple(emissions.shape[:2])}, got {tuple(tags.shape)}")
        if tags.is_floating_point() or tags.dtype == torch.bool:
            raise ValueError(f"expected tags to be integers, got {tags.dtype}")
        labels = rows.pack(tags.long())
        low, high = (int(x) for x in labels.aminmax())
        if low < 0 or high >= self.num_tags:
            raise ValueError(
                f"expected tags from 0 to {self.num_tags - 1} where the mask is on, got {low if low < 0 else high}"
            )
        likelihood = chain.log_likelihood(self._potentials(emissions, rows), labels)
        if reduction == "none":
            return likelihood[rows.rank]
        total = likelihood.sum()
        if reduction == "sum":
            return total
        return total / (len(emissions) if reduction == "mean" else rows.packing.rows)

    @torch.no_grad()
    def decode(self, emissions: Tensor, mask: Tensor | None = None, pad_tag: int = 0) -> Tensor:
        """[B, T] the most probable tag sequences (Viterbi), `pad_tag` where the mask is off; no gradient.

        Examples:
            >>> crf = CRF(2)
            >>> crf.decode(torch.tensor([[[0.0, 9.0], [9.0, 0.0]]]))
            tensor([[1, 0]])
        """
        rows = self._rows(emissions, mask)
        return rows.pad(chain.viterbi(self._potentials(emissions, rows))[0], pad_tag)

    @torch.no_grad()
    def marginals(self, emissions: Tensor, mask: Tensor | None = None) -> Tensor:
        """[B, T, C] p(y_t | emissions), zero where the mask is off; no gradient.

        Examples:
            >>> crf = CRF(2)
            >>> crf.marginals(torch.zeros(1, 3, 2)).shape
            torch.Size([1, 3, 2])
        """
        rows = self._rows(emissions, mask)
        return rows.pad(chain.marginals(self._potentials(emissions, rows)).unary, 0.0)

    def _potentials(self, emissions: Tensor, rows: _Rows) -> Potentials:
        emissions = emissions.to(self.transitions.dtype)  # half precision from a network under autocast
        unary = _PackEmissions.apply(emissions, self.start_transitions, self.end_transitions, rows)
        return Potentials(rows.packing, unary, self.transitions, trigram=self.second_transitions)

    def _rows(self, emissions: Tensor, mask: Tensor | None) -> _Rows:
        if emissions.dim() != 3 or emissions.shape[2] != self.num_tags:
            raise ValueError(f"expected emissions of shape [batch, time, {self.num_tags}], got {list(emissions.shape)}")
        if not emissions.is_floating_point():
            raise ValueError(f"expected emissions to be floating-point numbers, got {emissions.dtype}")
        batch, time = emissions.shape[:2]
        if not batch or not time:
            raise ValueError(f"expected at least one sequence of one position, got {list(emissions.shape)}")
        if mask is None:
            return _Rows(np.full(batch, time), time, emissions.device)
        if mask.shape != emissions.shape[:2]:
            raise ValueError(f"expected a mask of shape {(batch, time)}, got {tuple(mask.shape)}")
        on = mask.bool()
        lengths = on.sum(1)
        if not bool((on == (torch.arange(time, device=on.device) < lengths[:, None])).all()):
            raise ValueError("expected each sequence's mask to be on from its first position to its last, without gaps")
        if int(lengths.min()) < 1:
            empty = int(lengths.argmin())
            raise ValueError(f"expected at least one position in each sequence, got none in sequence {empty}")
        return _Rows(lengths.cpu().numpy(), time, emissions.device)


class _Rows:
    """Where padded positions [B, T] lie in packed rows [N].

    Attributes:
        rank: [B] the packing's number of each sequence.
        where: [N] b * T + t of each packed row; None where all sequences are full, for then packed is time-major.
    """

    def __init__(self, lengths: np.ndarray, time: int, device: torch.device) -> None:
        self.batch, self.time = len(lengths), time
        order, self.packing = Packing.longest_first(lengths, device)
        self.rank = torch.from_numpy(np.argsort(order)).to(device)
        self.where: Tensor | None = None
        if self.packing.rows < self.batch * time:
            rows = torch.from_numpy(order * time).to(device)
            self.where = rows[self.packing.sequence] + self.packing.time

    def pack(self, padded: Tensor) -> Tensor:
        """[B, T, ...] -> [N, ...]."""
        if self.where is None:
            shape = padded.shape[2:]  # a copy even where a view would do: what is packed may be written to
            return padded.new_empty(self.time, self.batch, *shape).copy_(padded.transpose(0, 1)).flatten(0, 1)
        return padded.flatten(0, 1).index_select(0, self.where)

    def pad(self, packed: Tensor, value: float) -> Tensor:
        """[N, ...] -> [B, T, ...], `value` where there is no row."""
        shape = packed.shape[1:]
        if self.where is None:
            return packed.view(self.time, self.batch, *shape).transpose(0, 1).contiguous()
        padded = packed.new_full((self.batch * self.time, *shape), value)
        return padded.index_copy_(0, self.where, packed).view(self.batch, self.time, *shape)


class _PackEmissions(torch.autograd.Function):
    """Packed emissions [N, C] with the scores of starting and ending added to first and last rows, in few passes."""

    @staticmethod
    def forward(ctx: Any, emissions: Tensor, start: Tensor, end: Tensor, rows: _Rows) -> Tensor:
        ctx.rows = rows
        packed = rows.pack(emissions)
        packed[: rows.batch] += start
        return packed.index_add_(0, rows.packing.last, end.expand(rows.batch, -1))

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *outputs: Tensor) -> tuple[Tensor | None, ...]:
        rows, (grad,) = ctx.rows, outputs
        return (
            rows.pad(grad.contiguous(), 0.0) if ctx.needs_input_grad[0] else None,
            grad[: rows.batch].sum(0) if ctx.needs_input_grad[1] else None,
            grad.index_select(0, rows.packing.last).sum(0) if ctx.needs_input_grad[2] else None,
            None,
        )
