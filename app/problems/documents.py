"""Every error answer of the service, as an RFC 9457 problem document. The one place that maps errors to HTTP.

The table of types is in `app/problems/types.py`. The `type` member of a document is the relative reference
`/problems/<slug>`, and that address serves the text. Further members, beside RFC 9457 section 3.1:

- `request_id`: the same as in the header X-Request-ID and in the log;
- `pointer`: where in the body, a JSON pointer as a fragment (RFC 6901 section 6); `parameter` for the query;
- `line`: the line of an annotation file;
- `value`, `limit`: what came and what it may be;
- `errors`: every single finding where there are several, with the same members.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any, TypeVar

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Scope

from phonechain.app.problems.errors import InvalidRequest, ServiceError
from phonechain.app.problems.options import known_options, wrong_option
from phonechain.app.problems.types import TYPES, ProblemType
from phonechain.app.problems.wording import describe, short
from phonechain.features.errors import AnnotationSyntaxError, PhonechainError, SegmentError

MEDIA_TYPE = "application/problem+json"

M = TypeVar("M", bound=BaseModel)
MOST_FINDINGS = 100
"""Members of `errors` in one document."""

PUBLIC_DETAILS = ("tiers", "hint", "state", "needed", "parts", "missing")
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


def to_pointer(place: str | None) -> dict[str, str]:
    """The place that a domain error names, as a member of the document: `segments/3/end` is `#/segments/3/end`."""
    if place is None or not re.fullmatch(r"[\w.-]+(/[\w.-]+)*", place):
        return {}
    return {"pointer": f"#/{place}"}


def _facts(value: Any, limit: Any) -> dict[str, Any]:
    return {name: short(fact) for name, fact in (("value", value), ("limit", limit)) if short(fact) is not None}


def finding(source: str, entry: Mapping[str, Any], kind: Any = None) -> dict[str, Any]:
    """One entry of `ValidationError.errors()` as a member of `errors`. `source` is `body`, `query` or `path`.

    `kind` is the type that was expected: of a wrong name it says the right ones.
    """
    place = "/".join(str(part) for part in entry["loc"])
    where = {"pointer": f"#/{place}" if place else "#"} if source == "body" else {"parameter": place}
    facts = {} if entry["type"] == "missing" else _facts(entry.get("input"), _bound_of(entry))
    known = known_options(kind, entry["loc"]) if entry["type"] == "extra_forbidden" else []
    said = wrong_option(str(entry["loc"][-1]), known) if known else describe(entry)
    return {"detail": f"{place or 'body'}: {said}", **where, **facts}


def _bound_of(entry: Mapping[str, Any]) -> Any:
    context = entry.get("ctx") or {}
    return next(
        (context[name] for name in ("le", "ge", "lt", "gt", "max_length", "min_length", "limit") if name in context),
        None,
    )


def document(error: Exception) -> dict[str, Any]:
    """The problem document of a domain error, without the members that only the request knows."""
    if not isinstance(error, PhonechainError):
        kind = TYPES["internal"]
        return _document(kind, "unexpected error; the service's log has it under this request id")
    kind = problem_type(error.slug)
    members: dict[str, Any] = {**to_pointer(error.pointer), **_facts(error.value, error.limit)}
    members.update({name: fact for name, fact in error.details.items() if name in PUBLIC_DETAILS})
    if isinstance(error, AnnotationSyntaxError):
        if error.line is not None:
            members.update(pointer=f"#/{error.part}", line=error.line)
        else:
            members["pointer"] = "/".join((f"#/{error.part}", *(error.pointer or "").split("/"))).rstrip("/")
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
    # What the log and the metrics say of this request: app/http/middleware/access.py.
    scope.setdefault("state", {})["problem"] = str(body["type"]).rsplit("/", 1)[-1]
    if known is not None:
        path = scope.get("raw_path") or scope.get("path", "/").encode("utf-8")
        body = {**body, "instance": f"{path.decode('latin-1')}#{known}", "request_id": known}
        headers = {**(headers or {}), "X-Request-ID": known}
    # Answers about a moment are not to be kept by caches between.
    headers = {"Cache-Control": "no-store", **(headers or {})}
    return Response(json.dumps(body, ensure_ascii=False), body["status"], headers, MEDIA_TYPE)


def install(app: FastAPI) -> None:
    """Make every error answer of `app` a problem document."""

    async def answer_domain_error(request: Request, error: Exception) -> Response:
        headers = error.headers if isinstance(error, ServiceError) else None
        return respond(request.scope, _locate(document(error), request), headers)

    async def answer_invalid_request(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        field = getattr(request.scope.get("route"), "body_field", None)
        kind = field.field_info.annotation if field is not None else None
        findings = [finding(str(e["loc"][0]), {**e, "loc": e["loc"][1:]}, kind) for e in error.errors()]
        return await answer_domain_error(request, invalid_request(findings))

    async def answer_http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        kind = TYPES[_OF_STATUS.get(error.status_code, "http")]
        phrase = HTTPStatus(error.status_code).phrase
        detail = str(error.detail)
        if error.status_code == 404:
            detail = f"nothing at {request.url.path}"
        headers = dict(error.headers or {})
        if error.status_code == 405:
            allow = headers["Allow"] = ", ".join(methods_of(request))
            detail = f"{request.url.path} does not take {request.method}; it takes {allow}"
        body = {**_document(kind, detail), "status": error.status_code}
        if kind.slug == "http":
            body["title"] = phrase
        return respond(request.scope, body, headers)

    async def answer_unexpected_error(request: Request, error: Exception) -> Response:
        return respond(request.scope, document(error))

    async def answer_disconnected(request: Request, error: Exception) -> Response:
        return Response(status_code=499)  # nobody is left to read it; keeps the log free of a traceback

    app.add_exception_handler(PhonechainError, answer_domain_error)
    app.add_exception_handler(RequestValidationError, answer_invalid_request)
    app.add_exception_handler(HTTPException, answer_http_error)
    app.add_exception_handler(ClientDisconnect, answer_disconnected)
    app.add_exception_handler(Exception, answer_unexpected_error)


def _locate(body: dict[str, Any], request: Request) -> dict[str, Any]:
    """The document with a parameter where its pointer does not point into a body: it came in the query or the path."""
    name = str(body.get("pointer", ""))[2:]
    members = getattr(request.state, "media_type", "") in ("application/json", "multipart/form-data")
    bodiless = request.method in ("GET", "HEAD", "DELETE")
    if not name or not (bodiless or (name in request.query_params and not members)):
        return body
    located = {key: value for key, value in body.items() if key != "pointer"}
    in_path = [key for key, value in request.path_params.items() if key == name or value == body.get("value")]
    if name in request.query_params or in_path:
        located["parameter"] = name if name in request.query_params else in_path[0]
    return located


def methods_of(request: Request) -> list[str]:
    """Every method that the address takes, whichever route takes it."""
    found = {
        method
        for route in _iterate_routes(request.app.routes)
        if route.matches(request.scope)[0] is not Match.NONE
        for method in getattr(route, "methods", None) or ()
    }
    return sorted(found)


def _iterate_routes(routes: Iterable[Any]) -> Iterator[Any]:
    """The routes themselves, those of included routers too."""
    for route in routes:
        inner = getattr(route, "original_router", None)
        yield from (_iterate_routes(inner.routes) if inner is not None else (route,))


def invalid_request(findings: Sequence[Mapping[str, Any]]) -> InvalidRequest:
    """The error of a request that breaks the interface: the first finding's sentence, and the count of the rest."""
    more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
    return InvalidRequest(str(findings[0]["detail"]) + more, findings=findings)


def validate(schema: type[M], values: Mapping[str, Any]) -> M:
    """A body or a form by its schema. Raises InvalidRequest with every finding."""
    try:
        return schema.model_validate(values)
    except ValidationError as error:
        entries = error.errors(include_url=False)[:MOST_FINDINGS]
        raise invalid_request([finding("body", entry, schema) for entry in entries]) from None
