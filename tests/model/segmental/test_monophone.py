"""Hidden Markov models of phones: posteriors against enumeration, and boundaries found from nothing but the order."""

import itertools

import numpy as np
import pytest

from phonechain.features.errors import CorpusError
from phonechain.model.segmental.monophone import STATES, Chain, Monophones


def _models(labels: int, values: int, seed: int) -> Monophones:
    random = np.random.default_rng(seed)
    models = Monophones(labels)
    models.mean = random.normal(size=(models.classes, values))
    models.variance = random.uniform(0.5, 2.0, size=(models.classes, values))
    models.stay = random.uniform(0.2, 0.8, size=models.classes)
    return models


def _enumerate(models: Monophones, x: np.ndarray, chain: Chain) -> tuple[float, np.ndarray]:
    """log-likelihood and [T, S] posteriors from all paths, each an assignment of a state to every frame."""
    classes = np.array([y * STATES + k for y in chain.labels for k in range(STATES)])
    density = models._emissions(x)[:, classes]
    count, total, shares = len(classes), -np.inf, np.zeros((len(x), len(classes)))
    optional = set(np.flatnonzero(chain.optional).tolist())

    def step(a: int, b: int) -> float:
        if a == b:
            return float(np.log(models.stay[classes[a]]))
        leave = float(np.log1p(-models.stay[classes[a]]))
        if b == a + 1:
            return leave
        skipped = (a + 1) // STATES
        return leave if (a + 1) % STATES == 0 and b == a + 1 + STATES and skipped in optional else -np.inf

    for path in itertools.product(range(count), repeat=len(x)):
        starts = path[0] == 0 or (path[0] == STATES and 0 in optional)
        last = path[-1] == count - 1 or (path[-1] == count - 1 - STATES and len(chain.labels) - 1 in optional)
        if not (starts and last):
            continue
        value = sum(step(a, b) for a, b in itertools.pairwise(path)) + sum(density[t, s] for t, s in enumerate(path))
        if value == -np.inf:
            continue
        total = np.logaddexp(total, value)
        for t, s in enumerate(path):
            shares[t, s] += np.exp(value)
    return total, shares / np.exp(total)


@pytest.mark.parametrize(
    "chain", [Chain([0, 1]), Chain([0, 1], (True, False)), Chain([1, 0], (False, True))], ids=["all", "first", "last"]
)
def test_posteriors_are_those_of_all_paths(chain):
    models = _models(2, 2, 3)
    x = np.random.default_rng(5).normal(size=(7, 2))
    gamma, _, value = models._posteriors([x], [chain])
    expected, shares = _enumerate(models, x, chain)
    assert value[0] == pytest.approx(expected, abs=1e-10)
    np.testing.assert_allclose(gamma[0], shares, atol=1e-10)


def test_an_optional_phone_in_the_middle_and_a_batch_of_two_lengths():
    models = _models(3, 2, 4)
    random = np.random.default_rng(6)
    x, z = random.normal(size=(7, 2)), random.normal(size=(5, 2))
    # 3 + 3 + 3 states over 7 frames: the middle phone has to be left out
    chain, short = Chain([0, 2, 1], (False, True, False)), Chain([1])
    gamma, _, value = models._posteriors([x, z], [chain, short])
    without, shares = _enumerate(models, x, Chain([0, 1]))
    assert value[0] == pytest.approx(without, abs=1e-10)
    np.testing.assert_allclose(gamma[0][:, [0, 1, 2, 6, 7, 8]], shares, atol=1e-10)
    assert np.all(gamma[0][:, 3:6] < 1e-12)
    assert value[1] == pytest.approx(_enumerate(models, z, short)[0], abs=1e-10)
    assert np.all(gamma[1][5:] < 1e-12)


def test_boundaries_from_the_order_alone():
    random = np.random.default_rng(1)
    centres = random.normal(size=(4, 6)) * 3
    frames, chains, truth = [], [], []
    for _ in range(20):
        labels = random.integers(0, 4, 6).tolist()
        labels = [y for n, y in enumerate(labels) if n == 0 or labels[n - 1] != y]
        lengths = random.integers(4, 20, len(labels))
        frames.append(
            np.concatenate([centres[y] + random.normal(size=(k, 6)) for y, k in zip(labels, lengths, strict=True)])
        )
        chains.append(Chain(labels))
        truth.append(np.concatenate([[0], lengths.cumsum()]))
    models = Monophones(4)
    values = models.fit(frames, chains, rounds=8)
    assert all(b >= a - 1e-9 for a, b in itertools.pairwise(values))  # Baum-Welch never loses likelihood
    off = np.concatenate([a - b for a, b in zip(models.boundaries(frames, chains), truth, strict=True)])
    assert np.mean(np.abs(off) <= 1.0) > 0.95


def test_a_recording_too_short_for_its_phones_is_named():
    with pytest.raises(CorpusError, match="recording 1: 2 phones need 6 frames at least, got 5"):
        Monophones(2).fit([np.zeros((9, 2)), np.zeros((5, 2))], [Chain([0, 1]), Chain([0, 1])])
