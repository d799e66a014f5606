"""What the experiments are computed on, as datasets: the folds of the letters, or train, dev and test speakers of speech."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from experiments.letter_augmentation import AugmentedLetters
from phonechain.features import corpora
from phonechain.features.corpora import letters
from phonechain.features.mfcc import FeatureSettings
from phonechain.features.phones import sets as phones
from phonechain.model.learning.dataset import Dataset, dataset
from phonechain.model.learning.extraction import Featurised, featurise
from phonechain.model.learning.normaliser import Normaliser
from phonechain.model.learning.splits import hold_out

GROUPS = 10
"""Into how many groups the words are dealt for the split with held-out words."""


@dataclass(frozen=True)
class Fold:
    """What one cell is computed on. `dev` is None where no data is left for it: then the last epoch counts."""

    name: str
    labels: list[str]
    train: Dataset
    dev: Dataset | None
    test: Dataset


class Letters:
    """The OCR letters: ten folds, or the words dealt into ten groups ("held-out-words")."""

    name = "letters"

    def __init__(self, path: Path) -> None:
        self.words = letters.read(path)
        self.labels = [chr(ord("a") + n) for n in range(26)]
        self.starts = np.concatenate([[0], np.cumsum(self.words.lengths)])

    @cached_property
    def digest(self) -> str:
        """Of everything that the results depend on."""
        x, y, folds = self.words.x, self.words.y, self.words.folds
        return _digest(
            np.asarray(x, dtype=np.float32), np.asarray(y, dtype=np.int64), np.asarray(folds, dtype=np.int64)
        )

    def folds(self, split: str) -> list[str]:
        """Names of the folds."""
        return [str(n) for n in range(GROUPS)]

    def fold(
        self, split: str, name: str, *, normalise: Literal["model", "speaker", "any"] = "model", augment: str = ""
    ) -> Fold:
        """One fold to test on, and the others to train on."""
        part, test = self._parts(split), int(name)
        return self._fold(f"fold {name}", part != test, None, part == test, augment)

    def choice(self, split: str, *, normalise: Literal["model", "speaker", "any"] = "model", augment: str = "") -> Fold:
        """Where settings are chosen: without the first fold, the last one as the dev set ("test" here)."""
        part = self._parts(split)
        held = part == GROUPS - 1
        return self._fold("dev", (part != 0) & ~held, None, held, augment)

    def _parts(self, split: str) -> NDArray[np.int64]:
        if split != "held-out-words":
            return np.asarray(self.words.folds, dtype=np.int64)
        return self.words.held_out_words(GROUPS)

    def _fold(self, name: str, train: NDArray[np.bool_], dev: None, test: NDArray[np.bool_], augment: str) -> Fold:
        rows = np.repeat(train, self.words.lengths)
        normaliser = Normaliser.fit(np.asarray(self.words.x[rows], dtype=np.float32))
        data = self._dataset(train, normaliser)
        if augment:
            data = AugmentedLetters.of(data, augment, normaliser, self.words.words)
        return Fold(name, self.labels, data, None, self._dataset(test, normaliser))

    def _dataset(self, keep: NDArray[np.bool_], normaliser: Normaliser) -> Dataset:
        rows = np.repeat(keep, self.words.lengths)
        starts = np.concatenate([[0], np.cumsum(np.asarray(self.words.lengths)[keep])])
        x = np.asarray(normaliser.apply(np.asarray(self.words.x[rows], dtype=np.float32)), dtype=np.float32)
        return Dataset(x, self.words.y[rows].astype(np.int64), starts, np.arange(len(starts) - 1))


class Speech:
    """A corpus of recordings with the splits "train", "test" and, if it has one, "dev"; else a tenth of the speakers.

    TIMIT's labels are folded to 39, and its dev set is the paper's: the full test set less the core.
    """

    name = "speech"

    def __init__(
        self, root: Path, cache: Path, *, drop: tuple[str, ...] = (), tell: Callable[[str], None] = print
    ) -> None:
        self.corpus = corpora.read(root)
        self.drop, self.tell, self.cache = drop, tell, cache
        for problem in self.corpus.problems[:5]:
            tell(f"left out: {problem}")
        timit = self.corpus.layout == "timit"
        if timit:
            for u in self.corpus.utterances:
                labels = [None if s.label is None else phones.fold(s.label, "timit61", "timit39") for s in u.segments]
                u.segments = [replace(s, label=label) for s, label in zip(u.segments, labels, strict=True)]
        self.items = {"train": self._featurise("train"), "test": self._featurise("test")}
        self.items["dev"] = self._featurise("dev-full" if timit else "dev")
        if not self.items["dev"]:  # a tenth of the training speakers
            _, dev = hold_out(self.corpus.split("train"), 0.1, 1)
            held = {u.id for u in dev}
            items = self.items["train"]
            self.items["train"] = [i for i in items if i.utterance.id not in held]
            self.items["dev"] = [i for i in items if i.utterance.id in held]
        found = {s.label for i in self.items["train"] for s in i.segments if s.label is not None}
        self.labels = sorted(found - set(drop))

    def _featurise(self, split: str) -> list[Featurised]:
        def tell(done: int, total: int) -> None:
            if done % 500 == 0 or done == total:
                self.tell(f"features of the {split} set: {done} of {total} utterances")

        utterances = self.corpus.split(split)
        return featurise(utterances, FeatureSettings(), cache=self.cache, progress=tell) if utterances else []

    @cached_property
    def digest(self) -> str:
        """Of everything that the results depend on."""
        fold = self.fold("", "test")
        return _digest(fold.train.x, fold.train.y, fold.test.x, fold.test.y)

    def folds(self, split: str) -> list[str]:
        """There is one test set."""
        return ["test"]

    def fold(
        self, split: str, name: str, *, normalise: Literal["model", "speaker", "any"] = "model", augment: str = ""
    ) -> Fold:
        """Train, dev and test; normalised over the training set or over each speaker's recordings."""
        rows = np.concatenate([i.inputs.segments for i in self.items["train"]])
        normaliser = Normaliser.fit(rows, normalise=normalise)
        data = {k: dataset(v, self.labels, normaliser, drop=self.drop) for k, v in self.items.items()}
        return Fold("test", self.labels, data["train"], data["dev"], data["test"])

    def choice(self, split: str, *, normalise: Literal["model", "speaker", "any"] = "model", augment: str = "") -> Fold:
        """Where settings are chosen: the dev set is "test" here, and no other data counts."""
        fold = self.fold(split, "test", normalise=normalise)
        assert fold.dev is not None
        return replace(fold, name="dev", test=fold.dev)


Source = Letters | Speech


def open_source(path: Path, cache: Path, tell: Callable[[str], None]) -> Source:
    """The corpus at `path`: the letters if it is a file, speech if it is a folder (TIMIT's layout is recognised)."""
    if path.is_file():
        return Letters(path)
    return Speech(path, cache, drop=("+NSN+",), tell=tell)


def _digest(*arrays: NDArray[np.generic]) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]
