"""Aligners side by side: the same recordings, the same phones given, against the same boundaries.

    python -m experiments.side_by_side FOLDER TRAIN [--count 60]

FOLDER is a corpus with ARPAbet labels whose times are exact (`experiments.synthetic` makes one of a voice that no model heard).
Measured are this package's English model; pocketsphinx's aligner with its own English model (`pip install pocketsphinx`), which
gets each stretch between two pauses as one word and finds pauses itself where it wants; and hidden Markov models of single phones
with three Gaussians each, fitted to TRAIN by Baum-Welch without boundaries (`model/segmental/monophone.py`). Boundaries are those
between two phones, neither silence, so that all have the same ones. "Less the median" takes each system's constant bias off.
"""

from __future__ import annotations

import argparse
import importlib
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from phonechain.features import corpora
from phonechain.features.audio.reader import Audio, decode
from phonechain.features.mfcc import frames
from phonechain.features.segments import Segment
from phonechain.model import ALIGNMENT, pretrained_path
from phonechain.model.segmental.aligner import PhoneAligner
from phonechain.model.segmental.fitting import cover_recording
from phonechain.model.segmental.monophone import Chain, Monophones
from phonechain.model.segmental.network import FRAME

SILENCE = "SIL"
Recording = tuple[Audio, list[Segment]]
System = Callable[[Audio, Sequence[str]], list[float] | None]
"""Sound and its labels to the start of each, or None where the system finds no alignment."""


def recordings(folder: Path, count: int) -> list[Recording]:
    """So many, in a drawn order, each covered by its labels."""
    found = corpora.read(folder).utterances
    out = []
    for n in np.random.default_rng(7).permutation(len(found))[:count]:
        audio = decode(found[n].audio, rate=16000)
        out.append((audio, cover_recording(found[n].segments, audio.duration, SILENCE)))
    return out


def ours() -> System:
    """The English model that ships."""
    aligner = PhoneAligner.load(pretrained_path(ALIGNMENT))
    return lambda audio, labels: [p.start for p in aligner.align_phones(audio, labels).phones]


def monophones(train: Sequence[Recording]) -> System:
    """Hidden Markov models of single phones, fitted without boundaries."""
    aligner = PhoneAligner()
    names = sorted({str(s.label) for _, reference in train for s in reference})
    index = {y: n for n, y in enumerate(names)}

    def track(audio: Audio) -> NDArray[np.float64]:
        x = np.asarray(frames(audio.samples, aligner.features_), dtype=np.float64)
        normal: NDArray[np.float64] = (x - x.mean(0)) / (x.std(0) + 1e-6)
        return normal

    models = Monophones(len(names))
    chains = [Chain([index[str(s.label)] for s in reference]) for _, reference in train]
    tracks = [track(audio) for audio, _ in train]
    fit = [n for n, (x, c) in enumerate(zip(tracks, chains, strict=True)) if len(x) > c.shortest]
    models.fit([tracks[n] for n in fit], [chains[n] for n in fit])

    def align(audio: Audio, labels: Sequence[str]) -> list[float] | None:
        x = track(audio)
        chain = Chain([index.get(y, 0) for y in labels])
        if len(x) <= chain.shortest or any(y not in index for y in labels):
            return None
        found: list[float] = (models.boundaries([x], [chain])[0][:-1] * FRAME).tolist()
        return found

    return align


def pocketsphinx() -> System:
    """The aligner of pocketsphinx, with the model in its package. Raises ImportError."""
    sphinx: Any = importlib.import_module("pocketsphinx")

    def align(audio: Audio, labels: Sequence[str]) -> list[float] | None:
        words = [w.split() for w in " ".join(y if y != SILENCE else "|" for y in labels).split("|") if w.strip()]
        with tempfile.TemporaryDirectory() as folder:
            lexicon = Path(folder) / "words.dict"
            lexicon.write_text("".join(f"w{n} {' '.join(w)}\n" for n, w in enumerate(words)))
            decoder = sphinx.Decoder(
                dict=str(lexicon), lm=None, samprate=16000, loglevel="FATAL", hmm=sphinx.get_model_path("en-us/en-us")
            )
        sound = (np.clip(audio.samples, -1, 1) * 32767).astype(np.int16).tobytes()

        def pass_once() -> None:
            decoder.start_utt()
            decoder.process_raw(sound, full_utt=True)
            decoder.end_utt()

        decoder.set_align_text(" ".join(f"w{n}" for n in range(len(words))))
        pass_once()
        if not [s.word for s in decoder.seg() or ()]:
            return None
        decoder.set_alignment()  # of the phones in these words
        pass_once()
        found = decoder.get_alignment()
        spoken = [(p.name, p.start) for w in found or () for p in w if p.name not in (SILENCE, "+SPN+", "+NSN+")]
        if [name for name, _ in spoken] != [y for y in labels if y != SILENCE]:
            return None
        starts = iter(start * FRAME for _, start in spoken)
        return [float("nan") if y == SILENCE else next(starts) for y in labels]

    return align


def measure(name: str, system: System, test: Sequence[Recording]) -> None:
    """Print the errors of a system as one line of JSON."""
    errors: list[float] = []
    failed, began = 0, time.process_time()
    for audio, reference in test:
        labels = [str(s.label) for s in reference]
        found = system(audio, labels)
        if found is None:
            failed += 1
            continue
        for n in range(1, len(labels)):
            if SILENCE not in (labels[n - 1], labels[n]):
                errors.append(found[n] - reference[n].start)
    spent = time.process_time() - began
    e = np.array(errors)
    less = np.abs(e - np.median(e))
    print(json.dumps({
        "system": name, "boundaries": len(e), "recordings_without_an_alignment": failed,
        **{f"within_{t}_ms": round(100 * float((np.abs(e) <= t / 1e3 + 1e-6).mean()), 1) for t in (10, 20, 50)},
        "mae_ms": round(1e3 * float(np.abs(e).mean()), 1), "median_ms": round(1e3 * float(np.median(e)), 1),
        "within_20_ms_less_the_median": round(100 * float((less <= 0.020 + 1e-6).mean()), 1),
        "times_real_time": round(sum(a.duration for a, _ in test) / spent),
    }), flush=True)  # fmt: skip


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("train", type=Path)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--train-count", type=int, default=200)
    given = parser.parse_args()
    torch.set_num_threads(1)
    test = recordings(given.folder, given.count)
    measure("phonechain", ours(), test)
    try:
        measure("pocketsphinx", pocketsphinx(), test)
    except ImportError:
        print("pocketsphinx is not installed: pip install pocketsphinx", flush=True)
    measure("monophones", monophones(recordings(given.train, given.train_count)), test)


if __name__ == "__main__":
    main()
