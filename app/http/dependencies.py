"""What routes ask for, as annotated dependencies; `async`, since a synchronous one costs a trip to the thread pool."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import Depends, Request

from phonechain.app.http.gateway import caller_id, owner_of
from phonechain.app.problems.documents import invalid_request
from phonechain.app.problems.options import wrong_option
from phonechain.app.services import Services
from phonechain.app.storage import quotas
from phonechain.app.storage.database import Database


async def get_services(request: Request) -> Services:
    """The parts of the application that the request came to."""
    services: Services = request.app.state.services
    return services


async def get_database(request: Request) -> Database:
    """Its database, with the tables up to date. Raises DatabaseAway, StorageFull."""
    services: Services = request.app.state.services
    db = services.workspace.db
    if not db.migrated:
        await asyncio.to_thread(db.migrate)
    return db


async def check_query(request: Request) -> None:
    """Raises InvalidRequest for a name in the query that the route does not take: a slip would go unnoticed."""
    if not request.query_params:
        return
    route = request.scope["route"]
    known = [field.alias for field in route.dependant.query_params]
    known += [parameter["name"] for parameter in (route.openapi_extra or {}).get("parameters", ())]
    findings = [
        {
            "detail": f"{name[:80]}: {wrong_option(name, known) if known else 'expected no query'}",
            "parameter": name[:80],
        }
        for name in request.query_params
        if name not in known
    ]
    if findings:
        raise invalid_request(findings)


async def get_owner(request: Request) -> str | None:
    """The API key whose jobs and corpora the caller may see; None for everybody's."""
    return owner_of(request)


async def check_quota(request: Request, services: Services) -> None:
    """Raises QuotaExceeded where the caller may store nothing more: before its upload is read."""
    settings = services.settings
    if not settings.max_stored_bytes and not settings.max_key_bytes:
        return

    def check() -> None:
        with services.workspace.db.read() as session:
            quotas.check_bytes(session, settings, caller_id(request))

    await asyncio.to_thread(check)


ServicesDep = Annotated[Services, Depends(get_services)]
DatabaseDep = Annotated[Database, Depends(get_database)]
OwnerDep = Annotated[str | None, Depends(get_owner)]
