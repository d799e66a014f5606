"""`/jobs` and `/corpora` as a client sees them."""

from __future__ import annotations

import io
import json
import re
import tarfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from phonechain.app.client.calls import parse_events
from phonechain.features.annotation import FORMATS
from phonechain.model.labeler import PhoneLabeler
from tests.app.conftest import Client, wav
from tests.app.jobs import speech
from tests.app.jobs.conftest import started, wait_for_end
from tests.app.jobs.speech import SEGMENTS
from tests.app.jobs.test_webhooks import Receiver

ZIP = {"content-type": "application/zip"}
NOWHERE = Path(__file__).parent / "nothing"


def refusal(answer: Any, status: int, slug: str, says: str = "") -> dict[str, Any]:
    """The problem document of a refusal."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = answer.json()
    assert problem["type"] == f"/problems/{slug}", problem
    assert says in problem["detail"]
    assert "Traceback" not in answer.text
    return problem


# ------------------------------------------------------------------------------------------------------------ corpora


def test_a_tar_and_a_form_are_taken_too(service: Client, corpus_folder: Path) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as file:
        file.add(corpus_folder, ".")
    for answer in (
        service.post("/corpora", content=out.getvalue(), headers={"content-type": "application/gzip"}),
        service.post("/corpora", files={"archive": out.getvalue()}, data={"name": "a form", "drop": ["N", "K"]}),
    ):
        assert answer.status_code == 201, answer.text
        assert answer.json()["utterances"] == 20
    assert answer.json()["name"] == "a form"
    assert not {"N", "K"} & set(answer.json()["labels"])
    assert service.get(answer.headers["location"]).json() == answer.json()


def test_problems_are_listed_by_file(service: Client, tmp_path: Path) -> None:
    speech.folder(tmp_path, 2)
    data = speech.zip_folder(
        tmp_path, **{"s0/alone.wav": b"x", "s0/bad.wav": wav(speech.np.zeros(100)), "s0/bad.lab": b"a poem\n"}
    )
    answer = service.post("/corpora", content=data, headers=ZIP).json()
    assert answer["utterances"] == 2
    assert {p["file"] for p in answer["problems"]} == {"s0/alone.wav", "s0/bad.lab"}
    assert answer["problem_count"] == 2


CORPORA: dict[str, tuple[dict[str, Any], int, str]] = {
    "no archive": ({"content": b"a poem", "headers": ZIP}, 422, "archive"),
    "an empty body": ({"content": b"", "headers": ZIP}, 422, "archive"),
    "no corpus in it": ({"content": speech.zip_folder(NOWHERE, a=b"x"), "headers": ZIP}, 422, "corpus"),
    "a climbing name": ({"content": speech.zip_folder(NOWHERE, **{"../a": b"x"}), "headers": ZIP}, 422, "archive"),
    "another type": ({"content": b"x", "headers": {"content-type": "text/html"}}, 415, "media-type"),
    "no type": ({"content": b"x"}, 415, "media-type"),
    "neither folder nor url": ({"json": {}}, 422, "request-invalid"),
    "both": ({"json": {"folder": "/a", "url": "s3://b"}}, 422, "request-invalid"),
    "a folder outside": ({"json": {"folder": "/etc"}}, 403, "corpus-place"),
    "a relative folder": ({"json": {"folder": "etc"}}, 403, "corpus-place"),
    "a url outside": ({"json": {"url": "s3://bucket/x"}}, 403, "corpus-place"),
    "a file url": ({"json": {"url": "file:///etc"}}, 403, "corpus-place"),
    "a list of places outside": (
        {"content": b'{"audio": "/etc/passwd", "annotation": "/etc/passwd"}\n', "headers": {"content-type": "application/jsonl"}},
        403, "corpus-place",
    ),
    "a list of nonsense": ({"content": b"x\n", "headers": {"content-type": "application/jsonl"}}, 422, "corpus"),
    "an unknown option": ({"content": b"x", "headers": ZIP, "params": {"nonsense": 1}}, 422, "request-invalid"),
    "a table outside": ({"content": b"PK", "headers": ZIP, "params": {"layout": "x" * 100}}, 422, "request-invalid"),
}  # fmt: skip


@pytest.mark.parametrize(("asked", "status", "slug"), CORPORA.values(), ids=CORPORA)
def test_what_is_no_corpus_is_refused(service: Client, asked: dict[str, Any], status: int, slug: str) -> None:
    refusal(service.post("/corpora", **asked), status, slug)


def test_a_folder_under_an_allowed_place(service: Client, corpus_folder: Path) -> None:
    root = Path(service.app.state.services.settings.roots[0]) / "allowed"
    speech.folder(root, 3)
    outside = root / "s0" / "link.wav"
    outside.symlink_to(next(corpus_folder.rglob("*.wav")))
    (root / "s0" / "link.lab").write_bytes(b"0 1000000 N\n")
    made = service.post("/corpora", json={"folder": str(root), "name": "here"})
    assert made.status_code == 201, made.text
    assert made.json()["utterances"] == 3
    assert any("out of the allowed folders" in p["message"] for p in made.json()["problems"])
    lines = [
        {"audio": str(p), "annotation": str(p.with_suffix(".lab")), "speaker": p.parent.name}
        for p in root.rglob("u*.wav")
    ]
    lines.append({"audio": str(root / "missing.wav"), "annotation": str(root / "missing.lab"), "id": "gone"})
    body = "".join(json.dumps(line) + "\n" for line in lines)
    listed = service.post("/corpora", content=body, headers={"content-type": "application/jsonl"})
    assert listed.status_code == 201, listed.text
    assert listed.json()["segments"] is None
    job = wait_for_end(service, started(service, kind="label", corpus=listed.json()["id"]))
    assert (job["state"], job["result"]["utterances"], job["failed_files"]) == ("succeeded", 4, 1)
    errors = service.get(f"/jobs/{job['id']}/errors").json()
    assert [e["utterance"] for e in errors["errors"]] == ["gone"]
    assert str(root) not in errors["errors"][0]["detail"]


def test_a_root_is_not_left_upwards_or_by_links(service: Client, tmp_path: Path) -> None:
    root = Path(service.app.state.services.settings.roots[0]) / "walls"
    speech.folder(root, 2)
    for folder in (f"{root}/..", f"{root.parent}/..", f"{root}/../walls"):
        refusal(service.post("/corpora", json={"folder": folder}), 403, "corpus-place")
    line = {"audio": f"{root.parent}/../a.wav", "annotation": f"{root}/a.lab"}
    refusal(
        service.post("/corpora", content=json.dumps(line), headers={"content-type": "application/jsonl"}),
        403, "corpus-place",
    )  # fmt: skip
    secret = tmp_path / "secret.txt"
    secret.write_text("root:x:0:0 hunter2\n")
    for name in ("s0/foreign.lab", "table.tsv"):
        (root / name).symlink_to(secret)
    next(root.rglob("*.wav")).with_name("foreign.wav").write_bytes(next(root.rglob("u*.wav")).read_bytes())
    made = service.post("/corpora", json={"folder": str(root)})
    assert made.status_code == 201, made.text
    assert made.json()["utterances"] == 2
    assert "hunter2" not in made.text
    refusal(service.post("/corpora", json={"folder": str(root), "table": "table.tsv"}), 422, "request-invalid")


def test_a_corpus_in_use_stays(service: Client, corpus_folder: Path) -> None:
    made = service.post("/corpora", content=speech.zip_folder(corpus_folder, **{"x/more": b"y"}), headers=ZIP).json()
    job = started(service, kind="train", corpus=made["id"], name="long", training={"epochs": 500, "patience": 0})
    refusal(service.request("DELETE", f"/corpora/{made['id']}"), 409, "corpus-in-use")
    service.post(f"/jobs/{job['id']}/cancel")
    wait_for_end(service, job)
    assert service.request("DELETE", f"/corpora/{made['id']}").status_code == 204
    refusal(service.get(f"/corpora/{made['id']}"), 404, "corpus-unknown")


# --------------------------------------------------------------------------------------------------------------- jobs

JOBS: dict[str, tuple[dict[str, Any], int, str, str]] = {
    "no kind": ({"corpus": "CORPUS"}, 422, "request-invalid", ""),
    "an unknown kind": ({"kind": "guess", "corpus": "CORPUS"}, 422, "request-invalid", "label"),
    "no corpus": ({"kind": "label"}, 422, "request-invalid", "corpus"),
    "an unknown corpus": ({"kind": "label", "corpus": "nothing"}, 404, "corpus-unknown", ""),
    "an unknown model": ({"kind": "label", "corpus": "CORPUS", "model": "nothing"}, 404, "model-unknown", ""),
    "an unknown format": ({"kind": "label", "corpus": "CORPUS", "formats": ["pdf"]}, 422, "request-invalid", "formats"),
    "an unknown option": ({"kind": "label", "corpus": "CORPUS", "nonsense": 1}, 422, "request-invalid", "nonsense"),
    "too many labels": ({"kind": "label", "corpus": "CORPUS", "n_best": 999}, 422, "request-invalid", "n_best"),
    "an unknown preset": ({"kind": "train", "corpus": "CORPUS", "name": "x", "preset": "y"}, 422, "request-invalid", "preset"),
    "a name that climbs": ({"kind": "train", "corpus": "CORPUS", "name": "../x"}, 422, "request-invalid", "name"),
    "a setting of no kind": (
        {"kind": "train", "corpus": "CORPUS", "name": "x", "training": {"speed": 1}}, 422, "request-invalid", "speed",
    ),
    "a setting out of range": (
        {"kind": "train", "corpus": "CORPUS", "name": "x", "training": {"epochs": 0}}, 422, "request-invalid", "epochs",
    ),
    "a webhook inside": (
        {"kind": "label", "corpus": "CORPUS", "webhook": "http://127.0.0.1/"}, 422, "webhook", "private",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("asked", "status", "slug", "says"), JOBS.values(), ids=JOBS)
def test_what_is_no_job_is_refused(
    service: Client, corpus: dict[str, Any], asked: dict[str, Any], status: int, slug: str, says: str
) -> None:
    body = {k: corpus["id"] if v == "CORPUS" else v for k, v in asked.items()}
    before = len(service.get("/jobs?limit=200").json()["jobs"])
    refusal(service.post("/jobs", json=body), status, slug, says)
    assert len(service.get("/jobs?limit=200").json()["jobs"]) == before


@pytest.mark.parametrize("path", ["", "/cancel", "/events", "/errors", "/result"])
def test_an_unknown_job(service: Client, path: str) -> None:
    method = "POST" if path == "/cancel" else "GET"
    refusal(service.request(method, f"/jobs/nothing{path}"), 404, "job-unknown", "'nothing'")


def test_a_key_stands_for_one_request(service: Client, corpus: dict[str, Any]) -> None:
    asked = {"kind": "label", "corpus": corpus["id"]}
    headers = {"Idempotency-Key": "one"}
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: service.post("/jobs", json=asked, headers=headers), range(8)))
    assert {a.status_code for a in answers} == {202}
    assert len({a.json()["id"] for a in answers}) == 1
    assert len({a.text for a in answers}) == 1
    assert sum(a.headers.get("idempotency-replayed") == "true" for a in answers) == 7
    job = wait_for_end(service, answers[0].json())
    later = service.post(
        "/jobs",
        content=json.dumps(dict(reversed(asked.items()))),
        headers={**headers, "content-type": "application/json"},
    )
    assert later.text == answers[0].text
    assert job["state"] == "succeeded"
    refusal(service.post("/jobs", json={**asked, "n_best": 2}, headers=headers), 422, "idempotency-key")


def test_pages_hold_every_job_once(service: Client, corpus: dict[str, Any]) -> None:
    made = [started(service, kind="evaluate", corpus=corpus["id"])["id"] for _ in range(5)]
    seen: list[str] = []
    cursor = None
    while True:
        page = service.get(
            "/jobs", params={"limit": 2, "kind": "evaluate", **({"cursor": cursor} if cursor else {})}
        ).json()
        assert len(page["jobs"]) <= 2
        seen += [job["id"] for job in page["jobs"]]
        cursor = page["next"]
        if cursor is None:
            break
        if len(seen) == 2:
            made.append(started(service, kind="evaluate", corpus=corpus["id"])["id"])  # does not move the pages
    assert seen == sorted(seen, reverse=True)
    assert set(made[:5]) <= set(seen)
    assert made[5] not in seen
    refusal(service.get("/jobs?cursor=%3F%3F"), 422, "request-invalid", "cursor")
    refusal(service.get("/jobs?limit=0"), 422, "request-invalid", "limit")
    refusal(service.get("/jobs?state=strange"), 422, "request-invalid", "state")
    for id in made:
        wait_for_end(service, {"id": id})
    assert service.get("/jobs?state=queued&state=running").json()["jobs"] == []


def test_events_can_be_taken_up_where_they_broke(service: Client, corpus: dict[str, Any]) -> None:
    job = started(service, kind="label", corpus=corpus["id"])
    text = service.get(f"/jobs/{job['id']}/events").text  # ends with the job
    events = list(parse_events(iter(text.splitlines())))
    assert [e["number"] for e in events] == list(range(1, len(events) + 1))
    assert [e["state"] for e in events if e["type"] == "state"] == ["queued", "running", "succeeded"]
    done = [e["progress"]["done"] for e in events]
    assert done == sorted(done)
    assert done[-1] == 20
    again = service.get(f"/jobs/{job['id']}/events", headers={"Last-Event-ID": "3"}).text
    assert list(parse_events(iter(again.splitlines()))) == events[3:]
    assert text.startswith("retry: ")
    over = service.get(f"/jobs/{job['id']}/events", headers={"Last-Event-ID": str(len(events))}).text
    assert list(parse_events(iter(over.splitlines()))) == []


@pytest.mark.parametrize("kind", ["train", "label"])
def test_a_cancel_is_heard_within_a_second(
    service: Client, corpus: dict[str, Any], kind: str, corpus_folder: Path
) -> None:
    more: dict[str, Any] = {"name": "endless", "training": {"epochs": 5000, "patience": 0}} if kind == "train" else {}
    used = corpus["id"]
    if kind == "label":  # long enough to be met in the middle
        root = Path(service.app.state.services.settings.roots[0]) / "many"
        if not root.exists():
            speech.folder(root, 3)
        lines = [
            json.dumps({"id": f"{p.stem}-{n}", "audio": str(p), "annotation": str(p.with_suffix(".lab"))}) + "\n"
            for n in range(300)
            for p in sorted(root.rglob("*.wav"))
        ]
        used = service.post("/corpora", content="".join(lines), headers={"content-type": "application/jsonl"}).json()[
            "id"
        ]
    job = started(service, kind=kind, corpus=used, **more)
    while True:
        at = service.get(f"/jobs/{job['id']}").json()
        enough = at["progress"]["metrics"].get("epoch", 0) > 2 if kind == "train" else at["progress"]["done"] > 0
        if enough and at["progress"]["stage"] in ("train", "label"):
            break
        assert at["state"] in ("queued", "running"), at
        time.sleep(0.05)
    assert service.post(f"/jobs/{job['id']}/cancel").json()["state"] in ("cancelling", "cancelled")
    stopped = wait_for_end(service, job)  # `benchmarks/cancel.py` measures how soon
    assert stopped["state"] == "cancelled"
    assert service.post(f"/jobs/{job['id']}/cancel").json()["state"] == "cancelled"
    if kind == "label":
        result = service.get(f"/jobs/{job['id']}/result?format=jsonl")
        rows = result.text.splitlines()
        assert result.status_code == 200
        assert 0 < len(rows) == service.get(f"/jobs/{job['id']}").json()["progress"]["done"] < 900
    else:
        # The best epoch so far can be had; it is no version of the model.
        assert stopped["result"]["partial"]
        labeler = PhoneLabeler.load(service.get(stopped["links"]["result"]).content)
        assert labeler.version_ == stopped["result"]["version"]
        assert labeler.metrics_ == stopped["result"]["metrics"]
        assert 1 <= labeler.metrics_["best_epoch"] <= labeler.metrics_["epochs"]
        assert "not calibrated" in labeler.card_["limits"]
        assert "endless" not in [m["name"] for m in service.get("/models").json()["models"]]
        assert service.request("DELETE", f"/jobs/{job['id']}").status_code == 204


def test_a_training_without_a_whole_epoch_leaves_nothing(service: Client, corpus: dict[str, Any]) -> None:
    job = started(service, kind="train", corpus=corpus["id"], name="short", training={"epochs": 5000, "patience": 0})
    service.post(f"/jobs/{job['id']}/cancel")
    stopped = wait_for_end(service, job)
    assert stopped["state"] == "cancelled"
    if stopped["result"] is None:  # as it is unless this machine was very fast
        refusal(service.get(f"/jobs/{job['id']}/result"), 409, "job-result", "cancelled")


def test_one_bad_file_is_one_error(service: Client, tmp_path: Path) -> None:
    speech.folder(tmp_path, 6)
    (tmp_path / "s1" / "u0001.wav").write_bytes(b"not a sound")
    (tmp_path / "s2" / "u0002.lab").write_bytes(b"0 990000000 N\n")
    made = service.post("/corpora", content=speech.zip_folder(tmp_path), headers=ZIP).json()
    job = wait_for_end(service, started(service, kind="label", corpus=made["id"], formats=sorted(FORMATS)))
    assert job["state"] == "succeeded"
    assert job["failed_files"] == 2
    errors = service.get(f"/jobs/{job['id']}/errors?limit=1").json()
    more = service.get(f"/jobs/{job['id']}/errors?limit=1&cursor={errors['next']}").json()
    assert more["next"] is None
    assert [e["type"] for e in errors["errors"] + more["errors"]] == [
        "/problems/audio-unrecognised",
        "/problems/segments",
    ]
    rows = [json.loads(r) for r in service.get(f"/jobs/{job['id']}/result?format=jsonl").text.splitlines()]
    assert {r["utterance"] for r in rows} == {"u0000", "u0003", "u0004", "u0005"}
    assert all(len(r["segments"]) == SEGMENTS for r in rows)
    trained = wait_for_end(
        service, started(service, kind="train", corpus=made["id"], name="some", training={"epochs": 1})
    )
    assert (trained["state"], trained["failed_files"]) == ("succeeded", 2), trained


def test_a_job_that_cannot_be_done_says_why(service: Client, tmp_path: Path) -> None:
    speech.folder(tmp_path, 3)
    for lab in tmp_path.rglob("*.lab"):
        lab.write_text(re.sub(r" \w+\n", " N\n", lab.read_text()))
    made = service.post("/corpora", content=speech.zip_folder(tmp_path), headers=ZIP).json()
    job = wait_for_end(service, started(service, kind="train", corpus=made["id"], name="one-label"))
    assert job["state"] == "failed"
    assert job["error"]["type"] == "/problems/corpus"
    assert "at least 2 different labels" in job["error"]["detail"]
    split = service.post("/jobs", json={"kind": "evaluate", "corpus": made["id"], "split": "nothing"})
    refusal(split, 422, "request-invalid")


def test_a_job_that_ended_can_be_forgotten(service: Client, corpus: dict[str, Any]) -> None:
    job = wait_for_end(service, started(service, kind="label", corpus=corpus["id"]))
    assert service.request("DELETE", f"/jobs/{job['id']}").status_code == 204
    refusal(service.get(f"/jobs/{job['id']}"), 404, "job-unknown")


def test_a_teacher_is_learnt_from(service: Client, corpus: dict[str, Any]) -> None:
    asked = {"kind": "train", "corpus": corpus["id"], "name": "pupil", "preset": "lc-crf", "teacher": "default"}
    job = started(service, **asked, training={"epochs": 1, "batch": 4, "teacher_weight": 0.9})
    assert set(job["request"]["teacher"]) == {"name", "version"}
    assert re.fullmatch(r"learns from tiny@\w+ \(90 % of the loss\)", wait_for_end(service, job)["result"]["start"])
    for other in ({"base": "default"}, {"preset": "auto"}):
        problem = refusal(service.post("/jobs", json={**asked, **other}), 422, "request-invalid")
        assert "a teacher without a base" in problem["detail"]
    refusal(service.post("/jobs", json={**asked, "teacher": "nobody"}), 404, "model-unknown")


def test_base_gives_its_settings_and_its_weights(service: Client, corpus: dict[str, Any]) -> None:
    job = started(service, kind="train", corpus=corpus["id"], name="again", base="default", training={"epochs": 1})
    assert job["request"]["training"]["batch"] == 4  # of the tiny model
    assert set(job["request"]["base"]) == {"name", "version"}
    made = wait_for_end(service, job)["result"]
    assert made["metrics"]["epochs"] == 1
    assert made["start"].startswith("starts from tiny@")
    first = wait_for_end(
        service, started(service, kind="train", corpus=corpus["id"], name="anew", training={"epochs": 1, "batch": 4})
    )["result"]
    assert "start" not in first
    assert made["metrics"]["dev_error"] <= first["metrics"]["dev_error"]


def test_a_base_learns_a_label_that_it_does_not_know(service: Client, tmp_path: Path) -> None:
    speech.folder(tmp_path, 5)
    for lab in tmp_path.rglob("*.lab"):
        lab.write_text(lab.read_text().replace(" N\n", " ny\n"))
    made = service.post("/corpora", content=speech.zip_folder(tmp_path), headers=ZIP).json()
    job = started(service, kind="train", corpus=made["id"], name="ny", base="default", training={"epochs": 1})
    result = wait_for_end(service, job)["result"]
    assert result["start"].startswith("starts from tiny@")
    assert "with new labels: the label ny is not among" in result["start"]
    assert result["metrics"]["dev_error"] <= result["metrics"]["start_error"]
    said = [
        json.loads(line[6:])["progress"]["message"]
        for line in service.get(f"/jobs/{job['id']}/events").text.splitlines()
        if line.startswith("data: ")
    ]
    assert result["start"] in said


# ----------------------------------------------------------------------------------------------- with other settings


def test_too_many_jobs_and_webhooks(own_service: Callable[..., Any], corpus_folder: Path) -> None:
    receiver = Receiver(500, 204)
    with own_service(max_jobs=1, webhook_private=True, webhook_secret="a secret", max_upload_bytes=10**7) as client:
        refusal(client.post("/corpora", content=bytes(10**7 + 1), headers=ZIP), 413, "body-too-large")
        made = client.post("/corpora", content=speech.zip_folder(corpus_folder), headers=ZIP).json()
        job = started(client, kind="label", corpus=made["id"], webhook=receiver.url)
        busy = client.post("/jobs", json={"kind": "label", "corpus": made["id"]})
        refusal(busy, 503, "overloaded", "1 have not ended (limit 1)")
        assert int(busy.headers["retry-after"]) >= 1
        wait_for_end(client, job)
        limit = time.monotonic() + 120
        while len(receiver.calls) < 2 and time.monotonic() < limit:
            time.sleep(0.1)
    ids = {headers["webhook-id"] for headers, _ in receiver.calls}
    assert ids == {f"msg_{job['id']}"}
    headers, body = receiver.calls[-1]
    assert json.loads(body)["type"] == "job.succeeded"
    assert json.loads(body)["data"]["id"] == job["id"]
    from phonechain.app.jobs import webhooks

    again = webhooks.sign("a secret", headers["webhook-id"], int(headers["webhook-timestamp"]), body)
    assert headers["webhook-signature"] == again["webhook-signature"]
    receiver.server.shutdown()


def test_keys_and_scopes(own_service: Callable[..., Any]) -> None:
    admin = {"Authorization": "Bearer 0123456789abcdef"}
    with own_service(admin_key="0123456789abcdef") as client:
        assert client.get("/health/live").status_code == 200
        missing = client.get("/jobs")
        refusal(missing, 401, "key-missing")
        assert missing.headers["www-authenticate"] == "Bearer"
        refusal(client.get("/jobs", headers={"Authorization": "Bearer wrong"}), 401, "key-missing")
        refusal(client.get("/jobs", headers={"Authorization": "Basic x"}), 401, "key-missing")
        assert client.get("/jobs", headers=admin).json() == {"jobs": [], "next": None}
        keys = {}
        for scope in ("read", "label", "train"):
            made = client.post("/keys", json={"name": scope, "scopes": [scope]}, headers=admin)
            assert made.status_code == 201, made.text
            keys[scope] = {"Authorization": f"Bearer {made.json()['key']}"}
        body = {"kind": "label", "corpus": "nothing"}
        train = {"kind": "train", "corpus": "nothing", "name": "x"}
        assert client.get("/models", headers=keys["read"]).status_code == 200
        problem = refusal(client.post("/jobs", json=body, headers=keys["read"]), 403, "key-scope")
        assert problem["needed"] == "label"
        refusal(client.post("/jobs", json=body, headers=keys["label"]), 404, "corpus-unknown")
        refusal(client.post("/jobs", json=train, headers=keys["label"]), 403, "key-scope")
        refusal(client.post("/jobs", json=train, headers=keys["train"]), 404, "corpus-unknown")
        refusal(client.get("/keys", headers=keys["train"]), 403, "key-scope")
        refusal(client.request("DELETE", "/corpora/x", headers=keys["train"]), 403, "key-scope")
        refusal(client.request("PUT", "/aliases/default", json={"model": "x"}, headers=keys["train"]), 403, "key-scope")
        listed = client.get("/keys", headers=admin)
        assert [k["name"] for k in listed.json()["keys"]] == ["read", "label", "train"]
        secret = keys["read"]["Authorization"].split("_")[-1]
        assert secret not in listed.text
        assert client.request("DELETE", f"/keys/{listed.json()['keys'][0]['id']}", headers=admin).status_code == 204
        refusal(client.get("/models", headers=keys["read"]), 401, "key-missing")
        folder = client.app.state.services.settings.folder
        assert all(secret.encode() not in p.read_bytes() for p in folder.glob("phonechain.db*"))


def test_the_first_key_is_an_admins(own_service: Callable[..., Any]) -> None:
    with own_service() as client:
        refusal(client.post("/keys", json={"name": "a", "scopes": ["train"]}), 422, "request-invalid")
        assert client.get("/jobs").status_code == 200, "nobody is locked out"
        made = client.post("/keys", json={"name": "boss", "scopes": ["admin"]})
        assert made.status_code == 201, made.text
        boss = {"Authorization": f"Bearer {made.json()['key']}"}
        refusal(client.get("/jobs"), 401, "key-missing")
        other = client.post("/keys", json={"name": "a", "scopes": ["read"]}, headers=boss)
        assert other.status_code == 201, other.text
        assert client.request("DELETE", f"/keys/{made.json()['id']}", headers=boss).status_code == 204


def test_a_service_that_nobody_uses_for_jobs_makes_nothing(own_service: Callable[..., Any], tmp_path: Path) -> None:
    with own_service(data=tmp_path / "data") as client:
        before = threading.active_count()
        assert client.get("/models").status_code == 200
        assert client.classify(model="default").status_code == 200
        assert not (tmp_path / "data").exists()
        assert threading.active_count() - before < 10  # a cluster has dozens
