"""The figures of alignment: on a reference's grid, less the habits of a reference, between two phones."""

import json

import numpy as np
import pytest

from experiments import self_agreement
from experiments.alignment import Found, report_found
from experiments.own_aligner import less_habits, medians_before
from phonechain.features.segments import Segment


def test_boundaries_are_counted_where_they_lie_and_on_the_grid(capsys):
    found = [Found(0.024, 0.02, 0.9, True, False, False), Found(-0.001, 0.0, 0.9, False, False, False)]
    report_found(found, 0.01, kind="some")
    told = json.loads(capsys.readouterr().out)
    assert (told["within_20_ms"], told["within_20_ms_on_grid"], told["interval_90_holds"]) == (50.0, 100.0, 50.0)
    assert told["kind"] == "some"
    report_found(found, 0.0)
    assert "within_20_ms_on_grid" not in json.loads(capsys.readouterr().out)


def test_a_habit_is_taken_off_as_the_other_half_of_the_recordings_shows_it():
    found = [(n, ("A", "S"), 0.03) for n in range(10)]
    found += [(n, ("B", "S"), -0.03) for n in range(10)]
    assert less_habits(found) == 1.0
    rare = [*found, (0, ("C", "T"), 0.1)]  # nothing like it in the other half: the median of all, which is 0
    assert less_habits(rare) == pytest.approx(20 / 21)
    drawn = np.random.default_rng(1).choice([-0.1, 0.1], 400)
    noise = [(n, ("A", "S"), float(e)) for n, e in enumerate(drawn)]  # no habit: nothing is gained
    assert less_habits(noise) < 0.6


def test_medians_are_of_labels_that_are_frequent_enough():
    found = [(n, ("A", "S"), 0.001 * n) for n in range(5)] + [(0, ("A", "T"), 0.1)]
    assert medians_before(found, least=2) == {"S": 2.0}


def test_only_boundaries_between_two_phones_are_compared():
    reference = [Segment(0.0, 0.1, "SIL"), Segment(0.1, 0.2, "A"), Segment(0.2, 0.3, "B"), Segment(0.3, 0.4, "SIL")]
    assert self_agreement.errors([0.0, 0.5, 0.235, 0.5], reference, 0.005) == pytest.approx([0.03])


def test_noise_is_as_loud_as_asked():
    samples = np.sin(np.arange(16000) * 0.3).astype(np.float32)
    noise = self_agreement.with_noise(samples, -20.0, np.random.default_rng(1)) - samples
    assert 10 * np.log10(np.mean(noise**2) / np.mean(samples**2)) == pytest.approx(-20.0, abs=0.2)
