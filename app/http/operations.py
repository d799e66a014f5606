"""The parts of the OpenAPI description shared by all operations: names, tags, headers, events, webhooks."""

from __future__ import annotations

import re
from typing import Any

from pydantic import BaseModel, Field

from phonechain.app.http.uploads import BINARY
from phonechain.app.schemas.jobs import JobOut, Progress, State

DESCRIPTION = """
Phonechain labels the phones in speech and says how certain each label is.

`POST /classify` labels one recording, and `POST /align` aligns one with its transcript; use jobs for corpora. Every error is
a problem document (RFC 9457): test its `type`, and show its `detail` to people. Once the service has keys, requests need
`Authorization: Bearer KEY`. A busy service answers 503, and one over a rate limit 429, both with `Retry-After`; an
`Idempotency-Key` makes it safe to repeat `POST /jobs`. `X-Request-ID` identifies a request in the log of the service.

The Python module `phonechain.client` has `Client` and `AsyncClient`; clients for other languages can be generated from this
document.
"""

TAGS = {
    "classify": "Label the segments of one recording.",
    "align": "Find words and phones in one recording.",
    "corpora": "Recordings and their annotations, for jobs.",
    "jobs": "Training, labelling, alignment and evaluation of whole corpora.",
    "models": "Models loaded at start-up, trained or uploaded, and aliases for them.",
    "reviews": "Recordings for people to check, with the model's answers.",
    "label studio": "A machine learning backend for Label Studio.",
    "keys": "API keys; these requests need the scope admin.",
    "health": "For monitoring the service.",
    "problems": "The types of problem documents.",
}

SINGULAR = {
    "aliases": "alias", "corpora": "corpus", "errors": "error", "events": "event", "files": "file", "jobs": "job",
    "keys": "key", "models": "model", "operations": "operation", "problems": "problem", "reviews": "review",
}  # fmt: skip
NOUNS = frozenset({"corpus"})
"""Last parts of an address that are made by POST; others are done: cancel, undo."""

HEADERS: dict[str, dict[str, Any]] = {
    "X-Request-ID": {"description": "Identifies the request in the log of the service.", "schema": {"type": "string"}},
    "Location": {"description": "Address of the new resource.", "schema": {"type": "string", "format": "uri-reference"}},
    "Retry-After": {"description": "Seconds to wait before repeating the request.", "schema": {"type": "integer"}},
    "Idempotency-Replayed": {
        "description": "`true` if this is the answer to an earlier request with the same key.", "schema": {"type": "string"},
    },
    "Allow": {"description": "The methods that the address supports.", "schema": {"type": "string"}},
}  # fmt: skip


FILES = ("audio/", "application/octet-stream", "application/zip")
"""Media types of answers that are files, described as such even where a route does not say so."""


class JobEvent(BaseModel):
    """The data of one server-sent event of a job. The event's `id` is its number, its `event` is `state` or `progress`."""

    job: str = Field(description="Id of the job.")
    state: State
    progress: Progress
    failed_files: int
    at: float = Field(description="Seconds since 1970.")
    error: dict[str, Any] | None = Field(None, description="Why the job failed, as a problem document.")


class JobWebhook(BaseModel):
    """The body of a webhook, sent when a job has ended (Standard Webhooks)."""

    type: str = Field(description="`job.succeeded`, `job.failed` or `job.cancelled`.")
    timestamp: str = Field(description="When the job ended (RFC 3339).")
    data: JobOut


def operation_id(method: str, path: str) -> str:
    """A name that reads well: `GET /jobs/{id}/events` is list_job_events, `POST /jobs/{id}/cancel` cancel_job.

    >>> operation_id("GET", "/jobs"), operation_id("POST", "/jobs"), operation_id("DELETE", "/reviews/{id}/files/{number}")
    ('list_jobs', 'create_job', 'delete_review_file')
    """
    parts = [part for part in path.split("/") if part]
    words = [part for part in parts if not part.startswith("{")]
    if not words:
        return "get_page"
    of_one = parts[-1].startswith("{")
    parents = [SINGULAR.get(word, word) for word in words[:-1]]
    last = words[-1]
    single, many = "_".join([*parents, SINGULAR.get(last, last)]), "_".join([*parents, last])
    if method == "GET":
        name = f"list_{many}" if last in SINGULAR and not of_one else f"get_{single}"
    elif method == "POST":
        done = last not in SINGULAR and last not in NOUNS
        name = "_".join([last, *parents]) if done else f"create_{single}"
    else:
        name = (
            f"{ {'PUT': 'set', 'PATCH': 'change', 'DELETE': 'delete'}.get(method, method.lower()) }_{single}".replace(
                " ", ""
            )
        )
    return re.sub(r"\W", "_", name)


def describe(schema: dict[str, Any]) -> None:
    """Add names, tags, headers, events and webhooks to a schema of the interface."""
    schema["info"]["description"] = DESCRIPTION.strip()
    used = {
        tag for path in schema["paths"].values() for operation in path.values() for tag in operation.get("tags", ())
    }
    schema["tags"] = [{"name": name, "description": text} for name, text in TAGS.items() if name in used]
    components = schema["components"]
    components["headers"] = HEADERS
    for model in (JobEvent, JobWebhook):
        made = model.model_json_schema(ref_template="#/components/schemas/{model}")
        components["schemas"].update(made.pop("$defs", {}))
        components["schemas"][model.__name__] = made
    _drop_null_defaults(schema)
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            _name_request(operation)
            operation["operationId"] = operation_id(method.upper(), path)
            for status, response in operation["responses"].items():
                for kind, content in response.get("content", {}).items():
                    if kind.startswith(FILES):
                        content.setdefault("schema", dict(BINARY))
                names = ["X-Request-ID"]
                names += ["Location"] if status in ("201", "202") and method == "post" and "cancel" not in path else []
                names += ["Retry-After"] if status in ("429", "503") else []
                names += ["Idempotency-Replayed"] if (path, method, status) == ("/jobs", "post", "202") else []
                response["headers"] = {name: {"$ref": f"#/components/headers/{name}"} for name in names}
    stream = schema["paths"]["/jobs/{id}/events"]["get"]["responses"]["200"]["content"]["text/event-stream"]
    stream["schema"] = {
        "type": "string",
        "description": "Server-sent events (HTML standard, section 9.2); the `data` of each is a JobEvent.",
        "contentMediaType": "text/event-stream",
        "contentSchema": {"$ref": "#/components/schemas/JobEvent"},
    }
    schema["webhooks"] = {"job-ended": {"post": _webhook()}}


def _name_request(operation: dict[str, Any]) -> None:
    """Describe X-Request-ID, which every route takes, where a body of two forms would be all that is optional:
    openapi-python-client 0.29 then forgets an import."""
    optional = any(not parameter.get("required") for parameter in operation.get("parameters", ()))
    if len(operation.get("requestBody", {}).get("content", {})) > 1 and not optional:
        text = "A name for the request in the log; up to 64 letters, digits, dots, hyphens and underscores."
        named = {"name": "X-Request-ID", "in": "header", "description": text, "schema": {"type": "string"}}
        operation.setdefault("parameters", []).append(named)


def _drop_null_defaults(described: Any) -> None:
    """Leave out `default: null`, here and below: openapi-typescript takes what has a default for always there."""
    if isinstance(described, dict):
        if described.get("default", ...) is None:
            del described["default"]
        for part in described.values():
            _drop_null_defaults(part)
    elif isinstance(described, list):
        for part in described:
            _drop_null_defaults(part)


def _webhook() -> dict[str, Any]:
    signed = {
        "webhook-id": "The same each time that this is sent again.",
        "webhook-timestamp": "Seconds since 1970 at which it was signed.",
        "webhook-signature": "`v1,` and the HMAC-SHA256 of `ID.TIMESTAMP.BODY` in base64; without a secret it is not sent.",
    }
    return {
        "operationId": "job_ended",
        "tags": ["jobs"],
        "summary": "A job has ended",
        "description": "Sent to the `webhook` of a job, and again over two days until it is answered with 2xx or 410.",
        "parameters": [
            {"name": name, "in": "header", "required": name != "webhook-signature", "description": text,
             "schema": {"type": "string"}}
            for name, text in signed.items()
        ],
        "requestBody": {
            "required": True, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/JobWebhook"}}},
        },
        "responses": {"204": {"description": "Taken."}, "410": {"description": "The receiver wants no more."}},
    }  # fmt: skip
