"""Sequences and batches: batches count segments, long recordings are cut, augmentation repeats by (seed, epoch)."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

from phonechain.features.augmentation import AugmentationSettings
from phonechain.features.errors import CorpusError, SettingsError
from phonechain.features.mfcc import FeatureSettings
from phonechain.features.segments import Segment, Utterance
from phonechain.model.labeler import PhoneLabeler
from phonechain.model.learning.dataset import SMALLEST_BATCH, Dataset, dataset
from phonechain.model.learning.extraction import Featurised, featurise
from phonechain.model.learning.normaliser import Normaliser
from phonechain.model.learning.splits import PIECE, cut_run, hold_out, labelled_runs, part
from phonechain.model.presets import preset
from tests.features.speechlike import speechlike
from tests.model.test_presets import corpus

FEATURES = FeatureSettings(bands=40, pooled=False)
LABELS = list("abcde")
AUGMENTED = preset("blstm-ho-lc-crf").training.augmentation


def make_dataset(
    items: list[Featurised], augmentation: AugmentationSettings | None = None, cut: bool = True
) -> Dataset:
    normal = Normaliser.fit_inputs([i.inputs for i in items], FEATURES, normalise="any")
    small = [replace(i, inputs=i.inputs.reduce_to(FEATURES)) for i in items]
    return dataset(small, LABELS, normal, features=FEATURES, augmentation=augmentation, cut=cut)


def join(items: list[Featurised]) -> Featurised:
    """One long recording of all of them."""
    shift, segments, frames, rows = 0.0, [], [], []
    for i in items:
        segments += [Segment(s.start + shift, s.end + shift, s.label) for s in i.segments]
        shift = segments[-1].end
        frames.append(i.inputs.frames.astype(np.float32))
        rows.append(i.inputs.segments)
    times = np.asarray([(s.start, s.end) for s in segments])
    inputs = replace(items[0].inputs, segments=np.concatenate(rows), times=times, frames=np.concatenate(frames))
    return Featurised(Utterance("long", Path("long.wav"), segments), segments, inputs)


# ------------------------------------------------------------------------------------------------------------- batches


def test_an_epochs_batches_hold_every_sequence_once_within_the_limits() -> None:
    data = make_dataset(corpus(150, 1))
    plan = data.plan(32, 120, 1, np.random.default_rng(0))
    assert sorted(np.concatenate(plan).tolist()) == list(range(len(data)))
    assert max(len(p) for p in plan) <= 32
    assert all(data.lengths[p].sum() <= 120 for p in plan)
    like = [np.ptp(data.frames.lengths[p]) for p in plan]  # type: ignore[union-attr]
    assert np.median(like) < 0.5 * np.ptp(data.frames.lengths)  # type: ignore[union-attr]


def test_a_long_recording_gets_as_many_updates_as_the_same_in_many() -> None:
    """The issue's case: what counts is how much speech there is, not in how many files."""
    many = corpus(400, 1)
    few = [join(many[at : at + 67]) for at in range(0, 400, 67)]
    steps = [len(make_dataset(items).plan(32, 2000, 40, np.random.default_rng(0))) for items in (many, few)]
    assert abs(steps[0] - steps[1]) <= 0.25 * steps[0]
    uncut = len(make_dataset(few, cut=False).plan(32, 2000, 40, np.random.default_rng(0)))
    assert uncut <= 6 < 0.5 * steps[1]


def test_a_small_corpus_is_trained_in_smaller_batches_down_to_a_limit() -> None:
    data = make_dataset(corpus(60, 1))
    plan = data.plan(32, 2000, 40, np.random.default_rng(0))
    assert len(plan) > 60 / 32 + 1
    assert np.mean([data.lengths[p].sum() for p in plan]) > SMALLEST_BATCH / 2


# ------------------------------------------------------------------------------------------------------------- cutting


def test_a_run_is_cut_at_its_pauses() -> None:
    segments = [Segment(0.1 * n, 0.1 * n + 0.1, "a") for n in range(300)]
    segments[90] = Segment(9.0, 9.06, "sil")  # 40 ms less: no gap that counts
    pauses = (100, 190)
    for n in pauses:
        segments[n] = Segment(0.1 * n, 0.1 * n + 0.099, "a")
    later = [Segment(s.start + 0.5 * sum(n > p for p in pauses), s.end + 0.5 * sum(n > p for p in pauses), s.label)
             for n, s in enumerate(segments)]  # fmt: skip
    pieces = cut_run(range(300), later)
    assert [p.stop for p in pieces[:2]] == [101, 191]
    assert [p.start for p in pieces[1:]] == [p.stop for p in pieces[:-1]]
    assert pieces[-1].stop == 300
    assert all(p.stop - p.start <= PIECE for p in pieces)


def test_without_gaps_it_is_cut_after_the_longest_segment() -> None:
    edges = np.cumsum([0.0, *(0.4 if n == 77 else 0.08 for n in range(200))])
    segments = [Segment(a, b, "a") for a, b in itertools.pairwise(edges)]
    assert cut_run(range(200), segments)[0] == slice(0, 78)
    assert cut_run(range(50), segments) == [slice(0, 50)]


def test_at_most_two_in_a_hundred_bigrams_are_lost_at_the_seams() -> None:
    data = make_dataset([join(corpus(400, 1))])
    assert (len(data) - 1) / (len(data.y) - 1) <= 0.02


def test_unlabelled_segments_end_a_run_and_dropped_ones_do_not() -> None:
    runs = labelled_runs(["a", "q", "b", None, "c", "x"], {"a": 0, "b": 1, "c": 2}, drop=("q",))
    assert runs == [([0, 2], [0, 1]), ([4], [2])]


def test_unlabelled_segments_can_stay_in_a_run_without_a_label() -> None:
    index = {"a": 0, "b": 1}
    runs = labelled_runs([None, "a", "q", None, "b", "?"], index, {"q"}, gaps=True)
    assert runs == [([0, 1, 3, 4, 5], [-1, 0, -1, 1, -1])]


def test_a_dataset_with_gaps_keeps_them_where_something_is_labelled() -> None:
    items = [blank_labels(item, 0.5, n) for n, item in enumerate(corpus(30, 1))]
    items.append(blank_labels(items[0], 1.0, 0))
    normaliser = Normaliser.fit_inputs([i.inputs for i in items], FeatureSettings(), normalise="model")
    found = dataset(items, list("abcde"), normaliser, gaps=True)
    labelled = [i for i in items if any(s.label is not None for s in i.segments)]
    assert len(found) == len(labelled) < len(items)
    assert found.lengths.tolist() == [len(i.segments) for i in labelled]
    assert int((found.y >= 0).sum()) == sum(s.label is not None for i in items for s in i.segments)
    assert (dataset(items, list("abcde"), normaliser).y >= 0).all()


def blank_labels(item: Featurised, share: float, seed: int) -> Featurised:
    """The same with so many of its labels removed."""
    gone = np.random.default_rng(seed).random(len(item.segments)) < share
    segments = [replace(s, label=None) if g else s for s, g in zip(item.segments, gone, strict=True)]
    return replace(item, segments=segments)


def test_gaps_are_summed_out_by_chains_over_the_whole_sequence_alone() -> None:
    training = replace(preset("spn-memm").training, gaps="sum")
    with pytest.raises(SettingsError, match="this one is memm"):
        PhoneLabeler("spn-memm", training=training).fit_featurised(corpus(10, 1), corpus(5, 2))


def test_one_recording_is_parted_and_a_tiny_one_refused() -> None:
    whole = Utterance("u", Path("u.wav"), [Segment(n, n + 1, "a") for n in range(50)])
    first, second = part(whole, 0.1)
    assert [*first.segments, *second.segments] == whole.segments
    assert len(second.segments) == 10
    with pytest.raises(CorpusError, match="at least 20 segments"):
        part(replace(whole, segments=whole.segments[:19]), 0.1)
    with pytest.raises(CorpusError, match="at least 2 utterances"):
        hold_out([whole], 0.1, 1)


# --------------------------------------------------------------------------------------------------------- augmentation


def test_of_few_long_recordings_the_ends_are_held_out() -> None:
    """The same share, however the material is cut into files."""

    def recordings(count: int, segments: int) -> list[Utterance]:
        entries = [Segment(0.1 * n, 0.1 * (n + 1), "a") for n in range(segments)]
        return [Utterance(f"u{n}", Path(f"u{n}.wav"), entries) for n in range(count)]

    for count in (1, 6, 16, 120):
        files = recordings(count, 2400 // count)
        whole = [[side] for side in part(files[0], 0.1)] if count == 1 else hold_out(files, 0.1, 1, ends=True)
        train, dev = (sum(len(u.segments) for u in side) for side in whole)
        assert dev == (300 if count == 16 else 240)
        assert train + dev == 2400
    few = recordings(6, 50)  # too short to be parted: a whole one is held out
    assert [len(u.segments) for u in hold_out(few, 0.1, 1, ends=True)[1]] == [50]


def test_augmentation_repeats_with_the_state_and_leaves_data_to_test_on_alone() -> None:
    data = make_dataset(corpus(30, 1), AUGMENTED)
    chosen = np.arange(8)

    def frames(seed: int) -> list[np.ndarray]:
        batch = data.batch(chosen, random=np.random.default_rng(seed))
        assert batch.frames is not None
        return [f.numpy() for f in batch.frames.frames]

    assert all(np.array_equal(a, b) for a, b in zip(frames(1), frames(1), strict=True))
    assert any(a.shape != b.shape or not np.array_equal(a, b) for a, b in zip(frames(1), frames(2), strict=True))
    plain = make_dataset(corpus(30, 1))
    one, two = (plain.batch(chosen, random=np.random.default_rng(n)).frames for n in (1, 2))
    assert one is not None
    assert two is not None
    assert all(np.array_equal(a, b) for a, b in zip(one.frames, two.frames, strict=True))


def test_clipped_frames_take_the_place_of_the_recorded_ones_as_often_as_wanted() -> None:
    items = [replace(i, clipped=np.full_like(i.inputs.frames, 7.0, dtype=np.float16)) for i in corpus(30, 1)]

    def flat(share: float) -> int:
        data = make_dataset(items, AugmentationSettings(clipping=share))
        batch = data.batch(np.arange(len(data)), random=np.random.default_rng(1))
        assert batch.frames is not None
        return sum(bool((f == f[0]).all()) for f in batch.frames.frames)

    assert flat(0.0) == 0
    assert flat(1.0) == 30
    assert 5 < flat(0.5) < 25


def test_clipped_frames_are_those_of_the_clipped_sound_and_come_back_from_the_cache(tmp_path: Path) -> None:
    settings = AugmentationSettings(clipping=0.1)
    path = tmp_path / "a.wav"
    samples = np.asarray(speechlike(16000, 1.0, seed=3), dtype=np.float32)
    soundfile.write(path, samples, 16000, subtype="FLOAT")
    u = Utterance("a", path, [Segment(0.3, 0.5, "a"), Segment(0.5, 0.7, "b")])
    [plain] = featurise([u], FEATURES)
    [first] = featurise([u], FEATURES, clipping=settings, cache=tmp_path / "cache")
    [again] = featurise([u], FEATURES, clipping=settings, cache=tmp_path / "cache")
    assert not len(plain.clipped)
    assert np.array_equal(first.clipped, again.clipped)
    assert first.clipped.shape == plain.inputs.frames.shape
    assert np.abs(first.clipped.astype(np.float32) - plain.inputs.frames).max() > 1
    assert len(list((tmp_path / "cache").iterdir())) == 1


def test_data_to_test_on_is_what_labelling_sees() -> None:
    items = corpus(6, 1)
    normal = Normaliser.fit_inputs([i.inputs for i in items], FEATURES, normalise="any")
    data = make_dataset(items, cut=False)
    batch = data.batch(np.arange(6))
    assert batch.frames is not None
    for n, frames in zip(batch.sequences, batch.frames.frames, strict=True):
        [seen] = normal.apply_inputs([items[n].inputs], FEATURES, [0], "recording")
        np.testing.assert_allclose(frames, seen.frames, atol=1e-6)
    shortest = int(np.argmin(data.lengths))
    rows = (batch.packing.sequence == list(batch.sequences).index(shortest)).nonzero()[:, 0]
    np.testing.assert_allclose(batch.frames.times[rows].numpy(), items[shortest].inputs.times)
