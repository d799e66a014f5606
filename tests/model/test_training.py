"""The loop: it learns, repeats, stops, and goes on after a kill -9 as if nothing had happened."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from phonechain.features.errors import TrainingError
from phonechain.model.chain import inference as chain
from phonechain.model.learning import checkpoint
from phonechain.model.learning.dataset import Dataset
from phonechain.model.learning.temperature import fit_temperature
from phonechain.model.learning.training import CHECKPOINT, Progress, dev_error, train
from phonechain.model.networks.base import SequenceNetwork
from phonechain.model.networks.build import build as build_network
from phonechain.model.networks.crf import ConditionalRandomField
from phonechain.model.settings import FactorSettings, ModelSettings, TrainingSettings, replace

LABELS = ["a", "b", "c", "d"]
CRF = ModelSettings(factors=(FactorSettings(layers=1, products=2, states=2, dropout=0.3),), trigram="sparse")
MEMM = ModelSettings(chain="memm", history=2, factors=(FactorSettings(kind="linear"),), history_dropout=0.2)
QUICK = TrainingSettings(learning_rate=0.01, ngram_rate=5, batch=8, epochs=4, patience=0)


def data(sequences: int, seed: int, *, noise: float = 1.0) -> Dataset:
    """Label walks that mostly step up by one, and 6 features around a mean of each label."""
    random = np.random.default_rng(seed)
    lengths = random.integers(1, 9, sequences)
    means = np.random.default_rng(0).normal(size=(4, 6))
    y = np.concatenate([(random.integers(4) + np.cumsum(random.random(n) < 0.8)) % 4 for n in lengths]).astype(np.int64)
    x = (means[y] + noise * random.normal(size=(len(y), 6))).astype(np.float32)
    return Dataset(x, y, np.concatenate([[0], np.cumsum(lengths)]), np.arange(sequences))


def network(model: ModelSettings = CRF, seed: int = 1) -> SequenceNetwork:
    built = build_network(model, 6, LABELS, data(60, 1))
    built.reset(torch.Generator().manual_seed(seed))
    return built


def weights(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def end_after(epochs: int) -> Callable[[Progress], None]:
    """Interrupts training, as Ctrl-C does, once so many epochs are done."""

    def interrupt(event: Progress) -> None:
        if event.stage == "epoch" and event.done == epochs:
            raise KeyboardInterrupt

    return interrupt


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


@pytest.mark.parametrize("model", [CRF, MEMM], ids=["crf", "memm"])
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_it_learns(model: ModelSettings, optimizer: str) -> None:
    settings = QUICK
    if optimizer == "sgd":
        settings = replace(QUICK, {"optimizer": "sgd"})  # with the steps that come with it
    built = network(model)
    before = dev_error(built, data(40, 2))
    history = train(built, data(60, 1), data(40, 2), settings)
    after = dev_error(built, data(40, 2))
    assert after[0] < 0.7 * before[0]
    assert after[1] < 0.8 * before[1]
    assert after[0] == history.best_error
    assert history.stopped == "epochs"


def every_other(whole: Dataset, *, split: bool) -> Dataset:
    """The same with every other label unknown: as gaps in the sequences, or with the rest as sequences of their own."""
    known = np.concatenate([np.arange(n) % 2 == 0 for n in whole.lengths])
    if split:
        count = int(known.sum())
        return Dataset(whole.x[known], whole.y[known], np.arange(count + 1), np.arange(count))
    return dataclasses.replace(whole, y=np.where(known, whole.y, -1))


def test_neighbours_are_learnt_across_gaps() -> None:
    """No two neighbours are both known, and yet how labels follow each other is learnt."""
    whole, dev = data(300, 1, noise=3.0), data(150, 2, noise=3.0)
    settings = dataclasses.replace(QUICK, epochs=8)
    errors = {}
    for gaps, training in {"split": every_other(whole, split=True), "sum": every_other(whole, split=False)}.items():
        built = network(dataclasses.replace(CRF, trigram="none"))
        train(built, training, dev, settings)
        errors[gaps] = dev_error(built, dev)[0]
    assert errors["sum"] < errors["split"] - 0.05, errors


def test_it_repeats_with_the_same_seed_and_not_with_another() -> None:
    found = []
    for seed in (1, 1, 2):
        built = network()
        train(built, data(60, 1), data(40, 2), dataclasses.replace(QUICK, seed=seed))
        found.append(weights(built))
    assert same(found[0], found[1])
    assert not same(found[0], found[2])


def test_the_best_epoch_or_the_last_one_is_kept() -> None:
    ends, seen = {}, {}
    for keep in ("best", "last"):
        built = network()
        epochs: list[dict[str, torch.Tensor]] = []

        def watch(p: Progress, built: torch.nn.Module = built, epochs: list[dict[str, torch.Tensor]] = epochs) -> None:
            if p.stage == "epoch":
                epochs.append(weights(built))

        # far too large a step: the dev error goes up and down
        settings = dataclasses.replace(QUICK, keep=keep, learning_rate=0.5, epochs=6, schedule="constant")
        history = train(built, data(60, 1), data(40, 2), settings, progress=watch)
        ends[keep], seen[keep] = weights(built), epochs
        best = history.best_epoch
    assert best < 6
    assert same(ends["best"], seen["best"][best - 1])
    assert same(ends["last"], seen["last"][-1])
    assert not same(ends["best"], ends["last"])


def test_patience_ends_a_run_that_does_not_get_better() -> None:
    settings = dataclasses.replace(QUICK, learning_rate=1e-8, ngram_rate=0, epochs=50, patience=3)
    history = train(network(), data(60, 1), data(40, 2), settings)
    assert history.stopped == "patience"
    assert len(history.epochs) == history.best_epoch + 3


def test_a_stopped_run_keeps_the_best_epoch_so_far_and_can_go_on(tmp_path: Path) -> None:
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return asked > 20  # 8 batches per epoch: in the third epoch

    built = network()
    history = train(built, data(60, 1), data(40, 2), QUICK, stop=stop, run_dir=tmp_path)
    assert (history.stopped, len(history.epochs)) == ("asked", 2)
    train(built, data(60, 1), data(40, 2), QUICK, run_dir=tmp_path)
    unbroken = network()
    train(unbroken, data(60, 1), data(40, 2), QUICK)
    assert same(weights(built), weights(unbroken))


def test_progress_counts_batches_and_epochs() -> None:
    told: list[Progress] = []
    train(network(), data(60, 1), data(40, 2), QUICK, progress=told.append)
    batches = [p for p in told if p.stage == "train"]
    assert [p.done for p in batches] == list(range(1, 33))
    assert {p.total for p in batches} == {32}
    epochs = [p for p in told if p.stage == "epoch"]
    assert [p.done for p in epochs] == [1, 2, 3, 4]
    assert {"loss", "dev_error", "dev_nll", "seconds"} <= epochs[0].metrics.keys()


# ------------------------------------------------------------------------------------------------------------ resuming

SCRIPT = """
    import sys, torch
    from pathlib import Path
    from tests.model.test_training import CRF, QUICK, data, network
    from phonechain.model.learning.training import train

    def tell(p):
        print(p.stage, p.done, flush=True)
        if p.stage == "train" and p.done == 21:
            sys.stdin.readline()  # in the middle of an epoch: wait here for the kill

    torch.set_num_threads(1)
    train(network(CRF), data(60, 1), data(40, 2), QUICK, run_dir=Path(sys.argv[1]), progress=tell)
"""


def test_killed_in_mid_epoch_it_resumes_and_ends_with_the_same_weights(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SCRIPT), str(tmp_path)],
        cwd=root, env={**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    for line in process.stdout:
        if line == "train 21\n":  # the third epoch's fifth batch of eight
            break
    time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    resumed, unbroken = network(), network()
    told: list[Progress] = []
    train(resumed, data(60, 1), data(40, 2), QUICK, run_dir=tmp_path, progress=told.append)
    assert (told[0].stage, told[0].done) == ("train", 17)
    train(unbroken, data(60, 1), data(40, 2), QUICK)
    assert same(weights(resumed), weights(unbroken))


@pytest.mark.parametrize("keep", ["best", "last"])
def test_weights_are_averaged_over_epochs_and_scored_so(keep: Literal["best", "last"], tmp_path: Path) -> None:
    settings = dataclasses.replace(QUICK, average=3, epochs=6, keep=keep)
    after: list[dict[str, torch.Tensor]] = []
    averaged = network()

    def collect(event: Progress) -> None:
        if event.stage == "epoch":
            after.append(weights(averaged))

    history = train(averaged, data(60, 1), data(40, 2), settings, progress=collect)
    mean, scores, means = after[0], [], []
    for n, own in enumerate(after, 1):  # the training itself goes on from the weights as they are
        share = min(n, 3)
        mean = {k: mean[k] + (v - mean[k]) / share if v.is_floating_point() else v for k, v in own.items()}
        other = network()
        other.load_state_dict(mean)
        scores.append(dev_error(other, data(40, 2)))
        means.append(mean)
    assert [(row["dev_error"], row["dev_nll"]) for row in history.epochs] == scores
    assert same(weights(averaged), means[history.kept - 1])
    assert history.kept == (6 if keep == "last" else history.best_epoch)
    plain = network()
    train(plain, data(60, 1), data(40, 2), dataclasses.replace(settings, average=1, keep="last"))
    assert same(weights(plain), after[-1])

    with pytest.raises(KeyboardInterrupt):
        train(network(), data(60, 1), data(40, 2), settings, run_dir=tmp_path, progress=end_after(4))
    resumed = network()
    train(resumed, data(60, 1), data(40, 2), settings, run_dir=tmp_path)
    assert same(weights(resumed), weights(averaged))


def test_a_run_that_is_asked_to_stop_ends_with_its_last_whole_epoch() -> None:
    done: list[Progress] = []
    stopped, whole = network(), network()
    settings = dataclasses.replace(QUICK, keep="last")
    history = train(stopped, data(60, 1), data(40, 2), settings, progress=done.append, stop=lambda: len(done) > 22)
    assert history.stopped == "asked"
    at = weights(stopped)
    after: list[dict[str, torch.Tensor]] = []
    train(
        whole,
        data(60, 1),
        data(40, 2),
        settings,
        progress=lambda e: after.append(weights(whole)) if e.stage == "epoch" else None,
    )
    assert same(at, after[len(history.epochs) - 1])


@pytest.mark.parametrize("model", [CRF, MEMM], ids=["crf", "memm"])
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_a_finished_run_is_only_read_again(
    model: ModelSettings, optimizer: Literal["adam", "sgd"], tmp_path: Path
) -> None:
    settings = dataclasses.replace(QUICK, optimizer=optimizer, epochs=2)
    first = network(model)
    train(first, data(60, 1), data(40, 2), settings, run_dir=tmp_path)
    again = network(model, seed=9)
    told: list[Progress] = []
    history = train(again, data(60, 1), data(40, 2), settings, run_dir=tmp_path, progress=told.append)
    assert not told
    assert len(history.epochs) == 2
    assert same(weights(first), weights(again))


def test_a_checkpoint_of_other_settings_or_data_is_refused(tmp_path: Path) -> None:
    train(network(), data(60, 1), data(40, 2), QUICK, run_dir=tmp_path, fingerprint="one")
    for settings, fingerprint in ((dataclasses.replace(QUICK, l2=0.5), "one"), (QUICK, "two")):
        with pytest.raises(TrainingError, match="belongs to other data or settings"):
            train(network(), data(60, 1), data(40, 2), settings, run_dir=tmp_path, fingerprint=fingerprint)


@pytest.mark.parametrize(("average", "resumes"), [(TrainingSettings().average, True), (3, False)])
def test_a_checkpoint_older_than_a_setting_had_its_default(tmp_path: Path, average: int, resumes: bool) -> None:
    settings = dataclasses.replace(QUICK, average=average)

    with pytest.raises(KeyboardInterrupt):
        train(network(), data(60, 1), data(40, 2), settings, run_dir=tmp_path, progress=end_after(1))
    path = tmp_path / CHECKPOINT
    with safe_open(path, framework="pt") as stored:
        metadata, tensors = stored.metadata(), {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
    identity = json.loads(metadata["identity"])
    del identity["training"]["average"]
    save_file(tensors, path, metadata={**metadata, "identity": json.dumps(identity)})
    if resumes:
        resumed, unbroken = network(), network()
        history = train(resumed, data(60, 1), data(40, 2), settings, run_dir=tmp_path)
        train(unbroken, data(60, 1), data(40, 2), settings)
        assert len(history.epochs) == settings.epochs
        assert same(weights(resumed), weights(unbroken))
    else:
        with pytest.raises(TrainingError, match="belongs to other data or settings"):
            train(network(), data(60, 1), data(40, 2), settings, run_dir=tmp_path)


def test_a_damaged_checkpoint_is_refused(tmp_path: Path) -> None:
    (tmp_path / CHECKPOINT).write_bytes(b"\x00" * 100)
    with pytest.raises(TrainingError, match="cannot read the checkpoint"):
        train(network(), data(60, 1), data(40, 2), QUICK, run_dir=tmp_path)


def test_a_checkpoint_stays_whole_when_the_next_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = b""

    def full(tensors: object, path: Path, metadata: object) -> None:
        nonlocal kept
        kept = (tmp_path / CHECKPOINT).read_bytes()
        Path(path).write_bytes(b"half")
        raise OSError("No space left on device")

    def after_one_epoch(p: Progress) -> None:
        if p.stage == "epoch":
            monkeypatch.setattr(checkpoint, "save_file", full)

    with pytest.raises(OSError, match="No space"):
        train(network(), data(60, 1), data(40, 2), QUICK, run_dir=tmp_path, progress=after_one_epoch)
    assert (tmp_path / CHECKPOINT).read_bytes() == kept
    monkeypatch.undo()
    built, unbroken = network(), network()
    train(built, data(60, 1), data(40, 2), QUICK, run_dir=tmp_path)
    train(unbroken, data(60, 1), data(40, 2), QUICK)
    assert same(weights(built), weights(unbroken))


# ------------------------------------------------------------------------------------------------------------- refusals


def test_nothing_to_train_on_is_refused() -> None:
    with pytest.raises(TrainingError, match="got 0 and"):
        train(network(), _empty(), data(40, 2), QUICK)


def _empty() -> Dataset:
    return Dataset(np.zeros((0, 6), np.float32), np.zeros(0, np.int64), np.zeros(1, np.int64), np.zeros(0, np.int64))


def test_a_loss_that_is_not_finite_is_an_error_with_advice() -> None:
    broken = data(60, 1)
    broken.x[5] = np.nan
    with pytest.raises(TrainingError, match="learning rate under"):
        train(network(), broken, data(40, 2), QUICK)


def test_the_temperature_mends_overconfident_posteriors() -> None:
    built, dev = network(), data(80, 2, noise=2.0)
    train(built, data(60, 1), dev, QUICK)
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.mul_(3.0)
    temperature = fit_temperature(built, dev).value
    assert 1.5 < temperature < 8.0

    def nll(at: float) -> float:
        batch = dev.batch(np.arange(len(dev)))
        p = built.posteriors(batch.x, batch.packing, temperature=at)
        return float(-p.gather(1, batch.y[:, None]).log().mean())

    assert nll(temperature) < nll(1.0)
    assert nll(temperature) <= min(nll(0.9 * temperature), nll(1.1 * temperature))


def draw_network(sequences: int, at: float, seed: int) -> tuple[SequenceNetwork, Dataset]:
    """A network with drawn weights, and labels drawn from what it says at that temperature."""
    built = network(ModelSettings(factors=(FactorSettings(kind="linear"),)), seed)
    assert isinstance(built, ConditionalRandomField)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.copy_(at * torch.randn(parameter.shape, generator=generator))
    dev = data(sequences, seed)
    batch = dev.batch(np.arange(len(dev)))
    labels = chain.sample(built.potentials(batch.x, batch.packing).scale(1 / at), 1, generator)[0]
    y = np.concatenate([part.numpy() for part in batch.packing.split(labels)])
    starts = np.concatenate([[0], np.cumsum(batch.packing.lengths)])
    x = np.concatenate([part.numpy() for part in batch.packing.split(batch.x)])
    return built, Dataset(x, y, starts, np.arange(sequences))


@pytest.mark.parametrize("at", [0.01, 0.1, 0.7, 12.0, 100.0])
def test_the_temperature_search_has_no_walls(at: float) -> None:
    """Labels drawn at that temperature; a search between 0.5 and 8 answers its wall for four of the five."""
    fit = fit_temperature(*draw_network(400, at, seed=3))
    assert fit.low is not None
    assert fit.high is not None
    assert fit.low < at < fit.high
    assert fit.high / fit.low < 1.6
    assert not fit.notice


def test_the_temperatures_interval_covers_as_often_as_it_says() -> None:
    inside = 0
    for seed in range(60):
        fit = fit_temperature(*draw_network(80, 2.0, seed))
        assert fit.low is not None
        assert fit.high is not None
        inside += fit.low <= 2.0 <= fit.high
    assert 52 <= inside <= 60


def test_a_dev_set_that_cannot_settle_the_temperature_is_told() -> None:
    built, dev = draw_network(400, 1.0, 3)
    batch = dev.batch(np.arange(len(dev)))
    few = fit_temperature(*draw_network(8, 1.0, 3))
    assert few.low is not None
    assert "too small to fit the temperature: it lies between" in few.notice
    assert "in 8 sequences" in few.notice
    best = built.decode(batch.x, batch.packing)
    answers = np.concatenate([part.numpy() for part in batch.packing.split(best)])
    x = np.concatenate([part.numpy() for part in batch.packing.split(batch.x)])
    right = Dataset(x, answers, np.concatenate([[0], np.cumsum(batch.packing.lengths)]), dev.groups)
    sure = fit_temperature(built, right)  # the colder, the nearer to these answers
    assert (sure.value, sure.low) == (1.0, None)
    assert "rises without end" in sure.notice
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.zero_()
    level = fit_temperature(built, dev)
    assert (level.value, level.low) == (1.0, None)
    assert "the same at every temperature" in level.notice


def test_the_memms_dev_error_is_that_of_its_search() -> None:
    built, dev = network(MEMM), data(40, 2)
    train(built, data(60, 1), dev, QUICK)
    batch = dev.batch(np.arange(len(dev)))
    searched = built.decode(batch.x, batch.packing)
    assert dev_error(built, dev)[0] == float((searched != batch.y).double().mean())
