"""Long recordings, labelled some segments at a time: the same answers as of the whole, however much is kept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from phonechain.model import phone_model
from phonechain.model.combination import combine
from phonechain.model.encoders import encoder as encoder_module
from phonechain.model.encoders import frames as frames_module
from phonechain.model.encoders import long as long_module
from phonechain.model.encoders.encoder import build_encoder
from phonechain.model.encoders.frames import LongFrames
from phonechain.model.encoders.long import ChunkCache, rows_of
from phonechain.model.learning.normaliser import Mode
from phonechain.model.networks import crf
from phonechain.model.networks.memm import MaximumEntropyMarkovModel
from phonechain.model.phone_model import PhoneModel
from phonechain.model.settings import FactorSettings, ModelSettings
from tests.model.test_encoders import KINDS, encode, utterance
from tests.model.test_product import LABELS, inputs, model


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (long_module, frames_module, encoder_module):
        monkeypatch.setattr(module, "LONG_CHUNK", 16)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_an_encoder_gives_the_same_rows_in_any_order(kind: str, layers: int) -> None:
    settings = replace(KINDS[kind], frame_layers=layers, segment_layers=layers)
    built = build_encoder(settings, 0 if kind == "frames" else 3)
    built.reset(torch.Generator().manual_seed(1))
    built.double().eval()
    x, frames, times = given = utterance(3, 77, kind)
    whole = encode(built, [given])[0]
    batch = LongFrames(frames, torch.from_numpy(times), 0.01)
    with torch.inference_mode():
        rows = built.run_long(torch.from_numpy(x), batch)
        assert len(rows) == 77
        for span in (slice(70, 77), slice(0, 3), slice(10, 40), slice(None), slice(76, None), slice(15, 17)):
            np.testing.assert_allclose(rows[span].numpy(), whole[span], atol=1e-12)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("mode", ["model", "recording", "speaker"])
def test_a_model_answers_the_same(mode: Mode, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of long and short recordings in one batch, with and without evidence."""
    both = combine([model("frames", 1), model("segments", 2), model("none", 3)])
    items = [inputs(n, n) for n in (60, 3, 41, 9)]
    given = [
        np.log(np.random.default_rng(n).dirichlet(np.ones(3), len(i))).astype(np.float32) for n, i in enumerate(items)
    ]
    whole = both.posteriors(items, viterbi=True, groups=[0, 0, 1, 1], mode=mode)
    informed = both.posteriors(items, groups=[0, 0, 1, 1], mode=mode, evidence=given)[0]
    monkeypatch.setattr(phone_model, "LONG", 20)
    monkeypatch.setattr(crf, "BUDGET", 200_000)  # windows of a few segments
    found = both.posteriors(items, viterbi=True, groups=[0, 0, 1, 1], mode=mode)
    again = both.posteriors(items, groups=[0, 0, 1, 1], mode=mode, evidence=given)[0]
    for n in range(len(items)):
        np.testing.assert_allclose(found[0][n], whole[0][n], atol=1e-6)
        np.testing.assert_array_equal(found[1][n], whole[1][n])
        np.testing.assert_allclose(again[n], informed[n], atol=1e-6)
    assert np.abs(again[0] - found[0][0]).max() > 0.01


def test_chains_that_do_not_go_in_windows_are_labelled_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = ModelSettings(chain="memm", factors=(FactorSettings(layers=1),))
    crf_model = model("none", 1)
    network = MaximumEntropyMarkovModel(settings, 92, len(LABELS))
    network.reset(torch.Generator().manual_seed(1))
    memm = PhoneModel(settings, crf_model.features, LABELS, crf_model.normaliser, network.eval())
    item = inputs(30)
    whole = memm.posteriors([item], viterbi=True)
    monkeypatch.setattr(phone_model, "LONG", 20)
    found = memm.posteriors([item], viterbi=True)
    np.testing.assert_array_equal(found[0][0], whole[0][0])
    np.testing.assert_array_equal(found[1][0], whole[1][0])


def test_the_last_chunks_are_at_hand() -> None:
    made: list[int] = []

    def make(number: int) -> torch.Tensor:
        made.append(number)
        return torch.full((4, 1), float(number))  # 16 bytes

    kept = ChunkCache(make)
    for number in (0, 1, 2, 3, 4, 4, 3, 2, 1, 0):
        assert kept(number)[0] == number
    assert made == [0, 1, 2, 3, 4, 2, 1, 0]


def test_rows_across_chunks() -> None:
    size = long_module.LONG_CHUNK
    big = torch.arange(2.5 * size)[:, None]

    def chunks(k: int) -> torch.Tensor:
        return big[k * size : (k + 1) * size]

    for span in (slice(0, 1), slice(size - 1, size + 1), slice(10, 2 * size + 7), slice(2 * size, len(big))):
        torch.testing.assert_close(rows_of(chunks, span), big[span])
