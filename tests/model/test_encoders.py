"""Encoders: no answer depends on its batch, on padding or on how a long recording is cut up; pooling against integrals."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import nullcontext
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from phonechain.features.errors import SettingsError
from phonechain.model.chain.packing import Packing, sort_by_length
from phonechain.model.encoders import frames as frames_module
from phonechain.model.encoders import recurrent, rows
from phonechain.model.encoders.encoder import Encoder, build_encoder
from phonechain.model.encoders.frames import FrameBatch, pool_states
from phonechain.model.encoders.recurrent import Bidirectional, groups_of
from phonechain.model.settings import EncoderSettings

SMALL = EncoderSettings(
    kind="frames", bands=13, channels=6, frame_units=5, frame_layers=2, width=7, segment_units=4, segment_layers=2
)
KINDS = {
    "segments": dataclasses.replace(SMALL, kind="segments"),
    "frames": dataclasses.replace(SMALL, pooled=False),
    "both": SMALL,
}
CPU = torch.device("cpu")


def encoder(kind: str, features: int = 3, dtype: torch.dtype = torch.float64) -> Encoder:
    built = build_encoder(KINDS[kind], features if kind != "frames" else 0)
    built.reset(torch.Generator().manual_seed(1))
    return built.to(dtype).eval()


def utterance(
    seed: int, segments: int, kind: str
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Features, frames and times; segments of 5 to 200 ms, now and then with a gap."""
    random = np.random.default_rng(seed)
    durations = random.uniform(0.005, 0.2, segments)
    starts = 0.25 + np.cumsum(np.r_[0, durations[:-1]] + np.where(random.random(segments) < 0.2, 0.1, 0.0))
    times = np.stack([starts, starts + durations], 1)
    count = int(times[-1, 1] / 0.01) + 26
    return random.normal(size=(segments, 0 if kind == "frames" else 3)), random.normal(size=(count, 13)), times


def count_calls(method: Callable[..., Any], called: list[int]) -> Callable[..., Any]:
    """The method, which adds to `called` at each call."""

    def call(*args: Any, **kwargs: Any) -> Any:
        called.append(1)
        return method(*args, **kwargs)

    return call


def encode(
    built: Encoder,
    given: list[tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]],
    *,
    gradients: bool = False,
) -> list[NDArray[np.float64]]:
    """What the encoder gives for each of a batch, in its order; with `gradients` it could be differentiated."""
    order = sort_by_length([len(x) for x, _, _ in given])
    packing = Packing(tuple(len(given[n][0]) for n in order))
    dtype = next(built.parameters()).dtype
    batch = FrameBatch.of([given[n][1] for n in order], [given[n][2] for n in order], packing, 0.01, CPU)
    batch = FrameBatch(tuple(f.to(dtype) for f in batch.frames), batch.times, batch.period)
    x = torch.from_numpy(np.concatenate([given[n][0] for n in order])).to(dtype)[packing.from_concatenated]
    with nullcontext() if gradients else torch.inference_mode():
        pieces = packing.split(built(x, packing, batch).detach())
    out: list[NDArray[np.float64]] = [np.zeros(0)] * len(given)
    for n, piece in zip(order, pieces, strict=True):
        out[n] = piece.numpy()
    return out


@pytest.mark.parametrize("kind", KINDS)
def test_no_answer_depends_on_its_batch(kind: str) -> None:
    built = encoder(kind)
    given = [utterance(n, count, kind) for n, count in enumerate([1, 40, 7, 2, 23, 7])]
    together = encode(built, given)
    for one, answer in zip(given, together, strict=True):
        np.testing.assert_allclose(encode(built, [one])[0], answer, atol=1e-12)


def test_in_single_precision_the_batch_moves_an_answer_by_rounding_alone() -> None:
    built = encoder("both", dtype=torch.float32)
    given = [utterance(n, count, "both") for n, count in enumerate([30, 5, 60])]
    for one, answer in zip(given, encode(built, given), strict=True):
        np.testing.assert_allclose(encode(built, [one])[0], answer, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_long_sequences_are_run_in_pieces_with_the_same_answer(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    built = encoder(kind)
    given = [utterance(n, count, kind) for n, count in enumerate([90, 31, 4])]
    whole = encode(built, given)
    for module in (recurrent, frames_module):
        monkeypatch.setattr(module, "CHUNK", 32)
    monkeypatch.setattr(recurrent, "PADDED", 200)
    for answer, other in zip(encode(built, given), whole, strict=True):
        np.testing.assert_allclose(answer, other, atol=1e-12)
    alone = encode(built, given[:1])[0]  # one long sequence has a way of its own
    np.testing.assert_allclose(alone, whole[0], atol=1e-12)


@pytest.mark.parametrize("block", [rows.BLOCK, 6])
@pytest.mark.parametrize("kind", KINDS)
def test_without_padding_answers_are_those_of_padded_batches(
    kind: str, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "BLOCK", block)
    built = encoder(kind)
    given = [utterance(n, count, kind) for n, count in enumerate([1, 40, 7, 2, 23, 7])]
    called: list[int] = []
    monkeypatch.setattr(Bidirectional, "run_rows", count_calls(Bidirectional.run_rows, called))
    fast = encode(built, given)
    assert called
    called.clear()
    padded = encode(built, given, gradients=True)
    assert not called
    for answer, other in zip(fast, padded, strict=True):
        np.testing.assert_allclose(answer, other, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_both_directions_reach_every_segment(kind: str) -> None:
    built = encoder(kind)
    given = utterance(0, 12, kind)
    before = encode(built, [given])[0]
    x, frames, times = (a.copy() for a in given)
    if kind != "segments":
        frames[int(times[6, 0] / 0.01) : int(times[6, 1] / 0.01) + 1] += 3
    if kind != "frames":
        x[6] += 3
    moved = np.abs(encode(built, [(x, frames, times)])[0] - before).max(1)
    assert (moved > 1e-9).all()
    assert moved.argmax() == 6 or kind == "frames"


def test_without_an_encoder_factors_see_the_features() -> None:
    built = build_encoder(EncoderSettings(), 3)
    x = torch.randn(5, 3)
    assert built(x, Packing((3, 2))) is x
    assert (built.width, list(built.parameters())) == (3, [])


def test_an_encoder_of_nothing_is_refused() -> None:
    with pytest.raises(SettingsError, match="segment features"):
        build_encoder(KINDS["segments"], 0)
    with pytest.raises(ValueError, match="expected frames"):
        encoder("both")(torch.zeros(1, 3).double(), Packing((1,)))


def test_the_way_back_is_the_way_ahead_of_the_turned_sequence() -> None:
    layer = Bidirectional(3, 4).double()
    layer.reset(torch.Generator().manual_seed(0))
    x = torch.randn(9, 1, 3, dtype=torch.float64)
    with torch.inference_mode():
        out = layer(x, torch.tensor([6]))[:6]
        torch.testing.assert_close(out[:, :, :4], layer.ahead(x[:6])[0])
        torch.testing.assert_close(out[:, :, 4:], layer.back(x[:6].flip(0))[0].flip(0))


@pytest.mark.parametrize("seed", range(3))
def test_sequences_that_have_ended_are_left_out_and_change_nothing(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    lengths = sorted(torch.randint(1, 200, (30,), generator=generator).tolist(), reverse=True)
    spans = recurrent.list_spans(lengths)
    assert len(spans) > 3
    assert spans[-1][1] == lengths[0]
    for (_, end, before), (begin, _, going_on) in pairwise(spans):
        assert begin == end
        assert going_on == sum(length > begin for length in lengths) < before
    layer = Bidirectional(3, 4).double()
    layer.reset(generator)
    x = torch.randn(lengths[0], 30, 3, dtype=torch.float64, generator=generator)
    with torch.inference_mode():
        found = layer(x, torch.tensor(lengths))
        for n, length in enumerate(lengths):
            alone = layer(x[:length, n : n + 1], torch.tensor([length]))
            torch.testing.assert_close(found[:length, n], alone[:, 0], rtol=0, atol=1e-12)
    layer.train()  # padded, in one run
    whole = layer(x, torch.tensor(lengths))
    for n, length in enumerate(lengths):
        torch.testing.assert_close(found[:length, n], whole[:length, n].detach(), rtol=0, atol=1e-12)


def test_groups_keep_within_the_room_and_take_all_in_order() -> None:
    lengths = [500_000, 90_000, 90_000, 50_000, 10, 10]
    groups = list(groups_of(lengths))
    assert groups[0] == (0, 1)  # longer than the room alone
    assert [a for a, _ in groups[1:]] == [b for _, b in groups[:-1]]
    assert groups[-1][1] == len(lengths)
    assert all((b - a) * lengths[a] <= recurrent.PADDED for a, b in groups[1:])


# ------------------------------------------------------------------------------------------------------------- pooling


def exact_mean(states: NDArray[np.float64], begin: float, end: float, period: float) -> NDArray[np.float64]:
    """The mean over time by a fine Riemann sum, each state constant for the period around it."""
    at = np.linspace(begin, end, 20_001)
    at = (at[:-1] + at[1:]) / 2
    return states[np.clip(np.floor(at / period + 0.5), 0, len(states) - 1).astype(int)].mean(0)


@pytest.mark.parametrize("times", [(0.1, 0.4), (0.113, 0.118), (0.0, 0.02), (0.31, 0.77), (0.75, 0.9)])
def test_pooled_states_are_means_over_thirds_and_states_at_both_ends(times: tuple[float, float]) -> None:
    random = np.random.default_rng(0)
    states = random.normal(size=(40, 2, 3))  # 0.8 s
    begin, end = times
    found = pool_states(
        torch.from_numpy(states), torch.tensor([40, 30]), torch.tensor([[begin, end]], dtype=torch.float64),
        torch.tensor([0]), 0.02,
    )[0].numpy().reshape(5, 3)  # fmt: skip
    own = states[:, 0]
    edges = begin + (end - begin) * np.array([0, 0.3, 0.7, 1])
    if end < 0.79:
        for k in range(3):
            np.testing.assert_allclose(found[k], exact_mean(own, edges[k], edges[k + 1], 0.02), atol=2e-3)
    for k, at in ((3, begin), (4, end)):
        expected = [np.interp(at / 0.02, np.arange(40), own[:, c]) for c in range(3)]
        np.testing.assert_allclose(found[k], expected, atol=1e-12)


def test_a_segment_past_its_sequences_end_never_reads_another_sequence() -> None:
    states = torch.zeros(20, 2, 3, dtype=torch.float64)
    states[:, 1] = 1e6
    states[10:, 0] = float("nan")  # padding of the first, which has ten
    found = pool_states(
        states, torch.tensor([10, 20]), torch.tensor([[0.15, 0.5], [0.6, 0.7]], dtype=torch.float64),
        torch.tensor([0, 0]), 0.02,
    )  # fmt: skip
    assert torch.equal(found, torch.zeros_like(found))


def test_one_frame_is_enough() -> None:
    built = encoder("frames")
    x, _, _ = utterance(0, 1, "frames")
    [out] = encode(built, [(x, np.zeros((1, 13)), np.array([[0.0, 0.005]]))])
    assert out.shape == (1, built.width)
    assert np.isfinite(out).all()
