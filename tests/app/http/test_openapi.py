"""The description of the interface is true: its examples are posted and compared."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from phonechain.app.http.openapi import CURL, examples
from phonechain.app.problems.documents import MEDIA_TYPE, TYPES
from phonechain.app.samples.examples import comparable
from phonechain.app.schemas.answers import ClassifyAnswer
from phonechain.app.schemas.problems import Problem
from tests.app.conftest import Client

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def schema(client: Client) -> dict[str, Any]:
    return dict(client.get("/openapi.json").json())


def same(got: Any, known: Any) -> bool:
    """Equal, with room for the last digits of a posterior: processors round differently."""
    if isinstance(known, float):
        return bool(got == pytest.approx(known, abs=2e-3))
    if isinstance(known, dict):
        return isinstance(got, dict) and set(got) == set(known) and all(same(got[k], known[k]) for k in known)
    if isinstance(known, list):
        return isinstance(got, list) and len(got) == len(known) and all(map(same, got, known))
    return bool(got == known)


def test_the_documents_are_served(client: Client) -> None:
    assert client.get("/docs").status_code == 200
    assert client.get("/openapi.json").json()["openapi"].startswith("3.1")


def test_the_json_example_is_real(client: Client, schema: dict[str, Any]) -> None:
    operation = schema["paths"]["/classify"]["post"]
    asked = operation["requestBody"]["content"]["application/json"]["examples"]["sample"]["value"]
    known = operation["responses"]["200"]["content"]["application/json"]["examples"]["json"]["value"]
    answer = client.post("/classify", json=asked)
    assert answer.status_code == 200
    assert same(comparable(answer.json()), comparable(known)), "run: python -m phonechain.app.samples.examples"
    ClassifyAnswer.model_validate(known)


def test_the_curl_example_is_real(client: Client, schema: dict[str, Any]) -> None:
    operation = schema["paths"]["/classify"]["post"]
    line = next(text for text in operation["description"].splitlines() if text.startswith("curl"))
    assert line == CURL.format(url="http://127.0.0.1:8000")
    words = shlex.split(line)
    fields = [word.partition("=@") for before, word in pairwise(words) if before == "-F"]
    files = {name: (path, (ROOT / path).read_bytes()) for name, _, path in fields}
    answer = client.post(words[-1].removeprefix("http://127.0.0.1:8000"), files=files)
    assert answer.status_code == 200
    known = operation["responses"]["200"]["content"]["application/json"]["examples"]["form"]["value"]
    assert same(comparable(answer.json()), comparable(known)), "run: python -m phonechain.app.samples.examples"


@pytest.mark.parametrize("status", ["404", "415", "422"])
def test_the_refusals_are_real(client: Client, schema: dict[str, Any], status: str) -> None:
    known = examples()["problems"][status]
    answer = client.post("/classify", json=known["request"])
    assert str(answer.status_code) == status
    assert comparable(answer.json()) == known["answer"]
    shown = schema["paths"]["/classify"]["post"]["responses"][status]["content"][MEDIA_TYPE]["example"]
    assert shown == known["answer"]
    Problem.model_validate(known["answer"])


def references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for part in node.values():
            yield from references(part)
    if isinstance(node, list):
        for part in node:
            yield from references(part)


def test_every_reference_leads_somewhere(schema: dict[str, Any]) -> None:
    found = set(references(schema))
    assert found
    for reference in found:
        here: Any = schema
        for part in reference.removeprefix("#/").split("/"):
            assert part in here, reference
            here = here[part]


def test_operations_have_names_tags_and_headers(schema: dict[str, Any]) -> None:
    operations = [(path, method, one) for path, here in schema["paths"].items() for method, one in here.items()]
    names = [one["operationId"] for _, _, one in operations]
    assert len(set(names)) == len(names)
    assert {"classify", "create_job", "list_job_events", "cancel_job", "get_corpus", "set_alias"} <= set(names)
    tags = {tag["name"] for tag in schema["tags"]}
    assert all(set(one["tags"]) <= tags for _, _, one in operations)
    assert "problem document" in schema["info"]["description"]
    headers = schema["paths"]["/jobs"]["post"]["responses"]["202"]["headers"]
    assert set(headers) == {"X-Request-ID", "Location", "Idempotency-Replayed"}
    assert schema["webhooks"]["job-ended"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    events = schema["paths"]["/jobs/{id}/events"]["get"]["responses"]["200"]["content"]["text/event-stream"]["schema"]
    assert events["contentSchema"] == {"$ref": "#/components/schemas/JobEvent"}


def test_every_error_is_described_as_a_problem(schema: dict[str, Any]) -> None:
    for path, operations in schema["paths"].items():
        for operation in operations.values():
            for status, response in operation["responses"].items():
                if int(status) >= 400:
                    assert list(response["content"]) == [MEDIA_TYPE], path
    named = re.findall(r"/problems/([a-z-]+)", str(schema["paths"]["/classify"]["post"]["responses"]))
    assert set(named) <= set(TYPES)
    assert "HTTPValidationError" not in schema["components"]["schemas"]


def test_json_and_query_have_the_same_options(schema: dict[str, Any]) -> None:
    operation = schema["paths"]["/classify"]["post"]
    query = {p["name"] for p in operation["parameters"]}
    form = set(operation["requestBody"]["content"]["multipart/form-data"]["schema"]["properties"])
    body = set(schema["components"]["schemas"]["ClassifyBody"]["properties"])
    assert form == {"audio", "segments"}  # a page that fills in every default would send the options twice
    assert body == query | form
    assert query == {
        *("model", "tier", "channel", "n_best", "decode", "normalise", "fix", "format"),
        *("utterance", "shift", "raw", "on_bad_segment", "gaps", "max_gap", "map", "entropy", "pronunciation"),
        *("all_speakers", "sequences", "words", "hidden"),
    }


def test_files_are_binary(schema: dict[str, Any]) -> None:
    """Generators of clients take a string for text unless its format says otherwise."""
    found = []
    for operations in schema["paths"].values():
        for operation in operations.values():
            for content in operation.get("requestBody", {}).get("content", {}).values():
                parts = [content["schema"], *content["schema"].get("properties", {}).values()]
                parts += [part["items"] for part in parts if part.get("type") == "array"]
                found += [part["format"] for part in parts if "contentMediaType" in part]
    assert len(found) >= 8
    assert set(found) == {"binary"}


def test_answers_that_are_files_are_described_as_nothing_else(schema: dict[str, Any]) -> None:
    """A generated client parses what might be JSON, and fails on the first byte of a file."""
    for path, here in schema["paths"].items():
        for operation in here.values():
            content = operation["responses"].get("200", {}).get("content", {})
            if any(part.get("schema", {}).get("format") == "binary" for part in content.values()):
                assert content.get("application/json") != {"schema": {}}, path


def test_what_may_be_left_out_has_no_null_for_its_default(schema: dict[str, Any]) -> None:
    def check(part: Any) -> None:
        if isinstance(part, dict):
            assert part.get("default", ...) is not None, part
        for below in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
            check(below)

    check(schema["components"])
    check(schema["paths"])


OPEN = ("health", "label studio", "problems")
"""Tags of what balancers, Prometheus, Label Studio and browsers ask, with names of their own in the query."""
IN_FULL = ("/classify", "/align", "/recognize")
"""Routes that look at the query with the rest of the request."""


def test_an_unknown_name_in_the_query_is_refused(client: Client, schema: dict[str, Any]) -> None:
    for path, here in schema["paths"].items():
        for method, operation in here.items():
            if operation["tags"][0] in OPEN or path in IN_FULL:
                continue
            answer = client.request(method.upper(), re.sub(r"{\w+}", "1", path), params={"no_such": "1"})
            assert answer.status_code == 422, (method, path, answer.text)
            assert [error.get("parameter") for error in answer.json()["errors"]] == ["no_such"], (method, path)
