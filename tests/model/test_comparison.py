"""Two systems on one corpus, from answers that were given before."""

import json

import numpy as np
import pytest

from phonechain.features.errors import CorpusError, PhoneSetError
from phonechain.features.segments import Segment, Utterance
from phonechain.model.scoring.comparison import Marks, compare_marks, mark_answers
from phonechain.model.scoring.significance import compare, interval


def utterance(name: str, labels: str, speaker: str | None = None) -> Utterance:
    segments = [Segment(0.1 * n, 0.1 * (n + 1), label) for n, label in enumerate(labels.split())]
    return Utterance(name, None, segments, speaker)  # type: ignore[arg-type]


def make_answers(labels: str, shift: float = 0.0) -> list[Segment]:
    return [Segment(0.1 * n + shift, 0.1 * (n + 1) + shift, label) for n, label in enumerate(labels.split())]


CORPUS = [utterance("u", "a b a", "amy"), utterance("v", "b b", "bob"), utterance("w", "a a", "cy")]


def test_errors_are_marked_segment_by_segment() -> None:
    found = mark_answers("x", {"u": make_answers("a a a"), "w": make_answers("b a")}, CORPUS)
    assert found.wrong == {("u", 0.0): False, ("u", 0.1): True, ("u", 0.2): False, ("w", 0.0): True, ("w", 0.1): False}
    assert found.folding == ()


@pytest.mark.parametrize(("shift", "count"), [(0.004, 3), (-0.004, 3), (0.006, 0), (0.05, 0)])
def test_answers_are_found_by_their_times_within_rounding(shift: float, count: int) -> None:
    answers = {"u": make_answers("a b a", shift), "v": make_answers("b b")}
    assert len(mark_answers("x", answers, CORPUS).wrong) == count + 2


def test_the_nearest_of_several_answers_is_taken() -> None:
    short = [Utterance("u", None, [Segment(0.1, 0.101, "a"), Segment(0.101, 0.102, "b")], "amy")]  # type: ignore[arg-type]
    answers = {"u": [Segment(0.101, 0.102, "b"), Segment(0.1, 0.101, "a")]}
    assert set(mark_answers("x", answers, short).wrong.values()) == {False}


def test_given_labels_are_compared_with_answers_as_with_a_model() -> None:
    corpus = [utterance("u", "AH0 B K noise", "amy")]
    found = mark_answers("x", {"u": make_answers("AH B B AH")}, corpus)
    assert found.folding == ("stress",)
    assert list(found.wrong.values()) == [False, False]
    assert found.never == {("u", 0.2)}  # K, which it never answers
    assert (found.unknown, found.unscored) == ({"K": 1}, {"noise": 1})
    mapped = mark_answers("x", {"u": make_answers("AH B B AH")}, corpus, mapping={"K": "B"})
    assert list(mapped.wrong.values()) == [False, False, False]
    with pytest.raises(PhoneSetError, match="expected a label of the model for 'K', or - for none, got 'G'"):
        mark_answers("x", {"u": make_answers("AH B B AH")}, corpus, mapping={"K": "G"})


def test_a_label_that_is_never_answered_is_an_error_unless_the_other_is_a_model_without_it() -> None:
    corpus = [utterance("u", "a b c", "amy")]
    a = mark_answers("a", {"u": make_answers("a b b")}, corpus)
    b = mark_answers("b", {"u": make_answers("a b c")}, corpus)
    found = compare_marks(a, b, corpus)
    assert (found.a.errors, found.b.errors, found.tests.segments) == (1, 0, 3)
    neither = compare_marks(a, a, corpus)
    assert (neither.tests.segments, neither.a.errors, neither.b.errors, neither.a.unknown) == (3, 1, 1, {"c": 1})
    model = Marks("m", {("u", 0.0): False, ("u", 0.1): True})
    assert [side.missing for side in (compare_marks(a, model, corpus).a, compare_marks(model, a, corpus).b)] == [1, 1]
    assert compare_marks(a, model, corpus).tests.segments == 2


def test_systems_are_compared_where_both_answered() -> None:
    a = mark_answers("a", {"u": make_answers("a b a"), "v": make_answers("b b")}, CORPUS)
    b = mark_answers("b", {"v": make_answers("a b"), "w": make_answers("a a")}, CORPUS)
    found = compare_marks(a, b, CORPUS)
    assert (found.utterances, found.speakers, found.over) == (1, 1, "speaker")
    assert (found.a.per, found.b.per, found.tests.difference) == (0.0, 0.5, 0.5)
    assert (found.a.missing, found.b.missing) == (2, 3)
    json.dumps(found.as_dict(), allow_nan=False)
    only_v = mark_answers("b", {"v": make_answers("a b")}, CORPUS)
    with pytest.raises(CorpusError, match="segments that a and b both answer, got none"):
        compare_marks(mark_answers("a", {"u": make_answers("a b a")}, CORPUS), only_v, CORPUS)


def test_the_figures_are_those_of_the_tests_on_the_units_that_are_asked_for() -> None:
    random = np.random.default_rng(4)
    corpus = [utterance(f"u{n}", "a b " * 10, f"s{n % 8}") for n in range(40)]
    keys = [(u.id, s.start) for u in corpus for s in u.segments]
    wrong_a, wrong_b = random.random(len(keys)) < 0.4, random.random(len(keys)) < 0.3
    a, b = (Marks(n, dict(zip(keys, w.tolist(), strict=True))) for n, w in (("a", wrong_a), ("b", wrong_b)))
    for over, units in (
        ("speaker", [u.speaker for u in corpus for _ in u.segments]),
        ("utterance", [u.id for u in corpus for _ in u.segments]),
    ):
        found = compare_marks(a, b, corpus, over=over)  # type: ignore[arg-type]
        assert found.tests == compare(wrong_a, wrong_b, units)
        assert found.a.interval == interval(wrong_a, units)
        assert found.b.interval == interval(wrong_b, units)
    assert compare_marks(a, b, corpus).over == "speaker"


def test_speakers_that_are_not_all_known_make_utterances_the_units() -> None:
    corpus = [*CORPUS, utterance("x", "a", None)]
    a = mark_answers("a", {"u": make_answers("a b a")}, corpus)
    found = compare_marks(a, a, corpus)
    assert (found.over, found.speakers) == ("utterance", None)
    with pytest.raises(CorpusError, match="expected a speaker for every utterance, got none for 1 of 4"):
        compare_marks(a, a, corpus, over="speaker")


def test_dropped_and_unlabelled_segments_do_not_count() -> None:
    corpus = [utterance("u", "a b q", "amy")]
    corpus[0].segments.append(Segment(0.3, 0.4, None))
    a = mark_answers("a", {"u": make_answers("a b q a")}, corpus, drop=["q"])
    found = compare_marks(a, a, corpus, drop=["q"])
    assert (found.tests.segments, found.a.missing) == (2, 0)


def test_answers_to_another_corpus_are_refused() -> None:
    with pytest.raises(CorpusError, match="answers to segments of the corpus in x, got none"):
        mark_answers("x", {"other": make_answers("a")}, CORPUS)
