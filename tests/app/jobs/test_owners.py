"""A key sees its own jobs and corpora; a key with the scope admin sees all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.app.jobs import speech
from tests.app.jobs.test_api import ZIP, refusal


def test_keys_see_their_own(own_service: Callable[..., Any], corpus_folder: Path) -> None:
    with own_service(admin_key="0123456789abcdef") as client:
        admin = {"Authorization": "Bearer 0123456789abcdef"}
        keys = []
        for name in ("mine", "other"):
            made = client.post("/keys", json={"name": name, "scopes": ["label"]}, headers=admin).json()
            keys.append({"Authorization": f"Bearer {made['key']}"})
        mine, other = keys
        data = speech.zip_folder(corpus_folder)
        corpus = client.post("/corpora", content=data, headers={**ZIP, **mine}).json()["id"]
        asked = {"kind": "label", "corpus": corpus}
        job = client.post("/jobs", json=asked, headers={**mine, "Idempotency-Key": "a"}).json()["id"]

        refusal(client.post("/jobs", json=asked, headers=other), 404, "corpus-unknown")
        refusal(client.get(f"/corpora/{corpus}", headers=other), 404, "corpus-unknown")
        for address in ("", "/errors", "/events", "/result"):
            refusal(client.get(f"/jobs/{job}{address}", headers=other), 404, "job-unknown")
        refusal(client.post(f"/jobs/{job}/cancel", headers=other), 404, "job-unknown")
        assert client.get("/jobs", headers=other).json()["jobs"] == []
        assert client.get("/corpora", headers=other).json()["corpora"] == []
        # Another key's Idempotency-Key is another one.
        refusal(client.post("/jobs", json=asked, headers={**other, "Idempotency-Key": "a"}), 404, "corpus-unknown")

        for headers in (mine, admin):
            assert [row["id"] for row in client.get("/jobs", headers=headers).json()["jobs"]] == [job]
            assert [row["id"] for row in client.get("/corpora", headers=headers).json()["corpora"]] == [corpus]
            assert client.get(f"/jobs/{job}", headers=headers).status_code == 200
        assert client.post(f"/jobs/{job}/cancel", headers=mine).status_code == 202
