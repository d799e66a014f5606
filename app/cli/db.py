"""`phonechain db ...`: migrate the database of the service; `phonechain keys ...`: its API keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from phonechain.features.errors import SettingsError

if TYPE_CHECKING:
    from phonechain.app.storage.database import Database
    from phonechain.app.storage.workspace import Workspace

db = typer.Typer(help="Migrate the database of the service.", no_args_is_help=True)
keys = typer.Typer(help="Manage the API keys of the service.", no_args_is_help=True)


def _workspace() -> Workspace:
    from phonechain.app import environment
    from phonechain.app.storage.workspace import Workspace

    workspace = Workspace.from_settings(environment.load())
    if workspace.db.sqlite:
        workspace.root.mkdir(parents=True, exist_ok=True)
    return workspace


def _migrated() -> Workspace:
    """The workspace with the newest tables: keys may be asked for before a service has started there."""
    from phonechain.app.storage.migrations import migrate

    workspace = _workspace()
    migrate.upgrade(workspace.db)
    return workspace


def _migrate(move: Callable[[Database, str], None], revision: str) -> None:
    """Move the database to a revision and print where it is. Raises SettingsError: there is no such revision."""
    from alembic.util.exc import CommandError

    from phonechain.app.storage.migrations import migrate

    migrate.check_revision(revision)
    database = _workspace().db
    try:
        move(database, revision)
    except CommandError as error:  # more steps than there are
        raise SettingsError(
            f"expected a revision such as 0001, head or base, got {revision[:40]!r}: {error}", value=revision[:40]
        ) from None
    typer.echo(f"the database is at revision {migrate.read_revision(database) or 'base'}")


@db.command("upgrade")
def upgrade(
    revision: Annotated[str, typer.Argument(help="Revision to migrate to.", metavar="REVISION")] = "head",
) -> None:
    """Migrate the tables to the newest revision."""
    from phonechain.app.storage.migrations import migrate

    _migrate(migrate.upgrade, revision)


@db.command("downgrade")
def downgrade(
    revision: Annotated[
        str, typer.Argument(help="Revision to return to; base removes all tables.", metavar="REVISION")
    ],
) -> None:
    """Migrate the tables back to an earlier revision."""
    from phonechain.app.storage.migrations import migrate

    _migrate(migrate.downgrade, revision)


@db.command("current")
def current() -> None:
    """Print the database's revision and the newest. The exit code is 1 if they differ."""
    from phonechain.app.storage.migrations import migrate

    at = migrate.read_revision(_workspace().db)
    typer.echo(f"at {at or 'base'}, the newest is {migrate.newest_revision()}")
    if at != migrate.newest_revision():
        raise typer.Exit(1)


@keys.command("add")
def add(
    name: Annotated[str, typer.Argument(help="Name of the key's user.", metavar="NAME")],
    scope: Annotated[
        list[str] | None, typer.Option(help="read, label, train or admin; repeatable. Default: label.")
    ] = None,
) -> None:
    """Create a key and print it; it cannot be shown again.

    The first key needs the scope admin. Once there is a key, every request needs one.
    """
    from phonechain.app import environment
    from phonechain.app.storage import keys as stored

    scopes = scope or ["label"]
    for given in scopes:
        if given not in stored.SCOPES:
            raise SettingsError(f"--scope: expected one of {', '.join(stored.SCOPES)}, got {given!r}", value=given)
    row, key = stored.create(_migrated().db, name, scopes, admin_key=environment.load().admin_key is not None)
    typer.echo(key)
    typer.echo(f"id {row.id}, scopes {', '.join(scopes)}", err=True)


@keys.command("list")
def list_() -> None:
    """List the keys without their secrets."""
    from phonechain.app.cli import common
    from phonechain.app.storage import keys as stored
    from phonechain.app.storage.ids import timestamp

    table = common.table("id", "name", "scopes", "created", "revoked")
    for row in stored.list_all(_migrated().db):
        table.add_row(
            row.id,
            row.name,
            " ".join(row.scopes),
            timestamp(row.created),
            timestamp(row.revoked) or "",
        )
    common.console().print(table)


@keys.command("revoke")
def revoke(id: Annotated[str, typer.Argument(help="Id of the key.", metavar="ID")]) -> None:
    """Revoke a key."""
    from phonechain.app.storage import keys as stored

    stored.revoke(_migrated().db, id)
    typer.echo(f"revoked {id}")
