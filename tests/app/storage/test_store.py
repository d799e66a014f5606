"""Blobs by content, in a folder and behind fsspec."""

from __future__ import annotations

import hashlib
import uuid
from pathlib import Path

import pytest

from phonechain.app.problems.errors import StorageFull
from phonechain.app.storage.blobs import Store
from phonechain.features.errors import SettingsError


@pytest.fixture(params=["folder", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    where = str(tmp_path / "blobs") if request.param == "folder" else f"memory://{uuid.uuid4().hex}"
    return Store(where, tmp_path / "cache")


def test_a_blob_is_kept_under_its_digest(store: Store, tmp_path: Path) -> None:
    digest = store.put(b"some bytes")
    assert digest == hashlib.sha256(b"some bytes").hexdigest()
    assert store.has(digest)
    assert store.local(digest).read_bytes() == b"some bytes"
    file = tmp_path / "file"
    file.write_bytes(b"some bytes")
    assert store.put(file) == digest
    assert list(store.scratch().iterdir()) == []
    store.delete(digest)
    store.delete(digest)
    assert not store.has(digest)
    with pytest.raises(FileNotFoundError):
        store.local(digest)


def test_a_write_that_fails_leaves_nothing(store: Store) -> None:
    def broken() -> None:
        with store.writing() as file:
            file.write(b"half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        broken()
    assert list(store.scratch().iterdir()) == []
    assert not store.has(hashlib.sha256(b"half").hexdigest())


def test_a_full_disk_is_said_to_be_full(store: Store) -> None:
    def full() -> None:
        with store.writing() as file:
            file.write(b"x")
            raise OSError(28, "No space left on device")

    with pytest.raises(StorageFull, match="disk full"):
        full()


@pytest.mark.parametrize("name", ["../../etc/passwd", "", "0" * 63, "G" * 64])
def test_only_digests_are_names(store: Store, name: str) -> None:
    with pytest.raises(ValueError, match="digest"):
        store.local(name)


def test_unknown_protocols_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="PHONECHAIN_STORE"):
        Store("nonsense://bucket", tmp_path)
