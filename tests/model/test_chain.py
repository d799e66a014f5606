from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import special, stats

from phonechain.model.chain import inference as chain
from phonechain.model.chain.inference import Potentials
from phonechain.model.chain.packing import Packing
from phonechain.model.chain.potentials import Want
from phonechain.model.chain.single import sweep_windows
from tests.model.chains import PATTERNS, TABLES, Case, cases, make

quick = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)

ORDER_1 = [set(), {"bigram"}, {"edge"}, {"bigram", "edge"}]
ORDER_2 = [{"trigram"}, {"bigram", "trigram"}, {"hyperedge"}, {"edge", "trigram"}, set(TABLES)]


def close(found: object, expected: object, tolerance: float = 1e-8) -> None:
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-11, atol=tolerance)


def leaves(case: Case) -> tuple[Potentials, list[torch.Tensor]]:
    """The potentials with gradients asked for, and those that are there."""
    p = Potentials(case.potentials.packing, *(x if x is None else x.clone().requires_grad_() for x in tensors(case)))  # type: ignore[arg-type]
    return p, [x for x in p.tensors() if x is not None]


def tensors(case: Case) -> tuple[torch.Tensor | None, ...]:
    return case.potentials.tensors()


# ------------------------------------------------------------------------------------------------ against enumeration


@quick
@given(cases())
def test_log_z_and_every_marginal(case: Case) -> None:
    found = chain.marginals(case.potentials, pairs=True, triples=True)
    close(chain.log_partition(case.potentials), found.log_z)
    for b in range(len(case.lengths)):
        oracle, rows = case.oracle(b), case.rows(b)
        close(found.log_z[b], oracle.log_z)
        close(found.unary[rows], oracle.marginals())
        assert found.pair is not None
        close(found.pair[rows[1:]], oracle.marginals(2))
        close(found.pair[rows[:1]], 0.0)
        if case.potentials.order == 2:
            assert found.triple is not None
            close(found.triple[rows[2:]], oracle.marginals(3))
            close(found.triple[rows[:2]], 0.0)


@quick
@given(cases(), st.integers(0, 99))
def test_the_gradient_is_the_expected_count_also_when_sequences_weigh_differently(case: Case, seed: int) -> None:
    random = np.random.default_rng(seed)
    for weight in (np.ones(len(case.lengths)), random.uniform(-1, 1, len(case.lengths))):
        p, asked = leaves(case)
        (chain.log_partition(p) * torch.tensor(weight)).sum().backward()
        expected = [torch.zeros_like(x) for x in asked]
        names = [name for name in ("unary", *TABLES) if getattr(p, name) is not None]
        by_name = dict(zip(names, expected, strict=True))
        for b in range(len(case.lengths)):
            oracle, rows = case.oracle(b), case.rows(b)
            for n, shared, local in ((1, None, "unary"), (2, "bigram", "edge"), (3, "trigram", "hyperedge")):
                marginal = torch.tensor(weight[b] * oracle.marginals(n))
                if shared in by_name:
                    by_name[shared] += marginal.sum(0)
                if local in by_name and len(rows) >= n:
                    by_name[local][rows[n - 1 :]] += marginal
        for x, e in zip(asked, expected, strict=True):
            assert x.grad is not None
            close(x.grad, e)


@quick
@given(cases(), st.integers(1, 12))
def test_the_k_best_are_the_k_best_enumerated(case: Case, k: int) -> None:
    labels, scores = chain.k_best(case.potentials, k)
    for b in range(len(case.lengths)):
        oracle, rows = case.oracle(b), case.rows(b)
        expected = oracle.k_best(k)
        close(scores[: len(expected), b], [score for _, score in expected])
        assert torch.isneginf(scores[len(expected) :, b]).all()
        assert not labels[len(expected) :][:, rows].any()
        paths = [tuple(p) for p in labels[: len(expected)][:, rows].tolist()]
        assert len(set(paths)) == len(paths)
        close([oracle.score(p) for p in paths], scores[: len(expected), b])


@quick
@given(cases())
def test_viterbis_score_is_the_best_enumerated_score(case: Case) -> None:
    labels, scores = chain.viterbi(case.potentials)
    for b in range(len(case.lengths)):
        oracle = case.oracle(b)
        close(scores[b], oracle.best()[1])
        close(oracle.score(labels[case.rows(b)].tolist()), oracle.best()[1])


@quick
@given(cases(), st.integers(0, 99))
def test_scores_likelihoods_and_entropy(case: Case, seed: int) -> None:
    p = case.potentials
    labels = torch.from_numpy(np.random.default_rng(seed).integers(0, p.labels, p.packing.rows))
    score, likelihood, entropy = chain.log_score(p, labels), chain.log_likelihood(p, labels), chain.entropy(p)
    for b in range(len(case.lengths)):
        oracle, path = case.oracle(b), labels[case.rows(b)].tolist()
        close(score[b], oracle.score(path))
        close(likelihood[b], oracle.log_probability(path))
        close(entropy[b], oracle.entropy(), 1e-7)


@quick
@given(cases())
def test_a_sequence_in_a_batch_is_what_it_is_alone(case: Case) -> None:
    together = chain.marginals(case.potentials, pairs=True)
    for b in range(len(case.lengths)):
        alone = chain.marginals(case.alone(b), pairs=True)
        close(together.log_z[b], alone.log_z[0])
        close(together.unary[case.rows(b)], alone.unary)
        assert together.pair is not None
        assert alone.pair is not None
        close(together.pair[case.rows(b)], alone.pair)


# ---------------------------------------------------------------------------------------------------------- float32


@quick
@given(cases(dtype=torch.float32))
def test_float32_keeps_its_precision_at_large_potentials(case: Case) -> None:
    """The oracle sees the same float32 numbers; what may differ is the rounding of sums of numbers of this size."""
    found = chain.marginals(case.potentials, pairs=True)
    sizes = [float(x.abs().max()) if x is not None and x.numel() else 0.0 for x in tensors(case)]
    rounding = 1e-6 * (1 + sum(sizes)) * max(case.lengths)
    for b in range(len(case.lengths)):
        oracle, rows = case.oracle(b), case.rows(b)
        close(found.log_z[b], oracle.log_z, rounding)
        close(found.unary[rows], oracle.marginals(), rounding)
        assert found.pair is not None
        close(found.pair[rows[1:]], oracle.marginals(2), rounding)
        labels, _ = chain.viterbi(case.potentials)
        assert oracle.score(labels[rows].tolist()) >= oracle.best()[1] - rounding


@settings(quick, max_examples=40)
@given(
    st.lists(st.integers(1, 90), min_size=1, max_size=5),
    st.integers(2, 5),
    st.sampled_from(ORDER_1),
    st.sampled_from([0.5, 2.0, 6.0, 9.0, 12.0, 17.9]),
    st.sampled_from(PATTERNS),
    st.integers(0, 99),
)
def test_long_chains_of_float32_are_those_of_a_plain_recursion(
    lengths: list[int], labels: int, tables: set[str], size: float, pattern: str, seed: int
) -> None:
    """Up to the widest n-grams that float32 is used for: messages go unscaled for as many steps as these allow."""
    size /= max(1, len(tables))
    sizes = {"unary": 40.0, **dict.fromkeys(TABLES, size)}
    patterns = {"unary": "uniform", **dict.fromkeys(TABLES, pattern)}
    case = make(lengths, labels, tables=tables, size=sizes, pattern=patterns, seed=seed, dtype=torch.float32)
    found = chain.marginals(case.potentials, pairs=True)
    p, _ = leaves(case)
    (gradient,) = (None,) if p.bigram is None else torch.autograd.grad(chain.log_partition(p).sum(), [p.bigram])
    total = np.zeros((labels, labels))
    for b in range(len(case.lengths)):
        log_z, unary, pair = log_domain(case, b)
        rows = case.rows(b)
        close(found.log_z[b], log_z, 1e-5 * (1 + abs(log_z)))
        close(found.unary[rows], unary, 1e-4)
        assert found.pair is not None
        close(found.pair[rows[1:]], pair, 1e-4)
        total += pair.sum(0)
    if gradient is not None:
        close(gradient, total, 1e-4 * sum(case.lengths))


def log_domain(case: Case, sequence: int) -> tuple[float, np.ndarray, np.ndarray]:
    """log Z, p(y_t) and p(y_{t-1}, y_t) of a first-order chain by sums of logs in float64, position by position."""
    p, rows = case.potentials, case.rows(sequence)
    unary = p.unary.double().numpy()[rows]
    tables = np.zeros((len(rows), p.labels, p.labels))
    if p.bigram is not None:
        tables += p.bigram.double().numpy()
    if p.edge is not None:
        tables += p.edge.double().numpy()[rows]
    alpha, beta = unary.copy(), np.zeros_like(unary)
    for t in range(1, len(rows)):
        alpha[t] += special.logsumexp(alpha[t - 1][:, None] + tables[t], 0)
    for t in range(len(rows) - 1, 0, -1):
        beta[t - 1] = special.logsumexp(tables[t] + unary[t] + beta[t], 1)
    log_z = float(special.logsumexp(alpha[-1]))
    pair = alpha[:-1, :, None] + tables[1:] + (unary + beta)[1:, None, :]
    return log_z, np.exp(alpha + beta - log_z), np.exp(pair - log_z)


@settings(quick, max_examples=25)
@given(
    st.lists(st.integers(1, 4), min_size=14, max_size=45),
    st.integers(2, 4),
    st.sampled_from([{"bigram"}, {"edge"}, {"bigram", "trigram"}, {"edge", "trigram"}, {"hyperedge"}]),
    st.integers(0, 99),
)
def test_many_sequences_of_many_lengths(lengths: list[int], labels: int, tables: set[str], seed: int) -> None:
    """Marginals as enumerated, and gradients as those of each sequence by itself: the sweeps change widths on the way."""
    case = make(lengths, labels, tables=tables, seed=seed)
    found = chain.marginals(case.potentials, pairs=True)
    assert found.pair is not None
    for b in range(len(case.lengths)):
        oracle, rows = case.oracle(b), case.rows(b)
        close(found.log_z[b], oracle.log_z)
        close(found.unary[rows], oracle.marginals())
        close(found.pair[rows[1:]], oracle.marginals(2))
    p, leaf = leaves(case)
    weight = torch.rand(len(lengths), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    together = torch.autograd.grad((weight * chain.log_partition(p)).sum(), leaf)
    single = torch.cat([chain.log_partition(Case(p).alone(b)) for b in range(len(lengths))])
    for x, y in zip(together, torch.autograd.grad((weight * single).sum(), leaf), strict=True):
        close(x, y)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("order", [1, 2])
def test_n_grams_lift_a_label_whose_own_probability_underflows(dtype: torch.dtype, order: int) -> None:
    """Label 1 in the middle is hopeless by itself and the best answer with its neighbours: in, through and out."""
    for lift in (20.0, 30.0, 40.0, 59.0, 100.0, 200.0, 300.0, 640.0):
        middle, steps = 2, 5
        unary = torch.zeros(steps, 2, dtype=dtype)
        unary[:, 1] = -4000.0
        unary[middle, 1] = -(order + 1) * lift + 5.0
        table = torch.zeros((2,) * (order + 1), dtype=dtype)
        for place in range(order + 1):  # n-grams with a single 1, at each place
            table[tuple(int(n == place) for n in range(order + 1))] = lift
        case = Case(Potentials(Packing((steps,)), unary, **{"bigram" if order == 1 else "trigram": table}))
        found = chain.marginals(case.potentials)
        oracle = case.oracle(0)
        assert oracle.marginals()[middle, 1] == pytest.approx(0.9933, abs=1e-3)
        np.testing.assert_allclose(found.unary, oracle.marginals(), atol=2e-3 if dtype == torch.float32 else 1e-8)
        np.testing.assert_allclose(found.log_z[0], oracle.log_z, atol=2e-3 if dtype == torch.float32 else 1e-8)


@pytest.mark.parametrize("tables", ORDER_1 + ORDER_2, ids=lambda names: "-".join(sorted(names)))
def test_unaries_may_be_as_large_as_they_like(tables: set[str]) -> None:
    case = make([4, 2, 1], 3, tables=tables, size={"unary": 1e5, **dict.fromkeys(TABLES, 10.0)})
    found = chain.marginals(case.potentials)
    for b in range(3):
        close(found.log_z[b], case.oracle(b).log_z, 1e-6)
        close(found.unary[case.rows(b)], case.oracle(b).marginals())


# --------------------------------------------------------------------------------------------------------- gradients


@pytest.mark.parametrize("size", [1.0, 8.0])
@pytest.mark.parametrize("tables", ORDER_1 + ORDER_2, ids=lambda names: "-".join(sorted(names)))
@pytest.mark.parametrize("lengths", [[1], [2, 1], [3, 3, 1], [4, 2]], ids=str)
def test_gradcheck(lengths: list[int], tables: set[str], size: float) -> None:
    case = make(lengths, 2, tables=tables, size=size, seed=len(lengths))
    p, asked = leaves(case)
    names = [name for name, x in zip(("unary", *TABLES), p.tensors(), strict=True) if x is not None]
    labels = torch.arange(p.packing.rows) % 2

    def log_likelihood(*given: torch.Tensor) -> torch.Tensor:
        tables: dict[str, Any] = dict(zip(names, given, strict=True))
        return chain.log_likelihood(replace(p, **tables), labels)

    assert torch.autograd.gradcheck(log_likelihood, asked, atol=1e-6)


def test_only_what_is_asked_for_gets_a_gradient() -> None:
    case = make([3, 2], 3, tables=set(TABLES))
    for name in ("unary", *TABLES):
        p = replace(case.potentials, **{name: getattr(case.potentials, name).clone().requires_grad_()})
        chain.log_partition(p).sum().backward()
        others = [x for n, x in zip(("unary", *TABLES), p.tensors(), strict=True) if n != name]
        assert all(x is not None and x.grad is None for x in others)
        full, _ = leaves(case)
        chain.log_partition(full).sum().backward()
        close(getattr(p, name).grad, getattr(full, name).grad)


@pytest.mark.parametrize("range_", [1.0, 400.0])
@pytest.mark.parametrize(("lengths", "name"), [((1, 1), "bigram"), ((2, 1), "trigram"), ((1,), "edge")])
def test_an_n_gram_table_that_no_sequence_reaches_gets_zeros(
    lengths: tuple[int, ...], name: str, range_: float
) -> None:
    case = make(
        list(lengths), 2, tables={name}, size={"unary": 1.0, **dict.fromkeys(TABLES, range_)}, pattern="extremes"
    )
    table = getattr(case.potentials, name).requires_grad_()
    labels = torch.arange(sum(lengths)) % 2
    chain.log_likelihood(case.potentials, labels).sum().backward()
    assert table.grad is not None
    assert not table.grad.any()


def test_labels_changed_before_the_backward_pass_are_told() -> None:
    case = make([2, 1], 2)
    p, _ = leaves(case)
    labels = torch.tensor([0, 1, 0])
    likelihood = chain.log_likelihood(p, labels)
    labels.fill_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        likelihood.backward(torch.tensor([1.0, 2.0], dtype=torch.float64))


def test_log_z_of_a_very_long_chain_does_not_drift() -> None:
    """150,000 equal positions in float32: the sum of as many equal terms."""
    p = Potentials(Packing((150_000,)), torch.full((150_000, 5), 0.3), torch.zeros(5, 5))
    assert float(chain.log_partition(p)[0]) == pytest.approx(150_000 * (0.3 + np.log(5)), rel=1e-6)


@pytest.mark.parametrize("tables", [{"bigram", "edge"}, set(TABLES)], ids=lambda names: "-".join(sorted(names)))
def test_marginals_are_the_gradient_of_log_z(tables: set[str]) -> None:
    case = make([5, 3, 1], 3, tables=tables, size=20.0, seed=5)
    p, _ = leaves(case)
    chain.log_partition(p).sum().backward()
    found = chain.marginals(case.potentials, pairs=True, triples=True)
    assert p.unary.grad is not None
    close(found.unary, p.unary.grad)
    assert found.pair is not None
    assert p.edge is not None
    close(found.pair, p.edge.grad)
    if p.hyperedge is not None:
        assert found.triple is not None
        close(found.triple, p.hyperedge.grad)


# -------------------------------------------------------------------------------------------------------- properties


@pytest.mark.parametrize("tables", ORDER_1 + ORDER_2, ids=lambda names: "-".join(sorted(names)))
def test_rows_that_are_not_read_may_hold_anything(tables: set[str]) -> None:
    case = make([3, 2, 1], 2, tables=tables, size=5.0)
    p = case.potentials
    clean = chain.marginals(p, pairs=True)
    first, second = p.packing.offsets[1], p.packing.offsets[2]
    if p.edge is not None:
        p.edge[:first] = torch.nan
    if p.hyperedge is not None:
        p.hyperedge[:second] = torch.nan
    found = chain.marginals(p, pairs=True)
    close(found.log_z, clean.log_z)
    close(found.unary, clean.unary)
    labels, scores = chain.viterbi(p)
    assert torch.isfinite(scores).all()
    assert torch.isfinite(chain.log_score(p, labels)).all()
    assert torch.isfinite(chain.entropy(p)).all()


@pytest.mark.parametrize("order", [1, 2])
def test_a_constant_a_position_moves_log_z_and_nothing_else(order: int) -> None:
    case = make([4, 3], 3, tables={"bigram"} if order == 1 else {"bigram", "trigram"}, size=30.0)
    p = case.potentials
    added = torch.linspace(-200, 300, p.packing.rows, dtype=torch.float64)
    before, after = chain.marginals(p), chain.marginals(replace(p, unary=p.unary + added[:, None]))
    close(after.unary, before.unary)
    expected = [float(added[case.rows(b)].sum()) for b in range(2)]
    close(after.log_z - before.log_z, expected)


def test_without_n_grams_positions_are_independent() -> None:
    case = make([4, 1], 3, tables=set(), size=10.0)
    close(chain.marginals(case.potentials).unary, torch.softmax(case.potentials.unary, 1))


@pytest.mark.parametrize("order", [1, 2])
def test_long_chains_neither_underflow_nor_drift(order: int) -> None:
    """2000 equal positions, against powers of the table in float64. The trigrams do not look at their first label."""
    steps, labels = 2000, 3
    random = np.random.default_rng(0)
    table = torch.tensor(random.uniform(-8, 8, (labels, labels)), dtype=torch.float32)
    unary = torch.full((steps, labels), -50.0)
    p = Potentials(Packing((steps,)), unary, bigram=table)
    if order == 2:
        p = Potentials(Packing((steps,)), unary, trigram=table.expand(labels, labels, labels).contiguous())
    found = chain.marginals(p)
    power, expected = np.ones(labels), (order - 1) * np.log(labels) - 50.0 * steps
    for _ in range(steps - order):
        power = power @ np.exp(table.double().numpy())
        expected += np.log(power.sum())
        power /= power.sum()
    assert float(found.log_z[0]) == pytest.approx(expected, rel=1e-6)
    np.testing.assert_allclose(found.unary.sum(1), 1.0, atol=1e-4)


@pytest.mark.parametrize("tables", [{"bigram"}, {"bigram", "edge", "trigram"}], ids=["first", "second"])
def test_samples_pass_a_chi_square_test(tables: set[str]) -> None:
    case = make([4, 2, 1], 3, tables=tables, size=1.5, seed=3)
    drawn = chain.sample(case.potentials, 6000, torch.Generator().manual_seed(0))
    assert drawn.shape == (6000, case.potentials.packing.rows)
    for b in range(3):
        oracle = case.oracle(b)
        code = drawn[:, case.rows(b)] @ (3 ** torch.arange(case.lengths[b] - 1, -1, -1))
        counts = np.bincount(code.numpy(), minlength=len(oracle.scores))
        expected = 6000 * oracle.probabilities
        rare = expected < 5  # the test's own rule: pool the small cells
        pooled = np.append(counts[~rare], counts[rare].sum()), np.append(expected[~rare], expected[rare].sum())
        keep = pooled[1] > 0
        assert stats.chisquare(pooled[0][keep], pooled[1][keep]).pvalue > 1e-3


def test_samples_repeat_with_their_seed() -> None:
    case = make([4, 2], 3, tables={"bigram", "trigram"})
    a, b, c = (chain.sample(case.potentials, 20, torch.Generator().manual_seed(s)) for s in (1, 1, 2))
    assert torch.equal(a, b)
    assert not torch.equal(a, c)


def test_a_temperature_scales_every_table() -> None:
    case = make([3, 2], 3, tables=set(TABLES), size=3.0)
    warm = Case(case.potentials.scale(0.5))
    found = chain.marginals(warm.potentials)
    for b in range(2):
        oracle = case.oracle(b)
        half = replace(oracle, unary=oracle.unary / 2, bigram=oracle.bigram / 2, trigram=oracle.trigram / 2)
        close(found.unary[case.rows(b)], half.marginals())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("labels", [2, 3, 4, 5])
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("local", [True, False])
def test_n_grams_that_are_all_far_below_zero(dtype: torch.dtype, labels: int, order: int, local: bool) -> None:
    """What counts is how they differ; the rounding is that of numbers of this size."""
    g = torch.Generator().manual_seed(labels)
    lengths = (4, 2, 1)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=g, dtype=torch.float64).to(dtype) - 300.0

    case = Case(
        Potentials(
            Packing(lengths),
            draw(sum(lengths), labels),
            draw(labels, labels),
            draw(sum(lengths), labels, labels) if local else None,
            draw(labels, labels, labels) if order == 2 else None,
        )
    )
    found = chain.marginals(case.potentials, pairs=local)
    rounding = 3e-3 if dtype == torch.float32 else 1e-8
    for b in range(len(lengths)):
        oracle, rows = case.oracle(b), case.rows(b)
        close(found.log_z[b], oracle.log_z, rounding)
        close(found.unary[rows], oracle.marginals(), rounding)
        if found.pair is not None:
            close(found.pair[rows[1:]], oracle.marginals(2), rounding)


@quick
@given(cases(), st.integers(0, 9999))
def test_gaps_are_summed_out(case: Case, seed: int) -> None:
    random = np.random.default_rng(seed)
    p = case.potentials
    labels = torch.from_numpy(random.integers(-1, p.labels, p.packing.rows))
    found = chain.partial_log_likelihood(p, labels)
    for b in range(len(case.lengths)):
        oracle, known = case.oracle(b), labels[case.rows(b)].numpy()
        fits = ((oracle.sequences == known) | (known < 0)).all(1)
        close(found[b], special.logsumexp(oracle.scores[fits]) - oracle.log_z)


@pytest.mark.parametrize("tables", [{"bigram"}, set(TABLES)], ids=["first", "second"])
def test_gradcheck_with_gaps(tables: set[str]) -> None:
    case = make([4, 2], 3, tables=tables, seed=3)
    p, asked = leaves(case)
    names = [name for name, x in zip(("unary", *TABLES), p.tensors(), strict=True) if x is not None]
    labels = torch.tensor([0, -1, -1, 2, 1, -1])

    def partial(*given: torch.Tensor) -> torch.Tensor:
        given_tables: dict[str, Any] = dict(zip(names, given, strict=True))
        return chain.partial_log_likelihood(replace(p, **given_tables), labels)

    assert torch.autograd.gradcheck(partial, asked, atol=1e-6)


# ------------------------------------------------------------------------------------------------------------ corners


@quick
@given(cases(dtype=torch.float32), st.sampled_from([1e3, 1e4, 1e5]), st.integers(0, 99))
def test_what_is_common_to_all_labels_costs_no_digits(case: Case, offset: float, seed: int) -> None:
    """The likelihood of float32 potentials far from zero: only how they differ counts, as in the oracle's numbers."""
    p = case.potentials.map(lambda table: table + offset)
    shifted = Case(p)
    labels = torch.from_numpy(np.random.default_rng(seed).integers(0, p.labels, p.packing.rows))
    found, entropy = chain.log_likelihood(p, labels), chain.entropy(p)
    for b in range(len(case.lengths)):
        oracle = shifted.oracle(b)
        expected = oracle.log_probability(labels[shifted.rows(b)].tolist())
        assert float(found[b]) == pytest.approx(expected, rel=2e-6, abs=2e-5)
        assert float(entropy[b]) == pytest.approx(oracle.entropy(), rel=1e-6, abs=1e-6)


@quick
@given(cases(dtype=torch.float32))
def test_the_entropy_of_float32_is_exact_at_any_range(case: Case) -> None:
    found = chain.entropy(case.potentials)
    for b in range(len(case.lengths)):
        assert float(found[b]) == pytest.approx(case.oracle(b).entropy(), rel=1e-6, abs=1e-6)


@quick
@given(cases(), st.sampled_from([0.1, 0.4]), st.integers(0, 9999))
def test_potentials_of_minus_infinity_forbid_and_are_exact(case: Case, share: float, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)

    def forbid(table: torch.Tensor) -> torch.Tensor:
        return table.masked_fill(torch.rand(table.shape, generator=generator) < share, -torch.inf)

    forbidden = Case(case.potentials.map(forbid))
    p, oracles = forbidden.potentials, [forbidden.oracle(b) for b in range(len(case.lengths))]
    log_z = [oracle.log_z for oracle in oracles]
    close(chain.log_partition(p), log_z)
    if not np.isfinite(log_z).all():
        for refused in (chain.marginals, chain.entropy):
            with pytest.raises(ValueError, match="no label sequence is possible"):
                refused(p)
        return
    found = chain.marginals(p, pairs=True)
    assert found.pair is not None
    for b, oracle in enumerate(oracles):
        rows = forbidden.rows(b)
        close(found.unary[rows], oracle.marginals())
        close(found.pair[rows[1:]], oracle.marginals(2))
        with np.errstate(invalid="ignore"):
            terms = np.where(oracle.probabilities > 0, oracle.probabilities * (oracle.scores - oracle.log_z), 0.0)
        close(chain.entropy(p)[b], -terms.sum(), 1e-7)
        labels, score = chain.viterbi(p)
        close(score[b], oracle.best()[1])
        close(oracle.score(labels[rows].tolist()), oracle.best()[1])
    asked, wanted = leaves(forbidden)
    gradients = torch.autograd.grad(chain.log_partition(asked).sum(), wanted)
    assert all(bool(g.isfinite().all()) for g in gradients)


def test_a_label_that_nothing_leads_to_has_no_probability() -> None:
    """A bigram column of -inf: the label can begin a sequence only."""
    bigram = torch.zeros(3, 3)
    bigram[:, 2] = -torch.inf
    for tables in ({}, {"trigram": torch.zeros(3, 3, 3)}):
        p = Potentials(Packing((4, 2)), torch.zeros(6, 3), bigram, **tables)
        found = chain.marginals(p)
        close(found.unary[:2], np.full((2, 3), 1 / 3), 1e-6)
        close(found.unary[2:], np.tile([0.5, 0.5, 0.0], (4, 1)), 1e-6)
        close(chain.entropy(p), [np.log(3) + 3 * np.log(2), np.log(3) + np.log(2)], 1e-6)


def test_potentials_that_are_not_numbers_give_none() -> None:
    for tables in ({"bigram"}, {"bigram", "trigram"}):
        p = make([3, 2], 2, tables=tables).potentials
        p.unary[1, 0] = torch.nan
        assert bool(chain.log_partition(p).isnan().any())
        assert p.bigram is not None
        p.unary[1, 0], p.bigram[0, 0] = 0.0, torch.nan
        assert bool(chain.log_partition(p).isnan().all())


@quick
@given(
    st.integers(1, 7),
    st.integers(1, 4),
    st.sampled_from(ORDER_1 + ORDER_2),
    st.integers(1, 5),
    st.sampled_from([1.0, 8.0, 40.0]),
    st.integers(0, 9999),
)
def test_windows_have_the_marginals_of_the_whole(
    length: int, labels: int, tables: set[str], size: int, range_: float, seed: int
) -> None:
    while labels**length > 4096:
        length -= 1
    case = make([length], labels, tables=tables, size=range_ / max(1, len(tables)), seed=seed)
    p, oracle = case.potentials, case.oracle(0)

    def part(span: slice) -> Potentials:
        local = [None if x is None else x[span] for x in (p.edge, p.hyperedge)]
        return Potentials(Packing((span.stop - span.start,)), p.unary[span], p.bigram, local[0], p.trigram, local[1])

    want = Want(unary=True, edge=True, hyperedge=True)
    covered: list[int] = []
    for window in sweep_windows(part, length, size, want):
        unary, _, pair, _, triple = window.marginals
        begin, end = window.rows.start, window.rows.stop
        close(window.log_z, oracle.log_z)
        close(unary, oracle.marginals()[begin:end])
        assert pair is not None
        assert triple is not None
        close(pair[max(0, 1 - begin) :], oracle.marginals(2)[max(0, begin - 1) : end - 1])
        close(triple[max(0, 2 - begin) :], oracle.marginals(3)[max(0, begin - 2) : max(0, end - 2)])
        covered = [*range(begin, end), *covered]
    assert covered == list(range(length))
