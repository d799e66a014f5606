"""The recogniser's decoding: against every segmentation of small scores, and chosen where fewer phones are wrong."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from phonechain.features.audio.reader import Audio
from phonechain.model.segmental import calibration
from phonechain.model.segmental.aligner import PhoneAligner
from phonechain.model.segmental.sums import Lattice
from tests.model.segmental.oracle import everything, lattice


def encoded(scores: torch.Tensor) -> Any:
    return SimpleNamespace(coarse=scores, steps=len(scores), potentials=None)


def with_weights(x: Lattice, temperature: float) -> PhoneAligner:
    aligner = PhoneAligner()
    aligner.network_ = SimpleNamespace(bigram=x.bigram, first=x.first, last=x.last)  # type: ignore[assignment]
    aligner.temperature_ = temperature
    return aligner


@settings(max_examples=40)
@given(
    st.integers(0, 10_000), st.integers(1, 5), st.integers(1, 3), st.integers(1, 3),
    st.sampled_from([0.4, 1.0, 1.5]), st.lists(st.floats(-3, 3), min_size=1, max_size=3), st.sampled_from([0.7, 1.0]),
)  # fmt: skip
def test_the_best_segments_with_a_bonus_for_each(seed, n, d, k, ngrams, bonuses, temperature):
    """Of all segmentations the one with the largest score, each segment's bonus and the scaled n-grams counted in."""
    x = lattice(seed, [n], d, k)
    found = with_weights(x, temperature)._best_segments(encoded(x.scores[0] / temperature), ngrams, bonuses)
    bigram, first, last = (w * ngrams / temperature for w in (x.bigram, x.first, x.last))
    segmentations, potentials = everything(Lattice(x.scores / temperature, bigram, first, last, x.steps), 0)
    for bonus, got in zip(bonuses, found, strict=True):
        value = [float(p) + bonus / temperature * len(s) for s, p in zip(segmentations, potentials, strict=True)]
        assert value[segmentations.index(got)] == pytest.approx(max(value))


def test_files_of_before_decode_as_they_did():
    x = lattice(3, [4], 3, 2)
    aligner = with_weights(x, 1.0)
    aligner.decoding_ = {"tolerance": 0, "cost": 0.1}
    sound = encoded(x.scores[0])
    posteriors = aligner._free_posteriors(sound)
    segmentations, potentials = everything(x, 0)
    p = torch.softmax(potentials, 0).tolist()

    def right(segment: tuple[int, int, int]) -> float:
        return sum(share for s, share in zip(segmentations, p, strict=True) if segment in s)

    value = [sum(right(one) - 0.1 for one in s) for s in segmentations]
    assert value[segmentations.index(aligner._decode(sound, posteriors))] == pytest.approx(max(value))


class Answers(PhoneAligner):
    """Inserts a phone for each half nat of bonus above -0.5, and leaves one out for each below; n-grams change nothing."""

    def recognize_labels(self, audio, decodings):
        truth = ["A", "B", "C", "D"]
        shift = [round((d["bonus"] + 0.5) / 0.5) for d in decodings]
        return [truth + ["X"] * s if s >= 0 else truth[:s] for s in shift]


def test_the_decoding_with_the_fewest_errors_is_taken():
    aligner = Answers()
    sound = Audio(np.zeros(160, np.float32), 16000)
    assert calibration.calibrate_decoding(aligner, [(sound, ["A", "B", "C", "D"])] * 3) == 0.0
    assert aligner.decoding_ == {"ngrams": calibration.NGRAMS[0], "bonus": -0.5}
    assert aligner.metrics_ == {"dev_phones": 12, "dev_phone_error": 0.0}


def test_nothing_held_out_leaves_the_decoding():
    aligner = PhoneAligner()
    before = dict(aligner.decoding_)
    assert calibration.calibrate_decoding(aligner, []) is None
    assert aligner.decoding_ == before
