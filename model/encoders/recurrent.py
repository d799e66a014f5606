"""Recurrent layers over padded sequences, in which no sequence's answer depends on the padding or on the others.

    T  positions of the longest sequence      B  sequences      C  inputs      U  units of a direction

The backward direction runs over sequences reversed within their own length, so that padding never precedes a sequence's own
rows. Outside training, sequences that have ended are left out of what follows: in a folder of sentences two rows of five
would be padding. torch's packed sequences are not used: on the CPU their steps are not fused, which costs more than they save,
and their backward pass takes ten times as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

CHUNK = 4096
"""Positions run at once outside training, passing the state on: an hour of sound needs the memory of a minute."""

FEWER = 0.75
"""Share of a span's sequences still going on at which, outside training, a new span begins without the others."""

FEW = 4
"""Sequences that run to the end of the longest: a step takes as long for one of them."""

SHORTEST = 16
"""Positions of a span at least."""

PADDED = 200_000
"""Positions of a padded batch outside training, over all of its sequences; a single longer sequence is its own batch."""


def saves_padding(module: nn.Module, device: torch.device, sequences: int) -> bool:
    """Whether sequences are read without padding: on a CPU, outside training, where there are several."""
    return device.type == "cpu" and sequences > 1 and not (module.training or torch.is_grad_enabled())


@dataclass(frozen=True)
class Halves:
    """The states of both directions, each in the order in which they were computed.

    Attributes:
        ahead, back: [S, U].
        at_ahead, at_back: [T, B] the row of `ahead` and of `back` with the state of a position; past a sequence's end any.
    """

    ahead: Tensor
    back: Tensor
    at_ahead: Tensor
    at_back: Tensor

    def rows(self, time: Tensor, sequence: Tensor) -> Tensor:
        """[N, 2 U] the states at some positions."""
        here = [(self.ahead, self.at_ahead), (self.back, self.at_back)]
        return torch.cat([states.index_select(0, at[time, sequence]) for states, at in here], 1)


class Bidirectional(nn.Module):
    """An LSTM in both directions, [T, B, C] -> [T, B, 2 U], longest first. Rows past a sequence's end are meaningless."""

    def __init__(self, inputs: int, units: int) -> None:
        super().__init__()
        self.ahead, self.back = nn.LSTM(inputs, units), nn.LSTM(inputs, units)

    def reset(self, generator: torch.Generator | None = None) -> None:
        """Orthogonal recurrent weights, and a bias of 1 on the gates that keep the state (Jozefowicz et al. 2015)."""
        with torch.no_grad():
            for lstm in (self.ahead, self.back):
                weights = dict(lstm.named_parameters())
                nn.init.xavier_uniform_(weights["weight_ih_l0"], generator=generator)
                for gate in weights["weight_hh_l0"].chunk(4):
                    gate.copy_(nn.init.orthogonal_(torch.empty_like(gate), generator=generator))
                weights["bias_ih_l0"].zero_()
                weights["bias_hh_l0"].zero_()
                weights["bias_ih_l0"][lstm.hidden_size : 2 * lstm.hidden_size] = 1.0

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        if not self.training and x.shape[1] == 1 and len(x) > CHUNK:
            return self._run_long(x[: int(lengths[0])])
        turned = reverse_index(len(x), lengths)
        spans = [(0, len(x), x.shape[1])]
        if not self.training:  # a GPU would wait for the lengths, and has the rows to spare
            spans = list_spans(lengths.tolist() if lengths.device.type == "cpu" else [len(x)] * x.shape[1])
        ahead = self._run(self.ahead, x, spans)
        back = self._run(self.back, _turn(x, turned), spans)
        both = torch.cat([ahead, _turn(back, turned)], 2)
        return both.to(next(self.parameters()).dtype)  # they are averaged over segments, which 16 bits are too few for

    def run_rows(self, rows: Tensor, at: Tensor, lengths: Sequence[int]) -> Halves:
        """The same without padding, outside training, from rows [R, C] of sequences of these lengths, longest first.

        `at` [T, B] is the row of each position; past a sequence's end any.
        """
        longest, dtype = lengths[0], next(self.parameters()).dtype
        turned = reverse_index(longest, torch.tensor(lengths, device=at.device))
        spans = list_spans(lengths) if at.device.type == "cpu" else [(0, longest, len(lengths))]
        ahead, place = _run_spans(self.ahead, rows, at, spans)
        back, _ = _run_spans(self.back, rows, at.gather(0, turned), spans)
        return Halves(ahead.to(dtype), back.to(dtype), place, place.gather(0, turned))

    def _run_long(self, x: Tensor) -> Tensor:
        """One long sequence [T, 1, C], chunk by chunk into the output: nothing else is as long."""
        units = self.ahead.hidden_size
        out, state = x.new_empty(len(x), 1, 2 * units), None
        for at in range(0, len(x), CHUNK):
            out[at : at + CHUNK, :, :units], state = self.ahead(x[at : at + CHUNK], state)
        state = None
        for end in range(len(x), 0, -CHUNK):
            here = slice(max(0, end - CHUNK), end)
            back, state = self.back(x[here].flip(0), state)
            out[here, :, units:] = back.flip(0)
        return out

    def _run(self, lstm: nn.LSTM, x: Tensor, spans: Sequence[tuple[int, int, int]]) -> Tensor:
        if len(spans) == 1:
            whole: Tensor = lstm(x)[0]
            return whole
        out, state = x.new_empty(*x.shape[:2], lstm.hidden_size), None
        for begin, end, going_on in spans:
            if state is not None:
                state = (state[0][:, :going_on].contiguous(), state[1][:, :going_on].contiguous())
            out[begin:end, :going_on], state = lstm(x[begin:end, :going_on], state)
        return out


def _run_spans(lstm: nn.LSTM, rows: Tensor, at: Tensor, spans: Sequence[tuple[int, int, int]]) -> tuple[Tensor, Tensor]:
    """The states [S, U] of one direction, span by span, and the place [T, B] of each position among them."""
    place = torch.zeros_like(at)
    found, state, begun = [], None, 0
    for begin, end, going_on in spans:
        here = at[begin:end, :going_on]
        if state is not None:
            state = (state[0][:, :going_on].contiguous(), state[1][:, :going_on].contiguous())
        x = rows.index_select(0, here.flatten()).view(*here.shape, -1)
        out, state = lstm(x, state)
        found.append(out.flatten(0, 1))
        place[begin:end, :going_on] = torch.arange(begun, begun + here.numel(), device=at.device).view(here.shape)
        begun += here.numel()
    return found[0] if len(found) == 1 else torch.cat(found), place


def list_spans(lengths: Sequence[int]) -> list[tuple[int, int, int]]:
    """(first position, last + 1, sequences) of what is run at once of sequences of these lengths, longest first.

    Examples:
        >>> list_spans([90, 80, 70, 60, 50, 40])
        [(0, 50, 6), (50, 90, 4)]
        >>> list_spans([50, 50, 50])
        [(0, 50, 3)]
    """
    spans, begin, going_on = [], 0, len(lengths)
    while begin < lengths[0]:
        few = lengths[int(FEWER * going_on)] if going_on > FEW else lengths[0]
        end = min(max(few, begin + SHORTEST), begin + CHUNK, lengths[0])
        spans.append((begin, end, going_on))
        begin = end
        while going_on and lengths[going_on - 1] <= begin:
            going_on -= 1
    return spans


def _turn(x: Tensor, turned: Tensor) -> Tensor:
    """[T, B, C] with position `turned[t, b]` of each sequence in the place of t."""
    columns = torch.arange(x.shape[1], device=x.device)
    return x.reshape(-1, x.shape[2])[turned * x.shape[1] + columns]


def reverse_index(longest: int, lengths: Tensor) -> Tensor:
    """[T, B] for each position, the one that takes its place when each sequence is reversed; padding stays where it is."""
    at = torch.arange(longest, device=lengths.device)[:, None]
    return torch.where(at < lengths, lengths - 1 - at, at)


def groups_of(lengths: Sequence[int]) -> list[tuple[int, int]]:
    """(first, last + 1) of groups of sequences, longest first, whose padded batches keep within `PADDED` positions."""
    groups, begin = [], 0
    while begin < len(lengths):
        end = min(len(lengths), begin + max(1, PADDED // lengths[begin]))
        groups.append((begin, end))
        begin = end
    return groups


def drop(x: Tensor, share: float, training: bool, noise: torch.Generator | None) -> Tensor:
    """Dropout from a generator of one's own, so that a resumed run draws what an unbroken one draws."""
    if not training or not share:
        return x
    keep = torch.empty(x.shape, dtype=x.dtype, device=x.device).bernoulli_(1 - share, generator=noise)
    return x * keep.mul_(1 / (1 - share))


def reset_linear(layer: nn.Linear | nn.Conv1d, generator: torch.Generator | None) -> None:
    """Uniform weights and biases within 1 / sqrt(inputs), as torch draws them."""
    bound = layer.weight[0].numel() ** -0.5
    with torch.no_grad():
        layer.weight.uniform_(-bound, bound, generator=generator)
        if layer.bias is not None:
            layer.bias.uniform_(-bound, bound, generator=generator)
