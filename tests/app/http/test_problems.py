"""Problem documents (RFC 9457) for every error, and the pages that explain them."""

from __future__ import annotations

import re

import pytest
from fastapi import FastAPI

from phonechain.app.environment import load
from phonechain.app.main import create_app
from phonechain.app.models.catalog import Registry
from phonechain.app.problems import documents as problems
from phonechain.app.problems import errors as service_errors
from phonechain.features import errors as domain_errors
from phonechain.features.errors import PhonechainError
from tests.app.conftest import Client, serving


def subclasses(of: type[PhonechainError]) -> list[type[PhonechainError]]:
    return [c for child in of.__subclasses__() for c in (child, *subclasses(child))]


def test_every_domain_error_has_a_type() -> None:
    found = [
        c for c in subclasses(PhonechainError) if c.__module__ in (domain_errors.__name__, service_errors.__name__)
    ]
    assert len(found) > 20
    for c in found:
        if c is not service_errors.ServiceError:
            assert c.slug in problems.TYPES, f"{c.__name__} has no problem type of its own"


def test_an_error_without_a_type_falls_back_to_its_family() -> None:
    assert problems.problem_type("audio-of-a-new-kind").slug == "audio"
    with pytest.raises(KeyError):
        problems.problem_type("weather")


@pytest.mark.parametrize(
    ("place", "pointer"),
    [
        ("segments/3/end", {"pointer": "#/segments/3/end"}),
        ("audio", {"pointer": "#/audio"}),
        ("line 12", {}),
        (None, {}),
        ("", {}),
        ("a b/c", {}),
    ],
)
def test_pointers(place: str | None, pointer: dict[str, str]) -> None:
    assert problems.to_pointer(place) == pointer


def test_long_values_are_cut_and_odd_ones_left_out() -> None:
    error = PhonechainError("x", value="a" * 1000, limit=object())
    error.slug = "audio"
    document = problems.document(error)
    assert len(document["value"]) < 250
    assert "limit" not in document


def test_unknown_addresses_and_methods(client: Client) -> None:
    missing = client.get("/nothing/here?x=1")
    assert missing.status_code == 404
    assert missing.headers["content-type"] == "application/problem+json"
    problem = missing.json()
    assert problem["type"] == "/problems/not-found"
    assert problem["detail"] == "nothing at /nothing/here"
    assert problem["instance"] == f"/nothing/here#{problem['request_id']}"
    wrong = client.request("DELETE", "/classify")
    assert wrong.status_code == 405
    assert wrong.headers["allow"] == "POST"
    assert wrong.json()["type"] == "/problems/method-not-allowed"


def test_the_request_id_is_in_header_and_document(client: Client) -> None:
    own = client.get("/nothing", headers={"X-Request-ID": "my-id.1"})
    assert own.headers["x-request-id"] == own.json()["request_id"] == "my-id.1"
    for odd in ("with space", "a" * 65, "ä", "x\ty"):
        other = client.get(
            "/nothing", headers={"X-Request-ID": odd.encode("latin-1").decode("latin-1").encode("utf-8")}
        )
        assert re.fullmatch("[0-9a-f]{32}", other.headers["x-request-id"])
    assert client.get("/health/live").headers["x-request-id"]


def test_faults_of_the_service_tell_nothing_of_its_inside(registry: Registry) -> None:
    app = create_app(load(), registry)
    _break(app)
    with serving(app) as client:
        response = client.get("/broken", headers={"X-Request-ID": "abc"})
    assert response.status_code == 500
    assert response.headers["content-type"] == "application/problem+json"
    assert response.headers["x-request-id"] == "abc"
    assert response.json()["type"] == "/problems/internal"
    assert response.json()["request_id"] == "abc"
    assert "secret" not in response.text


def _break(app: FastAPI) -> None:
    @app.get("/broken")
    async def broken() -> None:
        raise ZeroDivisionError("a secret path")


def test_every_type_has_a_page(client: Client) -> None:
    index = client.get("/problems", headers={"Accept": "text/html,*/*;q=0.8"})
    assert index.headers["content-type"].startswith("text/html")
    shown = [(kind.status, kind.slug) for kind in problems.TYPES.values()]
    assert re.findall(r'<td>(\d+)</td><td><a href="/problems/([^"]+)"', index.text) == [
        (str(status), slug) for status, slug in sorted(shown)
    ]
    listed = client.get("/problems", headers={"Accept": "application/json"}).json()
    assert [kind["type"] for kind in listed] == [kind.uri for kind in problems.TYPES.values()]
    for kind in listed:
        assert f'href="{kind["type"]}"' in index.text
        page = client.get(kind["type"], headers={"Accept": "text/html"})
        assert page.status_code == 200
        assert f"<code>{kind['type']}</code>" in page.text
        assert client.get(kind["type"], headers={"Accept": "application/json"}).json() == kind


def test_an_unknown_type_has_no_page(client: Client) -> None:
    response = client.get("/problems/<script>")
    assert response.status_code == 404
    assert response.json()["type"] == "/problems/not-found"
