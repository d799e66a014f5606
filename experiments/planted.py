"""Wrong labels and moved boundaries, planted among right ones, and how many of them a model finds: `python -m experiments.planted`.

Each kind of error is planted a few times, in 5 % of the segments (or of the boundaries between two). A model ranks all given
labels by doubt; the figure is the share of planted errors among as many of the most doubtful as were planted. What it misses
is partly the corpus's own noise: labels that an aligner got wrong are errors too, but count against it here.

    random       any other label; ranked by the label's posterior, by its support, and with `--context` by the support in view
                 of more labels on either side (`experiments.label_context`)
    confusable   T for D, S for Z, IH for IY, and the reverse
    boundaries   moved by 40 ms either way, ranked by the labels of both sides alone: by their certainty; by how much
                 more certain they are with the boundary moved (by 40 ms too, so this ranking knows how far); by what
                 the model says of pieces of up to 60 ms beside it (`phonechain.model.boundary_support`)
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
from scipy.optimize import minimize

from experiments import report
from experiments.cells import commit
from experiments.label_context import LabelContext, count_english
from experiments.robustness import BATCH, DecodedUtterance, read
from phonechain.features import corpora
from phonechain.features.inputs import extract_inputs
from phonechain.features.segments import Segment
from phonechain.model import pretrained_path
from phonechain.model.answers import SMALLEST
from phonechain.model.boundary_support import WEIGHTS, advantages
from phonechain.model.labeler import PhoneLabeler
from phonechain.model.support import evidence

SHARE = 0.05
PAIRS = (("T", "D"), ("S", "Z"), ("IH", "IY"))
STEP = 0.04
SHORTEST = 0.02
"""Seconds that a segment keeps when its boundary moves."""
FLOOR = 0.035
"""Seconds, half a frame over the shortest phone of an aligner with three states and frames of 10 ms."""

Kind = Callable[[Sequence[Segment], Sequence[str], float, np.random.Generator], "Planted"]


@dataclass
class Planted:
    """One utterance with errors in it: its segments, and which of its labels (or of its inner boundaries) are wrong."""

    segments: list[Segment]
    wrong: NDArray[np.bool_]
    of_boundaries: bool = False


def random_labels(
    segments: Sequence[Segment], labels: Sequence[str], share: float, random: np.random.Generator
) -> Planted:
    """Any other label in `share` of the segments."""
    wrong = random.random(len(segments)) < share
    steps = random.integers(1, len(labels), len(segments))
    changed = [
        replace(s, label=labels[(labels.index(str(s.label)) + int(step)) % len(labels)]) if bad else s
        for s, bad, step in zip(segments, wrong, steps, strict=True)
    ]
    return Planted(changed, wrong)


def confusable_labels(
    segments: Sequence[Segment], labels: Sequence[str], share: float, random: np.random.Generator
) -> Planted:
    """The other label of its pair, in four times `share` of the segments that have one: a quarter of all have."""
    other = {a: b for pair in PAIRS for a, b in (pair, pair[::-1])}
    can = np.asarray([s.label in other for s in segments], dtype=bool)
    wrong = can & (random.random(len(segments)) < 4 * share)
    changed = [replace(s, label=other[str(s.label)]) if bad else s for s, bad in zip(segments, wrong, strict=True)]
    return Planted(changed, wrong)


def move(segments: list[Segment], n: int, step: float) -> bool:
    """Move the end of segment `n`, and the start of the next with it, if both keep SHORTEST; whether it was."""
    left, right = segments[n], segments[n + 1]
    at = left.end + step
    if at - left.start < SHORTEST or right.end - at < SHORTEST or left.end != right.start:
        return False
    segments[n], segments[n + 1] = replace(left, end=at), replace(right, start=at)
    return True


def move_boundaries(
    segments: Sequence[Segment], labels: Sequence[str], share: float, random: np.random.Generator
) -> Planted:
    """`share` of the inner boundaries moved by STEP, where both segments keep SHORTEST."""
    found = list(segments)
    wrong = np.zeros(max(0, len(found) - 1), dtype=bool)
    for n in np.flatnonzero(random.random(len(wrong)) < share):
        step = STEP if random.random() < 0.5 else -STEP
        wrong[n] = move(found, int(n), step) or move(found, int(n), -step)
    return Planted(found, wrong, of_boundaries=True)


KINDS: dict[str, Kind] = {
    "random": random_labels, "confusable": confusable_labels, "boundaries": move_boundaries,
}  # fmt: skip


def certainties(
    labeler: PhoneLabeler,
    spoken: Sequence[DecodedUtterance],
    segments: Sequence[Sequence[Segment]],
    context: LabelContext | None = None,
) -> dict[str, list[NDArray[np.float64]]]:
    """The log of the posterior and of the support of every given label of each utterance, the latter also in wider contexts."""
    found: dict[str, list[NDArray[np.float64]]] = {"posterior": [], "support": []}
    for at in range(0, len(spoken), BATCH):
        here = segments[at : at + BATCH]
        inputs = [
            extract_inputs(one.audio, own, labeler.features_)
            for one, own in zip(spoken[at : at + BATCH], here, strict=True)
        ]
        for answers in labeler.label_inputs(inputs, segments=here, support=True):
            found["posterior"].append(_logs([a.given_posterior for a in answers]))
            found["support"].append(_logs([a.given_support for a in answers]))
        if context is not None:
            seen = [evidence(own, labeler.label_set_.compare(s.label for s in own)) for own in here]
            for own, p in zip(here, labeler.posteriors(inputs, evidence=seen)[0], strict=True):
                found.setdefault("support and context", []).append(context.widen([str(s.label) for s in own], p))
    return found


def _logs(values: Sequence[float | None]) -> NDArray[np.float64]:
    logs: NDArray[np.float64] = np.log(np.maximum(np.asarray([v or 0.0 for v in values]), SMALLEST))
    return logs


def doubts(
    labeler: PhoneLabeler,
    spoken: Sequence[DecodedUtterance],
    planted: Sequence[Planted],
    context: LabelContext | None = None,
) -> dict[str, list[NDArray[np.float64]]]:
    """For each ranking, a number for every given label, or boundary, of each utterance: the lower, the more doubtful."""
    if not planted[0].of_boundaries:
        return certainties(labeler, spoken, [one.segments for one in planted], context)
    found = certainties(labeler, spoken, [one.segments for one in planted])
    sides = {name: [logs[:-1] + logs[1:] for logs in each] for name, each in found.items()}
    best = [np.full(len(own), -np.inf) for own in sides["posterior"]]
    for first in (0, 1):  # every other boundary at once, so that each is the only one of its two segments that moves
        for step in (STEP, -STEP):
            shifted = [list(one.segments) for one in planted]
            moved = [[n for n in range(first, len(own) - 1, 2) if move(own, n, step)] for own in shifted]
            for n, logs in enumerate(certainties(labeler, spoken, shifted)["posterior"]):
                best[n][moved[n]] = np.maximum(best[n], logs[:-1] + logs[1:])[moved[n]]
    fixed = [np.where(np.isfinite(b), own - b, 0.0) for own, b in zip(sides["posterior"], best, strict=True)]
    pieces = [each @ np.asarray(WEIGHTS) for each in piece_advantages(labeler, spoken, planted)]
    return {**sides, "moved": fixed, "pieces": [np.nan_to_num(each) for each in pieces]}


def piece_advantages(
    labeler: PhoneLabeler, spoken: Sequence[DecodedUtterance], planted: Sequence[Planted]
) -> list[NDArray[np.float64]]:
    """What the pieces beside the boundaries of each utterance say (see boundary_support.advantages)."""
    found: list[NDArray[np.float64]] = []
    for at in range(0, len(spoken), BATCH):
        here = zip(spoken[at : at + BATCH], planted[at : at + BATCH], strict=True)
        found += advantages(labeler, [(one.audio, own.segments) for one, own in here])
    return found


def fit(features: NDArray[np.float64], wrong: NDArray[np.bool_], penalty: float = 1e-3) -> NDArray[np.float64]:
    """[F] weights of a logistic regression of rightness on features [N, F], penalised as if these had unit variance."""
    deviation = features.std(0)
    z, right = (features - features.mean(0)) / deviation, np.where(wrong, -1.0, 1.0)

    def loss(w: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        margin = right * (z @ w[:-1] + w[-1])
        slope = -right / (1 + np.exp(margin)) / len(z)
        gradient = np.append(slope @ z + 2 * penalty * w[:-1], slope.sum())
        return float(np.logaddexp(0, -margin).mean() + penalty * (w[:-1] ** 2).sum()), gradient

    weights: NDArray[np.float64] = minimize(loss, np.zeros(z.shape[1] + 1), jac=True, method="L-BFGS-B").x
    return weights[:-1] / deviation


def fit_weights(labeler: PhoneLabeler, spoken: Sequence[DecodedUtterance], draws: int) -> NDArray[np.float64]:
    """The weights of boundary_support.WEIGHTS from boundaries moved in these utterances."""
    features, wrong = [], []
    for seed in range(draws):
        random = np.random.default_rng(seed)
        planted = [move_boundaries(s.segments, labeler.labels_, SHARE, random) for s in spoken]
        for each, one in zip(piece_advantages(labeler, spoken, planted), planted, strict=True):
            known = np.isfinite(each).all(1)
            features.append(each[known])
            wrong.append(one.wrong[known])
    return fit(np.concatenate(features), np.concatenate(wrong))


def precision(scores: Sequence[NDArray[np.float64]], wrong: Sequence[NDArray[np.bool_]]) -> float:
    """Share of planted errors among as many of the lowest scores."""
    bad, order = np.concatenate(wrong), np.argsort(np.concatenate(scores), kind="stable")
    return float(bad[order[: int(bad.sum())]].mean())


def precision_over_floor(scores: Sequence[NDArray[np.float64]], planted: Sequence[Planted]) -> float:
    """`precision` of the segments of over 30 ms alone."""
    long = [np.asarray([s.end - s.start for s in one.segments]) > FLOOR for one in planted]
    return precision(
        [own[kept] for own, kept in zip(scores, long, strict=True)],
        [one.wrong[kept] for one, kept in zip(planted, long, strict=True)],
    )


def drop_unknown(spoken: Sequence[DecodedUtterance], labels: Sequence[str]) -> list[DecodedUtterance]:
    """The same without the segments whose label the model does not know."""
    kept = [replace(s, segments=[one for one in s.segments if one.label in labels]) for s in spoken]
    return [s for s in kept if s.segments]


def main(given: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", nargs="+", help="model files, or names of shipped models")
    parser.add_argument("--data", type=Path, default=Path("data/speechocean762"))
    parser.add_argument("--split", default="test")
    parser.add_argument("--every", type=int, default=1, help="every so manyth utterance")
    parser.add_argument("--draws", type=int, default=3, help="times that each kind is planted")
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--context", help="the split whose labels, with a dictionary's, tell wider contexts of labels")
    parser.add_argument("--fit", action="store_true", help="print weights for the pieces beside boundaries, and end")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "RESULTS.md")
    options = parser.parse_args(given)
    labelers = [PhoneLabeler.load(p if Path(p).is_file() else pretrained_path(p)) for p in options.models]
    names = [labeler.name for labeler in labelers]
    spoken = drop_unknown(read(options.data, options.split, options.every), labelers[0].labels_)
    if options.fit:
        print(", ".join(f"{w:.3f}" for w in fit_weights(labelers[0], spoken, options.draws)))
        return 0
    context = None
    if options.context:
        others = (u.segments for u in corpora.read(options.data).split(options.context))
        context = count_english(labelers[0].labels_, ([str(s.label) for s in own] for own in others))
    more = f" --every {options.every}" if options.every > 1 else ""
    more += f" --draws {options.draws}" + (f" --context {options.context}" if options.context else "")
    lines = [
        f"## Planted errors in {options.data.name}",
        "",
        f"Precision in per cent at the number of planted errors, {100 * SHARE:.0f} % of the labels or boundaries of the "
        f"{options.split} split, mean of {options.draws} draws; commit {commit()}.",
        f"`python -m experiments.planted {shlex.join(names)}{more}`",
        "",
        "| errors | ranked by | " + " | ".join(names) + " |",
        "|---|---|" + "---|" * len(names),
    ]
    for kind in options.kinds:
        plant = KINDS[kind]
        cells: dict[str, list[str]] = {}
        for labeler in labelers:
            found: dict[str, list[float]] = {}
            for seed in range(options.draws):
                random = np.random.default_rng(seed)
                planted = [plant(s.segments, labeler.labels_, SHARE, random) for s in spoken]
                for name, scores in doubts(labeler, spoken, planted, context).items():
                    found.setdefault(name, []).append(precision(scores, [one.wrong for one in planted]))
                    if not planted[0].of_boundaries:
                        found.setdefault(f"{name}, over 30 ms", []).append(precision_over_floor(scores, planted))
            for name, values in found.items():
                cells.setdefault(name, []).append(f"{100 * np.mean(values):.1f}")
        for name, row in cells.items():
            lines.append(f"| {kind} | {name} | " + " | ".join(row) + " |")
            print(lines[-1], flush=True)
    report.write(options.results, "\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
