"""`phonechain align`, `phonechain recognize`, `POST /align` and `POST /recognize` on the sample."""

import base64
import csv
import json
import re
import shutil
from typing import Any

import pytest

from phonechain.app import samples
from phonechain.app.alignment import pipeline
from phonechain.app.cli import align, aligners, main
from phonechain.features import annotation as notation
from phonechain.model import ALIGNMENT, pretrained_path
from phonechain.model.segmental.aligner import PhoneAligner
from phonechain.model.segmental.answers import AlignedPhone, Alignment, Unmatched
from tests.app.conftest import Client

TEXT = "In being comparatively modern."


def run(capsys, *arguments: object) -> tuple[int, str, str]:
    code = main([str(a) for a in arguments])
    out = capsys.readouterr()
    return code, out.out, out.err


def test_a_transcript_gives_words_and_phones_with_certainties(capsys, tmp_path):
    code, out, err = run(
        capsys, "align", samples.AUDIO, "--text", TEXT, "--format", "json", "--table", tmp_path / "t.csv"
    )
    assert code == 0, err
    answer = json.loads(out)
    assert [w["written"] for w in answer["words"]] == ["In", "being", "comparatively", "modern"]
    assert answer["input"] == "words"
    assert answer["unmatched"] == []
    assert all(
        {"start", "end", "label", "start_interval", "within_20_ms", "posterior"} <= set(s) for s in answer["segments"]
    )
    rows = (tmp_path / "t.csv").read_text().splitlines()
    assert rows[0].startswith("file,segment,start,end,label,word,within_20_ms")
    assert len(rows) == len(answer["segments"]) + 1


def test_the_table_ends_with_the_transcripts_posterior(capsys):
    code, right, err = run(capsys, "align", samples.AUDIO, "--text", TEXT)
    assert code == 0, err
    _, wrong, _ = run(capsys, "align", samples.AUDIO, "--text", "she sold seashells")
    pattern = (
        r"log posterior of the transcript: -\d+\.\d nats \((-\d+\.\d\d) per phone\); "
        r"fits worst at '\w+', \d\.\d\d to \d\.\d\d s\n$"
    )
    one, other = (float(re.search(pattern, out)[1]) for out in (right, wrong))  # type: ignore[index]
    assert other < one - 2 < one < 0


def test_every_annotation_format_comes_out():
    aligner = align.load_aligner("default")
    sound = pipeline.read_audio(samples.AUDIO, aligner)
    done = pipeline.align(aligner, sound, TEXT, align.load_pronouncer(None, "en", phones=False))
    for form, known in notation.FORMATS.items():
        data = pipeline.render(done, form, duration=sound.duration, rate=22050, recording="u.flac")
        read = notation.read(data, name=f"u{known.suffixes[0]}", rate=22050)
        tiers = {t.name: [s.label for s in t.entries] for t in read.tiers}
        phones = next(labels for labels in tiers.values() if "NG" in labels)
        assert [y for y in phones if y and y != "SIL"] == [p.label for p in done.alignment.phones if p.label != "SIL"]
        if form.startswith("textgrid") or form == "eaf":
            assert [y for y in tiers["words"] if y] == ["In", "being", "comparatively", "modern"]


def test_tiers_that_were_there_are_kept(capsys, tmp_path):
    out = tmp_path / "x.TextGrid"
    code, _, err = run(capsys, "align", samples.AUDIO, samples.SEGMENTS, "--refine", "-o", out)
    assert code == 0, err
    before = notation.read(samples.SEGMENTS.read_bytes(), name=samples.SEGMENTS.name)
    after = notation.read(out.read_bytes(), name=out.name)
    assert [t.name for t in after.tiers][: len(before.tiers)] == [t.name for t in before.tiers]
    for one, other in zip(before.tiers, after.tiers, strict=False):
        assert [s.label for s in one.entries if s.label] == [s.label for s in other.entries if s.label]
    assert [t.name for t in after.tiers][-5:] == [
        "phones phonechain",
        "phones phonechain posterior",
        "phones phonechain certainty",
        "phones phonechain interval",
        "transcript posterior",
    ]


def test_the_place_that_fits_worst_is_the_same_everywhere(capsys, tmp_path):
    """In the middle a word that nobody says: in JSON, in the tiers, in the table, in the warning."""
    text, out, table = "In being seashells comparatively modern", tmp_path / "x.TextGrid", tmp_path / "t.csv"
    code, shown, err = run(capsys, "align", samples.AUDIO, "--text", text, "-f", "json")
    assert code == 0, err
    answer = json.loads(shown)
    worst = answer["transcript"]["worst"]
    assert worst["text"] == "seashells"
    own = [answer["segments"][n] for n in worst["segments"]]
    assert {s["word"] for s in own} == {2}
    assert (own[0]["start"], own[-1]["end"]) == (worst["start"], worst["end"])
    assert worst["posterior"] == pytest.approx(sum(s["posterior"] for s in own) / len(own), rel=1e-4)
    code, _, err = run(capsys, "align", samples.AUDIO, "--text", text, "-o", out, "--table", table)
    assert code == 0, err
    tiers = {t.name: t.entries for t in notation.read(out.read_bytes(), name=out.name).tiers}
    [fit] = [s.label for s in tiers["transcript posterior"] if s.label]
    where = f"{worst['start']:.2f} to {worst['end']:.2f} s"
    each = answer["transcript"]["log_posterior_per_phone"]
    assert (
        fit
        == f"{answer['transcript']['log_posterior']:.1f} nats ({each:.2f} per phone); fits worst at 'seashells', {where}"
    )
    intervals = [tuple(float(t) for t in str(s.label).split()) for s in tiers["phones interval"] if s.label]
    assert intervals == [tuple(s["start_interval"]) for s in answer["segments"]]
    rows = list(csv.DictReader(table.open()))
    assert sorted(int(r["segment"]) for r in rows if r["fits_worst"] == "yes") == worst["segments"]
    assert {float(r["log_posterior"]) for r in rows} == {answer["transcript"]["log_posterior"]}
    code, _, err = run(capsys, "align", samples.AUDIO, "--text", "she sold seashells by the seashore")
    assert re.search(r"does not match the transcript .*; it fits worst at word '\w+' at \d", err)


def test_what_does_not_match_has_a_tier():
    phone = AlignedPhone("AA", 0.0, 1.0, 0.0, 0.0, 1.0, 0.5)
    lost = (Unmatched(1.0, 2.0, ""), Unmatched(2.0, 2.0, "nowhere"), Unmatched(2.0, 3.0, "heard as something else"))
    done = pipeline.AlignedRecording(Alignment((phone,), (), 3.0, -1.0, "SIL", unmatched=lost), "phones")
    [tier] = [t for t in pipeline.to_annotation(done, 3.0).tiers if t.name == "unmatched"]
    assert [(s.start, s.end, s.label) for s in tier.entries] == [
        (1.0, 2.0, pipeline.NOT_IN_TRANSCRIPT),
        (2.0, 3.0, "heard as something else"),
    ]


def test_processes_change_nothing(capsys, tmp_path, monkeypatch):
    """A folder by one process and by several: the same files, the same table, the same messages in the same order."""
    root = tmp_path / "in"
    root.mkdir()
    for text in sorted((samples.FOLDER / "transcripts").glob("*.txt")):
        shutil.copy(text, root)
        shutil.copy(samples.FOLDER / "reader" / f"{text.stem}.ogg", root)
    (root / "broken.txt").write_text(TEXT)
    (root / "broken.wav").write_bytes(b"RIFF no sound")
    (root / "LJ001-0005.txt").write_text("in привет being")
    found = []
    for many in (2, 1000):
        monkeypatch.setattr(aligners, "MANY", many)
        monkeypatch.setattr("phonechain.app.settings.cores", lambda: 2)
        out, table = tmp_path / f"out{many}", tmp_path / f"{many}.csv"
        code, shown, err = run(capsys, "align", root, "-o", out, "--doubtful", "4", "--table", table)
        assert code == 1
        files = {p.name: p.read_bytes() for p in out.iterdir()}
        found.append((files, table.read_bytes(), shown, err.replace(str(table), "").replace(str(out), "")))
    assert found[0] == found[1]
    assert len(found[0][0]) == 6
    failures = [line for line in found[0][3].splitlines() if line.startswith("failed ")]
    assert ["LJ001-0005" in failures[0], "broken" in failures[1], len(failures)] == [True, True, 2]


def test_a_folder_with_its_transcripts(capsys, tmp_path):
    root, out = tmp_path / "in", tmp_path / "out"
    for name in ("a", "b", "c", "d"):
        (root / name).mkdir(parents=True)
        shutil.copy(samples.AUDIO, root / name / "u.flac")
    (root / "a" / "u.txt").write_text(TEXT)
    (root / "b" / "u.lab").write_text("in being zqxv modern")
    (root / "b" / "broken.wav").write_bytes(b"RIFF no sound")
    (root / "b" / "broken.txt").write_text(TEXT)
    (root / "d" / "u.txt").write_text("she sold sea shells")
    code, shown, err = run(
        capsys, "align", root, "-o", out, "--doubtful", "3", "--oov", "refuse", "--table", tmp_path / "t.csv"
    )
    assert code == 1
    assert "failed" in err
    assert "1 word of the transcript is not in CMUdict: zqxv; give a dictionary that has it" in err
    assert "left out" in err
    assert "this audio file has no annotation beside it" in err
    [broken] = [line for line in err.splitlines() if "broken" in line]
    assert broken.startswith("failed ")
    assert "broken.wav" in broken
    assert "2 files could not be used" in err
    rows = list(csv.DictReader((tmp_path / "t.csv").open()))
    assert {row["file"] for row in rows} == {"a/u.flac", "d/u.flac"}
    assert [float(r["within_20_ms"]) for r in rows] == sorted(float(r["within_20_ms"]) for r in rows)
    assert "the sound does not match the transcript" in err
    assert "aligned" in err
    assert "of 2 recordings" in err
    assert "Least certain boundaries" in shown
    assert sorted(p.relative_to(out).as_posix() for p in out.rglob("*.TextGrid")) == ["a/u.TextGrid", "d/u.TextGrid"]


def test_ones_own_dictionary_and_phones(capsys, tmp_path):
    mine = tmp_path / "mine.dict"
    mine.write_text("in IH N\nwordy B IY IH NG\ncomparatively K AH M P EH R AH T IH V L IY\nmodern M AA D ER N\n")
    code, out, err = run(
        capsys, "align", samples.AUDIO, "--text", "in wordy comparatively modern", "-d", mine, "-f", "json"
    )
    assert code == 0, err
    assert json.loads(out)["words"][1]["pronunciation"] == ["B", "IY", "IH", "NG"]
    phones = "IH N B IY IH NG K AH M P EH R AH T IH V L IY M AA D ER N"
    code, out, err = run(capsys, "align", samples.AUDIO, "--text", phones, "--phones", "-f", "json")
    assert code == 0, err
    assert [s["label"] for s in json.loads(out)["segments"] if s["label"] != "SIL"] == phones.split()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--text", "in zqxv being kzkz", "--oov", "refuse"],
            "2 words of the transcript are not in CMUdict: zqxv, kzkz; give a dictionary that has them",
        ),
        (
            ["--text", "in привет being 読書"],
            "2 words of the transcript are not in CMUdict: привет, 読書; they cannot be guessed",
        ),
        (
            ["--text", "привет как дела"],
            "3 words of the transcript are not in CMUdict: привет, как, дела; they are written in Cyrillic letters, and CMUdict "
            "is English",
        ),
        (["--text", "in", "--oov", "perhaps"], "--oov: expected guess or refuse"),
        (["--text", "ja", "-d", "none.dict"], "expected a dictionary file, got none.dict: No such file"),
        (["--text", " ... "], "expected words in the transcript, got none"),
        (["--text", "comparatively " * 30], "the transcript is too long for the sound"),
        (["--text", "AA XX", "--phones"], "expected phones that the model knows"),
        ([], "expected a TRANSCRIPT file or --text"),
        (["--text", "ja", "--language", "de"], "expected --dictionary or --phones with it"),
        (["--text", "in", "--refine"], "expected an annotation with boundaries to refine"),
        (["--text", "in", "-m", "nothing.safetensors"], "nothing.safetensors does not exist"),
    ],
)
def test_wrong_input_is_one_line(capsys, arguments, message):
    code, out, err = run(capsys, "align", samples.AUDIO, *arguments)
    assert code == 2
    assert out == ""
    assert message in err
    assert err.count("\n") == 1


def test_a_language_that_does_not_fit_is_one_line(capsys, tmp_path):
    own = PhoneAligner.load(pretrained_path(ALIGNMENT))
    own.labels_ = [y if y == "SIL" else f"ru_{y}" for y in own.labels_]
    own.save(tmp_path / "ru.safetensors")
    code, _, err = run(capsys, "align", samples.AUDIO, "--text", TEXT, "-m", tmp_path / "ru.safetensors")
    assert code == 2
    [line] = err.splitlines()
    assert line.startswith(
        "phonechain: the pronunciations of CMUdict are not of this model's language or phone set: expected"
    )
    code, _, err = run(capsys, "align", samples.AUDIO, "--text", "she sold sea shells by the sea shore")
    assert err.splitlines()[-1].endswith("; expected what is said there, in the model's language")


def test_words_that_the_dictionary_lacks_are_guessed_and_marked(capsys):
    code, out, err = run(capsys, "align", samples.AUDIO, "--text", "in beeing comparatively modernn", "-f", "json")
    assert code == 0, err
    assert (
        "2 words are not in the dictionary, and their pronunciations were guessed from the letters: beeing, modernn"
        in err
    )
    words = json.loads(out)["words"]
    assert [w["guessed"] for w in words] == [False, True, False, True]
    assert words[1]["pronunciation"] == ["B", "IY", "IH", "NG"]
    code, out, err = run(capsys, "align", samples.AUDIO, "--text", "in beeing comparatively modernn", "-f", "textgrid")
    assert code == 0, err
    tiers = {
        t.name: [s.label for s in t.entries if s.label] for t in notation.read(out.encode(), name="u.TextGrid").tiers
    }
    assert tiers["words"] == ["In".lower(), "beeing", "comparatively", "modernn"]
    assert tiers["words guessed"] == ["beeing", "modernn"]


def test_a_transcript_that_is_too_short_is_told(capsys):
    code, out, err = run(capsys, "align", samples.AUDIO, "--text", "modern", "-f", "json")
    assert code == 0, err
    [notice] = [w for w in json.loads(out)["warnings"] if w["code"] == "transcript-short"]
    assert "is not in the transcript" in notice["message"]


def test_recognition(capsys):
    code, out, err = run(capsys, "recognize", samples.AUDIO, "-f", "json")
    assert code == 0, err
    assert len(json.loads(out)["segments"]) > 10


def test_the_card_of_the_model(capsys):
    code, out, err = run(capsys, "models", "english-alignment", "--json")
    assert code == 0, err
    card = json.loads(out)
    assert card["name"] == "english-alignment"
    assert card["parameters"] == 317_312
    assert card["limits"]


# ---------------------------------------------------------------------------------------------------------- HTTP


def test_align_over_http(client: Client):
    audio = samples.AUDIO.read_bytes()
    form = client.post("/align", files={"audio": audio}, data={"text": TEXT})
    assert form.status_code == 200, form.text
    assert [w["word"] for w in form.json()["words"]] == ["in", "being", "comparatively", "modern"]
    body = {"audio": base64.b64encode(audio).decode(), "text": TEXT}
    assert client.post("/align", json=body).json()["segments"] == form.json()["segments"]
    file = client.post("/align?format=textgrid", files={"audio": audio, "transcript": ("t.txt", TEXT.encode())})
    assert file.status_code == 200
    assert {"words", "phones"} <= {t.name for t in notation.read(file.content).tiers}
    moved = client.post(
        "/align",
        files={"audio": audio, "transcript": ("s.TextGrid", samples.SEGMENTS.read_bytes())},
        data={"refine": "true"},
    )
    assert moved.json()["input"] == "refine"
    assert "given_start" in moved.json()["segments"][1]


def test_recognize_over_http(client: Client):
    answer = client.post("/recognize", files={"audio": samples.AUDIO.read_bytes()})
    assert answer.status_code == 200, answer.text
    assert len(answer.json()["segments"]) > 10


@pytest.mark.parametrize(
    ("fields", "status", "slug"),
    [
        ({"text": "zqxv", "oov": "refuse"}, 422, "transcript"),
        ({"text": "привет"}, 422, "transcript"),
        ({"text": " ... "}, 422, "transcript"),
        ({"text": "comparatively " * 30}, 422, "transcript"),
        ({"text": "in", "oov": "perhaps"}, 422, "request-invalid"),
        ({"text": "ja", "language": "de", "oov": "guess"}, 422, "settings"),
        ({"text": "in", "dictionary": "in\n"}, 422, "annotation-syntax"),
        ({"text": "in", "language": "de"}, 422, "settings"),
        ({}, 422, "request-invalid"),
        ({"text": "in", "spread": "-1"}, 422, "request-invalid"),
        ({"text": "in", "colour": "red"}, 422, "request-invalid"),
        ({"text": "AA QQ", "phones": "true"}, 422, "phone-set"),
    ],
)
def test_problems_over_http(client: Client, fields, status, slug):
    answer = client.post("/align", files={"audio": samples.AUDIO.read_bytes()}, data=fields)
    assert answer.status_code == status, answer.text
    assert answer.json()["type"].endswith(slug)


def test_missing_words_are_all_named_over_http(client: Client):
    data = {"text": "zqxv being kzkz", "oov": "refuse"}
    answer = client.post("/align", files={"audio": samples.AUDIO.read_bytes()}, data=data)
    assert answer.json()["missing"] == ["zqxv", "kzkz"]


def test_an_error_names_the_part_that_it_is_in(client: Client):
    audio = {"audio": samples.AUDIO.read_bytes()}
    answer = client.post("/align", files=audio, data={"text": "in", "dictionary": "in\n"})
    assert (answer.json()["pointer"], answer.json()["line"]) == ("#/dictionary", 1)
    transcript = {"transcript": ("a.TextGrid", b"in being comparatively modern.")}
    answer = client.post("/align", files=audio | transcript)
    assert answer.json()["type"].endswith("annotation-syntax")
    assert answer.json()["pointer"] == "#/transcript"
    answer = client.post("/align", files=audio | {"transcript": ("a.txt", b"\xff\xfe\x00")})
    assert (answer.status_code, answer.json()["pointer"]) == (422, "#/transcript")


def test_an_alignment_model_of_ones_own_over_http(serve, tmp_path):
    own = PhoneAligner.load(pretrained_path(ALIGNMENT))
    own.temperature_ = 3.0
    own.save(tmp_path / "own.safetensors")
    body = {"files": {"audio": samples.AUDIO.read_bytes()}, "data": {"text": TEXT}}
    with serve(data=tmp_path / "data", workers=0) as client:
        for name, path in (("own", tmp_path / "own.safetensors"), ("labels", pretrained_path())):
            kind = {"content-type": "application/octet-stream"}
            stored = client.post(f"/models?name={name}", content=path.read_bytes(), headers=kind)
            assert stored.status_code == 201, stored.text
        [shipped, other] = [client.post(f"/align?model={m}", **body).json() for m in ("default", "own")]
        assert (shipped["model"]["name"], other["model"]["name"]) == ("english-alignment", "own")
        assert other["model"]["version"] == own.version_

        def certainty(answer: dict[str, Any]) -> float:
            return sum(s["within_20_ms"] for s in answer["segments"]) / len(answer["segments"])

        assert certainty(other) < certainty(shipped)
        heard = client.post("/recognize?model=own", files=body["files"])
        assert heard.json()["model"] == other["model"]
        refused = client.post("/align?model=labels", **body)
        assert refused.status_code == 422
        assert "expected an alignment model, got labels@" in refused.json()["detail"]
        assert client.post("/align?model=nothing", **body).status_code == 404
        given = {"audio": samples.AUDIO.read_bytes(), "segments": samples.SEGMENTS.read_bytes()}
        refused = client.post("/classify?model=own", files=given)
        assert refused.status_code == 422
        assert f"expected a model that labels given segments, got own@{own.version_}, which" in refused.json()["detail"]
        refused = client.request("PUT", "/aliases/default", json={"model": "own"})
        assert refused.status_code == 422, "requests that label would all be refused"
        assert client.request("PUT", "/aliases/mine", json={"model": "own"}).status_code == 200
        assert client.post("/align?model=mine", **body).json()["model"] == other["model"]
        listed = client.get("/models?kind=alignment").json()["models"]
        assert [(m["name"], m["kind"]) for m in listed] == [("english-alignment", "alignment"), ("own", "alignment")]


def test_segments_that_were_found_are_labelled(client: Client, capsys, tmp_path):
    """The same by REST and by command, in JSON, tiers and the table; as if the segments had been given to /classify."""
    sound = {"audio": samples.AUDIO.read_bytes()}
    answer = client.post("/align", files=sound, data={"text": TEXT, "label_with": "default"}).json()
    spans = [{"start": s["start"], "end": s["end"], "label": s["label"]} for s in answer["segments"]]
    given = {**sound, "segments": ("s.json", json.dumps(spans).encode())}
    plain = client.post("/classify?n_best=5", files=given).json()
    assert answer["labelling_model"] == plain["model"]
    for one, other in zip(answer["segments"], plain["segments"], strict=True):
        assert one["labelled"]["label"] == other["label"]
        for member in ("posterior", "given_posterior"):
            assert one["labelled"][member] == pytest.approx(other[member], abs=1e-4)
        assert [n["label"] for n in one["labelled"]["n_best"]] == [n["label"] for n in other["n_best"]]
    out, table = tmp_path / "x.TextGrid", tmp_path / "t.csv"
    code, _, err = run(
        capsys, "align", samples.AUDIO, "--text", TEXT, "--label-with", "default", "-o", out, "--table", table
    )
    assert code == 0, err
    tiers = {t.name: [s.label for s in t.entries] for t in notation.read(out.read_bytes(), name=out.name).tiers}
    labels = [s["labelled"]["label"] for s in answer["segments"]]
    assert tiers["phones labelled"] == labels
    rows = sorted(csv.DictReader(table.open()), key=lambda row: int(row["segment"]))
    assert [row["labelled"] for row in rows] == labels
    assert [f"{float(row['labelled_posterior']):.4f}" for row in rows] == tiers["phones labelled posterior"]
    heard = client.post("/recognize", files=sound, data={"label_with": "default"}).json()
    assert all(s["labelled"]["n_best"] for s in heard["segments"])
    for name, status in {"english-alignment": 422, "nothing": 404}.items():
        refused = client.post("/align", files=sound, data={"text": TEXT, "label_with": name})
        assert (refused.status_code, refused.json()["pointer"]) == (status, "#/label_with")
