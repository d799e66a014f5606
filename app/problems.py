"""Every error answer of the service, as an RFC 9457 problem document. The one place that maps errors to HTTP.

`TYPES` is the table: a stable slug, its status, its title and a text for people. The `type` member of a document is the
relative reference `/problems/<slug>`, and that address serves the text. Further members, beside RFC 9457 section 3.1:

- `request_id`: the same as in the header X-Request-ID and in the log;
- `pointer`: where in the body, a JSON pointer as a fragment (RFC 6901 section 6); `parameter` for the query;
- `line`: the line of an annotation file;
- `value`, `limit`: what came and what it may be;
- `errors`: every single finding where there are several, with the same members.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Scope

from app.errors import InvalidRequest, ServiceError
from app.wording import expected, short
from features.errors import AnnotationSyntaxError, PhonechainError, SegmentError

MEDIA_TYPE = "application/problem+json"

MOST_FINDINGS = 100
"""Members of `errors` in one document."""


@dataclass(frozen=True, slots=True)
class ProblemType:
    """One kind of problem. `text` is for the person who reads its page: what it means and what to do."""

    slug: str
    status: int
    title: str
    text: str

    @property
    def uri(self) -> str:
        return f"/problems/{self.slug}"


TYPES: dict[str, ProblemType] = {
    kind.slug: kind
    for kind in (
        ProblemType(
            "audio",
            422,
            "The sound cannot be used",
            "The file was decoded, but what came out cannot be labelled. `detail` says why.",
        ),
        ProblemType(
            "audio-unrecognised",
            415,
            "Not a sound file",
            "No decoder knows these bytes. The content decides, never the name or the declared type: a text file or an "
            "archive that is called .wav ends here. Send WAV, FLAC, Ogg, MP3 or NIST SPHERE.",
        ),
        ProblemType(
            "audio-empty",
            422,
            "No sound in the file",
            "The file has no bytes, or a header and no samples. Check that the recording was finished and that the "
            "upload sent the file itself.",
        ),
        ProblemType(
            "audio-truncated",
            422,
            "The sound file ends too early",
            "The container ends before any sound does. Copy or export the file again.",
        ),
        ProblemType(
            "audio-non-finite",
            422,
            "The sound has samples that are not numbers",
            "Floating-point samples hold NaN or infinity; `value` is the first such sample. Export the file again.",
        ),
        ProblemType(
            "audio-too-long",
            413,
            "The recording is too long",
            "The decoded sound is longer than the service takes in one request; `limit` is in seconds. Cut the "
            "recording, or raise PHONECHAIN_MAX_AUDIO_SECONDS.",
        ),
        ProblemType(
            "audio-channel",
            422,
            "No such channel",
            "`channel` is an index from 0, or `mix` for the mean of all channels.",
        ),
        ProblemType(
            "annotation",
            422,
            "The annotation cannot be used",
            "The annotation file was read, but cannot be used. `detail` says why.",
        ),
        ProblemType(
            "annotation-unrecognised",
            415,
            "Not an annotation file",
            "No annotation format matches. The content decides, the file name only between formats that look alike.",
        ),
        ProblemType(
            "annotation-syntax",
            422,
            "The annotation file is broken",
            "The file breaks the grammar of its format; `line` says where.",
        ),
        ProblemType(
            "annotation-tier",
            422,
            "No such tier",
            "The annotation has no tier of the asked name; `tiers` lists those it has. Leave `tier` out to let the "
            "service choose.",
        ),
        ProblemType(
            "segments",
            422,
            "The segments do not fit",
            "Segments are reversed, empty, overlapping, out of order or outside the sound. `errors` lists each with "
            "its index, its value and its limit, in seconds. `fix=true` sorts them and removes overlaps up to 10 ms.",
        ),
        ProblemType(
            "segments-empty", 422, "No segments", "There is nothing to label: the segmentation has no segments."
        ),
        ProblemType(
            "segments-too-many",
            413,
            "Too many segments",
            "There are more segments than the service takes in one request. Split the recording, or raise "
            "PHONECHAIN_MAX_SEGMENTS.",
        ),
        ProblemType(
            "phone-set", 422, "A label outside its phone set", "A label is not in the phone set that it should be from."
        ),
        ProblemType(
            "corpus", 422, "The corpus cannot be used", "The corpus as a whole cannot be used. `detail` says why."
        ),
        ProblemType(
            "model-file",
            422,
            "Not a usable model file",
            "The file is not a Phonechain model, or it is one of another version. Models are `.safetensors` "
            "files; pickles are never read.",
        ),
        ProblemType(
            "model-unknown",
            404,
            "No such model",
            "The service has no model of this name. GET /models lists those it has.",
        ),
        ProblemType("settings", 422, "A setting outside what it can be", "An option has a value that it cannot have."),
        ProblemType("training", 422, "The training cannot go on", "The training stopped for the reason in `detail`."),
        ProblemType(
            "request-invalid",
            422,
            "The request does not follow the interface",
            "A field or an option is missing, unknown or has a value that it cannot have. `errors` lists every one. "
            "The interface is described under /docs.",
        ),
        ProblemType(
            "body-malformed",
            400,
            "The body cannot be parsed",
            "The body is not what its Content-Type says: broken JSON or broken multipart.",
        ),
        ProblemType(
            "body-too-large",
            413,
            "The body is too large",
            "The request body is longer than the service reads; `limit` is in bytes. Send a compressed format such as "
            "FLAC, or raise PHONECHAIN_MAX_BODY_BYTES.",
        ),
        ProblemType(
            "media-type",
            415,
            "The body has the wrong media type",
            "Send multipart/form-data, or application/json. The fields of both are described under /docs.",
        ),
        ProblemType(
            "overloaded",
            503,
            "The service is busy",
            "As many requests wait as the service will hold. Nothing was done; send the same request again after the "
            "seconds in Retry-After.",
        ),
        ProblemType(
            "not-ready",
            503,
            "The service is not ready",
            "The service is starting or stopping. Try again after Retry-After.",
        ),
        ProblemType("not-found", 404, "Nothing at this address", "The address names nothing that the service has."),
        ProblemType(
            "method-not-allowed",
            405,
            "The address does not take this method",
            "The header Allow lists the methods that it takes.",
        ),
        ProblemType(
            "internal",
            500,
            "The service failed",
            "A fault of the service, not of the request. The log has it under the request id.",
        ),
        ProblemType("http", 400, "The request was refused", "`status` and `detail` say why."),
    )
}

PUBLIC_DETAILS = ("tiers", "hint")
"""Further facts of domain errors that a document carries under their own names."""

_OF_STATUS = {
    404: "not-found",
    405: "method-not-allowed",
    413: "body-too-large",
    415: "media-type",
    400: "body-malformed",
}


def problem_type(slug: str) -> ProblemType:
    """The type of a slug; an error class without an entry of its own falls back to the part before its last hyphen.

    Raises:
        KeyError: no type, and no fallback either.
    """
    while slug not in TYPES and "-" in slug:
        slug = slug.rsplit("-", 1)[0]
    return TYPES[slug]


def as_pointer(place: str | None) -> dict[str, str]:
    """The place that a domain error names, as a member of the document: `segments/3/end` is `#/segments/3/end`."""
    if place is None or not re.fullmatch(r"[\w.-]+(/[\w.-]+)*", place):
        return {}
    return {"pointer": f"#/{place}"}


def _facts(value: Any, limit: Any) -> dict[str, Any]:
    return {name: short(fact) for name, fact in (("value", value), ("limit", limit)) if short(fact) is not None}


def finding(source: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    """One entry of `ValidationError.errors()` as a member of `errors`. `source` is `body`, `query` or `path`."""
    place = "/".join(str(part) for part in entry["loc"])
    where = {"pointer": f"#/{place}" if place else "#"} if source == "body" else {"parameter": place}
    facts = {} if entry["type"] == "missing" else _facts(entry.get("input"), _bound(entry))
    return {"detail": f"{place or 'body'}: {expected(entry)}", **where, **facts}


def _bound(entry: Mapping[str, Any]) -> Any:
    context = entry.get("ctx") or {}
    return next(
        (context[name] for name in ("le", "ge", "lt", "gt", "max_length", "min_length", "limit") if name in context),
        None,
    )


def document(error: Exception) -> dict[str, Any]:
    """The problem document of a domain error, without the members that only the request knows."""
    if not isinstance(error, PhonechainError):
        kind = TYPES["internal"]
        return _document(kind, "an unexpected fault inside the service; the log has it under this request id")
    kind = problem_type(error.slug)
    members: dict[str, Any] = {**as_pointer(error.pointer), **_facts(error.value, error.limit)}
    members.update({name: fact for name, fact in error.details.items() if name in PUBLIC_DETAILS})
    if isinstance(error, AnnotationSyntaxError):
        if error.line is not None:
            members.update(pointer="#/segments", line=error.line)
        else:
            members["pointer"] = "/".join(("#/segments", *(error.pointer or "").split("/"))).rstrip("/")
    if isinstance(error, InvalidRequest) and error.findings:
        members["errors"] = list(error.findings)
    if isinstance(error, SegmentError) and error.problems:
        members["errors"] = [
            {"detail": p.message, "pointer": f"#/segments/{p.index}", "kind": p.kind, **_facts(p.value, p.limit)}
            for p in error.problems[:MOST_FINDINGS]
        ]
    return _document(kind, str(error), **members)


def _document(kind: ProblemType, detail: str, **members: Any) -> dict[str, Any]:
    return {"type": kind.uri, "title": kind.title, "status": kind.status, "detail": detail, **members}


def request_id(scope: Scope) -> str | None:
    """The id that the outermost middleware gave the request; None outside of it."""
    return (scope.get("state") or {}).get("request_id")


def respond(scope: Scope, body: dict[str, Any], headers: Mapping[str, str] | None = None) -> Response:
    """The document as a response, with the members that tell this occurrence from others."""
    known = request_id(scope)
    if known is not None:
        path = scope.get("raw_path") or scope.get("path", "/").encode("utf-8")
        body = {**body, "instance": f"{path.decode('latin-1')}#{known}", "request_id": known}
        headers = {**(headers or {}), "X-Request-ID": known}
    # Answers about a moment are not to be kept by caches between.
    headers = {"Cache-Control": "no-store", **(headers or {})}
    return Response(json.dumps(body, ensure_ascii=False), body["status"], headers, MEDIA_TYPE)


def install(app: FastAPI) -> None:
    """Make every error answer of `app` a problem document."""

    async def domain(request: Request, error: Exception) -> Response:
        headers = error.headers if isinstance(error, ServiceError) else None
        return respond(request.scope, document(error), headers)

    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        findings = [finding(str(e["loc"][0]), {**e, "loc": e["loc"][1:]}) for e in error.errors()]
        return await domain(request, invalid_request(findings))

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        kind = TYPES[_OF_STATUS.get(error.status_code, "http")]
        phrase = HTTPStatus(error.status_code).phrase
        detail = str(error.detail)
        if error.status_code == 404:
            detail = f"expected an address that the service has, got {request.url.path}"
        if error.status_code == 405:
            allow = (error.headers or {}).get("Allow", "another method")
            detail = f"expected {allow} for {request.url.path}, got {request.method}"
        body = {**_document(kind, detail), "status": error.status_code}
        if kind.slug == "http":
            body["title"] = phrase
        return respond(request.scope, body, error.headers)

    async def unexpected(request: Request, error: Exception) -> Response:
        return respond(request.scope, document(error))

    async def gone(request: Request, error: Exception) -> Response:
        return Response(status_code=499)  # nobody is left to read it; keeps the log free of a traceback

    app.add_exception_handler(PhonechainError, domain)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(ClientDisconnect, gone)
    app.add_exception_handler(Exception, unexpected)


def invalid_request(findings: Sequence[Mapping[str, Any]]) -> InvalidRequest:
    """The error of a request that breaks the interface: the first finding's sentence, and the count of the rest."""
    more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
    return InvalidRequest(str(findings[0]["detail"]) + more, findings=findings)
