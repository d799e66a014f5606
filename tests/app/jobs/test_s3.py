"""Corpora, models and results in a bucket: s3fs against an S3 server on loopback (moto's)."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from phonechain.app.storage.blobs import Store
from tests.app.jobs.conftest import started, wait_for_end

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """The URL of an empty bucket, which this process and those that it starts can open."""
    s3fs, servers = (
        pytest.importorskip(name, reason="needs pip install -e '.[s3,s3-test]'") for name in ("s3fs", "moto.server")
    )
    server = servers.ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    with pytest.MonkeyPatch.context() as patch:
        host, port = server.get_host_and_port()
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        for name, value in {"ACCESS_KEY_ID": "a", "SECRET_ACCESS_KEY": "b", "DEFAULT_REGION": "us-east-1"}.items():
            patch.setenv(f"AWS_{name}", value)
        s3fs.S3FileSystem().mkdir("speech")
        yield "s3://speech"
    server.stop()


def files(url: str) -> list[str]:
    """Everything under a URL, as the bucket has it now."""
    import s3fs

    return list(s3fs.S3FileSystem(skip_instance_cache=True, use_listings_cache=False).find(url))


def test_a_blob_in_a_bucket(bucket: str, tmp_path: Path) -> None:
    store = Store(f"{bucket}/alone", tmp_path / "cache")
    digest = store.put(b"some bytes" * 1000)
    assert digest == hashlib.sha256(b"some bytes" * 1000).hexdigest()
    assert [path.rsplit("/", 1)[1] for path in files(f"{bucket}/alone")] == [digest]
    other = Store(f"{bucket}/alone", tmp_path / "another cache")
    assert other.has(digest)
    assert other.local(digest).read_bytes() == b"some bytes" * 1000
    store.delete(digest)
    assert not Store(f"{bucket}/alone", tmp_path / "third cache").has(digest)


def test_a_corpus_by_url_is_trained_on_and_labelled(
    bucket: str, own_service: Callable[..., Any], corpus_folder: Path
) -> None:
    import s3fs

    s3fs.S3FileSystem().put(f"{corpus_folder}/", f"{bucket}/corpora/small/", recursive=True)
    settings = {"store": f"{bucket}/blobs", "corpus_roots": f"{bucket}/corpora"}
    with own_service(**settings) as client:
        denied = client.post("/corpora", json={"url": f"{bucket}/elsewhere"})
        assert denied.status_code == 403, denied.text
        answer = client.post("/corpora", json={"url": f"{bucket}/corpora/small"})
        assert answer.status_code == 201, answer.text
        corpus = answer.json()
        assert corpus["utterances"] == 20, corpus
        trained = wait_for_end(
            client,
            started(client, kind="train", corpus=corpus["id"], name="cloudy", preset="lc-crf", training={"epochs": 2}),
        )
        assert trained["state"] == "succeeded", trained
        job = wait_for_end(client, started(client, kind="label", corpus=corpus["id"], model="cloudy", formats=["htk"]))
        assert job["state"] == "succeeded", job
        rows = [json.loads(line) for line in client.get(f"/jobs/{job['id']}/result?format=jsonl").text.splitlines()]
        assert len({row["utterance"] for row in rows}) == 20
        with zipfile.ZipFile(io.BytesIO(client.get(f"/jobs/{job['id']}/result").content)) as archive:
            assert len([name for name in archive.namelist() if name.endswith(".lab")]) == 20
        kept = files(f"{bucket}/blobs")
        assert len(kept) >= 3  # the manifest, the model, a result
        assert client.request("DELETE", f"/jobs/{job['id']}").status_code == 204
        assert len(files(f"{bucket}/blobs")) < len(kept)
