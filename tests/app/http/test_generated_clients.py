"""Clients that generators make from /openapi.json: each calls every route of a live service."""

from __future__ import annotations

import base64
import importlib
import io
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from phonechain.app import samples
from phonechain.app.models.catalog import Registry
from phonechain.model import pretrained_path
from tests.app.live import listening
from tests.app.storage.test_references import archive

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
TOOLS = ROOT / ".venv" / "clients"
PYTHON = "openapi-python-client==0.29.1"
TYPESCRIPT = ("openapi-typescript@7.13.0", "openapi-fetch@0.14.0", "typescript@5.9.3")
ADMIN = "admin-key-of-this-test"
METHODS = ("get", "post", "put", "patch", "delete")


def run(*command: str | Path, cwd: Path | None = None) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=900, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def port(registry: Registry, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with listening(registry, data=tmp_path_factory.mktemp("generated"), workers=1, admin_key=ADMIN) as found:
        yield found


@pytest.fixture(scope="module")
def document(port: int, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("document") / "openapi.json"
    path.write_text(httpx.get(f"http://127.0.0.1:{port}/openapi.json", timeout=60).text)
    return path


def operations(document: Path) -> dict[str, str]:
    """The name of every operation, by method and path."""
    described = json.loads(document.read_text())["paths"]
    return {
        f"{method.upper()} {path}": operation["operationId"]
        for path, here in described.items()
        for method, operation in here.items()
        if method in METHODS
    }


def test_python(port: int, document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not (TOOLS / "bin" / "openapi-python-client").exists():
        run(sys.executable, "-m", "venv", TOOLS)
        run(TOOLS / "bin" / "pip", "install", "-q", PYTHON)
    out = tmp_path / "generated_client"
    said = run(
        TOOLS / "bin" / "openapi-python-client", "generate", "--path", document, "--output-path", out, "--meta", "none"
    )
    assert "Unable to parse" not in said
    monkeypatch.syspath_prepend(str(tmp_path))
    models, types = (
        importlib.import_module("generated_client.models"),
        importlib.import_module("generated_client.types"),
    )
    client = importlib.import_module("generated_client").AuthenticatedClient(
        f"http://127.0.0.1:{port}", token=ADMIN, timeout=httpx.Timeout(300)
    )
    names = operations(document)
    called: set[str] = set()

    def call(name: str, /, *args: Any, status: int | None = 200, **more: Any) -> Any:
        tag = next(path.parent.name for path in (out / "api").rglob(f"{name}.py"))
        module = importlib.import_module(f"generated_client.api.{tag}.{name}")
        answer = module.sync_detailed(*args, client=client, **more)
        assert status is None or answer.status_code == status, (name, answer.content)
        assert answer.status_code < 500, (name, answer.content)
        called.add(name)
        return answer.parsed

    def file(path: Path) -> Any:
        return types.File(payload=io.BytesIO(path.read_bytes()), file_name=path.name)

    def bytes_of(data: bytes) -> Any:
        return types.File(payload=io.BytesIO(data), file_name="x", mime_type="application/octet-stream")

    sound, annotation = samples.AUDIO, samples.SEGMENTS
    by_form = call("classify", body=models.ClassifyFilesBody(audio=file(sound), segments=file(annotation)))
    segments = [models.SegmentIn(start=s.start, end=s.end, label=s.given) for s in by_form.segments]
    body = models.ClassifyBody(audio=base64.b64encode(sound.read_bytes()).decode(), segments=segments)
    by_json = call("classify", body=body)
    assert [s.label for s in by_form.segments] == [s.label for s in by_json.segments]
    transcript = types.File(payload=io.BytesIO(b"in being comparatively modern."), file_name="t.txt")
    assert call("align", body=models.AlignFilesBody(audio=file(sound), transcript=transcript)).words
    call("recognize", body=models.RecognizeFilesBody(audio=file(sound)))
    corpus = call("create_corpus", body=bytes_of(archive("generated")), status=201)
    assert call("list_corpora").corpora[0].id == call("get_corpus", corpus.id).id == corpus.id
    call("get_corpus_summary", corpus.id)
    call("get_corpus_sound", corpus.id, utterance="u")
    call("get_presets")
    job = call("create_job", body=models.LabelJob(corpus=corpus.id, kind="label"), idempotency_key="g", status=202)
    limit = time.monotonic() + 300
    while call("get_job", job.id).state in ("queued", "running"):
        assert time.monotonic() < limit
        time.sleep(0.5)
    assert call("list_jobs").jobs[0].state == "succeeded"
    assert "event: state" in call("list_job_events", job.id)
    assert call("list_job_errors", job.id).errors == []
    assert call("get_job_result", job.id).payload.read(2) == b"PK"
    for what in ("get_job_evaluation", "get_job_segments"):
        call(what, job.id, status=None)  # 409: it was no evaluation
    call("cancel_job", job.id, status=202)
    call("delete_job", job.id, status=204)
    made = call("create_model", body=bytes_of(pretrained_path().read_bytes()), name="generated", status=201)
    assert call("get_model", "generated").version == made.version
    assert call("get_model_file", "generated").payload.read() == pretrained_path().read_bytes()
    call("set_alias", "g", body=models.PointAlias(model="generated"))
    assert call("list_aliases").aliases[0].alias == "g"
    assert "generated" in [model.name for model in call("list_models").models]
    call("delete_alias", "g", status=204)
    call("delete_model", f"generated@{made.version}", status=204)
    review = call("create_review", body=models.NewReview(name="r"), status=201).id
    call("change_review", review, body=models.NewReview(name="s"))
    assert call("list_reviews").reviews[0].id == call("get_review", review).id
    files = models.CreateReviewFileFilesBody(audio=file(sound), segments=file(annotation))
    number = call("create_review_file", review, body=files, status=201).number
    stored = models.StoredFile(corpus=corpus.id, place=0)
    call("create_review_file", review, body=stored, status=201)
    call("get_review_file", review, number)
    first = call("get_review_file_segments", review, number).segments[0]
    for what in ("answer", "sound", "peaks", "annotation"):
        call(f"get_review_file_{what}", review, number)
    accept = models.AcceptOperation(op="accept", file=number, segment=first[0])
    call("create_review_operation", review, body=models.Operations(revision=0, operations=[accept]))
    assert call("list_review_operations", review).operations
    call("get_review_annotations", review)
    for what in ("get_review_next", "get_review_trainings"):
        call(what, review)
    call("delete_corpus", call("create_review_corpus", review, status=201).id, status=204)
    call("delete_review", review, status=204)
    call("delete_corpus", corpus.id, status=204)
    key = call("create_key", body=models.NewKey(name="k", scopes=[models.NewKeyScopesItem("read")]), status=201)
    assert key.id in [one.id for one in call("list_keys").keys]
    call("delete_key", key.id, status=204)
    call("get_label_studio_health")
    call(
        "setup_label_studio",
        body=models.Setup.from_dict({"project": "1", "label_config": "", "schema": ""}),
        status=None,
    )
    predict = {"project": "1", "label_config": "<View></View>", "tasks": []}
    call("predict_label_studio", body=models.Predict.from_dict(predict), status=None)
    call(
        "webhook_label_studio", body=models.Webhook(action="PROJECT_UPDATED", project=models.Project(id=1)), status=None
    )
    for name in ("get_health_live", "get_health_ready", "get_metrics", "list_problems"):
        call(name)
    call("get_problem", "audio")
    missing = call("get_job", "none", status=404)
    assert missing.type_ == "/problems/job-unknown"
    assert called == set(names.values()), set(names.values()) - called


@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
def test_typescript(port: int, document: Path, tmp_path: Path) -> None:
    tools = TOOLS / "npm"
    if not (tools / "node_modules" / "openapi-fetch").is_dir():
        tools.mkdir(parents=True, exist_ok=True)
        run("npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", tools, *TYPESCRIPT)
    (tmp_path / "node_modules").symlink_to(tools / "node_modules")
    (tmp_path / "package.json").write_text('{"type": "module"}')
    shutil.copy(Path(__file__).with_name("generated.ts"), tmp_path / "main.ts")
    run("npx", "openapi-typescript", document, "-o", tmp_path / "schema.ts", cwd=tmp_path)
    options = (
        "--strict",
        "--target",
        "es2022",
        "--module",
        "nodenext",
        "--lib",
        "es2022,dom,dom.iterable",
        "--skipLibCheck",
    )
    run("npx", "tsc", *options, "--outDir", tmp_path / "out", tmp_path / "main.ts", cwd=tmp_path)
    (tmp_path / "out" / "package.json").write_text('{"type": "module"}')
    (tmp_path / "a.zip").write_bytes(archive("typescript"))
    paths = (samples.AUDIO, samples.SEGMENTS, tmp_path / "a.zip", pretrained_path())
    out = json.loads(run("node", tmp_path / "out" / "main.js", f"http://127.0.0.1:{port}", ADMIN, *paths, cwd=tmp_path))
    excused = ("/evaluation", "/segments", "/label-studio/")  # of other jobs, and of a Label Studio that is not there
    wrong = [(call, status) for call, status in out["calls"] if status >= 400 and not any(e in call for e in excused)]
    assert not wrong
    called = {call for call, _ in out["calls"]}
    assert called == set(operations(document)), set(operations(document)) ^ called
