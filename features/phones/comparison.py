"""Compare given labels with a model's: which label of the model each one means, decided for a whole file.

A folding is a chain of named steps, each of which ignores one kind of difference in spelling. It is applied to given labels and
to the model's; two labels are the same if they fold to the same text. A model may also have finer labels than those given: its
labels that fold together form a class, whose posterior is their sum.

One chain is used for all labels of a file: the one that gives the most segments a label of the model. Segments count against a
chain if it merges labels that the model distinguishes as they are. Ties go to the chain that merges the fewest of the model's
labels, then to the cheapest: labels that are all known are compared as they are. Labels that no chain matches are unknown: they
are counted, and are not errors.

    LabelSet         a model's labels, the name of its phone set, and the user's map
    LabelComparison  the result for one file or corpus
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations

import numpy as np
from numpy import float32
from numpy.typing import NDArray

from phonechain.features.errors import Notice, PhoneSetError
from phonechain.features.phones import notation, readings
from phonechain.features.phones.sets import DROPPED
from phonechain.features.segments import Utterance

MOST_TYPES = 1000
"""Most different labels of a file that decide the folding; the most frequent ones."""
SHOWN = 5
"""Labels named in a notice."""

Fold = Callable[[str], str]

STEPS: dict[str, tuple[Fold, str]] = {
    "unicode": (notation.plain, "characters that look alike taken as one"),
    "position": (notation.without_position, "without marks of the position in the word"),
    "stress": (notation.without_stress, "without stress"),
    "length": (notation.without_length, "without length"),
    "diacritics": (notation.without_diacritics, "without diacritics"),
    "case": (str.casefold, "in upper or lower case"),
}
"""Function and description of each step, in the order in which they are applied."""

COSTS = {"unicode": 2, "position": 2, "stress": 2, "length": 3, "diacritics": 4, "case": 3, "silence": 2}
"""Cost of a step, for choosing among foldings that fit equally well: merging rarer distinctions is cheaper."""
READING = 5
"""Cost of reading one phone set as another."""

SILENCE = "silence"
_SILENT = "\0silence"
_DROPPED = "\0dropped"


@dataclass(frozen=True, slots=True)
class LabelComparison:
    """How given labels are compared with those of a model.

    Attributes:
        labels: [Y] of the model.
        steps: names of the folding's steps, in order; empty if labels are compared as they are.
        classes: [C] indices of the model's labels in each class; one each unless the folding merges some.
        targets: given label -> its class; labels that are not compared are missing.
        known, unknown, unscored: given labels with their counts: compared ones; those that the model has no label for; and
            noise, or labels that the user or the folding leaves out.
    """

    labels: tuple[str, ...]
    steps: tuple[str, ...]
    classes: tuple[tuple[int, ...], ...]
    targets: Mapping[str, int]
    known: Mapping[str, int]
    unknown: Mapping[str, int]
    unscored: Mapping[str, int]

    @property
    def merges(self) -> bool:
        """Whether any class has several labels of the model."""
        return len(self.classes) < len(self.labels)

    @property
    def total(self) -> int:
        """Number of given labels."""
        return sum(sum(counts.values()) for counts in (self.known, self.unknown, self.unscored))

    def by_class(self, posteriors: NDArray[float32]) -> NDArray[float32]:
        """Sum posteriors of the model's labels [T, Y] over classes: [T, C]."""
        if not self.merges:
            return posteriors[:, [members[0] for members in self.classes]]
        return np.stack([posteriors[:, list(members)].sum(1) for members in self.classes], axis=1)

    def class_of(self) -> NDArray[np.int64]:
        """[Y] the class of each of the model's labels."""
        found = np.zeros(len(self.labels), dtype=np.int64)
        for n, members in enumerate(self.classes):
            found[list(members)] = n
        return found

    def name(self, index: int) -> str:
        """Name of a class: its labels, joined by slashes."""
        return "/".join(self.labels[n] for n in self.classes[index])

    def names(self) -> list[str]:
        """[C] the names of all classes."""
        return [self.name(n) for n in range(len(self.classes))]

    def name_of(self, given: str | None) -> str | None:
        """The name of a given label's class; None if it has none."""
        target = None if given is None else self.targets.get(given)
        return None if target is None else self.name(target)

    def respellings(self) -> dict[str, str]:
        """The given labels that are compared under another name, and that name."""
        return {given: name for given in self.known if (name := self.name(self.targets[given])) != given}

    def respell(self, utterances: Iterable[Utterance]) -> list[Utterance]:
        """Replace given labels by the model's labels that they are compared with, for a warm start from that model.

        Labels that are not scored are removed, so that those segments are unlabelled; unknown labels, and those compared with
        several of the model's, stay as they are.
        """
        new: dict[str | None, str | None] = dict.fromkeys(self.unscored)
        new.update({given: self.name(n) for given, n in self.targets.items() if len(self.classes[n]) == 1})
        return [
            replace(u, segments=[replace(s, label=new.get(s.label, s.label)) for s in u.segments]) for u in utterances
        ]

    def as_dict(self) -> dict[str, object]:
        """JSON-serialisable: the steps, the number of known labels, and the labels that are not compared."""
        return {
            "steps": list(self.steps),
            "known": sum(self.known.values()),
            "unknown": dict(self.unknown),
            "unscored": dict(self.unscored),
        }

    def notices(self) -> tuple[Notice, ...]:
        """Notices about the folding used, and about unknown labels."""
        out = []
        if self.steps:
            example = [f"{given} as {name}" for given, name in self.respellings().items()]
            message = f"given labels are compared with the model's after a folding: {describe_steps(self.steps)}"
            if example:
                message += f" ({_listing(example)})"
            out.append(Notice("labels-folded", message, "segments", ", ".join(self.steps)))
        if self.unknown:
            out.append(unknown_notice(self.unknown, self.total))
        return tuple(out)


@dataclass(frozen=True, slots=True)
class LabelSet:
    """A model's labels, and how others are compared with them.

    Attributes:
        labels: of the model, in order.
        phone_set: name of the set they belong to, from the model file; "" infers it.
        mapping: given label -> label of the model, or None for "not scored", as the user wants it.
        steps: the folding; None chooses one for each file.
    """

    labels: tuple[str, ...]
    phone_set: str = ""
    mapping: tuple[tuple[str, str | None], ...] = ()
    steps: tuple[str, ...] | None = None

    def with_map(self, mapping: Mapping[str, str | None] | None) -> LabelSet:
        """The same with a user's map.

        Raises:
            PhoneSetError: a target that is no label of the model.
        """
        if not mapping:
            return self
        known = set(self.labels)
        for given, target in mapping.items():
            if target is not None and target not in known:
                raise PhoneSetError(
                    f"map: expected a label of the model for {given!r}, or - for none, got {target!r}; the model has "
                    f"{', '.join(self.labels[:60])}",
                    pointer="map",
                    value=target[:80],
                    details={"labels": list(self.labels)},
                )
        return replace(self, mapping=tuple(sorted(mapping.items())))

    def compare(self, given: Mapping[str, int] | Iterable[str | None]) -> LabelComparison:
        """The comparison for the labels of a file or corpus, or for their counts.

        >>> found = LabelSet(("AH", "B", "SIL")).compare(["AH0", "B", "sp", "XX"])
        >>> found.steps, found.name_of("AH0"), found.name_of("sp"), found.name_of("XX")
        (('stress', 'silence'), 'AH', 'SIL', None)
        """
        counts = given if isinstance(given, Mapping) else Counter(label for label in given if label is not None)
        return _compare(self, tuple(counts.items()))


def unknown_notice(unknown: Mapping[str, int], total: int) -> Notice:
    """The notice about unknown labels with their counts, of so many given labels in all."""
    count = sum(unknown.values())
    verb = "is" if count == 1 else "are"
    message = f"{count} of {total} given labels {verb} unknown to the model: {_listing(list(unknown))}"
    return Notice("labels-unknown", message, "segments", float(count), float(total))


def describe_steps(steps: Sequence[str]) -> str:
    """A folding in words."""
    return ", ".join(map(_description, steps)) or "as they are"


def _description(step: str) -> str:
    if step in STEPS:
        return STEPS[step][1]
    if step == SILENCE:
        return "silence under any of its names"
    source, _, hub = step.split()
    return f"read from {source} to {hub}" if source != hub else f"as {hub}"


def _listing(words: Sequence[str]) -> str:
    """The first few, and how many more."""
    more = f" and {len(words) - SHOWN} more" if len(words) > SHOWN else ""
    return ", ".join(word[:40] for word in words[:SHOWN]) + more


# ------------------------------------------------------------------------------------------------------------ choosing


@lru_cache(maxsize=256)
def _compare(known: LabelSet, counted: tuple[tuple[str, int], ...]) -> LabelComparison:
    counts = dict(sorted(counted, key=lambda item: (-item[1], item[0])))
    by_hand = dict(known.mapping)
    own = set(known.labels)
    free = {
        label: count
        for label, count in counts.items()
        if label not in by_hand and (label in own or not _is_nonspeech(label, "noise"))
    }
    if known.steps is not None:
        return _outcome(known, known.steps, counts)
    if free.keys() <= own:
        return _outcome(known, (), counts)
    seen = dict([item for item in free.items() if len(item[0]) <= notation.LONGEST][:MOST_TYPES])
    cases = Counter(map(str.casefold, seen))
    # where a file has `s` and `S`, case distinguishes sounds
    twins = sum(count for label, count in seen.items() if cases[label.casefold()] > 1 and label not in own)
    best: tuple[tuple[int, int, int], tuple[str, ...]] | None = None
    for steps in _chains(list(seen), known):
        classes = _classes(known, steps)
        found = sum(count for label, count in seen.items() if _key(label, steps) in classes)
        found -= _count_merged(known, classes, seen) + (twins if "case" in steps else 0)
        rank = (-found, len(known.labels) - len(classes), _cost(steps))
        if best is None or rank < best[0]:
            best = rank, steps
    assert best is not None  # the chain without steps is always tried
    return _outcome(known, best[1], counts)


def _count_merged(known: LabelSet, classes: Mapping[str, tuple[int, ...]], seen: Mapping[str, int]) -> int:
    """Number of segments whose labels are the model's own, but share a class with another such label."""
    lost = 0
    for members in classes.values():
        present = [seen[label] for i in members if (label := known.labels[i]) in seen]
        lost += sum(present) if len(present) > 1 else 0
    return lost


def _chains(given: Sequence[str], known: LabelSet) -> Iterator[tuple[str, ...]]:
    """Foldings to try; steps that change no label are left out."""
    texts = folded = [text for text in (*given, *known.labels) if len(text) <= notation.LONGEST]
    useful = []
    for name, (fold, _) in STEPS.items():  # some labels show a step's mark only after earlier steps
        if any(fold(text) != text for text in (*texts, *folded)):
            useful.append(name)
            folded = list(map(fold, folded))
    chains = [chain for n in range(len(useful) + 1) for chain in combinations(useful, n)]
    phone_set = known.phone_set or readings.recognise(known.labels)
    own = readings.family(phone_set)
    for hub, readers in readings.HUBS.items():
        if own not in readers or (hub == "timit39" and phone_set != "timit39"):
            continue
        for source, read in readers.items():
            # after stress and position only; readers handle the rest
            before = [chain for chain in chains if set(chain) <= {"position", "stress"}]
            if (source, hub) != (own, own) and any(read(_key(label, before[-1])) is not None for label in given):
                chains += [(*chain, f"{source} to {hub}") for chain in before]
    if any(map(_is_silence, given)) and any(map(_is_silence, known.labels)):
        chains += [(*chain, SILENCE) for chain in chains]
    yield from sorted(chains, key=_cost)


def _cost(steps: Sequence[str]) -> int:
    return sum(COSTS.get(step, READING) for step in steps)


def _outcome(known: LabelSet, steps: tuple[str, ...], counts: Mapping[str, int]) -> LabelComparison:
    order, of_label, members = _number_classes(known, steps)
    by_hand = dict(known.mapping)
    own = set(known.labels)
    targets: dict[str, int] = {}
    unknown: dict[str, int] = {}
    unscored: dict[str, int] = {}
    for label, count in counts.items():
        if label in by_hand:
            mapped = by_hand[label]
            if mapped is None:
                unscored[label] = count
            else:
                targets[label] = of_label[mapped]
            continue
        key = _key(label, steps)
        if key in order:
            targets[label] = order[key]
        elif key == _DROPPED and label in own:
            targets[label] = of_label[label]
        elif key == _DROPPED or _is_nonspeech(label):
            unscored[label] = count
        else:
            unknown[label] = count
    return LabelComparison(
        known.labels,
        steps,
        members,
        targets,
        {label: count for label, count in counts.items() if label in targets},
        unknown,
        unscored,
    )


@lru_cache(maxsize=256)
def _number_classes(
    known: LabelSet, steps: tuple[str, ...]
) -> tuple[Mapping[str, int], Mapping[str, int], tuple[tuple[int, ...], ...]]:
    """The number of each folded text's class, and of each of the model's labels'; and the labels of each class."""
    classes = _classes(known, steps)
    of_label = {known.labels[i]: n for n, members in enumerate(classes.values()) for i in members}
    return {key: n for n, key in enumerate(classes)}, of_label, tuple(classes.values())


@lru_cache(maxsize=4096)
def _classes(known: LabelSet, steps: tuple[str, ...]) -> Mapping[str, tuple[int, ...]]:
    """Folded text -> the model's labels that fold to it; one that the folding drops is a class of its own."""
    classes: dict[str, list[int]] = {}
    own = _family(known)
    for n, label in enumerate(known.labels):
        key = _key(label, steps, own)
        classes.setdefault(f"{_DROPPED} {label}" if key == _DROPPED else key, []).append(n)
    return {key: tuple(members) for key, members in classes.items()}


def _key(label: str, steps: Sequence[str], own: str | None = None) -> str:
    """A label after the steps. `own` is the family that a model's label is read by; given labels are read by the step's."""
    if len(label) > notation.LONGEST:
        return label
    if SILENCE in steps and _is_silence(label):
        return _SILENT
    for step in steps:
        if step in STEPS:
            label = STEPS[step][0](label)
        elif step != SILENCE:
            source, _, hub = step.split()
            read = readings.HUBS[hub][own or source](label)
            # a hub's symbols are not spellings: an S that no reader knows is not the hub's S
            label = notation.plain(label) if read is None else _DROPPED if read == DROPPED else f"{hub} {read}"
    return label


def _family(known: LabelSet) -> str | None:
    return readings.family(known.phone_set or readings.recognise(known.labels))


def _is_silence(label: str) -> bool:
    return _is_nonspeech(label, "silence")


def _is_nonspeech(label: str, *kinds: str) -> bool:
    found = notation.nonspeech(label) or notation.nonspeech(notation.without_position(label))
    return found is not None and (not kinds or found in kinds)
