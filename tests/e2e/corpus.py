"""A small corpus as a zip on standard output: copies of the sample, each with a pace, a noise and a speaker of its own.

Run inside the image: `docker run ... --entrypoint python IMAGE - COUNT < tests/e2e/corpus.py > corpus.zip`.
"""

from __future__ import annotations

import io
import sys
import zipfile

import numpy as np
import soundfile

from phonechain.app import samples
from phonechain.features.audio.reader import resample


def main(count: int) -> None:
    """Write `count` utterances; the same count gives the same bytes."""
    sound, rate = soundfile.read(samples.AUDIO, dtype="float32")
    labels = [line.split() for line in samples.SEGMENTS.with_suffix(".lab").read_text("utf-8").splitlines()]
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for n in range(count):
            random = np.random.default_rng(n)
            pace = random.uniform(0.9, 1.1)
            changed = resample(sound, rate, int(rate * pace))
            changed = changed + (0.004 * random.standard_normal(len(changed))).astype(np.float32)
            wav = io.BytesIO()
            soundfile.write(wav, np.clip(changed, -1, 1), rate, format="WAV", subtype="PCM_16")
            most = int(1e7 * len(changed) / rate)
            lines = [f"{min(int(int(a) * pace), most)} {min(int(int(b) * pace), most)} {x}\n" for a, b, x in labels]
            for suffix, data in (("wav", wav.getvalue()), ("lab", "".join(lines).encode())):
                archive.writestr(zipfile.ZipInfo(f"s{n % 5}/u{n:04d}.{suffix}"), data)
    sys.stdout.buffer.write(out.getvalue())


main(int(sys.argv[1]))
