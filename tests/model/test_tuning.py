"""Going on from a model, and what a training that was broken off leaves."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

from phonechain.features.errors import SettingsError
from phonechain.features.mfcc import FeatureSettings
from phonechain.features.segments import Segment
from phonechain.model.labeler import PhoneLabeler
from phonechain.model.learning.dataset import Dataset
from phonechain.model.learning.extraction import Featurised
from phonechain.model.learning.normaliser import Normaliser
from phonechain.model.learning.training import Progress
from phonechain.model.learning.warm_start import extend_network, obstacle, scale_step
from phonechain.model.networks.build import build
from phonechain.model.phone_model import PhoneModel
from phonechain.model.presets import preset, preset_names
from tests.model.test_presets import corpus, small


def labeler(name: str = "spn-lc-crf", **training: object) -> PhoneLabeler:
    given = small(preset(name))
    settings = dataclasses.replace(preset(name).training, **{"epochs": 3, "batch": 8, **training})  # type: ignore[arg-type]
    return PhoneLabeler(name, model=given.model, training=settings, name="the base")


def weights(of: PhoneLabeler) -> dict[str, torch.Tensor]:
    assert of.network_ is not None
    return of.network_.state_dict()


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> PhoneLabeler:
    """A model of the labels a to e, out of its file."""
    path = tmp_path_factory.mktemp("base") / "base.safetensors"
    labeler(epochs=8).fit_featurised(corpus(120, 1), corpus(30, 2)).save(path)
    return PhoneLabeler.load(path)


def without(label: str, items: list[Featurised]) -> list[Featurised]:
    """The same with that label called `a`."""
    return [
        dataclasses.replace(
            i, segments=[Segment(s.start, s.end, "a" if s.label == label else s.label) for s in i.segments]
        )
        for i in items
    ]


def test_it_starts_from_the_weights_and_leaves_the_base_as_it_was(base: PhoneLabeler) -> None:
    before = {k: v.clone() for k, v in weights(base).items()}
    # Nothing is learned at a rate of nearly nothing: what comes out is what went in.
    still = labeler(epochs=1, learning_rate=1e-8, l2=0.0).fit_featurised(corpus(20, 3), corpus(10, 4), base=base)
    assert still.start_.startswith("starts from the base@")
    assert all(torch.allclose(v, before[k], atol=1e-5) for k, v in weights(still).items())
    others = without("e", corpus(40, 3)), without("e", corpus(10, 4))  # what the base calls e is a here
    tuned = labeler(epochs=4, base_step="full").fit_featurised(*others, base=base)
    assert tuned.metrics_["dev_error"] < tuned.metrics_["start_error"]
    assert any(not torch.equal(v, before[k]) for k, v in weights(tuned).items())
    assert all(torch.equal(v, before[k]) for k, v in weights(base).items())
    assert torch.equal(tuned.normaliser_.mean, base.normaliser_.mean)


def test_little_data_goes_further_from_a_base(base: PhoneLabeler) -> None:
    few, dev = corpus(6, 5), corpus(60, 6)
    anew = labeler().fit_featurised(few, dev)
    tuned = labeler().fit_featurised(few, dev, base=base)
    assert tuned.metrics_["dev_error"] < anew.metrics_["dev_error"] - 0.05


@pytest.mark.parametrize("keep", ["best", "last"])
def test_a_base_is_never_made_worse(base: PhoneLabeler, keep: str) -> None:
    """A step that is far too large: the base is left as it was, and that is said."""
    given = {"keep": keep, "learning_rate": 0.3, "base_step": "full", "schedule": "constant", "patience": 0}
    told: list[Progress] = []
    made = labeler(epochs=3, **given).fit_featurised(  # type: ignore[arg-type]
        corpus(4, 5), corpus(60, 6), base=base, progress=told.append
    )
    assert made.metrics_["dev_error"] == made.metrics_["start_error"] == pytest.approx(1 - base_score(base), abs=0.01)
    assert (made.metrics_["best_epoch"], made.metrics_["epochs"]) == (0, 3)
    assert all(torch.equal(v, weights(base)[k]) for k, v in weights(made).items())
    notice = next(n for n in made.notices_ if n.code == "base-kept")
    assert "no epoch was better than the base" in notice.message
    assert notice.message in [p.message for p in told if p.stage == "notice"]


def base_score(base: PhoneLabeler) -> float:
    """Share of the dev set's segments that the base answers right: at its temperature, which moves a tie now and then."""
    dev = corpus(60, 6)
    return base.score([i.inputs.segments for i in dev], [[str(s.label) for s in i.segments] for i in dev])


def test_the_epoch_before_training_went_wrong_is_kept(base: PhoneLabeler) -> None:
    """The last epoch is worse than the base, one before it is better: that one is the model."""
    few, dev = corpus(40, 5), corpus(60, 6)
    errors = iter([0.30, 0.20, 0.50])

    def error(model: object, held: object) -> tuple[float, float]:
        return next(errors), 1.0

    seen: list[dict[str, torch.Tensor]] = []
    made = labeler(epochs=2, keep="last", patience=0)

    def tell(event: Progress) -> None:
        if event.stage == "epoch" and made._run is not None and made._run.model is not None:
            seen.append({k: v.clone() for k, v in made._run.model.network.state_dict().items()})

    with pytest.MonkeyPatch.context() as patch:  # the dev set's verdict is given, what is done about it is not
        patch.setattr("phonechain.model.learning.training.dev_error", error)
        made.fit_featurised(few, dev, base=base, progress=tell)
    assert (made.metrics_["best_epoch"], made.metrics_["dev_error"], made.metrics_["start_error"]) == (1, 0.20, 0.30)
    assert made.notices_[0].code == "last-epoch-worse"
    assert all(torch.equal(v, seen[0][k]) for k, v in weights(made).items())


@pytest.mark.parametrize(("segments", "share"), [(13, 0.05), (1000, 0.05), (6000, 0.3), (20_000, 1.0), (10**6, 1.0)])
def test_the_step_grows_with_the_material(segments: int, share: float) -> None:
    given = preset("spn-lc-crf").training
    assert scale_step(given, segments).learning_rate == pytest.approx(share * given.learning_rate)
    full = dataclasses.replace(given, base_step="full")
    assert scale_step(full, segments) == full


def test_labels_that_the_corpus_lacks_are_kept(base: PhoneLabeler) -> None:
    tuned = labeler(epochs=1).fit_featurised(without("e", corpus(20, 3)), corpus(10, 4), base=base)
    assert tuned.labels_ == base.labels_ == list("abcde")


@pytest.mark.parametrize("name", preset_names())
def test_every_system_can_go_on(name: str, tmp_path: Path) -> None:
    first = labeler(name, epochs=1).fit_featurised(corpus(20, 1), corpus(10, 2))
    tuned = labeler(name, epochs=1).fit_featurised(corpus(20, 3), corpus(10, 4), base=first)
    assert tuned.start_.startswith("starts from")
    tuned.save(tmp_path / "a.safetensors")
    again = PhoneLabeler.load(tmp_path / "a.safetensors")
    assert all(torch.equal(v, weights(tuned)[k]) for k, v in weights(again).items())


def test_what_does_not_fit_starts_anew_and_says_why(base: PhoneLabeler) -> None:
    told: list[Progress] = []
    six = [
        dataclasses.replace(i, segments=[Segment(s.start, s.end, "x" if n == 0 else s.label) for n, s in enumerate(i.segments)])
        for i in corpus(20, 3)
    ]  # fmt: skip
    other = labeler("hu-crf", epochs=1).fit_featurised(six, corpus(10, 4), base=base, progress=told.append)
    assert other.labels_ == [*"abcde", "x"]
    assert other.start_.startswith("starts from new weights, not from the base@")
    assert other.start_.endswith("its settings differ")
    assert told[0].message == other.start_
    made = labeler(epochs=1).fit_featurised(six, corpus(10, 4), base=base)
    assert made.start_.startswith("starts from the base@")
    assert made.start_.endswith("with new labels: the label x is not among its 5")
    assert made.labels_ == [*"abcde", "x"]
    assert made.metrics_["dev_error"] <= made.metrics_["start_error"] < 0.2
    same = base.features_
    assert obstacle(base.model_, preset("spn-memm").model, same, "ab") == "its settings differ"
    assert (
        obstacle(base.model_, preset("spn-lc-crf").model, FeatureSettings(preemphasis=0.5), "ab")
        == "its features differ"
    )
    with pytest.raises(SettingsError, match="no weights yet"):
        labeler().fit_featurised(corpus(20, 3), corpus(10, 4), base=labeler())


NARROW = {"channels": 8, "frame_units": 6, "width": 12, "segment_units": 6}


@pytest.mark.parametrize(
    "name", ["spn-lc-crf", "spn-ho-lc-crf", "ho-hu-crf", "nho-lc-crf", "gmm-lc-crf", "blstm-seg-lc-crf"]
)
def test_known_labels_are_scored_as_before_beside_new_ones(name: str) -> None:
    given = preset(name).model
    given = dataclasses.replace(given, encoder=dataclasses.replace(given.encoder, **NARROW))  # type: ignore[arg-type]
    random = np.random.default_rng(1)
    y = random.integers(0, 4, 40)

    def sequences(labels: np.ndarray) -> Dataset:
        x = random.normal(size=(len(labels), 5)).astype(np.float32)
        return Dataset(x, labels, np.arange(0, len(labels) + 1, 8), np.arange(len(labels) // 8))

    network = build(given, 5, "abcd", sequences(y))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(parameter.numel())))
    base = PhoneModel(given, FeatureSettings(), list("abcd"), Normaliser(torch.zeros(5), torch.ones(5)), network)
    data = sequences(np.where(random.random(40) < 0.3, random.integers(4, 6, 40), y))
    made = extend_network(base, "abcdxy", data, torch.Generator().manual_seed(1))
    assert (made.labels, len(made.bigrams)) == (6, len(set(map(tuple, made.bigrams.tolist()))))
    assert {tuple(g) for g in network.bigrams.tolist()} < {tuple(g) for g in made.bigrams.tolist()}
    batch = data.batch(np.arange(len(data)))
    network.eval()
    made.eval()
    with torch.no_grad():
        old = network.potentials(network.encode(batch.x, batch.packing), batch.packing)  # type: ignore[operator]
        new = made.potentials(made.encode(batch.x, batch.packing), batch.packing)  # type: ignore[operator]
    seen = {tuple(g) for g in network.bigrams.tolist()}
    assert torch.allclose(new.unary[:, :4], old.unary, atol=1e-4)
    for table, before in ((new.bigram, old.bigram), (new.trigram, old.trigram), (new.edge, old.edge)):
        assert (table is None) == (before is None)
        if table is not None and before is not None:
            block = table[(..., *(slice(4),) * (3 if before is old.trigram else 2))]
            known = before != 0  # an n-gram that only the new data has may have a weight of its own
            assert torch.allclose(block[known], before[known], atol=1e-4)
    assert seen


class Stop(Exception):
    """What breaks a run off, as a job's report does."""


def test_a_run_that_was_broken_off_leaves_its_best_epoch(tmp_path: Path) -> None:
    broken, seen = labeler(epochs=50, patience=0), list[float]()

    def stop(event: Progress) -> None:
        if event.stage == "epoch":
            seen.append(event.metrics["dev_error"])
        if len(seen) == 4:
            raise Stop

    assert not broken.recover(tmp_path)
    with pytest.raises(Stop):
        broken.fit_featurised(corpus(40, 1), corpus(20, 2), run_dir=tmp_path, progress=stop)
    assert broken.recover(tmp_path)
    assert broken.metrics_["dev_error"] == min(seen)
    assert broken.metrics_["epochs"] == 4
    assert "not calibrated" in broken.card_["limits"]
    best = int(np.argmin(seen)) + 1
    whole = labeler(epochs=50, patience=0, schedule=broken.system.training.schedule)

    def until_best(event: Progress) -> None:
        if event.stage == "epoch" and event.done == best:
            raise Stop

    with pytest.raises(Stop):
        whole.fit_featurised(corpus(40, 1), corpus(20, 2), run_dir=tmp_path / "whole", progress=until_best)
    assert whole.recover(tmp_path / "whole")
    assert all(torch.equal(v, weights(whole)[k]) for k, v in weights(broken).items())
    broken.save(tmp_path / "a.safetensors")
    assert PhoneLabeler.load(tmp_path / "a.safetensors").metrics_ == broken.metrics_
