"""Separately trained networks in one chain: a product of experts (Hinton 2002) over label sequences.

    p(y | x)  is proportional to  prod_k p_k(y | x)

Their log-potentials add up, so inference is that of one chain, and exact. They read different inputs, frames or the 92
features of segments, and so make different errors; the temperature, fitted afterwards, accounts for what they have in common.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from phonechain.model.chain import inference as chain
from phonechain.model.chain.packing import Packing
from phonechain.model.encoders.frames import FrameBatch, LongFrames
from phonechain.model.encoders.long import LongRows
from phonechain.model.networks.base import SequenceNetwork
from phonechain.model.networks.crf import ALL, ConditionalRandomField
from phonechain.model.settings import ModelSettings


class ProductOfExperts(ConditionalRandomField):
    """One chain with the potentials of several.

    Args:
        settings: its `experts` are those of `members`, in order.
        features: D of the segment features; members that read frames alone see none of them.
        members: trained networks over the same labels.

    Shape:
        h [N, E1 + E2 + ...], what the members' encoders give, side by side.
    """

    def __init__(
        self, settings: ModelSettings, features: int, labels: int, members: Sequence[ConditionalRandomField]
    ) -> None:
        SequenceNetwork.__init__(self, settings, features, labels)
        self.members = nn.ModuleList(members)
        self.factor_settings = [f for m in members for f in m.factor_settings]
        self.factors = nn.ModuleList()
        self.bigram_weight = self.trigram_weight = None

    @property
    def experts(self) -> list[ConditionalRandomField]:
        """The members."""
        return [m for m in self.members if isinstance(m, ConditionalRandomField)]

    @property
    def width(self) -> int:
        """E, of all members together."""
        return sum(m.width for m in self.experts)

    def encode(self, x: Tensor, packing: Packing, frames: FrameBatch | None = None) -> Tensor:
        """[N, E] what the members' factors see."""
        return torch.cat([m.encode(x[:, : m.features], packing, frames) for m in self.experts], 1)

    def encode_long(self, x: Tensor, frames: LongFrames | None = None) -> LongRows:
        """The same of one long recording, some rows at a time."""
        parts = [m.encode_long(x[:, : m.features], frames) for m in self.experts]
        return LongRows(len(x), self.width, lambda span: torch.cat([part[span] for part in parts], 1))

    def potentials(self, h: Tensor, packing: Packing, rows: slice = ALL) -> chain.Potentials:
        """The members' log-potentials, added up."""
        parts = h.split([m.width for m in self.experts], 1)
        found = [m.potentials(part, packing, rows) for m, part in zip(self.experts, parts, strict=True)]
        tables = []
        for each in zip(*(p.tensors() for p in found), strict=True):
            there = [table for table in each if table is not None]
            tables.append(sum(there[1:], there[0]) if there else None)
        unary, *others = tables
        assert unary is not None
        return chain.Potentials(found[0].packing, unary, *others)

    def hidden_posteriors(self, h: Tensor, packing: Packing, *, temperature: float = 1.0) -> list[list[Tensor]]:
        """Those of the members' factors in turn, each with the labels of the whole chain."""
        with torch.no_grad():
            label = self.posteriors(h, packing, temperature=temperature)
            parts = h.split([m.width for m in self.experts], 1)
            return [
                t
                for m, part in zip(self.experts, parts, strict=True)
                for t in m.hidden_given_labels(part, packing, label)
            ]
