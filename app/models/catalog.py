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
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phonechain.app.labelling.pipeline import note_precision
from phonechain.app.models import repository
from phonechain.app.models.repository import Kind
from phonechain.app.ops.shared import Shared
from phonechain.app.problems.errors import DatabaseAway, UnknownModel
from phonechain.app.settings import Settings
from phonechain.app.storage.tables import ModelVersion
from phonechain.app.storage.workspace import Workspace
from phonechain.features.errors import ModelFileError, Notice, SettingsError

if TYPE_CHECKING:
    from phonechain.model.files.header import Header
    from phonechain.model.labeler import PhoneLabeler
    from phonechain.model.phone_model import PhoneModel
    from phonechain.model.segmental.aligner import PhoneAligner

FRESH = 1.0
"""Seconds for which an answer of the database is good."""
AWAY = 4.0
"""Seconds more for which it is not asked again when it did not answer."""
MOST, MOST_ALIGNERS = 16, 4
"""Loaded versions that are kept, of each kind."""

DEFAULT = "default"
SUFFIX = ".safetensors"


@dataclass(frozen=True)
class AlignerEntry:
    """An alignment model under the name that requests call it by; it is loaded when it is first needed."""

    name: str
    path: Path
    device: str = "auto"

    @cached_property
    def aligner(self) -> PhoneAligner:
        """Raises ModelFileError."""
        from phonechain.model.segmental.aligner import PhoneAligner

        return PhoneAligner.load(self.path, name=self.name, device=self.device)

    @cached_property
    def _header(self) -> Header:
        from phonechain.model.files import modelfile

        return modelfile.read_header(self.path, name=self.name)

    def summary(self) -> dict[str, Any]:
        header = self._header
        return {
            "name": self.name, "kind": "alignment", "version": header.version, "labels": len(header.labels),
            "title": header.card.name,
        }  # fmt: skip

    def detail(self) -> dict[str, Any]:
        return {**self.summary(), "label_set": list(self._header.labels), "card": self.aligner.card_}


@dataclass(frozen=True)
class Entry:
    """A loaded model that labels segments, under the name that requests call it by."""

    name: str
    labeler: PhoneLabeler

    @cached_property
    def model(self) -> PhoneModel:
        """The network with all that labelling needs."""
        return self.labeler.model_

    @cached_property
    def version(self) -> str:
        return str(self.labeler.card_.get("version", ""))

    @cached_property
    def notices(self) -> tuple[Notice, ...]:
        """What each of the model's answers says of it."""
        return note_precision(self.model)

    @property
    def card(self) -> dict[str, Any]:
        return dict(self.labeler.card_)

    def summary(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "kind": "labelling",
            "version": self.version,
            "labels": len(self.labeler.labels_),
            "title": self.labeler.card_.get("name"),
        }

    def detail(self) -> dict[str, Any]:
        return {**self.summary(), "label_set": list(self.labeler.labels_), "card": self.card}


class Registry:
    """Names to the models that the service was started with: those that label segments, loaded, and alignment models.

    The shipped alignment model is always among these, unless the folder has one of its name.
    """

    def __init__(
        self, entries: dict[str, Entry], aligners: dict[str, AlignerEntry] | None = None, device: str = "auto"
    ) -> None:
        from phonechain.model import ALIGNMENT, pretrained_path

        self._entries = entries
        self.aligners = {ALIGNMENT: AlignerEntry(ALIGNMENT, pretrained_path(ALIGNMENT), device), **(aligners or {})}

    @classmethod
    def load(cls, settings: Settings) -> Registry:
        """Load the shipped models that label, and those of the settings' folder, of both kinds.

        Raises:
            ModelFileError: a file is not a model, or the default one is an alignment model.
            SettingsError: the folder is not there, or torch does not have the device.
        """
        from phonechain.model.labeler import PhoneLabeler

        entries, aligners = {}, {}
        for name, path in model_files(settings).items():
            try:
                if name != DEFAULT and is_aligner(path):
                    aligners[name] = AlignerEntry(name, path, settings.device)
                    _ = aligners[name].aligner  # a file that cannot be used stops the start
                else:
                    entries[name] = Entry(
                        name, PhoneLabeler.load(path, device=settings.device, precision=settings.precision)
                    )
            except ModelFileError as error:
                where = "PHONECHAIN_MODEL" if name == DEFAULT else "PHONECHAIN_MODELS"
                raise ModelFileError(f"{where}: {error}") from None
        return cls(entries, aligners, settings.device)

    @property
    def device(self) -> str:
        """Where the default model computes, and with it all others."""
        return str(self._entries[DEFAULT].labeler.device_)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def get(self, name: str) -> Entry:
        """The model of that name that labels segments. Raises UnknownModel, which lists the names, InvalidRequest."""
        if name in self._entries:
            return self._entries[name]
        if name in self.aligners:
            raise repository.wrong_kind(name, "labelling")
        raise self._unknown(name, self._entries)

    def get_aligner(self, name: str) -> AlignerEntry:
        """The alignment model of that name; `default` is the shipped one. Raises UnknownModel, InvalidRequest."""
        from phonechain.model import ALIGNMENT

        name = ALIGNMENT if name == DEFAULT else name
        if name in self.aligners:
            return self.aligners[name]
        if name in self._entries:
            raise repository.wrong_kind(name, "alignment")
        raise self._unknown(name, self.aligners)

    def find(self, name: str) -> Entry | AlignerEntry:
        """The model of that name, whatever its kind. Raises UnknownModel."""
        found = self._entries.get(name) or self.aligners.get(name)
        if found is None:
            raise self._unknown(name, {**self._entries, **self.aligners})
        return found

    @staticmethod
    def _unknown(name: str, known: Iterable[str]) -> UnknownModel:
        return UnknownModel(
            f"unknown model {name[:80]!r}; there are {', '.join(known)}", pointer="model", value=name[:80]
        )


def is_aligner(path: Path) -> bool:
    """Whether the file holds an alignment model. Raises ModelFileError."""
    from phonechain.model.files import modelfile
    from phonechain.model.files.header import ALIGNMENT_KIND

    return modelfile.read_header(path).model.get("kind") == ALIGNMENT_KIND


def model_files(settings: Settings) -> dict[str, Path]:
    """The file of each model name: the default, the others that ship, and those of the settings' folder, which replace these."""
    from phonechain.model import labelling_names, pretrained_path

    files = {name: pretrained_path(name) for name in labelling_names()}
    if settings.model is not None:
        files[DEFAULT] = settings.model
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
        self._aligners: OrderedDict[str, AlignerEntry] = OrderedDict()
        self._files: dict[str, ModelFile] = {}
        """The files of models loaded at start-up, once a job has needed them."""
        self._lock = threading.Lock()

    async def get(self, name: str) -> Entry:
        """The loaded model that `name` stands for. Raises UnknownModel, ModelFileError, InvalidRequest: it aligns."""
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
        repository.check_kind(row, "labelling")
        with self._lock:
            entry = self._loaded.get(row.blob)
            if entry is None:
                from phonechain.model.labeler import PhoneLabeler

                file = self.workspace.store.local(row.blob)
                known = self.settings
                labeler = PhoneLabeler.load(file, device=known.device, precision=known.precision)
                entry = Entry(row.name, labeler)
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

    def resolve(self, name: str, hold: Callable[[str], None], kind: Kind = "labelling") -> ModelFile:
        """The file of the model that `name` stands for now, as a job needs it; `hold` is called with its digest.

        Raises:
            UnknownModel, StorageFull, DatabaseAway. InvalidRequest: a model of the other kind.
        """
        row = None
        if kind == "labelling" or not self._is_reserved(name):
            with self.workspace.db.read() as session:
                row = repository.find(session, name[:200])
        if row is not None:
            repository.check_kind(row, kind)
            hold(row.blob)
            try:
                return ModelFile(row.name, row.version, row.blob, self.workspace.store.local(row.blob))
            except FileNotFoundError:  # removed in this moment
                raise repository.unknown_model(name) from None
        entry = self.registry.get(name) if kind == "labelling" else self.registry.get_aligner(name)
        known = self._files.get(entry.name)
        if known is not None:
            hold(known.blob)
        if known is None or not known.path.exists():
            store = self.workspace.with_claim(hold).store
            digest = store.put(self.file_of(entry))
            known = ModelFile(entry.name, entry.summary()["version"], digest, store.local(digest))
            self._files[entry.name] = known
        return known

    def file_of(self, entry: Entry | AlignerEntry) -> Path:
        """The file of a model that the service was started with."""
        return entry.path if isinstance(entry, AlignerEntry) else model_files(self.settings)[entry.name]

    def get_aligner(self, name: str) -> AlignerEntry:
        """The alignment model that `name` stands for; `default` is the shipped one. Raises UnknownModel, InvalidRequest."""
        row = None if self._is_reserved(name) else self.find(name)
        if row is None:
            return self.registry.get_aligner(name)
        repository.check_kind(row, "alignment")
        with self._lock:
            entry = self._aligners.get(row.blob)
            if entry is None:
                entry = self._aligners[row.blob] = AlignerEntry(
                    row.name, self.workspace.store.local(row.blob), self.settings.device
                )
                while len(self._aligners) > MOST_ALIGNERS:
                    self._aligners.popitem(last=False)
            self._aligners.move_to_end(row.blob)
        return entry

    @staticmethod
    def _is_reserved(name: str) -> bool:
        """Whether this alignment model is never a stored one: the alias `default` is of models that label."""
        from phonechain.model import ALIGNMENT

        return name in (DEFAULT, ALIGNMENT)

    def list_loaded(self) -> list[Entry]:
        """Every model in memory."""
        with self._lock:
            return [*self.registry, *self._loaded.values()]

    def invalidate(self) -> None:
        """Forget lookups, because a stored version or an alias has changed."""
        self._shared.models[self._shared.number] += 1
