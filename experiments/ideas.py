"""What cheap ideas give on speech, beside the presets that they change: `python -m experiments.ideas CORPUS`.

Each system is trained on the corpus's split "train" less a tenth of its speakers, and compared on these, as lone recordings. The
test split is looked at only for the systems that `--test` names. Finished systems are kept in `runs/ideas.jsonl` and not computed
again; the section of RESULTS.md is written from all of them.

Self-training has no unlabelled speech to learn from but the test sets, so it is simulated: a third of the training speakers keep
their labels, the others their boundaries alone.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from experiments import report
from experiments.cells import commit
from phonechain.features import corpora
from phonechain.features.augmentation import WARPS
from phonechain.features.mfcc import FeatureSettings
from phonechain.features.segments import Utterance
from phonechain.model import settings
from phonechain.model.labeler import PhoneLabeler
from phonechain.model.learning.extraction import Featurised, featurise
from phonechain.model.learning.splits import hold_out
from phonechain.model.learning.training import Progress
from phonechain.model.presets import preset
from phonechain.model.scoring.evaluation import score

NAME = "ideas"
DROP = ("+NSN+",)


@dataclass(frozen=True)
class Idea:
    """A system: a preset, and what is changed in it.

    Attributes:
        model, training, augmentation, encoder: changed settings.
        factors: changed settings by the factor's number.
        labelled: share of the training speakers whose labels are known.
        others: what is learnt from the rest: "nothing", "answers" (as taught by `teacher`, without their labels) or "labels"
            (those that `teacher` gives with a posterior of at least `CERTAIN`; the others are summed out).
        teacher: name of the idea of the same preset that labels the rest.
    """

    name: str
    preset: str
    model: Mapping[str, Any] = field(default_factory=dict)
    factors: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    augmentation: Mapping[str, Any] = field(default_factory=dict)
    encoder: Mapping[str, Any] = field(default_factory=dict)
    labelled: float = 1.0
    others: Literal["nothing", "answers", "labels"] = "nothing"
    teacher: str = ""

    def labeler(self, seed: int) -> PhoneLabeler:
        """An untrained one."""
        base = preset(self.preset)
        model = settings.replace(base.model, self.model)
        model = replace(model, encoder=settings.replace(model.encoder, self.encoder))
        factors = [settings.replace(f, self.factors.get(n, {})) for n, f in enumerate(model.factors)]
        training = settings.replace(base.training, {**self.training, "seed": seed})
        training = replace(training, augmentation=settings.replace(training.augmentation, self.augmentation))
        return PhoneLabeler(self.preset, model=replace(model, factors=tuple(factors)), training=training, drop=DROP)


SEGMENTS, PAPER = "blstm-seg-lc-crf", "spn-ho-lc-crf"
SHORT = {"epochs": 7}
"""A quarter of the passes of the preset `blstm-seg-lc-crf`."""
CERTAIN = 0.8
PERCEPTRON = {1: {"kind": "perceptron", "units": 64, "dropout": 0.5}}
BIGRAM_SPN = {1: {"kind": "spn", "layers": 1, "products": 2, "states": 2, "dropout": 0.6, "scale": 0.02}}
DEEPER = {0: {"layers": 2, "states": 3}}
DRAWN = {"normalise": "any"}
THIRD = "labels of a third of the speakers, 28 passes"
IDEAS = (
    Idea("base: a perceptron over bigrams", SEGMENTS, factors=PERCEPTRON, training=SHORT),
    Idea("an SPN over bigrams in place of the perceptron", SEGMENTS, factors=BIGRAM_SPN, training=SHORT),
    Idea("SPN trees of two layers over labels", SEGMENTS, factors={**PERCEPTRON, **DEEPER}, training=SHORT),
    Idea(
        "virtual adversarial training", SEGMENTS, factors=PERCEPTRON,
        training={**SHORT, "adversarial": 0.3, "adversarial_size": 1.5},
    ),
    Idea("base, 14 passes", SEGMENTS, factors=PERCEPTRON, training={"epochs": 14}),
    Idea("base, 28 passes", SEGMENTS, factors=PERCEPTRON, training={"epochs": 28}),
    Idea(
        "base, 28 passes, two layers over segments", SEGMENTS, factors=PERCEPTRON, training={"epochs": 28},
        encoder={"segment_layers": 2},
    ),
    Idea("chains cut into pieces of 5", SEGMENTS, factors=PERCEPTRON, training={"epochs": 14, "pieces": 5}),
    Idea("chains cut into pieces of 10", SEGMENTS, factors=PERCEPTRON, training={"epochs": 14, "pieces": 10}),
    Idea(THIRD, SEGMENTS, factors=PERCEPTRON, training={"epochs": 28}, labelled=1 / 3),
    Idea(
        "the same, and a teacher's answers for the other speakers", SEGMENTS, factors=PERCEPTRON,
        training={"epochs": 14, "gaps": "sum", "teacher_weight": 0.7}, labelled=1 / 3, others="answers", teacher=THIRD,
    ),
    Idea(
        "the same, and a teacher's certain labels of the other speakers", SEGMENTS, factors=PERCEPTRON,
        training={"epochs": 14, "gaps": "sum"}, labelled=1 / 3, others="labels", teacher=THIRD,
    ),
    Idea("both SPNs, 14 passes", SEGMENTS, factors={**BIGRAM_SPN, **DEEPER}, training={"epochs": 14}),
    Idea(
        "normalisation drawn, filter banks warped, 18 passes", PAPER, model=DRAWN, augmentation={"warp": 0.6},
        training={"epochs": 18},
    ),
    Idea(
        "the same, 18 passes, chains cut into pieces of 5", PAPER, model=DRAWN, augmentation={"warp": 0.6},
        training={"epochs": 18, "pieces": 5},
    ),
    Idea("the same, 30 passes", PAPER, model=DRAWN, augmentation={"warp": 0.6}, training={"epochs": 30}),
)  # fmt: skip


def compute(
    idea: Idea, utterances: Sequence[Utterance], seed: int, cache: Path, teacher: PhoneLabeler | None = None
) -> tuple[PhoneLabeler, dict[str, Any]]:
    """Train one system; the labeler, and its figures on the held-out speakers."""
    labeler = idea.labeler(seed)
    training = labeler.system.training
    utterances, held = hold_out(utterances, training.held_out, seed)

    def tell(p: Progress) -> None:
        if p.stage == "epoch":
            print(f"{idea.preset}, {idea.name}: epoch {p.done}, {100 * p.metrics['dev_error']:.2f} %", flush=True)

    spent = time.process_time()
    if idea.labelled == 1.0:
        labeler.fit(utterances, dev=held, progress=tell, cache=cache)
    else:
        features = labeler.system.model.encoder.features(FeatureSettings())
        items = featurise(utterances, features, warps=WARPS, cache=cache)
        known = {u.id for u in hold_out(utterances, 1.0 - idea.labelled, seed)[0]}
        items = [i if i.utterance.id in known else relabel(i, idea.others, teacher) for i in items]
        labeler.fit_featurised(
            [i for i in items if idea.others != "nothing" or i.utterance.id in known],
            featurise(held, features, cache=cache),
            progress=tell,
            teacher=teacher if idea.others == "answers" else None,
        )
    spent = time.process_time() - spent
    modes = ("recording", "speaker") if labeler.system.model.normalise == "any" else (None,)
    return labeler, {
        "dev": [score(labeler, held, normalise=mode).summarise().per for mode in modes],
        "epochs": len(labeler.history_.epochs), "parameters": labeler.parameters_, "cpu": round(spent, 1), "commit": commit(),
    }  # fmt: skip


def relabel(item: Featurised, others: str, teacher: PhoneLabeler | None) -> Featurised:
    """A recording whose labels are not known: with the teacher's certain labels, or with none."""
    if others == "labels" and teacher is not None and len(item.segments):
        [posterior], [best] = teacher.posteriors([item.inputs])
        sure = posterior.max(1) >= CERTAIN
        given = [teacher.labels_[y] if certain else None for y, certain in zip(best, sure, strict=True)]
    else:
        given = [None] * len(item.segments)
    segments = [replace(s, label=label) for s, label in zip(item.segments, given, strict=True)]
    return replace(item, segments=segments)


def look_at_test(labeler: PhoneLabeler, test: Sequence[Utterance]) -> dict[str, Any]:
    """Error and 95 % interval on the test split, as lone recordings and with speakers known, as far as the system can."""
    modes = ("recording", "speaker") if labeler.system.model.normalise == "any" else (None,)
    found = [score(labeler, test, normalise=mode).summarise() for mode in modes]
    return {"test": [f.per for f in found], "test_ece": [f.ece for f in found]}


def section(results: Sequence[Mapping[str, Any]]) -> str:
    """The Markdown of all systems, each preset's with its base first."""
    lines = [
        "## Past the paper: ideas beside their base", "",
        "Phone error in per cent on speechocean762; dev: a tenth of the speakers of the training split, one seed. Two figures are",
        "of lone recordings and of recordings whose speakers are known. `python -m experiments.ideas CORPUS`", "",
        "| preset | idea | dev | test | weights | passes | CPU s | commit |", "|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    order = {(i.preset, i.name): n for n, i in enumerate(IDEAS)}
    for r in sorted(results, key=lambda r: order.get((r["preset"], r["name"]), len(order))):
        dev, test = (", ".join(f"{100 * e:.2f}" for e in r.get(k, ())) for k in ("dev", "test"))
        lines.append(
            f"| `{r['preset']}` | {r['name']} | {dev} | {test} | {r['parameters']:,} | {r['epochs']} | {r['cpu']:.0f} | "
            f"{r['commit']} |"
        )
    return "\n".join(lines) + "\n"


def main(given: list[str] | None = None) -> int:
    """Compute what is missing, and write the section of RESULTS.md."""
    parser = argparse.ArgumentParser(prog="python -m experiments.ideas", description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--only", default="", help="Systems in whose preset and name this regular expression is found.")
    parser.add_argument("--test", default="$^", help="Systems whose test error is computed too, likewise.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=Path, default=Path(__file__).parent / "runs")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "RESULTS.md")
    options = parser.parse_args(given)
    corpus = corpora.read(options.corpus)
    train, test = corpus.split("train"), corpus.split("test")
    store = report.Store(options.runs)
    trained: dict[str, PhoneLabeler] = {}
    for idea in IDEAS:
        title = f"{idea.preset}, {idea.name}"
        if not re.search(options.only, title):
            continue
        look = bool(re.search(options.test, title))
        facts = {
            "corpus": options.corpus.resolve().name,
            "preset": idea.preset,
            "name": idea.name,
            "seed": options.seed,
        }
        key = f"{NAME} {' '.join(map(str, facts.values()))}"
        known = store.get(key)
        if known is not None and (not look or "test" in known):
            continue
        if idea.teacher and idea.teacher not in trained:
            first = next(i for i in IDEAS if (i.preset, i.name) == (idea.preset, idea.teacher))
            trained[idea.teacher] = compute(first, train, options.seed, options.runs / "cache")[0]
        labeler, found = compute(
            idea, train, options.seed, options.runs / "cache", trained[idea.teacher] if idea.teacher else None
        )
        trained[idea.name] = labeler
        result = {"key": key, **facts, **found, **(look_at_test(labeler, test) if look else {})}
        store.add(NAME, result)
        print(result, flush=True)
    results = [r for r in store.results() if r["key"].startswith(f"{NAME} ") and r["seed"] == options.seed]
    report.write(options.results, section(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
