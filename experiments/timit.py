"""TIMIT with any preset, in the usual way: `python -m experiments.timit TIMIT`, by default with the encoder of the shipped model.

Trained on the 462 speakers of the training set with 48 labels, the best epoch and the temperature by the 50 dev speakers,
scored once on the 24 core test speakers with 39 (Lee and Hon 1989; Halberstadt 1998). A label of the 39 that several of the
48 fold to has the sum of their posteriors.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from experiments import report
from experiments.cells import commit
from phonechain.features.corpora import timit
from phonechain.features.phones import sets as phones
from phonechain.features.segments import Utterance
from phonechain.model.labeler import PhoneLabeler
from phonechain.model.learning.training import Progress
from phonechain.model.presets import preset
from phonechain.model.scoring.calibration import calibration_error, reliability_table
from phonechain.model.scoring.significance import interval
from phonechain.model.settings import replace as change

BATCH = 32


@dataclass
class Score:
    """Segments of a set: which are wrong, how sure the answers were, and who spoke them."""

    wrong: NDArray[np.bool_]
    confidence: NDArray[np.float64]
    speakers: list[str]


def fold(utterances: Sequence[Utterance], to: str) -> list[Utterance]:
    """With labels of the 48 or the 39 instead of the 61."""
    folded = []
    for u in utterances:
        labels = [None if s.label is None else phones.fold(s.label, "timit61", to) for s in u.segments]
        folded.append(replace(u, segments=[replace(s, label=y) for s, y in zip(u.segments, labels, strict=True)]))
    return folded


def score(labeler: PhoneLabeler, utterances: Sequence[Utterance]) -> Score:
    """Error with 39 labels, of utterances labelled with 48; each recording is normalised by itself."""
    small = [phones.fold(label, "timit48", "timit39") for label in labeler.labels_]
    names = sorted({label for label in small if label is not None})
    sums = np.asarray([[label == name for name in names] for label in small], dtype=np.float32)
    wrong, confidence, speakers = [], [], []
    for at in range(0, len(utterances), BATCH):
        batch = utterances[at : at + BATCH]
        for u, p in zip(batch, labeler.predict_proba(batch), strict=True):
            q = p @ sums
            answer = q.argmax(1)
            truth = [phones.fold(str(s.label), "timit48", "timit39") for s in u.segments]
            wrong.append(np.asarray([names[n] != y for n, y in zip(answer, truth, strict=True)]))
            confidence.append(q.max(1).astype(np.float64))
            speakers += [u.speaker or u.id] * len(truth)
    return Score(np.concatenate(wrong), np.concatenate(confidence), speakers)


def main(given: Sequence[str] | None = None, tell: Callable[[str], None] = print) -> int:
    """Write the section of RESULTS.md."""
    parser = argparse.ArgumentParser(prog="python -m experiments.timit", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path, help="the folder with TRAIN and TEST")
    parser.add_argument("--preset", default="blstm-ho-lc-crf")
    parser.add_argument("--epochs", type=int, help="instead of the preset's")
    parser.add_argument("--run-dir", type=Path, help="checkpoint and features; a run that was broken off goes on")
    parser.add_argument("--out", type=Path, help="where the model goes")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "RESULTS.md")
    options = parser.parse_args(given)
    corpus = timit.read(options.data)
    for problem in corpus.problems[:5]:
        tell(f"left out: {problem}")
    sets = {name: fold(corpus.split(name), "timit48") for name in ("train", "dev", "test")}
    system = preset(options.preset)
    training = system.training if options.epochs is None else change(system.training, {"epochs": options.epochs})
    labeler = PhoneLabeler(options.preset, model=system.model, training=training, name="timit")

    def progress(p: Progress) -> None:
        if p.stage == "epoch":
            tell(
                f"epoch {p.done}/{p.total}, loss {p.metrics['loss']:.4f}, dev error {100 * p.metrics['dev_error']:.2f} %"
            )

    labeler.fit(sets["train"], dev=sets["dev"], progress=progress, run_dir=options.run_dir)
    if options.out is not None:
        labeler.save(options.out)
    lines = [
        f"## TIMIT, {options.preset}",
        "",
        f"Phone error with 39 labels, trained with 48 on the published splits; {labeler.parameters_:,} weights; seed "
        f"{training.seed}; commit {commit()}.",
        f"`python -m experiments.timit TIMIT --preset {shlex.quote(options.preset)}`",
        "",
        "| set | segments | error % | 95 %, over speakers | ECE % |",
        "|---|---|---|---|---|",
    ]
    for name, what in (("dev", "dev, 50 speakers"), ("test", "core test, 24 speakers")):
        found = score(labeler, sets[name])
        span = interval(found.wrong, found.speakers)
        ece = calibration_error(reliability_table(found.confidence, ~found.wrong))
        limits = "" if span.low is None or span.high is None else f"{100 * span.low:.1f} to {100 * span.high:.1f}"
        lines.append(f"| {what} | {len(found.wrong)} | {100 * found.wrong.mean():.2f} | {limits} | {100 * ece:.1f} |")
        tell(lines[-1])
    report.write(options.results, "\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
