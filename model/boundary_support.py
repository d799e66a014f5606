"""Support of boundaries by a labelling model alone: pieces beside each boundary, labelled as segments of their own.

A network that was trained on moved boundaries gives a segment the same label wherever it is cut, so the posteriors of two
segments hardly tell that the boundary between them has moved. The few hundredths of a second beside it do: cut off as a segment,
they should score higher for the label of their own side than for that of the other side. The scores are those of single
labels, before the chain, whose n-grams know no phone that is cut in two.

T  segments       P  kinds of pieces       Y  labels of the model
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from phonechain.features.audio.reader import Audio
from phonechain.features.inputs import extract_inputs
from phonechain.features.segments import Segment
from phonechain.model.labeler import PhoneLabeler

PIECES = ((0.0, 0.02), (0.02, 0.04), (0.04, 0.06), (0.0, 0.04))
"""Seconds from the boundary between which a piece lies, on either side."""
LEAST = 0.01
"""Seconds of a segment beside its piece under which they are not cut apart."""
LIMIT = 10.0
"""Nats beyond which an advantage counts as so much."""
MISSING = 1.0
"""The advantage (nats) of a piece that its segment is too short for: somewhat right, as most are."""
TINY = 1e-6

WEIGHTS = (0.070, 0.289, -0.421, 0.913, 0.507, 0.273, -0.325, 0.115)
"""Of the advantages: of each piece's worse side, then of each piece's better side. They are a logistic regression's, fitted to
boundaries moved by 40 ms in training speakers (`python -m experiments.planted english --split train --every 6 --draws 2 --fit`)."""


def boundary_support(
    labeler: PhoneLabeler, recordings: Sequence[tuple[Audio, Sequence[Segment]]]
) -> list[NDArray[np.float64]]:
    """For each recording a number for every boundary between two segments [T - 1]: the lower, the more doubtful.

    It is a log-odds up to a constant; NaN where the segments do not touch, have the same label, or one that the model does
    not know.

    Raises:
        SettingsError: a model that has no scores of single labels (MEMM). AudioError, SegmentError: see `extract_inputs`.
    """
    return [each @ np.asarray(WEIGHTS) for each in advantages(labeler, recordings)]


def advantages(
    labeler: PhoneLabeler, recordings: Sequence[tuple[Audio, Sequence[Segment]]]
) -> list[NDArray[np.float64]]:
    """[T - 1, 2 P] of each recording: by how much a piece scores higher for the label of its own side, in nats.

    First of each kind of piece the side where that is less, then of each the other side.
    """
    pairs = [_label_pairs(labeler, segments) for _, segments in recordings]
    found = [np.full((len(own), len(PIECES), 2), MISSING) for own in pairs]
    for p, (near, far) in enumerate(PIECES):
        for side in (0, 1):
            cuts = [cut_all(segments, near, far, side) for _, segments in recordings]
            inputs = [
                extract_inputs(audio, parts, labeler.features_)
                for (audio, _), (parts, _) in zip(recordings, cuts, strict=True)
            ]
            scores = labeler.model_.label_scores(inputs, mode=labeler.normalisation(None))
            for own, each, (_, rows), gains in zip(pairs, scores, cuts, found, strict=True):
                for boundary, row in rows.items():
                    if (labels := own[boundary]) is not None:
                        gain = each[row, labels[side]].max() - each[row, labels[1 - side]].max()
                        gains[boundary, p, side] = np.clip(gain, -LIMIT, LIMIT)
    for own, gains in zip(pairs, found, strict=True):
        gains[[labels is None for labels in own]] = np.nan
    return [np.concatenate([gains.min(2), gains.max(2)], axis=1) for gains in found]


def cut(segment: Segment, near: float, far: float, side: int) -> tuple[list[Segment], int] | None:
    """The parts of a segment, one of them the piece from `near` to `far` seconds from the boundary, and its position.

    The boundary is the segment's end if it lies on its left (`side` 0), its start if it lies on its right (1). None if the
    segment is too short.
    """
    if far > segment.end - segment.start + TINY:
        return None
    start, end = (segment.end - far, segment.end - near) if side == 0 else (segment.start + near, segment.start + far)
    before, after = start - segment.start >= LEAST - TINY, segment.end - end >= LEAST - TINY
    edges = [segment.start, start] if before else [segment.start]
    edges += [end, segment.end] if after else [segment.end]
    parts = [replace(segment, start=a, end=b) for a, b in pairwise(edges)]
    return parts, int(before)


def cut_all(segments: Sequence[Segment], near: float, far: float, side: int) -> tuple[list[Segment], dict[int, int]]:
    """All segments with their pieces cut off, and for each boundary that has one the position of its piece."""
    parts: list[Segment] = []
    rows: dict[int, int] = {}
    for n, segment in enumerate(segments):
        boundary = n - side
        found = cut(segment, near, far, side) if 0 <= boundary < len(segments) - 1 else None
        if found is None:
            parts.append(segment)
        else:
            rows[boundary] = len(parts) + found[1]
            parts += found[0]
    return parts, rows


def _label_pairs(labeler: PhoneLabeler, segments: Sequence[Segment]) -> list[tuple[list[int], list[int]] | None]:
    """For each boundary the model's labels that those of its two sides stand for; None where it cannot be judged."""
    comparison = labeler.label_set_.compare(s.label for s in segments)
    targets = [None if s.label is None else comparison.targets.get(s.label) for s in segments]
    found: list[tuple[list[int], list[int]] | None] = []
    for n, (a, b) in enumerate(pairwise(targets)):
        touches = abs(segments[n].end - segments[n + 1].start) < TINY
        if touches and a is not None and b is not None and a != b:
            found.append((list(comparison.classes[a]), list(comparison.classes[b])))
        else:
            found.append(None)
    return found
