"""Reviews as they are answered, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from phonechain.app.reviews import intake
from phonechain.app.reviews.repository import LogState
from phonechain.app.reviews.tables import Review, ReviewFile, ReviewOperation
from phonechain.app.storage.ids import timestamp


def summary_to_json(row: Review, files: int, segments: int) -> dict[str, Any]:
    """A review in a list: a `ReviewSummary`."""
    return {
        "id": row.id,
        "name": row.name,
        "revision": row.revision,
        "files": files,
        "segments": segments,
        "created": timestamp(row.created),
        "changed": timestamp(row.changed),
    }


def review_to_json(row: Review, files: list[ReviewFile], state: LogState) -> dict[str, Any]:
    """A review with its files: a `ReviewOut`."""
    return {
        "id": row.id,
        "name": row.name,
        **state.to_json(),
        "created": timestamp(row.created),
        "changed": timestamp(row.changed),
        "files": [file_to_json(file) for file in files],
    }


def file_to_json(row: ReviewFile) -> dict[str, Any]:
    """A file: a `ReviewFileOut`."""
    return {
        "number": row.number,
        "name": row.name,
        "annotation_name": row.annotation_name,
        "speaker": row.speaker,
        "format": row.format,
        "tier": row.tier,
        "tier_index": row.tier_index,
        "duration": row.duration,
        "segments": row.segments,
        "model": row.model,
        "warnings": row.warnings,
        "peaks_per_second": intake.PEAKS,
        "sample_rate": intake.RATE,
    }


def log_to_json(state: LogState, rows: list[ReviewOperation], names: Mapping[str, str]) -> dict[str, Any]:
    """Entries of the log, and where it stands: an `OperationsOut`; `names` are those of keys by their ids."""
    return {
        **state.to_json(),
        "operations": [
            {
                "number": row.number,
                "kind": row.kind,
                "file": row.file,
                "position": row.position,
                "before": row.before,
                "after": row.after,
                "target": row.target,
                "by": names.get(row.key, row.key) or None,
                "at": timestamp(row.at),
            }
            for row in rows
        ],
    }
