"""What routes ask for, as annotated dependencies; `async`, since a synchronous one costs a trip to the thread pool."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import Depends, Request

from phonechain.app.services import Services
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


ServicesDep = Annotated[Services, Depends(get_services)]
DatabaseDep = Annotated[Database, Depends(get_database)]
