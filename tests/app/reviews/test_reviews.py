"""Reviews through HTTP: files in, operations, conflicts, undo, and the file back as it came."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile

from phonechain.app import samples
from phonechain.app.labelling import pipeline
from phonechain.app.labelling.conversion import convert
from phonechain.app.models.catalog import Registry
from phonechain.features.annotation import choose_tier, read, tier_segments
from tests.app.conftest import AUDIO, LAB, TEXTGRID, Client


def begin(client: Client, segments: bytes = TEXTGRID, name: str = "a.TextGrid", **options: str) -> str:
    """The id of a review of one file."""
    made = client.post("/reviews", json={"name": "of the test"})
    assert made.status_code == 201, made.text
    id = str(made.json()["id"])
    added = add(client, id, segments, name, **options)
    assert added.status_code == 201, added.text
    return id


def add(
    client: Client, id: str, segments: bytes = TEXTGRID, name: str = "a.TextGrid", **options: str
) -> httpx.Response:
    files = {"audio": ("a.flac", AUDIO), "segments": (name, segments)}
    return client.post(f"/reviews/{id}/files", files=files, data=options)


def operate(client: Client, id: str, revision: int, *operations: dict[str, Any]) -> httpx.Response:
    return client.post(f"/reviews/{id}/operations", json={"revision": revision, "operations": list(operations)})


def rows(client: Client, id: str, number: int = 0) -> list[list[Any]]:
    return list(client.get(f"/reviews/{id}/files/{number}/segments").json()["segments"])


def download(client: Client, id: str, **query: str) -> bytes:
    answer = client.get(f"/reviews/{id}/files/0/annotation", params=query)
    assert answer.status_code == 200, answer.text
    return answer.content


@pytest.fixture
def review(client: Client) -> str:
    return begin(client)


def test_a_file_carries_the_answer_of_classify(client: Client, review: str) -> None:
    shown = client.get(f"/reviews/{review}").json()
    assert [f["name"] for f in shown["files"]] == ["a.flac"]
    file = shown["files"][0]
    assert (file["format"], file["tier"], file["segments"]) == ("textgrid", "phones", len(rows(client, review)))
    answer = client.get(f"/reviews/{review}/files/0/answer").json()
    classified = client.classify(n_best="8").json()["segments"]
    for i, segment in enumerate(classified):
        assert answer["given"][i] == segment.get("given")
        assert answer["given_rank"][i] == segment.get("given_rank")
        best = answer["n_best"][i]
        assert [answer["labels"][k] for k in best[::2]] == [n["label"] for n in segment["n_best"]]
        assert best[1::2] == pytest.approx([n["posterior"] for n in segment["n_best"]], abs=2e-3)
    assert [t["name"] for t in answer["tiers"]] == ["words", "phones"]


def test_given_labels_have_the_support_that_the_model_finds(client: Client, review: str, registry: Registry) -> None:
    """Support, not the posterior: the measure by which the command line ranks given labels."""
    answer = client.get(f"/reviews/{review}/files/0/answer").json()
    labeler = registry.get("default").labeler
    ready = pipeline.prepare_utterance(
        samples.AUDIO, read(TEXTGRID), labeler.features_, recording="a", known=labeler.label_set_
    )
    found = labeler.label_inputs([ready.inputs], segments=[ready.segments], support=True)[0]
    assert answer["given_support"] == pytest.approx([s.given_support for s in found], abs=1e-5)
    assert answer["given_support"] != answer["given_posterior"]


def test_labels_unknown_to_the_model_have_no_support(client: Client) -> None:
    id = begin(client, TEXTGRID.replace(b'"AH"', b'"zz9"'))
    answer = client.get(f"/reviews/{id}/files/0/answer").json()
    unknown = [given == "zz9" for given in answer["given"]]
    assert any(unknown)
    assert [support is None for support in answer["given_support"]] == unknown


def test_the_sound_is_what_was_sent_at_16_khz(client: Client, review: str) -> None:
    whole = client.get(f"/reviews/{review}/files/0/sound")
    samples, rate = soundfile.read(io.BytesIO(whole.content), dtype="int16")
    assert rate == 16000
    assert len(samples) / rate == pytest.approx(1.8995, abs=1e-3)
    part = client.get(f"/reviews/{review}/files/0/sound", headers={"Range": "bytes=44-363"})
    assert part.status_code == 206
    assert np.array_equal(np.frombuffer(part.content, "<i2"), samples[:160])
    peaks = np.frombuffer(client.get(f"/reviews/{review}/files/0/peaks").content, np.int8).reshape(-1, 2)
    assert len(peaks) == -(-len(samples) // 160)
    assert peaks[50, 0] == samples[8000:8160].min() >> 8
    assert int(peaks[50, 1]) * 256 >= samples[8000:8160].max()


def test_operations_change_what_is_downloaded_and_nothing_else(client: Client, review: str) -> None:
    before = rows(client, review)
    assert download(client, review) == TEXTGRID  # to the byte
    assert operate(client, review, 0, {"op": "label", "file": 0, "segment": 1, "label": "NG"}).json()["revision"] == 1
    moved = before[3][2] - 0.005
    done = operate(
        client, review, 1,
        {"op": "move", "file": 0, "segment": 3, "edge": "end", "time": moved},
        {"op": "split", "file": 0, "segment": 5, "time": (before[5][1] + before[5][2]) / 2, "label": "T"},
        {"op": "merge", "file": 0, "segment": 7},
        {"op": "accept", "file": 0, "segment": 9},
    )  # fmt: skip
    assert done.status_code == 200, done.text
    assert done.json()["revision"] == 5
    after = rows(client, review)
    assert len(after) == len(before)  # one more and one less
    assert after[1][3:] == ["NG", True]
    assert after[3][2] == after[4][1] == moved
    assert [after[5][0], after[6][0]] == [5, len(before)]
    assert after[6][3] == "T"
    assert after[8][:3] == [7, before[7][1], before[8][2]]
    out = read(download(client, review))
    assert [(s.start, s.end, s.label) for s in tier_segments(choose_tier(out)[0])] == [tuple(r[1:4]) for r in after]
    assert out.tier("words") == read(TEXTGRID).tier("words")


def test_in_a_textgrid_only_the_tier_under_review_is_written_anew(client: Client, review: str) -> None:
    operate(client, review, 0, {"op": "label", "file": 0, "segment": 1, "label": 'a "quoted" <b>label</b>'})
    out = download(client, review).decode().split("\n")
    source = TEXTGRID.decode().split("\n")
    changed = [(a, b) for a, b in zip(source, out, strict=True) if a != b]
    assert [b.strip() for _, b in changed] == ['text = "a ""quoted"" <b>label</b>"']


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_encoding_and_line_ends_stay(client: Client, encoding: str, end: str) -> None:
    source = TEXTGRID.decode().replace('"in"', '"ïn"').replace("\n", end).encode(encoding)
    id = begin(client, source)
    operate(client, id, 0, {"op": "label", "file": 0, "segment": 0, "label": "ɪ"})
    out = download(client, id)
    old, new = source.decode(encoding).split(end), out.decode(encoding).split(end)
    assert [b.strip() for a, b in zip(old, new, strict=True) if a != b] == ['text = "ɪ"']
    assert out[:2] == source[:2]


def test_a_label_file_comes_back_as_one(client: Client) -> None:
    id = begin(client, LAB, "a.lab")
    operate(client, id, 0, {"op": "label", "file": 0, "segment": 2, "label": "X"})
    old, new = LAB.decode().split("\n"), download(client, id).decode().split("\n")
    assert [line.split()[2] for a, line in zip(old, new, strict=True) if a != line] == ["X"]
    other = read(download(client, id, format="textgrid"))
    assert other.format == "textgrid"


def test_an_elan_file_keeps_what_only_elan_knows(client: Client) -> None:
    source = convert(read(TEXTGRID), "eaf").data.replace(
        b'<HEADER MEDIA_FILE="" TIME_UNITS="milliseconds"/>',
        b'<HEADER MEDIA_FILE="" TIME_UNITS="milliseconds"><PROPERTY NAME="mine">kept</PROPERTY></HEADER>',
    )
    id = begin(client, source, "a.eaf")
    operate(
        client, id, 0, {"op": "label", "file": 0, "segment": 1, "label": "NG"}, {"op": "merge", "file": 0, "segment": 3}
    )
    out = download(client, id)
    assert b'<PROPERTY NAME="mine">kept</PROPERTY>' in out
    back = tier_segments(choose_tier(read(out))[0])
    assert [(s.start, s.end, s.label) for s in back] == [tuple(r[1:4]) for r in rows(client, id)]


def test_undo_and_redo(client: Client, review: str) -> None:
    before = rows(client, review)
    assert operate(client, review, 0, {"op": "undo"}).status_code == 422
    operate(
        client,
        review,
        0,
        {"op": "label", "file": 0, "segment": 1, "label": "NG"},
        {"op": "merge", "file": 0, "segment": 2},
    )
    after = rows(client, review)
    undone = operate(client, review, 2, {"op": "undo"}).json()
    assert (undone["can_undo"], undone["can_redo"]) == (True, True)
    assert operate(client, review, 3, {"op": "undo"}).json()["can_undo"] is False
    assert rows(client, review) == before
    assert download(client, review) == TEXTGRID
    again = operate(client, review, 4, {"op": "redo"}, {"op": "redo"}).json()
    assert (again["revision"], again["can_redo"]) == (6, False)
    assert rows(client, review) == after
    operate(client, review, 6, {"op": "undo"}, {"op": "accept", "file": 0, "segment": 0})
    assert operate(client, review, 8, {"op": "redo"}).status_code == 422  # something else came between


def test_two_windows_do_not_overwrite_each_other(client: Client, review: str) -> None:
    assert operate(client, review, 0, {"op": "label", "file": 0, "segment": 1, "label": "A"}).status_code == 200
    late = operate(client, review, 0, {"op": "label", "file": 0, "segment": 1, "label": "B"})
    assert late.status_code == 409
    assert late.json()["type"] == "/problems/review-conflict"
    assert late.json()["limit"] == 1
    assert rows(client, review)[1][3] == "A"
    missed = client.get(f"/reviews/{review}/operations", params={"after": 0}).json()
    assert [(o["number"], o["kind"], o["after"][0][3]) for o in missed["operations"]] == [(1, "label", "A")]


def test_all_operations_of_a_request_or_none(client: Client, review: str) -> None:
    before = rows(client, review)
    refused = operate(
        client,
        review,
        0,
        {"op": "label", "file": 0, "segment": 1, "label": "A"},
        {"op": "accept", "file": 0, "segment": 9999},
    )
    assert refused.status_code == 422
    assert rows(client, review) == before
    assert client.get(f"/reviews/{review}").json()["revision"] == 0


@pytest.mark.parametrize(
    ("operation", "says"),
    [
        ({"op": "move", "segment": 1, "edge": "end", "time": 1.5}, "can move between"),
        ({"op": "move", "segment": 0, "edge": "start", "time": 0.5}, "can move between"),
        ({"op": "split", "segment": 1, "time": 1.5}, "can be split between"),
        ({"op": "merge", "segment": 22}, "last segment"),
        ({"op": "accept", "segment": 500}, "no segment 500"),
        ({"op": "vanish", "segment": 1}, "label"),
        ({"op": "label", "segment": 1, "label": "x" * 300}, "200"),
        ({"op": "label", "segment": 1}, "label"),
    ],
)
def test_what_cannot_be_done_is_said(client: Client, review: str, operation: dict[str, Any], says: str) -> None:
    last = len(rows(client, review)) - 1
    operation = {**operation, "file": 0, "segment": last if operation["segment"] == 22 else operation["segment"]}
    refused = operate(client, review, 0, operation)
    assert refused.status_code == 422, refused.text
    assert says in refused.json()["detail"]


def test_another_process_reads_the_same_from_the_log(client: Client, review: str, serve: Callable[..., Any]) -> None:
    operate(client, review, 0, {"op": "split", "file": 0, "segment": 1, "time": rows(client, review)[1][1] + 0.02})
    with serve() as other:
        assert rows(other, review) == rows(client, review)
        operate(other, review, 1, {"op": "merge", "file": 0, "segment": 1, "label": "Z"})
        assert rows(client, review) == rows(other, review)
        assert rows(client, review)[1][3] == "Z"


def test_files_of_several_recordings_share_one_log(client: Client, review: str) -> None:
    assert add(client, review, LAB, "b.lab", speaker="s1").json()["number"] == 1
    operate(client, review, 0, {"op": "accept", "file": 1, "segment": 3}, {"op": "accept", "file": 0, "segment": 3})
    operate(client, review, 2, {"op": "undo"}, {"op": "undo"}, {"op": "redo"})
    assert rows(client, review, 1)[3][4] is True
    assert rows(client, review, 0)[3][4] is False


def test_a_wrong_file_is_refused_in_the_words_of_the_service(client: Client, review: str) -> None:
    refused = add(client, review, b"a poem\nof two lines\n", "a.txt")
    assert refused.status_code == 415
    assert refused.json()["type"] == "/problems/annotation-unrecognised"
    assert add(client, review, tier="nothing").json()["type"] == "/problems/annotation-tier"
    assert add(client, review, model="nobody").status_code == 404
    assert add(client, review, colour="red").json()["detail"].startswith("colour: ")
    assert add(client, "0" * 26).status_code == 404
    assert len(client.get(f"/reviews/{review}").json()["files"]) == 1


def test_the_list_names_and_deletes(client: Client, review: str) -> None:
    assert client.request("PATCH", f"/reviews/{review}", json={"name": "<b>other</b>"}).json()["files"] == 1
    listed = client.get("/reviews", params={"limit": 1}).json()
    assert (listed["reviews"][0]["id"], listed["reviews"][0]["name"]) == (review, "<b>other</b>")
    assert client.request("DELETE", f"/reviews/{review}").status_code == 204
    for address in ("", "/files/0", "/files/0/sound", "/files/0/segments", "/operations", "/files/0/annotation"):
        gone = client.get(f"/reviews/{review}{address}")
        assert (gone.status_code, gone.json()["type"]) == (404, "/problems/review-unknown"), address


def test_blobs_go_with_the_last_review_that_needs_them(client: Client) -> None:
    store = client.app.state.services.workspace.store
    source = TEXTGRID.replace(b'"in"', b'"only here"')
    first, second = begin(client, source), begin(client, source)
    with client.app.state.services.workspace.db.read() as session:
        from phonechain.app.reviews.tables import ReviewFile

        digest = session.get_one(ReviewFile, (first, 0)).annotation
    client.request("DELETE", f"/reviews/{first}")
    assert store.has(digest)
    client.request("DELETE", f"/reviews/{second}")
    assert not store.has(digest)


def test_all_annotations_in_one_zip(client: Client, review: str) -> None:
    add(client, review, LAB, "a.lab", speaker="s/1")
    add(client, review, TEXTGRID, "../../a.TextGrid")
    operate(client, review, 0, {"op": "label", "file": 1, "segment": 2, "label": "X"})
    answer = client.get(f"/reviews/{review}/annotations")
    assert answer.status_code == 200, answer.text
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        assert archive.namelist() == ["a.TextGrid", "s_1/a.lab", "a-2.TextGrid"]
        assert archive.read("a.TextGrid") == archive.read("a-2.TextGrid") == TEXTGRID
        assert b" X" in archive.read("s_1/a.lab")
    assert client.get(f"/reviews/{review}/annotations").content == answer.content


def test_a_corpus_holds_the_corrections(client: Client, review: str) -> None:
    add(client, review, name="b.TextGrid")
    operate(client, review, 0, {"op": "label", "file": 0, "segment": 1, "label": "NEW"})
    made = client.post(f"/reviews/{review}/corpus")
    assert made.status_code == 201, made.text
    body = made.json()
    assert (body["utterances"], body["problem_count"], body["options"]["tier"]) == (2, 0, "phones")
    assert body["labels"]["NEW"] == 1
    assert client.get(made.headers["location"]).json()["id"] == body["id"]
    assert client.post(f"/reviews/{'0' * 26}/corpus").status_code == 404


def corpus_of(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


@pytest.mark.parametrize(("split", "own"), [("", ""), ("train/", "train/")])
def test_a_corpus_comes_together_with_another(client: Client, review: str, split: str, own: str) -> None:
    """The review's own version of a recording is taken; the others keep speaker, split and format."""
    members = {
        f"{split}a.flac": AUDIO,
        f"{split}a.TextGrid": TEXTGRID,
        f"{split}s1/b.flac": AUDIO,
        f"{split}s1/b.lab": LAB,
    }
    if split:
        members |= {"dev/s2/c.flac": AUDIO, "dev/s2/c.lab": LAB}
    other = client.post("/corpora?name=other", content=corpus_of(members), headers={"Content-Type": "application/zip"})
    assert other.status_code == 201, other.text
    operate(client, review, 0, {"op": "label", "file": 0, "segment": 1, "label": "NEW"})
    made = client.post(f"/reviews/{review}/corpus", params={"with_corpus": other.json()["id"]})
    assert made.status_code == 201, made.text
    body = made.json()
    assert (body["utterances"], body["problem_count"]) == (3 if split else 2, 0)
    assert body["labels"]["NEW"] == 1
    assert body["splits"] == ({"train": 2, "dev": 1} if split else {})
    assert body["name"] == "of the test"
    unknown = client.post(f"/reviews/{review}/corpus", params={"with_corpus": "nothing"})
    assert (unknown.status_code, unknown.json()["type"]) == (404, "/problems/corpus-unknown")


def test_what_has_no_label_gets_the_models(client: Client) -> None:
    blank = re.sub(
        r'(name = "phones".*)', lambda m: re.sub(r'text = ".*?"', 'text = ""', m[1]), TEXTGRID.decode(), flags=re.S
    )
    review = begin(client, blank.encode(), tier="phones")
    answer = client.get(f"/reviews/{review}/files/0/answer").json()
    best = [answer["labels"][n[0]] for n in answer["n_best"]]
    assert set(answer["given"]) == {None}
    checked = [{"op": "accept", "file": 0, "segment": 2}, {"op": "label", "file": 0, "segment": 5, "label": "X"}]
    made = operate(client, review, 0, *checked, {"op": "fill", "file": 0})
    assert made.status_code == 200, made.text
    now = rows(client, review)
    wanted = [*best[:2], None, *best[3:5], "X", *best[6:]]
    assert [row[3] for row in now] == wanted
    assert [row[0] for row in now if row[4]] == [2, 5]  # what was filled in is still to be checked
    again = operate(client, review, 3, {"op": "fill", "file": 0})
    assert (again.status_code, "no unchecked segment without a label" in again.text) == (422, True)
    operate(client, review, 3, {"op": "undo"})
    assert [row[3] for row in rows(client, review)] == [None] * 5 + ["X"] + [None] * (len(best) - 6)


def test_a_form_that_comes_in_one_chunk(client: Client, review: str) -> None:
    """As browsers and curl send it: the heads of both parts are parsed before either is written."""
    # httpx sends each part in a chunk of its own, so the body is made by hand
    parts = (("audio", "a.flac", AUDIO), ("segments", "a.TextGrid", TEXTGRID))
    body = b"".join(
        f'--x\r\nContent-Disposition: form-data; name="{name}"; filename="{file}"\r\n\r\n'.encode()
        + data + b"\r\n"
        for name, file, data in parts
    )  # fmt: skip
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    made = client.post(f"/reviews/{review}/files", content=body + b"--x--\r\n", headers=headers)
    assert made.status_code == 201, made.text
    assert made.json()["segments"] == 23


def test_the_log_says_who_changed_what(serve: Callable[..., Any], tmp_path: Path) -> None:
    """Each entry has the name of its key, after that key was revoked too; without keys it has none."""
    with serve(data=tmp_path, workers=0, admin_key="0123456789abcdef") as client:
        admin = {"Authorization": "Bearer 0123456789abcdef"}
        made = client.post("/keys", json={"name": "anna", "scopes": ["label"]}, headers=admin).json()
        anna = {"Authorization": f"Bearer {made['key']}"}
        id = client.post("/reviews", json={"name": "x"}, headers=anna).json()["id"]
        files = {"audio": ("a.flac", AUDIO), "segments": ("a.TextGrid", TEXTGRID)}
        assert client.post(f"/reviews/{id}/files", files=files, headers=anna).status_code == 201
        for revision, who in enumerate((anna, admin)):
            accept = {"op": "accept", "file": 0, "segment": revision}
            asked = {"revision": revision, "operations": [accept]}
            done = client.post(f"/reviews/{id}/operations", json=asked, headers=who)
            assert [o["by"] for o in done.json()["operations"]] == [("anna", "admin")[revision]]
        assert client.request("DELETE", f"/keys/{made['id']}", headers=admin).status_code == 204
        log = client.get(f"/reviews/{id}/operations", headers=admin).json()["operations"]
        assert [o["by"] for o in log] == ["anna", "admin"]


def test_without_keys_nobody_is_named(client: Client, review: str) -> None:
    done = operate(client, review, 0, {"op": "accept", "file": 0, "segment": 0})
    assert [o["by"] for o in done.json()["operations"]] == [None]
