"""The interface against its own description: drawn requests, alone and in sequences; never a fault, never another shape."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi import checks as described

from tests.app.jobs import speech
from tests.storm.stage import Patient, Stage

CHECKS = [
    not_a_server_error,
    described.status_code_conformance,
    described.content_type_conformance,
    described.response_schema_conformance,
    described.response_headers_conformance,
]
QUIET = {"deadline": None, "suppress_health_check": list(HealthCheck), "print_blob": False, "derandomize": True}
KEY = "0123456789abcdef"
HEADERS = {"Authorization": f"Bearer {KEY}"}
ENDLESS = r"/jobs/\{id\}/events"
"""Its answer ends with the job; it has a test of its own."""


@pytest.fixture(scope="module")
def described_service(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path, corpus_folder: Path) -> Iterator[Any]:
    """The description of a service that runs as a process of its own and has a corpus."""
    stage = Stage(tmp_path_factory.mktemp("schema"), tiny_model, clustered=False, workers=1, admin_key=KEY)
    with stage:
        client = Patient(stage)
        client.http.headers.update(HEADERS)
        made = client.post(
            "/corpora", content=speech.zip_folder(corpus_folder), headers={"content-type": "application/zip"}
        )
        assert made.status_code == 201
        schema = schemathesis.openapi.from_url(f"http://127.0.0.1:{stage.ports[0]}/openapi.json")
        yield schema.exclude(path_regex=ENDLESS)


def test_drawn_requests(described_service: Any) -> None:
    count = 0
    failures: list[str] = []
    for found in described_service.get_all_operations():
        operation = found.ok()

        @settings(max_examples=8, **QUIET)  # type: ignore[arg-type]
        @given(case=operation.as_strategy())
        def check(case: Any) -> None:
            case.call_and_validate(checks=CHECKS, headers=HEADERS, timeout=60)

        try:
            check()
        except (Exception, BaseExceptionGroup) as error:  # every operation is looked at, whatever the others do
            failures.append(f"{operation.label}: {error}"[:1500])
        count += 1
    assert not failures, "\n\n".join(failures)
    assert count > 20


def test_drawn_sequences(described_service: Any) -> None:
    machine: Any = described_service.as_state_machine()

    class Checked(machine):
        def validate_response(self, response: Any, case: Any, **more: Any) -> None:
            case.validate_response(response, checks=CHECKS)

        def get_call_kwargs(self, case: Any) -> dict[str, Any]:
            return {"timeout": 60, "headers": HEADERS}

    Checked.run(settings=settings(max_examples=10, stateful_step_count=6, **QUIET))  # type: ignore[arg-type]
