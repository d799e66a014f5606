"""Training words of letters, changed whenever they are used: letters moved, shuffled, or put together to other words.

N  letters      D  pixels of a letter      L  letters of a word
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from phonechain.features.corpora.letters import LABELS
from phonechain.features.errors import SettingsError
from phonechain.features.words import dictionary
from phonechain.model.learning.dataset import CPU, Batch, Dataset
from phonechain.model.learning.normaliser import Normaliser

AUGMENTATIONS = ("shift", "recombine", "redraw", "respell")
"""Names in a table, joined by "+"; "shift" goes with any one of the others."""
SHARE = 0.8
"""Share of the words that all but "shift" change; the others stay as they are."""

_HEIGHT, _WIDTH = 16, 8


def check_augmentation(names: str) -> None:
    """Raise SettingsError unless `names` are augmentations joined by "+", or empty."""
    parts = names.split("+") if names else []
    if not set(parts) <= set(AUGMENTATIONS) or len(parts) > 1 + ("shift" in parts) or parts == ["shift", "shift"]:
        raise SettingsError(
            f"expected augment to be empty, {', '.join(AUGMENTATIONS)}, or shift+ one of the others, got {names!r}",
            pointer="augment", value=names,
        )  # fmt: skip


@dataclass(frozen=True)
class AugmentedLetters(Dataset):
    """Training letters that are drawn anew for each batch.

    "shift" moves each letter by -1, 0 or 1 pixel in both directions. "recombine" shuffles the letters of a batch's words, so that
    neighbours say nothing. "redraw" replaces each picture of a word by that of some training letter of the same label, so that
    neighbours' pictures tell no hand. "respell" also replaces the word, by an English one of the same length. The draw depends on
    the batch alone, so that a resumed run sees what an unbroken one sees.

    Attributes:
        mean, std: [D] what the pixels were normalised by.
        augmentation: names out of AUGMENTATIONS, joined by "+".
        spellings: int64 [words, L] by L, the words that "respell" draws from.
    """

    mean: NDArray[np.float32] = field(default_factory=lambda: np.zeros(1, dtype=np.float32))
    std: NDArray[np.float32] = field(default_factory=lambda: np.ones(1, dtype=np.float32))
    augmentation: str = "shift"
    spellings: Mapping[int, NDArray[np.int64]] = field(default_factory=dict)

    @classmethod
    def of(cls, data: Dataset, augmentation: str, normaliser: Normaliser, words: Collection[str]) -> AugmentedLetters:
        """`data`, augmented; `words` are all those of the corpus, training and test, none of which "respell" may spell."""
        letters = frozenset(LABELS[label] for label in np.unique(data.y))
        return cls(
            data.x, data.y, data.starts, data.groups, mean=normaliser.mean.numpy(), std=normaliser.std.numpy(),
            augmentation=augmentation,
            spellings=english_spellings(letters, frozenset(words)) if "respell" in augmentation else {},
        )  # fmt: skip

    @cached_property
    def pictures(self) -> list[NDArray[np.int64]]:
        """The letters of each label."""
        return [np.flatnonzero(self.y == label) for label in range(len(LABELS))]

    def batch(
        self, sequences: NDArray[np.int64], device: torch.device = CPU, random: np.random.Generator | None = None
    ) -> Batch:
        """The given sequences, packed, with changed letters."""
        batch = super().batch(sequences, device)
        random = np.random.default_rng(sequences.tolist())
        rows = self._draw_letters(batch, random)
        x, y = (batch.x, batch.y) if rows is None else (torch.from_numpy(self.x[rows]), torch.from_numpy(self.y[rows]))
        if "shift" in self.augmentation:
            x = torch.from_numpy(self._shift(x.cpu().numpy(), random))
        return replace(batch, x=x.to(device), y=y.to(device))

    def _draw_letters(self, batch: Batch, random: np.random.Generator) -> NDArray[np.int64] | None:
        """[N] the letters of the dataset that the batch has; None for its own."""
        if self.augmentation == "shift":
            return None
        time, sequence = batch.packing.time_and_sequence
        rows = self.starts[batch.sequences][sequence] + time
        changed = random.random(len(batch.sequences)) < SHARE
        if "recombine" in self.augmentation:
            places = np.flatnonzero(changed[sequence])
            rows[places] = rows[random.permutation(places)]
            return rows
        for n in np.flatnonzero(changed):
            places = np.flatnonzero(sequence == n)
            for place, label in zip(places, self._spell(self.y[rows[places]], random), strict=True):
                rows[place] = self.pictures[label][random.integers(len(self.pictures[label]))]
        return rows

    def _spell(self, word: NDArray[np.int64], random: np.random.Generator) -> NDArray[np.int64]:
        """[L] the labels of a word that takes the place of this one."""
        words = self.spellings.get(len(word))
        return word if words is None else words[random.integers(len(words))]

    def _shift(self, x: NDArray[np.float32], random: np.random.Generator) -> NDArray[np.float32]:
        pixels = x * self.std + self.mean
        padded = np.concatenate([pixels, np.zeros((len(pixels), 1), dtype=np.float32)], 1)
        moved = np.take_along_axis(padded, _shifts()[random.integers(0, 9, len(pixels))], 1)
        return ((moved - self.mean) / self.std).astype(np.float32)


@cache
def _shifts() -> NDArray[np.int64]:
    """[9, 128] for each move by at most a pixel, which pixel comes where; 128 stands for a blank one from outside."""
    framed = np.full((_HEIGHT + 2, _WIDTH + 2), _HEIGHT * _WIDTH)
    framed[1:-1, 1:-1] = np.arange(_HEIGHT * _WIDTH).reshape(_HEIGHT, _WIDTH)
    return np.stack([framed[r : r + _HEIGHT, c : c + _WIDTH].ravel() for r in range(3) for c in range(3)])


@cache
def english_spellings(letters: frozenset[str], without: frozenset[str]) -> dict[int, NDArray[np.int64]]:
    """int64 [words, L] by L, the labels of CMUdict's words without their first letters, which the corpus leaves out as well.

    Args:
        letters: the letters that words may have.
        without: words to leave out.
    """
    spelled = {word[1:] for word in dictionary.english().entries if letters.issuperset(word[1:])}
    by_length: dict[int, list[list[int]]] = {}
    for word in sorted(spelled - without - {""}):
        by_length.setdefault(len(word), []).append([LABELS.index(letter) for letter in word])
    return {length: np.array(words, dtype=np.int64) for length, words in by_length.items()}
