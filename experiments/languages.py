"""Many languages, a little of each: `python -m experiments.languages ROOT`, for a corpus laid out like VoxAngeles.

ROOT holds a folder for each language (VoxAngeles: `audited_aligned/*.zip`, unpacked), with recordings and their annotations
anywhere below. Of each language the last fifth of the recordings is tested on, by name; the others train the preset anew, and
from the encoder of the shipped model, which has heard English alone. Labels are taken as they are spelled; test segments with
a label that training has not are counted as errors.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from experiments import report
from experiments.cells import commit
from experiments.little_data import train
from phonechain.features import corpora
from phonechain.features.errors import PhonechainError
from phonechain.features.segments import Utterance
from phonechain.model import pretrained_path
from phonechain.model.labeler import PhoneLabeler
from phonechain.model.presets import preset

PAPER = "spn-ho-lc-crf"
ENCODER = "blstm-ho-lc-crf"


def folders(root: Path) -> list[Path]:
    """One for each language, by name."""
    return sorted(p for p in root.iterdir() if p.is_dir() and not p.name.startswith("."))


def split(utterances: Sequence[Utterance]) -> tuple[list[Utterance], list[Utterance]]:
    """(train, test): the last fifth is tested on, one recording at least."""
    ordered = sorted(utterances, key=lambda u: u.id)
    held = max(1, len(ordered) // 5)
    return ordered[:-held], ordered[-held:]


def error(labeler: PhoneLabeler, test: Sequence[Utterance]) -> tuple[int, int]:
    """Wrong labelled segments, and all of them."""
    wrong = total = 0
    for u, answer in zip(test, labeler.predict(test), strict=True):
        pairs = [(a, s.label) for a, s in zip(answer, u.segments, strict=True) if s.label is not None]
        wrong, total = wrong + sum(a != b for a, b in pairs), total + len(pairs)
    return wrong, total


def main(given: Sequence[str] | None = None) -> int:
    """Write the section of RESULTS.md."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.languages", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("data", type=Path, help="the folder with a folder for each language")
    parser.add_argument("--languages", type=int, default=10, help="so many of them, the first by name")
    parser.add_argument("--epochs", type=int, default=20, help="of the recurrent systems")
    parser.add_argument("--base", default="english")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "RESULTS.md")
    options = parser.parse_args(given)
    base = PhoneLabeler.load(
        options.base if Path(options.base).is_file() else pretrained_path(options.base)
    ).trainable()
    systems = [
        (PAPER, None, preset(PAPER).training.epochs if options.epochs > 2 else options.epochs),
        (ENCODER, None, options.epochs),
        (ENCODER, base, options.epochs),
    ]
    lines = [
        f"## Languages: {options.data.name}",
        "",
        f"Phone error in per cent on the last fifth of each language's recordings; commit {commit()}.",
        f"`python -m experiments.languages {options.data.name}`",
        "",
        f"| language | labels | minutes | test segments | {PAPER} | {ENCODER} | from the encoder of `{base.name}` |",
        "|---|---|---|---|---|---|---|",
    ]
    rates: list[list[float]] = []
    for folder in folders(options.data)[: options.languages]:
        try:
            learn, test = split(corpora.read(folder).utterances)
            cells, total = [], 0
            for name, start, epochs in systems:
                wrong, total = error(train(name, learn, start, epochs), test)
                cells.append(100 * wrong / max(1, total))
        except PhonechainError as problem:  # too little of it, or nothing that can be read
            lines.append(f"| {folder.name} | {problem} | | | | | |")
            continue
        rates.append(cells)
        labels = {s.label for u in learn for s in u.segments if s.label is not None}
        minutes = sum(s.end - s.start for u in learn for s in u.segments) / 60
        lines.append(
            f"| {folder.name} | {len(labels)} | {minutes:.1f} | {total} | "
            + " | ".join(f"{c:.1f}" for c in cells)
            + " |"
        )
        print(lines[-1], flush=True)
    if rates:
        lines.append("| mean | | | | " + " | ".join(f"{c:.1f}" for c in np.mean(rates, axis=0)) + " |")
    report.write(options.results, "\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
