"""A client of the service, for programs and for the command line.

    with Client("http://127.0.0.1:8000", key="pc_...") as client:
        corpus = client.upload_corpus("my-corpus.zip")
        job = client.start(kind="label", corpus=corpus["id"])
        for event in client.events(job["id"]):
            print(event["progress"])
        client.result(job["id"], "labels.zip")

What the service is too busy for, or cannot do for the moment, is asked again after the seconds it names. A job is asked
for with an Idempotency-Key, so that asking again starts it once.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from phonechain.features.errors import PhonechainError
from phonechain.features.files import write_whole

TRIES = 6
CHUNK = 1 << 20
TERMINAL = ("succeeded", "failed", "cancelled")


class RemoteError(PhonechainError):
    """What the service refused: `problem` is its document, `status` the answer's status."""

    slug = "remote"

    def __init__(self, status: int, problem: dict[str, Any]) -> None:
        super().__init__(
            str(problem.get("detail") or problem.get("title") or f"expected an answer, got status {status}")
        )
        self.status = status
        self.problem = problem


class Unreachable(PhonechainError):
    """Nobody answers at the address."""

    slug = "unreachable"


class Client:
    """Requests to one service. Raises RemoteError for what it refuses, Unreachable where nobody answers."""

    def __init__(
        self, url: str, *, key: str | None = None, timeout: float = 60.0, http: httpx.Client | None = None
    ) -> None:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self.http = http if http is not None else httpx.Client(base_url=url, timeout=timeout)
        self.http.headers.update(headers)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    # --------------------------------------------------------------------------------------------------- corpora

    def upload_corpus(self, archive: str | Path, **options: Any) -> dict[str, Any]:
        """Send a zip or tar; `options` are those of the service: name, tier, table and others."""
        path = Path(archive)
        with path.open("rb") as file:
            # Sent once: what was read of a file cannot be sent again by itself.
            answer = self._once(
                "POST",
                "/corpora",
                params=options,
                content=_pieces(file),
                headers={"content-type": "application/octet-stream"},
            )
        return self._json(answer)

    def register_corpus(self, **place: Any) -> dict[str, Any]:
        """A `folder` or `url` that the service allows."""
        return self._json(self._ask("POST", "/corpora", json=place))

    def list_corpora(self) -> Iterator[dict[str, Any]]:
        """Every corpus, the newest first."""
        return self._pages("/corpora", "corpora", {})

    # ------------------------------------------------------------------------------------------------------ jobs

    def start(self, **asked: Any) -> dict[str, Any]:
        """Start a job: `kind`, `corpus` and the options of its kind."""
        key = str(uuid.uuid4())
        return self._json(self._ask("POST", "/jobs", json=asked, headers={"Idempotency-Key": key}))

    def job(self, id: str) -> dict[str, Any]:
        """A job as it is now."""
        return self._json(self._ask("GET", f"/jobs/{id}"))

    def list_jobs(self, **filters: Any) -> Iterator[dict[str, Any]]:
        """Jobs, the newest first; `state` and `kind` filter."""
        return self._pages("/jobs", "jobs", filters)

    def errors(self, id: str) -> Iterator[dict[str, Any]]:
        """The files of a job that could not be used."""
        return self._pages(f"/jobs/{id}/errors", "errors", {})

    def cancel(self, id: str) -> dict[str, Any]:
        """Ask a job to end."""
        return self._json(self._ask("POST", f"/jobs/{id}/cancel"))

    def events(self, id: str, after: int = 0) -> Iterator[dict[str, Any]]:
        """What happens to a job, until it has ended; a stream that breaks is taken up where it broke."""
        failures = 0
        while True:
            try:
                with self.http.stream(
                    "GET", f"/jobs/{id}/events", headers={"Last-Event-ID": str(after)}, timeout=httpx.Timeout(60.0)
                ) as answer:
                    if answer.status_code >= 400:
                        answer.read()
                        self._checked(answer)
                    for event in parsed(answer.iter_lines()):
                        failures, after = 0, event["number"]
                        yield event
                        if event.get("state") in TERMINAL:
                            return
            except httpx.TransportError as error:
                failures += 1
                if failures > TRIES:
                    raise self._unreachable(error) from None
            except RemoteError as error:
                failures += 1
                if error.status != 503 or failures > TRIES:
                    raise
            if self.job(id)["state"] in TERMINAL and not failures and not self._newer(id, after):
                return
            time.sleep(min(5.0, 0.5 * (1 + failures)))

    def _newer(self, id: str, after: int) -> bool:
        with self.http.stream("GET", f"/jobs/{id}/events", headers={"Last-Event-ID": str(after)}) as answer:
            return any(True for _ in parsed(answer.iter_lines()))

    def wait(self, id: str, every: float = 0.5) -> dict[str, Any]:
        """The job when it has ended."""
        while (job := self.job(id))["state"] not in TERMINAL:
            time.sleep(every)
        return job

    def result(self, id: str, out: str | Path, **options: Any) -> Path:
        """Write the result to a file, whole or not at all; `format` and `sort` are those of the service."""

        def fetch(spare: Path) -> None:
            with self._stream("GET", f"/jobs/{id}/result", params=options) as answer, spare.open("wb") as file:
                for chunk in answer.iter_bytes(CHUNK):
                    file.write(chunk)

        write_whole(out, fetch)
        return Path(out)

    # ------------------------------------------------------------------------------------------------------ models

    def list_models(self) -> dict[str, Any]:
        """The models and aliases."""
        return self._json(self._ask("GET", "/models"))

    def upload_model(self, file: str | Path, name: str | None = None) -> dict[str, Any]:
        """Put a model file on the versions."""
        headers = {"content-type": "application/octet-stream"}
        params = {"name": name} if name else {}
        return self._json(self._ask("POST", "/models", params=params, content=Path(file).read_bytes(), headers=headers))

    # ------------------------------------------------------------------------------------------------------ inside

    def _once(self, method: str, path: str, **more: Any) -> httpx.Response:
        try:
            return self.http.request(method, path, **more)
        except httpx.TransportError as error:
            raise self._unreachable(error) from None

    def _ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        for n in range(TRIES):
            answer = self._once(method, path, **more)
            if answer.status_code != 503 or n == TRIES - 1:
                return answer
            time.sleep(min(30.0, float(answer.headers.get("retry-after", 1))))
        raise AssertionError("the loop returns")

    def _json(self, answer: httpx.Response) -> dict[str, Any]:
        body: dict[str, Any] = self._checked(answer).json()
        return body

    def _checked(self, answer: httpx.Response) -> httpx.Response:
        if answer.status_code >= 400:
            try:
                problem = answer.json()
            except ValueError:
                problem = {}
            raise RemoteError(answer.status_code, problem if isinstance(problem, dict) else {})
        return answer

    @contextmanager
    def _stream(self, method: str, path: str, **more: Any) -> Iterator[httpx.Response]:
        try:
            with self.http.stream(method, path, **more) as answer:
                if answer.status_code >= 400:
                    answer.read()
                yield self._checked(answer)
        except httpx.TransportError as error:
            raise self._unreachable(error) from None

    def _pages(self, path: str, member: str, filters: dict[str, Any]) -> Iterator[dict[str, Any]]:
        cursor = None
        while True:
            params = {**filters, **({"cursor": cursor} if cursor else {})}
            page = self._json(self._ask("GET", path, params=params))
            yield from page[member]
            cursor = page["next"]
            if cursor is None:
                return

    def _unreachable(self, error: httpx.TransportError) -> Unreachable:
        return Unreachable(f"expected a service at {self.http.base_url}, got: {str(error) or type(error).__name__}")


def parsed(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    """Server-sent events as plain values, each with its `number` and `type`."""
    number, kind, data = 0, "message", ""
    for line in lines:
        field, _, value = line.partition(": ")
        if field == "id":
            number = int(value)
        elif field == "event":
            kind = value
        elif field == "data":
            data += value
        elif not line and data:
            yield {**json.loads(data), "number": number, "type": kind}
            kind, data = "message", ""


def _pieces(file: Any) -> Iterator[bytes]:
    while data := file.read(CHUNK):
        yield data
