"""Learning from a teacher: the loss and its gradient, what weight 0 and a resumed run give, what fits, and that it helps."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

from phonechain.features.errors import SettingsError, TrainingError
from phonechain.features.mfcc import FeatureSettings
from phonechain.model.combination import combine
from phonechain.model.labeler import PhoneLabeler
from phonechain.model.learning.extraction import Featurised
from phonechain.model.learning.objective import Objective, Teacher, add_auxiliary
from phonechain.model.learning.training import CHECKPOINT, Progress, dev_error, train
from phonechain.model.networks.base import SequenceNetwork
from phonechain.model.networks.crf import ConditionalRandomField
from phonechain.model.presets import preset
from phonechain.model.settings import FactorSettings, ModelSettings
from tests.model.test_presets import corpus, small
from tests.model.test_training import CRF, QUICK, data, end_after, network, same, weights

PERCEPTRON = dataclasses.replace(
    CRF, factors=(*CRF.factors, FactorSettings(kind="perceptron", segments=2, labels=2, units=5))
)
TRAIN, DEV = corpus(8, 1), corpus(3, 2)


def teacher(settings: ModelSettings = PERCEPTRON, seed: int = 7, temperature: float = 1.3) -> Teacher:
    """Another network over the same labels, whose weights are all drawn."""
    made = network(settings, seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in made.parameters():
            weight.add_(0.4 * torch.randn(weight.shape, generator=generator))
    assert isinstance(made, ConditionalRandomField)
    return Teacher(made.eval(), temperature)


def labeler(**training: object) -> PhoneLabeler:
    given = small(preset("blstm-ho-lc-crf"))
    settings = dataclasses.replace(given.training, epochs=2, **training)  # type: ignore[arg-type]
    return PhoneLabeler("blstm-ho-lc-crf", model=given.model, training=settings, device="cpu")


def test_the_gradient_of_all_weights_by_finite_differences() -> None:
    settings = dataclasses.replace(QUICK, teacher_weight=0.6, auxiliary=0.3, smoothing=0.1)
    student = network(PERCEPTRON).double().eval()
    add_auxiliary(student, settings)
    student.double()
    taught = teacher()
    taught.network.double()
    batch = data(5, 3).batch(np.arange(5))
    batch = dataclasses.replace(batch, x=batch.x.double())
    draw = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for weight in student.parameters():
            weight.add_(0.2 * torch.randn(weight.shape, generator=draw, dtype=weight.dtype))

    def loss() -> torch.Tensor:
        student.noise = torch.Generator().manual_seed(5)  # the same dropout before the auxiliary layer each time
        return Objective(student, settings, taught)(batch)[0]

    loss().backward()
    for name, weight in student.named_parameters():
        assert weight.grad is not None, name
        step = 1e-6 * torch.randn(weight.shape, generator=draw, dtype=weight.dtype)
        with torch.no_grad():
            weight.add_(step)
            after = float(loss())
            weight.sub_(2 * step)
            before = float(loss())
            weight.add_(step)
        assert after - before == pytest.approx(2 * float((weight.grad * step).sum()), rel=1e-4, abs=1e-13), name


def test_the_loss_is_a_mix_of_likelihood_and_cross_entropy() -> None:
    student, taught, batch = network(PERCEPTRON).eval(), teacher(), data(6, 3).batch(np.arange(6))

    def loss(weight: float) -> float:
        return float(Objective(student, dataclasses.replace(QUICK, teacher_weight=weight), taught)(batch)[1])

    assert loss(0.25) == pytest.approx(0.75 * loss(0.0) + 0.25 * loss(1.0), rel=1e-6)
    assert loss(1.0) != pytest.approx(loss(0.0), rel=1e-3)


def test_segments_without_label_are_taught() -> None:
    """The likelihood sums their labels out; the teacher has an answer for them."""
    student, taught, batch = network(PERCEPTRON).eval(), teacher(), data(6, 3).batch(np.arange(6))
    gaps = dataclasses.replace(batch, y=torch.where(torch.arange(len(batch.y)) % 2 == 0, batch.y, -1))
    whole = dataclasses.replace(QUICK, teacher_weight=1.0)
    of_all, of_gaps = (Objective(student, whole, taught)(b)[0] for b in (batch, gaps))
    assert float(of_all) == float(of_gaps)


def test_weight_0_trains_as_without_a_teacher() -> None:
    settings = dataclasses.replace(QUICK, teacher_weight=0.0, auxiliary=0.2)
    alone, beside = network(), network()
    train(alone, data(60, 1), data(40, 2), dataclasses.replace(settings, teacher_weight=0.5))
    train(beside, data(60, 1), data(40, 2), settings, teacher=teacher())
    assert same(weights(alone), weights(beside))


def test_repeats_and_resumes_bit_for_bit(tmp_path: Path) -> None:
    settings = dataclasses.replace(QUICK, teacher_weight=0.7, auxiliary=0.3, precision="bfloat16")
    whole, again, broken, resumed = network(), network(), network(), network()
    taught = teacher()
    before = weights(taught.network)
    train(whole, data(60, 1), data(40, 2), settings, teacher=taught)
    train(again, data(60, 1), data(40, 2), settings, teacher=taught)

    with pytest.raises(KeyboardInterrupt):
        train(broken, data(60, 1), data(40, 2), settings, run_dir=tmp_path, progress=end_after(2), teacher=taught)
    train(resumed, data(60, 1), data(40, 2), settings, run_dir=tmp_path, teacher=taught)
    assert same(weights(whole), weights(again))
    assert same(weights(whole), weights(resumed))
    assert same(weights(taught.network), before)
    assert taught.network.precision == "float32"
    assert not taught.network.training


def test_a_good_teacher_mends_wrong_labels() -> None:
    """Every third label of the training set is drawn; the teacher learnt from right ones."""
    clean, dev = data(150, 1), data(80, 2)
    taught = network()
    train(taught, clean, dev, dataclasses.replace(QUICK, epochs=8))
    random = np.random.default_rng(3)
    wrong = np.where(random.random(len(clean.y)) < 1 / 3, random.integers(0, 4, len(clean.y)), clean.y)
    noisy = dataclasses.replace(clean, y=wrong)
    assert isinstance(taught, ConditionalRandomField)

    def nll(weight: float) -> float:
        student: SequenceNetwork = network(seed=2)
        settings = dataclasses.replace(QUICK, teacher_weight=weight, keep="last")
        train(student, noisy, dev, settings, teacher=Teacher(taught, 1.0))
        return dev_error(student, dev)[1]

    assert nll(1.0) < nll(0.5) < nll(0.0)


# -------------------------------------------------------------------------------------------------------- the labeler


@pytest.fixture(scope="module")
def taught_labeler() -> PhoneLabeler:
    return labeler().fit_featurised(TRAIN, DEV)


def test_a_product_teaches_one_network(taught_labeler: PhoneLabeler) -> None:
    second = labeler(seed=2).fit_featurised(TRAIN, DEV)
    product = labeler()
    product._model, product.version_ = combine([taught_labeler.model_, second.model_]), "1"
    told: list[Progress] = []
    student = labeler(teacher_weight=0.25).fit_featurised(TRAIN, DEV, teacher=product, progress=told.append)
    assert [e.message for e in told if e.stage == "start"] == [f"learns from {product.title_} (25 % of the loss)"]
    assert not student.model_.settings.experts
    assert student.labels_ == product.labels_
    own, its = student.model_.normaliser, product.model_.normaliser
    assert torch.equal(own.frame_mean, its.frame_mean)
    alone = labeler(teacher_weight=0.25).fit_featurised(TRAIN, DEV)
    assert not same(weights(student.network_), weights(alone.network_))
    zero = labeler(teacher_weight=0.0).fit_featurised(TRAIN, DEV, teacher=product)
    assert same(weights(zero.network_), weights(alone.network_))


def test_the_labels_of_the_teacher_are_those_of_the_student(taught_labeler: PhoneLabeler) -> None:
    """A corpus may lack some of them; one with others is refused."""
    kept = taught_labeler.labels_[:-1]
    fewer = labeler()
    fewer.drop = (taught_labeler.labels_[-1],)
    assert fewer.fit_featurised(TRAIN, DEV, teacher=taught_labeler).labels_ == taught_labeler.labels_
    ignorant = labeler()
    ignorant.drop = fewer.drop
    ignorant.fit_featurised(TRAIN, DEV)
    assert ignorant.labels_ == kept
    with pytest.raises(
        SettingsError, match=f"expected labels that the teacher has, got 1 of .* lacks: {fewer.drop[0]}"
    ):
        labeler().fit_featurised(TRAIN, DEV, teacher=ignorant)


def test_teachers_that_do_not_fit(taught_labeler: PhoneLabeler) -> None:
    memm = PhoneLabeler("", model=ModelSettings(chain="memm", factors=(FactorSettings(kind="linear"),)), training=QUICK)
    plain = PhoneLabeler("", model=ModelSettings(factors=(FactorSettings(kind="linear"),)), training=QUICK)
    memm.device = plain.device = "cpu"
    with pytest.raises(SettingsError, match="expected a student whose chain is a crf, got memm"):
        memm.fit_featurised(TRAIN, DEV, teacher=taught_labeler)
    other = labeler()
    other.features = FeatureSettings(window=0.03)
    with pytest.raises(
        SettingsError, match="expected a system with the feature settings of its teacher, got other ones"
    ):
        other.fit_featurised(TRAIN, DEV, teacher=taught_labeler)
    other = reader("frames")
    model = other.system.model
    other.model = dataclasses.replace(model, encoder=dataclasses.replace(model.encoder, bands=20))
    with pytest.raises(SettingsError, match="expected a system of 40 bands, as its teacher, got 20"):
        other.fit_featurised(TRAIN, DEV, teacher=taught_labeler)
    memm.fit_featurised(TRAIN, DEV)
    with pytest.raises(SettingsError, match="expected a teacher whose chain is a crf, got memm"):
        plain.fit_featurised(TRAIN, DEV, teacher=memm)
    with pytest.raises(SettingsError, match="expected a base or a teacher, got both"):
        labeler().fit_featurised(TRAIN, DEV, base=taught_labeler, teacher=taught_labeler)
    with pytest.raises(SettingsError, match="teacher_weight between 0"):
        labeler(teacher_weight=1.5)


READERS = {
    "segments": ("blstm-seg-lc-crf", True),
    "frames": ("blstm-ho-lc-crf", False),
    "both": ("blstm-ho-lc-crf", True),
}
"""Preset, and whether it reads segment features."""


def reader(kind: str, **training: object) -> PhoneLabeler:
    given = small(preset(READERS[kind][0]))
    encoder = dataclasses.replace(given.model.encoder, pooled=READERS[kind][1])
    settings = dataclasses.replace(given.training, epochs=2, **training)  # type: ignore[arg-type]
    return PhoneLabeler("", model=dataclasses.replace(given.model, encoder=encoder), training=settings, device="cpu")


@pytest.mark.parametrize(("kind", "of"), [("segments", "frames"), ("frames", "segments"), ("segments", "both"),
                                          ("frames", "both"), ("both", "segments")])  # fmt: skip
def test_a_teacher_may_read_other_inputs_than_its_student(kind: str, of: str) -> None:
    taught = reader(of).fit_featurised(TRAIN, DEV)
    student = reader(kind, teacher_weight=0.8).fit_featurised(TRAIN, DEV, teacher=taught)
    without = reader(kind, teacher_weight=0.0).fit_featurised(TRAIN, DEV, teacher=taught)
    assert not same(weights(student.network_), weights(without.network_))
    plain = reader(kind).fit_featurised(TRAIN, DEV)
    assert student.features_ == plain.features_
    for name in ("mean", "std", "frame_mean", "frame_std"):
        own, alone, its = (getattr(m.model_.normaliser, name) for m in (student, plain, taught))
        assert torch.equal(own, its if len(alone) and len(its) else alone), name
    few = [item.inputs.reduce_to(student.features_) for item in DEV]  # nothing else is needed for an answer
    p, _ = student.posteriors(few)
    whole, _ = student.posteriors([item.inputs for item in DEV])
    assert all(np.array_equal(a, b) for a, b in zip(p, whole, strict=True))


def test_a_checkpoint_of_another_teacher_is_refused(taught_labeler: PhoneLabeler, tmp_path: Path) -> None:
    taught_labeler.version_ = "one"
    labeler().fit_featurised(TRAIN, DEV, teacher=taught_labeler, run_dir=tmp_path)
    assert (tmp_path / CHECKPOINT).exists()
    taught_labeler.version_ = "two"
    with pytest.raises(TrainingError, match="other data or settings"):
        labeler().fit_featurised(TRAIN, DEV, teacher=taught_labeler, run_dir=tmp_path)


# --------------------------------------------------------------------------------------------------------- unlabelled


def hide(items: list[Featurised]) -> list[Featurised]:
    """The same without labels."""
    return [dataclasses.replace(i, segments=[dataclasses.replace(s, label=None) for s in i.segments]) for i in items]


def test_recordings_without_labels_are_learnt_from_with_a_teacher(taught_labeler: PhoneLabeler) -> None:
    """`gaps = "sum"` keeps them; without a teacher they would teach nothing."""
    more = [dataclasses.replace(i, utterance=dataclasses.replace(i.utterance, speaker="other")) for i in corpus(8, 5)]
    settings = {"gaps": "sum", "teacher_weight": 0.5, "batch": 4}
    few = labeler(**settings).fit_featurised(TRAIN, DEV, teacher=taught_labeler)
    both = labeler(**settings).fit_featurised([*TRAIN, *hide(more)], DEV, teacher=taught_labeler)
    known = labeler(**settings).fit_featurised([*TRAIN, *more], DEV, teacher=taught_labeler)
    assert not same(weights(few.network_), weights(both.network_))
    assert not same(weights(known.network_), weights(both.network_))
    assert both.metrics_["train_segments"] == few.metrics_["train_segments"]
    assert all(np.isfinite(row["loss"]) for row in both.history_.epochs)
    for others in ({"gaps": "split", "teacher_weight": 0.5}, {"gaps": "sum", "teacher_weight": 0.0}):
        plain = labeler(batch=4, **others).fit_featurised(TRAIN, DEV, teacher=taught_labeler)
        hidden = labeler(batch=4, **others).fit_featurised([*TRAIN, *hide(more)], DEV, teacher=taught_labeler)
        assert same(weights(plain.network_), weights(hidden.network_)), others


def test_a_batch_without_any_label_has_the_loss_of_its_teacher() -> None:
    settings = dataclasses.replace(QUICK, teacher_weight=0.5, auxiliary=0.3)
    student, taught, batch = network(PERCEPTRON).eval(), teacher(), data(6, 3).batch(np.arange(6))
    add_auxiliary(student, settings)
    nothing = dataclasses.replace(batch, y=torch.full_like(batch.y, -1))
    loss, value = Objective(student, settings, taught)(nothing)
    whole = Objective(student, dataclasses.replace(settings, teacher_weight=1.0), taught)(nothing)[1]
    assert value == pytest.approx(0.5 * whole, rel=1e-6)
    loss.backward()
    assert all(bool(w.grad.isfinite().all()) for w in student.parameters() if w.grad is not None)
