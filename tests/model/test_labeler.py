"""The labeler as an estimator, the models that come with the package, and encoder runs that are killed and go on."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from phonechain.app import samples
from phonechain.features.annotation import choose_tier, read, tier_segments
from phonechain.features.audio.reader import Audio, decode
from phonechain.features.errors import SettingsError
from phonechain.features.inputs import Inputs, extract_inputs
from phonechain.features.mfcc import FeatureSettings
from phonechain.features.segment_checks import prepare
from phonechain.features.segments import Segment
from phonechain.model import pretrained_path
from phonechain.model.labeler import PhoneLabeler
from phonechain.model.presets import preset
from phonechain.model.settings import EncoderSettings, FactorSettings, ModelSettings, TrainingSettings
from tests.model.test_presets import corpus, small

QUICK = TrainingSettings(epochs=6, learning_rate=0.02)
LINEAR = ModelSettings(factors=(FactorSettings(kind="linear"),))


def arrays(count: int, seed: int, width: int = 7) -> tuple[list[np.ndarray], list[list[str]]]:
    random = np.random.default_rng(seed)
    means = np.random.default_rng(0).normal(0, 2, (3, width))
    x, y = [], []
    for _ in range(count):
        labels = random.integers(0, 3, random.integers(2, 9))
        x.append((means[labels] + random.normal(size=(len(labels), width))).astype(np.float32))
        y.append(["xyz"[label] for label in labels])
    return x, y


# ----------------------------------------------------------------------------------------------------------- estimator


def test_the_constructor_only_stores() -> None:
    labeler = PhoneLabeler(preset="no such preset", drop=["q"], name="mine")
    assert (labeler.preset, labeler.drop, labeler.name, labeler.model) == ("no such preset", ["q"], "mine", None)
    assert labeler.get_params()["drop"] is labeler.drop
    again = PhoneLabeler(**labeler.get_params())  # what scikit-learn's clone does
    assert again.get_params() == labeler.get_params()
    assert "not fitted" in repr(labeler)
    with pytest.raises(SettingsError, match="got 'no such preset'"):
        labeler.fit(*arrays(4, 0))
    with pytest.raises(SettingsError, match="expected one of preset"):
        labeler.set_params(nothing=1)


def test_settings_may_be_given_by_name() -> None:
    x, y = arrays(6, 0)
    by_name = PhoneLabeler("", model={"factors": [{"kind": "linear"}]}, training={"epochs": 2}, features={"hop": 0.005})
    objects = PhoneLabeler("", model=LINEAR, training=TrainingSettings(epochs=2), features=FeatureSettings(hop=0.005))
    assert by_name.system == objects.system
    first, second = by_name.fit(x, y), objects.fit(x, y)
    assert first.features_ == second.features_
    assert all(np.array_equal(a, b) for a, b in zip(first.predict_proba(x), second.predict_proba(x), strict=True))


@pytest.mark.parametrize(
    ("argument", "values", "pointer", "known"),
    [
        ("training", {"epoch": 3}, "training/epoch", "learning_rate"),
        ("model", {"factor": []}, "model/factor", "factors"),
        ("model", {"factors": [{"sort": "spn"}]}, "model/factors/0/sort", "kind"),
        ("features", {"rates": 8000}, "features/rates", "n_mels"),
        ("training", {"epochs": 0}, "training/epochs", "between 1"),
        ("training", 3, "training", "expected a table of settings at training, got 3"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("preset", ["spn-lc-crf", "auto"])
def test_an_unknown_setting_by_name_is_refused(
    preset: str, argument: str, values: Any, pointer: str, known: str
) -> None:
    if preset == "auto" and argument == "model":
        pytest.skip("auto chooses the model")
    with pytest.raises(SettingsError, match=known) as caught:
        PhoneLabeler(preset, **{argument: values}).fit(*arrays(4, 0))
    assert caught.value.pointer == pointer


def test_before_fit_there_is_nothing_learnt() -> None:
    for name in ("labels_", "classes_", "features_", "network_", "normaliser_", "temperature_", "model_", "card_"):
        with pytest.raises(SettingsError, match="no weights yet: call fit or load"):
            getattr(PhoneLabeler(), name)


def test_plain_arrays_of_any_width_train_label_and_come_back(tmp_path: Path) -> None:
    x, y = arrays(60, 1)
    labeler = PhoneLabeler("", model=LINEAR, training=QUICK).fit(x, y)
    test_x, test_y = arrays(20, 2)
    assert labeler.score(test_x, test_y) > 0.8
    assert [len(p) for p in labeler.predict(test_x)] == [len(labels) for labels in test_y]
    proba = labeler.predict_proba(test_x)
    np.testing.assert_allclose(np.concatenate(proba).sum(1), 1, atol=1e-5)
    assert labeler.classes_.tolist() == ["x", "y", "z"]
    labeler.save(tmp_path / "m.safetensors")
    again = PhoneLabeler.load(tmp_path / "m.safetensors")  # the width is the file's, not always 92
    assert all(np.array_equal(a, b) for a, b in zip(again.predict_proba(test_x), proba, strict=True))
    assert "3 labels" in repr(again)
    with pytest.raises(SettingsError, match="a label for each of the"):
        PhoneLabeler("", model=LINEAR, training=QUICK).fit(x, [labels[1:] for labels in y])


# ------------------------------------------------------------------------------------------------------ shipped models


def sample() -> tuple[Audio, list[Segment]]:
    audio = decode(samples.AUDIO, rate=16000)
    annotation = read(samples.SEGMENTS.read_bytes(), name=samples.SEGMENTS.name)
    return audio, prepare(tier_segments(choose_tier(annotation, None)[0]), audio.duration)[0]


def posteriors_of_sample(labeler: PhoneLabeler) -> tuple[np.ndarray, np.ndarray]:
    """Posteriors and answers, one row for each segment of the sample."""
    audio, segments = sample()
    [p], [answer] = labeler.posteriors([extract_inputs(audio, segments, labeler.features_)])
    return p, answer


def test_the_papers_own_system_answers_as_before_there_were_encoders() -> None:
    """Posteriors of the file that was the default, written before a model file could name an encoder."""
    best = [16, 34, 6, 17, 16, 22, 31, 2, 21, 19, 10, 27, 16, 8, 16, 31, 20, 17, 22, 0, 31, 11, 30]
    posterior = [
        0.4505192, 0.3405482, 0.8269511, 0.9506107, 0.9573843, 0.8214288, 0.7664227, 0.6227793, 0.2389568, 0.6114498,
        0.5799029, 0.966748, 0.4074351, 0.5238345, 0.8572766, 0.4594561, 0.4278289, 0.4717642, 0.7246699, 0.468592,
        0.5162911, 0.5161413, 0.6170413,
    ]  # fmt: skip
    labeler = PhoneLabeler.load(pretrained_path("paper"))
    p, answer = posteriors_of_sample(labeler)
    assert answer.tolist() == best
    np.testing.assert_allclose(p.max(1), posterior, rtol=2e-5)
    assert labeler.normalisation() == "model"


def test_the_default_hears_frames_and_says_how_it_normalises() -> None:
    labeler = PhoneLabeler.load(pretrained_path("default"))
    assert labeler.model_.settings.encoder_kind == "frames"
    assert pretrained_path("default").stat().st_size <= 5 * 2**20
    audio, segments = sample()
    own = labeler.label(audio, segments)
    assert sum(s.label == s.given for s in own) / len(own) >= 0.7
    assert labeler.normalisation() == "recording"
    # a gain leaves no trace but near the front end's floor: the paper's system changes three labels and more at -20 dB
    quiet = labeler.label(Audio(audio.samples * np.float32(0.1), 16000), segments)
    assert sum(a.label != b.label for a, b in zip(quiet, own, strict=True)) <= 1


def test_the_default_answers_as_when_it_was_shipped() -> None:
    """On any processor: sums of a network's products differ in their last digits."""
    best = [16, 22, 6, 17, 16, 23, 19, 2, 22, 26, 10, 27, 16, 31, 16, 35, 20, 17, 21, 2, 9, 11, 30]
    posterior = [
        0.6154433, 0.6458524, 0.7670265, 0.9854415, 0.9507636, 0.8148267, 0.6586124, 0.9261189, 0.4717992, 0.5467268,
        0.5704012, 0.9641171, 0.678719, 0.7774146, 0.6697578, 0.58261, 0.6530786, 0.7674278, 0.518589, 0.6336484,
        0.7560398, 0.9320225, 0.9872362,
    ]  # fmt: skip
    labeler = PhoneLabeler.load(pretrained_path("default"), device="cpu")
    p, answer = posteriors_of_sample(labeler)
    assert answer.tolist() == best
    np.testing.assert_allclose(p.max(1), posterior, rtol=1e-3)


def test_sound_appended_past_the_segments_changes_no_answer() -> None:
    labeler = PhoneLabeler.load(pretrained_path("default"))
    audio, segments = sample()
    noise = np.random.default_rng(0).standard_normal(48000).astype(np.float32)
    longer = Audio(np.concatenate([audio.samples, np.float32(0.3) * noise]), 16000)
    for mode in ("model", "recording"):
        before = labeler.label(audio, segments[:12], normalise=mode)
        assert labeler.label(longer, segments[:12], normalise=mode) == before
        near = audio.samples[: int(16000 * (segments[11].end + 0.3))]  # from here on, says the guide
        with_noise = Audio(np.concatenate([near, noise]), 16000)
        assert labeler.label(with_noise, segments[:12], normalise=mode) == before
    # labelling more of it does, where the recording is what features are normalised over
    end = segments[-1].end + 1.0
    more = [*segments[:12], *(Segment(end + 0.1 * n, end + 0.1 * n + 0.1) for n in range(15))]
    moved = []
    for mode in ("model", "recording"):
        before = labeler.label(audio, segments[:12], normalise=mode)[:6]
        after = labeler.label(longer, more, normalise=mode)[:6]
        moved.append(max(abs(a.posterior - b.posterior) for a, b in zip(after, before, strict=True)))
    assert moved[0] < moved[1]


def test_no_answer_of_the_default_depends_on_its_batch() -> None:
    labeler = PhoneLabeler.load(pretrained_path("default"))
    audio, segments = sample()
    whole = extract_inputs(audio, segments, labeler.features_)
    items = [whole, whole.part(0, 5), whole.part(7, 23), whole.part(3, 4)]
    together, _ = labeler.posteriors(items)
    for item, answer in zip(items, together, strict=True):
        [alone], _ = labeler.posteriors([item])
        np.testing.assert_allclose(alone, answer, atol=1e-6)


def test_a_model_that_knows_one_normalisation_refuses_another() -> None:
    labeler = PhoneLabeler.load(pretrained_path("paper"))
    audio, segments = sample()
    with pytest.raises(SettingsError, match="expected normalise to be model with this model, got 'recording'"):
        labeler.label(audio, segments, normalise="recording")


# ------------------------------------------------------------------------------------------------------ encoders' runs


def encode(**training: object) -> PhoneLabeler:
    given = small(preset("blstm-ho-lc-crf"))
    settings = dataclasses.replace(given.training, epochs=3, **training)  # type: ignore[arg-type]
    return PhoneLabeler("blstm-ho-lc-crf", model=given.model, training=settings)


SCRIPT = """
    import sys, torch
    from pathlib import Path
    from tests.model.test_labeler import encode
    from tests.model.test_presets import corpus

    def tell(p):
        print(p.stage, p.done, flush=True)
        if p.stage == "train" and p.metrics["epoch"] == 2 and p.done % 5 == 0:
            sys.stdin.readline()  # in the middle of the second epoch: wait here for the kill

    torch.set_num_threads(1)
    encode().fit_featurised(corpus(40, 1), corpus(10, 2), run_dir=Path(sys.argv[1]), progress=tell)
"""


def test_an_encoders_run_killed_in_mid_epoch_ends_with_the_same_weights(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SCRIPT), str(tmp_path)],
        cwd=root, env={**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    seen: list[str] = []
    for line in process.stdout:
        seen.append(line)
        if "epoch 1\n" in seen and line.startswith("train") and int(line.split()[1]) % 5 == 0:
            break
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        resumed = encode().fit_featurised(corpus(40, 1), corpus(10, 2), run_dir=tmp_path)
        unbroken = encode().fit_featurised(corpus(40, 1), corpus(10, 2))
    finally:
        torch.set_num_threads(threads)
    ours, theirs = resumed.network_.state_dict(), unbroken.network_.state_dict()
    assert all(torch.equal(ours[k], theirs[k]) for k in theirs)
    assert not any(name.startswith("auxiliary") for name in theirs)


def test_an_encoders_weights_are_stored_at_16_bits_and_answer_so(tmp_path: Path) -> None:
    labeler = encode().fit_featurised(corpus(20, 1), corpus(5, 2))
    labeler.save(tmp_path / "m.safetensors")
    assert (tmp_path / "m.safetensors").stat().st_size < 2.5 * labeler.parameters_ + 20_000
    again = PhoneLabeler.load(tmp_path / "m.safetensors")
    items: list[Inputs] = [i.inputs for i in corpus(5, 3)]
    for mode in ("model", "recording", "speaker"):
        one, two = (of.posteriors(items, groups=[0, 0, 1, 1, 1], normalise=mode)[0] for of in (labeler, again))
        assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))


def test_an_encoder_carries_over_to_other_labels() -> None:
    base = encode(augmentation=preset("spn-lc-crf").training.augmentation).fit_featurised(corpus(80, 1), corpus(20, 2))
    renamed = [
        dataclasses.replace(i, segments=[Segment(s.start, s.end, f"new-{s.label}") for s in i.segments])
        for i in corpus(20, 3)
    ]
    tuned = encode(learning_rate=1e-8, l2=0.0).fit_featurised(renamed, renamed[:5], base=base)
    assert tuned.start_.startswith(
        "starts from the encoder of a model, with new weights for the rest: 5 of the 5 labels"
    )
    assert tuned.labels_ == [f"new-{label}" for label in "abcde"]
    ours, theirs = tuned.network_.encoder.state_dict(), base.network_.encoder.state_dict()
    assert all(torch.allclose(ours[k], theirs[k], atol=1e-3) for k in theirs)
    narrow = dataclasses.replace(base.system.model, encoder=EncoderSettings(kind="frames", pooled=False, width=8))
    other = PhoneLabeler("", model=narrow, training=dataclasses.replace(QUICK, epochs=1))
    other.fit_featurised(renamed, renamed[:5], base=base)
    assert other.start_.startswith("starts from new weights")
