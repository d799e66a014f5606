"""What an operator sees: metrics, readiness, the log, limits of rate, traces."""

from __future__ import annotations

import contextlib
import json
import logging
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from phonechain.app.http.rates import Buckets
from phonechain.app.main import create_app
from phonechain.app.models.catalog import Registry
from phonechain.app.ops import logs, tracing
from phonechain.app.ops.metrics import METHODS
from phonechain.app.ops.tracing import Tracing
from phonechain.app.settings import Settings
from tests.app.conftest import DURATION, Client, serving
from tests.app.live import connect, listening, read_once

Serve = Callable[..., Any]
ADMIN = "0123456789abcdef-admin"


def metrics(client: Client, **more: Any) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Every sample by its name and labels."""
    answer = client.get("/metrics", **more)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    families = text_string_to_metric_families(answer.text)
    return {(s.name, frozenset(s.labels.items())): s.value for family in families for s in family.samples}


def value(found: dict[tuple[str, frozenset[tuple[str, str]]], float], metric: str, /, **labels: str) -> float:
    return found.get((f"phonechain_{metric}", frozenset(labels.items())), 0.0)


@contextmanager
def logged(form: logging.Formatter, name: str = "phonechain.access") -> Iterator[list[str]]:
    """The lines of one logger as they are written."""
    lines: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(self.format(record))

    handler, log = Keep(), logging.getLogger(name)
    handler.setFormatter(form)
    before = log.level
    log.setLevel(logging.INFO)
    log.addHandler(handler)
    try:
        yield lines
    finally:
        log.removeHandler(handler)
        log.setLevel(before)


# ----------------------------------------------------------------------------------------------------------- metrics


def test_what_a_request_adds(client: Client) -> None:
    before = metrics(client)
    segments = len(client.classify().json()["segments"])
    after = metrics(client)

    def more(metric: str, /, **labels: str) -> float:
        return value(after, metric, **labels) - value(before, metric, **labels)

    assert more("http_requests_total", route="/classify", method="POST", status="200") == 1
    assert more("http_request_duration_seconds_count", route="/classify", method="POST") == 1
    assert more("segments_labelled_total") == segments
    assert more("audio_decoded_seconds_total") == pytest.approx(DURATION, abs=1e-3)
    assert more("batch_utterances_sum") == 1
    assert more("batch_segments_sum") == segments
    assert value(after, "http_requests_in_flight") == 1, "the one that reads the metrics"
    assert (value(after, "queue_limit"), value(after, "queue_taken"), value(after, "queue_depth")) == (64, 0, 0)


def test_models_and_jobs(client: Client, registry: Registry) -> None:
    found = metrics(client)
    assert value(found, "model_loaded", name="default", version=registry.get("default").version) == 1
    states = {dict(labels)["state"] for name, labels in found if name == "phonechain_jobs"}
    assert states == {"queued", "running", "cancelling", "succeeded", "failed", "cancelled"}


def test_jobs_are_counted(serve: Serve, tmp_path: Path) -> None:
    from phonechain.app.jobs import repository
    from phonechain.app.storage.tables import Job

    with serve(data=tmp_path) as client:
        assert client.get("/jobs").status_code == 200  # now there is a database
        with client.app.state.services.workspace.db.write() as session:
            for n in range(3):
                job = Job(id=f"j{n}", kind="label", spec={"total": 0, "part": 1})
                repository.add(session, job)
                job.state = "succeeded" if n else "failed"
        found = metrics(client)
    assert value(found, "jobs", state="succeeded") == 2
    assert value(found, "jobs", state="failed") == 1


def test_labels_have_few_values(client: Client) -> None:
    metrics(client)  # so that these requests are counted already
    before = metrics(client)
    for n in range(30):
        client.get(f"/nothing/{n}")
        client.get(f"/jobs/{n}")
        client.request(f"VERB{n}", "/classify")
    new = {(name, labels) for name, labels in set(metrics(client)) - set(before) if name.endswith("requests_total")}
    assert len(new) <= 3, new
    found = metrics(client)
    assert value(found, "http_requests_total", route="none", method="GET", status="404") >= 30
    assert value(found, "http_requests_total", route="/jobs/{id}", method="GET", status="404") >= 30
    routes = set(paths(client.app.routes))
    assert {"/classify", "/jobs/{id}", "/page/{path}"} <= {route.replace(":path}", "}") for route in routes}
    routes |= {route.replace(":path}", "}") for route in routes}
    for _, labels in found:
        known = dict(labels)
        assert known.get("route", "none") in routes | {"none"}
        assert known.get("method", "other") in METHODS | {"other"}


def paths(routes: Iterable[Any]) -> Iterator[str]:
    """The address of each route, those of included routers too, whether or not they are described."""
    for route in routes:
        if hasattr(route, "path"):
            yield route.path
        elif hasattr(route, "original_router"):
            yield from paths(route.original_router.routes)


def test_openmetrics_for_those_who_prefer_it(client: Client) -> None:
    answer = client.get("/metrics", headers={"accept": "application/openmetrics-text;version=1.0.0"})
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert answer.text.endswith("# EOF\n")


@pytest.mark.parametrize(("who", "bare", "with_key"), [("open", 200, 200), ("key", 401, 200), ("off", 404, 404)])
def test_who_may_read_them(serve: Serve, who: str, bare: int, with_key: int) -> None:
    with serve(metrics=who, admin_key=ADMIN) as client:
        assert client.get("/metrics").status_code == bare
        assert client.get("/metrics", headers={"authorization": f"Bearer {ADMIN}"}).status_code == with_key


def test_refusals_are_counted_by_type(serve: Serve) -> None:
    with serve(queue_size=1) as client:
        client.app.state.services.shared.in_progress[0] = 1
        refused = client.classify()
        client.app.state.services.shared.in_progress[0] = 0
        found = metrics(client)
    assert refused.status_code == 503
    assert refused.headers["retry-after"] == "1"
    assert value(found, "problems_total", type="overloaded") == 1
    assert value(found, "problems_total", type="rate-limit") == 0


# --------------------------------------------------------------------------------------------------------- readiness


def test_a_scheduler_that_is_away(serve: Serve, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        with serve(scheduler=address, data=tmp_path) as client:
            answer = client.get("/health/ready")
            assert client.get("/health/live").status_code == 200
            assert client.classify().status_code == 200
            assert answer.status_code == 503
            problem = answer.json()
            assert problem["type"] == "/problems/not-ready"
            assert problem["parts"]["models"] == problem["parts"]["database"] == "ready"
            assert "scheduler: " in problem["detail"]
            taken.listen()
            assert client.get("/health/ready").status_code == 200


def test_a_database_that_hangs_is_not_waited_for(serve: Serve, tmp_path: Path) -> None:
    """A listener that never says a word is what a database behind a broken network looks like."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"postgresql://nobody@127.0.0.1:{silent.getsockname()[1]}/none"
        with serve(database=url, data=tmp_path, ready_timeout=0.3) as client:
            with ThreadPoolExecutor(8) as pool:
                answers = list(pool.map(lambda _: client.get("/health/ready"), range(16)))
            assert sum(thread.name.startswith("ready") for thread in threading.enumerate()) <= 2
        silent.setblocking(False)
        asked = 0
        with contextlib.suppress(BlockingIOError):
            while True:
                silent.accept()[0].close()
                asked += 1
        assert asked <= 2, "the question is put once, however many wait for its answer"
    assert {a.status_code for a in answers} == {503}
    assert answers[0].json()["parts"]["database"] == "no answer within 0.3 s"


# ----------------------------------------------------------------------------------------------------------- the log


def test_a_request_is_one_line(client: Client) -> None:
    with logged(logs.Json()) as lines:
        answer = client.get("/reviews/none?secret=hunter2", headers={"x-request-id": "my.id-7"})
    assert answer.headers["x-request-id"] == answer.json()["request_id"] == "my.id-7"
    assert len(lines) == 1
    line = json.loads(lines[0])
    assert {**line, "time": "", "ms": 0} == {
        "time": "",
        "level": "info",
        "logger": "phonechain.access",
        "message": line["message"],
        "request_id": "my.id-7",
        "method": "GET",
        "route": "/reviews/{id}",
        "status": 422,
        "ms": 0,
        "problem": "request-invalid",
        "client": "127.0.0.1",
    }
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"])
    assert "hunter2" not in lines[0]


@pytest.mark.parametrize("asked", ["", "a b", "x" * 65, "é", 'a"b', "{}"])
def test_an_id_that_is_not_plain_is_replaced(client: Client, asked: str) -> None:
    with logged(logs.Text()) as lines:
        known = client.get("/nope", headers={"x-request-id": asked.encode()}).json()["request_id"]
    assert re.fullmatch("[0-9a-f]{32}", known)
    assert f"request_id={known}" in lines[0]
    assert re.search(r"INFO    access: GET none 404 [\d.]+ ms request_id=", lines[0])


def test_a_fault_has_its_request_in_the_log(registry: Registry) -> None:
    app = create_app(None, registry)

    @app.get("/fault")
    def fault() -> None:
        raise RuntimeError("Authorization: Bearer pc_00000000000000000000000000_verysecret123")

    with serving(app) as client, logged(logs.Json()) as lines:
        answer = client.get("/fault")
    assert answer.status_code == 500
    assert answer.json()["type"] == "/problems/internal"
    first, second = map(json.loads, lines)
    assert first["level"] == "error"
    assert "RuntimeError" in first["exception"]
    assert second["status"] == 500
    assert first["request_id"] == second["request_id"] == answer.json()["request_id"]
    assert "verysecret" not in "".join(lines)


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("Authorization: Bearer abcdef.ghi", "abcdef"),
        ("key pc_01jx0000000000000000000000_Zm9v-YmFy_x is wrong", "Zm9v"),
        ("postgresql://phone:hunter2@db/x does not answer", "hunter2"),
        ("the secret whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw=", "MfKQ9"),
    ],
)
def test_secrets_are_struck(text: str, secret: str) -> None:
    record = logging.LogRecord("app", logging.ERROR, "x", 1, "%s", (text,), None)
    for form in (logs.Text(), logs.Json()):
        assert secret not in form.format(record)
        assert "***" in form.format(record)


def test_a_message_cannot_forge_lines() -> None:
    record = logging.LogRecord("app", logging.INFO, "x", 1, "a\nb\r2026 ERROR c", (), None)
    assert "\n" not in logs.Text().format(record)
    assert "\n" not in logs.Json().format(record)


FORGED = "x\n2026-01-01 00:00:00.000 INFO    access: GET / 200\x1b[2K\u2028\u202e\x85 status=200 key=admin"


def test_what_others_send_cannot_forge_lines_or_fields() -> None:
    """In a message, a field and the text of an exception."""
    try:
        raise ValueError(FORGED)
    except ValueError:
        fault = sys.exc_info()
    record = logging.LogRecord("app", logging.INFO, "x", 1, "label %s", (FORGED,), fault)
    record.facts = {"client": FORGED, "status": 404}
    text, line = logs.Text().format(record), logs.Json().format(record)
    for one in (text.replace("\n", ""), line):
        assert not re.search("[\x00-\x1f\x7f-\x9f\u2028\u202e]", one)
    assert len(line.splitlines()) == 1
    assert json.loads(line)["client"] == json.loads(line)["message"].removeprefix("label ") == FORGED
    first, *others = text.split("\n")
    assert all(other.startswith(logs.INDENT) for other in others)
    outside = re.sub(r'"(\\.|[^"\\])*"', '""', first.partition("label ")[2].partition(" client=")[2])
    assert outside == " status=404" or outside == '"" status=404'


def test_a_forwarded_address_cannot_forge_a_field(registry: Registry, tmp_path: Path) -> None:
    """Whoever asks over loopback may send X-Forwarded-For."""
    with listening(registry, data=tmp_path) as port, logged(logs.Text()) as lines, connect(port) as connection:
        connection.sendall(
            b"GET /nope HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 1.2.3.4 key=admin status=200\r\n\r\n"
        )
        read_once(connection)
        deadline = time.monotonic() + 60  # the line is written once the answer has gone
        while not (found := [line for line in lines if "GET none" in line]):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        line = found[0]
    assert " key=admin" not in re.sub(r'"[^"]*"', "", line)


def test_a_warning_that_comes_every_second_is_one_line_a_minute() -> None:
    now = [0.0]
    once = logs.Repeats(60.0, clock=lambda: now[0])

    def passes(text: str, level: int = logging.WARNING) -> str | None:
        record = logging.LogRecord("phonechain.app.jobs", level, "x", 1, "waits: %s", (text,), None)
        return record.getMessage() if once.filter(record) else None

    said = []
    for second in range(70):
        now[0] = float(second)
        said.append(passes("a"))
    assert [line for line in said if line] == ["waits: a", "waits: a (59 times more since the last line)"]
    assert passes("b") == "waits: b"
    assert passes("a", logging.ERROR) == passes("a", logging.ERROR) == "waits: a"


# -------------------------------------------------------------------------------------------------------------- rate


def test_a_bucket_fills_with_time() -> None:
    now = [0.0]
    buckets = Buckets(60, memoryview(bytearray(1 << 10)), clock=lambda: now[0])
    assert [buckets.take("a")[0] for _ in range(61)] == [True] * 60 + [False]
    assert buckets.take("b") == (True, 59.0)
    now[0] = 0.5
    assert buckets.take("a") == (False, 0.5)
    now[0] = 1.0
    assert buckets.take("a") == (True, 0.0)
    now[0] = 1e6
    assert buckets.take("a") == (True, 59.0), "never more than a minute's worth"


def test_by_address_without_keys(serve: Serve) -> None:
    with serve(rate_limit=3) as client:
        answers = [client.get("/models") for _ in range(5)]
        assert client.get("/health/ready").status_code == 200
        found = metrics(client)
    assert [a.status_code for a in answers] == [200, 200, 200, 429, 429]
    assert answers[0].headers["ratelimit-policy"] == '"requests";q=3;w=60'
    assert answers[0].headers["ratelimit"] == '"requests";r=2;t=20'
    last = answers[-1]
    assert last.json()["type"] == "/problems/rate-limit"
    assert last.json()["limit"] == 3
    assert last.json()["request_id"] == last.headers["x-request-id"]
    assert 1 <= int(last.headers["retry-after"]) <= 20
    assert value(found, "problems_total", type="rate-limit") == 2


def test_by_key(serve: Serve, tmp_path: Path) -> None:
    with serve(rate_limit=4, admin_key=ADMIN, data=tmp_path) as client:
        admin = {"authorization": f"Bearer {ADMIN}"}
        made = client.post("/keys", json={"name": "a", "scopes": ["read"]}, headers=admin)
        other = {"authorization": f"Bearer {made.json()['key']}"}
        statuses = [client.get("/models", headers=admin).status_code for _ in range(4)]
        assert statuses == [200, 200, 200, 429]
        assert [client.get("/models", headers=other).status_code for _ in range(5)] == [200] * 4 + [429]


# ------------------------------------------------------------------------------------------------------------ traces


def test_a_request_is_a_span(registry: Registry, data: Path) -> None:
    trace = pytest.importorskip("opentelemetry.sdk.trace")
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), trace.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    with (
        serving(create_app(Settings(data=data), registry, Tracing(provider))) as client,
        logged(logs.Json()) as lines,
    ):
        client.get("/health/live?key=hunter2", headers={"traceparent": parent})
        client.get("/nope")
    first, second = exporter.get_finished_spans()
    assert first.name == "GET /health/live"
    assert first.attributes is not None
    assert first.attributes["http.response.status_code"] == 200
    assert first.attributes["http.route"] == "/health/live"
    assert format(first.context.trace_id, "032x") == "0af7651916cd43dd8448eb211c80319c"
    assert json.loads(lines[0])["trace_id"] == "0af7651916cd43dd8448eb211c80319c"
    assert second.name == "GET none"
    assert "hunter2" not in first.to_json()


def test_tracing_is_off_by_itself() -> None:
    assert Tracing.from_environment({})._tracer is None
    disabled = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"}
    assert Tracing.from_environment(disabled)._tracer is None


def test_a_missing_extra_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)  # as where it is not installed
    with logged(logs.Text(), "phonechain.app.ops.tracing") as lines:
        known = Tracing.from_environment({tracing.VARIABLES[0]: "http://127.0.0.1:4318"})
    assert known._tracer is None
    assert "pip install 'phonechain[otel]'" in lines[0]
