"""Sound and a transcript, or sound alone: `PhoneAligner`.

An alignment takes two passes. The first constrains the free chain to the graph on the coarse grid and gives the transcript's
posterior. The second searches the fine grid where the first has left any probability, and gives the boundaries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from phonechain.features.audio.reader import Audio, resample
from phonechain.features.errors import (
    ModelFileError,
    Notice,
    PhonechainError,
    PhoneSetError,
    SegmentError,
    SettingsError,
    TranscriptError,
)
from phonechain.features.mfcc import FeatureSettings, frames
from phonechain.features.segments import Segment, Utterance
from phonechain.model.files import modelfile
from phonechain.model.files.header import ALIGNMENT_KIND
from phonechain.model.segmental import fitting, passes, scaled, search, sums
from phonechain.model.segmental import graph as graphs
from phonechain.model.segmental.answers import AlignedPhone, AlignedWord, Alignment, Recognition
from phonechain.model.segmental.boundaries import Boundaries, share_near, summarise
from phonechain.model.segmental.graph import GraphPosteriors, PhoneGraph
from phonechain.model.segmental.learning import Epoch
from phonechain.model.segmental.network import SemiCRF
from phonechain.model.segmental.settings import SegmentalSettings, SegmentalTraining
from phonechain.model.segmental.sums import NEVER
from phonechain.model.segmental.transcripts import SILENCES, Word

KIND = ALIGNMENT_KIND
"""What a model file's header calls these models."""

MAX_SECONDS = 60.0
"""Longest recording that is aligned or recognised in one piece (s)."""

MAX_RATE = 30.0
"""Phones per second; nobody speaks faster."""

IMPROBABLE = -4.0
"""Nats per phone below which a transcript is reported as improbable."""


@dataclass(frozen=True)
class _EncodedSound:
    """A recording as the model sees it: its track, and the scores on the coarse grid with their exponentials, if usable."""

    track: Tensor
    duration: float
    coarse: Tensor
    steps: int
    potentials: scaled.Potentials | None


@dataclass(frozen=True)
class _FreePosteriors:
    """The free chain's log Z, and its posteriors of all segments [N, D, K]."""

    log_z: float
    segments: NDArray[np.float32]


class PhoneAligner:
    """A segmental CRF with its labels, feature settings and calibration.

    Attributes with a trailing underscore come from training or from a file.
    """

    def __init__(
        self,
        model: SegmentalSettings | None = None,
        *,
        training: SegmentalTraining | None = None,
        features: FeatureSettings | None = None,
        card: modelfile.Card | None = None,
    ) -> None:
        self.model, self.training = model or SegmentalSettings(), training or SegmentalTraining()
        self.features_, self.card = features or FeatureSettings(), card or modelfile.Card("")
        self.labels_: list[str] = []
        self.network_: SemiCRF | None = None
        self.temperature_, self.shift_ = 1.0, 0.0
        self.decoding_: dict[str, float] = {"tolerance": 1, "cost": 0.2}
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

    def align(self, audio: Audio, words: Sequence[Word]) -> Alignment:
        """Find each word of the transcript and each of its phones. There may be silence between any two words.

        Raises:
            TranscriptError: no words, or a transcript that cannot be said in that time.
            PhoneSetError: phones that the model does not know; it lists all of them.
            AudioError: sound that cannot be used.
            SettingsError: a recording longer than MAX_SECONDS.
        """
        if not words:
            raise TranscriptError("expected words to align, got none", pointer="text")
        self._check_phones({p for w in words for v in w.pronunciations for p in v.phones})
        variants = [[([self.index(p) for p in v.phones], v.probability) for v in w.pronunciations] for w in words]
        silence = None if self.silence is None else self.labels_.index(self.silence)
        graph = graphs.word_graph(variants, silence)
        return self._alignment(self._encode(audio), graph, words)

    def align_phones(self, audio: Audio, labels: Sequence[str]) -> Alignment:
        """Find the boundaries of phones of which only the order is known. Raises as `align`."""
        if not labels:
            raise TranscriptError("expected phones to align, got none", pointer="segments")
        self._check_phones(set(labels))
        return self._alignment(self._encode(audio), graphs.phone_graph([self.index(p) for p in labels]), ())

    def refine(
        self, audio: Audio, segments: Sequence[Segment], *, spread: float = 0.03, window: float = 0.1
    ) -> Alignment:
        """Refine given boundaries, which are assumed to have errors with a standard deviation of `spread` seconds.

        None moves by more than `window`. Gaps between segments are taken for silence.

        Raises:
            SegmentError: segments without a label, or out of order. Otherwise as `align`.
        """
        filled = self._fill_gaps(segments)
        self._check_phones({s.label for s in filled if s.label is not None})
        graph = graphs.phone_graph([self.index(s.label or "") for s in filled])
        sound = self._encode(audio)
        starts = torch.tensor([s.start for s in filled], dtype=torch.float64) - self.shift_
        return self._alignment(sound, graph, (), given=[s.start for s in filled], prior=(starts, spread, window))

    def recognize(self, audio: Audio) -> Recognition:
        """Recognise phones and their boundaries from sound alone. Experimental: the model's card has the error rate.

        Starts, intervals and `within` are those of an alignment to the recognised phones.
        """
        sound = self._encode(audio)
        posteriors = self._free_posteriors(sound)
        found = search.posterior_decoding(
            posteriors.segments,
            tolerance=int(self.decoding_["tolerance"]),
            cost=float(self.decoding_["cost"]),
        )
        silence = None if self.silence is None else self.labels_.index(self.silence)
        pieces = search.merge_pieces(found, sound.coarse.shape[1], silence)
        graph = graphs.phone_graph([y for _, _, y in pieces])
        starts = torch.tensor([i * self.model.step for i, _, _ in pieces], dtype=torch.float64)
        aligned = self._alignment(sound, graph, (), prior=(starts, 0.03, 0.1), free=posteriors)
        return Recognition(aligned.phones, aligned.duration, aligned.notices)

    # -------------------------------------------------------------------------------------------------- the model

    @property
    def silence(self) -> str | None:
        """The label that stands for silence, if there is one."""
        return next((y for name in SILENCES for y in self.labels_ if y.casefold() == name), None)

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

    def _encode(self, audio: Audio) -> _EncodedSound:
        network = self._require_network()
        if audio.duration > MAX_SECONDS:
            raise SettingsError(
                f"the recording lasts {audio.duration:.1f} s; at most {MAX_SECONDS:.0f} s are aligned as one: cut it at pauses",
                pointer="audio", value=audio.duration, limit=MAX_SECONDS,
            )  # fmt: skip
        x = network.normalise(frames(resample(audio.samples, audio.rate, self.features_.rate), self.features_))
        steps = max(1, round(audio.duration / self.model.step))
        with torch.no_grad():
            track = network.track(torch.from_numpy(x)[None], torch.tensor([len(x)]))
            coarse = network.scores(track, steps)[0] / self.temperature_
        return _EncodedSound(track, audio.duration, coarse, steps, scaled.Potentials.of(coarse.numpy()))

    def _weights(self) -> tuple[Tensor, Tensor, Tensor]:
        network = self._require_network()
        return tuple(w.detach() / self.temperature_ for w in (network.bigram, network.first, network.last))  # type: ignore[return-value]

    def _free_posteriors(self, sound: _EncodedSound) -> _FreePosteriors:
        weights = self._weights()
        if sound.potentials is not None:
            found = scaled.free_posteriors(sound.potentials, *(w.to(torch.float64).numpy() for w in weights))
            if found is not None:
                return _FreePosteriors(*found)
        marginals = sums.marginals(sums.Lattice(sound.coarse[None], *weights, torch.tensor([sound.steps])))
        return _FreePosteriors(float(marginals.log_z[0]), marginals.segments[0].numpy())

    def _alignment(
        self,
        sound: _EncodedSound,
        graph: PhoneGraph,
        words: Sequence[Word],
        *,
        given: Sequence[float] | None = None,
        prior: tuple[Tensor, float, float] | None = None,
        free: _FreePosteriors | None = None,
    ) -> Alignment:
        fine = max(1, round(sound.duration / self.model.fine))
        self._check_length(sound, graph, fine)
        weights = self._weights()
        free = free or self._free_posteriors(sound)
        first = None
        if graph.shortest <= sound.steps:
            near = None if prior is None else passes.start_prior(*prior, sound.steps, self.model.step)
            first = graphs.align(sound.coarse, *weights, graph, prior=near, potentials=sound.potentials)
        with torch.no_grad():
            scores = self._require_network().scores(sound.track, fine, self.model.fine)[0] / self.temperature_
        soft = None if prior is None else passes.start_prior(*prior, fine, self.model.fine)
        if first is not None and first.log_z > NEVER / 2:
            left = passes.search_mask(first, fine, self.model.step / self.model.fine)
            soft = left if soft is None else (soft + left).clamp_min(NEVER)
        second = graphs.align(scores, *weights, graph, prior=soft)
        if second.log_z <= NEVER / 2:
            raise TranscriptError("the phones do not fit the recording: no alignment exists", pointer="segments")
        log_z = (first.log_z if first is not None else second.log_z) - free.log_z
        return self._answer(sound, graph, words, second, free, log_z, given)

    def _check_length(self, sound: _EncodedSound, graph: PhoneGraph, fine: int) -> None:
        """Raise TranscriptError for more phones than can be said in that time."""
        count, duration = graph.shortest, sound.duration
        if count > min(fine, max(3.0, MAX_RATE * duration)):
            raise TranscriptError(
                f"the transcript is too long for the sound: {count} phones at least in {duration:.2f} s "
                f"({count / duration:.0f} per second; people speak 8 to 20)",
                pointer="text", value=count, limit=round(MAX_RATE * duration),
            )  # fmt: skip

    def _answer(
        self,
        sound: _EncodedSound,
        graph: PhoneGraph,
        words: Sequence[Word],
        posteriors: GraphPosteriors,
        free: _FreePosteriors,
        log_posterior: float,
        given: Sequence[float] | None,
    ) -> Alignment:
        path = passes.best_path(graph, posteriors)
        found = summarise(posteriors.begin[path], self.model.fine)
        starts, ends = self._times(found, sound.duration)
        near = None if given is None else share_near(
            posteriors.begin[path], np.asarray(given) - self.shift_, self.model.fine
        )  # fmt: skip
        heard = passes.label_posteriors(free.segments)
        phones = []
        for n, node in enumerate(path):
            label = graph.nodes[node].label
            share = passes.mean_between(heard, starts[n], ends[n], self.model.step)
            order = np.argsort(-share)[:5]
            moved = 0.0 if n == 0 else self.shift_
            low, high = (float(np.clip(x[n] + moved, 0.0, sound.duration)) for x in (found.low, found.high))
            phones.append(
                AlignedPhone(
                    self.labels_[label], starts[n], ends[n], min(low, starts[n]), max(high, starts[n]),
                    1.0 if n == 0 else float(np.clip(found.within[n], 0.0, 1.0)), float(share[label]),
                    tuple((self.labels_[k], float(share[k])) for k in order), graph.nodes[node].word if words else None,
                    None if given is None else given[n],
                    None if near is None else 1.0 if n == 0 else float(np.clip(near[n], 0.0, 1.0)),
                )
            )  # fmt: skip
        aligned = [self._word(w, n, path, graph, posteriors, phones) for n, w in enumerate(words)]
        answer = Alignment(tuple(phones), tuple(aligned), sound.duration, min(0.0, log_posterior), self.silence)
        return Alignment(
            answer.phones, answer.words, answer.duration, answer.log_posterior, answer.silence, tuple(_notices(answer))
        )

    def _times(self, found: Boundaries, duration: float) -> tuple[list[float], list[float]]:
        """Contiguous starts and ends, in order, corrected for the model's bias; each phone lasts at least a millisecond."""
        count, least = len(found.time), 0.001
        starts = np.asarray(found.time) + self.shift_
        starts[0] = 0.0
        for n in range(1, count):
            starts[n] = max(starts[n], starts[n - 1] + least)
        for n in range(count - 1, 0, -1):
            starts[n] = min(starts[n], duration - least * (count - n))
        starts = np.round(starts, 4)
        return starts.tolist(), [*starts[1:].tolist(), duration]

    def _word(
        self,
        word: Word,
        index: int,
        path: Sequence[int],
        graph: PhoneGraph,
        posteriors: GraphPosteriors,
        phones: Sequence[AlignedPhone],
    ) -> AlignedWord:
        own = [n for n, node in enumerate(path) if graph.nodes[node].word == index]
        chosen = word.pronunciations[graph.nodes[path[own[0]]].variant]
        share = float(np.clip(posteriors.visited[path[own[0]]], 0.0, 1.0))
        start, end, last = phones[own[0]].start, phones[own[-1]].end, own[-1] + 1
        written = word.written or word.word
        return AlignedWord(word.word, written, start, end, chosen.phones, share, (own[0], last), word.guessed)

    def _fill_gaps(self, segments: Sequence[Segment]) -> list[Segment]:
        """The segments, and silences in the gaps between them. Raises SegmentError."""
        if not segments:
            raise SegmentError("expected segments to refine, got none", pointer="segments")
        out: list[Segment] = []
        last = 0.0
        for n, s in enumerate(segments):
            if s.start < last - 0.01:
                raise SegmentError(
                    f"segments[{n}]: starts at {s.start:.3f} s, before the one before it ends at {last:.3f} s",
                    pointer=f"segments/{n}/start", value=s.start, limit=last,
                )  # fmt: skip
            if s.label is None and self.silence is None:
                raise SegmentError(
                    f"segments[{n}]: has no label, and the model has none for silence", pointer=f"segments/{n}"
                )
            if s.start > last + 0.01 and self.silence is not None:
                out.append(Segment(last, s.start, self.silence))
            out.append(Segment(s.start, s.end, s.label or self.silence))
            last = s.end
        return out

    # ---------------------------------------------------------------------------------------------- the model file

    @property
    def card_(self) -> dict[str, Any]:
        """What a person should know before using the model, JSON-serialisable."""
        card, origin = self.card, self.provenance_
        return {
            "name": card.name, "version": self.version_, "description": card.description, "labels": self.labels_,
            "licence": card.licence, "data": card.data, "limits": card.limits, "metrics": self.metrics_,
            "created": origin.created, "command": origin.command, "seed": origin.seed, "corpus": origin.corpus,
            "parameters": sum(p.numel() for p in self._require_network().parameters()),
        }  # fmt: skip

    def save(self, path: str | Path) -> PhoneAligner:
        """Write the model file, whole or not at all."""
        tensors = {f"network.{k}": v.detach().contiguous() for k, v in self._require_network().state_dict().items()}
        header = modelfile.Header(
            labels=tuple(self.labels_), provenance=self.provenance_, card=self.card, features=self.features_.to_dict(),
            model={"kind": KIND, "model": self.model.to_dict(), "training": self.training.to_dict()},
            calibration={"temperature": self.temperature_, "shift": self.shift_, "decoding": self.decoding_},
            metrics=self.metrics_,
        )  # fmt: skip
        self.version_ = modelfile.write(path, tensors, header).version
        return self

    @classmethod
    def load(cls, source: str | Path | bytes, *, name: str | None = None) -> PhoneAligner:
        """The aligner in a model file, which errors call `name` if given, else by its path.

        Raises:
            ModelFileError: not a model file, damaged, or no alignment model.
        """
        tensors, header = modelfile.read(source, name=name)
        if header.model.get("kind") != KIND:
            shown = name or (str(source) if isinstance(source, str | Path) else "the given bytes")
            raise ModelFileError(f"expected an alignment model, got {shown}, which labels given segments")
        try:
            aligner = cls(
                SegmentalSettings.from_dict(header.model["model"]),
                training=SegmentalTraining.from_dict(header.model["training"]),
                features=FeatureSettings.from_dict(header.features),
                card=header.card,
            )
            aligner.labels_ = list(header.labels)
            aligner.network_ = SemiCRF(aligner.model, len(aligner.labels_))
            aligner.network_.load_state_dict({k.removeprefix("network."): v.float() for k, v in tensors.items()})
            aligner.network_.eval()
            aligner.temperature_ = float(header.calibration["temperature"])
            aligner.shift_ = float(header.calibration["shift"])
            aligner.decoding_ = {str(k): float(v) for k, v in header.calibration["decoding"].items()}
        except (SettingsError, KeyError, TypeError, ValueError, RuntimeError, AttributeError) as error:
            reason = f"no {error}" if isinstance(error, KeyError) else str(error)
            raise ModelFileError(f"expected a model file whose parts fit together, got: {reason}") from error
        aligner.metrics_, aligner.provenance_, aligner.version_ = header.metrics, header.provenance, header.version
        return aligner


def _notices(answer: Alignment) -> list[Notice]:
    """A notice where the sound does not match the transcript, which says where it fits worst."""
    each = answer.log_posterior_per_phone
    if each >= IMPROBABLE or len(answer.phones) < 4:
        return []
    if answer.words:

        def fit(word: AlignedWord) -> float:
            own = answer.phones[word.phones[0] : word.phones[1]]
            return sum(p.posterior for p in own) / len(own)

        worst = min(answer.words, key=fit)
        where = f"word '{worst.written[:40]}' at {worst.start:.2f} to {worst.end:.2f} s"
    else:
        phone = min(answer.phones, key=lambda p: p.posterior)
        where = f"phone '{phone.label[:40]}' at {phone.start:.2f} to {phone.end:.2f} s"
    message = (
        f"the sound does not match the transcript ({-each:.1f} nats per phone; at most {-IMPROBABLE:g} where it does)"
    )
    return [Notice("transcript-improbable", f"{message}; it fits worst at {where}", "text", round(each, 2), IMPROBABLE)]
