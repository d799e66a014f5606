"""Which model a name means: a stored version, by name, version or alias, or one that the service was started with.

The database is asked at most once a second for a name, and loaded models are kept; while the database is away, what was
known last holds.
"""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phonechain.app.models import repository
from phonechain.app.ops.shared import Shared
from phonechain.app.problems.errors import DatabaseAway, InvalidRequest, UnknownModel
from phonechain.app.settings import Settings
from phonechain.app.storage.tables import ModelVersion
from phonechain.app.storage.workspace import Workspace
from phonechain.features.errors import ModelFileError, SettingsError

if TYPE_CHECKING:
    from phonechain.model.files.header import Header
    from phonechain.model.labeler import PhoneLabeler
    from phonechain.model.phone_model import PhoneModel

FRESH = 1.0
"""Seconds for which an answer of the database is good."""
AWAY = 4.0
"""Seconds more for which it is not asked again when it did not answer."""
MOST = 16
"""Loaded versions that are kept."""

DEFAULT = "default"
SUFFIX = ".safetensors"


@dataclass(frozen=True)
class Entry:
    """A loaded model under the name that requests call it by."""

    name: str
    labeler: PhoneLabeler

    @cached_property
    def model(self) -> PhoneModel:
        """The network with all that labelling needs."""
        return self.labeler.model_

    @cached_property
    def version(self) -> str:
        return str(self.labeler.card_.get("version", ""))

    @property
    def card(self) -> dict[str, Any]:
        return dict(self.labeler.card_)

    def summary(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "version": self.version,
            "labels": len(self.labeler.labels_),
            "title": self.labeler.card_.get("name"),
        }

    def detail(self) -> dict[str, Any]:
        return {**self.summary(), "label_set": list(self.labeler.labels_), "card": self.card}


class Registry:
    """Names to loaded models. Filled once at the start; a model that cannot be read stops the start."""

    def __init__(self, entries: dict[str, Entry]) -> None:
        self._entries = entries

    @classmethod
    def load(cls, settings: Settings) -> Registry:
        """Load the default model and those of the settings' folder.

        Raises:
            ModelFileError: a file is not a model.
            SettingsError: the folder is not there, or torch does not have the device.
        """
        from phonechain.model.labeler import PhoneLabeler

        entries = {}
        for name, path in model_files(settings).items():
            try:
                entries[name] = Entry(name, PhoneLabeler.load(path, device=settings.device))
            except ModelFileError as error:
                where = "PHONECHAIN_MODEL" if name == DEFAULT else "PHONECHAIN_MODELS"
                raise ModelFileError(f"{where}: {error}") from None
        return cls(entries)

    @property
    def device(self) -> str:
        """Where the default model computes, and with it all others."""
        return str(self._entries[DEFAULT].labeler.device_)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def get(self, name: str) -> Entry:
        """Raises UnknownModel, which lists the names."""
        try:
            return self._entries[name]
        except KeyError:
            names = ", ".join(self._entries)
            raise UnknownModel(
                f"unknown model {name[:80]!r}; there are {names}", pointer="model", value=name[:80]
            ) from None


def model_files(settings: Settings) -> dict[str, Path]:
    """The file of each model name, the default first."""
    from phonechain.model import pretrained_path

    files = {DEFAULT: settings.model if settings.model is not None else pretrained_path()}
    if settings.models is not None:
        if not settings.models.is_dir():
            raise SettingsError(
                f"PHONECHAIN_MODELS: expected a folder, got {settings.models}", value=str(settings.models)
            )
        for path in sorted(settings.models.glob(f"*{SUFFIX}")):
            if not re.fullmatch(r"[A-Za-z0-9][\w.-]*", path.stem):
                raise SettingsError(
                    "PHONECHAIN_MODELS: expected file names of letters, digits, dots, hyphens and underscores, "
                    f"got {path.name!r}"
                )
            if path.stem == DEFAULT:
                raise SettingsError(
                    "PHONECHAIN_MODELS: expected no model called default (PHONECHAIN_MODEL sets that one)"
                )
            files[path.stem] = path
    return files


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A model that a job uses: its name, its version, and its file as a blob."""

    name: str
    version: str
    blob: str
    path: Path

    def reference(self) -> dict[str, str]:
        """What the job keeps of it."""
        return {"name": self.name, "version": self.version, "blob": self.blob}

    def header(self) -> Header:
        """Labels, settings and card, without the weights. Raises ModelFileError."""
        from phonechain.model.files import modelfile

        return modelfile.read_header(self.path, name=f"{self.name}@{self.version}")


class ModelCatalog:
    """What `model` in a request can be. All but `get` wait for the database: call them in a thread."""

    def __init__(self, settings: Settings, registry: Registry, workspace: Workspace, shared: Shared) -> None:
        self.settings, self.registry, self.workspace = settings, registry, workspace
        self._shared, self._changes = shared, 0
        self._known: dict[str, tuple[float, ModelVersion | None]] = {}
        self._loaded: OrderedDict[str, Entry] = OrderedDict()
        self._files: dict[str, ModelFile] = {}
        """The files of models loaded at start-up, once a job has needed them."""
        self._lock = threading.Lock()

    async def get(self, name: str) -> Entry:
        """The loaded model that `name` stands for. Raises UnknownModel, ModelFileError."""
        if (changes := sum(self._shared.models)) != self._changes:  # by another process too
            self._changes = changes
            self._known.clear()
        known = self._known.get(name)
        if known is not None and time.monotonic() - known[0] < FRESH:
            row = known[1]
            if row is None:
                return self.registry.get(name)
            if (entry := self._loaded.get(row.blob)) is not None:
                return entry
        elif not self.workspace.db.migrated and not self.workspace.db.exists:
            return self.registry.get(name)  # nothing was ever stored
        return await asyncio.to_thread(self._load, name)

    def _load(self, name: str) -> Entry:
        row = self.find(name)
        if row is None:
            return self.registry.get(name)
        with self._lock:
            entry = self._loaded.get(row.blob)
            if entry is None:
                from phonechain.model.labeler import PhoneLabeler

                file = self.workspace.store.local(row.blob)
                entry = Entry(row.name, PhoneLabeler.load(file, device=self.settings.device))
                self._loaded[row.blob] = entry
                while len(self._loaded) > MOST:
                    self._loaded.popitem(last=False)
            self._loaded.move_to_end(row.blob)
        return entry

    def find(self, name: str) -> ModelVersion | None:
        """The stored version that `name` stands for; None where there is none."""
        before = self._known.get(name)
        if before is not None:  # while this one asks, nobody else does
            self._known[name] = (time.monotonic(), before[1])
        try:
            self.workspace.db.migrate()
            with self.workspace.db.read() as session:
                row = repository.find(session, name[:200])
        except DatabaseAway:
            row = None if before is None else before[1]
            if before is not None or name in {entry.name for entry in self.registry}:
                self._known[name] = (time.monotonic() + AWAY, row)
            return row
        if len(self._known) > 10_000:
            self._known.clear()
        self._known[name] = (time.monotonic(), row)
        return row

    def resolve(self, name: str, hold: Callable[[str], None]) -> ModelFile:
        """The file of the model that `name` stands for now, as a job needs it; `hold` is called with its digest.

        Raises:
            UnknownModel, StorageFull, DatabaseAway.
        """
        with self.workspace.db.read() as session:
            row = repository.find(session, name[:200])
        if row is not None:
            hold(row.blob)
            try:
                return ModelFile(row.name, row.version, row.blob, self.workspace.store.local(row.blob))
            except FileNotFoundError:  # removed in this moment
                raise repository.unknown_model(name) from None
        known = self._files.get(name)
        if known is not None:
            hold(known.blob)
        if known is None or not known.path.exists():
            entry, store = self.registry.get(name), self.workspace.with_claim(hold).store
            digest = store.put(model_files(self.settings)[entry.name])
            known = self._files[name] = ModelFile(entry.name, entry.version, digest, store.local(digest))
        return known

    def aligner_path(self, name: str) -> tuple[str, Path]:
        """Name and file of the alignment model that `name` stands for; `default` is the one that ships. Raises UnknownModel."""
        from phonechain.model import ALIGNMENT, pretrained_path

        if name in (DEFAULT, ALIGNMENT):
            return ALIGNMENT, pretrained_path(ALIGNMENT)
        row = self.find(name)
        if row is None:
            raise repository.unknown_model(name)
        return row.name, self.workspace.store.local(row.blob)

    def aligner_file(self, name: str, hold: Callable[[str], None]) -> ModelFile:
        """The file of that model, as a job needs it; `hold` is called with its digest.

        Raises:
            UnknownModel, StorageFull, DatabaseAway. InvalidRequest: a model that labels given segments.
        """
        from phonechain.model import ALIGNMENT, pretrained_path
        from phonechain.model.files import modelfile
        from phonechain.model.files.header import ALIGNMENT_KIND

        if name not in (DEFAULT, ALIGNMENT):
            file = self.resolve(name, hold)
            if file.header().model.get("kind") != ALIGNMENT_KIND:
                raise InvalidRequest(
                    f"expected an alignment model, got {file.name}@{file.version}, which labels given segments",
                    pointer="model", value=name,
                )  # fmt: skip
            return file
        known = self._files.get(ALIGNMENT)
        if known is not None:
            hold(known.blob)
        if known is None or not known.path.exists():
            path, store = pretrained_path(ALIGNMENT), self.workspace.with_claim(hold).store
            digest = store.put(path)
            known = ModelFile(ALIGNMENT, modelfile.read_header(path).version, digest, store.local(digest))
            self._files[ALIGNMENT] = known
        return known

    def list_loaded(self) -> list[Entry]:
        """Every model in memory."""
        with self._lock:
            return [*self.registry, *self._loaded.values()]

    def invalidate(self) -> None:
        """Forget lookups, because a stored version or an alias has changed."""
        self._shared.models[self._shared.number] += 1
