"""The librosa engine: the same frames as the native one, and loaded by nobody who did not ask for it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from phonechain.app.samples import FOLDER as SAMPLES
from phonechain.features.audio.reader import Audio, resample
from phonechain.features.errors import EmptyAudio, SettingsError
from phonechain.features.filterbank import log_mels
from phonechain.features.inputs import extract_inputs
from phonechain.features.mfcc import FeatureSettings, frames
from phonechain.features.reading import read_audio
from phonechain.features.segments import Segment
from tests.features.speechlike import speechlike

Sound = NDArray[np.float32]

BOUND = 1e-4
SETTINGS = {
    "default": FeatureSettings(),
    "lifter": FeatureSettings(preemphasis=0.0, lifter=22, n_mels=40, mel_floor=1e-9),
    "8 kHz": FeatureSettings(rate=8000, fmax=3800, n_fft=256, delta_width=5),
    "odd": FeatureSettings(rate=11025, window=0.02, hop=0.007, n_fft=300, fmin=0, fmax=5512.5),
    "48 kHz": FeatureSettings(rate=48000, n_fft=2048, fmax=20000, n_mels=64),
    "5 ms": FeatureSettings(hop=0.005, window=0.016, delta_width=21),
}


def pulses(rate: int) -> Sound:
    sound = np.zeros(rate, dtype=np.float32)
    sound[:: rate // 7] = 0.99
    return sound


def square(rate: int) -> Sound:
    return np.where(np.arange(rate) // 40 % 2, 1.0, -1.0).astype(np.float32)


SOUNDS: dict[str, Callable[[int], Sound]] = {
    "speech": lambda rate: speechlike(rate, 1.3, seed=3),
    "silence": lambda rate: np.zeros(rate, dtype=np.float32),
    "one sample": lambda rate: np.full(1, 0.3, dtype=np.float32),
    "a window": lambda rate: speechlike(rate, 0.025, seed=1),
    "just over a block": lambda rate: speechlike(rate, 1.31, seed=2),
    "faint": lambda rate: 1e-5 * speechlike(rate, 0.4, seed=4),
    "noise": lambda rate: np.random.default_rng(5).normal(0, 0.3, rate).astype(np.float32),
    "offset": lambda rate: speechlike(rate, 0.4) + np.float32(0.4),
    "pulses": pulses,
    "clipped": square,
    "far over full scale": lambda rate: 3e4 * speechlike(rate, 0.4),
}


@pytest.mark.parametrize("kind", SOUNDS)
@pytest.mark.parametrize("name", SETTINGS)
def test_engines_agree(name: str, kind: str) -> None:
    native = SETTINGS[name]
    other = replace(native, engine="librosa")
    sound = SOUNDS[kind](native.rate)
    np.testing.assert_allclose(frames(sound, other), frames(sound, native), rtol=0, atol=BOUND)
    np.testing.assert_allclose(frames(sound, other, warp=1.1), frames(sound, native, warp=1.1), rtol=0, atol=BOUND)
    native, other = (replace(s, bands=40) for s in (native, other))
    np.testing.assert_allclose(log_mels(sound, other), log_mels(sound, native), rtol=0, atol=BOUND)


RECORDINGS = sorted(p for p in SAMPLES.rglob("*") if p.suffix in (".flac", ".ogg"))


@pytest.mark.parametrize("file", RECORDINGS, ids=lambda file: file.name)
def test_engines_agree_on_the_recordings_of_the_package(file: Path) -> None:
    native = FeatureSettings(bands=40)
    other = replace(native, engine="librosa")
    audio = read_audio(file)
    sound = resample(audio.samples, audio.rate, native.rate)
    np.testing.assert_allclose(frames(sound, other), frames(sound, native), rtol=0, atol=BOUND)
    np.testing.assert_allclose(log_mels(sound, other), log_mels(sound, native), rtol=0, atol=BOUND)


def test_there_are_recordings_in_the_package() -> None:
    assert len(RECORDINGS) == 27


def test_what_a_model_sees_is_the_same_from_either_engine() -> None:
    audio = Audio(speechlike(22050, 1.0, seed=6), 22050)
    segments = [Segment(0.0, 0.1), Segment(0.1, 0.104), Segment(0.104, 0.7), Segment(0.7, 1.0)]
    native = FeatureSettings(bands=40)
    ours, theirs = (extract_inputs(audio, segments, s) for s in (native, replace(native, engine="librosa")))
    np.testing.assert_allclose(theirs.segments, ours.segments, rtol=0, atol=BOUND)
    np.testing.assert_allclose(theirs.frames, ours.frames, rtol=0, atol=BOUND)


def test_appended_sound_changes_no_earlier_frame_of_the_librosa_engine() -> None:
    settings = FeatureSettings(engine="librosa")
    sound = speechlike(16000, 2.0)
    loud = np.concatenate([sound, np.random.default_rng(0).uniform(-1, 1, 16000).astype(np.float32)])
    kept = np.arange(201) * 160 + 4 * 160 + 200 <= len(sound)
    np.testing.assert_array_equal(frames(loud, settings)[:201][kept], frames(sound, settings)[kept])


def test_the_librosa_engine_refuses_what_the_native_one_refuses() -> None:
    with pytest.raises(EmptyAudio):
        frames(np.zeros(0, dtype=np.float32), FeatureSettings(engine="librosa"))


def test_the_engine_is_kept_and_older_files_mean_the_native_one() -> None:
    chosen = FeatureSettings(engine="librosa")
    assert FeatureSettings.from_dict(chosen.to_dict()) == chosen
    assert FeatureSettings.from_dict({"rate": 16000}).engine == "native"
    assert chosen.gives_same_frames(FeatureSettings())
    assert not replace(chosen, hop=0.005).gives_same_frames(FeatureSettings())


@pytest.mark.parametrize("value", ["essentia", "", None, 1])
def test_an_unknown_engine_is_refused(value: object) -> None:
    with pytest.raises(SettingsError, match="expected engine to be one of native, librosa, got") as caught:
        FeatureSettings.from_dict({"engine": value})
    assert caught.value.pointer == "features/engine"


def test_the_native_engine_loads_no_librosa() -> None:
    code = (
        "import sys, phonechain; from pathlib import Path; "
        "from phonechain.model.labeler import PhoneLabeler; from phonechain.model import pretrained_path; "
        "from phonechain.features.reading import read_audio, read_segments; "
        "l = PhoneLabeler.load(pretrained_path()); "
        "l.label(read_audio('samples/LJ001-0002.flac'), read_segments('samples/LJ001-0002.TextGrid')); "
        "sys.exit(f'{sorted(x)}' if (x := {'librosa', 'numba', 'sklearn'} & set(sys.modules)) else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
