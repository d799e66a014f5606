"""What training and evaluation report, written into the job's row."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from phonechain.app.jobs import repository
from phonechain.app.jobs.outage import Throttle, retry_database
from phonechain.app.storage.tables import Job
from phonechain.app.storage.workspace import Workspace

if TYPE_CHECKING:
    from phonechain.model.learning.training import Progress

REPORT = 0.5
"""Seconds between two reports of progress inside an epoch."""


class ProgressReporter:
    """Writes what training reports into the job's row, not too often, and stops it where it is not wanted any more.

    Stopping is by exception, out of whatever calls back: a cancelled job need not fit a temperature first.
    """

    def __init__(self, workspace: Workspace, job: Job) -> None:
        self.workspace, self.job = workspace, job
        self.still_wanted = Throttle(lambda: repository.check_wanted(workspace.db, job.id, job.attempt))
        self._next = 0.0
        self._remarks: list[str] = []

    def stop(self) -> bool:
        self.still_wanted()
        return False

    def counting(self, stage: str) -> Any:
        """A callback (done, total)."""
        return lambda done, total: self._maybe(stage, done, total, "utterances", "", {})

    def event(self, event: Progress) -> None:
        """What `fit` calls."""
        if event.stage == "epoch":
            retry_database(
                repository.update_progress, self.workspace.db, self.job.id, self.job.attempt, finished=True, stage="train",
                done=event.done, total=event.total, unit="epochs", message=event.message or self._remark,
                metrics=dict(event.metrics),
            )  # fmt: skip
            return
        if event.stage in ("start", "notice"):  # stays beside what follows
            message = event.message if event.stage == "start" else f"Warning: {event.message.removesuffix('.')}."
            self._remarks.append(message)
            self.stage(event.stage, 1, 1, event.unit, message)
            return
        message = event.message or (self._remark if event.stage == "train" else "")
        self._maybe(event.stage, event.done, event.total, event.unit, message, dict(event.metrics))

    @property
    def _remark(self) -> str:
        """What a person should see for as long as the training runs: what it starts from, and what was noticed."""
        return " ".join(self._remarks)

    def stage(self, stage: str, done: int, total: int, unit: str, message: str = "") -> None:
        """A new stage."""
        retry_database(
            repository.update_progress, self.workspace.db, self.job.id, self.job.attempt, stage=stage, done=done, total=total,
            unit=unit, message=message,
        )  # fmt: skip

    def _maybe(self, stage: str, done: int, total: int, unit: str, message: str, metrics: dict[str, float]) -> None:
        self.still_wanted()
        now = time.monotonic()
        if now < self._next and done < total:
            return
        self._next = now + REPORT
        values: dict[str, Any] = {"stage": stage, "done": done, "total": total, "unit": unit, "message": message}
        if metrics:
            values["metrics"] = metrics
        retry_database(repository.update_progress, self.workspace.db, self.job.id, self.job.attempt, **values)
