"""Alignments as rows of tables, a phone each: of `phonechain align --table` and of jobs' CSV."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

COLUMNS = (
    "start", "end", "label", "word", "within_20_ms", "start_low", "start_high", "posterior", "given_start",
    "log_posterior_per_phone", "log_posterior", "fits_worst", "guessed", "labelled", "labelled_posterior",
)  # fmt: skip


def phone_to_row(document: Mapping[str, Any], place: int) -> dict[str, Any]:
    """The phone at a place of an alignment, or of a recognition, which documents.to_json made: a value for each of COLUMNS."""
    segment, transcript = document["segments"][place], document.get("transcript", {})
    (low, high), labelled = segment["start_interval"], segment.get("labelled") or {}
    word = document["words"][segment["word"]] if segment.get("word") is not None and document.get("words") else {}
    return {
        "start": segment["start"],
        "end": segment["end"],
        "label": segment["label"],
        "word": word.get("written", ""),
        "guessed": "yes" if word.get("guessed") else "",
        "within_20_ms": segment["within_20_ms"],
        "start_low": low,
        "start_high": high,
        "posterior": segment["posterior"],
        "given_start": segment.get("given_start", ""),
        "log_posterior_per_phone": transcript.get("log_posterior_per_phone", ""),
        "log_posterior": transcript.get("log_posterior", ""),
        "fits_worst": "yes" if place in (transcript.get("worst") or {}).get("segments", ()) else "",
        "labelled": labelled.get("label", ""),
        "labelled_posterior": labelled.get("posterior", ""),
    }
