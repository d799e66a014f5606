"""Boundaries judged by the pieces beside them: where the pieces lie, and what the shipped model says of moved ones."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch

from phonechain.features.audio.reader import Audio
from phonechain.features.errors import SettingsError
from phonechain.features.inputs import from_array
from phonechain.features.mfcc import FeatureSettings
from phonechain.features.reading import read_audio, read_segments
from phonechain.features.segments import Segment
from phonechain.model import pretrained_path
from phonechain.model.boundary_support import MISSING, PIECES, advantages, boundary_support, cut, cut_all
from phonechain.model.labeler import PhoneLabeler
from phonechain.model.learning.normaliser import Normaliser
from phonechain.model.networks.memm import MaximumEntropyMarkovModel
from phonechain.model.phone_model import PhoneModel
from phonechain.model.settings import FactorSettings, ModelSettings


@pytest.mark.parametrize(
    ("near", "far", "side", "edges", "place"),
    [
        (0.0, 0.04, 0, [1.0, 1.06, 1.1], 1),
        (0.0, 0.04, 1, [1.0, 1.04, 1.1], 0),
        (0.02, 0.04, 0, [1.0, 1.06, 1.08, 1.1], 1),
        (0.02, 0.04, 1, [1.0, 1.02, 1.04, 1.1], 1),
        (0.0, 0.095, 0, [1.0, 1.1], 0),  # what is left would be shorter than 10 ms
        (0.06, 0.1, 0, [1.0, 1.04, 1.1], 0),
    ],
)
def test_a_piece_is_cut_from_the_side_of_its_boundary(
    near: float, far: float, side: int, edges: list[float], place: int
) -> None:
    found = cut(Segment(1.0, 1.1, "T"), near, far, side)
    assert found is not None
    parts, at = found
    assert [p.start for p in parts] + [parts[-1].end] == pytest.approx(edges)
    assert at == place
    assert {p.label for p in parts} == {"T"}


def test_pieces_of_short_segments_are_missing_and_nothing_else_moves() -> None:
    segments = [Segment(0.0, 0.1, "AA"), Segment(0.1, 0.13, "T"), Segment(0.13, 0.3, "S")]
    assert cut(segments[1], 0.0, 0.04, 0) is None
    parts, rows = cut_all(segments, 0.0, 0.04, 0)
    assert rows == {0: 1}  # the last segment has no boundary on its right
    assert [p.end for p in parts] == pytest.approx([0.06, 0.1, 0.13, 0.3])
    parts, rows = cut_all(segments, 0.0, 0.04, 1)
    assert rows == {1: 2}
    assert all(a.end == b.start for a, b in itertools.pairwise(parts))


@pytest.fixture(scope="module")
def labeler() -> PhoneLabeler:
    return PhoneLabeler.load(pretrained_path())


@pytest.fixture(scope="module")
def recording() -> tuple[Audio, list[Segment]]:
    return read_audio("samples/LJ001-0002.flac"), list(read_segments("samples/LJ001-0002.TextGrid"))


def test_moved_boundaries_have_less_support(labeler: PhoneLabeler, recording: tuple[Audio, list[Segment]]) -> None:
    audio, segments = recording
    moved, changed = list(segments), []
    for n in range(0, len(segments) - 1, 3):
        a, b = segments[n], segments[n + 1]
        if min(a.end - a.start, b.end - b.start) > 0.06:
            step = 0.04 if n % 2 else -0.04
            moved[n], moved[n + 1] = replace(a, end=a.end + step), replace(b, start=b.start + step)
            changed.append(n)
    assert len(changed) >= 4
    before, after = boundary_support(labeler, [(audio, segments), (audio, moved)])
    assert np.mean(after[changed] < before[changed]) > 0.8
    assert after[changed].mean() < np.nanmean(np.delete(after, changed)) - 1


def test_support_does_not_depend_on_the_batch_and_says_where_there_is_none(
    labeler: PhoneLabeler, recording: tuple[Audio, list[Segment]]
) -> None:
    audio, segments = recording
    odd = list(segments[:8])
    odd[1] = replace(odd[1], label="???")
    odd[4] = replace(odd[4], end=odd[4].end - 0.005)
    odd[7] = replace(odd[7], label=odd[6].label)
    _, alone = boundary_support(labeler, [(audio, segments), (audio, odd)])
    np.testing.assert_allclose(boundary_support(labeler, [(audio, odd)])[0], alone, atol=1e-4)
    assert np.flatnonzero(np.isnan(alone)).tolist() == [0, 1, 4, 6]
    assert boundary_support(labeler, [(audio, segments[:1])])[0].shape == (0,)


def test_advantages_come_from_the_worse_side_first(
    labeler: PhoneLabeler, recording: tuple[Audio, list[Segment]]
) -> None:
    audio, segments = recording
    [found] = advantages(labeler, [(audio, segments)])
    kinds = len(PIECES)
    assert found.shape == (len(segments) - 1, 2 * kinds)
    known = np.isfinite(found).all(1)
    assert known.any()
    assert (found[known, :kinds] <= found[known, kinds:]).all()
    short = [n for n in np.flatnonzero(known) if max(s.end - s.start for s in segments[n : n + 2]) < 0.055]
    assert all(found[n, 2] == found[n, kinds + 2] == MISSING for n in short)


def test_a_memm_has_no_scores_of_single_labels() -> None:
    memm = PhoneLabeler("", model=ModelSettings("memm", factors=(FactorSettings(kind="linear"),)))
    network = MaximumEntropyMarkovModel(memm.system.model, 4, 2)
    memm._model = PhoneModel(
        memm.system.model, FeatureSettings(), ["a", "b"], Normaliser(torch.zeros(4), torch.ones(4)), network
    )
    with pytest.raises(SettingsError, match="MEMM"):
        memm.model_.label_scores([from_array(np.zeros((2, 4)))])
