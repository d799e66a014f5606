"""Loaded by a worker when it starts: the large libraries come in meanwhile, not with the first task."""

from __future__ import annotations

import importlib
import threading
from typing import Any

from app import logs, settings


def _load() -> None:
    for name in (
        "features.mfcc",
        "soundfile",
        "app.jobs.label",
        "app.jobs.train",
        "app.jobs.evaluate",
        "model.labeler",
    ):
        importlib.import_module(name)


def dask_setup(worker: Any) -> None:
    """Called by Dask with the worker."""
    known = settings.load()
    logs.configure(known.log_format, known.log_level)
    threading.Thread(target=_load, name="warm", daemon=True).start()
