"""Answers about a recording's labels as one sequence, beside those about each segment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from phonechain.features.segments import Segment
from phonechain.model.chain.packing import Packing
from phonechain.model.networks.base import SequenceNetwork


@dataclass(frozen=True)
class RankedSequence:
    """A label sequence and log p(y | x), in nats."""

    labels: tuple[str, ...]
    log_probability: float

    @property
    def probability(self) -> float:
        return float(np.exp(self.log_probability))


@dataclass(frozen=True)
class SequenceAnswer:
    """A recording's labels as a sequence; T segments.

    Attributes:
        answered: the answers of all segments as a sequence.
        n_best: the most probable sequences, best first.
        entropy: of the distribution over all sequences, in nats; None for chains that cannot compute it.
        segment_entropies: [T] of each segment's own distribution over labels, in nats.
        posterior_error: [T] bound on the error of the posteriors: 0 where they are exact.
        given: log probability of the input's labels, summing out those that are missing or that the model does not have;
            None without any, or where the chain cannot sum.
    """

    answered: RankedSequence
    n_best: list[RankedSequence]
    entropy: float | None
    segment_entropies: list[float]
    posterior_error: list[float]
    given: float | None = None


def answer_sequence(
    network: SequenceNetwork,
    labels: Sequence[str],
    features: Tensor,
    *,
    temperature: float = 1.0,
    n_best: int = 5,
    given: Sequence[int] | None = None,
    answered: Sequence[int] | None = None,
) -> SequenceAnswer:
    """The answer for what the factors see of one recording, [T, D], T at least 1.

    Args:
        labels: [Y] of the network.
        answered: [T] indices of the labels that were answered; by default those that the network decodes.
        given: [T] indices of the labels that the input carried, -1 where it had none.
    """
    crf = network.settings.chain == "crf"
    packing = Packing((len(features),), features.device)
    with torch.inference_mode():
        posterior = network.posteriors(features, packing, temperature=temperature)
        if answered is not None:
            own = torch.tensor(list(answered), device=features.device)
        else:
            own = network.decode(features, packing) if network.decoding == "viterbi" else posterior.argmax(1)
        own_log = network.log_probability(features, own, packing, temperature=temperature)
        paths, scores = network.n_best(features, packing, n_best, temperature=temperature)
        entropy = float(network.entropy(features, packing, temperature=temperature)) if crf else None
        error = network.posterior_error(features, packing, temperature=temperature)
        targets = [-1] * len(features) if given is None else list(given)
        given_log = None
        if (any if crf else all)(label >= 0 for label in targets):
            known = torch.tensor(targets, device=features.device)
            given_log = float(network.log_probability(features, known, packing, temperature=temperature))

    def rank(path: Tensor, log_probability: Tensor) -> RankedSequence:
        return RankedSequence(tuple(labels[k] for k in path.tolist()), float(log_probability))

    return SequenceAnswer(
        answered=rank(own.cpu(), own_log),
        n_best=[
            rank(path, s) for path, s in zip(paths.cpu(), scores[:, 0].cpu(), strict=True) if not bool(s.isneginf())
        ],
        entropy=entropy,
        segment_entropies=torch.special.entr(posterior).sum(1).cpu().tolist(),
        posterior_error=error.cpu().tolist(),
        given=given_log,
    )


def hidden_states(
    network: SequenceNetwork, h: Tensor, answered: Sequence[int], *, temperature: float = 1.0
) -> list[list[NDArray[np.float32]]]:
    """For each factor over single labels, and each layer of its hidden variables, p(state | answered label, x): [T, ...].

    The axes after the first are those of `hidden_posteriors`: a child and its state for each layer of an SPN, the units of
    hidden units. Factors without hidden variables give no layer.

    Args:
        h: what the factors see of one recording, [T, E].
        answered: [T] indices of labels.

    Raises:
        SettingsError: a chain that has no such posteriors.
    """
    packing, own = Packing((len(h),), h.device), torch.tensor(list(answered), device=h.device)
    with torch.inference_mode():
        label = network.posteriors(h, packing, temperature=temperature).gather(1, own[:, None])[:, 0]
        tables = network.hidden_posteriors(h, packing, temperature=temperature)
        rows = torch.arange(len(h), device=h.device)
        return [
            [(t[rows, own] / label.view(-1, *[1] * (t.dim() - 2)).clamp_min(_TINY)).cpu().numpy() for t in layers]
            for layers in tables
        ]


def find_spans(segments: Sequence[Segment], words: Sequence[Segment]) -> list[tuple[int, int]]:
    """For each word the segments a to before b whose middles lie in it; a = b where none does.

    Examples:
        >>> phones = [Segment(0.0, 0.1), Segment(0.1, 0.3), Segment(0.3, 0.4)]
        >>> find_spans(phones, [Segment(0.0, 0.3, "in"), Segment(0.4, 0.5, "it")])
        [(0, 2), (3, 3)]
    """
    middles = [(s.start + s.end) / 2 for s in segments]
    return [(int(np.searchsorted(middles, w.start)), int(np.searchsorted(middles, w.end))) for w in words]


_TINY = 1e-30
