"""Sound file to 92 features, beside librosa's bare MFCCs and deltas.

    python benchmarks/features.py [--seconds 10] [--repeats 41]

Ours is the whole path: bytes of a 16 kHz file, decoded with every check and notice, frames, and the 92 features of 11
segments per second. Librosa's is `feature.mfcc` and two `feature.delta` on samples that are decoded already, with the
same windows, hop and transform. `engine = "librosa"` is the whole path of the other engine: it makes the frames of the native
one by librosa's functions. One thread, the repetitions interleaved, medians; the figure is a ratio of speeds in one run.
"""

from __future__ import annotations

import argparse
import io
import os
import platform
import sys
import time
from collections.abc import Callable
from importlib import metadata
from itertools import pairwise
from pathlib import Path

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[name] = "1"

import librosa  # noqa: E402
import numpy as np  # noqa: E402
import scipy  # noqa: E402
import soundfile  # noqa: E402

sys.path.insert(0, str(Path(__file__).parent.parent))

from phonechain.features.audio.reader import decode, resample  # noqa: E402
from phonechain.features.mfcc import FeatureSettings, frames  # noqa: E402
from phonechain.features.pooling import extract, pool  # noqa: E402
from phonechain.features.segments import Segment  # noqa: E402

RATE = 16000
SEGMENTS_A_SECOND = 11
GOALS = {"wav": 1.5, "flac": 1.2}
"""Times librosa's speed."""


def sound(seconds: float) -> np.ndarray:
    """The sample that ships with the app, repeated; noise with a speech-like envelope where it is missing."""
    files = sorted((Path(__file__).parent.parent / "app" / "samples").glob("*.flac"))
    if files:
        audio = decode(files[0], rate=RATE)
        return np.resize(audio.samples, round(seconds * RATE))
    t = np.arange(round(seconds * RATE)) / RATE
    noise = np.random.default_rng(0).normal(scale=0.1, size=len(t))
    return (noise * (0.05 + np.sin(2 * np.pi * 2 * t) ** 2)).astype(np.float32)


def write_sound(samples: np.ndarray, container: str) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, samples, RATE, format=container, subtype="PCM_16")
    return file.getvalue()


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=float, default=10.0, help="of sound (default 10)")
    options.add_argument("--repeats", type=int, default=41, help="of each, interleaved (default 41)")
    given = options.parse_args()

    settings, other = FeatureSettings(), FeatureSettings(engine="librosa")
    samples = sound(given.seconds)
    times = np.linspace(0, given.seconds, round(SEGMENTS_A_SECOND * given.seconds) + 1)
    segments = [Segment(float(a), float(b)) for a, b in pairwise(times)]
    wav, flac = write_sound(samples, "WAV"), write_sound(samples, "FLAC")
    track = frames(samples, settings)

    def bare_librosa() -> None:
        mfcc = librosa.feature.mfcc(
            y=samples,
            sr=RATE,
            n_mfcc=13,
            n_fft=settings.n_fft,
            hop_length=settings.hop_length,
            win_length=settings.window_length,
        )
        librosa.feature.delta(mfcc)
        librosa.feature.delta(mfcc, order=2)

    runs: dict[str, Callable[[], object]] = {
        "librosa: mfcc + 2 deltas, samples in memory": bare_librosa,
        "ours: wav bytes -> 92 features": lambda: extract(decode(wav, rate=RATE), segments, settings),
        "ours: flac bytes -> 92 features": lambda: extract(decode(flac, rate=RATE), segments, settings),
        "engine librosa: wav bytes -> 92 features": lambda: extract(decode(wav, rate=RATE), segments, other),
        "  of which wav bytes -> samples": lambda: decode(wav, rate=RATE),
        "  of which flac bytes -> samples": lambda: decode(flac, rate=RATE),
        "  of which samples -> frames": lambda: frames(samples, settings),
        "  the same, engine librosa": lambda: frames(samples, other),
        "  of which frames -> 92 features": lambda: pool(track, segments, settings),
        "  (44.1 kHz would add: resampling)": lambda: resample(
            np.resize(samples, 441 * len(samples) // 160), 44100, RATE
        ),
    }
    took: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run()  # filters, windows and numba's functions are made once
    for _ in range(given.repeats):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            took[name].append(time.perf_counter() - start)

    print(
        f"{given.seconds:g} s of sound, {len(segments)} segments; medians of {given.repeats}, one thread; "
        f"Python {platform.python_version()}, numpy {np.__version__}, scipy {scipy.__version__}, "
        f"librosa {metadata.version('librosa')}, soundfile {soundfile.__version__} ({soundfile.__libsndfile_version__})"
    )
    theirs, *_ = (float(np.median(values)) for values in took.values())
    missed = []
    for name, values in took.items():
        median = float(np.median(values))
        ratio = theirs / median
        whole = name.startswith(("ours", "engine"))
        shown = f"{ratio:6.2f} x librosa's speed" if whole else ""
        if name.startswith("ours"):
            kind = name.split()[1]
            missed += [f"{kind} {ratio:.2f} of {GOALS[kind]}"] if ratio < GOALS[kind] else []
        print(f"{name:46s} {1000 * median:8.2f} ms {given.seconds / median:8.0f} x real time {shown}".rstrip())
    apart = float(np.abs(frames(samples, other) - track).max())
    print(f"engines: values of the frames differ by at most {apart:.1e}")
    goals = ", ".join(f"{kind} {goal}" for kind, goal in GOALS.items())
    print(f"goals, times librosa's speed: {goals}: {'missed: ' + ', '.join(missed) if missed else 'met'}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
