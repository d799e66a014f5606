"""The log: lines for people, or one JSON object a line, on standard error. What belongs to a request has its id.

Keys, passwords in URLs and bearer tokens are removed from every line, wherever they come from; the line of a request
(app/http/gateway.py) has no query and no headers in the first place. What others have sent (names, addresses, labels, the
text of an exception) cannot pretend to be a line or a field: control characters and those that turn the direction of text
are escaped, a value with blanks is quoted, and a traceback is indented.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

request_id: ContextVar[str] = ContextVar("request_id", default="")
"""The id of the request that the running code serves; empty outside of one."""

_SECRETS = (
    (re.compile(r"\b(pc_[0-9a-z]+_)[\w-]{8,}"), r"\1***"),
    (re.compile(r"(?i)\b(bearer\s+)[^\s\"',]+"), r"\1***"),
    (re.compile(r"(://[^\s:/@]*:)[^\s/@]+@"), r"\1***@"),
    (re.compile(r"\b(whsec_)[\w+/=-]+"), r"\1***"),
)

_QUIET = {"uvicorn": logging.WARNING, "httpx": logging.WARNING, "httpcore": logging.WARNING, "alembic": logging.WARNING}
"""Loggers of libraries whose remarks are no news to whoever operates the service."""


_CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
_PLAIN = re.compile(r"[^\s\"=\\]+")
INDENT = "    "
"""Before each line of a traceback: a line of the log begins with its time."""


def escape(text: str) -> str:
    """`text` on one line, with what a terminal or a reader of lines would act upon as `\\u0000`."""
    return _CONTROL.sub(lambda found: {"\n": "\\n", "\r": "\\r"}.get(found[0], f"\\u{ord(found[0]):04x}"), text)


def format_field(value: Any) -> str:
    """A value as it stands behind `name=`: quoted unless it is one plain word."""
    shown = escape(str(value))
    return shown if _PLAIN.fullmatch(shown) else json.dumps(shown, ensure_ascii=False)


def redact(text: str) -> str:
    """`text` without what looks like a secret."""
    for pattern, instead in _SECRETS:
        text = pattern.sub(instead, text)
    return text


class _Formatter(logging.Formatter):
    def facts(self, record: logging.LogRecord) -> dict[str, Any]:
        """What was logged beside the message: `extra={"facts": {...}}`, and the request's id."""
        facts: dict[str, Any] = getattr(record, "facts", {})
        known = request_id.get()
        return {"request_id": known, **facts} if known else facts

    def trace(self, record: logging.LogRecord) -> str:
        return self.formatException(record.exc_info) if record.exc_info else ""


class Text(_Formatter):
    """`2026-01-31 12:00:00.123 INFO  access: message name=value ...`; a traceback follows on lines of its own."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line."""
        moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.created))
        name = record.name.removeprefix("phonechain.").removeprefix("app.")
        message = escape(record.getMessage())
        said = getattr(record, "said", ())  # facts that the message has already
        facts = "".join(f" {key}={format_field(value)}" for key, value in self.facts(record).items() if key not in said)
        line = f"{moment}.{int(record.msecs):03d} {record.levelname:<7} {name}: {message}{facts}"
        trace = self.trace(record)
        indented = "".join(f"\n{INDENT}{escape(one)}" for one in trace.split("\n")) if trace else ""
        return redact(line + indented)


class Json(_Formatter):
    """One object a line: `time` (UTC, RFC 3339), `level`, `logger`, `message`, then the facts; `exception` if any."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        fields: dict[str, Any] = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redact(record.getMessage()),
            **{key: redact(value) if isinstance(value, str) else value for key, value in self.facts(record).items()},
        }
        if trace := self.trace(record):
            fields["exception"] = redact(trace)
        # JSON escapes what is below a blank; the others may stand in text, which JSON's own escapes say as well.
        return _CONTROL.sub(lambda c: f"\\u{ord(c[0]):04x}", json.dumps(fields, ensure_ascii=False, default=str))


class Repeats(logging.Filter):
    """Lets the same warning through once in `every` seconds, with how often it came meanwhile.

    What waits for a database says so each second, to whom it may concern; one line a minute is enough for that.
    """

    def __init__(self, every: float = 60.0, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self.every, self._clock = every, clock
        self._seen: dict[tuple[str, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is to be written."""
        if record.levelno != logging.WARNING or request_id.get():
            return True
        key, now = (record.name, record.getMessage()), self._clock()
        then, count = self._seen.get(key, (float("-inf"), 0))
        if now - then < self.every:
            self._seen[key] = (then, count + 1)
            return False
        if len(self._seen) > 1000:
            self._seen.clear()
        self._seen[key] = (now, 0)
        if count:
            record.msg, record.args = f"{record.getMessage()} ({count} times more since the last line)", ()
        return True


class _ToStandardError(logging.StreamHandler[Any]):
    """Asks for the stream with every line, since programs that hold this one may replace it."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> Any:
        return sys.stderr


def configure(form: str = "text", level: str = "info") -> None:
    """Send every log record of this process to standard error: `form` is text or json, `level` the least that shows."""
    handler = _ToStandardError()
    handler.addFilter(Repeats())
    handler.setFormatter(Json() if form == "json" else Text())
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
    logging.captureWarnings(True)
    if level != "debug":
        for name, least in _QUIET.items():
            logging.getLogger(name).setLevel(max(least, logging.getLevelName(level.upper())))
