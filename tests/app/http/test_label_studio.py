"""Label Studio's backend routes over HTTP, with requests as Label Studio sends them and a Label Studio that gives sound."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from pydantic import SecretStr

from phonechain.app.main import create_app
from phonechain.app.settings import Settings
from phonechain.features.annotation import choose_tier, read, tier_segments
from tests.app.conftest import AUDIO, TEXTGRID, Client, serving
from tests.app.jobs.conftest import wait_for_end

CONFIG = """<View>
  <Labels name="labels" toName="audio"><Label value="ih"/><Label value="n"/><Label value="b"/><Label value="XX"/></Labels>
  <Audio name="audio" value="$sound"/>
</View>"""
SEGMENTS = tier_segments(choose_tier(read(TEXTGRID))[0])
TOKEN = "a token of the tests"


def regions(count: int | None = None, labelled: bool = True) -> list[dict[str, Any]]:
    """The sample's segments as regions of the control."""
    return [
        {
            "id": f"x{n}", "from_name": "labels", "to_name": "audio", "type": "labels",
            "value": {"start": s.start, "end": s.end, "channel": 0, "labels": [s.label] if labelled else []},
        }
        for n, s in enumerate(SEGMENTS[:count])
    ]  # fmt: skip


class FakeLabelStudio:
    """Gives one sound and an export of tasks to those who show the token; counts what it is asked."""

    def __init__(self, tasks: list[dict[str, Any]]) -> None:
        asked: list[str] = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append(self.path)
                body = AUDIO if self.path.startswith("/data/upload/") else json.dumps(tasks).encode()
                good = self.headers.get("Authorization") == f"Token {TOKEN}"
                self.send_response(200 if good else 401)
                self.send_header("Content-Length", str(len(body) if good else 0))
                self.end_headers()
                if good:
                    self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.asked = asked
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture(scope="module")
def studio() -> Iterator[FakeLabelStudio]:
    """Two finished tasks, one that was skipped, one without regions."""
    data = {"sound": "/data/upload/1/0a1b2c3d-talk.flac"}
    tasks: list[dict[str, Any]] = [
        {"id": n, "data": data, "annotations": [{"was_cancelled": n == 3, "result": [] if n == 4 else regions()}]}
        for n in (1, 2, 3, 4)
    ]
    fake = FakeLabelStudio(tasks)
    yield fake
    fake.server.shutdown()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, studio: FakeLabelStudio) -> Iterator[Client]:
    settings = Settings(
        data=tmp_path_factory.mktemp("data"), workers=1, label_studio=studio.url, label_studio_token=SecretStr(TOKEN)
    )
    with serving(create_app(settings)) as client:
        yield client


def predict(client: Client, *tasks: dict[str, Any], **more: Any) -> dict[str, Any]:
    body = {"tasks": list(tasks), "project": "7.1700000000", "label_config": CONFIG, **more}
    answer = client.post("/label-studio/predict", json=body)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def task(**members: Any) -> dict[str, Any]:
    return {"id": 5, "data": {"sound": "/data/upload/1/0a1b2c3d-talk.flac"}, **members}


def test_it_is_up_and_takes_a_project(service: Client) -> None:
    assert service.get("/label-studio/health").json()["status"] == "UP"
    body = {
        "project": "7.1700000000", "schema": CONFIG, "hostname": "http://evil.example", "access_token": "x",
        "extra_params": None,
    }  # fmt: skip
    answer = service.post("/label-studio/setup", json=body)
    assert answer.status_code == 200, answer.text
    assert answer.json()["model_version"].startswith("default@")
    refused = service.post("/label-studio/setup", json={**body, "schema": "<View><Text name='t' value='$t'/></View>"})
    assert (refused.status_code, refused.json()["pointer"]) == (422, "#/label_config")


def test_regions_are_labelled_in_the_spelling_of_the_project(service: Client) -> None:
    found = predict(service, task(annotations=[{"result": regions(labelled=False)}]))
    (one,) = found["results"]
    classified = service.classify().json()["segments"]
    assert [(r["value"]["start"], r["value"]["end"]) for r in one["result"]] == [(s.start, s.end) for s in SEGMENTS]
    spelled = {"IH": "ih", "N": "n", "B": "b"}
    assert [r["value"]["labels"] for r in one["result"]] == [[spelled.get(s["label"], s["label"])] for s in classified]
    assert [r["score"] for r in one["result"]] == pytest.approx([s["posterior"] for s in classified], abs=2e-3)
    assert one["score"] == pytest.approx(sum(r["score"] for r in one["result"]) / len(SEGMENTS), abs=1e-4)
    assert all((r["from_name"], r["to_name"], r["type"]) == ("labels", "audio", "labels") for r in one["result"])
    assert one["model_version"] == found["model_version"]
    # Label Studio reads its own format back, and so does this package.
    back = read(json.dumps([{"data": {"audio": "a"}, "predictions": [one]}]).encode())
    assert [(s.start, s.end) for s in tier_segments(back.tiers[0])] == [(s.start, s.end) for s in SEGMENTS]


def test_the_regions_on_the_screen_come_first(service: Client) -> None:
    context = {"context": {"result": regions(3, labelled=False)}}
    found = predict(service, task(annotations=[{"result": regions()}]), params=context)
    assert len(found["results"][0]["result"]) == 3


def test_a_transcript_is_aligned_and_sound_alone_recognised(service: Client) -> None:
    said = {"sound": "/data/upload/1/0a1b2c3d-talk.flac", "transcript": "in being comparatively modern"}
    aligned, heard = predict(service, {"data": said}, task())["results"]
    direct = service.post("/align", files={"audio": AUDIO}, data={"text": said["transcript"]}).json()["segments"]
    assert [r["value"]["start"] for r in aligned["result"]] == [s["start"] for s in direct]
    assert len(heard["result"]) > 5


def test_a_sound_inside_the_task_needs_no_label_studio(client: Client) -> None:
    uri = f"data:audio/flac;base64,{base64.b64encode(AUDIO).decode()}"
    found = predict(client, {"data": {"sound": uri}, "annotations": [{"result": regions(labelled=False)}]})
    assert len(found["results"][0]["result"]) == len(SEGMENTS)
    body = {"tasks": [task()], "label_config": CONFIG}
    refused = client.post("/label-studio/predict", json=body)
    assert (refused.status_code, "PHONECHAIN_LABEL_STUDIO" in refused.text) == (422, True)


@pytest.mark.parametrize(
    "address",
    [
        "http://169.254.169.254/latest/meta-data",
        "http://127.0.0.1:1/x",
        "file:///etc/passwd",
        "//evil.example/x",
        7,
        "",
    ],
)
def test_nothing_but_label_studio_is_asked(service: Client, studio: FakeLabelStudio, address: Any) -> None:
    before = len(studio.asked)
    body = {"tasks": [{"data": {"sound": address}}], "label_config": CONFIG}
    refused = service.post("/label-studio/predict", json=body)
    assert refused.status_code == 422, refused.text
    assert len(studio.asked) == before


def test_one_bad_task_does_not_cost_the_others(service: Client) -> None:
    found = predict(service, task(data={"sound": ""}), task(annotations=[{"result": regions(labelled=False)}]))
    assert [len(r["result"]) for r in found["results"]] == [0, len(SEGMENTS)]


@pytest.mark.parametrize(
    "config",
    [
        "",
        "<View>",
        "<View/>",
        '<!DOCTYPE x [<!ENTITY a "b">]><View>&a;</View>',
        "<View><Labels name='l' toName='t'/></View>",
    ],
)
def test_an_interface_without_labels_on_sound_is_refused(service: Client, config: str) -> None:
    refused = service.post("/label-studio/predict", json={"tasks": [task()], "label_config": config})
    assert (refused.status_code, refused.json()["pointer"]) == (422, "#/label_config")


def test_finished_tasks_are_trained_on(service: Client, studio: FakeLabelStudio) -> None:
    event = {"action": "START_TRAINING", "project": {"id": 7, "title": "My project", "label_config": CONFIG}}
    started = service.post("/label-studio/webhook", json=event)
    assert started.status_code == 201, started.text
    assert any(path.startswith("/api/projects/7/export?exportType=JSON") for path in studio.asked)
    job = service.get(f"/jobs/{started.json()['job']}").json()
    corpus = service.get(f"/corpora/{job['request']['corpus']}").json()
    assert (corpus["name"], corpus["utterances"], corpus["segments"]) == ("My project", 2, 2 * len(SEGMENTS))
    job = wait_for_end(service, job)
    assert job["state"] == "succeeded", job
    assert job["result"]["name"] == "label-studio-7"


def test_other_events_change_nothing(service: Client) -> None:
    before = service.get("/jobs").json()
    event = {"action": "ANNOTATION_CREATED", "project": {"id": 7, "label_config": CONFIG}, "task": {}, "annotation": {}}
    answer = service.post("/label-studio/webhook", json=event)
    assert (answer.status_code, answer.json()["status"]) == (200, "ignored")
    assert service.get("/jobs").json() == before


def test_a_project_without_finished_tasks_is_refused(service: Client) -> None:
    config = CONFIG.replace('name="labels"', 'name="others"')
    event = {"action": "START_TRAINING", "project": {"id": 7, "label_config": config}}
    refused = service.post("/label-studio/webhook", json=event)
    assert (refused.status_code, "got none in 4 tasks" in refused.text) == (422, True)


def test_label_studio_shows_its_key_as_a_password(tmp_path: Any) -> None:
    key = "an admin key of the tests"
    with serving(create_app(Settings(data=tmp_path, workers=1, admin_key=SecretStr(key)))) as client:
        path = "/label-studio/setup"
        body = {"project": "1", "schema": CONFIG}
        assert client.post(path, json=body).status_code == 401
        for password, status in ((key, 200), ("wrong", 401)):
            basic = base64.b64encode(f"anyone:{password}".encode()).decode()
            assert client.post(path, json=body, headers={"Authorization": f"Basic {basic}"}).status_code == status
        assert client.post(path, json=body, headers={"Authorization": "Basic ?"}).status_code == 401


def test_predictions_satisfy_label_studios_own_check(service: Client) -> None:
    """label-studio-sdk (2.0.19) knows which predictions an interface accepts; no extra brings its fifty dependencies."""
    interface = pytest.importorskip("label_studio_sdk.label_interface").LabelInterface
    config = CONFIG.replace('<Label value="XX"/>', "".join(f'<Label value="{s.label}"/>' for s in SEGMENTS))
    body = {"tasks": [task(annotations=[{"result": regions(labelled=False)}])], "label_config": config}
    (one,) = service.post("/label-studio/predict", json=body).json()["results"]
    assert one["result"]
    assert interface(config).validate_prediction(one, return_errors=True) == []
    wrong = json.loads(json.dumps(one))
    wrong["result"][0]["from_name"] = "nobody"
    assert interface(config).validate_prediction(wrong, return_errors=True) != []
