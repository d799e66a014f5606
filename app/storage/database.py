"""Sessions on SQLite (write-ahead log, BEGIN IMMEDIATE) or PostgreSQL, and what is said when the database is away.

Everything is synchronous: routes go through a thread, workers have nothing else to do meanwhile.
"""

from __future__ import annotations

import errno
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.orm import Session
from sqlalchemy.pool import ConnectionPoolEntry

from phonechain.app.problems.errors import DatabaseAway, DatabaseUnusable, StorageFull
from phonechain.features.errors import SettingsError

BUSY = 30.0
"""Seconds that a writer waits for another one on SQLite before it gives up."""


CHECKED = 256 * 2**20
"""Bytes of an SQLite file up to which `Database.check` reads the whole file."""


def sqlite_url(path: Path) -> str:
    """The URL of an SQLite file."""
    return f"sqlite:///{path}"


class Database:
    """An engine, its sessions and its migrations. Cheap to make: it connects when it is first used.

    `migrated` says that the tables are up to date, or that somebody else sees to that.

    Raises:
        SettingsError: not the URL of a database that is known here.
    """

    def __init__(self, url: str, *, retry_after: int = 1) -> None:
        try:
            parsed = make_url(url)
        except ArgumentError:
            raise SettingsError("PHONECHAIN_DATABASE: expected a database URL such as postgresql://...") from None
        if parsed.get_backend_name() not in ("sqlite", "postgresql"):
            raise SettingsError(
                f"PHONECHAIN_DATABASE: expected sqlite or postgresql, got {parsed.get_backend_name()!r}"
            )
        if parsed.drivername in ("postgresql", "postgres"):
            parsed = parsed.set(drivername="postgresql+psycopg")
        self.sqlite = parsed.get_backend_name() == "sqlite"
        self.url = parsed.render_as_string(hide_password=False)
        self.retry_after = retry_after
        options: dict[str, Any] = {"pool_pre_ping": True} if not self.sqlite else {}
        connect = {"timeout": BUSY, "check_same_thread": False} if self.sqlite else {"connect_timeout": 5}
        try:
            self.engine: Engine = create_engine(parsed, connect_args=connect, **options)
        except NoSuchModuleError as error:
            raise SettingsError(f"PHONECHAIN_DATABASE: expected a known database, got {error}") from None
        if self.sqlite:
            event.listen(self.engine, "connect", _on_connect)
            event.listen(self.engine, "begin", _begin)
        self._writes = self.engine.execution_options(writes=True)
        self.migrated = False
        self._migrating = threading.Lock()

    @property
    def exists(self) -> bool:
        """False for an SQLite file that nobody has made yet: nothing was ever kept there."""
        return not self.sqlite or Path(self.engine.url.database or "").exists()

    def migrate(self) -> None:
        """Bring the tables up to date, once a process. Raises DatabaseAway, StorageFull."""
        if self.migrated:
            return
        from phonechain.app.storage.migrations import migrate

        with self._migrating:
            if not self.migrated:
                if self.sqlite:
                    Path(self.engine.url.database or "").parent.mkdir(parents=True, exist_ok=True)
                migrate.upgrade(self)
                self.migrated = True

    def check(self) -> None:
        """Look whether it can be used, without changing anything; an SQLite file that is not there yet can.

        Raises:
            DatabaseAway: it does not answer now.
            DatabaseUnusable: it is damaged, or of another version than this service and not migrated by it.
        """
        if not self.exists:
            return
        from phonechain.app.storage.migrations import migrate

        with self.read() as session:
            at = migrate.refuse_newer(session.connection(), self.retry_after)
            if self.migrated and at != migrate.newest_revision():
                raise DatabaseUnusable(
                    f"the database is at revision {at}, expected {migrate.newest_revision()}: run phonechain db upgrade",
                    retry_after=self.retry_after,
                )
            if self.sqlite and Path(self.engine.url.database or "").stat().st_size <= CHECKED:
                found = session.execute(text("PRAGMA quick_check(1)")).scalar()
                if found != "ok":
                    raise self._damage_error(str(found))

    def _damage_error(self, reason: str) -> DatabaseUnusable:
        where = f": {self.engine.url.database}" if self.sqlite else ""
        said = " ".join(reason.split())[:200]
        return DatabaseUnusable(f"the database is damaged{where} ({said})", retry_after=self.retry_after)

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A session that sees one state of the database and changes nothing."""
        with self._session(self.engine) as session:
            yield session

    @contextmanager
    def write(self) -> Iterator[Session]:
        """A transaction: committed at the end of the block, rolled back where the block raises.

        On SQLite it takes the write lock at once, so what it reads stays true until it commits.
        """
        with self._session(self._writes) as session:
            yield session
            with self._translate_errors():
                session.commit()

    @contextmanager
    def _session(self, engine: Engine) -> Iterator[Session]:
        with self._translate_errors(), Session(engine, expire_on_commit=False) as session:
            yield session

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            raise self._translate(error) from error

    def _translate(self, error: DBAPIError) -> Exception:
        """The error as one of this service where it is about the database's state and not about a statement."""
        original = error.orig
        said = str(original)
        if type(original) is sqlite3.DatabaseError:  # "file is not a database", "database disk image is malformed"
            return self._damage_error(said)
        if "disk is full" in said or getattr(original, "sqlstate", None) == "53100":
            return StorageFull("disk full: the database cannot grow")
        away = error.connection_invalidated or isinstance(original, sqlite3.OperationalError)
        state = getattr(original, "sqlstate", None)
        # Without a state psycopg could not connect; 08, 57 and 53 are the classes of connection exceptions, operator
        # intervention and insufficient resources (PostgreSQL's manual, appendix A).
        if type(original).__module__.startswith("psycopg"):
            away = away or (state or "08")[:2] in ("08", "57", "53")
        if away and "no such" not in said and "syntax error" not in said:
            return DatabaseAway(
                f"the database does not respond: {' '.join(said.split())[:200]}", retry_after=self.retry_after
            )
        return error

    def dispose(self) -> None:
        """Close the connections of the pool."""
        self.engine.dispose()


def _on_connect(connection: Any, record: ConnectionPoolEntry) -> None:
    connection.isolation_level = None  # the driver begins nothing by itself: `_begin` does
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin(connection: Any) -> None:
    immediate = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")


_SHARED: dict[str, Database] = {}
_LOCK = threading.Lock()


def open_shared(url: str) -> Database:
    """The database of this URL in this process: workers keep one from task to task."""
    with _LOCK:
        if url not in _SHARED:
            _SHARED[url] = Database(url)
        return _SHARED[url]


def is_disk_full(error: OSError) -> bool:
    """Whether the error says that there is no room left."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)
