"""Answers on request: the most probable label sequences, confidences of words, and posteriors of hidden variables.

One recording at a time and outside the batches: the most probable sequences cost much more than labels.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from phonechain.app.labelling.extras import Extras
from phonechain.app.problems.errors import TooManySegments
from phonechain.app.schemas.classify import round_probability
from phonechain.features import annotation as notation
from phonechain.features.annotation import Annotation, Tier
from phonechain.features.annotation.base import is_derived, nfc
from phonechain.features.errors import NoSegments
from phonechain.features.phones.words import NAMED, looks_like_words
from phonechain.features.segments import Segment
from phonechain.model.sequences import answer_sequence, find_spans, hidden_states

if TYPE_CHECKING:
    from phonechain.app.labelling.pipeline import Prepared
    from phonechain.features.inputs import Inputs
    from phonechain.model.answers import LabelledSegment
    from phonechain.model.labeler import PhoneLabeler

MOST_SEGMENTS = 2000
"""Segments of a recording whose sequences are answered: the tables of all positions are held at once (130 kB each)."""
MOST_PLACES = 10_000
"""Segments times sequences: each place of each sequence is searched for among all continuations of all kept ones."""

_KINDS = {"", "phones", "phone", "phonetic", "mau", "segments", "words", "word", "orthography", "orth", "ort"}
"""What names of tiers hold beside the speaker's."""


def describe(
    labeler: PhoneLabeler,
    ready: Prepared,
    labelled: Sequence[LabelledSegment],
    extras: Extras,
    *,
    normalise: str | None = None,
    beside: Sequence[Inputs] = (),
) -> dict[str, Any]:
    """Members `sequences`, `words` and `hidden` of a `ClassifyAnswer`, as plain data; those asked for.

    Args:
        ready, labelled: a recording and its labels.
        normalise: as the labels were made.
        beside: the speaker's other recordings that it was normalised with.

    Raises:
        TooManySegments: more than the most probable sequences are searched for.
        NoSegments: words are asked for, and the annotation has no tier of them.
        SettingsError: the model's chain cannot say it.
    """
    count = len(ready.segments)
    _check_size(count, extras)
    words = _list_words(ready) if extras.words else ()
    model = labeler.model_
    index = {label: n for n, label in enumerate(model.labels)}
    answered = [index[segment.label] for segment in labelled]
    edges = [0, *ready.starts, count]
    seen = model.encode_parts(ready.inputs.split(ready.starts), beside=beside, mode=labeler.normalisation(normalise))
    places = list(ready.indices) or list(range(count))
    out: dict[str, Any] = {}
    if extras.sequences:
        out["sequences"] = [
            {
                "first": places[a],
                "last": places[b - 1],
                **_sequence_to_json(labeler, h, answered[a:b], extras.sequences),
            }
            for (a, b), h in zip(pairwise(edges), seen, strict=True)
        ]
    if extras.words:
        out["words"] = _score_words(labeler, ready, words, edges, seen, answered, places)
    if extras.hidden:
        rows: list[Any] = [None] * (count + len(ready.skipped))
        for (a, b), h in zip(pairwise(edges), seen, strict=True):
            tables = hidden_states(model.network, h, answered[a:b], temperature=model.temperature)
            for t in range(b - a):
                rows[places[a + t]] = [[_round(layer[t]) for layer in layers] for layers in tables]
        out["hidden"] = rows
    return out


def _check_size(segments: int, extras: Extras) -> None:
    most = min(MOST_SEGMENTS, MOST_PLACES // max(1, extras.sequences)) if extras.sequences else MOST_SEGMENTS
    if segments > most and (extras.sequences or extras.words):
        what = f"with {extras.sequences} sequences" if extras.sequences else "with the confidence of words"
        raise TooManySegments(
            f"expected at most {most} segments {what}, got {segments}", pointer="segments", value=segments, limit=most
        )


def _sequence_to_json(labeler: PhoneLabeler, h: Any, answered: Sequence[int], n: int) -> dict[str, Any]:
    """The members of a `SequenceOut` but for its place."""
    model = labeler.model_
    found = answer_sequence(
        model.network, model.labels, h, temperature=model.temperature, n_best=n, answered=answered
    )  # fmt: skip
    return {
        "probability": round_probability(found.answered.probability),
        "log_probability": round_probability(found.answered.log_probability),
        "entropy": round_probability(found.entropy),
        "posterior_error": round_probability(max(found.posterior_error)),
        "n_best": [
            {
                "labels": list(one.labels),
                "probability": round_probability(one.probability),
                "log_probability": round_probability(one.log_probability),
            }
            for one in found.n_best
        ],
    }


def _score_words(
    labeler: PhoneLabeler,
    ready: Prepared,
    words: Sequence[Segment],
    edges: Sequence[int],
    seen: Sequence[Any],
    answered: Sequence[int],
    places: Sequence[int],
) -> list[dict[str, Any]]:
    """A `WordOut` for each word with a segment: the probability that all of its answered labels are right."""
    import torch

    spans = find_spans(ready.segments, words)
    logs = [0.0] * len(words)
    model = labeler.model_
    for (a, b), h in zip(pairwise(edges), seen, strict=True):
        inside = [(n, max(a, i) - a, min(b, j) - a) for n, (i, j) in enumerate(spans) if max(a, i) < min(b, j)]
        found = model.network.span_log_probabilities(
            h, torch.tensor(answered[a:b]), [(i, j) for _, i, j in inside], temperature=model.temperature
        )
        for (n, _, _), log in zip(inside, found.tolist(), strict=True):
            logs[n] += log  # sequences are independent of each other
    return [
        {
            "start": word.start, "end": word.end, "label": word.label, "first": places[i], "last": places[j - 1],
            "confidence": round_probability(math.exp(log)),
        }
        for word, (i, j), log in zip(words, spans, logs, strict=True) if i < j
    ]  # fmt: skip


def _list_words(ready: Prepared) -> list[Segment]:
    """The labelled intervals of the tier of words. Raises NoSegments."""
    tier = find_word_tier(ready.annotation, ready.tier)
    if tier is None:
        raise NoSegments(
            f"expected a tier of words beside {ready.tier.name}, got {notation.tiers.list_tiers(ready.annotation)}",
            pointer="words",
        )
    return [s for s in notation.tier_segments(tier) if s.label is not None]


def find_word_tier(annotation: Annotation, phones: Tier) -> Tier | None:
    """The tier of words over a tier of phones: the first that is named so, else the first that looks like words.

    A tier of another speaker (`A - words` over `B - phones`) is none of them.
    """
    speaker = _speaker_words(phones)
    others = [
        t
        for t in annotation.tiers
        if t is not phones and t.kind == "interval" and not is_derived(t.name) and t.labelled()
    ]
    named = [t for t in others if NAMED.search(nfc(t.name))]
    fitting = [t for t in named if not speaker or _speaker_words(t) in (speaker, set())]
    fitting.sort(key=lambda t: _speaker_words(t) != speaker)
    if fitting or named:
        return next(iter(fitting), None)
    return next((t for t in others if looks_like_words(notation.tier_segments(t))), None)


def _speaker_words(tier: Tier) -> set[str]:
    """The words of a tier's name that say whose it is."""
    return set(re.split(r"\W+", nfc(tier.name).casefold())) - _KINDS


def _round(values: Any) -> Any:
    """Nested lists of probabilities with four digits: they are looked at, not computed with."""
    return np.round(values.astype(np.float64), 4).tolist()
