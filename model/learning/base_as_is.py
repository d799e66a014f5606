"""A base as it is, as a candidate for a corpus: whether its labels are those of the corpus, and how often it is wrong there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from phonechain.features.errors import Notice
from phonechain.features.mfcc import FeatureSettings
from phonechain.features.phones.comparison import LabelComparison
from phonechain.model.learning.extraction import Featurised
from phonechain.model.phone_model import PhoneModel
from phonechain.model.presets import Preset

KNOWN = 0.995
"""Share of the labelled segments whose labels a base has to know: a slip of the pen is no label of the corpus."""

BATCH = 64
"""Utterances that are labelled at once."""


@dataclass(frozen=True)
class BaseAsIs:
    """A model that nothing is taught, and a corpus.

    Attributes:
        model: with all its networks; a training goes on from one of them alone.
        system: what it was trained as.
        name: what a person reads of it.
        comparison: the corpus's labels held against the model's, by the folding that fits them.
        drop: labels that are left out, the chain running across them.
        obstacle: why its answers cannot stand for the corpus's labels; "" if they can.
        merged: two labels of the corpus that it does not tell apart, where only that is the obstacle.
    """

    model: PhoneModel
    system: Preset
    name: str
    comparison: LabelComparison
    drop: tuple[str, ...] = ()
    obstacle: str = ""
    merged: tuple[str, str] | None = None

    @classmethod
    def of(
        cls,
        model: PhoneModel,
        system: Preset,
        name: str,
        items: Sequence[Featurised],
        features: FeatureSettings,
        drop: Collection[str] = (),
    ) -> BaseAsIs:
        """The model and the corpus of these items, whose sound became `features` apart from what an encoder adds."""
        good = [i for i in items if i.error is None and len(i.inputs)]
        comparison = model.label_set.compare(
            Counter(s.label for i in good for s in i.segments if s.label is not None and s.label not in drop)
        )
        obstacle, merged = _features_obstacle(model, good, features) or _labels_obstacle(comparison), None
        if not obstacle and (merged := _merged_labels(comparison)) is not None:
            obstacle = f"it does not tell {merged[0]} and {merged[1]} apart"
        return cls(model, system, name, comparison, tuple(drop), obstacle, merged)

    def notices(self) -> tuple[Notice, ...]:
        """How it could compete, where its labels are only coarser than those of the corpus."""
        if self.merged is None:
            return ()
        message = (
            f"{self.name} does not compete as it is, since {self.obstacle}; name it as base with fold (--base, --fold) if its "
            "labels are enough"
        )
        return (Notice("base-coarser", message, "fold", " ".join(self.merged)),)

    def count_errors(self, items: Sequence[Featurised]) -> tuple[int, int]:
        """(wrong, all) labelled segments of the items; a label that it has no answer for counts as wrong."""
        mode = self.model.normaliser.check_mode(None, known_speakers=False)
        wrong = count = 0
        good = [item for item in items if item.error is None]
        for at in range(0, len(good), BATCH):
            some = good[at : at + BATCH]
            kept = [[n for n, s in enumerate(i.segments) if s.label is None or s.label not in self.drop] for i in some]
            inputs = [i.inputs.select(positions) for i, positions in zip(some, kept, strict=True)]
            posteriors, _ = self.model.posteriors(inputs, mode=mode)
            for item, positions, p in zip(some, kept, posteriors, strict=True):
                best = self.comparison.by_class(p).argmax(1)
                given = [item.segments[n].label for n in positions]
                pairs = [(g, int(b)) for g, b in zip(given, best, strict=True) if g is not None]
                wrong += sum(self.comparison.targets.get(g) != b for g, b in pairs)
                count += len(pairs)
        return wrong, count


def _features_obstacle(model: PhoneModel, items: Sequence[Featurised], features: FeatureSettings) -> str:
    own = model.features
    if own.bands and not all(len(i.inputs.frames) for i in items):
        return "it reads frames, and there are none"
    same = own.gives_same_frames(replace(features, pooled=own.pooled, bands=own.bands))
    if own.pooled and any(i.inputs.segments.shape[1] != len(model.normaliser.mean) for i in items):
        same = False
    return "" if same else "its features are others"


def _labels_obstacle(comparison: LabelComparison) -> str:
    """Its labels have to be those of the corpus, or fold onto them."""
    known = sum(comparison.known.values())
    if not known or known < KNOWN * comparison.total:
        return f"{comparison.total - known} of {comparison.total} labelled segments have labels that it does not know"
    return ""


def _merged_labels(comparison: LabelComparison) -> tuple[str, str] | None:
    """Two labels of the corpus that fold onto the same of the model's."""
    seen: dict[int, str] = {}
    for label in comparison.known:
        other = seen.setdefault(comparison.targets[label], label)
        if other != label:
            return other, label
    return None
