"""--preset auto: candidates compete on parts of the corpus, the choice is told, and kept for a run that is broken off."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from phonechain.features.errors import SettingsError
from phonechain.model import pretrained_path
from phonechain.model.labeler import PhoneLabeler
from phonechain.model.learning.extraction import Featurised
from phonechain.model.learning.selection import (
    CHOICE,
    FOLDS,
    Candidate,
    CandidateScore,
    candidates,
    count_labelled,
    sample,
    split_folds,
    split_item,
    variations,
)
from phonechain.model.learning.training import Progress
from phonechain.model.presets import auto, preset, preset_names
from tests.model.test_presets import corpus
from tests.model.test_tuning import labeler


def spoken_by(items: list[Featurised], speakers: int) -> list[Featurised]:
    return [
        replace(item, utterance=replace(item.utterance, speaker=f"s{n % speakers}")) for n, item in enumerate(items)
    ]


@pytest.fixture(scope="module")
def base() -> PhoneLabeler:
    """A model without an encoder: nothing of it goes on."""
    return labeler(epochs=1).fit_featurised(corpus(20, 1), corpus(10, 2))


def test_a_long_recording_falls_into_pieces_that_lose_nothing() -> None:
    whole = corpus(1, 1)[0]
    segments = [replace(whole.segments[n % 2], start=0.1 * n, end=0.1 * (n + 1)) for n in range(50)]
    many = corpus(10, 3)
    inputs = many[0].inputs
    long = replace(whole, segments=segments, inputs=inputs.select([n % len(inputs) for n in range(50)]))
    pieces = split_item(long, 12)
    assert [s for piece in pieces for s in piece.segments] == segments
    assert all(6 <= len(piece.segments) <= 12 for piece in pieces[:-1])
    assert all(len(piece.inputs) == len(piece.segments) for piece in pieces)
    assert split_item(whole, 120) == [whole]
    blank = replace(whole, segments=[replace(s, label=None) for s in whole.segments])
    assert split_item(blank, 120) == []


def test_folds_are_of_like_size_and_keep_speakers_whole() -> None:
    for speakers in (1, 7):
        items = spoken_by(corpus(60, 1), speakers)
        folds = split_folds(items, FOLDS, 1)
        assert sorted(i.utterance.id for fold in folds for i in fold) == sorted(i.utterance.id for i in items)
        sizes = [sum(map(count_labelled, fold)) for fold in folds]
        assert max(sizes) < 1.5 * min(sizes)
        owners = [{i.utterance.speaker for i in fold} for fold in folds]
        assert all(not (a & b) for n, a in enumerate(owners) for b in owners[:n]) == (speakers >= 5)


def test_a_sample_is_as_large_as_asked_for() -> None:
    items = corpus(60, 1)
    chosen = sample(items, 100, 1)
    assert 100 <= sum(map(count_labelled, chosen)) < 100 + 12
    assert sample(items, 100, 1) == chosen != sample(items, 100, 2)
    assert len(sample(items, 10**6, 1)) == len(items)


def test_who_competes() -> None:
    english = PhoneLabeler.load(pretrained_path()).trainable().model_
    names = [c.name for c in candidates(english, framed=True, segments=3000)]
    assert names[0] == "blstm-ho-lc-crf, from the base"
    assert {"spn-ho-lc-crf", "spn-lc-crf", "lc-crf"} <= set(names)
    assert not any(c.warm for c in candidates(english, framed=False, segments=3000))
    assert variations(candidates(english, framed=True, segments=3000)[0]) == []
    tried = variations(Candidate(preset("spn-ho-lc-crf")))
    assert [round(c.system.training.l2, 6) for c in tried[:2]] == [0.333333, 3.0]
    assert {f.layers for f in tried[2].system.model.factors} == {1}


def test_the_one_with_the_fewest_errors_is_trained_and_told(base: PhoneLabeler, tmp_path: Path) -> None:
    told: list[Progress] = []
    asked = auto({"epochs": "2", "seed": "3"}).training
    made = PhoneLabeler("auto", training=asked, name="mine").fit_featurised(
        corpus(90, 1), corpus(30, 2), base=base, run_dir=tmp_path, progress=told.append
    )
    table = made.metrics_["candidates"]
    assert {"blstm-seg-lc-crf", "spn-ho-lc-crf", "spn-lc-crf", "lc-crf"} <= {row["preset"] for row in table}
    most = max(row["folds"] for row in table)
    assert table[0]["folds"] == most
    assert table[0]["dev_error"] == min(row["dev_error"] for row in table if row["folds"] == most)
    assert made.system.name == table[0]["preset"] in preset_names()
    assert (made.system.training.seed, made.metrics_["epochs"]) == (3, 2)
    lines = [p.message for p in told if p.stage == "candidate"]
    assert len(lines) == sum(row["folds"] for row in table)
    assert "% errors on" in lines[0]
    made.save(tmp_path / "a.safetensors")
    again = PhoneLabeler.load(tmp_path / "a.safetensors")
    assert (again.preset, again.metrics_["candidates"]) == (table[0]["preset"], table)

    told.clear()  # a run that was broken off after the choice does not choose again
    assert (tmp_path / CHOICE).exists()
    resumed = PhoneLabeler("auto", training=asked).fit_featurised(
        corpus(90, 1), corpus(30, 2), base=base, run_dir=tmp_path, progress=told.append
    )
    assert not [p for p in told if p.stage == "candidate"]
    assert resumed.metrics_["candidates"] == table


def test_errors_are_counted_over_folds() -> None:
    entry = CandidateScore(Candidate(preset("lc-crf")), wrong=[10, 30], segments=[100, 100])
    assert entry.error == 0.2
    assert entry.spread == pytest.approx((0.2 * 0.8 / 200) ** 0.5)
    assert CandidateScore(Candidate(preset("lc-crf")), failure="why").row()["dev_error"] is None


def test_what_auto_chooses_cannot_be_set() -> None:
    with pytest.raises(SettingsError, match=r"chooses l2 itself.*seed, held_out, gaps, epochs"):
        auto({"l2": "1"})
    assert preset("auto").name == "auto"
    assert "auto" not in preset_names()
    with pytest.raises(SettingsError, match="chosen no system yet"):
        _ = PhoneLabeler("auto").system
