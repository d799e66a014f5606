"""Wider contexts of labels: distributions that add up, and a support that they correct where they know something."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.label_context import NARROW, WIDE, LabelContext

LABELS = ["a", "b", "c", "d"]
WORDS = [list("abcba"), list("dbdbd")] * 50
"""Between two b is c or d: only the labels beyond them say which."""


def context() -> LabelContext:
    made = LabelContext(LABELS)
    made.add(
        [[label for n in np.random.default_rng(seed).integers(0, 100, 9) for label in WORDS[n]] for seed in range(9)]
    )
    return made


@pytest.mark.parametrize("levels", [NARROW, WIDE])
def test_what_is_predicted_is_a_distribution(levels: tuple[tuple[tuple[int, ...], ...], ...]) -> None:
    made = context()
    for t in range(8):
        p = made.predict([0, 1, 2, 3, 3, 2, 1, 0], t, levels)
        assert p.min() > 0
        assert p.sum() == pytest.approx(1)


def test_counts_and_backing_off_are_those_of_the_formula() -> None:
    made = LabelContext(["a", "b"])
    made.add([["a", "a", "b"]])
    single = (5 * 0.5 + np.array([2, 1])) / 8
    left = (5 * single + np.array([1, 0])) / 6  # after the beginning of a sequence: a
    right = (5 * single + np.array([1, 0])) / 6  # before a: a
    np.testing.assert_allclose(made.predict([1, 0, 1], 0, NARROW[:2]), (left + right) / 2)


def test_a_label_that_fits_no_word_loses_support_and_unseen_contexts_change_nothing() -> None:
    made, empty = context(), LabelContext(LABELS)
    for given, fits in ("abcbadbd", True), ("abdbadbd", False):
        support = np.eye(4, dtype=np.float32)[[LABELS.index(label) for label in given]] * 0.96 + 0.01
        support[2] = 0.25  # the sound leaves open what the label is
        found = made.widen(list(given), support)
        assert (found[2] > np.log(0.25)) == fits
        np.testing.assert_allclose(empty.widen(list(given), support)[2], np.log(0.25), rtol=1e-6)


def test_sequences_with_unknown_labels_are_left_out() -> None:
    made = LabelContext(["a", "b"])
    made.add([["a", "x", "b"]])
    np.testing.assert_allclose(made.predict([0, 0, 0], 1, WIDE), 0.5)
