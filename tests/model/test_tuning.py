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
from phonechain.model.learning.extraction import Featurised
from phonechain.model.learning.training import Progress
from phonechain.model.learning.warm_start import obstacle
from phonechain.model.settings import preset, preset_names
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
    tuned = labeler(epochs=2).fit_featurised(corpus(20, 3), corpus(10, 4), base=base)
    assert any(not torch.equal(v, before[k]) for k, v in weights(tuned).items())
    assert all(torch.equal(v, before[k]) for k, v in weights(base).items())
    assert torch.equal(tuned.normaliser_.mean, base.normaliser_.mean)


def test_little_data_goes_further_from_a_base(base: PhoneLabeler) -> None:
    few, dev = corpus(6, 5), corpus(60, 6)
    anew = labeler().fit_featurised(few, dev)
    tuned = labeler().fit_featurised(few, dev, base=base)
    assert tuned.metrics_["dev_error"] < anew.metrics_["dev_error"] - 0.05


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
    made = labeler(epochs=1).fit_featurised(six, corpus(10, 4), base=base, progress=told.append)
    assert made.labels_ == [*"abcde", "x"]
    assert made.start_.startswith("starts anew, not from the base@")
    assert made.start_.endswith("the label x is not among its 5")
    assert told[0].message == made.start_
    same = base.features_
    assert obstacle(base.model_, preset("spn-memm").model, same, "ab") == "its settings are others"
    assert (
        obstacle(base.model_, preset("spn-lc-crf").model, FeatureSettings(preemphasis=0.5), "ab")
        == "its features are others"
    )
    with pytest.raises(SettingsError, match="no weights yet"):
        labeler().fit_featurised(corpus(20, 3), corpus(10, 4), base=labeler())


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
