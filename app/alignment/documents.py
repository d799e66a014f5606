"""Answers as JSON: the same document from `phonechain align --format json` and `POST /align`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from phonechain.app.alignment.pipeline import AlignedRecording
from phonechain.features.errors import Notice
from phonechain.model.segmental.aligner import PhoneAligner
from phonechain.model.segmental.answers import AlignedPhone, AlignedWord, Recognition, WorstFit

if TYPE_CHECKING:
    from phonechain.app.alignment.labels import Labels
    from phonechain.model.answers import LabelledSegment


def to_json(
    name: str, aligner: PhoneAligner, done: AlignedRecording | Recognition, labels: Labels | None = None
) -> dict[str, Any]:
    """The answer as JSON values, with the labels of its phones by another model."""
    head: dict[str, Any] = {"model": {"name": name, "version": aligner.version_}}
    if labels is not None:
        head["labelling_model"] = {"name": labels.model, "version": labels.version}
    if isinstance(done, Recognition):
        return {
            **head, "duration": done.duration, "segments": _phones_to_json(done.phones, labels),
            "warnings": [n.as_dict() for n in done.notices],
        }  # fmt: skip
    answer = done.alignment
    return {
        **head,
        "duration": answer.duration,
        "input": done.kind,
        "tier": None if done.tier is None else done.tier.name,
        "transcript": {
            "log_posterior": _round(answer.log_posterior),
            "log_posterior_per_phone": _round(answer.log_posterior_per_phone),
            "worst": None if answer.worst is None else _worst_to_json(answer.worst),
        },
        "words": [_word_to_json(w) for w in answer.words],
        "segments": _phones_to_json(answer.phones, labels),
        "unmatched": [{"start": u.start, "end": u.end, "text": u.text} for u in answer.unmatched],
        "warnings": [notice.as_dict() for notice in _unique(done.notices)],
    }


def _phones_to_json(phones: Sequence[AlignedPhone], labels: Labels | None) -> list[dict[str, Any]]:
    if labels is None:
        return [_phone_to_json(p) for p in phones]
    return [
        {**_phone_to_json(p), "labelled": labelled_to_json(one)} for p, one in zip(phones, labels.segments, strict=True)
    ]


def labelled_to_json(segment: LabelledSegment) -> dict[str, Any]:
    """What a labelling model says of a phone; its `given_posterior` is that of the aligned label."""
    return {
        "label": segment.label,
        "posterior": _round(segment.posterior),
        "given_posterior": None if segment.given_posterior is None else _round(segment.given_posterior),
        "n_best": [{"label": label, "posterior": _round(p)} for label, p in segment.n_best],
    }


def _worst_to_json(worst: WorstFit) -> dict[str, Any]:
    return {
        "text": worst.text, "start": worst.start, "end": worst.end, "posterior": _round(worst.posterior),
        "segments": list(range(*worst.phones)),
    }  # fmt: skip


def _phone_to_json(p: AlignedPhone) -> dict[str, Any]:
    out: dict[str, Any] = {
        "start": p.start, "end": p.end, "label": p.label, "start_interval": [round(p.start_low, 4), round(p.start_high, 4)],
        "within_20_ms": _round(p.within), "posterior": _round(p.posterior),
        "n_best": [{"label": label, "posterior": _round(share)} for label, share in p.n_best], "word": p.word,
    }  # fmt: skip
    if p.given_start is not None:
        out["given_start"] = p.given_start
    if p.given_within is not None:
        out["given_within_20_ms"] = _round(p.given_within)
    return out


def _word_to_json(w: AlignedWord) -> dict[str, Any]:
    return {
        "word": w.word, "written": w.written, "start": w.start, "end": w.end, "pronunciation": list(w.pronunciation),
        "guessed": w.guessed, "posterior": _round(w.posterior), "segments": list(range(*w.phones)),
    }  # fmt: skip


def _unique(notices: tuple[Notice, ...]) -> list[Notice]:
    return list(dict.fromkeys(notices))


def _round(value: float) -> float:
    """Six significant digits: more than the posteriors are good for."""
    return float(f"{value:.6g}")
