"""What a client asks and how often, apart from whether it waits or is awaited.

Each function here is a generator: it yields a `Call` and gets the answer, or yields seconds to wait, and returns what the
caller wants. `sync.py` and `asynchronous.py` run the same generators.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx

from phonechain.features.errors import PhonechainError

T = TypeVar("T")

TRIES = 6
REFUSED = 3
"""Times that an address where nobody listens is tried: a service may just be starting again."""
BUSY = (429, 502, 503, 504)
"""Answers that say to ask again: the request was not carried out."""
LONGEST = 30.0
"""Seconds that are waited at most before asking again."""
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


@dataclass(frozen=True, slots=True)
class Call:
    """One request; `more` are arguments of httpx's `build_request`, `file` is a file that is sent as the body."""

    method: str
    path: str
    more: dict[str, Any] = field(default_factory=dict)
    file: Path | None = None


Answers = Generator[Call | float, httpx.Response, T]


def ask(call: Call, *, again: bool) -> Answers[httpx.Response]:
    """The answer to a call. A service that is busy is asked again after the seconds that it names; where `again` says that
    a repetition does no harm, also one that did not answer.

    Raises:
        httpx.TransportError.
    """
    for n in range(TRIES):
        last = n == TRIES - 1
        try:
            answer = yield call
        except httpx.TransportError as error:
            if last or not again or (isinstance(error, httpx.ConnectError) and n >= REFUSED - 1):
                raise
            yield min(LONGEST, 0.25 * 2**n)
            continue
        if answer.status_code not in BUSY or last:
            return answer
        yield min(LONGEST, retry_seconds(answer, 0.5 * 2**n))
    raise AssertionError("the loop returns")


def retry_seconds(answer: httpx.Response, otherwise: float) -> float:
    """What the header Retry-After names."""
    try:
        return max(0.0, float(answer.headers["retry-after"]))
    except (KeyError, ValueError):
        return otherwise


def check_response(answer: httpx.Response) -> httpx.Response:
    """The answer. Raises RemoteError for a refusal."""
    if answer.status_code >= 400:
        try:
            problem = answer.json()
        except ValueError:
            problem = {}
        raise RemoteError(answer.status_code, problem if isinstance(problem, dict) else {})
    return answer


def ask_json(
    method: str, path: str, *, again: bool = True, file: Path | None = None, **more: Any
) -> Answers[dict[str, Any]]:
    """The JSON object that a call is answered with. Raises RemoteError."""
    body: dict[str, Any] = check_response((yield from ask(Call(method, path, more, file), again=again))).json()
    return body


def start_job(asked: Mapping[str, Any], key: str | None) -> Answers[dict[str, Any]]:
    """Start a job, once, however often the request has to be sent."""
    headers = {"Idempotency-Key": key or str(uuid.uuid4())}
    return (yield from ask_json("POST", "/jobs", json=dict(asked), headers=headers))


def send_file(path: str, file: str | Path, params: Mapping[str, Any]) -> Answers[dict[str, Any]]:
    """Send a file as the body."""
    headers = {"Content-Type": "application/octet-stream"}
    given = {name: value for name, value in params.items() if value is not None}
    return (yield from ask_json("POST", path, again=False, file=Path(file), params=given, headers=headers))


def send_form(path: str, parts: Mapping[str, Any], options: Mapping[str, Any]) -> Answers[httpx.Response]:
    """Send a form: `parts` are files (a path, or bytes) or, for `segments`, a list of segments."""
    files = {name: _form_part(name, value) for name, value in parts.items() if value is not None}
    params = {name: value for name, value in options.items() if value is not None}
    answer = yield from ask(Call("POST", path, {"files": files, "params": params}), again=True)
    return check_response(answer)


def _form_part(name: str, value: Any) -> tuple[str, bytes]:
    if isinstance(value, bytes):
        return name, value
    if isinstance(value, str | Path):
        return Path(value).name, Path(value).read_bytes()
    if isinstance(value, Sequence):
        return f"{name}.json", json.dumps(list(value)).encode()
    raise TypeError(f"{name}: expected a path, bytes or a list of segments, got {type(value).__name__}")


class EventParser:
    """Server-sent events, line by line, as plain values with their `number` and `type`."""

    def __init__(self) -> None:
        self._number, self._kind, self._data = 0, "message", ""

    def parse_line(self, line: str) -> dict[str, Any] | None:
        """The event that this line ends, if it ends one."""
        name, _, value = line.partition(": ")
        if name == "id":
            self._number = int(value)
        elif name == "event":
            self._kind = value
        elif name == "data":
            self._data += value
        elif not line and self._data:
            event = {**json.loads(self._data), "number": self._number, "type": self._kind}
            self._kind, self._data = "message", ""
            return event
        return None


def parse_events(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Server-sent events out of lines of text."""
    parser = EventParser()
    for line in lines:
        if (event := parser.parse_line(line)) is not None:
            yield event


class Subscription:
    """How a job's events are followed: what was seen, and when to give up."""

    def __init__(self, id: str, after: int) -> None:
        self.path, self.after = f"/jobs/{id}/events", after
        self.failures = 0
        self.over = False
        self._quiet = 0

    @property
    def headers(self) -> dict[str, str]:
        """By which the stream goes on after the last event."""
        return {"Last-Event-ID": str(self.after)}

    def record_event(self, event: Mapping[str, Any]) -> None:
        """An event came."""
        self.failures, self.after, self._quiet = 0, int(event["number"]), 0
        self.over = event.get("state") in TERMINAL

    def is_idle(self) -> bool:
        """Whether two whole streams in a row brought nothing, of a job that has ended."""
        self._quiet += 1
        return self._quiet > 1

    def record_failure(self, error: Exception) -> float:
        """Seconds to wait after a stream that broke or was refused. Raises the error where it is no use."""
        self.failures += 1
        if self.failures > TRIES or (isinstance(error, RemoteError) and error.status not in BUSY):
            raise error
        return min(5.0, 0.5 * 2**self.failures)


def split_page(member: str, page: Mapping[str, Any]) -> tuple[list[dict[str, Any]], str | None]:
    """(the entries of a page, the cursor of the next)."""
    return list(page[member]), page["next"]


def read_chunks(file: Path, size: int = 1 << 20) -> Iterator[bytes]:
    """The bytes of a file."""
    with file.open("rb") as handle:
        while data := handle.read(size):
            yield data
