import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from phonechain.model.scoring.significance import compare, interval, matched_pairs, mcnemar, share_intervals


def test_the_interval_covers_the_true_rate_about_as_often_as_it_says() -> None:
    random = np.random.default_rng(0)
    inside = 0
    for seed in range(100):
        rate = random.beta(6, 14, 60)  # utterances differ: mean 0.3
        wrong = random.random((60, 20)) < rate[:, None]
        found = interval(wrong.ravel(), np.repeat(np.arange(60), 20), draws=400, seed=seed)
        assert found.low is not None
        assert found.high is not None
        inside += found.low <= 0.3 <= found.high
    assert 87 <= inside <= 100


def test_whole_utterances_are_drawn_so_that_errors_that_come_together_widen_the_interval() -> None:
    wrong = np.repeat(np.arange(40) % 4 == 0, 25)
    together = interval(wrong, np.repeat(np.arange(40), 25))
    apart = interval(wrong, np.arange(1000))
    assert together.low is not None
    assert together.high is not None
    assert apart.low is not None
    assert apart.high is not None
    assert together.high - together.low > 3 * (apart.high - apart.low)


def test_a_groups_interval_is_no_narrower_than_its_segments_alone_would_have_it() -> None:
    units, groups = np.repeat(np.arange(10), 6), np.tile([0, 0, 0, 1, 1, 2], 10)
    hits = groups == 0
    hits[3::6] = True  # of group 1 one of two
    sure, half, never = share_intervals(hits, groups, units)
    exact = stats.binomtest(30, 30).proportion_ci(0.95, "exact")
    assert (sure.low, sure.high) == (pytest.approx(exact.low), 1.0)
    assert (never.low, never.high) == (0.0, pytest.approx(stats.binomtest(0, 10).proportion_ci(0.95, "exact").high))
    assert half.low is not None
    assert half.high is not None
    assert half.low < 0.5 < half.high
    assert [one.units for one in (sure, half, never)] == [10, 10, 10]


def test_a_group_of_two_units_has_no_interval() -> None:
    first, second = share_intervals([True, False, True, True, False], [0, 0, 0, 1, 1], ["u", "v", "w", "u", "v"])
    assert (first.units, first.reason) == (3, "")
    assert (second.low, second.units) == (None, 2)
    assert second.reason.startswith("not computed: 2 utterances or speakers")


def test_errors_that_come_together_widen_a_groups_interval() -> None:
    wrong = np.repeat(np.arange(40) % 4 == 0, 25)
    [together] = share_intervals(wrong, np.zeros(1000, dtype=int), np.repeat(np.arange(40), 25))
    [apart] = share_intervals(wrong, np.zeros(1000, dtype=int), np.arange(1000))
    assert together.high - together.low > 3 * (apart.high - apart.low)  # type: ignore[operator]


def test_the_same_input_gives_the_same_interval() -> None:
    wrong = np.random.default_rng(1).random(90) < 0.3
    units = [f"u{n // 3}" for n in range(90)]
    assert interval(wrong, units) == interval(wrong, units)


def test_one_or_two_units_have_no_interval_and_the_reason_is_said() -> None:
    found = interval([True, False], ["u", "u"])
    assert (found.low, found.high, found.units) == (None, None, 1)
    assert found.reason == "not computed: one utterance or speaker, at least 3 are needed"
    two = compare([True, False, True], [False, False, True], ["u", "u", "v"])
    assert (two.interval.low, two.interval.units, two.bootstrap) == (None, 2, None)
    assert two.interval.reason == "not computed: 2 utterances or speakers, at least 3 are needed"
    three = interval([True, False, True], ["u", "v", "w"])
    assert three.low is not None
    assert three.reason == ""


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 60), st.integers(0, 60))
def test_mcnemar_is_the_binomial_test(only_a: int, only_b: int) -> None:
    exact, mid = mcnemar(only_a, only_b)
    n = only_a + only_b
    assert exact == pytest.approx(stats.binomtest(only_a, n, 0.5).pvalue if n else 1.0)
    assert 0 <= mid <= exact
    assert mcnemar(only_b, only_a) == (exact, mid)


def test_mid_p_by_hand() -> None:
    # 1 of 5: exact 2 (1 + 5) / 32; mid-p takes the point once less
    assert mcnemar(1, 4) == (pytest.approx(12 / 32), pytest.approx(12 / 32 - 5 / 32))
    assert mcnemar(2, 2) == (1.0, pytest.approx(1 - 6 / 32))


def test_mcnemar_of_a_large_corpus_neither_overflows_nor_vanishes_wrongly() -> None:
    exact, _ = mcnemar(20_000, 20_300)
    z = (300 - 1) / np.sqrt(40_300)
    assert exact == pytest.approx(2 * stats.norm.sf(z), rel=0.01)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(-4, 4), min_size=2, max_size=9))
def test_matched_pairs_of_few_units_goes_through_every_change_of_sign(differences: list[int]) -> None:
    d = np.array(differences)
    sums = [abs(np.dot(signs, d)) for signs in itertools.product((1, -1), repeat=len(d))]
    p, t = matched_pairs(d)
    assert p == pytest.approx(np.mean([s >= abs(d.sum()) for s in sums]))
    if np.ptp(d):
        assert t == pytest.approx(stats.ttest_1samp(d, 0).statistic)
    else:
        assert t is None


def test_matched_pairs_of_many_units_is_students_t() -> None:
    d = np.random.default_rng(5).integers(-2, 4, 40)
    p, t = matched_pairs(d)
    expected = stats.ttest_1samp(d, 0)
    assert (p, t) == (pytest.approx(expected.pvalue), pytest.approx(expected.statistic))


def test_three_speakers_prove_little() -> None:
    """By the normal law p would be 0.0005."""
    p, _ = matched_pairs([3, 4, 5])
    assert p == pytest.approx(2 / 8)


def test_matched_pairs_without_spread() -> None:
    assert matched_pairs([2]) == (None, None)
    assert matched_pairs([0, 0]) == (1.0, None)
    assert matched_pairs([1, 1]) == (0.5, None)
    assert matched_pairs([0] * 30) == (1.0, None)
    assert matched_pairs([1] * 30) == (2.0**-29, None)


def test_matched_pairs_of_few_units_seldom_raise_a_false_alarm() -> None:
    random = np.random.default_rng(6)
    alarms = np.mean([matched_pairs(random.normal(size=6))[0] < 0.05 for _ in range(400)])  # type: ignore[operator]
    assert alarms < 0.06


def test_a_clear_difference_is_found_and_has_the_right_sign() -> None:
    random = np.random.default_rng(2)
    a = random.random(3000) < 0.4
    b = a & (random.random(3000) < 0.8)  # b repairs a fifth of a's errors
    found = compare(a, b, np.repeat(np.arange(100), 30))
    assert found.difference == pytest.approx(b.mean() - a.mean())
    assert found.difference < 0
    assert found.interval.high is not None
    assert found.interval.high < 0
    assert (found.only_a_wrong, found.only_b_wrong, found.both_wrong) == (int((a & ~b).sum()), 0, int(b.sum()))
    for p in (found.mcnemar_exact, found.mcnemar_mid, found.bootstrap, found.matched_pairs):
        assert p is not None
        assert p < 0.01
    assert found.matched_t is not None
    assert found.matched_t < 0
    json.dumps(found.as_dict(), allow_nan=False)


def test_equal_systems_do_not_differ() -> None:
    a = np.random.default_rng(3).random(300) < 0.4
    found = compare(a, a, np.repeat(np.arange(30), 10))
    assert (found.difference, found.mcnemar_exact, found.bootstrap, found.matched_pairs) == (0.0, 1.0, 1.0, 1.0)


def test_two_equally_good_systems_seldom_seem_to_differ() -> None:
    random = np.random.default_rng(4)
    false_alarms = np.zeros(3)
    for seed in range(100):
        rate = random.beta(6, 14, 40)[:, None]
        a, b = (random.random((40, 15)) < rate for _ in range(2))
        found = compare(a.ravel(), b.ravel(), np.repeat(np.arange(40), 15), draws=400, seed=seed)
        assert found.bootstrap is not None
        assert found.matched_pairs is not None
        false_alarms += [p < 0.05 for p in (found.mcnemar_mid, found.bootstrap, found.matched_pairs)]
    assert (false_alarms <= 13).all(), false_alarms


def test_lengths_that_differ_are_refused() -> None:
    with pytest.raises(ValueError, match="as many units"):
        compare([True], [True, False], ["u", "u"])
    with pytest.raises(ValueError, match="one or more errors"):
        interval([], [])
