"""An hour of speech and its transcript: time, memory, boundaries, and places that do not match.

    python -m experiments.long_recording FOLDER [--minutes 60] [--leave-out 0.05] [--model MODEL]

FOLDER is a corpus with `utterances.tsv` (columns utterance, split, text). Utterances of its test split in a drawn order follow
each other as one recording. Of a share of them the text is left out, of as many the sound, both drawn. Measured are the words of
the others: how many are found, and how far from where they are in the utterance aligned by itself.
"""

from __future__ import annotations

import argparse
import csv
import json
import resource
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from phonechain.app.alignment.transcripts import pronouncer_of
from phonechain.features import corpora
from phonechain.features.audio.reader import Audio, decode
from phonechain.features.errors import PhonechainError
from phonechain.model import ALIGNMENT, pretrained_path
from phonechain.model.segmental.aligner import PhoneAligner

RATE = 16000


@dataclass(frozen=True)
class Sentence:
    """One utterance of the recording: where it begins (s), how long it is in it, which words of the transcript it has."""

    text: str
    samples: NDArray[np.float32]
    start: float
    kept: bool
    said: bool


def sentences(folder: Path, minutes: float, share: float) -> list[Sentence]:
    """The recording's utterances in order."""
    with (folder / "utterances.tsv").open(encoding="utf-8") as file:
        texts = {
            row["utterance"]: row["text"] for row in csv.DictReader(file, delimiter="\t") if row["split"] == "test"
        }
    found = [u for u in corpora.read(folder).utterances if Path(u.id).name in texts]
    random = np.random.default_rng(11)
    out, at = list[Sentence](), 0.0
    for n in random.permutation(len(found)):
        if at >= 60 * minutes:
            break
        u = found[n]
        fate = random.random()
        samples = decode(u.audio, rate=RATE).samples
        said = not share <= fate < 2 * share
        out.append(Sentence(texts[Path(u.id).name], samples, at, fate >= share, said))
        at += said * len(samples) / RATE
    return out


def overlap(one: tuple[float, float], spans: list[tuple[float, float]]) -> float:
    """Seconds of a span that lie in any of others."""
    return sum(max(0.0, min(one[1], b) - max(one[0], a)) for a, b in spans)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--leave-out", type=float, default=0.05)
    parser.add_argument("--model", type=Path, default=None)
    parser.add_argument("--verbose", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    aligner, pronouncer = PhoneAligner.load(given.model or pretrained_path(ALIGNMENT)), pronouncer_of(None)
    parts = sentences(given.folder, given.minutes, given.leave_out)
    audio = Audio(np.concatenate([s.samples for s in parts if s.said]), RATE)
    words = [(w, n) for n, s in enumerate(parts) if s.kept for w in pronouncer.words(s.text)]
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    answer = aligner.align(audio, [w for w, _ in words])
    spent, peak = time.process_time() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    own = {n: [k for k, (_, m) in enumerate(words) if m == n] for n in range(len(parts))}
    starts: dict[int, list[float]] = {n: [] for n in own}
    for w in answer.words:
        at = next((n for n in range(len(parts) - 1, -1, -1) if parts[n].said and parts[n].start <= w.start + 0.1), 0)
        starts[at].append(w.start - parts[at].start)
    errors, found, wanted = [], 0, 0
    for n, s in enumerate(parts):
        if not (s.kept and s.said):
            continue
        try:
            alone = aligner.align(Audio(s.samples, RATE), [words[k][0] for k in own[n]])
        except PhonechainError:
            continue
        wanted += len(alone.words)
        for w in alone.words:
            near = min((abs(t - w.start) for t in starts[n]), default=9.0)
            found += near < 0.1
            errors.append(near)
    marked = [(u.start, u.end) for u in answer.unmatched]
    lost = [(s.start, s.start + len(s.samples) / RATE) for s in parts if s.said and not s.kept]
    unsaid = [s.start for s in parts if s.kept and not s.said]
    seconds = sum(b - a for a, b in lost)
    e = np.array(errors)
    print(json.dumps({
        "minutes": round(audio.duration / 60, 1), "words": len(words), "times_real_time": round(audio.duration / spent, 1),
        "memory_mb": round(peak / 1024), "memory_before_mb": round(before / 1024),
        "words_found_percent": round(100 * found / wanted, 2),
        "starts_within_20_ms_of_those_alone_percent": round(100 * float((e <= 0.020 + 1e-6).mean()), 2),
        "sound_without_text_s": round(seconds, 1), "of_it_marked_s": round(sum(overlap(x, marked) for x in lost), 1),
        "marked_s": round(sum(b - a for a, b in marked), 1),
        "texts_without_sound": len(unsaid),
        "of_them_marked": sum(any(u.text and u.start - 1 <= t <= u.end + 1 for u in answer.unmatched) for t in unsaid),
        "places_marked": len(marked),
    }))  # fmt: skip
    if given.verbose:
        for notice in answer.notices:
            print(notice.message)
        for s in parts:
            if not (s.kept and s.said):
                print(f"{s.start:.2f} {len(s.samples) / RATE:.2f} kept {s.kept} said {s.said} {s.text}")


if __name__ == "__main__":
    main()
