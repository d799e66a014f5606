"""--preset auto: candidates compete on parts of the corpus, the choice is told, and kept for a run that is broken off."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from pathlib import Path

import pytest

from phonechain.features.errors import SettingsError
from phonechain.features.inputs import from_array
from phonechain.model import pretrained_path
from phonechain.model.labeler import PhoneLabeler
from phonechain.model.learning.base_as_is import BaseAsIs
from phonechain.model.learning.extraction import Featurised
from phonechain.model.learning.selection import (
    CHOICE,
    FOLDS,
    Candidate,
    CandidateScore,
    candidates,
    count_labelled,
    pick,
    rank,
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
    passes = [candidates(english, framed=True, segments=n)[0].system.training.epochs for n in (3000, 6000, 20000)]
    assert passes == [12, 8, 12]
    assert variations(candidates(english, framed=True, segments=3000)[0]) == []
    tried = variations(Candidate(preset("spn-ho-lc-crf")))
    assert [round(c.system.training.l2, 6) for c in tried[:2]] == [0.333333, 3.0]
    assert {f.layers for f in tried[2].system.model.factors} == {1}


def test_the_one_with_the_fewest_errors_is_trained_and_told(base: PhoneLabeler, tmp_path: Path) -> None:
    told: list[Progress] = []
    asked = auto({"epochs": "2", "seed": "3"}).training
    other = dict(zip("abcde", "vwxyz", strict=True))  # labels that the base does not know
    items, dev = spell(corpus(90, 1), other), spell(corpus(30, 2), other)
    made = PhoneLabeler("auto", training=asked, name="mine").fit_featurised(
        items, dev, base=base, run_dir=tmp_path, progress=told.append
    )
    table = made.metrics_["candidates"]
    assert {"blstm-seg-lc-crf", "spn-ho-lc-crf", "spn-lc-crf", "lc-crf"} <= {row["preset"] for row in table}
    most = max(row["folds"] for row in table)
    assert table[0]["folds"] == most
    assert table[0]["dev_error"] == min(row["dev_error"] for row in table if row["folds"] == most)
    assert made.system.name == table[0]["preset"] in preset_names()
    assert (made.system.training.seed, made.metrics_["epochs"]) == (3, 2)
    lines = [p.message for p in told if p.stage == "candidate"]
    assert "does not compete, since" in lines[0]
    assert len(lines) == 1 + sum(row["folds"] for row in table)
    assert "held-out segments, part 1 of 3; " in lines[1]
    for n in range(2, most + 1):  # errors of further parts are counted with those before
        assert any(f"held-out segments, parts 1 to {n} of 3 together; " in line for line in lines)
    made.save(tmp_path / "a.safetensors")
    again = PhoneLabeler.load(tmp_path / "a.safetensors")
    assert (again.preset, again.metrics_["candidates"]) == (table[0]["preset"], table)

    told.clear()  # a run that was broken off after the choice does not choose again
    assert (tmp_path / CHOICE).exists()
    resumed = PhoneLabeler("auto", training=asked).fit_featurised(
        items, dev, base=base, run_dir=tmp_path, progress=told.append
    )
    assert not [p for p in told if p.stage == "candidate"]
    assert resumed.metrics_["candidates"] == table


@pytest.fixture(scope="module")
def good_base(tmp_path_factory: pytest.TempPathFactory) -> PhoneLabeler:
    """A model that knows the labels a to e well, out of its file."""
    made = labeler(epochs=8)
    made.licence, made.limits = "CC0", "not for birds"
    path = tmp_path_factory.mktemp("base") / "base.safetensors"
    made.fit_featurised(corpus(200, 1), corpus(30, 2), corpus="cycles").save(path)
    return PhoneLabeler.load(path)


def spell(items: list[Featurised], names: dict[str, str]) -> list[Featurised]:
    return [
        replace(i, segments=[replace(s, label=names.get(s.label or "", s.label)) for s in i.segments]) for i in items
    ]


def as_is(base: PhoneLabeler, items: list[Featurised], drop: tuple[str, ...] = ()) -> BaseAsIs:
    return BaseAsIs.of(base.model_, base.system, base.title_, items, base.features_, drop)


@pytest.mark.parametrize("names", [{}, {x: x.upper() for x in "abcde"}], ids=["as they stand", "folded"])
def test_a_base_that_nothing_beats_is_kept_and_told(
    good_base: PhoneLabeler, tmp_path: Path, names: dict[str, str]
) -> None:
    """Sixty short utterances and one pass teach nothing that the base does not know better."""
    few, dev = spell(corpus(60, 5), names), spell(corpus(60, 6), names)
    told: list[Progress] = []
    asked = auto({"epochs": "1"}).training
    made = PhoneLabeler("auto", training=asked, name="mine").fit_featurised(
        few, dev, base=good_base, corpus="few", run_dir=tmp_path, progress=told.append
    )
    table = made.metrics_["candidates"]
    assert [row["kept"] for row in table] == [True] + [False] * (len(table) - 1)
    assert table[0]["dev_error"] < min(row["dev_error"] for row in table[1:] if row["folds"] == table[0]["folds"])
    assert made.start_ in [p.message for p in told if p.stage == "start"]
    assert made.start_.startswith(f"keeps the base@{good_base.version_} as it is: {100 * table[0]['dev_error']:.1f} %")
    assert f"{100 * table[1]['dev_error']:.1f} % after training on the corpus" in made.start_
    codes = [n.code for n in made.notices_]
    assert codes == ["base-kept", "labels-folded"] if names else ["base-kept"]
    assert made.metrics_["epochs"] == made.metrics_["best_epoch"] == 0
    back = {v: k for k, v in names.items()}
    own = spell(dev, back)
    right = good_base.score([i.inputs.segments for i in own], [[str(s.label) for s in i.segments] for i in own])
    assert made.metrics_["dev_error"] == pytest.approx(1 - right)
    made.save(tmp_path / "kept.safetensors")
    again = PhoneLabeler.load(tmp_path / "kept.safetensors")
    before = good_base.network_.state_dict()
    assert all((before[k] == v).all() for k, v in again.network_.state_dict().items())
    assert (again.temperature_, again.preset, again.labels_) == (good_base.temperature_, good_base.preset, [*"abcde"])
    card = again.card_
    assert (card["name"], card["description"]) == ("mine", f"the base@{good_base.version_} as it is")
    assert (card["corpus"], card["licence"], card["limits"]) == ("cycles", "CC0", "not for birds")

    told.clear()  # a run that was broken off after the choice keeps it too
    resumed = PhoneLabeler("auto", training=asked).fit_featurised(
        few, dev, base=good_base, run_dir=tmp_path, progress=told.append
    )
    assert resumed.start_ == made.start_
    assert not [p for p in told if p.stage == "candidate"]


def test_what_lies_far_behind_halfway_is_given_up(good_base: PhoneLabeler) -> None:
    made = PhoneLabeler("auto", training=auto({"epochs": "4"}).training).fit_featurised(
        corpus(60, 5), corpus(60, 6), base=good_base
    )
    rows = {row["preset"]: row for row in made.metrics_["candidates"] if not row["kept"]}
    assert rows["blstm-seg-lc-crf"]["note"] == "stopped halfway"
    assert rows["blstm-seg-lc-crf"]["dev_error"] > 1.3 * made.metrics_["candidates"][0]["dev_error"]
    assert made.metrics_["candidates"][0]["note"] == ""


def test_on_a_large_corpus_the_final_training_has_to_do_better(
    good_base: PhoneLabeler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There the sample does not decide: what was trained and does worse on the dev set gives way to the base."""
    monkeypatch.setattr("phonechain.model.learning.selection.LARGE", 100)
    told: list[Progress] = []
    made = PhoneLabeler("auto", training=auto({"epochs": "1"}).training).fit_featurised(
        corpus(60, 5), corpus(60, 6), base=good_base, progress=told.append
    )
    assert [p for p in told if p.stage == "epoch"]
    assert "segments of the dev set" in made.start_
    assert made.metrics_["candidates"][0]["kept"]
    before = good_base.network_.state_dict()
    assert all((before[k] == v).all() for k, v in made.network_.state_dict().items())


def test_a_base_that_is_wrong_here_is_trained_on(good_base: PhoneLabeler) -> None:
    """What it calls e is a here, half of the time."""
    made = PhoneLabeler("auto", training=auto({"epochs": "3"}).training).fit_featurised(
        spell(corpus(120, 5), {"e": "a", "d": "b"}), spell(corpus(60, 6), {"e": "a", "d": "b"}), base=good_base
    )
    rows = made.metrics_["candidates"]
    assert [row["kept"] for row in rows].count(True) == 1
    assert not rows[0]["kept"]
    assert made.metrics_["epochs"] == 3
    assert not made.start_.startswith("keeps")


def test_a_base_competes_where_its_labels_are_those_of_the_corpus(good_base: PhoneLabeler) -> None:
    items = corpus(20, 3)
    assert as_is(good_base, items).obstacle == ""
    assert as_is(good_base, spell(items, {"a": "AA", "b": "zz"})).obstacle.endswith("labels that it does not know")
    phones = dict(zip("abcde", ("AA", "B", "D", "IY", "EH"), strict=True))
    arpabet = replace(good_base.model_, labels=list(phones.values()))
    stressed = spell(items, {**phones, "a": "AA1", "e": "EH0"})
    for corpus_of, why in (
        (stressed, ""),
        ([*stressed, *spell(items, {**phones, "a": "AA0", "e": "EH0"})], "it does not tell AA0 and AA1 apart"),
    ):
        found = BaseAsIs.of(arpabet, good_base.system, "phones", corpus_of, good_base.features_)
        assert found.obstacle == why
        assert "stress" in found.comparison.steps
        told = [n.message for n in found.notices()]
        assert len(told) == bool(why)
        assert all(f"{why}; name it as base with fold (--base, --fold)" in message for message in told)
    wide = [replace(i, inputs=from_array(i.inputs.segments[:, :50])) for i in items]
    assert as_is(good_base, wide).obstacle == "its features are others"
    listening = PhoneLabeler.load(pretrained_path())
    deaf = [replace(i, inputs=from_array(i.inputs.segments)) for i in items]
    assert as_is(listening, deaf).obstacle == "it reads frames, and there are none"


def test_a_coarser_base_is_told_how_to_compete(good_base: PhoneLabeler) -> None:
    """The corpus has stress, the base none; spelled as the base spells, it is the base that is kept."""
    phones = dict(zip("abcde", ("AA", "B", "D", "IY", "EH"), strict=True))
    arpabet = copy(good_base)
    arpabet._model = replace(good_base.model_, labels=list(phones.values()))
    plain, dev = spell(corpus(60, 5), phones), spell(corpus(30, 6), phones)
    stressed = [i for n, item in enumerate(plain) for i in spell([item], {"AA": f"AA{n % 2}"})]
    asked = auto({"epochs": "1"}).training
    told: list[Progress] = []
    made = PhoneLabeler("auto", training=asked).fit_featurised(
        stressed, spell(dev, {"AA": "AA1"}), base=arpabet, progress=told.append
    )
    [notice] = [n for n in made.notices_ if n.code == "base-coarser"]
    assert "does not tell AA0 and AA1 apart; name it as base with fold (--base, --fold)" in notice.message
    assert notice.message in [p.message for p in told if p.stage == "candidate"]
    assert not any(row["kept"] for row in made.metrics_["candidates"])
    found = arpabet.label_set_.compare([s.label for i in stressed for s in i.segments])
    folded = [
        replace(i, segments=found.respell([replace(i.utterance, segments=i.segments)])[0].segments) for i in stressed
    ]
    made = PhoneLabeler("auto", training=asked).fit_featurised(folded, dev, base=arpabet)
    assert made.metrics_["candidates"][0]["kept"]
    assert "base-coarser" not in [n.code for n in made.notices_]


def test_candidates_that_cannot_be_trained_are_passed_over(good_base: PhoneLabeler) -> None:
    """Without features of segments only what reads frames, or nothing at all, could be chosen."""
    bare = [replace(i, inputs=replace(i.inputs, segments=i.inputs.segments[:, :0])) for i in corpus(60, 5)]
    wide = PhoneLabeler.load(pretrained_path()).trainable()
    made = PhoneLabeler("auto", training=auto({"epochs": "1"}).training).fit_featurised(bare[:40], bare[40:], base=wide)
    notes = {row["preset"]: row["note"] for row in made.metrics_["candidates"]}
    assert "got none" in notes["blstm-seg-lc-crf"]
    assert made.metrics_["candidates"][0]["dev_error"] is not None


def test_errors_of_a_base_are_those_of_its_answers(good_base: PhoneLabeler) -> None:
    items = corpus(90, 7)
    wrong, count = as_is(good_base, items).count_errors(items)
    answers = good_base.predict([i.inputs.segments for i in items])
    pairs = [
        (a, s.label) for each, i in zip(answers, items, strict=True) for a, s in zip(each, i.segments, strict=True)
    ]
    assert (wrong, count) == (sum(a != b for a, b in pairs), len(pairs))
    dropped = as_is(good_base, items, drop=("e",)).count_errors(items)[1]
    assert dropped == sum(b != "e" for _, b in pairs)
    unlabelled = [replace(i, segments=[replace(s, label=None) for s in i.segments]) for i in items]
    assert as_is(good_base, items).count_errors(unlabelled) == (0, 0)


def test_errors_are_counted_over_folds() -> None:
    entry = CandidateScore(Candidate(preset("lc-crf")), wrong=[10, 30], segments=[100, 100])
    assert entry.error == 0.2
    assert entry.spread == pytest.approx((0.2 * 0.8 / 200) ** 0.5)
    assert CandidateScore(Candidate(preset("lc-crf")), failure="why").row()["dev_error"] is None


@pytest.mark.parametrize(("wrong", "untouched"), [(240, True), (225, False), (270, True)])
def test_the_base_is_kept_unless_something_is_better_by_more_than_noise(wrong: int, untouched: bool) -> None:
    system = preset("lc-crf")  # 250 of 1,000 wrong: a standard error of 13.7 segments
    base = CandidateScore(Candidate(system, kept=True), wrong=[120, 130], segments=[500, 500])
    trained = CandidateScore(Candidate(system, warm=True), wrong=[wrong - 120, 120], segments=[500, 500])
    hasty = CandidateScore(Candidate(system), wrong=[50], segments=[500])  # one fold is not compared with two
    chosen = pick(rank([hasty, trained, base]))
    assert chosen is (base if untouched else trained)


def test_what_auto_chooses_cannot_be_set() -> None:
    with pytest.raises(SettingsError, match=r"chooses l2 itself.*seed, held_out, gaps, epochs"):
        auto({"l2": "1"})
    assert preset("auto").name == "auto"
    assert "auto" not in preset_names()
    with pytest.raises(SettingsError, match="chosen no system yet"):
        _ = PhoneLabeler("auto").system
