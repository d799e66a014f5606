"""`--preset auto`: choose the system to train on a corpus by the held-out errors of short trainings.

Candidates differ in the encoder (that of an existing model, a new one, none), in the order of the chain, in size, and, for the
systems of the paper, in the penalty. They are trained on a sample of the corpus. The base as it is competes with them where its
labels are those of the corpus. Where the held-out part is too small to tell two of them apart, those that may still be the best
are cross-validated. The tenth of the corpus that training holds out anyway is not used, so that its error stays unbiased.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from phonechain.features.errors import PhonechainError, TrainingError
from phonechain.features.files import write_whole
from phonechain.features.mfcc import FeatureSettings
from phonechain.model.device import CPU
from phonechain.model.learning.base_as_is import BaseAsIs
from phonechain.model.learning.extraction import Featurised
from phonechain.model.learning.fitting import Run
from phonechain.model.learning.splits import PIECE, cut_run
from phonechain.model.learning.training import Progress
from phonechain.model.phone_model import PhoneModel
from phonechain.model.presets import Preset, preset
from phonechain.model.settings import TrainingSettings, from_dict, to_dict

CHOICE = "choice.json"
"""Name of the file in a run's folder that keeps what was chosen."""

SAMPLE = 4000
"""Most segments that candidates are trained and scored on: about six minutes of speech."""

FOLDS = 3
"""Parts of the sample, one of which is held out at a time."""

ENOUGH = 1500
"""Held-out segments from which one fold is enough."""

HOPELESS = 1.3
"""Times the best error so far from which on a candidate is given up halfway: none that was measured won back more than 1.2."""

WARM_EPOCHS = 8
"""Passes of what goes on from a base: on ten minutes of festvox-ru twenty are no better, at twice the time."""

MORE_WARM_EPOCHS = 12
"""The same over less than a sample, where passes are short, and over large corpora, where more is learnt: on half an hour of
festvox-ru 8.3 % dev error after eight, 7.9 after twenty."""

LARGE = 3 * SAMPLE
"""Segments of a corpus from which on a sample says too little of what training on all of it gives: there the base is kept only
where the final training does worse on the dev set."""


KEPT = "the base as it is"
"""What a person reads of a base that nothing is taught."""


@dataclass(frozen=True)
class Candidate:
    """A system that may be chosen, with its training.

    `warm`: starting from the encoder, or all weights, of a base; `kept`: that base, untrained.
    """

    system: Preset
    warm: bool = False
    note: str = ""
    kept: bool = False

    @property
    def name(self) -> str:
        """Its name for people."""
        if self.kept:
            return KEPT
        return f"{self.system.name}{', from the base' if self.warm else ''}{f', {self.note}' if self.note else ''}"


@dataclass
class CandidateScore:
    """The result of a candidate: wrong and scored segments of each fold, seconds, weights; or why it could not be trained."""

    candidate: Candidate
    wrong: list[int] = field(default_factory=list)
    segments: list[int] = field(default_factory=list)
    seconds: float = 0.0
    weights: int = 0
    failure: str = ""
    stopped: bool = False

    @property
    def error(self) -> float:
        """Share of held-out segments answered wrong; infinite where there are none."""
        return math.inf if self.failure or not self.segments else sum(self.wrong) / sum(self.segments)

    @property
    def spread(self) -> float:
        """Standard error of `error`, with segments taken as independent."""
        return math.sqrt(max(self.error * (1.0 - self.error), 1e-4) / sum(self.segments))

    def row(self) -> dict[str, Any]:
        """A row of the table of candidates, JSON-serialisable; None for the error of one that could not be trained."""
        known = not self.failure and bool(self.segments)
        notes = (self.candidate.note, "stopped halfway" if self.stopped else "")
        return {
            "preset": self.candidate.system.name, "warm": self.candidate.warm, "kept": self.candidate.kept,
            "note": self.failure or ", ".join(filter(None, notes)),
            "dev_error": self.error if known else None, "segments": sum(self.segments), "folds": len(self.segments),
            "weights": self.weights, "seconds": round(self.seconds, 2),
        }  # fmt: skip


@dataclass(frozen=True)
class Choice:
    """The chosen system, and the table of all candidates, best first."""

    candidate: Candidate
    table: list[dict[str, Any]]


def candidates(base: PhoneModel | None, *, framed: bool, segments: int) -> list[Candidate]:
    """The systems that compete for a corpus of that many labelled segments.

    Args:
        base: a model to start from, with its encoder or all its weights.
        framed: whether there are frames, which features alone do not have.
    """
    found = []
    if base is not None and base.settings.encoder.kind != "none" and (framed or base.settings.encoder.kind != "frames"):
        given = preset("blstm-ho-lc-crf" if base.settings.encoder.kind == "frames" else "blstm-seg-lc-crf")
        epochs = WARM_EPOCHS if SAMPLE <= segments < LARGE else MORE_WARM_EPOCHS
        training = replace(given.training, epochs=epochs)
        found.append(Candidate(replace(given, model=base.settings, training=training), True))
    anew = preset("blstm-seg-lc-crf")
    still = replace(anew.training.augmentation, warp=0.0)  # warps would be computed for every candidate
    found.append(Candidate(replace(anew, training=replace(anew.training, augmentation=still))))
    found += [Candidate(preset(name)) for name in ("spn-ho-lc-crf", "spn-lc-crf", "lc-crf")]
    return found


def variations(best: Candidate) -> list[Candidate]:
    """The best candidate with other penalties and sizes, if it has no encoder: only there these matter."""
    system = best.system
    if system.model.encoder.kind != "none":
        return []
    found = [
        Candidate(
            replace(system, training=replace(system.training, l2=by * system.training.l2)), best.warm, f"l2 x {by:g}"
        )
        for by in (1 / 3, 3.0)
        if system.training.l2
    ]
    if any(f.kind == "spn" and f.layers > 1 for f in system.model.factors):
        factors = tuple(replace(f, layers=1, states=2) if f.kind == "spn" else f for f in system.model.factors)
        small = replace(system, model=replace(system.model, factors=factors))
        found.append(Candidate(small, best.warm, "one layer"))
    return found


class Search:
    """The choice of a system for one corpus.

    Args:
        training: its seed, gaps and maximum of epochs apply to every candidate.
        features: how sound becomes features, apart from what an encoder adds.
        base: a model to start from.
        as_is: all of it, where it may be kept.
        device: where candidates are trained.
    """

    def __init__(
        self, training: TrainingSettings, features: FeatureSettings, *, drop: Collection[str] = (),
        base: PhoneModel | None = None, as_is: BaseAsIs | None = None, progress: Callable[[Progress], None] | None = None,
        stop: Callable[[], bool] | None = None, device: torch.device = CPU,
    ) -> None:  # fmt: skip
        self.training, self.features, self.drop, self.base = training, features, tuple(drop), base
        self.as_is, self.progress, self.stop = as_is, progress, stop
        self.done, self.best = 0, math.inf
        self.device = device

    def choose_once(self, items: Sequence[Featurised], run_dir: Path | None) -> Choice:
        """As `choose`, or the stored choice of an interrupted run with the same arguments, if its folder has one."""
        asked = {
            "training": to_dict(self.training), "drop": list(self.drop), "warm": self.base is not None,
            "kept": self.as_is is not None and not self.as_is.obstacle,
        }  # fmt: skip
        path = None if run_dir is None else run_dir / CHOICE
        if path is not None and path.exists():
            stored = json.loads(path.read_text(encoding="utf-8"))
            if stored["asked"] == asked:
                system = from_dict(Preset, stored["system"])
                return Choice(Candidate(system, stored["warm"], stored["note"], stored["kept"]), stored["table"])
        choice = self.choose(items)
        if path is not None:
            chosen = choice.candidate
            facts = {
                "asked": asked, "system": to_dict(chosen.system), "warm": chosen.warm, "note": chosen.note,
                "kept": chosen.kept, "table": choice.table,
            }  # fmt: skip
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, lambda spare: spare.write_text(json.dumps(facts), encoding="utf-8"))
        return choice

    def choose(self, items: Sequence[Featurised]) -> Choice:
        """Train and score the candidates on a sample of the items.

        Raises:
            PhonechainError: no candidate can be trained; the reason of the first one.
        """
        good = [item for item in items if item.error is None]
        total = sum(map(count_labelled, good))
        longest = max(10, min(PIECE, total // (3 * FOLDS)))
        blocks = [block for item in good for block in split_item(item, longest)]
        folds = split_folds(sample(blocks, SAMPLE, self.training.seed), FOLDS, self.training.seed)
        framed = any(len(item.inputs.frames) for item in items)
        entries = [CandidateScore(c) for c in self._untrained()]
        entries += [CandidateScore(self.adapt(c)) for c in candidates(self.base, framed=framed, segments=total)]
        for entry in entries:
            self._score(entry, folds, 0, len(entries))
        trained = [s for s in entries if not s.candidate.kept]
        for candidate in variations(min(trained, key=lambda s: s.error).candidate):
            entries.append(CandidateScore(self.adapt(candidate)))
            self._score(entries[-1], folds, 0, len(entries))
        if min(s.error for s in entries) == math.inf:
            raise TrainingError(trained[0].failure or "no candidate could be scored: too few labelled segments")
        self._cross_validate(entries, folds)
        ranked = rank(entries)
        chosen = pick(ranked)
        if chosen.candidate.kept and total > LARGE:
            chosen = next((s for s in ranked if not s.candidate.kept and s.error < math.inf), chosen)
        return Choice(chosen.candidate, [s.row() for s in [chosen, *(s for s in ranked if s is not chosen)]])

    def _cross_validate(self, entries: Sequence[CandidateScore], folds: Sequence[Sequence[Featurised]]) -> None:
        """Score the best candidates on the other folds too, where one fold cannot tell them apart."""
        best = min(entries, key=lambda s: (s.stopped, s.error))
        rivals = [s for s in entries if s.segments and not s.stopped and s.error - best.error < 2 * s.spread]
        if len(rivals) < 2 or sum(best.segments) >= ENOUGH:
            return
        rivals.sort(key=lambda s: (not s.candidate.kept, s.error, s.weights))  # the base as it is costs next to nothing
        first = rivals[: 3 + rivals[0].candidate.kept]
        for fold in range(1, FOLDS):
            for entry in first:
                self._score(entry, folds, fold, len(entries))

    def _untrained(self) -> list[Candidate]:
        """The base as it is, where it can answer for the corpus; else why not is told."""
        if self.as_is is None:
            return []
        if self.as_is.obstacle:
            said = [notice.message for notice in self.as_is.notices()]
            self._tell("candidate", 0, 1, *(said or [f"{KEPT}: does not compete, since {self.as_is.obstacle}"]))
            return []
        return [Candidate(self.as_is.system, kept=True)]

    def adapt(self, candidate: Candidate) -> Candidate:
        """The candidate with the caller's settings."""
        training = candidate.system.training
        training = replace(
            training, seed=self.training.seed, held_out=self.training.held_out, gaps=self.training.gaps,
            epochs=min(training.epochs, self.training.epochs),
        )  # fmt: skip
        return replace(candidate, system=replace(candidate.system, training=training))

    def _score(self, entry: CandidateScore, folds: Sequence[Sequence[Featurised]], held: int, total: int) -> None:
        if entry.failure or not folds[held]:
            return
        name, began = entry.candidate.name, time.perf_counter()
        self._tell("choose", self.done, max(total, self.done + 1), name)
        if entry.candidate.kept:
            self._label_as_is(entry, folds[held])
        else:
            self._train(entry, [item for n, fold in enumerate(folds) if n != held for item in fold], folds[held])
        entry.seconds += time.perf_counter() - began
        self.best = min(self.best, entry.error)
        self.done += 1
        parts = f"parts 1 to {held + 1} of {FOLDS} together" if held else f"part 1 of {FOLDS}"
        found = entry.failure or f"{100 * entry.error:.1f} % errors on {sum(entry.segments)} held-out segments, {parts}"
        self._tell("candidate", self.done, max(total, self.done), f"{name}: {found}; {entry.seconds:.1f} s")

    def _label_as_is(self, entry: CandidateScore, held: Sequence[Featurised]) -> None:
        assert self.as_is is not None
        wrong, count = self.as_is.count_errors(held)
        entry.wrong.append(wrong)
        entry.segments.append(count)
        entry.weights = self.as_is.model.parameters

    def _train(self, entry: CandidateScore, others: Sequence[Featurised], held: Sequence[Featurised]) -> None:
        system = entry.candidate.system
        training = replace(
            system.training, epochs=min(system.training.epochs, 8 if system.model.encoder.kind != "none" else 12)
        )
        run = Run(
            system.model, training, system.model.encoder.features(self.features), self.drop,
            base=self.base if entry.candidate.warm else None, base_name="the base",
            device=self.device,
        )  # fmt: skip
        hopeless, first = False, not entry.segments

        def watch(event: Progress) -> None:
            nonlocal hopeless
            if first and event.stage == "epoch" and event.done == (event.total + 1) // 2 < event.total:
                hopeless = event.metrics["dev_error"] > HOPELESS * self.best
                entry.stopped = entry.stopped or hopeless

        try:
            run.fit(others, held, progress=watch, stop=lambda: hopeless or self._stop())
        except PhonechainError as error:
            entry.failure = str(error)
        else:
            count = int(run.metrics["dev_segments"])
            entry.wrong.append(round(run.metrics["dev_error"] * count))
            entry.segments.append(count)
            entry.weights = 0 if run.model is None else run.model.parameters

    def _stop(self) -> bool:
        return self.stop is not None and self.stop()

    def _tell(self, stage: str, done: int, total: int, message: str) -> None:
        if self.progress is not None:
            self.progress(Progress(stage, done, total, "candidates", message))


def rank(entries: Sequence[CandidateScore]) -> list[CandidateScore]:
    """The best first; what was scored on more folds comes before what was scored on fewer."""
    return sorted(entries, key=lambda s: (-len(s.segments), s.stopped, s.error, s.weights))


def pick(ranked: Sequence[CandidateScore]) -> CandidateScore:
    """The first of the ranked, or the base as it is where the first is better by less than a standard error.

    Held-out segments also say after which pass a training stops, which makes its error here look a little smaller than it is; and
    a base has heard other speakers than those of the corpus, which no held-out part of it shows.
    """
    best = ranked[0]
    tied = (s for s in ranked if s.candidate.kept and len(s.segments) == len(best.segments))
    return next((s for s in tied if s.error - best.error < s.spread), best)


def count_labelled(item: Featurised) -> int:
    """Segments of an item that have a label."""
    return sum(s.label is not None for s in item.segments)


def split_item(item: Featurised, longest: int = PIECE) -> list[Featurised]:
    """An item in pieces of at most `longest` segments, cut as in training; pieces without labels are left out."""
    pieces = cut_run(range(len(item.segments)), item.segments, longest)
    parts = [item] if len(pieces) == 1 else [slice_item(item, piece.start, piece.stop) for piece in pieces]
    return [part for part in parts if count_labelled(part)]


def slice_item(item: Featurised, begin: int, end: int) -> Featurised:
    """The segments from `begin` to before `end`, with the frames around them."""
    segments = item.segments[begin:end]
    warped = item.warped[:, begin:end] if item.warped.size else item.warped
    clipped = replace(item.inputs, frames=item.clipped).part(begin, end).frames if len(item.clipped) else item.clipped
    utterance = replace(item.utterance, segments=segments, lines=())
    inputs = item.inputs.part(begin, end)
    return replace(item, utterance=utterance, segments=segments, inputs=inputs, warped=warped, clipped=clipped)


def sample(blocks: Sequence[Featurised], most: int, seed: int) -> list[Featurised]:
    """Blocks in random order, until they have `most` labelled segments."""
    order = np.random.default_rng([seed, 1]).permutation(len(blocks))
    chosen: list[Featurised] = []
    held = 0
    for n in order:
        if held >= most:
            break
        chosen.append(blocks[n])
        held += count_labelled(blocks[n])
    return chosen


def split_folds(blocks: Sequence[Featurised], folds: int, seed: int) -> list[list[Featurised]]:
    """Folds of about equally many segments; with at least five speakers, each speaker is in one fold only."""
    speakers = sorted({b.utterance.speaker for b in blocks if b.utterance.speaker is not None})
    whole = len(speakers) >= 5
    groups: dict[Any, list[Featurised]] = {}
    for n, block in enumerate(blocks):
        groups.setdefault((block.utterance.speaker or "") if whole else n, []).append(block)
    dealt: list[list[Featurised]] = [[] for _ in range(folds)]
    sizes = [0] * folds
    order = np.random.default_rng([seed, 2]).permutation(len(groups))
    drawn = list(groups.values())
    for group in sorted((drawn[n] for n in order), key=lambda g: -sum(map(count_labelled, g))):
        least = sizes.index(min(sizes))
        dealt[least] += group
        sizes[least] += sum(map(count_labelled, group))
    return dealt
