"""An aligner of one's own from little data: with boundaries, or from the order of the phones alone.

    python -m experiments.own_aligner FOLDER OUT [--minutes 24] [--flat] [--base MODEL]
    python -m experiments.own_aligner FOLDER OUT --measure      OUT is there: measured, not trained

FOLDER is a corpus. Of its recordings in a drawn order the first --test are held out and measured on, the next ones are
trained on up to --minutes of sound. With --flat the model is trained without a boundary, and measured against those that
the corpus has, on the recordings held out and on those that it was trained on. --grid STEP FIRST counts boundaries at the nearest
time that the reference can have too, where its times are multiples of STEP after FIRST (festvox-ru: 0.01 0.002).
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from experiments.alignment import report
from phonechain.features import corpora
from phonechain.features.audio.reader import decode
from phonechain.features.segments import Utterance
from phonechain.features.words.dictionary import Pronunciation
from phonechain.model.files.modelfile import Card, Provenance
from phonechain.model.scoring import edits
from phonechain.model.segmental.aligner import PhoneAligner
from phonechain.model.segmental.fitting import TranscribedRecording, cover_recording
from phonechain.model.segmental.learning import Epoch
from phonechain.model.segmental.settings import SegmentalSettings, SegmentalTraining
from phonechain.model.segmental.transcripts import Word


def choose_recordings(given: argparse.Namespace) -> tuple[list[Utterance], list[Utterance]]:
    """(train, test) recordings."""
    found = corpora.read(given.folder).utterances
    found = [found[n] for n in np.random.default_rng(7).permutation(len(found))]
    test, train, seconds = found[: given.test], list[Utterance](), 0.0
    for u in found[given.test :]:
        if seconds >= 60 * given.minutes:
            break
        train.append(u)
        seconds += u.segments[-1].end
    return train, test


def phones_in_order(u: Utterance, silence: str) -> TranscribedRecording:
    """The phones of a recording without their times."""
    segments = cover_recording(u.segments, u.segments[-1].end, silence)
    words = [Word(str(s.label), [Pronunciation((str(s.label),))]) for s in segments]
    return TranscribedRecording(u.id, u.audio, words, speaker=u.speaker, phones=True)


def less_habits(found: Sequence[tuple[int, tuple[str, str], float]]) -> float:
    """Share within 20 ms when the median of each pair of labels is taken off, which the other half of the recordings gives.

    What a reference does alike with each kind of border is a habit that sound alone does not show. Pairs that the other half
    has less than four times go by their second label, then by the median of all.

    Args:
        found: recording's number, labels on both sides, error (s).
    """
    right = 0
    for half in (0, 1):
        medians: dict[object, list[float]] = {}
        for number, (left, label), error in found:
            if number % 2 != half:
                for key in ((left, label), label, None):
                    medians.setdefault(key, []).append(error)
        for number, (left, label), error in found:
            if number % 2 == half:
                known = next(
                    (medians[k] for k in ((left, label), label) if len(medians.get(k, ())) >= 4), medians[None]
                )
                right += abs(error - float(np.median(known))) <= 0.020 + 1e-6
    return right / len(found)


def medians_before(found: Sequence[tuple[int, tuple[str, str], float]], least: int = 25) -> dict[str, float]:
    """Median error (ms) of the boundaries before each label that has `least` of them; arguments as in `less_habits`."""
    errors: dict[str, list[float]] = {}
    for _, (_, label), error in found:
        errors.setdefault(label, []).append(error)
    return {y: round(1e3 * float(np.median(e)), 1) for y, e in sorted(errors.items()) if len(e) >= least}


def measure(
    aligner: PhoneAligner,
    test: Sequence[Utterance],
    name: str,
    *,
    recognition: bool = True,
    grid: tuple[float, float] | None = None,
) -> None:
    """Boundaries with the phones given, and phones found from sound alone."""
    errors, certain, inside, on_grid = [], [], [], []
    found_errors: list[tuple[int, tuple[str, str], float]] = []
    totals, count, plain, bare = np.zeros(3), 0, np.zeros(3), 0
    for number, u in enumerate(test):
        audio = decode(u.audio, rate=aligner.features_.rate)
        reference = cover_recording(u.segments, audio.duration, str(aligner.silence))
        answer = aligner.align_phones(audio, [str(s.label) for s in reference])
        for p, s in list(zip(answer.phones, reference, strict=True))[1:]:
            errors.append(p.start - s.start)
            certain.append(p.within)
            inside.append(p.start_low <= s.start <= p.start_high)
            if grid is not None:
                on_grid.append(round((p.start - grid[1]) / grid[0]) * grid[0] + grid[1] - s.start)
        pairs = itertools.pairwise(str(s.label) for s in reference)
        found_errors += [(number, pair, e) for pair, e in zip(pairs, errors[-len(reference) + 1 :], strict=True)]
        if recognition:
            found = [p.label for p in aligner.recognize(audio).phones]
            labels = [str(s.label) for s in reference]
            totals += edits.count(labels, found)
            count += len(labels)
            a, b = ([y for y in x if y != aligner.silence] for x in (labels, found))
            plain += edits.count(a, b)
            bare += len(a)
    more: dict[str, object] = {"name": name, "interval_90_holds": round(100 * float(np.mean(inside)), 1)}
    if count:
        more |= {
            "per": round(100 * float(totals.sum()) / count, 2),
            "per_without_silence": round(100 * float(plain.sum()) / bare, 2),
        }
    if on_grid:
        more["within_20_ms_on_grid"] = round(100 * float((np.abs(on_grid) <= 0.020 + 1e-6).mean()), 2)
    report(errors, certain, **more)
    off = np.asarray(errors) - np.median(errors)
    print(json.dumps({
        "less_their_median": round(100 * float((np.abs(off) <= 0.020).mean()), 2),
        "less_those_of_their_labels": round(100 * less_habits(found_errors), 2),
        "median_ms_before": medians_before(found_errors),
    }), flush=True)  # fmt: skip


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--minutes", type=float, default=24.0)
    parser.add_argument("--test", type=int, default=40)
    parser.add_argument("--flat", action="store_true")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--base", type=Path)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--grid", type=float, nargs=2, metavar=("STEP", "FIRST"))
    parser.add_argument("--measure", action="store_true", help="measure OUT, which is there")
    given = parser.parse_args()
    torch.set_num_threads(1)
    train, test = choose_recordings(given)
    grid = None if given.grid is None else (given.grid[0], given.grid[1])
    if given.measure:
        measure(PhoneAligner.load(given.out), test, "held out", grid=grid)
        return
    training = SegmentalTraining(epochs=given.epochs, pretraining=2, warps=(1.0, 0.94, 1.06), seed=given.seed)
    aligner = PhoneAligner(SegmentalSettings(), training=training, card=Card(given.out.stem))
    base = PhoneAligner.load(given.base) if given.base else None
    began = time.process_time()

    def tell(epoch: Epoch) -> None:
        print(json.dumps(dataclasses.asdict(epoch)), flush=True)

    if given.flat:
        quiet = next((str(s.label) for u in train for s in u.segments if s.label in ("pau", "SIL")), "SIL")
        aligner.fit_flat([phones_in_order(u, quiet) for u in train], rounds=given.rounds, base=base, report=tell)
    else:
        aligner.fit(train, base=base, report=tell)
    print(
        json.dumps(
            {"trained": len(train), "left_out": len(aligner.problems_), "cpu_s": round(time.process_time() - began)}
        )
    )
    aligner.provenance_ = Provenance.now(command=" ".join(sys.argv[1:]), seed=given.seed, corpus=given.folder.name)
    aligner.save(given.out)
    measure(aligner, test, "held out", grid=grid)
    if given.flat:
        measure(aligner, train[: given.test], "trained on", recognition=False, grid=grid)


if __name__ == "__main__":
    main()
