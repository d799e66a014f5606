"""Loaded by a worker when it starts: the large libraries come in meanwhile, not with the first task."""

from __future__ import annotations

import importlib
import threading
from typing import Any

from phonechain.app import environment
from phonechain.app.ops import logs


def _load() -> None:
    for name in (
        "phonechain.features.mfcc",
        "soundfile",
        "phonechain.app.jobs.label",
        "phonechain.app.jobs.align",
        "phonechain.app.jobs.train",
        "phonechain.app.jobs.evaluate",
        "phonechain.model.labeler",
    ):
        importlib.import_module(name)


def dask_setup(worker: Any) -> None:
    """Called by Dask with the worker."""
    known = environment.load()
    logs.configure(known.log_format, known.log_level)
    threading.Thread(target=_load, name="warm", daemon=True).start()
