import json
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from phonechain.features.errors import CorpusError
from phonechain.features.mfcc import FeatureSettings
from phonechain.features.phones.comparison import LabelSet
from phonechain.features.segments import Segment, Utterance
from phonechain.model.labeler import PhoneLabeler
from phonechain.model.scoring.calibration import (
    brier,
    calibration_error,
    chance_calibration_error,
    doubt_auc,
    doubt_table,
    log_loss,
    reliability_table,
    top_shares,
)
from phonechain.model.scoring.evaluation import BATCH, evaluate, score
from phonechain.model.scoring.summary import summarise
from phonechain.model.settings import FactorSettings, ModelSettings, TrainingSettings

LABELS = ["a", "b", "c"]


def draw(seed: int, n: int = 200, y: int = 3) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    random = np.random.default_rng(seed)
    p = random.dirichlet(np.full(y, 0.6), n)
    return random.integers(0, y, n), p


# ------------------------------------------------------------------------------------------------- counts by hand


def by_hand():
    true = [0, 0, 0, 1, 1, 2, -1]
    predicted = [0, 1, 1, 1, 0, 2, 1]
    posterior = np.full((7, 3), 0.2)
    posterior[np.arange(7), predicted] = 0.6
    return summarise(
        true,
        posterior,
        predicted,
        labels=LABELS,
        utterances=list("uuuvvvv"),
        names=["a", "a", "a", "b", "b", "c", "zh"],
    )


def test_errors_and_rate_are_counted() -> None:
    e = by_hand()
    assert (e.segments, e.errors, e.utterances, e.speakers) == (6, 3, 2, None)
    assert e.per == pytest.approx(3 / 6)
    assert e.interval_over == "utterance"


def test_the_confusion_matrix_has_the_true_label_in_rows() -> None:
    assert by_hand().confusion_matrix == [[1, 2, 0], [1, 1, 0], [0, 0, 1]]


def test_the_per_phone_table() -> None:
    a, b, c = by_hand().per_phone
    assert (a.label, a.count, a.predicted, a.correct, a.confused_with, a.confused) == ("a", 3, 2, 1, "b", 2)
    assert (a.recall, a.precision, a.f1) == (pytest.approx(1 / 3), pytest.approx(1 / 2), pytest.approx(0.4))
    assert (b.count, b.predicted, b.correct) == (2, 3, 1)  # the unknown label's segment, called b, does not count
    assert (c.recall, c.precision, c.f1, c.confused_with, c.confused) == (1.0, 1.0, 1.0, None, 0)


def test_confusions_come_most_frequent_first() -> None:
    found = [(c.true, c.predicted, c.count) for c in by_hand().confusions]
    assert found == [("a", "b", 2), ("b", "a", 1)]
    assert by_hand().confusions[0].share == pytest.approx(2 / 3)


def test_labels_that_the_model_does_not_have_are_named_and_not_scored() -> None:
    e = by_hand()
    assert e.unknown == {"zh": 1}
    assert e.nll == pytest.approx(-(3 * np.log(0.6) + 3 * np.log(0.2)) / 6)  # over the six known ones
    assert (e.top[1], e.top[3]) == (pytest.approx(3 / 6), 1.0)
    assert e.mean_confidence == pytest.approx(0.6)


def test_a_label_that_never_occurs_has_no_ratio_instead_of_a_division_by_zero() -> None:
    e = summarise([0], [[0.9, 0.05, 0.05]], labels=LABELS, utterances=["u"])
    c = e.per_phone[2]
    assert (c.count, c.recall, c.precision, c.f1) == (0, None, None, None)
    assert (e.per, e.interval.low, e.interval.high, e.doubt_auc) == (0.0, None, None, None)
    assert e.doubt[0].share_of_errors is None


def test_the_answer_need_not_be_the_most_probable_label() -> None:
    true, p = draw(0)
    other = (p.argmax(1) + 1) % 3
    e = summarise(true, p, other, labels=LABELS, utterances=["u"] * 200)
    assert e.errors == int((other != true).sum())
    assert e.mean_confidence == pytest.approx(p[np.arange(200), other].mean())


def test_as_dict_is_json() -> None:
    values = json.loads(json.dumps(by_hand().as_dict(), allow_nan=False))
    assert values["per_phone"][0]["label"] == "a"
    assert values["top"]["1"] == pytest.approx(3 / 6)
    assert values["unknown"] == {"zh": 1}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"true": []}, "N > 0"),
        ({"posterior": np.full((2, 2), 0.5)}, r"posterior \[N, 3\]"),
        ({"true": [0, 3]}, "labels from 0 to 2, got 0 to 3"),
        ({"true": [0, -2]}, "labels from 0 to 2, got -2"),
        ({"true": [0.0, 1.0]}, "whole numbers"),
        ({"predicted": [0, -1]}, "labels from 0 to 2"),
        ({"predicted": [0]}, "2 whole numbers"),
        ({"posterior": [[0.5, 0.5, 0.5]] * 2}, "sum to 1"),
        ({"posterior": [[np.nan, 0.5, 0.5]] * 2}, "sum to 1"),
        ({"utterances": ["u"]}, "2 utterances, one per segment, got 1"),
        ({"true": [-1, -1]}, "true labels that the model has, got none among 2"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(changes: dict, message: str) -> None:
    good = {"true": [0, 1], "posterior": [[0.5, 0.3, 0.2]] * 2, "predicted": None, "utterances": ["u", "v"]}
    values = {**good, **changes}
    with pytest.raises(ValueError, match=message):
        summarise(
            values["true"], values["posterior"], values["predicted"], labels=LABELS, utterances=values["utterances"]
        )


# --------------------------------------------------------------------------------------------------------- calibration


def test_fifteen_bins_of_equal_size() -> None:
    random = np.random.default_rng(0)
    table = reliability_table(random.random(1500), random.random(1500) < 0.5)
    assert [b.count for b in table] == [100] * 15
    assert all(a.high < b.low for a, b in pairwise(table))


def test_the_calibration_error_by_hand() -> None:
    confidence = np.repeat([0.5, 0.9], 100)
    right = np.concatenate([np.arange(100) < 70, np.arange(100) < 80])
    table = reliability_table(confidence, right)
    assert [(b.count, b.confidence, b.accuracy) for b in table] == [(100, 0.5, 0.7), (100, pytest.approx(0.9), 0.8)]
    assert calibration_error(table) == pytest.approx((0.2 + 0.1) / 2)


def test_each_bins_share_has_an_interval_over_the_units() -> None:
    random = np.random.default_rng(5)
    confidence = random.random(3000)
    right = random.random(3000) < confidence
    units = np.repeat(np.arange(60), 50).tolist()
    table = reliability_table(confidence, right, units=units)
    for b in table:
        assert b.interval is not None
        assert b.interval.low is not None
        assert b.interval.high is not None
        assert b.interval.low <= b.accuracy <= b.interval.high
    assert len(table) == 15
    assert (
        sum(b.calibrated is True for b in table) >= 13
    )  # posteriors are what they say, so 95 % of the intervals hold them
    boastful = reliability_table(confidence ** (1 / 3), right, units=units)
    assert sum(b.calibrated is False for b in boastful) >= 10
    without = reliability_table(confidence, right)
    assert [(b.interval, b.calibrated) for b in without] == [(None, None)] * 15
    few = reliability_table(confidence, right, units=["u"] * 3000)
    assert {b.interval.reason for b in few if b.interval} == {
        "not computed: one utterance or speaker, at least 3 are needed"
    }
    assert few[0].calibrated is None


def test_a_calibrated_model_of_few_segments_has_a_calibration_error_by_chance() -> None:
    """The mean over corpora whose labels are drawn from the posteriors themselves, ties among them or not."""
    random = np.random.default_rng(2)
    for confidence in (random.beta(4, 2, 400), np.repeat([0.2, 0.6, 0.9], 100)):
        drawn = [
            calibration_error(reliability_table(confidence, random.random(len(confidence)) < confidence))
            for _ in range(300)
        ]
        assert chance_calibration_error(confidence) == pytest.approx(np.mean(drawn), rel=0.08)
    assert chance_calibration_error([1.0] * 50) == 0.0


def test_honest_posteriors_are_calibrated_and_sharpened_ones_are_not() -> None:
    random = np.random.default_rng(1)
    p = random.dirichlet(np.ones(5), 30_000)
    true = (p.cumsum(1) < random.random((30_000, 1))).sum(1)
    honest = summarise(true, p, labels=list("abcde"), utterances=["u"] * 30_000)
    sharp = p**3 / (p**3).sum(1, keepdims=True)
    boastful = summarise(true, sharp, labels=list("abcde"), utterances=["u"] * 30_000)
    assert honest.ece < 0.012
    assert boastful.ece > 0.15
    assert 0.5 * honest.ece < honest.ece_by_chance < 2 * honest.ece
    assert boastful.ece > 10 * boastful.ece_by_chance
    assert honest.brier < boastful.brier
    assert honest.nll is not None
    assert boastful.nll is not None
    assert honest.nll < boastful.nll


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 80), st.integers(1, 6))
def test_no_figure_depends_on_the_order_of_the_segments(seed: int, n: int, levels: int) -> None:
    random = np.random.default_rng(seed)
    confidence = random.integers(1, levels + 1, n) / levels  # many ties
    wrong = random.random(n) < 0.4
    order = random.permutation(n)
    pairs = zip(reliability_table(confidence, ~wrong), reliability_table(confidence[order], ~wrong[order]), strict=True)
    for bin_a, bin_b in pairs:
        assert asdict(bin_a) == pytest.approx(asdict(bin_b))
    for a, b in zip(doubt_table(confidence, wrong), doubt_table(confidence[order], wrong[order]), strict=True):
        assert (a.segments, a.below, a.errors) == (b.segments, b.below, pytest.approx(b.errors))
    assert doubt_auc(confidence, wrong) == pytest.approx(doubt_auc(confidence[order], wrong[order]))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 80))
def test_bins_cover_every_segment_once(seed: int, n: int) -> None:
    random = np.random.default_rng(seed)
    confidence, right = random.random(n), random.random(n) < 0.5
    table = reliability_table(confidence, right)
    assert sum(b.count for b in table) == n
    assert sum(b.count * b.accuracy for b in table) == pytest.approx(right.sum())
    assert sum(b.count * b.confidence for b in table) == pytest.approx(confidence.sum())


def test_the_scores_against_their_definitions() -> None:
    true, p = draw(3)
    onehot = np.eye(3)[true]
    assert brier(true, p) == pytest.approx(((p - onehot) ** 2).sum(1).mean())
    assert log_loss(true, p) == pytest.approx(-np.log((p * onehot).sum(1)).mean())
    ranks = [sorted(row, reverse=True).index(row[t]) + 1 for row, t in zip(p.tolist(), true, strict=True)]
    assert top_shares(true, p) == {n: pytest.approx(np.mean(np.array(ranks) <= n)) for n in (1, 2, 3)}


def test_a_posterior_of_zero_keeps_the_likelihood_finite() -> None:
    value = log_loss(np.array([0]), np.array([[0.0, 1.0]]))
    assert value is not None
    assert 80 < value < 100


def test_a_flat_posterior_ranks_nothing() -> None:
    assert top_shares(np.array([0, 1]), np.full((2, 3), 1 / 3)) == {1: 0.0, 2: 0.0, 3: 1.0}


def test_the_doubt_table_finds_the_errors_at_the_bottom() -> None:
    confidence = np.arange(100) / 100
    wrong = confidence < 0.1
    rows = {r.share: r for r in doubt_table(confidence, wrong)}
    assert (rows[0.05].segments, rows[0.05].error_rate, rows[0.05].share_of_errors) == (5, 1.0, 0.5)
    assert (rows[0.2].segments, rows[0.2].errors, rows[0.2].share_of_errors) == (20, 10.0, 1.0)
    assert rows[1.0].error_rate == pytest.approx(0.1)
    assert doubt_auc(confidence, wrong) == 1.0
    assert doubt_auc(-confidence, wrong) == 0.0
    assert doubt_auc(np.ones(100), wrong) == 0.5


def test_doubt_among_equals_is_what_a_random_choice_would_find() -> None:
    (row,) = doubt_table(np.ones(10), np.arange(10) < 4, shares=[0.5])
    assert (row.segments, row.errors, row.error_rate) == (5, 2.0, 0.4)


# -------------------------------------------------------------------------------------------------------- a labeler


class Oracle:
    """A labeler whose posterior is known: the first feature of a segment says which label it prefers, and how much."""

    labels_ = ("a", "b", "c")
    label_set_ = LabelSet(labels_)
    features_ = FeatureSettings()
    calibration_ = "not fitted: dev set too small (3 segments)"
    drop: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.lengths: list[int] = []

    def posteriors(self, items, *, viterbi=False, groups=None, normalise=None):
        self.batches.append(list(groups))
        self.lengths += [len(i) for i in items]
        p = [np.tile(np.array([0.7, 0.2, 0.1], np.float32), (len(i), 1)) for i in items]
        return p, [np.full(len(i), 1 if viterbi else 0) for i in items]


@pytest.fixture
def sound(tmp_path: Path) -> Path:
    path = tmp_path / "noise.wav"
    soundfile.write(path, 0.1 * np.random.default_rng(0).standard_normal(16000), 16000)
    return path


def utterance(name: str, sound: Path, labels: list[str | None], speaker: str | None = None) -> Utterance:
    segments = [Segment(0.1 * n, 0.1 * (n + 1), label) for n, label in enumerate(labels)]
    return Utterance(name, sound, segments, speaker)


def test_evaluate_scores_labelled_segments_and_reports_the_rest(sound: Path, tmp_path: Path) -> None:
    labeler = Oracle()
    found = evaluate(
        labeler,  # type: ignore[arg-type]
        [
            utterance("1", sound, ["a", "b", None, "+NSN+", "x"]),
            utterance("2", tmp_path / "missing.wav", ["a"]),
            utterance("3", sound, ["a", "+NSN+"]),
        ],
        drop=["+NSN+"],
    )
    assert (found.segments, found.errors, found.utterances) == (3, 1, 2)
    assert (found.dropped, found.unlabelled, found.unknown) == ({"+NSN+": 2}, 1, {"x": 1})
    assert found.calibration == Oracle.calibration_
    assert [b.interval.units for b in found.reliability if b.interval] == [2]
    assert [p["utterance"] for p in found.problems] == ["2"]
    assert "missing.wav" in found.problems[0]["message"]
    assert sorted(labeler.lengths) == [1, 4]  # a dropped segment is not shown to the chain, an unlabelled one is
    json.dumps(found.as_dict(), allow_nan=False)


def test_labels_are_compared_through_the_folding_that_fits_the_corpus(sound: Path) -> None:
    """All of them by one: `A` of the first file is `a`, since the second has no other labels that the model knows."""
    us = [utterance("1", sound, ["A", "b", "spn"]), utterance("2", sound, ["A", "C", "zz"])]
    found = evaluate(Oracle(), us)  # type: ignore[arg-type]
    assert found.folding == ["case"]
    assert (found.segments, found.errors) == (4, 2)
    assert (found.unknown, found.unscored) == ({"zz": 1}, {"spn": 1})
    assert found.labels == ["a", "b", "c"]
    mapped = evaluate(Oracle(), us, mapping={"zz": "a", "A": None})  # type: ignore[arg-type]
    assert (mapped.segments, mapped.errors, mapped.unscored) == (3, 2, {"A": 2, "spn": 1})


def test_labels_that_the_folding_takes_for_one_are_scored_as_one(sound: Path) -> None:
    """A model with stress, asked about labels without: its posteriors are added."""
    labeler = Oracle()
    labeler.label_set_ = LabelSet(("AH0", "AH1", "B"))
    found = evaluate(labeler, [utterance("1", sound, ["AH", "B"])], decode="viterbi")  # type: ignore[arg-type]
    assert found.labels == ["AH0/AH1", "B"]
    assert (found.segments, found.errors) == (2, 1)  # the answer is AH1
    assert found.nll == pytest.approx(-(np.log(0.9) + np.log(0.1)) / 2, abs=1e-6)
    assert found.mean_confidence == pytest.approx(0.9)


def test_labels_that_are_all_unknown_are_an_error_that_says_so(sound: Path) -> None:
    with pytest.raises(CorpusError, match="labels that the model has, got none in 2 segments labelled ж, ы"):
        evaluate(Oracle(), [utterance("1", sound, ["ж", "ы"])])  # type: ignore[arg-type]


def test_systems_of_other_labels_are_compared_where_both_know_the_truth(sound: Path) -> None:
    us = [utterance(str(n), sound, ["a", "b", "c"], speaker=f"s{n}") for n in range(8)]
    narrow = Oracle()
    narrow.label_set_ = LabelSet(("a", "b", "x"))
    found = score(Oracle(), us).compare(score(narrow, us, decode="viterbi"))  # type: ignore[arg-type]
    assert (found.per_a, found.per_b) == (pytest.approx(1 / 2), pytest.approx(1 / 2))
    assert (found.only_a_wrong, found.only_b_wrong) == (8, 8)


def test_the_labelers_own_dropped_labels_are_left_out_too(sound: Path) -> None:
    labeler = Oracle()
    labeler.drop = ("q",)
    found = evaluate(labeler, [utterance("1", sound, ["a", "q"])])  # type: ignore[arg-type]
    assert (found.segments, found.dropped) == (1, {"q": 1})


def test_the_sequence_answer_can_be_scored_instead(sound: Path) -> None:
    us = [utterance("1", sound, ["a", "b"])]
    assert score(Oracle(), us).predicted.tolist() == [0, 0]  # type: ignore[arg-type]
    assert score(Oracle(), us, decode="viterbi").predicted.tolist() == [1, 1]  # type: ignore[arg-type]


def test_a_speakers_recordings_are_scored_together_and_come_back_in_order(sound: Path) -> None:
    us = [utterance(str(n), sound, ["a"], speaker="even" if n % 2 == 0 else "odd") for n in range(2 * BATCH + 10)]
    us += [utterance("unknown", sound, ["b"]), utterance("unknown too", sound, ["b"])]
    labeler = Oracle()
    scored = score(labeler, us)  # type: ignore[arg-type]
    assert scored.utterances == [u.id for u in us]
    assert [len(set(groups)) for groups in labeler.batches] == [
        3,
        1,
    ]  # two unknown ones stand alone, with "even"; "odd"
    assert [len(groups) for groups in labeler.batches] == [BATCH + 7, BATCH + 5]


def test_the_interval_is_over_speakers_where_all_are_known(sound: Path) -> None:
    us = [utterance(str(n), sound, ["a", "b"], speaker=f"s{n % 3}") for n in range(6)]
    e = evaluate(Oracle(), us)  # type: ignore[arg-type]
    assert (e.interval_over, e.speakers, e.interval.units) == ("speaker", 3, 3)


def test_nothing_to_score_is_one_sentence(sound: Path) -> None:
    with pytest.raises(CorpusError, match="expected labelled segments to score, got none in 1 utterances"):
        evaluate(Oracle(), [utterance("1", sound, [None])])  # type: ignore[arg-type]


def test_progress_is_told_and_stop_is_asked(sound: Path) -> None:
    us = [utterance(str(n), sound, ["a"]) for n in range(BATCH + 1)]
    told: list[tuple[str, int, int]] = []
    asked: list[bool] = []

    def stop() -> bool:
        asked.append(len(asked) >= 1)
        return asked[-1]

    scored = score(
        Oracle(),  # type: ignore[arg-type]
        us,
        progress=lambda p: told.append((p.stage, p.done, p.total)),
        stop=stop,
    )
    assert told[-1] == ("scoring", BATCH, BATCH + 1)
    assert ("features", BATCH + 1, BATCH + 1) in told
    assert len(scored.true) == BATCH


def test_two_systems_on_the_same_segments(sound: Path) -> None:
    us = [utterance(str(n), sound, ["a", "b", "b"], speaker=f"s{n}") for n in range(8)]
    first, second = score(Oracle(), us), score(Oracle(), us, decode="viterbi")  # type: ignore[arg-type]
    found = first.compare(second)
    assert (found.per_a, found.per_b) == (pytest.approx(2 / 3), pytest.approx(1 / 3))
    assert (found.only_a_wrong, found.only_b_wrong, found.units) == (16, 8, 8)
    with pytest.raises(ValueError, match="same segments"):
        first.compare(score(Oracle(), us[1:]))  # type: ignore[arg-type]


# --------------------------------------------------------------------------------------------------------- end to end


def tones(folder: Path, count: int) -> list[Utterance]:
    """Utterances of three tones, a speaker each two of them; every segment 80 ms."""
    random = np.random.default_rng(0)
    made = []
    for n in range(count):
        labels = [LABELS[k] for k in random.integers(0, 3, 12)]
        t = np.arange(int(0.08 * 16000)) / 16000
        parts = [np.sin(2 * np.pi * {"a": 300, "b": 1200, "c": 3000}[label] * t) for label in labels]
        path = folder / f"{n}.wav"
        soundfile.write(path, 0.3 * np.concatenate(parts) + 0.01 * random.standard_normal(12 * len(t)), 16000)
        segments = [Segment(0.08 * k, 0.08 * (k + 1), label) for k, label in enumerate(labels)]
        made.append(Utterance(str(n), path, segments, f"s{n // 2}"))
    return made


@pytest.mark.parametrize("speaker_normalised", [False, True])
def test_a_trained_labeler_is_evaluated_from_sound(tmp_path: Path, speaker_normalised: bool) -> None:
    us = tones(tmp_path, 10)
    labeler = PhoneLabeler(
        "",
        model=ModelSettings(
            factors=(FactorSettings(kind="linear"),), normalise="speaker" if speaker_normalised else "model"
        ),
        training=TrainingSettings(epochs=8, batch=2, learning_rate=0.02),
    ).fit(us[:6], dev=us[6:8])
    found = evaluate(labeler, us[8:])
    assert found.segments == 24
    assert found.per <= 0.1
    assert found.nll is not None
    assert found.nll < 0.5
    assert found.interval_over == "speaker"
    assert evaluate(labeler, us[8:], decode="viterbi").per <= 0.1
    labeler.save(tmp_path / "m.safetensors")
    loaded = PhoneLabeler.load(tmp_path / "m.safetensors")
    assert evaluate(loaded, us[8:]) == found
