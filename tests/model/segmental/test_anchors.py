"""Matching heard phones with a transcript: against the plain recursion, and on sequences with parts left out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phonechain.model.segmental import anchors


def best(odds: np.ndarray, labels: list[int]) -> float:
    """Gotoh's recursion, one cell after the other."""
    p, u = len(labels), odds.shape[1]
    never = -1e9
    kinds = np.full((3, p + 1, u + 1), never)
    kinds[anchors.PAIR, 0, 0] = 0.0
    for i in range(p + 1):
        for j in range(u + 1):
            if i and j:
                kinds[anchors.PAIR, i, j] = kinds[:, i - 1, j - 1].max() + odds[labels[i - 1], j - 1]
            for own, before in ((anchors.TEXT, (i - 1, j)), (anchors.SOUND, (i, j - 1))):
                if min(before) >= 0:
                    came = kinds[(slice(None), *before)].copy()
                    came[[k for k in range(3) if k != own]] -= anchors.OPEN
                    kinds[own, i, j] = came.max() - anchors.EXTEND
    return float(kinds[:, p, u].max())


@settings(max_examples=60)
@given(st.integers(0, 10_000), st.integers(0, 9), st.integers(0, 9), st.integers(1, 4))
def test_the_best_path_has_the_best_score(seed, p, u, block):
    random = np.random.default_rng(seed)
    odds = random.uniform(-2, 3, (3, u)).astype(np.float32)
    labels = random.integers(0, 3, p).tolist()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(anchors, "BLOCK", block)
        steps = anchors.best_path(odds, labels)
    assert anchors._values(steps, odds, labels).sum() == pytest.approx(best(odds, labels), abs=1e-4)
    text, sound = (
        [int(n) for kind, *at in steps for n in at[i : i + 1] if kind != other] for i, other in ((0, 2), (1, 1))
    )
    assert text == list(range(p))
    assert sound == list(range(u))


def heard(random: np.random.Generator, labels: np.ndarray, wrong: float) -> np.ndarray:
    """Posteriors [U, 40] of a recogniser that is wrong so often."""
    found = np.where(random.random(len(labels)) < wrong, random.integers(0, 40, len(labels)), labels)
    shares = np.full((len(labels), 40), 0.3 / 39)
    shares[np.arange(len(labels)), found] = 0.7
    return shares


@pytest.mark.parametrize(("wrong", "off"), [(0.1, 4), (0.35, 20)])
def test_what_is_left_out_lies_between_the_stretches(wrong, off):
    random = np.random.default_rng(5)
    labels = random.integers(0, 40, 600)
    said = np.concatenate([labels[:200], random.integers(0, 40, 60), labels[200:400], labels[440:]])
    found = anchors.stretches(anchors.log_odds(heard(random, said, wrong)), labels.tolist())
    assert [s.text for s in found] == [
        (pytest.approx(a, abs=off), pytest.approx(b, abs=off)) for a, b in ((0, 200), (200, 400), (440, 600))
    ]
    assert [s.sound for s in found] == [
        (pytest.approx(a, abs=off), pytest.approx(b, abs=off)) for a, b in ((0, 200), (260, 460), (460, 620))
    ]
    right = [u - p for p, u in found[0].pairs]
    assert np.mean(np.array(right) == 0) > 0.9


def test_other_text_matches_nowhere():
    random = np.random.default_rng(6)
    odds = anchors.log_odds(heard(random, random.integers(0, 40, 300), 0.3))
    found = anchors.stretches(odds, random.integers(0, 40, 300).tolist())
    assert sum(s.text[1] - s.text[0] for s in found) < 30
