"""The result of training: a network with everything that turns a recording's segments into posteriors, without a card."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from phonechain.features.errors import SettingsError
from phonechain.features.inputs import Inputs
from phonechain.features.mfcc import FeatureSettings
from phonechain.features.phones.comparison import LabelComparison, LabelSet
from phonechain.features.segments import Segment
from phonechain.model.answers import LabelledSegment, answers_of_batch
from phonechain.model.chain.packing import Packing
from phonechain.model.device import note_out_of_memory
from phonechain.model.encoders.frames import FrameBatch, FrameRows, LongFrames
from phonechain.model.learning.normaliser import Mode, Normaliser
from phonechain.model.networks.base import SequenceNetwork
from phonechain.model.networks.crf import ConditionalRandomField
from phonechain.model.sequences import SequenceAnswer, answer_sequence, hidden_states
from phonechain.model.settings import ModelSettings
from phonechain.model.support import evidence

LONG = 8000
"""Segments of a recording above which it is labelled piecewise: a quarter of an hour of speech."""

Decoding = Literal["posterior", "viterbi"]
"""The answer: each segment's most probable label, or the most probable sequence of labels."""

Answer = tuple[NDArray[np.float32], NDArray[np.int64]]
"""Posteriors [T, Y] and answered label indices [T] of an utterance."""


@dataclass
class PhoneModel:
    """A trained network.

    Attributes:
        settings: the chain, factors and encoder.
        features: how sound becomes its inputs.
        labels: Y names, one per output.
        temperature: of the posteriors.
        phone_set: name of the set that the labels are of, or "".
    """

    settings: ModelSettings
    features: FeatureSettings
    labels: list[str]
    normaliser: Normaliser
    network: SequenceNetwork
    temperature: float = 1.0
    phone_set: str = ""

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self.network.bigrams.device

    def to(self, device: torch.device) -> PhoneModel:
        """Move its weights to the device, in place."""
        self.network.to(device)
        return self

    def on(self, device: torch.device) -> PhoneModel:
        """The model itself if it is on that device, else a copy there."""
        if self.device == device:
            return self
        return replace(self, network=deepcopy(self.network).to(device))

    @property
    def parameters(self) -> int:
        """Number of weights."""
        return sum(p.numel() for p in self.network.parameters())

    @property
    def label_set(self) -> LabelSet:
        """The labels, as given ones are compared with them."""
        return LabelSet(tuple(self.labels), self.phone_set)

    def label(
        self,
        items: Sequence[Inputs],
        segments: Sequence[Sequence[Segment]],
        *,
        n_best: int = 1,
        decode: Decoding = "posterior",
        groups: Sequence[int] | None = None,
        mode: Mode = "model",
        comparisons: Sequence[LabelComparison] | None = None,
        support: bool = False,
    ) -> list[list[LabelledSegment]]:
        """The segments of several utterances with their answers, in one batch.

        Args:
            n_best: how many labels each segment lists.
            groups, mode: as in `posteriors`.
            comparisons: how each utterance's given labels are compared; by default by the folding that fits them.
            support: whether given labels get the probability that they are right in view of the others (see model.support);
                a second pass, of a CRF alone.
        """
        posteriors, best = self.posteriors(items, viterbi=decode == "viterbi", groups=groups, mode=mode)
        if comparisons is None:
            comparisons = [self.label_set.compare(s.label for s in each) for each in segments]
        supported: Sequence[NDArray[np.float32] | None] = [None] * len(posteriors)
        if support and self.settings.chain == "crf":
            given = [evidence(s, c) for s, c in zip(segments, comparisons, strict=True)]
            supported = self.posteriors(items, groups=groups, mode=mode, evidence=given)[0]
        return answers_of_batch(self.labels, posteriors, best, segments, n_best, comparisons, supported)

    def expert(self, number: int) -> PhoneModel:
        """One expert of a product by itself, at its share of the product's temperature."""
        settings = self.settings.experts[number]
        network = self.network.get_submodule(f"members.{number}")
        assert isinstance(network, SequenceNetwork)
        features, none = settings.encoder.features(self.features), torch.zeros(0)
        share = self.temperature / len(self.settings.experts)
        normaliser = self.normaliser
        if not features.pooled:
            normaliser = replace(normaliser, mean=none, std=none)
        if not features.bands:
            normaliser = replace(normaliser, frame_mean=none, frame_std=none)
        return PhoneModel(settings, features, self.labels, normaliser, network, share, self.phone_set)

    def posteriors(
        self,
        items: Sequence[Inputs],
        *,
        viterbi: bool = False,
        groups: Sequence[int] | None = None,
        mode: Mode = "model",
        evidence: Sequence[NDArray[np.float32]] | None = None,
    ) -> tuple[list[NDArray[np.float32]], list[NDArray[np.int64]]]:
        """For each utterance p(label | x) [T, Y], calibrated, and the label indices [T] that are answered.

        Args:
            viterbi: answer the most probable sequence instead of the most probable label of each segment.
            groups: which utterances are normalised together unless `mode` is "model"; by default each by itself.
            evidence: on the labels of each utterance, log p(g_t | y_t) [T, Y] (see model.support), which the posteriors include.

        Raises:
            SettingsError: evidence for a chain that takes none.
        """
        kept = [n for n, i in enumerate(items) if len(i.segments)]
        nothing = np.zeros((0, len(self.labels)), dtype=np.float32)
        all_p, all_best = [nothing] * len(items), [np.zeros(0, dtype=np.int64)] * len(items)
        if not kept:
            return all_p, all_best
        group = list(range(len(items))) if groups is None else list(groups)
        inputs, frames = self.normaliser.apply_lazily(
            [items[n] for n in kept], self.features, [group[n] for n in kept], mode, LONG
        )
        own = [None if evidence is None else evidence[n] for n in kept]
        short = [n for n, i in enumerate(inputs) if len(i.segments) <= LONG]
        long = [n for n, i in enumerate(inputs) if len(i.segments) > LONG]
        if short:
            found = self._label_batch([inputs[n] for n in short], viterbi, [own[n] for n in short])
            for n, (p, best) in zip(short, found, strict=True):
                all_p[kept[n]], all_best[kept[n]] = p, best
        for n in long:
            all_p[kept[n]], all_best[kept[n]] = self._label_long(inputs[n], frames.get(n), viterbi, own[n])
        return all_p, all_best

    def _label_batch(
        self, inputs: Sequence[Inputs], viterbi: bool, evidence: Sequence[NDArray[np.float32] | None]
    ) -> list[Answer]:
        """Posteriors and answers of normalised utterances at once; where memory is short, half of them at a time."""
        try:
            return self._label_whole(inputs, viterbi, evidence)
        except torch.OutOfMemoryError:
            pass  # outside the handler the failed attempt's tensors are free
        note_out_of_memory(self.device)
        if len(inputs) == 1:
            frames = inputs[0].frames if self.features.bands else None
            return [self._label_long(inputs[0], frames, viterbi, evidence[0])]
        half = len(inputs) // 2
        first = self._label_batch(inputs[:half], viterbi, evidence[:half])
        return first + self._label_batch(inputs[half:], viterbi, evidence[half:])

    def _label_whole(
        self, inputs: Sequence[Inputs], viterbi: bool, evidence: Sequence[NDArray[np.float32] | None]
    ) -> list[Answer]:
        order, packing, h = self._encode_batch(inputs)
        given = [e for n in order if (e := evidence[n]) is not None]
        with torch.inference_mode():
            if given:
                rows = torch.from_numpy(np.concatenate(given)).to(self.device)[packing.from_concatenated]
                found = self.network.posteriors_with_evidence(h, rows, packing, temperature=self.temperature)
            else:
                found = self.network.posteriors(h, packing, temperature=self.temperature)
            paths = self.network.decode(h, packing).cpu() if viterbi else None
            p = packing.split(found.cpu())
        best = [p_n.argmax(1) for p_n in p] if paths is None else packing.split(paths)
        return [(p[n].numpy(), best[n].numpy()) for n in np.argsort(order)]

    def _label_long(
        self, inputs: Inputs, frames: FrameRows | None, viterbi: bool, evidence: NDArray[np.float32] | None
    ) -> Answer:
        """The same of one long recording, normalised, some of its segments at a time."""
        with torch.inference_mode():
            times, period = torch.from_numpy(inputs.times).to(self.device), self.features.frame_period
            seen = None if frames is None else LongFrames(frames, times, period)
            rows = self.network.encode_long(torch.from_numpy(inputs.segments).to(self.device), seen)
            given = None if evidence is None else torch.from_numpy(evidence).to(self.device)
            p = self.network.posteriors_of_long(rows, evidence=given, temperature=self.temperature)
            best = self.network.decode_long(rows) if viterbi else p.argmax(1)
        return p.cpu().numpy(), best.cpu().numpy()

    def label_sequence(
        self, item: Inputs, *, n_best: int = 5, given: Sequence[int] | None = None, mode: Mode = "model"
    ) -> SequenceAnswer:
        """The labels of one utterance, of at least one segment, as a sequence (see answer_sequence)."""
        _, _, h = self._encode([item], [0], mode)
        return answer_sequence(
            self.network, self.labels, h, temperature=self.temperature, n_best=n_best, given=given
        )  # fmt: skip

    def span_probabilities(self, item: Inputs, spans: Sequence[tuple[int, int]], mode: Mode = "model") -> list[float]:
        """The probability that all answered labels of one utterance from a to before b are right, for each span (a, b)."""
        h, answered = self._answer_one(item, mode)
        found = self.network.span_log_probabilities(h, answered, spans, temperature=self.temperature)
        return found.exp().tolist()

    def hidden_states(self, item: Inputs, mode: Mode = "model") -> list[list[NDArray[np.float32]]]:
        """Posteriors of the hidden variables of one utterance, given its answered labels (see sequences.hidden_states)."""
        h, answered = self._answer_one(item, mode)
        return hidden_states(self.network, h, answered.tolist(), temperature=self.temperature)

    def _answer_one(self, item: Inputs, mode: Mode) -> tuple[Tensor, Tensor]:
        """What the factors see of one utterance [T, E], and its answered labels [T]."""
        _, packing, h = self._encode([item], [0], mode)
        with torch.inference_mode():
            if self.network.decoding == "viterbi":
                return h, self.network.decode(h, packing)
            return h, self.network.posteriors(h, packing, temperature=self.temperature).argmax(1)

    def label_scores(
        self, items: Sequence[Inputs], *, groups: Sequence[int] | None = None, mode: Mode = "model"
    ) -> list[NDArray[np.float32]]:
        """For each utterance the calibrated log-potentials of single labels [T, Y]: what the network sees before the chain.

        Raises:
            SettingsError: a chain that has none (MEMM).
        """
        if not isinstance(self.network, ConditionalRandomField):
            raise SettingsError(
                "expected a CRF: the scores of a MEMM are of labels after other labels", pointer="chain"
            )
        order, packing, h = self._encode(items, range(len(items)) if groups is None else groups, mode)
        with torch.inference_mode():
            scores = packing.split(self.network.potentials(h, packing).unary.cpu() / self.temperature)
        return [scores[n].numpy() for n in np.argsort(order)]

    def encode_parts(
        self, items: Sequence[Inputs], *, beside: Sequence[Inputs] = (), mode: Mode = "model"
    ) -> list[Tensor]:
        """What the factors see, [T, E], of the parts of one recording, each of at least one segment.

        They are normalised together with each other and with what is `beside` them: the speaker's other recordings.
        """
        inputs = self.normaliser.apply_inputs(
            [*items, *beside], self.features, [0] * (len(items) + len(beside)), mode
        )[: len(items)]  # fmt: skip
        order, packing, h = self._encode_batch(inputs)
        found: list[Tensor] = [h] * len(items)
        for n, part in zip(order, packing.split(h), strict=True):
            found[n] = part
        return found

    def _encode(
        self, items: Sequence[Inputs], groups: Sequence[int], mode: Mode
    ) -> tuple[NDArray[np.int64], Packing, Tensor]:
        """The order of the utterances in the packing, the packing, and what the factors see [N, D]."""
        return self._encode_batch(self.normaliser.apply_inputs(items, self.features, groups, mode))

    def _encode_batch(self, inputs: Sequence[Inputs]) -> tuple[NDArray[np.int64], Packing, Tensor]:
        order, packing = Packing.longest_first([len(i.segments) for i in inputs], self.device)
        ranked = [inputs[n] for n in order]
        frames = self._frame_batch(ranked, packing)
        with torch.inference_mode():
            rows = torch.from_numpy(np.concatenate([i.segments for i in ranked])).to(self.device)
            x = rows[packing.from_concatenated]
            return order, packing, self.network.encode(x, packing, frames)

    def _frame_batch(self, inputs: Sequence[Inputs], packing: Packing) -> FrameBatch | None:
        """The frames of normalised inputs in the packing's order, if the network reads any."""
        if not self.features.bands:
            return None
        return FrameBatch.of(
            [i.frames for i in inputs],
            [i.times for i in inputs],
            packing,
            self.features.frame_period,
            self.device,
        )
