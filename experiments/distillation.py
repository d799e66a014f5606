"""What a teacher and what synthetic voices give, told apart: `python -m experiments.distillation MIX CORPUS --teacher PRODUCT`.

The default learnt from a product of two networks (`--teacher`) and from synthetic voices in one run. Here a smaller network on the
same inputs is trained four times, with and without each, for a few passes over all real speakers. MIX is a folder of
`scripts/mix_corpus.py`, CORPUS the real corpus in it, whose test split is scored, every third utterance of it, as lone recordings;
nothing is chosen by these figures. Finished cells are kept in `runs/distillation.jsonl` and not computed again.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from experiments import report
from experiments.cells import commit
from experiments.ideas import DROP
from phonechain.features import corpora
from phonechain.features.segments import Utterance
from phonechain.model import settings
from phonechain.model.labeler import PhoneLabeler
from phonechain.model.learning.training import Progress
from phonechain.model.presets import preset
from phonechain.model.scoring.evaluation import score

NAME = "distillation"
PRESET = "blstm-ho-lc-crf"
ENCODER = {"channels": 48, "frame_units": 48, "width": 96, "segment_units": 96}
"""The widths of the smaller of the two networks that the default learnt from."""
WEIGHT = 0.7
CELLS = {
    "labels alone": (False, False),
    "a teacher": (True, False),
    "synthetic voices": (False, True),
    "both": (True, True),
}
"""Whether there is a teacher, and whether there are synthetic voices."""


def make_labeler(passes: int, seed: int) -> PhoneLabeler:
    """An untrained network."""
    base = preset(PRESET)
    model = replace(base.model, encoder=settings.replace(base.model.encoder, ENCODER))
    changed = {"epochs": passes, "seed": seed, "teacher_weight": WEIGHT, "precision": "bfloat16"}
    return PhoneLabeler(PRESET, model=model, training=settings.replace(base.training, changed), drop=DROP)


def compute(
    labeler: PhoneLabeler,
    utterances: Sequence[Utterance],
    dev: Sequence[Utterance],
    tests: Mapping[str, Sequence[Utterance]],
    teacher: PhoneLabeler | None,
    cache: Path,
) -> dict[str, Any]:
    """Train one cell; its errors and calibration errors on the dev speakers and on each test."""

    def tell(p: Progress) -> None:
        if p.stage == "epoch":
            print(f"epoch {p.done}, {100 * p.metrics['dev_error']:.2f} %", flush=True)

    spent = time.process_time()
    labeler.fit(utterances, dev=dev, progress=tell, cache=cache, teacher=teacher)
    spent = time.process_time() - spent
    found = {name: score(labeler, part, normalise="recording").summarise() for name, part in tests.items()}
    return {
        "dev": labeler.metrics_["dev_error"], "errors": {n: s.per for n, s in found.items()},
        "ece": {n: s.ece for n, s in found.items()}, "utterances": len(utterances), "parameters": labeler.parameters_,
        "cpu": round(spent, 1), "commit": commit(),
    }  # fmt: skip


def section(results: Sequence[Mapping[str, Any]]) -> str:
    """The Markdown of the cells, in their order."""
    order = list(CELLS)
    rows = sorted(results, key=lambda r: order.index(r["name"]))
    tests = list(rows[0]["errors"]) if rows else []
    lines = [
        "## Past the paper: a teacher and synthetic voices told apart", "",
        "Phone error and calibration error in per cent, lone recordings; the preset `blstm-ho-lc-crf` at the widths of the smaller",
        f"of the default's two teachers, {rows[0]['passes'] if rows else 0} passes, one seed. Dev: four speakers, 1,604 segments.",
        "`python -m experiments.distillation OUT/mix CORPUS --teacher OUT/product.safetensors --also LJSPEECH` (OUT: of",
        "`scripts/train_default.sh`)", "",
        "| learnt from | dev | " + " | ".join(f"{t} | ECE" for t in tests) + " | utterances | weights | CPU s | commit |",
        "|---|---|" + "---|---|" * len(tests) + "---|---|---|---|",
    ]  # fmt: skip
    for r in rows:
        cells = " | ".join(f"{100 * r['errors'][t]:.1f} | {100 * r['ece'][t]:.1f}" for t in tests)
        lines.append(
            f"| {r['name']} | {100 * r['dev']:.1f} | {cells} | {r['utterances']:,} | {r['parameters']:,} | {r['cpu']:.0f} | "
            f"{r['commit']} |"
        )
    return "\n".join(lines) + "\n"


def main(given: list[str] | None = None) -> int:
    """Compute what is missing, and write the section of RESULTS.md."""
    parser = argparse.ArgumentParser(prog="python -m experiments.distillation", description=__doc__)
    parser.add_argument("mix", type=Path)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--teacher", type=Path, required=True, help="a model file")
    parser.add_argument("--also", type=Path, nargs="*", default=[], help="other corpora to score")
    parser.add_argument("--only", default="", help="cells in whose name this regular expression is found")
    parser.add_argument("--passes", type=int, default=8)
    parser.add_argument("--every", type=int, default=3, help="every so manyth utterance of the test split")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=Path, default=Path(__file__).parent / "runs")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "RESULTS.md")
    options = parser.parse_args(given)
    mix, real = corpora.read(options.mix), corpora.read(options.corpus)
    speakers = {u.speaker for u in real.split("train")}
    tests = {options.corpus.resolve().name: real.split("test")[:: options.every]}
    tests |= {other.resolve().name: corpora.read(other).utterances for other in options.also}
    store = report.Store(options.runs)
    for name, (taught, voices) in CELLS.items():
        facts = {"name": name, "passes": options.passes, "every": options.every, "seed": options.seed}
        key = f"{NAME} {' '.join(map(str, facts.values()))}"
        if store.get(key) is not None or not re.search(options.only, name):
            continue
        print(name, flush=True)
        chosen = [u for u in mix.split("train") if voices or u.speaker in speakers]
        teacher = PhoneLabeler.load(options.teacher) if taught else None
        labeler = make_labeler(options.passes, options.seed)
        found = compute(labeler, chosen, mix.split("dev"), tests, teacher, options.runs / "cache")
        store.add(NAME, {"key": key, **facts, **found})
        print(found, flush=True)
    wanted = {"passes": options.passes, "every": options.every, "seed": options.seed}
    results = [r for r in store.results() if r["key"].startswith(f"{NAME} ") and wanted.items() <= r.items()]
    report.write(options.results, section(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
