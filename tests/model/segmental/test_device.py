"""Alignment models on the stand-in for a GPU: they train, align, recognise, save and load with the CPU's answers.

The network computes on the device; the sums over graphs are the host's. See tests/far.py for what the stand-in refuses.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from phonechain.features.errors import CorpusError
from phonechain.features.reading import read_audio
from phonechain.features.segments import Utterance
from phonechain.features.words.dictionary import Pronunciation
from phonechain.model import ALIGNMENT, pretrained_path
from phonechain.model.segmental import search, sums
from phonechain.model.segmental.aligner import PhoneAligner
from phonechain.model.segmental.answers import AlignedPhone
from phonechain.model.segmental.learning import Example, _Run, build, fit_normaliser
from phonechain.model.segmental.settings import SegmentalSettings, SegmentalTraining
from phonechain.model.segmental.transcripts import Word
from tests.far import DEVICE, Gpu, place
from tests.model.segmental.test_fitting import corpus  # noqa: F401  (a fixture)

SAMPLE = "samples/LJ001-0002.flac"
PHONES = ["IH", "N", "B", "IY", "IH", "NG", "K", "AH", "M", "P", "EH", "R"]
TRAINING = SegmentalTraining(epochs=2, pretraining=1, batch_frames=400, rate=5e-3)


@pytest.fixture
def gpu() -> Iterator[Gpu]:
    with Gpu() as made:
        yield made


def assert_equal(found: tuple[AlignedPhone, ...], expected: tuple[AlignedPhone, ...]) -> None:
    assert [p.label for p in found] == [p.label for p in expected]
    for name in ("start", "end", "within", "posterior"):
        np.testing.assert_allclose(
            [getattr(p, name) for p in found], [getattr(p, name) for p in expected], atol=1e-4, err_msg=name
        )


def test_the_shipped_model_aligns_refines_and_recognises_as_on_the_cpu(gpu: Gpu, tmp_path: Path) -> None:
    near = PhoneAligner.load(pretrained_path(ALIGNMENT), device="cpu")
    far = PhoneAligner.load(pretrained_path(ALIGNMENT), device="cuda")
    assert far.device_ == DEVICE
    assert place(far._require_network()) == {"cuda"}
    audio = read_audio(SAMPLE)
    words = [Word("in", [Pronunciation(("IH", "N"))]), Word("being", [Pronunciation(("B", "IY", "IH", "NG"))])]
    expected = near.align_phones(audio, PHONES)
    answer = far.align_phones(audio, PHONES)
    assert answer.log_posterior == pytest.approx(expected.log_posterior, abs=1e-3)
    assert_equal(answer.phones, expected.phones)
    assert_equal(far.align(audio, words).phones, near.align(audio, words).phones)
    assert_equal(far.refine(audio, expected.segments).phones, near.refine(audio, expected.segments).phones)
    assert_equal(far.recognize(audio).phones, near.recognize(audio).phones)
    far.save(tmp_path / "far.safetensors")
    assert_equal(
        PhoneAligner.load(tmp_path / "far.safetensors", device="cpu").recognize(audio).phones,
        near.recognize(audio).phones,
    )


@pytest.mark.parametrize(("units", "placement"), [(0, 1.0), (8, 0.0)])
def test_an_aligner_trains_as_on_the_cpu(
    units: int,
    placement: float,
    corpus: list[Utterance],  # noqa: F811
    tmp_path: Path,
) -> None:
    settings, training = SegmentalSettings(units=units, dropout=0.2), dataclasses.replace(TRAINING, placement=placement)
    near = PhoneAligner(settings, training=training, device="cpu")
    near.fit(corpus[:8], corpus[8:10])
    with Gpu():
        far = PhoneAligner(settings, training=training, device="cuda")
        far.fit(corpus[:8], corpus[8:10])
        assert place(far._require_network()) == {"cuda"}
        far.save(tmp_path / "far.safetensors")
        further = PhoneAligner(settings, training=dataclasses.replace(TRAINING, epochs=1), device="cuda")
        further.fit(corpus[:4], corpus[8:10], base=near)
        assert place(further._require_network()) == {"cuda"}
        assert place(near._require_network()) == {"cpu"}
    assert far.metrics_["dev_loss"] == pytest.approx(near.metrics_["dev_loss"], abs=1e-3)
    stored = PhoneAligner.load(tmp_path / "far.safetensors", device="cpu")
    for name, weight in near._require_network().state_dict().items():  # stored weights are rounded to 16 bits
        np.testing.assert_allclose(stored._require_network().state_dict()[name], weight, atol=5e-3, err_msg=name)


def _examples(count: int) -> list[Example]:
    random = np.random.default_rng(1)
    frames = [random.normal(size=(60, 39)).astype(np.float32) for _ in range(count)]
    return [Example([x], [(0.0, 0.2, 0), (0.2, 0.4, 1), (0.4, len(x) * 0.01, 0)]) for x in frames]


def test_a_batch_that_does_not_fit_is_trained_in_halves(gpu: Gpu) -> None:
    """The segmental loss of a batch is a mean over pieces, so the halves' gradients add up to its own."""
    training = dataclasses.replace(TRAINING, shift=0.0, frame_loss=0.0)

    def gradients(limit: int | None) -> list[torch.Tensor]:
        model, examples = build(SegmentalSettings(step=0.01, units=0, dropout=0.0), 2, 1), _examples(4)
        fit_normaliser(model, examples)
        model.to(DEVICE)
        run = _Run(model, examples, [], training, True, None, None)
        Gpu.limit = limit
        run._compute_gradients(examples, np.random.default_rng(2), "segments", True)
        Gpu.limit = None
        return [p.grad.cpu() for p in model.parameters() if p.grad is not None]

    with pytest.raises(CorpusError, match=r"out of memory on cuda:0: one recording of 0\.6 s does not fit"):
        gradients(3000)
    for whole, halved in zip(
        gradients(None), gradients(12_000), strict=True
    ):  # scores of two recordings fit, of four not
        np.testing.assert_allclose(halved, whole, atol=1e-6, rtol=1e-4)


def test_sums_over_segmentations_never_wait_at_their_steps(gpu: Gpu) -> None:
    def count(steps: int) -> list[tuple[int, int]]:
        scores = torch.randn(2, steps, 4, 3).to(DEVICE)
        bigram, first, last = (torch.randn(size).to(DEVICE) for size in ((3, 3), (3,), (3,)))
        pieces = [[(0, 2, 1), (2, 4, 0), (4, 5, 2)], [(0, 1, 2), (1, 4, 1)]]
        gold = sums.Segmentation.of(pieces, DEVICE)
        lengths = torch.tensor([steps, 4], device=DEVICE)

        def train() -> None:
            a, b, c, d = (t.clone().requires_grad_() for t in (scores, bigram, first, last))
            sums.log_likelihood(sums.Lattice(a, b, c, d, lengths), gold).sum().backward()

        lattice = sums.Lattice(scores, bigram, first, last, lengths)
        found = []
        for work in (lambda: sums.marginals(lattice), lambda: search.viterbi(lattice), train):
            before = Gpu.syncs, Gpu.uploads
            work()
            found.append((Gpu.syncs - before[0], Gpu.uploads - before[1]))
        return found

    assert count(30) == count(8)
