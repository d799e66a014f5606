"""How far minutes of one speaker's labels go, alone and from the shipped model's encoder: `python -m experiments.little_data`.

Test: the last 100 utterances of the corpus, the same for all. Training takes the first minutes of the others, a tenth of
them held out for calibration. Nothing is chosen by the test set: the presets are as they come, but for the steps per epoch
that little data gets anyway.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from experiments import report
from experiments.cells import commit
from phonechain.features import corpora
from phonechain.features.segments import Utterance
from phonechain.model import pretrained_path
from phonechain.model.labeler import PhoneLabeler
from phonechain.model.scoring.evaluation import evaluate
from phonechain.model.settings import preset

TEST = 100
PAPER = "spn-ho-lc-crf"


def first_minutes(utterances: Sequence[Utterance], minutes: float) -> list[Utterance]:
    """As many utterances, in order, as make up that much labelled speech."""
    chosen, seconds = [], 0.0
    for u in utterances:
        if seconds >= 60 * minutes:
            break
        chosen.append(u)
        seconds += sum(s.end - s.start for s in u.segments)
    return chosen


def train(name: str, utterances: list[Utterance], base: PhoneLabeler | None, epochs: int) -> PhoneLabeler:
    """A preset on some utterances, from the encoder of a base where there is one."""
    given = preset(name)
    model = base.system.model if base is not None else given.model
    labeler = PhoneLabeler(
        name, model=model, training=replace(given.training, epochs=epochs),
        features=base.features_ if base is not None else None,
    )  # fmt: skip
    return labeler.fit(utterances, base=base)


def main(given: list[str] | None = None) -> int:
    """Write the section of RESULTS.md."""
    parser = argparse.ArgumentParser(prog="python -m experiments.little_data", description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/festvox-ru"))
    parser.add_argument("--base", default="english")
    parser.add_argument("--minutes", type=float, nargs="+", default=[10, 30])
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "RESULTS.md")
    options = parser.parse_args(given)
    utterances = sorted(corpora.read(options.data).utterances, key=lambda u: u.id)
    test, rest = utterances[-TEST:], utterances[:-TEST]
    base = PhoneLabeler.load(
        options.base if Path(options.base).is_file() else pretrained_path(options.base)
    ).trainable()
    lines = [
        f"## Little data: {options.data.name}",
        "",
        f"Phone error in per cent on the last {TEST} utterances, after training on the first minutes of the others; commit "
        f"{commit()}. `python -m experiments.little_data`",
        "",
        "| minutes | system | start | error | ECE | CPU s |",
        "|---|---|---|---|---|---|",
    ]
    for minutes in options.minutes:
        chosen = first_minutes(rest, minutes)
        epochs = 20
        for name, start in ((PAPER, None), ("blstm-ho-lc-crf", None), ("blstm-ho-lc-crf", base)):
            begun = time.process_time()
            labeler = train(name, chosen, start, epochs if name != PAPER else preset(name).training.epochs)
            spent = time.process_time() - begun
            found = evaluate(labeler, test)
            what = f"the encoder of `{base.name}`" if start is not None else "anew"
            lines.append(
                f"| {minutes:g} | `{name}` | {what} | {100 * found.per:.1f} | {100 * found.ece:.1f} | {spent:.0f} |"
            )
            print(lines[-1], flush=True)
    report.write(options.results, "\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
