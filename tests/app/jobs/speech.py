"""Small corpora of real speech: the sample utterance, each copy with a noise and a pace of its own."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import soundfile

from phonechain.app import samples
from phonechain.features.audio.reader import resample
from phonechain.features.corpora import read
from phonechain.model.labeler import PhoneLabeler
from phonechain.model.settings import TrainingSettings

SEGMENTS = 23


def utterance(seed: int) -> tuple[bytes, bytes]:
    """(WAV, HTK label file) of one copy of the sample."""
    sound, rate = soundfile.read(samples.AUDIO, dtype="float32")
    random = np.random.default_rng(seed)
    pace = 1.0 + 0.1 * random.uniform(-1, 1)
    changed = resample(sound, rate, int(rate * pace)) + 0.003 * random.standard_normal(1)[0]
    changed = changed + (0.004 * random.standard_normal(len(changed))).astype(np.float32)
    out = io.BytesIO()
    soundfile.write(out, np.clip(changed, -1, 1), rate, format="WAV", subtype="PCM_16")
    length = len(changed) / rate
    lines = []
    for line in samples.SEGMENTS.with_suffix(".lab").read_text().splitlines():
        start, end, label = line.split()
        times = [round(min(int(t) * pace, length * 1e7)) for t in (start, end)]
        lines.append(f"{times[0]} {times[1]} {label}\n")
    return out.getvalue(), "".join(lines).encode()


def folder(root: Path, count: int, *, splits: bool = False) -> Path:
    """A folder of `count` utterances by five speakers."""
    for n in range(count):
        wav, lab = utterance(n)
        place = root / ("test" if splits and n % 5 == 4 else "train" if splits else "") / f"s{n % 5}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"u{n:04d}.wav").write_bytes(wav)
        (place / f"u{n:04d}.lab").write_bytes(lab)
    return root


def zip_folder(root: Path, **more: bytes) -> bytes:
    """A folder as a zip, with further members."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        for path in sorted(root.rglob("*")):
            if path.is_file():
                file.write(path, path.relative_to(root).as_posix())
        for name, data in more.items():
            file.writestr(name, data)
    return out.getvalue()


def model(path: Path, corpus: Path, *, epochs: int = 2) -> Path:
    """A model file, trained on a corpus for a moment."""
    settings = TrainingSettings(epochs=epochs, batch=4)
    PhoneLabeler("spn-lc-crf", training=settings, name="tiny").fit(read(corpus).utterances).save(path)
    return path
