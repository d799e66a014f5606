"""Waiting out a database that is away: a worker keeps what it has in hand, and goes on when the database is back."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_delay, wait_exponential

from phonechain.app.problems.errors import DatabaseAway

P = ParamSpec("P")
R = TypeVar("R")

LONGEST = 15 * 60.0
"""Seconds after which the execution is given up; the reconciler submits the job again when the database is back."""
EVERY = 0.25
"""Seconds between two looks at whether the job is still wanted."""

log = logging.getLogger(__name__)


def _log_wait(state: RetryCallState) -> None:
    log.warning("waiting for the database: %s", state.outcome.exception() if state.outcome is not None else None)


def retry_database(action: Callable[P, R], *arguments: P.args, **more: P.kwargs) -> R:
    """Call it until the database answers. Raises DatabaseAway after `LONGEST` seconds."""
    retrying = Retrying(
        retry=retry_if_exception_type(DatabaseAway),
        wait=wait_exponential(multiplier=0.1, max=5.0),
        stop=stop_after_delay(LONGEST),
        before_sleep=_log_wait,
        reraise=True,
    )
    return retrying(action, *arguments, **more)


class Throttle:
    """Calls `action` when asked, at most every `EVERY` seconds. A database that is away is no reason to stop."""

    def __init__(self, action: Callable[[], None], every: float = EVERY) -> None:
        self.action = action
        self.every = every
        self._next = 0.0

    def __call__(self) -> None:
        now = time.monotonic()
        if now >= self._next:
            try:
                self.action()
            except DatabaseAway as error:
                log.warning("the database does not respond: %s", error)
            self._next = time.monotonic() + self.every
