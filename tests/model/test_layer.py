"""The CRF layer against enumeration, sequence by sequence, and against pytorch-crf."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import phonechain
from phonechain.model.chain.layer import CRF
from tests.model.oracle import ChainOracle

Batch = tuple[CRF, torch.Tensor, torch.Tensor, torch.Tensor]


def drawn(lengths: list[int], tags: int, order: int, seed: int = 0, extra: int = 0) -> Batch:
    """A layer, emissions [B, T, C], tags and mask [B, T] in float64, `extra` positions longer than the longest."""
    generator = torch.Generator().manual_seed(seed)
    crf = CRF(tags, order).double()
    with torch.no_grad():
        for weight in crf.parameters():
            weight.copy_(2 * torch.randn(weight.shape, generator=generator, dtype=torch.float64))
    time = max(lengths) + extra
    emissions = 3 * torch.randn(len(lengths), time, tags, generator=generator, dtype=torch.float64)
    labels = torch.randint(tags, (len(lengths), time), generator=generator)
    mask = torch.arange(time) < torch.tensor(lengths)[:, None]
    return crf, emissions, labels.masked_fill(~mask, -100), mask


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    """1 to 4 sequences of up to 5 positions and 4 tags, in any order of their lengths."""
    lengths = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    return drawn(
        lengths, draw(st.integers(1, 4)), draw(st.integers(1, 2)), draw(st.integers(0, 9999)), draw(st.integers(0, 2))
    )


def oracle(batch: Batch, sequence: int) -> ChainOracle:
    crf, emissions, _, mask = batch
    unary = emissions[sequence, mask[sequence]].numpy().copy()
    unary[0] += crf.start_transitions.detach().numpy()
    unary[-1] += crf.end_transitions.detach().numpy()
    return ChainOracle(unary, crf.transitions, crf.second_transitions)


@settings(max_examples=60, deadline=None)
@given(batches())
def test_likelihood_decoding_and_marginals_are_the_enumerated_ones(batch: Batch) -> None:
    crf, emissions, tags, mask = batch
    likelihood = crf(emissions, tags, mask, reduction="none")
    best, marginals = crf.decode(emissions, mask, pad_tag=-1), crf.marginals(emissions, mask)
    expected = []
    for b in range(len(mask)):
        truth, on = oracle(batch, b), mask[b]
        expected.append(truth.log_probability(tags[b, on].tolist()))
        np.testing.assert_allclose(marginals[b, on], truth.marginals(), atol=1e-9)
        assert truth.score(best[b, on].tolist()) == pytest.approx(truth.best()[1], abs=1e-9)
    np.testing.assert_allclose(likelihood.detach(), expected, atol=1e-9)
    assert not marginals[~mask].any()
    assert (best[~mask] == -1).all()
    total = sum(expected)
    for reduction, value in (
        ("sum", total),
        ("mean", total / len(mask)),
        ("token_mean", total / int(mask.sum())),
    ):
        found = crf(emissions, tags, mask, reduction=reduction)
        assert float(found.detach()) == pytest.approx(value, abs=1e-9)


@settings(max_examples=25, deadline=None)
@given(batches(), st.booleans())
def test_gradients_are_expected_less_given_counts(batch: Batch, weighted: bool) -> None:
    crf, emissions, tags, mask = batch
    emissions.requires_grad_()
    weight = torch.rand(len(mask), dtype=torch.float64) if weighted else torch.ones(len(mask), dtype=torch.float64)
    (crf(emissions, tags, mask, reduction="none") * weight).sum().backward()
    assert emissions.grad is not None
    assert not emissions.grad[~mask].any()
    counts = {name: torch.zeros_like(weights) for name, weights in crf.named_parameters()}
    for b in range(len(mask)):
        truth, path = oracle((crf, emissions.detach(), tags, mask), b), tags[b, mask[b]].tolist()
        unary, pairs, triples = (torch.tensor(-truth.marginals(n)) for n in (1, 2, 3))
        for t in range(len(path)):
            unary[t, path[t]] += 1
            if t >= 1:
                pairs[t - 1][path[t - 1], path[t]] += 1
            if t >= 2:
                triples[t - 2][path[t - 2], path[t - 1], path[t]] += 1
        np.testing.assert_allclose(emissions.grad[b, mask[b]], weight[b] * unary, atol=1e-9)
        counts["start_transitions"] += weight[b] * unary[0]
        counts["end_transitions"] += weight[b] * unary[-1]
        counts["transitions"] += weight[b] * pairs.sum(0)
        if "second_transitions" in counts:
            counts["second_transitions"] += weight[b] * triples.sum(0)
    for name, weights in crf.named_parameters():
        assert weights.grad is not None
        np.testing.assert_allclose(weights.grad, counts[name], atol=1e-9)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("layout", ["batch first", "time first", "one sequence", "one position"])
def test_emissions_are_left_as_they_are(layout: str, order: int) -> None:
    shapes = {"batch first": (3, 4), "time first": (3, 4), "one sequence": (1, 4), "one position": (3, 1)}
    batch, time = shapes[layout]
    crf = CRF(2, order)
    emissions = torch.randn(batch, time, 2)
    if layout == "time first":
        emissions = emissions.transpose(0, 1).contiguous().transpose(0, 1)
    before = emissions.clone()
    crf(emissions, torch.zeros(batch, time, dtype=torch.long))
    crf.decode(emissions)
    crf.marginals(emissions)
    assert torch.equal(emissions, before)


def test_half_precision_emissions_are_taken_at_the_weights_precision() -> None:
    crf, emissions, tags, mask = drawn([4, 2], 3, 2)
    crf.float()
    halves = emissions.bfloat16().requires_grad_()
    likelihood = crf(halves, tags, mask)
    assert likelihood.dtype == torch.float32
    torch.testing.assert_close(likelihood, crf(halves.detach().float(), tags, mask))
    likelihood.backward()
    assert halves.grad is not None
    assert halves.grad.dtype == torch.bfloat16


def test_it_learns_which_tags_follow_each_other() -> None:
    torch.manual_seed(0)
    crf = phonechain.CRF(3, order=2)
    tags = (torch.arange(8)[None, :] + torch.arange(3)[:, None]) % 3
    optimizer = torch.optim.Adam(crf.parameters(), lr=0.2)
    for _ in range(50):
        optimizer.zero_grad()
        (-crf(torch.zeros(3, 8, 3), tags, reduction="token_mean")).backward()
        optimizer.step()
    first = torch.zeros(1, 8, 3)
    first[0, 0, 1] = 5.0
    assert crf.decode(first).tolist() == [[1, 2, 0, 1, 2, 0, 1, 2]]


def test_what_does_not_fit_is_refused() -> None:
    crf, emissions, tags, mask = drawn([3, 2], 3, 1)
    with pytest.raises(ValueError, match="at least one tag, got num_tags = 0"):
        CRF(0)
    with pytest.raises(ValueError, match="an order of 1 or 2, got 3"):
        CRF(2, order=3)
    with pytest.raises(ValueError, match=r"emissions of shape \[batch, time, 3\], got \[2, 3, 2\]"):
        crf(emissions[:, :, :2], tags, mask)
    with pytest.raises(ValueError, match=r"emissions of shape \[batch, time, 3\], got \[3, 3\]"):
        crf.decode(emissions[0])
    with pytest.raises(ValueError, match=r"at least one sequence of one position, got \[0, 3, 3\]"):
        crf.marginals(emissions[:0])
    with pytest.raises(ValueError, match=r"floating-point numbers, got torch.int64"):
        crf.decode(emissions.long(), mask)
    with pytest.raises(ValueError, match=r"tags of shape \(2, 3\), got \(2, 2\)"):
        crf(emissions, tags[:, :2], mask)
    with pytest.raises(ValueError, match=r"tags to be integers, got torch.float64"):
        crf(emissions, tags.double(), mask)
    with pytest.raises(ValueError, match="tags from 0 to 2 where the mask is on, got -100"):
        crf(emissions, tags)
    with pytest.raises(ValueError, match="tags from 0 to 2 where the mask is on, got 3"):
        crf(emissions, torch.where(tags == tags.max(), 3, tags), mask)
    with pytest.raises(ValueError, match=r"a mask of shape \(2, 3\), got \(3, 2\)"):
        crf(emissions, tags, mask.T)
    with pytest.raises(ValueError, match="without gaps"):
        crf(emissions, tags, torch.tensor([[True, False, True], [True, True, False]]))
    with pytest.raises(ValueError, match="got none in sequence 1"):
        crf(emissions, tags, torch.tensor([[True, True, True], [False, False, False]]))
    with pytest.raises(ValueError, match="\"token_mean\", got 'max'"):
        crf(emissions, tags, mask, reduction="max")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_it_agrees_with_pytorch_crf(seed: int) -> None:
    torchcrf = pytest.importorskip("torchcrf")
    random = np.random.default_rng(seed)
    lengths = random.integers(1, 30, random.integers(1, 40)).tolist()
    crf, emissions, tags, mask = drawn(lengths, int(random.integers(1, 40)), 1, seed, int(random.integers(0, 3)))
    theirs = torchcrf.CRF(crf.num_tags, batch_first=True).double()
    theirs.load_state_dict(crf.state_dict())
    ours_in, theirs_in = (emissions.clone().requires_grad_() for _ in range(2))
    tags = tags.clamp_min(0)
    for reduction in ("none", "sum", "mean", "token_mean"):
        found, expected = (
            layer(x, tags, mask=mask, reduction=reduction) for layer, x in ((crf, ours_in), (theirs, theirs_in))
        )
        torch.testing.assert_close(found, expected)
    found.backward()
    expected.backward()
    torch.testing.assert_close(ours_in.grad, theirs_in.grad)
    for (name, a), (_, b) in zip(crf.named_parameters(), theirs.named_parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, msg=name)
    decoded = crf.decode(emissions, mask)
    assert [decoded[b, mask[b]].tolist() for b in range(len(mask))] == theirs.decode(emissions, mask)
