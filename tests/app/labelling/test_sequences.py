"""Sequences, words and hidden variables in answers of the service and of the command line."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phonechain
from phonechain.app import samples
from phonechain.app.cli import main
from phonechain.app.labelling import sequences
from phonechain.app.labelling.sequences import find_word_tier
from phonechain.features.annotation import Annotation, Tier
from phonechain.features.segments import Segment
from phonechain.model.labeler import PhoneLabeler
from tests.app.conftest import Client, lab

ALL: dict[str, Any] = {"sequences": "3", "words": "true", "hidden": "true"}
WORDS = [("in", 0, 1), ("being", 2, 5), ("comparatively", 6, 17), ("modern", 18, 22)]


@pytest.fixture(scope="module")
def labeler() -> PhoneLabeler:
    return PhoneLabeler.load(phonechain.pretrained_path())


@pytest.fixture(scope="module")
def answer(client: Client) -> dict[str, Any]:
    response = client.classify(**ALL)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def test_the_sequences_are_those_of_the_library(answer: dict[str, Any], labeler: PhoneLabeler) -> None:
    audio, segments = phonechain.read_audio(samples.AUDIO), phonechain.read_segments(samples.SEGMENTS)
    expected = labeler.label_sequence(audio, segments, n_best=3)
    [found] = answer["sequences"]
    assert (found["first"], found["last"]) == (0, 22)
    assert found["log_probability"] == pytest.approx(expected.answered.log_probability, abs=1e-4)
    assert found["probability"] == pytest.approx(math.exp(found["log_probability"]), rel=1e-4)
    assert found["entropy"] == pytest.approx(expected.entropy, abs=1e-4)
    assert [tuple(one["labels"]) for one in found["n_best"]] == [one.labels for one in expected.n_best]
    assert len({tuple(one["labels"]) for one in found["n_best"]}) == 3
    assert found["posterior_error"] == 0
    logs = [one["log_probability"] for one in found["n_best"]]
    assert logs == sorted(logs, reverse=True)
    assert logs[0] >= found["log_probability"] - 1e-6
    assert all(segment["entropy"] >= 0 for segment in answer["segments"])


def test_a_words_confidence_is_the_probability_that_its_labels_are_right(
    answer: dict[str, Any], labeler: PhoneLabeler
) -> None:
    """That of its labels with all others summed out."""
    found = answer["words"]
    assert [(w["label"], w["first"], w["last"]) for w in found] == WORDS
    audio, segments = phonechain.read_audio(samples.AUDIO), phonechain.read_segments(samples.SEGMENTS)
    for word in found:
        inside = range(word["first"], word["last"] + 1)
        known = [Segment(s.start, s.end, answer["segments"][n]["label"] if n in inside else None)
                 for n, s in enumerate(segments)]  # fmt: skip
        expected = labeler.label_sequence(audio, known, n_best=1).given
        assert word["confidence"] == pytest.approx(math.exp(expected or 0.0), rel=1e-3)
        assert word["confidence"] <= min(answer["segments"][n]["posterior"] for n in inside) + 1e-6


def test_hidden_states_are_distributions_given_the_label(answer: dict[str, Any], labeler: PhoneLabeler) -> None:
    assert len(answer["hidden"]) == 23
    settings = labeler.model_.settings
    factor = (settings.experts or (settings,))[0].factors[0]  # experts answer in turn
    for factors in answer["hidden"]:
        [layer] = factors[0]
        states = np.asarray(layer)
        assert states.shape == (factor.products, factor.states)
        np.testing.assert_allclose(states.sum(1), 1, atol=1e-3)
    assert answer["hidden"][0] != answer["hidden"][1]


def test_words_and_hidden_states_are_those_of_the_library(answer: dict[str, Any], labeler: PhoneLabeler) -> None:
    audio, segments = phonechain.read_audio(samples.AUDIO), phonechain.read_segments(samples.SEGMENTS)
    words = [Segment(w["start"], w["end"], w["label"]) for w in answer["words"]]
    found = labeler.word_confidences(audio, segments, [*words, Segment(1.9, 2.0, "silence")])
    assert found[-1] is None
    assert found[:-1] == pytest.approx([w["confidence"] for w in answer["words"]], rel=1e-3)
    hidden = labeler.hidden_states(audio, segments)
    assert len(hidden) == len(answer["hidden"][0])
    for n, rows in enumerate(answer["hidden"]):
        for layers, own in zip(rows, hidden, strict=True):
            for layer, table in zip(layers, own, strict=True):
                np.testing.assert_allclose(layer, table[n], atol=1e-3)


def test_given_labels_of_a_sequence_may_be_spelled_otherwise(labeler: PhoneLabeler) -> None:
    audio, segments = phonechain.read_audio(samples.AUDIO), phonechain.read_segments(samples.SEGMENTS)
    plain = labeler.label_sequence(audio, segments, n_best=1).given
    lower = [Segment(s.start, s.end, (s.label or "").lower()) for s in segments]
    assert plain is not None
    assert labeler.label_sequence(audio, lower, n_best=1).given == plain
    noise = [Segment(s.start, s.end, "spn" if n > 2 else s.label) for n, s in enumerate(segments)]
    first = [Segment(s.start, s.end, None if n > 2 else s.label) for n, s in enumerate(segments)]
    some = labeler.label_sequence(audio, noise, n_best=1).given
    assert some == labeler.label_sequence(audio, first, n_best=1).given != plain


def test_nothing_of_it_is_there_unless_it_is_asked_for(client: Client) -> None:
    assert not {"sequences", "words", "hidden"} & set(client.classify().json())
    some = client.classify(words="true").json()
    assert "words" in some
    assert "sequences" not in some
    assert "entropy" not in some["segments"][0]


def test_chains_that_break_and_skipped_segments_keep_their_places(client: Client) -> None:
    rows = [(0.0, 0.08, "IH"), (0.08, 0.14, "N"), (0.2, 0.2, "B"), (0.5, 0.6, "AH"), (0.6, 0.7, "M"), (0.7, 0.8, "P")]
    options: dict[str, Any] = {"gaps": "break", "on_bad_segment": "skip", "sequences": "2", "hidden": "true"}
    found = client.classify(segments=lab(*rows), **options).json()
    assert [(s["first"], s["last"]) for s in found["sequences"]] == [(0, 1), (3, 5)]
    assert [len(one["labels"]) for s in found["sequences"] for one in s["n_best"]] == [2, 2, 3, 3]
    assert [row is None for row in found["hidden"]] == [False, False, True, False, False, False]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"sequences": "2", "format": "textgrid"}, "expected json with sequences"),
        ({"words": "true", "hidden": "true", "format": "eaf"}, "expected json with words and hidden"),
        ({"sequences": "-1"}, "sequences"),
    ],
)
def test_wrong_options_are_refused(client: Client, options: dict[str, Any], says: str) -> None:
    response = client.classify(**options)
    assert response.status_code == 422
    assert says in response.text


def test_limits(serve: Callable[..., Any], client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    with serve(max_n_best=3) as small:
        assert "expected at most 3 sequences" in small.classify(sequences="4").text
    monkeypatch.setattr(sequences, "MOST_PLACES", 40)
    assert client.classify(sequences="1").status_code == 200
    refused = client.classify(sequences="2")
    assert refused.status_code in (413, 422)
    assert "expected at most 20 segments with 2 sequences, got 23" in refused.text
    monkeypatch.setattr(sequences, "MOST_SEGMENTS", 22)
    assert "with the confidence of words" in client.classify(words="true").text
    assert client.classify(hidden="true").status_code == 200


def test_words_without_a_tier_of_words_are_refused(client: Client) -> None:
    refused = client.classify(segments=lab((0.0, 0.08, "IH"), (0.08, 0.14, "N")), words="true")
    assert refused.status_code == 422
    assert "expected a tier of words beside" in refused.text


def test_the_tier_of_words_is_that_of_the_same_speaker() -> None:
    def tier(name: str, *labels: str) -> Tier:
        return Tier(name, "interval", [Segment(0.3 * n, 0.3 * (n + 1), label) for n, label in enumerate(labels)])

    phones = tier("B - phones", "AH", "B")
    both = Annotation([tier("A - words", "one"), tier("A - phones", "AH"), tier("B - words", "two"), phones], "json")
    assert (find_word_tier(both, phones) or phones).name == "B - words"
    unnamed = Annotation([phones, tier("x", "being", "comparatively", "modern")], "json")
    assert (find_word_tier(unnamed, phones) or phones).name == "x"
    assert find_word_tier(Annotation([phones, tier("tones", "H", "L", "H")], "json"), phones) is None


def test_the_command_line_answers_the_same(
    answer: dict[str, Any], capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    files = [str(samples.AUDIO), str(samples.SEGMENTS)]
    assert main(["label", *files, "--sequences", "3", "--words", "--hidden", "--format", "json"]) == 0
    found = json.loads(capfd.readouterr().out)
    for member in ("sequences", "words", "hidden", "segments"):
        assert found[member] == answer[member], member
    assert main(["label", *files, "--sequences", "2", "--words"]) == 0
    printed = capfd.readouterr().out
    assert "Segments 1 to 23 as a sequence: probability of the answer" in printed
    assert "comparatively" in printed
    for wrong, says in (
        (["--hidden"], "--format: expected json"),
        (["--words", "--format", "htk"], "--format: expected json or table"),
    ):
        assert main(["label", *files, *wrong]) == 2
        assert says in capfd.readouterr().err
    folder = tmp_path / "in"
    folder.mkdir()
    assert main(["label", str(folder), "--sequences", "2", "--out", str(tmp_path / "x")]) == 2
    assert "a folder's answers need --format json and --out DIR" in capfd.readouterr().err


def test_all_speakers_have_their_own(capfd: pytest.CaptureFixture[str]) -> None:
    shared = [str(samples.AUDIO), str(samples.SEGMENTS), "--all-speakers", "--words", "--format", "json"]
    assert main(["label", *shared]) == 0
    [tier] = json.loads(capfd.readouterr().out)["tiers"]
    assert [w["label"] for w in tier["words"]] == [w[0] for w in WORDS]


TWO = b"""File type = "ooTextFile"
Object class = "TextGrid"

0
1.8
<exists>
3
"IntervalTier"
"A - phones"
0
1.8
3
0
0.08
"IH"
0.08
0.14
"N"
0.14
1.8
""
"IntervalTier"
"B - phones"
0
1.8
3
0
1.0
""
1.0
1.1
"R"
1.1
1.2
"AH"
"IntervalTier"
"B - words"
0
1.8
2
0
1.0
""
1.0
1.2
"ra"
"""


def test_all_speakers_of_a_recording_are_answered_in_one_request(client: Client, labeler: PhoneLabeler) -> None:
    response = client.classify(segments=TWO, all_speakers="true", words="true", sequences="2")
    assert response.status_code == 422  # A has no words
    found = client.classify(segments=TWO, all_speakers="true", sequences="2").json()
    assert [tier["tier"] for tier in found["tiers"]] == ["A - phones", "B - phones"]
    single = client.classify(segments=TWO, tier="B - phones", sequences="2").json()
    second = found["tiers"][1]
    assert [s["label"] for s in second["segments"]] == [s["label"] for s in single["segments"]]
    for one, other in zip(second["segments"], single["segments"], strict=True):
        assert one["posterior"] == pytest.approx(other["posterior"], abs=1e-5)
    assert [c["n_best"][0]["labels"] for c in second["sequences"]] == [
        c["n_best"][0]["labels"] for c in single["sequences"]
    ]
    written = client.classify(segments=TWO, all_speakers="true", format="textgrid")
    assert b"A - phones phonechain" in written.content
    assert b"B - phones phonechain" in written.content
    assert "x-phonechain-model" in written.headers


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"tier": "B - phones"}, "expected all_speakers or a tier, got both"),
        ({"format": "htk"}, "expected a format with room for 2 tiers"),
    ],
)
def test_what_all_speakers_cannot_be_asked_with(client: Client, options: dict[str, Any], says: str) -> None:
    refused = client.classify(segments=TWO, all_speakers="true", **options)
    assert refused.status_code == 422
    assert says in refused.text
