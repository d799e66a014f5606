"""Synthetic English whose phone times are known exactly: flite's voices read sentences.

    python -m experiments.synthetic SENTENCES OUT --voices rms awb --count 60
    python -m experiments.synthetic SENTENCES OUT --voices rms awb rms awb kal16 ked --count 2400 --vary --words 4

With --vary the tempo is drawn, and the recording taken to be of another rate, so that pitch and formants lie elsewhere; half
of the texts are then words of CMUdict in a drawn order. The voice ked is festival's, the others are flite's.

SENTENCES is a table with a column `text` (and perhaps `split`, see --split); each sentence is read by the voices in turn.
For each, OUT gets a wav, the phones with their times (HTK label format) and the text. flite prints where each of its phones
ends with `-psdur`; its schwa is ARPAbet's AH.
"""

from __future__ import annotations

import argparse
import csv
import random
import subprocess
from pathlib import Path

import numpy as np
import soundfile

from phonechain.features.audio.reader import resample
from phonechain.features.words.dictionary import english

NAMES = {"ax": "AH", "pau": "SIL", "h#": "SIL", "brth": "SIL"}

RATE = 16000


def phones(printed: str) -> list[tuple[float, float, str]]:
    """(start, end, label) from what flite prints, neighbouring pauses joined."""
    found: list[tuple[float, float, str]] = []
    start = 0.0
    for token in printed.split():
        name, colon, when = token.partition(":")
        if not colon:
            continue
        end, label = float(when), NAMES.get(name, name.upper())
        if found and label == found[-1][2] == "SIL":
            found[-1] = (found[-1][0], end, label)
        else:
            found.append((start, end, label))
        start = max(start, end)
    return found


FESTIVAL = """(voice_ked_diphone)
(Parameter.set 'Duration_Stretch {stretch:g})
(set! u (SynthText "{text}"))
(utt.save.wave u "{wav}" 'riff)
(utt.save.segs u "{segments}")
"""


def speak(text: str, voice: str, stem: Path, *, stretch: float = 1.0, faster: float = 1.0, shift: float = 0.0) -> None:
    """One sentence: `stem`.wav, .lab, .txt. It lasts `stretch` times as long, with all frequencies times `faster`.

    `shift` (s) moves the boundaries between segments, not the start of the first nor the end of the last.
    """
    wav = stem.with_suffix(".wav")
    if voice == "ked":
        printed_to = stem.with_suffix(".segs")
        script = FESTIVAL.format(stretch=stretch * faster, text=text.lower(), wav=wav, segments=printed_to)
        subprocess.run(["festival", "--pipe"], input=script, capture_output=True, text=True, check=True)
        rows = [line.split() for line in printed_to.read_text(encoding="utf-8").splitlines()]
        printed = " ".join(f"{r[2]}:{r[0]}" for r in rows if len(r) == 3)
        printed_to.unlink()
    else:
        command = ["flite", "-voice", voice, "-psdur", "--setf", f"duration_stretch={stretch * faster:.2f}"]
        done = subprocess.run(
            [*command, "-t", text.lower() + ".", "-o", str(wav)], capture_output=True, text=True, check=True
        )
        printed = done.stdout
    if faster != 1.0:
        samples, rate = soundfile.read(wav, dtype="float32")
        soundfile.write(wav, np.clip(resample(samples, round(rate * faster), RATE), -1.0, 1.0), RATE)
    found = [(a / faster, b / faster, y) for a, b, y in phones(printed)]
    found = [(a, b, y) for a, b, y in found if b > a]
    ends = [max(0.0, b + shift) for _, b, _ in found[:-1]] + [b for _, b, _ in found[-1:]]
    starts = [0.0, *ends]
    lines = [
        f"{round(a * 1e7)} {round(b * 1e7)} {y}\n"
        for a, b, (_, _, y) in zip(starts, ends, found, strict=False)
        if b > a
    ]
    stem.with_suffix(".lab").write_text("".join(lines), encoding="utf-8")
    stem.with_suffix(".txt").write_text(text + "\n", encoding="utf-8")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sentences", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--voices", nargs="+", default=["rms"])
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--split")
    parser.add_argument("--words", type=int, default=5, help="fewest words of a sentence")
    parser.add_argument("--vary", action="store_true")
    parser.add_argument(
        "--shift", type=float, default=0.0, help="seconds added to the boundaries, as another aligner's lie"
    )
    parser.add_argument("--seed", type=int, default=3)
    given = parser.parse_args()
    with given.sentences.open(encoding="utf-8") as file:
        rows = [r for r in csv.DictReader(file, delimiter="\t") if given.split in (None, r.get("split"))]
    texts = [t for t in dict.fromkeys(r["text"] for r in rows) if len(t.split()) >= given.words]
    draw = random.Random(given.seed)
    draw.shuffle(texts)
    given.out.mkdir(parents=True, exist_ok=True)
    words = sorted(w.lower() for w in english().entries if w.isascii() and w.isalpha() and 2 <= len(w) <= 11)
    for n in range(given.count if given.vary else min(given.count, len(texts))):
        voice = given.voices[n % len(given.voices)]
        stem = given.out / f"{voice}_{n:04d}"
        if not given.vary:
            speak(texts[n], voice, stem, shift=given.shift)
            continue
        text = draw.choice(texts) if draw.random() < 0.5 else " ".join(draw.choices(words, k=draw.randint(3, 6)))
        faster = draw.choice([1.0, 1.1, 1.2] if voice == "ked" else [1.0, 0.93, 1.08, 1.15, 1.22])
        speak(text, voice, stem, stretch=round(draw.uniform(0.85, 1.3), 2), faster=faster, shift=given.shift)


if __name__ == "__main__":
    main()
