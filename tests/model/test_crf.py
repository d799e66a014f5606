import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from phonechain.model.chain.packing import Packing
from phonechain.model.networks import crf
from phonechain.model.networks.crf import ConditionalRandomField, window, window_steps
from phonechain.model.settings import FactorSettings, ModelSettings, stored_model, to_dict
from tests.model.oracle import ChainOracle

D, Y = 2, 3
BIGRAMS = torch.tensor([[0, 1], [1, 1], [1, 2], [2, 0]])
TRIGRAMS = torch.tensor([[0, 1, 1], [1, 1, 2], [1, 2, 0], [2, 0, 1]])

KINDS = {
    "linear": FactorSettings(kind="linear"),
    "spn": FactorSettings(kind="spn", layers=2, products=2, states=2),
    "spn-max": FactorSettings(kind="spn", layers=1, products=2, states=2, operator="max"),
    "gmm-shared": FactorSettings(kind="gaussian", states=2, covariance="shared"),
    "gmm-diagonal": FactorSettings(kind="gaussian", states=2, covariance="diagonal"),
    "gmm-full": FactorSettings(kind="gaussian", states=2, covariance="full"),
    "hidden-units": FactorSettings(kind="hidden-units", units=3),
    "perceptron": FactorSettings(kind="perceptron", units=3),
}


def model(
    kind: str = "linear",
    *,
    labels: int = 1,
    segments: int = 1,
    bigram: str = "dense",
    trigram: str = "none",
    seed: int = 0,
) -> ConditionalRandomField:
    """A factor over single labels, one over `labels` in a row (if more than one), and n-gram weights, all random."""
    base = KINDS[kind]
    factors = [replace(base, segments=segments)]
    factors += [replace(base, segments=n, labels=n) for n in range(2, labels + 1)]
    chosen = ModelSettings(factors=tuple(factors), bigram=bigram, trigram=trigram)  # type: ignore[arg-type]
    crf = ConditionalRandomField(chosen, D, Y, bigrams=BIGRAMS, trigrams=TRIGRAMS).double().eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in crf.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return crf


def batch(lengths: tuple[int, ...], seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, Packing]:
    packing = Packing(lengths)
    random = np.random.default_rng(seed)
    x = torch.from_numpy(random.normal(size=(packing.rows, D)))
    return x, torch.from_numpy(random.integers(0, Y, packing.rows)), packing


def table(crf: ConditionalRandomField, n: int) -> np.ndarray:
    """The input-independent weights of label n-grams, from their definition."""
    dense = np.zeros((Y,) * n)
    weight = crf.bigram_weight if n == 2 else crf.trigram_weight
    if weight is None:
        return dense
    values = weight.detach().numpy()
    if values.ndim == n:
        return values.copy()
    for value, gram in zip(values, BIGRAMS if n == 2 else TRIGRAMS, strict=True):
        dense[tuple(gram.tolist())] = value
    return dense


def oracle(crf: ConditionalRandomField, x: torch.Tensor) -> ChainOracle:
    """One sequence [T, D], its potentials put together window by window and n-gram by n-gram."""
    steps = len(x)
    tables = {1: np.zeros((steps, Y))}
    for n in (2, 3):
        tables[n] = np.tile(table(crf, n), (max(steps - n + 1, 0),) + (1,) * n)
    for chosen, factor in zip(crf.settings.factors, crf.factors, strict=True):
        n, m = chosen.labels, chosen.segments
        for t in range(n - 1, steps):
            first = t - m // 2 if n == 1 else t - m + 1  # a window over several labels ends with the last of them
            around = range(first, first + m)
            seen = torch.cat([x[s] if 0 <= s < steps else torch.zeros(D, dtype=torch.float64) for s in around])
            scores = factor(seen[None])[0].detach().numpy()
            if n == 1:
                tables[1][t] += scores
            else:
                for score, gram in zip(scores, (BIGRAMS if n == 2 else TRIGRAMS).tolist(), strict=True):
                    tables[n][(t - n + 1, *gram)] += score
    return ChainOracle(tables[1], tables[2], tables[3])


def check(crf: ConditionalRandomField, lengths: tuple[int, ...], seed: int) -> None:
    """Loss, posteriors and best sequences against enumeration, to 1e-8."""
    x, y, packing = batch(lengths, seed)
    loss = crf.loss(x, y, packing)
    posteriors = crf.posteriors(x, packing)
    best = crf.decode(x, packing)
    total = 0.0
    for b, length in enumerate(lengths):
        rows = [packing.offsets[t] + b for t in range(length)]
        truth = oracle(crf, x[rows])
        total -= truth.log_probability(y[rows].tolist())
        np.testing.assert_allclose(posteriors[rows].detach(), truth.marginals(), atol=1e-8)
        assert truth.score(best[rows].tolist()) == pytest.approx(truth.best()[1], abs=1e-8)
    assert float(loss.detach()) == pytest.approx(total / packing.rows, abs=1e-8)


@pytest.mark.parametrize("trigram", ["none", "dense", "sparse"])
@pytest.mark.parametrize("bigram", ["none", "dense", "sparse"])
@pytest.mark.parametrize("labels", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_every_combination_of_factor_order_and_sparsity(kind: str, labels: int, bigram: str, trigram: str) -> None:
    check(model(kind, labels=labels, segments=3, bigram=bigram, trigram=trigram), (4, 2, 1), seed=labels)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(sorted(KINDS)),
    st.integers(1, 3),
    st.integers(1, 5),
    st.sampled_from(["none", "dense", "sparse"]),
    st.sampled_from(["none", "dense", "sparse"]),
    st.lists(st.integers(1, 5), min_size=1, max_size=3).map(lambda n: tuple(sorted(n, reverse=True))),
    st.integers(0, 2**16),
)
def test_drawn_combinations(
    kind: str, labels: int, segments: int, bigram: str, trigram: str, lengths: tuple[int, ...], seed: int
) -> None:
    check(model(kind, labels=labels, segments=segments, bigram=bigram, trigram=trigram, seed=seed), lengths, seed)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("labels", "bigram", "trigram"), [(1, "dense", "none"), (2, "sparse", "sparse"), (3, "dense", "dense")]
)
def test_gradcheck_of_the_loss(kind: str, labels: int, bigram: str, trigram: str) -> None:
    crf = model(kind, labels=labels, bigram=bigram, trigram=trigram)
    x, y, packing = batch((3, 2, 1))
    names = [name for name, _ in crf.named_parameters()]

    class Loss(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.crf = crf

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.crf.loss(x, y, packing)

    def loss(*parameters: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(Loss(), {f"crf.{k}": p for k, p in zip(names, parameters, strict=True)}, (x,))

    assert torch.autograd.gradcheck(loss, tuple(crf.parameters()), fast_mode=True)  # along drawn directions


def steps(segments: int, labels: int = 1, **changes: str) -> list[int]:
    return list(window_steps(FactorSettings(segments=segments, labels=labels, **changes)))  # type: ignore[arg-type]


def test_windows_are_the_segments_around_and_zeros_past_the_edges() -> None:
    x, _, packing = batch((3, 1))
    first, second, third = (x[packing.offsets[t]] for t in range(3))
    zero = torch.zeros(D, dtype=torch.float64)
    found = window(x, packing, range(-1, 2))
    assert torch.equal(found[packing.offsets[0]], torch.cat([zero, first, second]))
    assert torch.equal(found[packing.offsets[1]], torch.cat([first, second, third]))
    assert torch.equal(found[packing.offsets[2]], torch.cat([second, third, zero]))
    assert torch.equal(found[1], torch.cat([zero, x[1], zero]))  # the sequence of one
    assert torch.equal(window(x, packing, range(-1, 1))[packing.offsets[1]], torch.cat([first, second]))
    assert [steps(m) for m in (1, 2, 3, 4, 5)] == [[0], [-1, 0], [-1, 0, 1], [-2, -1, 0, 1], [-2, -1, 0, 1, 2]]


def test_the_window_of_several_labels_ends_with_the_last_of_them() -> None:
    """A factor over 3 segments and 3 labels used to read x[t-1], x[t], x[t+1]."""
    assert steps(2, 2) == [-1, 0]
    assert steps(3, 2) == steps(3, 3) == [-2, -1, 0]
    assert steps(5, 3) == [-4, -3, -2, -1, 0]
    assert steps(3, 3, window="around") == [-1, 0, 1]
    x, _, packing = batch((4,))
    changed = x.clone()
    changed[3] += 1.0
    crf = model("linear", labels=3, segments=3, bigram="none")
    before, after = (crf.potentials(features, packing).hyperedge for features in (x, changed))
    assert before is not None
    assert after is not None
    assert torch.equal(before[:3], after[:3])
    assert not torch.equal(before[3], after[3])


def test_settings_of_an_older_file_keep_their_window() -> None:
    wide = FactorSettings(kind="linear", segments=3, labels=3)
    values = to_dict(ModelSettings(factors=(FactorSettings(), FactorSettings(segments=2, labels=2), wide)))
    assert stored_model(values).factors[2].window == "last"
    for factor in values["factors"]:
        del factor["window"]
        del factor["centred"]
    assert [f.window for f in stored_model(values).factors] == ["last", "last", "around"]
    assert not any(f.centred for f in stored_model(values).factors)


def test_n_gram_weights_and_factor_weights_are_all_the_weights() -> None:
    crf = model("spn", labels=2, bigram="dense", trigram="sparse")
    parts = [*crf.factor_parameters(), *crf.ngram_parameters()]
    assert len(crf.ngram_parameters()) == 2
    assert {id(p) for p in parts} == {id(p) for p in crf.parameters()}
    assert len(parts) == len(list(crf.parameters()))


def test_a_temperature_flattens_the_whole_chain() -> None:
    crf = model("linear", bigram="dense", trigram="dense")
    x, _, packing = batch((4,))
    truth = oracle(crf, x)
    warm = ChainOracle(truth.unary / 2.5, truth.bigram / 2.5, truth.trigram / 2.5)
    np.testing.assert_allclose(crf.posteriors(x, packing, temperature=2.5).detach(), warm.marginals(), atol=1e-8)


def test_dropout_is_for_training_only_and_repeats_with_its_generator() -> None:
    chosen = ModelSettings(factors=(FactorSettings(kind="linear", dropout=0.5),))
    crf = ConditionalRandomField(chosen, D, Y).double()
    with torch.no_grad():
        for parameter in crf.parameters():
            parameter.uniform_(-1, 1)
    x, y, packing = batch((5, 4))
    crf.eval()
    assert torch.equal(crf.loss(x, y, packing), crf.loss(x, y, packing))
    crf.train()
    losses = []
    for seed in (1, 1, 2):
        crf.noise = torch.Generator().manual_seed(seed)
        losses.append(crf.loss(x, y, packing).item())
    assert losses[0] == losses[1] != losses[2]


def test_an_empty_inventory_leaves_out_what_needs_one() -> None:
    chosen = ModelSettings(
        factors=(FactorSettings(kind="linear"), FactorSettings(kind="linear", segments=2, labels=2)),
        bigram="sparse",
        trigram="sparse",
    )
    crf = ConditionalRandomField(chosen, D, Y).double()
    x, _, packing = batch((1, 1))
    np.testing.assert_allclose(crf.posteriors(x, packing).detach(), np.full((2, Y), 1 / Y))
    assert len(crf.factors) == 1


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from([(1, "none"), (2, "none"), (1, "dense"), (2, "sparse"), (3, "none")]),
    st.lists(st.integers(1, 40), min_size=1, max_size=6).map(lambda n: tuple(sorted(n, reverse=True))),
    st.sampled_from([1.0, 0.7]),
    st.integers(0, 2**16),
)
def test_a_batch_in_parts_has_the_posteriors_and_the_best_sequences_of_the_whole(
    shape: tuple[int, str], lengths: tuple[int, ...], temperature: float, seed: int
) -> None:
    labels, trigram = shape
    network = model("spn", labels=labels, segments=3, trigram=trigram, seed=seed)
    x, _, packing = batch(lengths, seed)
    whole = network.posteriors(x, packing, temperature=temperature)
    best = network.decode(x, packing)
    bytes_per_row = network._bytes_per_row
    for rows in (8, 33, 100):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(crf, "BUDGET", rows * bytes_per_row)
            parts = network.posteriors(x, packing, temperature=temperature)
            assert network.decode(x, packing).tolist() == best.tolist()
        np.testing.assert_allclose(parts, whole.detach(), atol=1e-10)


def test_a_long_sequence_at_a_range_for_logs_is_still_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    network = model("linear", bigram="dense", trigram="dense")
    with torch.no_grad():
        network.trigram_weight[0, 1, 2] = -400.0  # type: ignore[index]
    x, _, packing = batch((30, 4), 1)
    whole = network.posteriors(x, packing)
    monkeypatch.setattr(crf, "BUDGET", 20 * network._bytes_per_row)
    np.testing.assert_allclose(network.posteriors(x, packing), whole, atol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_a_centred_factor_gives_unseen_and_seen_n_grams_the_same_start(kind: str) -> None:
    """Otherwise seen bigrams start ahead: by 6 ln 2 where two layers of two variables have two states, U ln 2 with hidden units."""
    base = KINDS[kind]
    x, _, packing = batch((3, 2))
    for centred in (False, True):
        wide = replace(base, segments=2, labels=2, centred=centred)
        network = ConditionalRandomField(ModelSettings(factors=(base, wide)), D, Y, bigrams=BIGRAMS).double().eval()
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.zero_()
        edge = network.potentials(x, packing).edge
        assert edge is not None
        ahead = {"spn": 6.0, "hidden-units": 3.0, "gmm-shared": 1.0, "gmm-diagonal": 1.0, "gmm-full": 1.0}
        expected = 0.0 if centred else np.log(2) * ahead.get(kind, 0.0)
        np.testing.assert_allclose(edge[:, BIGRAMS[:, 0], BIGRAMS[:, 1]].detach(), expected, atol=1e-12)
        assert float(edge.detach().sum()) == pytest.approx(expected * len(x) * len(BIGRAMS))


@pytest.mark.parametrize(("labels", "trigram"), [(1, "none"), (2, "none"), (2, "sparse"), (3, "dense")])
def test_the_loss_sums_unlabelled_segments_out(labels: int, trigram: str) -> None:
    """-log of the sum of the probabilities of all sequences that agree with the labels that are there, over their number."""
    crf = model("spn", labels=labels, segments=3, trigram=trigram)
    x, y, packing = batch((5, 4, 1))
    hidden = y.clone()
    hidden[[0, 3, 4, 7]] = -1
    expected = 0.0
    for rows in packing.split(torch.arange(packing.rows)):
        one = Packing((len(rows),))
        probability = 0.0
        for labelling in itertools.product(range(Y), repeat=len(rows)):
            given = torch.tensor(labelling)
            if ((hidden[rows] < 0) | (hidden[rows] == given)).all():
                probability += float(crf.log_probability(x[rows], given, one).exp())
        expected -= np.log(probability)
    assert float(crf.loss(x, hidden, packing).detach()) == pytest.approx(expected / int((hidden >= 0).sum()), rel=1e-10)
    parameters = [p for p in crf.parameters() if p.numel()]

    def loss(*_: torch.Tensor) -> torch.Tensor:
        return crf.loss(x, hidden, packing)

    few = [p for p in parameters if p.numel() <= 16]
    assert torch.autograd.gradcheck(loss, few, atol=1e-6)
