"""Segments: what is refused, what is repaired, and what a person is told."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phonechain.features.errors import NoSegments, SegmentError
from phonechain.features.segment_checks import TOLERANCE, explain, prepare, sift, validate
from phonechain.features.segments import Segment

GOOD = [Segment(0.0, 0.1, "h"), Segment(0.1, 0.25, "ə"), Segment(0.4, 0.5)]


def kinds(segments, duration=None):
    return [(p.index, p.kind) for p in validate(segments, duration)]


def test_good_segments_have_no_problem_and_stay_as_they_are():
    assert validate(GOOD, 0.5) == ()
    assert prepare(GOOD, 0.5) == (GOOD, ())


@pytest.mark.parametrize(
    ("segments", "duration", "expected"),
    [
        ([Segment(0.2, 0.1)], None, [(0, "reversed")]),
        ([Segment(0.2, 0.2)], None, [(0, "zero-length")]),
        ([Segment(-0.1, 0.2)], None, [(0, "negative")]),
        ([Segment(0.0, math.nan)], None, [(0, "non-finite")]),
        ([Segment(math.inf, 1.0)], None, [(0, "non-finite")]),
        ([Segment(0.5, 0.6), Segment(0.1, 0.2)], None, [(1, "unsorted")]),
        ([Segment(0.0, 0.3), Segment(0.2, 0.4)], None, [(1, "overlap")]),
        ([Segment(0.0, 1.0), Segment(0.2, 0.3), Segment(0.5, 0.6)], None, [(1, "overlap"), (2, "overlap")]),
        ([Segment(0.0, 1.011)], 1.0, [(0, "past-end")]),
        ([Segment(0.0, 1.010)], 1.0, []),
        ([Segment(1.0, 1.005)], 1.0, [(0, "after-end")]),
        ([Segment(2.0, 3.0)], 1.0, [(0, "after-end")]),
    ],
)
def test_each_kind_of_problem(segments, duration, expected):
    assert kinds(segments, duration) == expected


def test_everything_wrong_is_said_at_once():
    segments = [Segment(0.3, 0.2, "a"), Segment(0.1, 0.1, "b"), Segment(0.5, 0.9, "c"), Segment(0.8, 1.5, "d")]
    with pytest.raises(SegmentError) as caught:
        prepare(segments, 1.0)
    assert [(p.index, p.kind) for p in caught.value.problems] == [
        (0, "reversed"),
        (1, "zero-length"),
        (1, "unsorted"),
        (3, "past-end"),
        (3, "overlap"),
    ]
    assert str(caught.value).startswith(
        "5 problems in 4 segments: segments[0] 'a': expected an end after the start 0.300 s"
    )
    assert "and 2 more" in str(caught.value)
    assert caught.value.problems[3].value == 1.5
    assert caught.value.problems[3].limit == pytest.approx(1.010)
    assert len(caught.value.details["problems"]) == 5


def test_no_segments():
    with pytest.raises(NoSegments, match="at least one segment"):
        prepare([], 1.0)
    with pytest.raises(NoSegments):
        sift([], 1.0)


def test_an_overrun_within_tolerance_is_clipped_with_a_notice():
    segments, notices = prepare([Segment(0.0, 1.008, "a")], 1.0)
    assert segments == [Segment(0.0, 1.0, "a")]
    assert [n.code for n in notices] == ["segment-clipped"]
    assert "0.008 s past the end" in notices[0].message
    assert (notices[0].pointer, notices[0].value, notices[0].limit) == ("segments/0/end", 1.008, 1.0)


def test_floating_point_dust_is_neither_a_problem_nor_a_notice():
    segments = [Segment(0.1, 0.1 + 0.2), Segment(0.3, 0.4)]
    assert segments[0].end > segments[1].start
    assert prepare(segments, 0.4 - 1e-9)[1] == ()


def test_fix_sorts_and_trims_and_says_so():
    segments = [Segment(0.30, 0.40, "c"), Segment(0.0, 0.105, "a"), Segment(0.1, 0.2, "b")]
    with pytest.raises(SegmentError):
        prepare(segments, 1.0)
    fixed, notices = prepare(segments, 1.0, fix=True)
    assert fixed == [Segment(0.0, 0.1, "a"), Segment(0.1, 0.2, "b"), Segment(0.30, 0.40, "c")]
    assert [n.code for n in notices] == ["segments-sorted", "segment-trimmed"]
    assert notices[1].pointer == "segments/1/end"


@pytest.mark.parametrize(
    "segments",
    [
        [Segment(0.0, 0.12), Segment(0.1, 0.2)],  # 20 ms is no rounding
        [Segment(0.0, 0.3), Segment(0.1, 0.105)],  # one inside the other
        [Segment(0.2, 0.1)],
        [Segment(0.2, 0.2)],
        [Segment(0.0, 2.0)],
    ],
)
def test_fix_repairs_nothing_beyond_its_rules(segments):
    with pytest.raises(SegmentError):
        prepare(segments, 1.0, fix=True)


def test_problems_left_after_a_repair_are_told_by_the_places_of_the_input():
    segments = [Segment(0.5, 0.4, "x"), Segment(0.1, 0.2, "y"), Segment(0.0, 0.1, "z")]
    with pytest.raises(SegmentError) as caught:
        prepare(segments, 1.0, fix=True)
    assert [(p.index, p.kind) for p in caught.value.problems] == [(0, "reversed")]
    assert "segments[0] 'x'" in str(caught.value)


@pytest.mark.parametrize(
    ("factor", "unit"),
    [
        (1000, "milliseconds"),
        (16000, "samples at 16000 Hz"),
        (44100, "samples at 44100 Hz"),
        (48000, "samples at 48000 Hz"),
        (1e7, "100 ns"),
    ],
)
def test_times_in_another_unit_get_a_hint(factor, unit):
    segments = [Segment(s.start * factor, s.end * factor, s.label) for s in (Segment(0, 1.2), Segment(1.2, 2.95))]
    with pytest.raises(SegmentError, match=unit) as caught:
        prepare(segments, 3.0)
    assert unit in caught.value.details["hint"]


def test_another_recordings_annotation_gets_a_hint_with_both_durations():
    segments = [Segment(0, 1.0), Segment(1.0, 2.9), Segment(2.9, 4.25)]
    with pytest.raises(SegmentError, match=r"another recording's annotation.*4\.250 s.*2\.100 s"):
        prepare(segments, 2.1)


def test_a_plain_overrun_gets_no_hint():
    assert explain([Segment(0, 1.5)], 1.0) is None
    assert explain(GOOD, 0.5) is None


def test_times_that_cover_next_to_nothing_are_doubted():
    _, notices = prepare([Segment(0, 0.0001), Segment(0.0001, 0.0003)], 3.0)
    assert [n.code for n in notices] == ["segments-cover-little"]


def test_whole_numbers_without_a_known_duration_are_doubted():
    _, notices = prepare([Segment(0, 1600), Segment(1600, 4000)], None)
    assert [n.code for n in notices] == ["segments-long"]


def test_sift_sets_aside_what_is_bad_and_keeps_the_places():
    segments = [
        Segment(0.0, 0.1, "a"),
        Segment(0.2, 0.1, "b"),
        Segment(0.05, 0.3, "c"),
        Segment(0.4, 0.5, "d"),
        Segment(9, 10),
    ]
    sifted = sift(segments, 1.0)
    assert sifted.indices == [0, 3]
    assert sifted.segments == [segments[0], segments[3]]
    assert {p.index for p in sifted.problems} == {1, 2, 4}


def test_a_bad_segment_takes_no_good_one_with_it():
    segments = [Segment(0.0, 0.1), Segment(0.9, 0.8), Segment(0.1, 0.2), Segment(0.2, 0.3)]
    assert sift(segments, 1.0).indices == [0, 2, 3]


def test_sift_with_nothing_left_refuses_with_the_hint():
    with pytest.raises(SegmentError, match="milliseconds"):
        sift([Segment(2000, 2900)], 3.0)


times = st.floats(-1, 3, allow_nan=False).map(lambda x: round(x, 3)) | st.just(math.nan)
drawn = st.lists(st.builds(Segment, times, times, st.sampled_from([None, "a", "ŋ"])), min_size=1, max_size=8)


def attempt(function, *args, **options):
    try:
        return function(*args, **options), None
    except SegmentError as refusal:
        return None, refusal


@given(drawn, st.none() | st.floats(0.1, 3), st.booleans())
def test_what_is_returned_is_always_usable(segments, duration, fix):
    done, refused = attempt(prepare, segments, duration, fix=fix)
    if refused:
        assert {p.index for p in refused.problems} <= set(range(len(segments)))
        assert refused.problems
    else:
        ready, _ = done
        assert validate(ready, duration) == ()
        assert len(ready) == len(segments)
        assert all(a.end <= b.start + 1e-6 for a, b in pairwise(ready))
        assert duration is None or ready[-1].end <= duration


@given(drawn, st.none() | st.floats(0.1, 3), st.booleans())
def test_what_is_sifted_is_usable_and_every_other_segment_has_its_reason(segments, duration, fix):
    sifted, refused = attempt(sift, segments, duration, fix=fix)
    if refused:
        assert {p.index for p in refused.problems} == set(range(len(segments)))
    else:
        assert validate(sifted.segments, duration) == ()
        assert sorted(set(sifted.indices) | {p.index for p in sifted.problems}) == list(range(len(segments)))
        for i, s in zip(sifted.indices, sifted.segments, strict=True):
            assert segments[i].label == s.label
            assert s.end == pytest.approx(segments[i].end, abs=TOLERANCE + 1e-6)
