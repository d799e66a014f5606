"""Synthetic English whose phone times are known exactly: flite's voices read sentences.

    python -m experiments.synthetic SENTENCES OUT --voices rms awb --count 60

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

NAMES = {"ax": "AH", "pau": "SIL"}


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
        start = end
    return found


def speak(text: str, voice: str, stem: Path) -> None:
    """One sentence: `stem`.wav, .lab, .txt."""
    command = ["flite", "-voice", voice, "-psdur", "-t", text.lower() + ".", "-o", str(stem.with_suffix(".wav"))]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    lines = [f"{round(a * 1e7)} {round(b * 1e7)} {y}\n" for a, b, y in phones(printed) if b > a]
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
    parser.add_argument("--seed", type=int, default=3)
    given = parser.parse_args()
    with given.sentences.open(encoding="utf-8") as file:
        rows = [r for r in csv.DictReader(file, delimiter="\t") if given.split in (None, r.get("split"))]
    texts = [t for t in dict.fromkeys(r["text"] for r in rows) if len(t.split()) >= given.words]
    random.Random(given.seed).shuffle(texts)
    given.out.mkdir(parents=True, exist_ok=True)
    for n, text in enumerate(texts[: given.count]):
        voice = given.voices[n % len(given.voices)]
        speak(text, voice, given.out / f"{voice}_{n:03d}")


if __name__ == "__main__":
    main()
