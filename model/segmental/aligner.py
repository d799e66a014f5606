"""Sound and a transcript, or sound alone: `PhoneAligner`.

An alignment takes two passes. The first constrains the free chain to the graph on the coarse grid and gives the transcript's
posterior. The second searches the fine grid where the first has left any probability, and gives the boundaries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from phonechain.features.audio.reader import Audio, resample
from phonechain.features.errors import (
    PhonechainError,
    PhoneSetError,
    SettingsError,
    TranscriptError,
)
from phonechain.features.mfcc import FeatureSettings, frames
from phonechain.features.segments import Segment, Utterance
from phonechain.model.files import modelfile
from phonechain.model.files.header import ALIGNMENT_KIND
from phonechain.model.segmental import fitting, long, passes, scaled, search, storage, sums
from phonechain.model.segmental import graph as graphs
from phonechain.model.segmental.answers import Alignment, Recognition
from phonechain.model.segmental.assembly import Assembly, fill_gaps
from phonechain.model.segmental.graph import PhoneGraph
from phonechain.model.segmental.learning import Epoch
from phonechain.model.segmental.network import SemiCRF
from phonechain.model.segmental.passes import EncodedSound, FreePosteriors
from phonechain.model.segmental.progress import Progress, go_on
from phonechain.model.segmental.settings import SegmentalSettings, SegmentalTraining
from phonechain.model.segmental.sums import NEVER
from phonechain.model.segmental.transcripts import SILENCES, Word

MAX_SECONDS = 60.0
"""Longest recording that is aligned or recognised in one piece (s)."""

LONGEST_SECONDS = 7200.0
"""Longest recording that is aligned, refined or recognised, in windows (s): matching its phones grows with the square."""


class PhoneAligner:
    """A segmental CRF with its labels, feature settings and calibration.

    Attributes with a trailing underscore come from training or from a file. The network computes on `device`, like that of
    `PhoneLabeler`; the sums over graphs are taken on the host, in float64.
    """

    def __init__(
        self,
        model: SegmentalSettings | None = None,
        *,
        training: SegmentalTraining | None = None,
        features: FeatureSettings | None = None,
        card: modelfile.Card | None = None,
        device: str = "auto",
    ) -> None:
        self.device = device
        self.model, self.training = model or SegmentalSettings(), training or SegmentalTraining()
        self.features_, self.card = features or FeatureSettings(), card or modelfile.Card("")
        self.labels_: list[str] = []
        self.network_: SemiCRF | None = None
        self.temperature_, self.shift_ = 1.0, 0.0
        self.decoding_: dict[str, float] = {"ngrams": 0.7, "bonus": 0.0}
        self.metrics_: dict[str, object] = {}
        self.problems_: list[tuple[Utterance, PhonechainError]] = []
        self.provenance_ = modelfile.Provenance.now()
        self.version_ = ""

    # -------------------------------------------------------------------------------------------------- learning

    def fit(
        self,
        utterances: Sequence[Utterance],
        dev: Sequence[Utterance] | None = None,
        *,
        base: PhoneAligner | None = None,
        report: Callable[[Epoch], None] | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> PhoneAligner:
        """Learn from recordings with labelled boundaries; see `fitting.fit`. `problems_` has those that could not be used.

        Raises:
            CorpusError: nothing to train on.
        """
        self.problems_ = fitting.fit(self, utterances, dev, base=base, report=report, stop=stop)
        return self

    def fit_flat(
        self,
        recordings: Sequence[fitting.TranscribedRecording],
        *,
        rounds: int = 2,
        base: PhoneAligner | None = None,
        report: Callable[[Epoch], None] | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> PhoneAligner:
        """Learn from recordings and their transcripts, without boundaries; see `fitting.fit_flat`.

        Raises:
            CorpusError: nothing to train on.
        """
        self.problems_ = fitting.fit_flat(self, recordings, rounds=rounds, base=base, report=report, stop=stop)
        return self

    # ------------------------------------------------------------------------------------------------- alignment

    def align(self, audio: Audio, words: Sequence[Word], *, progress: Progress = go_on) -> Alignment:
        """Find each word of the transcript and each of its phones. There may be silence between any two words.

        In a recording longer than MAX_SECONDS, `progress` is called between windows with the share of the work that is
        done; what it raises ends the work.

        Raises:
            TranscriptError: no words, or a transcript that cannot be said in that time.
            PhoneSetError: phones that the model does not know; it lists all of them.
            AudioError: sound that cannot be used.
            SettingsError: a recording longer than LONGEST_SECONDS.
        """
        if not words:
            raise TranscriptError("expected words to align, got none", pointer="text")
        self._check_phones({p for w in words for v in w.pronunciations for p in v.phones})
        if self._is_long(audio):
            return long.align(self, audio, words, progress)
        variants = [[([self.index(p) for p in v.phones], v.probability) for v in w.pronunciations] for w in words]
        graph = graphs.word_graph(variants, self.silence_index)
        return self._alignment(self._encode(audio), graph, words)

    def align_phones(self, audio: Audio, labels: Sequence[str], *, progress: Progress = go_on) -> Alignment:
        """Find the boundaries of phones of which only the order is known. Raises as `align`."""
        if not labels:
            raise TranscriptError("expected phones to align, got none", pointer="segments")
        self._check_phones(set(labels))
        if self._is_long(audio):
            return long.align_phones(self, audio, labels, progress)
        return self._alignment(self._encode(audio), graphs.phone_graph([self.index(p) for p in labels]), ())

    def refine(
        self, audio: Audio, segments: Sequence[Segment], *, spread: float = 0.03, window: float = 0.1,
        progress: Progress = go_on,
    ) -> Alignment:  # fmt: skip
        """Refine given boundaries, which are assumed to have errors with a standard deviation of `spread` seconds.

        None moves by more than `window`. Gaps between segments are taken for silence.

        Raises:
            SegmentError: segments without a label, or out of order. Otherwise as `align`.
        """
        filled = fill_gaps(segments, self.silence)
        self._check_phones({s.label for s in filled if s.label is not None})
        if self._is_long(audio):
            return long.refine(self, audio, filled, progress, spread=spread, window=window)
        graph = graphs.phone_graph([self.index(s.label or "") for s in filled])
        sound = self._encode(audio)
        starts = torch.tensor([s.start for s in filled], dtype=torch.float64) - self.shift_
        return self._alignment(sound, graph, (), given=[s.start for s in filled], prior=(starts, spread, window))

    def recognize(self, audio: Audio, *, progress: Progress = go_on) -> Recognition:
        """Recognise phones and their boundaries from sound alone. Experimental: the model's card has the error rate.

        Starts, intervals and `within` are those of an alignment to the recognised phones.
        """
        if self._is_long(audio):
            return long.recognize(self, audio, progress)
        sound = self._encode(audio)
        posteriors = self._free_posteriors(sound)
        pieces = self._merged(self._decode(sound, posteriors), sound)
        graph = graphs.phone_graph([y for _, _, y in pieces])
        starts = torch.tensor([i * self.model.step for i, _, _ in pieces], dtype=torch.float64)
        aligned = self._alignment(sound, graph, (), prior=(starts, 0.03, 0.1), free=posteriors)
        return Recognition(aligned.phones, aligned.duration, aligned.notices)

    def hear(self, audio: Audio) -> list[tuple[float, float, int, NDArray[np.float32]]]:
        """What `recognize` finds on the coarse grid: start and end (s), label index, posteriors of all labels [K]."""
        sound = self._encode(audio, fine=False)
        posteriors = self._free_posteriors(sound)
        shares = passes.label_posteriors(posteriors.segments)
        step = self.model.step
        return [
            (i * step, j * step, y, shares[i:j].mean(0).astype(np.float32))
            for i, j, y in self._merged(self._decode(sound, posteriors), sound)
        ]

    def recognize_labels(self, audio: Audio, decodings: Sequence[Mapping[str, float]]) -> list[list[str]]:
        """The labels that `recognize` finds with other settings than the aligner's `decoding_`, without boundaries.

        Each has `ngrams`, a factor on the n-gram weights, and `bonus`, nats per segment.
        """
        sound = self._encode(audio, fine=False)
        found: list[list[str]] = [[] for _ in decodings]
        for ngrams in {d["ngrams"] for d in decodings}:
            chosen = [n for n, d in enumerate(decodings) if d["ngrams"] == ngrams]
            for n, pieces in zip(
                chosen, self._best_segments(sound, ngrams, [decodings[n]["bonus"] for n in chosen]), strict=True
            ):
                found[n] = [self.labels_[y] for _, _, y in self._merged(pieces, sound)]
        return found

    # -------------------------------------------------------------------------------------------------- the model

    @property
    def device_(self) -> torch.device:
        """Where its network computes."""
        return self._require_network().device

    @property
    def silence(self) -> str | None:
        """The label that stands for silence, if there is one."""
        return next((y for name in SILENCES for y in self.labels_ if y.casefold() == name), None)

    @property
    def silence_index(self) -> int | None:
        """The index of that label."""
        return None if self.silence is None else self.labels_.index(self.silence)

    def spell(self, phone: str) -> str | None:
        """The model's label for a phone: as written, without a stress digit, in another case, or silence; else None."""
        for form in (phone, phone.rstrip("012"), phone.upper(), phone.upper().rstrip("012"), phone.lower()):
            if form in self._index():
                return form
        return self.silence if phone.casefold().strip() in SILENCES else None

    def index(self, phone: str) -> int:
        """Index of the model's label for a phone. Raises PhoneSetError."""
        label = self.spell(phone)
        if label is None:
            raise self._unknown_phones([phone])
        return self._index()[label]

    def _index(self) -> dict[str, int]:
        return {y: n for n, y in enumerate(self.labels_)}

    def _check_phones(self, phones: set[str]) -> None:
        if odd := sorted(p for p in phones if self.spell(p) is None):
            raise self._unknown_phones(odd)

    def _unknown_phones(self, phones: Sequence[str]) -> PhoneSetError:
        return PhoneSetError(
            f"expected phones that the model knows ({' '.join(self.labels_)}), got {' '.join(phones)[:400]}",
            pointer="phones", value=phones[0], details={"phones": list(phones), "labels": self.labels_},
        )  # fmt: skip

    def _require_network(self) -> SemiCRF:
        if self.network_ is None:
            raise SettingsError("the aligner has no weights yet: call fit or load")
        return self.network_

    # -------------------------------------------------------------------------------------------------- the passes

    def _is_long(self, audio: Audio) -> bool:
        """Whether it has to be worked on in windows. Raises SettingsError for a recording longer than LONGEST_SECONDS."""
        if audio.duration > LONGEST_SECONDS:
            raise SettingsError(
                f"the recording lasts {audio.duration:.0f} s; at most {LONGEST_SECONDS:.0f} s are aligned or recognised",
                pointer="audio", value=audio.duration, limit=LONGEST_SECONDS,
            )  # fmt: skip
        return audio.duration > MAX_SECONDS

    def _encode(self, audio: Audio, *, fine: bool = True) -> EncodedSound:
        network = self._require_network()
        if audio.duration > MAX_SECONDS:
            raise SettingsError(
                f"the recording lasts {audio.duration:.1f} s; the model looks at {MAX_SECONDS:.0f} s at most in one piece",
                pointer="audio", value=audio.duration, limit=MAX_SECONDS,
            )  # fmt: skip
        x = network.normalise(frames(resample(audio.samples, audio.rate, self.features_.rate), self.features_))
        steps = max(1, round(audio.duration / self.model.step))
        with torch.no_grad():
            lengths = torch.tensor([len(x)], device=network.device)
            track = network.track(torch.from_numpy(x)[None].to(network.device), lengths)
            scores, coarse = self._scores(track, steps, audio.duration, fine)
        return EncodedSound(track, audio.duration, coarse, steps, scaled.Potentials.of(coarse.numpy()), scores)

    def _scores(self, track: Tensor, steps: int, duration: float, fine: bool) -> tuple[Tensor | None, Tensor]:
        """Scores on the fine grid, if wanted, and on the coarse one, of which every candidate is one of the fine grid."""
        network, ratio = self._require_network(), round(self.model.step / self.model.fine)
        if not fine or abs(ratio * self.model.fine - self.model.step) > 1e-9:
            return None, (network.scores(track, steps)[0] / self.temperature_).cpu()
        most = max(round(duration / self.model.fine), ratio * steps)
        scores = (network.scores(track, most, self.model.fine)[0] / self.temperature_).cpu()
        return scores, scores[ratio - 1 : ratio * steps : ratio, ratio - 1 :: ratio].contiguous()

    def _weights(self) -> tuple[Tensor, Tensor, Tensor]:
        network = self._require_network()
        return tuple(w.detach().cpu() / self.temperature_ for w in (network.bigram, network.first, network.last))  # type: ignore[return-value]

    def _free_posteriors(self, sound: EncodedSound) -> FreePosteriors:
        weights = self._weights()
        if sound.potentials is not None:
            found = scaled.free_posteriors(sound.potentials, *(w.to(torch.float64).numpy() for w in weights))
            if found is not None:
                return FreePosteriors(*found)
        marginals = sums.marginals(sums.Lattice(sound.coarse[None], *weights, torch.tensor([sound.steps])))
        return FreePosteriors(float(marginals.log_z[0]), marginals.segments[0].numpy())

    def _decode(self, sound: EncodedSound, posteriors: FreePosteriors) -> search.Segments:
        """The recogniser's segments: the most probable ones, with the weights that calibration chose.

        Model files of before 2026-11-29 name a cost of segments instead, for decoding by posteriors.
        """
        chosen = self.decoding_
        if "cost" in chosen:
            return search.posterior_decoding(
                posteriors.segments, tolerance=int(chosen["tolerance"]), cost=float(chosen["cost"])
            )
        return self._best_segments(sound, chosen["ngrams"], [chosen["bonus"]])[0]

    def _merged(self, pieces: search.Segments, sound: EncodedSound) -> search.Segments:
        return search.merge_pieces(pieces, sound.coarse.shape[1], self.silence_index)

    def _best_segments(self, sound: EncodedSound, ngrams: float, bonuses: Sequence[float]) -> list[search.Segments]:
        """For each bonus the most probable segments, with n-gram weights multiplied by `ngrams`."""
        scores = sound.coarse + torch.tensor(bonuses)[:, None, None, None] / self.temperature_
        bigram, first, last = (w * ngrams for w in self._weights())
        steps = torch.full((len(bonuses),), sound.steps)
        return search.viterbi(sums.Lattice(scores, bigram, first, last, steps))[0]

    def _alignment(
        self,
        sound: EncodedSound,
        graph: PhoneGraph,
        words: Sequence[Word],
        *,
        given: Sequence[float] | None = None,
        prior: tuple[Tensor, float, float] | None = None,
        free: FreePosteriors | None = None,
    ) -> Alignment:
        fine = max(1, round(sound.duration / self.model.fine))
        graphs.check_length(graph, sound.duration, fine)
        weights = self._weights()
        free = free or self._free_posteriors(sound)
        first = None
        if graph.shortest <= sound.steps:
            near = None if prior is None else passes.start_prior(*prior, sound.steps, self.model.step)
            first = graphs.align(sound.coarse, *weights, graph, prior=near, potentials=sound.potentials)
        if sound.fine is not None:
            scores = sound.fine[:fine]
        else:
            with torch.no_grad():
                scores = self._require_network().scores(sound.track, fine, self.model.fine)[0].cpu() / self.temperature_
        soft = None if prior is None else passes.start_prior(*prior, fine, self.model.fine)
        if first is not None and first.log_z > NEVER / 2:
            left = passes.search_mask(first, fine, self.model.step / self.model.fine)
            soft = left if soft is None else (soft + left).clamp_min(NEVER)
        second = graphs.align(scores, *weights, graph, prior=soft)
        if second.log_z <= NEVER / 2:
            raise TranscriptError("the phones do not fit the recording: no alignment exists", pointer="segments")
        log_z = (first.log_z if first is not None else second.log_z) - free.log_z
        assembly = Assembly(tuple(self.labels_), self.silence, self.model.step, self.model.fine, self.shift_)
        return assembly.alignment(sound.duration, graph, words, second, free.segments, log_z, given)

    # ---------------------------------------------------------------------------------------------- the model file

    @property
    def card_(self) -> dict[str, Any]:
        """What a person should know before using the model, JSON-serialisable."""
        card, origin = self.card, self.provenance_
        return {
            "name": card.name, "version": self.version_, "kind": ALIGNMENT_KIND,
            "description": card.description, "labels": self.labels_,
            "licence": card.licence, "data": card.data, "limits": card.limits, "metrics": self.metrics_,
            "created": origin.created, "command": origin.command, "seed": origin.seed, "corpus": origin.corpus,
            "parameters": sum(p.numel() for p in self._require_network().parameters()),
        }  # fmt: skip

    def save(self, path: str | Path) -> PhoneAligner:
        """Write the model file atomically."""
        self.version_ = storage.save(self, path)
        return self

    @classmethod
    def load(cls, source: str | Path | bytes, *, name: str | None = None, device: str = "auto") -> PhoneAligner:
        """Load the aligner from a model file onto a device. Errors call the file `name`; by default, by its path.

        Raises:
            ModelFileError: not a model file, a damaged one, or not an alignment model.
            SettingsError: a device that torch does not have.
        """
        aligner = cls(device=device)
        storage.restore(aligner, source, name=name)
        return aligner
