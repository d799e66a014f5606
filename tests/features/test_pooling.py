from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phonechain.features.audio.reader import Audio
from phonechain.features.errors import SegmentError
from phonechain.features.mfcc import FeatureSettings, frames
from phonechain.features.pooling import DIMENSION, FEATURE_NAMES, RATE_TOLERANCE, extract, pool
from phonechain.features.segments import Segment
from tests.features import oracle
from tests.features.calls import calls
from tests.features.speechlike import speechlike

DEFAULT = FeatureSettings()


def cut(times: list[float]) -> list[Segment]:
    return [Segment(start, end) for start, end in pairwise(times)]


@pytest.mark.parametrize(
    "given_settings",
    [DEFAULT, FeatureSettings(hop=0.005, delta_width=5, lifter=22), FeatureSettings(window=0.02, n_mels=40)],
    ids=["default", "5 ms", "20 ms"],
)
def test_the_92_features_equal_the_oracle(given_settings: FeatureSettings) -> None:
    sound = speechlike(16000, 0.8, seed=2)
    times = [0, 0.0131, 0.1, 0.105, 0.108, 0.2153, 0.36, 0.5, 0.7925, 0.8]
    segments = cut(times)
    ours = pool(frames(sound, given_settings), segments, given_settings)
    theirs = oracle.features(sound, [(s.start, s.end) for s in segments], given_settings)
    assert ours.shape == theirs.shape == (9, 92)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=5e-5)


def test_names_follow_the_order() -> None:
    assert len(FEATURE_NAMES) == len(set(FEATURE_NAMES)) == DIMENSION == 92
    assert FEATURE_NAMES[0] == "mfcc1_mean1"
    assert FEATURE_NAMES[38] == "log_energy_mean3"
    assert FEATURE_NAMES[39] == "mfcc1_d1_begin"
    assert FEATURE_NAMES[64] == "log_energy_d2_begin"
    assert FEATURE_NAMES[65] == "mfcc1_d1_end"
    assert FEATURE_NAMES[91] == "log_duration"


def test_a_frame_track_lands_under_its_name() -> None:
    """Column c holds c + 1 + frame / 1000, so that each pooled value says where it came from."""
    track = (np.arange(1, 40)[None, :] + np.arange(100)[:, None] / 1000).astype(np.float32)
    row = dict(zip(FEATURE_NAMES, pool(track, [Segment(0.2, 0.4)], DEFAULT)[0], strict=True))
    assert row["mfcc1_mean1"] == pytest.approx(1 + 0.0230, abs=1e-5)  # 200..260 ms
    assert row["mfcc1_mean2"] == pytest.approx(1 + 0.0300, abs=1e-5)  # 260..340
    assert row["log_energy_mean3"] == pytest.approx(13 + 0.0370, abs=1e-5)  # 340..400
    assert row["mfcc1_d1_begin"] == pytest.approx(14 + 0.020, abs=1e-5)
    assert row["log_energy_d2_begin"] == pytest.approx(39 + 0.020, abs=1e-5)
    assert row["mfcc1_d1_end"] == pytest.approx(14 + 0.040, abs=1e-5)
    assert row["log_energy_d2_end"] == pytest.approx(39 + 0.040, abs=1e-5)
    assert row["log_duration"] == pytest.approx(math.log(0.2))


@pytest.mark.parametrize("samples", [16000, 16111])
def test_an_appended_loud_second_changes_no_segment_before_it(samples: int) -> None:
    sound = speechlike(16000, 1.1)[:samples]
    loud = np.concatenate([sound, np.random.default_rng(0).uniform(-1, 1, 16000).astype(np.float32)])
    duration = samples / 16000
    safe = duration - DEFAULT.reach - DEFAULT.frame_period
    segments = cut([0, 0.08, 0.2, 0.31, 0.46, 0.6, 0.8, safe, duration])
    alone = extract(Audio(sound, 16000), segments, DEFAULT)
    longer = extract(Audio(loud, 16000), segments, DEFAULT)
    np.testing.assert_array_equal(alone[:-1], longer[:-1])
    assert np.abs(alone[-1] - longer[-1]).max() > 0.1  # the one beside the loud second hears it


@pytest.mark.parametrize("rate", [44100, 48000])
def test_copies_at_other_rates_agree(rate: int) -> None:
    times = [0.0, *np.sort(np.random.default_rng(3).uniform(0, 1.5, 40)), 1.5]
    segments = [s for s in cut(times) if s.end > s.start]
    at_16k = extract(Audio(speechlike(16000, 1.5, seed=4), 16000), segments, DEFAULT)
    copy = extract(Audio(speechlike(rate, 1.5, seed=4), rate), segments, DEFAULT)
    moved = np.abs(copy - at_16k) / np.maximum(at_16k.std(axis=0), 1e-3)
    assert np.quantile(moved, 0.999) < RATE_TOLERANCE
    assert moved.max() < 3 * RATE_TOLERANCE


def test_short_segments_and_the_edges_of_the_file() -> None:
    sound = speechlike(16000, 0.5)
    duration = 0.5
    segments = [
        Segment(0.0, 0.001),
        Segment(0.0, 1e-9),
        Segment(0.25, 0.25),
        Segment(0.2549999, 0.2550001),  # across the border of two frames
        Segment(duration - 1e-6, duration),
        Segment(duration - 0.004, duration + 0.01),
        Segment(duration, duration + 0.01),
        Segment(0.0, duration),
    ]
    x = pool(frames(sound, DEFAULT), segments, DEFAULT)
    assert x.shape == (8, 92)
    assert np.isfinite(x).all()
    track = frames(sound, DEFAULT)
    np.testing.assert_allclose(x[0, :13], track[0, :13], atol=1e-5)
    np.testing.assert_allclose(x[2, :39].reshape(3, 13), np.tile(track[25, :13], (3, 1)), atol=1e-5)
    np.testing.assert_allclose(x[3, 13:26], (track[25, :13] + track[26, :13]) / 2, atol=1e-3)
    np.testing.assert_allclose(x[4, 26:39], track[50, :13], atol=1e-5)
    assert x[2, 91] == pytest.approx(math.log(0.001))


def test_the_shortest_sound() -> None:
    x = extract(Audio(np.array([0.3], dtype=np.float32), 16000), [Segment(0.0, 1 / 16000)], DEFAULT)
    assert x.shape == (1, 92)
    assert np.isfinite(x).all()


def test_a_row_does_not_depend_on_its_company() -> None:
    track = frames(speechlike(16000, 1.0), DEFAULT)
    segments = cut(list(np.linspace(0, 1, 18)))
    together = pool(track, segments, DEFAULT)
    for segment, row in zip(segments, together, strict=True):
        np.testing.assert_array_equal(pool(track, [segment], DEFAULT)[0], row)
    np.testing.assert_array_equal(pool(track, segments[::-1], DEFAULT)[::-1], together)


def test_means_of_the_parts_add_up_to_the_mean_of_the_whole() -> None:
    track = frames(speechlike(16000, 1.0), DEFAULT)
    whole = pool(track, [Segment(0.1, 0.9)], DEFAULT)[0, :39].reshape(3, 13)
    tenths = pool(track, cut(list(np.linspace(0.1, 0.9, 11))), DEFAULT)[:, :39].reshape(10, 3, 13)
    by_tenths = np.einsum("p,tpc->tc", [0.3, 0.4, 0.3], tenths.astype(np.float64)).mean(axis=0)
    np.testing.assert_allclose(np.array([0.3, 0.4, 0.3]) @ whole, by_tenths, atol=1e-4)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 60),
    st.lists(st.tuples(st.floats(-0.1, 0.8), st.floats(0, 0.7)), max_size=12),
    st.integers(0, 2**32 - 1),
)
def test_always_finite_and_within_the_track(count: int, spans: list[tuple[float, float]], seed: int) -> None:
    track = np.random.default_rng(seed).normal(scale=30, size=(count, 39)).astype(np.float32)
    segments = [Segment(start, start + length) for start, length in spans]
    x = pool(track, segments, DEFAULT)
    assert x.shape == (len(spans), 92)
    assert np.isfinite(x).all()
    if not spans:
        return
    low, high = track.min(axis=0), track.max(axis=0)
    for columns, source in ((slice(0, 39), slice(0, 13)), (slice(39, 91), slice(13, 39))):
        values = x[:, columns].reshape(len(spans), -1, source.stop - source.start)
        assert (values >= low[source] - 1e-2).all()
        assert (values <= high[source] + 1e-2).all()


@pytest.mark.parametrize(("start", "end"), [(0.2, 0.1), (math.nan, 0.1), (0.1, math.inf)])
def test_impossible_times_are_refused(start: float, end: float) -> None:
    with pytest.raises(SegmentError, match="in segment 1") as caught:
        pool(np.zeros((20, 39), dtype=np.float32), [Segment(0, 0.1), Segment(start, end)], DEFAULT)
    assert caught.value.pointer == "segments/1"


def test_no_segment_is_pooled_by_itself() -> None:
    """Reading its two times is all: a loop with numpy's calls in it is thirty times slower."""
    track = np.random.default_rng(0).normal(size=(9001, 39)).astype(np.float32)
    few, many = (cut(list(np.linspace(0, 90, count + 1))) for count in (100, 1000))
    pool(track, few, DEFAULT)
    more = calls(lambda: pool(track, many, DEFAULT)) - calls(lambda: pool(track, few, DEFAULT))
    assert more <= 3 * (len(many) - len(few))


def test_means_leave_out_what_lies_past_the_last_frames_time() -> None:
    """The last half period and what follows it: neither repeats the last frame nor thins the mean."""
    default = FeatureSettings()
    period = default.frame_period
    track = np.zeros((5, 39), dtype=np.float32)
    track[:, 0] = [1.0, 2.0, 4.0, 8.0, 16.0]
    covered = 4.5 * period  # the last frame's centre is at four periods
    past = [Segment(0.0, covered + extra * period) for extra in (0.0, 0.5, 3.0)]
    found = pool(track, past, default)
    for row, segment in zip(found, past, strict=True):
        edges = np.minimum(np.cumsum([0.0, 0.3, 0.4, 0.3]) * segment.end, covered) / period + 0.5
        fine = np.repeat(track[:, 0], 20_000).astype(np.float64)
        for part, name in enumerate((0, 13, 26)):
            begin, end = (round(e * 20_000) for e in edges[part : part + 2])
            expected = fine[begin:end].mean() if end > begin else 16.0
            assert row[name] == pytest.approx(expected, rel=2e-4)
