"""Given labels that are spelled otherwise than the model's: what every way in says of them."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from phonechain.app import samples
from phonechain.app.cli import main
from phonechain.features import annotation as notation
from phonechain.features.phones import sets
from phonechain.features.segments import Segment
from phonechain.model.labeler import PhoneLabeler
from tests.app.conftest import AUDIO, TEXTGRID, Client, lab

PHONES = [
    (s.start, s.end, str(s.label))
    for s in notation.tier_segments(notation.choose_tier(notation.read(TEXTGRID), "phones")[0])
]
WORDS = notation.tier_segments(notation.choose_tier(notation.read(TEXTGRID), "words")[0])


def respell(**labels: str) -> list[tuple[float, float, str]]:
    return [(start, end, labels.get(label, label)) for start, end, label in PHONES]


def stressed() -> list[tuple[float, float, str]]:
    return [(a, b, label + "1" if label[0] in "AEIOU" else label) for a, b, label in PHONES]


def about_given(answer: dict[str, Any]) -> list[tuple[float | None, int | None]]:
    return [(s["given_posterior"], s["given_rank"]) for s in answer["segments"]]


def classify(client: Client, segments: list[tuple[float, float, str]], **options: str) -> dict[str, Any]:
    files = {"audio": AUDIO, "segments": ("a.lab", lab(*segments))}
    answer = client.post("/classify", files=files, data=options)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.fixture(scope="module")
def usual(client: Client) -> dict[str, Any]:
    return classify(client, PHONES)


@pytest.mark.parametrize(
    ("spell", "steps"),
    [
        (lambda label: label + "0" if label[0] in "AEIOU" else label, ["stress"]),
        (lambda label: (label + "1" if label[0] in "AEIOU" else label) + "_I", ["position", "stress"]),
        (str.lower, ["case"]),
        (lambda label: sets.fold(label, "arpabet", "ipa"), ["ipa to arpabet"]),
    ],
)
def test_a_spelling_changes_no_figure(client: Client, usual: dict[str, Any], spell: Any, steps: list[str]) -> None:
    given = [(a, b, spell(label)) for a, b, label in PHONES]
    answer = classify(client, given)
    assert about_given(answer) == about_given(usual)
    assert all(rank is not None for _, rank in about_given(answer))
    assert [s["given"] for s in answer["segments"]] == [label for _, _, label in given]
    assert answer["folding"] == {"steps": steps, "known": len(PHONES), "unknown": {}, "unscored": {}}
    for segment, (_, _, label) in zip(answer["segments"], PHONES, strict=True):
        assert segment.get("compared_as", segment["given"]) == label
    assert "labels-folded" in [w["code"] for w in answer["warnings"]]


def test_as_they_stand_nothing_is_said(usual: dict[str, Any]) -> None:
    assert usual["folding"] == {"steps": [], "known": len(PHONES), "unknown": {}, "unscored": {}}
    assert not [s for s in usual["segments"] if "compared_as" in s]
    assert not [w for w in usual["warnings"] if w["code"].startswith("labels")]


def test_no_labels_no_folding(client: Client) -> None:
    segments = [{"start": a, "end": b} for a, b, _ in PHONES]
    files = {"audio": AUDIO, "segments": ("a.json", json.dumps(segments).encode())}
    assert "folding" not in client.post("/classify", files=files).json()


def test_unknown_labels_are_counted_with_a_notice(client: Client, usual: dict[str, Any]) -> None:
    answer = classify(client, respell(N="PT", K="spn"))
    count, noise = (sum(label == name for _, _, label in PHONES) for name in ("N", "K"))
    assert answer["folding"]["unknown"] == {"PT": count}
    assert answer["folding"]["unscored"] == {"spn": noise}
    [notice] = [w for w in answer["warnings"] if w["code"] == "labels-unknown"]
    assert notice["message"] == f"{count} of {len(PHONES)} given labels are unknown to the model: PT"
    for segment, (_, _, label), known in zip(answer["segments"], PHONES, about_given(usual), strict=True):
        got = (segment["given_posterior"], segment["given_rank"])
        assert got == ((None, None) if label in ("N", "K") else known)


@pytest.mark.parametrize("text", ['{"PT": "N"}', "PT\tN\n"])
def test_a_map_by_hand(client: Client, usual: dict[str, Any], text: str) -> None:
    answer = classify(client, respell(N="PT"), map=text)
    assert about_given(answer) == about_given(usual)
    assert {s["compared_as"] for s in answer["segments"] if s["given"] == "PT"} == {"N"}


def test_maps_that_cannot_be_used(client: Client) -> None:
    files = {"audio": AUDIO, "segments": ("a.lab", lab(*PHONES))}
    wrong = client.post("/classify", files=files, data={"map": '{"PT": "ZZ"}'})
    assert (wrong.status_code, wrong.json()["type"]) == (422, "/problems/phone-set")
    assert "expected a label of the model for 'PT'" in wrong.json()["detail"]
    broken = client.post("/classify", files=files, data={"map": "PT"})
    assert broken.status_code == 422
    assert "two tab-separated columns" in broken.text


def test_a_tier_of_words_is_refused_where_there_is_another(client: Client) -> None:
    answer = client.post("/classify?tier=words", files={"audio": AUDIO, "segments": TEXTGRID})
    assert (answer.status_code, answer.json()["type"]) == (422, "/problems/annotation-tier-words")
    assert "'words', which looks like words" in answer.json()["detail"]
    assert answer.json()["tiers"] == ["phones"]


def test_a_tier_of_words_alone_is_labelled_with_a_warning(client: Client) -> None:
    answer = classify(client, [(s.start, s.end, str(s.label)) for s in WORDS])
    [notice] = [w for w in answer["warnings"] if w["code"] == "tier-of-words"]
    assert "looks like words (" in notice["message"]


def test_the_entropy_of_segments_on_request(client: Client, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert "entropy" not in classify(client, PHONES)["segments"][0]
    answer = classify(client, PHONES, entropy="true", n_best="40")
    for segment in answer["segments"]:
        p = np.array([best["posterior"] for best in segment["n_best"]])
        assert segment["entropy"] == pytest.approx(float(-(p * np.log(p)).sum()), abs=1e-4)
    root = corpus(tmp_path / "in", PHONES, "a")
    arguments = ["label", str(root / "a.flac"), str(root / "a.lab"), "--entropy"]
    assert main([*arguments, "--format", "json"]) == 0
    printed = json.loads(capfd.readouterr().out)["segments"]
    assert [s["entropy"] for s in printed] == pytest.approx([s["entropy"] for s in answer["segments"]], abs=1e-4)
    assert main(arguments) == 0
    assert "entropy" in capfd.readouterr().out


def test_scores_of_pronunciation_on_request(client: Client, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert "pronunciation" not in classify(client, PHONES)["segments"][0]
    answer = classify(client, PHONES, pronunciation="true", n_best="2")
    for segment in answer["segments"]:
        scores, best = segment["pronunciation"], segment["n_best"]
        rival = best[1] if segment["given_rank"] == 1 else best[0]
        assert scores["log_posterior"] == pytest.approx(np.log(segment["given_posterior"]), abs=1e-3)
        ratio = np.log(segment["given_posterior"] / rival["posterior"])
        assert scores["log_ratio"] == pytest.approx(ratio, abs=1e-3)
        frames = 100 * (segment["end"] - segment["start"])
        assert scores["goodness"] == pytest.approx(min(0.0, ratio) / frames, abs=1e-3)
    root = corpus(tmp_path / "in", PHONES, "a")
    arguments = ["label", str(root / "a.flac"), str(root / "a.lab"), "--gop"]
    assert main([*arguments, "--format", "json"]) == 0
    printed = json.loads(capfd.readouterr().out)["segments"]
    for one, other in zip(printed, answer["segments"], strict=True):
        assert one["pronunciation"] == pytest.approx(other["pronunciation"], abs=1e-3)
    assert main(arguments) == 0
    assert "GOP" in capfd.readouterr().out


# ---------------------------------------------------------------------------------------------------- all speakers


def two_speakers(folder: Path) -> Path:
    """The sample's phones as those of two speakers, one stressed; words beside them."""
    half = len(PHONES) // 2
    tiers = [
        notation.Tier("A - words", "interval", list(WORDS[:2])),
        notation.Tier("A - phones", "interval", [Segment(*row) for row in stressed()[:half]]),
        notation.Tier("B - words", "interval", list(WORDS[2:])),
        notation.Tier("B - phones", "interval", [Segment(*row) for row in PHONES[half:]]),
    ]
    file = folder / "two.TextGrid"
    file.write_bytes(notation.write(notation.Annotation(tiers, "textgrid", end=1.89), "textgrid"))
    return file


def test_the_tiers_of_all_speakers_in_one_pass(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file, half = two_speakers(tmp_path), len(PHONES) // 2
    arguments = ["label", str(samples.AUDIO), str(file), "--all-speakers"]
    assert main([*arguments, "--format", "json"]) == 0
    tiers = json.loads(capfd.readouterr().out)["tiers"]
    given = [[s["given"] for s in t["segments"] if "given" in s] for t in tiers]  # Praat fills the rest with blanks
    assert [(t["tier"], len(own)) for t, own in zip(tiers, given, strict=True)] == [
        ("A - phones", half),
        ("B - phones", len(PHONES) - half),
    ]
    assert [t["folding"]["steps"] for t in tiers] == [["stress"], ["stress"]]  # one folding for the file
    for name, answer in zip(("A - phones", "B - phones"), tiers, strict=True):
        assert main(["label", str(samples.AUDIO), str(file), "--tier", name, "--format", "json"]) == 0
        alone = json.loads(capfd.readouterr().out)["segments"]
        assert [s["label"] for s in answer["segments"]] == [s["label"] for s in alone]
        assert [s["posterior"] for s in answer["segments"]] == pytest.approx([s["posterior"] for s in alone], abs=1e-4)
    out = tmp_path / "labelled.TextGrid"
    assert main([*arguments, "--out", str(out)]) == 0
    names = [t.name for t in notation.read(out.read_bytes()).tiers]
    assert names[4:] == [
        "A - phones phonechain", "A - phones posterior", "B - phones phonechain", "B - phones posterior",
    ]  # fmt: skip
    capfd.readouterr()
    assert main(arguments) == 0
    printed = capfd.readouterr().out
    assert printed.index("A - phones") < printed.index("B - phones")


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--tier", "A - phones"], "--all-speakers: expected no --tier, got both"),
        (["--format", "htk"], "expected a format with room for 2 tiers"),
    ],
)
def test_all_speakers_cannot_be_had(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], more: list[str], says: str
) -> None:
    assert main(["label", str(samples.AUDIO), str(two_speakers(tmp_path)), "--all-speakers", *more]) == 2
    assert says in capfd.readouterr().err


# ------------------------------------------------------------------------------------------------- the command line


def corpus(root: Path, segments: list[tuple[float, float, str]], *names: str) -> Path:
    root.mkdir()
    for name in names:
        shutil.copy(samples.AUDIO, root / f"{name}.flac")
        (root / f"{name}.lab").write_bytes(lab(*segments))
    return root


def test_label_says_what_labels_are_compared_as(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    root = corpus(tmp_path / "in", stressed(), "a")
    assert main(["label", str(root / "a.flac"), str(root / "a.lab")]) == 0
    printed = capfd.readouterr()
    assert "compared as" in printed.out
    assert "after a folding: without stress (" in printed.err


def test_evaluate_scores_through_the_folding(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    plain = corpus(tmp_path / "plain", PHONES, "a", "b")
    other = corpus(
        tmp_path / "other", [(a, b, "spn" if label == "K" else label) for a, b, label in stressed()], "a", "b"
    )
    noise = 2 * sum(label == "K" for _, _, label in PHONES)
    found = []
    for root in (plain, other):
        assert main(["evaluate", "default", str(root), "--json", "--drop", "K"]) == 0
        found.append(json.loads(capfd.readouterr().out))
    assert found[1]["folding"] == ["stress"]
    assert found[1]["unscored"] == {"spn": noise}
    assert found[0]["segments"] == found[1]["segments"] == 2 * len(PHONES) - noise


def test_evaluate_takes_a_map(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    root = corpus(tmp_path / "in", respell(N="PT"), "a")
    by_hand = tmp_path / "map.tsv"
    by_hand.write_text("PT\tN\n")
    assert main(["evaluate", "default", str(root), "--json", "--map", str(by_hand)]) == 0
    found = json.loads(capfd.readouterr().out)
    assert (found["unknown"], found["segments"]) == ({}, len(PHONES))


def test_the_two_measures_of_doubt_are_ranked_apart(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    root = corpus(tmp_path / "in", respell(N="PT"), "a")
    table = tmp_path / "all.csv"
    assert main(["label", str(root), "--table", str(table), "--doubtful", "2"]) == 0
    rows = list(csv.DictReader(table.open()))
    measures = [row["measure"] for row in rows]
    assert measures == sorted(measures, key=["given", "answer"].index)
    assert {row["given"] for row in rows if row["measure"] == "answer"} == {"PT"}
    for measure in ("given", "answer"):
        own = [float(row["certainty"]) for row in rows if row["measure"] == measure]
        assert own == sorted(own)
    out = capfd.readouterr().out
    assert out.index("Least certain given labels") < out.index("Least certain answers")


def test_check_flags_labels_that_look_alike(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    odd = [*respell()[:-2], (PHONES[-2][0], PHONES[-2][1], "ɡ"), (PHONES[-1][0], PHONES[-1][1], "g")]
    root = corpus(tmp_path / "in", odd, "a")
    main(["check", str(root), "--json"])
    warnings = {w["code"]: w["message"] for w in json.loads(capfd.readouterr().out)["warnings"]}
    assert (
        warnings["labels-alike"]
        == "labels that may be one: g (1) and ɡ [U+0261] (1) differ in characters that look alike"
    )


@pytest.mark.parametrize(
    ("arguments", "shows"),
    [
        ([], ["arpabet-stress", "timit61", "xsampa"]),
        (["timit39"], ["aa", "dx"]),
        (["timit61", "--to", "timit39"], ["ax-h\tah", "q\t-"]),
        (["xsampa"], ["S\tʃ", "r\\\tɹ"]),
    ],
)
def test_phones_shows_sets(arguments: list[str], shows: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["phones", *arguments]) == 0
    out = capfd.readouterr().out
    for text in shows:
        assert text in out
    assert main(["phones", *arguments, "--json"]) == 0
    json.loads(capfd.readouterr().out)


def test_phones_shows_the_folding_of_a_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    root = corpus(tmp_path / "in", [(a, b, "PT" if label == "N" else label) for a, b, label in stressed()], "a")
    for what in (root / "a.lab", root):
        assert main(["phones", str(what), "--json"]) == 0
        found = json.loads(capfd.readouterr().out)
        assert found["steps"] == ["stress"]
        assert list(found["unknown"]) == ["PT"]
        assert found["compared_as"]["IH1"] == "IH"
    assert main(["phones", str(root / "a.lab")]) == 0
    out = capfd.readouterr().out
    assert "folding: without stress" in out
    assert "unknown to the model" in out
    assert main(["phones", "klingon"]) == 2
    assert "expected a phone set (timit61" in capfd.readouterr().err


def test_a_model_file_says_its_phone_set(tmp_path: Path) -> None:
    labeler = PhoneLabeler.load(samples_model())
    assert labeler.card_["phone_set"] == "arpabet"  # inferred: the shipped file says nothing
    labeler.model_.phone_set = "ipa"
    labeler.save(tmp_path / "m.safetensors")
    assert PhoneLabeler.load(tmp_path / "m.safetensors").label_set_.phone_set == "ipa"


def samples_model() -> Path:
    from phonechain.model import pretrained_path

    return pretrained_path("default")


def test_utterances_are_respelled_for_going_on_from_a_model() -> None:
    from phonechain.features.segments import Utterance

    known = PhoneLabeler.load(samples_model()).label_set_
    utterance = Utterance(
        "a", Path("a.wav"), [Segment(n, n + 1, label) for n, label in enumerate(["IH0", "sp", "spn", "XX"])]
    )
    [new] = known.compare(s.label for s in utterance.segments).respell([utterance])
    assert [s.label for s in new.segments] == ["IH", "SIL", None, "XX"]
    assert [s.label for s in utterance.segments] == ["IH0", "sp", "spn", "XX"]
