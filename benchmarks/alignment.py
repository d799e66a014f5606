"""How fast recordings are aligned and recognised: seconds of sound per second of CPU time, one thread, reading included.

    python benchmarks/alignment.py [--seconds 10 50] [--rounds 5]

Each row is measured by scaled probabilities and by logarithms, in turn, and the best round of each counts; the last columns
say how far the boundaries of the two lie apart at most, and their certainties.
"""

from __future__ import annotations

import argparse
import io
import time
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import numpy as np
import soundfile
import torch
from numpy.typing import NDArray

from phonechain.features import corpora
from phonechain.features.audio.reader import decode
from phonechain.model import ALIGNMENT, pretrained_path
from phonechain.model.segmental import scaled
from phonechain.model.segmental.aligner import PhoneAligner
from phonechain.model.segmental.answers import Alignment, Recognition
from phonechain.model.segmental.fitting import cover_recording

SAMPLES = Path(__file__).resolve().parents[1] / "app" / "samples" / "reader"
"""The samples of the guide."""


def recording(folder: Path, seconds: float) -> tuple[bytes, float, list[str]]:
    """Utterances of a corpus one after the other: FLAC, its duration, its phones."""
    sounds, labels, total = list[NDArray[np.float32]](), list[str](), 0.0
    for u in corpora.read(folder).utterances:
        audio = decode(u.audio, rate=16000)
        if sounds and total + audio.duration > seconds + 5:
            continue
        sounds.append(audio.samples)
        total += audio.duration
        found = [str(s.label) for s in cover_recording(u.segments, audio.duration, "SIL")]
        labels += found[1:] if labels and labels[-1] == found[0] == "SIL" else found
        if total >= seconds:
            break
    out = io.BytesIO()
    soundfile.write(out, np.concatenate(sounds), 16000, format="FLAC")
    return out.getvalue(), total, labels


def cpu_seconds(work: Callable[[], object]) -> float:
    """CPU seconds."""
    began = time.process_time()
    work()
    return time.process_time() - began


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "folder",
        nargs="?",
        default=SAMPLES,
        type=Path,
        help="a corpus with ARPAbet labels; by default the samples of the guide",
    )
    parser.add_argument("--seconds", type=float, nargs="+", default=[10.0, 50.0])
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    torch.set_num_threads(1)
    aligner = PhoneAligner.load(pretrained_path(ALIGNMENT))
    print("sound s  phones  what       scaled  logarithms  ratio  boundaries apart ms  certainties apart")
    for seconds in given.seconds:
        data, duration, labels = recording(given.folder, seconds)

        def align(data: bytes = data, labels: list[str] = labels) -> Alignment:
            return aligner.align_phones(decode(data, rate=16000), labels)

        def recognize(data: bytes = data) -> Recognition:
            return aligner.recognize(decode(data, rate=16000))

        for name, work in (("align", align), ("recognize", recognize)):
            times: dict[bool, list[float]] = {True: [], False: []}
            answers: dict[bool, Alignment | Recognition] = {}
            for _ in range(given.rounds):
                for quick in (True, False):
                    with mock.patch.object(
                        scaled.Potentials, "of", scaled.Potentials.of if quick else lambda scores: None
                    ):
                        times[quick].append(cpu_seconds(work))
                        answers.setdefault(quick, work())
            fast, slow = (duration / min(times[quick]) for quick in (True, False))
            one, other = answers[True].phones, answers[False].phones
            apart = sure = float("nan")
            if [p.label for p in one] == [p.label for p in other]:
                apart = 1e3 * max(abs(a.start - b.start) for a, b in zip(one, other, strict=True))
                sure = max(abs(a.within - b.within) for a, b in zip(one, other, strict=True))
            print(
                f"{duration:7.1f}  {len(one):6d}  {name:9s}  {fast:6.1f}  {slow:10.1f}  {fast / slow:5.2f}  "
                f"{apart:19.3f}  {sure:17.2g}",
                flush=True,
            )


if __name__ == "__main__":
    main()
