"""The description of the interface: texts, the body of `POST /classify`, and worked examples.

The examples are kept in `app/samples/examples.json`, written by `python -m phonechain.app.samples.examples` from
real answers of the default model; a test posts every one again and compares.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any

from fastapi import FastAPI, HTTPException
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.openapi.utils import get_openapi
from fastapi.responses import FileResponse, HTMLResponse
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from phonechain.app.http import operations
from phonechain.app.http.rules import PUBLIC
from phonechain.app.http.uploads import BINARY
from phonechain.app.problems.documents import MEDIA_TYPE, TYPES
from phonechain.app.samples import EXAMPLES
from phonechain.app.schemas import align
from phonechain.app.schemas.answers import ClassifyAnswer, SpeakersAnswer
from phonechain.app.schemas.classify import ClassifyBody, ClassifyOptions
from phonechain.app.schemas.corpora import RegisterCorpus
from phonechain.app.schemas.jobs import AlignJob, EvaluateJob, LabelJob, RecognizeJob, TrainJob
from phonechain.app.schemas.problems import Problem
from phonechain.app.schemas.reviews import StoredFile
from phonechain.features.annotation import FORMATS

SUMMARY = "Labels the phones of speech whose segment boundaries are known, and says how sure it is of each."

CURL = "curl -F audio=@samples/LJ001-0002.flac -F segments=@samples/LJ001-0002.TextGrid '{url}/classify?n_best=3'"
"""The worked example of the form, for the root of a checkout."""

DESCRIPTION = """
Send a recording and its segmentation, and get a label with a posterior for every segment.

Two forms of the same request:

- **multipart/form-data**: a file `audio`, and `segments`, which is an annotation file ({formats}) or a JSON list of
  `{{"start": ..., "end": ..., "label": ...}}` in seconds;
- **application/json**: `audio` in base64 and `segments` as a list.

Options go into the query, or beside the other fields under the same names. If a segment has a label, the answer
also has the posterior and rank of that label. Formats are recognised by content, not by file name.

```
{curl}
```
"""

ERRORS = {
    400: ("body-malformed",),
    404: ("model-unknown",),
    413: ("body-too-large", "audio-too-long", "segments-too-many"),
    415: ("media-type", "audio-unrecognised", "annotation-unrecognised"),
    422: (
        "request-invalid",
        "audio-empty",
        "audio-truncated",
        "audio-non-finite",
        "audio-channel",
        "annotation-syntax",
        "annotation-tier",
        "segments",
        "segments-empty",
    ),
    500: ("internal",),
    503: ("overloaded", "not-ready"),
}
"""The types of problem that `POST /classify` answers with, by status."""

ASSETS = {"swagger-ui-bundle.js": "text/javascript", "swagger-ui.css": "text/css"}
"""The files that the page loads."""

RESPONSE_HEADERS = (
    "Content-Disposition", "Idempotency-Replayed", "Location", "RateLimit", "RateLimit-Policy", "Retry-After",
    "X-Phonechain-Model", "X-Phonechain-Warnings", "X-Request-ID",
)  # fmt: skip
"""Header fields of answers that programs read."""

_REF = "#/components/schemas/{model}"


@cache
def examples() -> dict[str, Any]:
    """The worked examples; empty where they have not been written yet."""
    return dict(json.loads(EXAMPLES.read_text("utf-8"))) if EXAMPLES.is_file() else {}


def serve_page(app: FastAPI) -> None:
    """Serve `/docs`, with every file that it loads: it works on a machine without a network.

    The files are Swagger UI's, out of the package fastapi-offline; that package's own application is not used.
    """

    @app.get("/docs", include_in_schema=False)
    def page() -> HTMLResponse:
        return get_swagger_ui_html(
            openapi_url="openapi.json",
            title=f"{app.title}: the interface",
            swagger_js_url="docs/swagger-ui-bundle.js",
            swagger_css_url="docs/swagger-ui.css",
            swagger_favicon_url="data:,",
            # The validator is a service elsewhere; models stay folded, since the operations are what people look for.
            swagger_ui_parameters={"validatorUrl": None, "defaultModelsExpandDepth": 0},
        )

    @app.get("/docs/{name}", include_in_schema=False)
    def asset(name: str) -> FileResponse:
        if name not in ASSETS:
            raise HTTPException(404, f"expected one of {', '.join(ASSETS)}, got {name[:80]!r}")
        path = resources.files("fastapi_offline") / "static" / name
        return FileResponse(str(path), media_type=ASSETS[name], headers={"Cache-Control": "public, max-age=86400"})


def install(app: FastAPI) -> None:
    """Make `app` describe itself with the texts and examples of this module."""

    def describe() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
            _add_models(schema)
            _errors_as_problems(schema)
            _describe_classify(schema["paths"]["/classify"]["post"])
            for path, options in (("/align", align.AlignOptions), ("/recognize", align.RecognizeOptions)):
                schema["paths"][path]["post"]["parameters"] = _query_of(options)
            _describe_keys(schema)
            operations.describe(schema)
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = describe  # type: ignore[method-assign]


def _add_models(schema: dict[str, Any]) -> None:
    _, definitions = models_json_schema([(ClassifyBody, "validation")], ref_template=_REF)
    _, answers = models_json_schema(
        [(ClassifyAnswer, "serialization"), (SpeakersAnswer, "serialization"), (Problem, "serialization")],
        ref_template=_REF,
    )
    _, forms = models_json_schema(
        [
            (TrainJob, "validation"),
            (LabelJob, "validation"),
            (EvaluateJob, "validation"),
            (AlignJob, "validation"),
            (RecognizeJob, "validation"),
            (RegisterCorpus, "validation"),
            (StoredFile, "validation"),
        ],
        ref_template=_REF,
    )
    known = schema.setdefault("components", {}).setdefault("schemas", {})
    for name in (
        "HTTPValidationError",
        "ValidationError",
    ):  # FastAPI's own shape of errors, which this service never sends
        known.pop(name, None)
    known.update(definitions["$defs"])
    known.update(answers["$defs"])
    known.update(forms["$defs"])
    known.update(align.models())
    kinds = {
        "train": "TrainJob", "label": "LabelJob", "evaluate": "EvaluateJob",
        "align": "AlignJob", "recognize": "RecognizeJob",
    }  # fmt: skip
    known["JobRequest"] = {
        "oneOf": [{"$ref": _REF.format(model=name)} for name in kinds.values()],
        "discriminator": {
            "propertyName": "kind",
            "mapping": {kind: _REF.format(model=name) for kind, name in kinds.items()},
        },
    }


def _errors_as_problems(schema: dict[str, Any]) -> None:
    for path in schema["paths"].values():
        for operation in path.values():
            for status, response in operation["responses"].items():
                if int(status) >= 400:
                    response["content"] = {MEDIA_TYPE: {"schema": {"$ref": _REF.format(model="Problem")}}}


def _describe_keys(schema: dict[str, Any]) -> None:
    """Responses of the gateway: 401 and 403 once there are keys, and 429."""
    schema["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    for path, here in schema["paths"].items():
        if PUBLIC.match(path):
            continue
        for operation in here.values():
            operation["security"] = [{}, {"key": []}]
            for status, slug in (("401", "key-missing"), ("403", "key-scope"), ("429", "rate-limit")):
                content = {MEDIA_TYPE: {"schema": {"$ref": _REF.format(model="Problem")}}}
                text = f"`{TYPES[slug].uri}`: {TYPES[slug].title}"
                operation["responses"].setdefault(status, {"description": text, "content": content})


def _query_of(options: type[BaseModel]) -> list[dict[str, Any]]:
    """The options as parameters of the query."""
    return [
        {"name": name, "in": "query", "required": False, "description": option.pop("description", ""), "schema": option}
        for name, option in options.model_json_schema(ref_template=_REF)["properties"].items()
    ]


def _describe_classify(operation: dict[str, Any]) -> None:
    formats = ", ".join(format.title for format in FORMATS.values())
    operation["description"] = DESCRIPTION.format(
        formats=formats, curl=CURL.format(url="http://127.0.0.1:8000")
    ).strip()
    operation["parameters"] = _query_of(ClassifyOptions)
    known = examples()
    form = {
        "type": "object",
        "required": ["audio", "segments"],
        "properties": {
            "audio": {**BINARY, "description": "A sound file."},
            "segments": {
                **BINARY,
                "description": "An annotation file, or a JSON list of segments as a file or as a text field.",
            },
        },
    }
    # The options are understood here too; named once, in the query, a page that fills in defaults sends them once.
    asked: dict[str, Any] = {"schema": {"$ref": _REF.format(model="ClassifyBody")}}
    either = [{"$ref": _REF.format(model=name)} for name in ("ClassifyAnswer", "SpeakersAnswer")]
    answered: dict[str, Any] = {"schema": {"anyOf": either}}
    if known:
        asked["examples"] = {"sample": {"summary": "The first word of the sample", "value": known["json"]["request"]}}
        answered["examples"] = {
            "json": {"summary": "To the JSON example", "value": known["json"]["answer"]},
            "form": {"summary": "To the curl line above", "value": known["form"]["answer"]},
        }
    operation["requestBody"] = {
        "required": True,
        "content": {"multipart/form-data": {"schema": form}, "application/json": asked},
    }
    responses: dict[str, Any] = {"200": {"description": "The labels.", "content": {"application/json": answered}}}
    for format in FORMATS.values():
        content = responses["200"]["content"]
        content.setdefault(format.media_type, {"schema": {"type": "string", "description": f"format={format.name}"}})
    for status, slugs in ERRORS.items():
        problem: dict[str, Any] = {"schema": {"$ref": _REF.format(model="Problem")}}
        if known and str(status) in known["problems"]:
            problem["example"] = known["problems"][str(status)]["answer"]
        text = "; ".join(f"`{TYPES[slug].uri}`: {TYPES[slug].title}" for slug in slugs)
        responses[str(status)] = {"description": text, "content": {MEDIA_TYPE: problem}}
    operation["responses"] = responses
