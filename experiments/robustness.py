"""What is left of a model's answers when the sound is not as the training's was: `python -m experiments.robustness`.

Every condition changes the decoded sound, or the boundaries, of a corpus; models see what they would be given then. A lone
recording is normalised by itself; "speakers known" is the clean sound with all recordings of a speaker together.
"""

from __future__ import annotations

import argparse
import csv
import io
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import scipy.signal
import soundfile
from numpy.typing import NDArray

from experiments import report
from experiments.cells import commit
from phonechain.features import corpora
from phonechain.features.audio.reader import Audio, decode
from phonechain.features.inputs import Inputs, extract_inputs
from phonechain.features.segment_checks import prepare
from phonechain.features.segments import Segment, Utterance
from phonechain.model import pretrained_path
from phonechain.model.labeler import PhoneLabeler
from phonechain.model.scoring.calibration import calibration_error, reliability_table
from phonechain.model.scoring.significance import interval

Sound = NDArray[np.float32]
BATCH = 48
ADULT = 18


def noisy(snr: float) -> Callable[[Sound, np.random.Generator], Sound]:
    """White noise, `snr` dB under the recording's mean power."""

    def change(sound: Sound, random: np.random.Generator) -> Sound:
        noise = random.standard_normal(len(sound))
        return (sound + noise * np.sqrt(np.mean(sound**2) * 10 ** (-snr / 10))).astype(np.float32)

    return change


def louder(gain: float) -> Callable[[Sound, np.random.Generator], Sound]:
    """`gain` dB, rounded to 16 bits, and clipped where it has to be: as a file that was recorded so."""

    def change(sound: Sound, random: np.random.Generator) -> Sound:
        return (np.clip(np.round(sound * 10 ** (gain / 20) * 32768), -32768, 32767) / 32768).astype(np.float32)

    return change


def narrow(sound: Sound, random: np.random.Generator) -> Sound:
    """Down to 8 kHz and up again: a telephone's band, but for its lower end."""
    half = scipy.signal.resample_poly(sound, 1, 2)
    return scipy.signal.resample_poly(half, 2, 1)[: len(sound)].astype(np.float32)


def mp3(sound: Sound, random: np.random.Generator) -> Sound:
    """Through MP3 at 64 kbit/s (LAME by libsndfile), its delay taken off by the decoder."""
    file = io.BytesIO()
    with soundfile.SoundFile(
        file, "w", 16000, 1, format="MP3", subtype="MPEG_LAYER_III", compression_level=0.58, bitrate_mode="CONSTANT"
    ) as out:
        out.write(sound)
    samples = decode(file.getvalue(), rate=16000).samples[: len(sound)]
    return np.pad(samples, (0, len(sound) - len(samples)))


def telephone(subtype: str) -> Callable[[Sound, np.random.Generator], Sound]:
    """Down to 8 kHz, through a telephone's codec (of libsndfile), and up again."""

    def change(sound: Sound, random: np.random.Generator) -> Sound:
        file = io.BytesIO()
        with soundfile.SoundFile(file, "w", 8000, 1, format="WAV", subtype=subtype) as out:
            out.write(scipy.signal.resample_poly(sound, 1, 2).clip(-1, 1))
        half = soundfile.read(io.BytesIO(file.getvalue()), dtype="float32")[0]
        samples = scipy.signal.resample_poly(half, 2, 1)[: len(sound)].astype(np.float32)
        return np.pad(samples, (0, len(sound) - len(samples)))

    return change


def shaken(deviation: float) -> Callable[[list[Segment], np.random.Generator], list[Segment]]:
    """Boundaries moved by normal steps of that deviation (s), in order still, 1 ms apart at least."""

    def change(segments: list[Segment], random: np.random.Generator) -> list[Segment]:
        edges = np.asarray([segments[0].start, *(s.end for s in segments)])
        moved = edges + random.normal(0.0, deviation, len(edges)) * np.r_[0, np.ones(len(edges) - 2), 0]
        moved = np.clip(np.maximum.accumulate(moved), edges[0], edges[-1])
        moved += 0.0
        for n in range(1, len(moved)):
            moved[n] = max(moved[n], moved[n - 1] + 0.001)
        moved = np.minimum(moved, edges[-1] - 0.001 * np.arange(len(moved))[::-1])
        return [replace(s, start=float(a), end=float(b)) for s, a, b in zip(segments, moved, moved[1:], strict=False)]

    return change


CONDITIONS: dict[str, tuple[Callable[[Sound, np.random.Generator], Sound] | None, float]] = {
    "as recorded": (None, 0.0),
    "30 dB quieter": (louder(-30), 0.0),
    "30 dB louder, clipped": (louder(30), 0.0),
    "8 kHz band": (narrow, 0.0),
    "8 kHz, mu-law (G.711)": (telephone("ULAW"), 0.0),
    "8 kHz, GSM 06.10": (telephone("GSM610"), 0.0),
    "MP3, 64 kbit/s": (mp3, 0.0),
    "white noise, 20 dB": (noisy(20), 0.0),
    "white noise, 10 dB": (noisy(10), 0.0),
    "white noise, 5 dB": (noisy(5), 0.0),
    "boundaries +-10 ms": (None, 0.010),
    "boundaries +-20 ms": (None, 0.020),
    "boundaries +-30 ms": (None, 0.030),
}
"""What is done to the sound, and the deviation (s) of what is done to the boundaries."""


@dataclass
class DecodedUtterance:
    """An utterance with its sound, decoded once."""

    utterance: Utterance
    audio: Audio
    segments: list[Segment]


def read(root: Path, split: str | None, every: int) -> list[DecodedUtterance]:
    """Every so manyth utterance of a split, decoded."""
    corpus = corpora.read(root)
    utterances = (corpus.split(split) if split else corpus.utterances)[::every]
    found = []
    for u in utterances:
        audio = decode(u.audio, rate=16000)
        found.append(DecodedUtterance(u, audio, prepare(u.segments, audio.duration)[0]))
    return found


@dataclass
class Result:
    """Errors of one model under one condition."""

    wrong: NDArray[np.bool_]
    confidence: NDArray[np.float64]
    speakers: list[str]

    @property
    def error(self) -> float:
        """Share of wrong segments."""
        return float(self.wrong.mean())

    @property
    def ece(self) -> float:
        """Expected calibration error."""
        return calibration_error(reliability_table(self.confidence, ~self.wrong))

    def cell(self) -> str:
        """Error and calibration error in per cent."""
        return f"{100 * self.error:.1f} | {100 * self.ece:.1f}"


def run(
    labeler: PhoneLabeler,
    spoken: Sequence[DecodedUtterance],
    change: Callable[[Sound, np.random.Generator], Sound] | None = None,
    deviation: float = 0.0,
    *,
    by_speaker: bool = False,
) -> Result:
    """Label everything under a condition and compare."""
    index = {label: n for n, label in enumerate(labeler.labels_)}
    wrong: list[NDArray[np.bool_]] = []
    confidence: list[NDArray[np.float64]] = []
    speakers: list[str] = []
    who: dict[str, int] = {}
    order = (
        sorted(range(len(spoken)), key=lambda n: spoken[n].utterance.speaker or "")
        if by_speaker
        else range(len(spoken))
    )
    batch: list[tuple[Inputs, list[str], str]] = []

    def flush() -> None:
        groups = [who.setdefault(speaker, len(who)) for _, _, speaker in batch] if by_speaker else None
        posteriors, best = labeler.posteriors([inputs for inputs, _, _ in batch], groups=groups)
        for p, answer, (_, labels, speaker) in zip(posteriors, best, batch, strict=True):
            true = np.asarray([index.get(label, -1) for label in labels])
            wrong.append(answer != true)
            confidence.append(p[np.arange(len(p)), answer].astype(np.float64))
            speakers.extend([speaker] * len(labels))
        batch.clear()

    for n in order:
        one = spoken[n]
        speaker = one.utterance.speaker or one.utterance.id
        random = np.random.default_rng(n)
        segments = shaken(deviation)(one.segments, random) if deviation else one.segments
        audio = one.audio if change is None else Audio(change(one.audio.samples, random), 16000)
        kept = [k for k, s in enumerate(segments) if s.label is not None and s.label not in labeler.drop]
        inputs = extract_inputs(audio, segments, labeler.features_).select(kept)
        if len(batch) >= BATCH and not (by_speaker and speaker == batch[-1][2]):
            flush()
        batch.append((inputs, [segments[k].label or "" for k in kept], speaker))
    flush()
    return Result(np.concatenate(wrong), np.concatenate(confidence), speakers)


def ages(root: Path) -> dict[str, int]:
    """Speaker to age, where the corpus says so."""
    path = root / "utterances.tsv"
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t")
        return {row["speaker"]: int(row["age"]) for row in rows if row.get("age", "").isdigit() and row.get("speaker")}


def main(given: list[str] | None = None) -> int:
    """Write the section of RESULTS.md."""
    parser = argparse.ArgumentParser(prog="python -m experiments.robustness", description=__doc__)
    parser.add_argument("models", nargs="+", help="model files, or names of shipped models")
    parser.add_argument("--data", type=Path, default=Path("../shared/data/speechocean762"))
    parser.add_argument("--split", default="test")
    parser.add_argument("--also", type=Path, nargs="*", default=[], help="other corpora, as they are")
    parser.add_argument("--every", type=int, default=1, help="under the conditions, every so manyth utterance")
    parser.add_argument("--only", default="", help="print conditions that match this regular expression, write nothing")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "RESULTS.md")
    options = parser.parse_args(given)
    labelers = [PhoneLabeler.load(p if Path(p).is_file() else pretrained_path(p)) for p in options.models]
    names = [labeler.name for labeler in labelers]
    lines = [
        f"## Robustness on {options.data.name}",
        "",
        f"Phone error and expected calibration error in per cent, {options.split} split, of "
        + ", ".join(
            f"`{labeler.name}` (version {labeler.version_}, {labeler.parameters_:,} weights)" for labeler in labelers
        )
        + ".",
        f"`python -m experiments.robustness {shlex.join([*names, '--every', str(options.every)])}`; commit {commit()}.",
        f"Conditions: every {options.every}. utterance; the first rows: all of them." if options.every > 1 else "",
        "",
        "| condition | " + " | ".join(f"{name} | ECE" for name in names) + " |",
        "|---|" + "---|---|" * len(names),
    ]

    def row(what: str, cells: Sequence[str]) -> None:
        lines.append(f"| {what} | " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)

    everything = read(options.data, options.split, 1)
    some = everything[:: options.every]

    def compute_conditions(pattern: str) -> None:
        for what, (change, deviation) in CONDITIONS.items():
            if re.search(pattern, what):
                row(what, [run(labeler, some, change, deviation).cell() for labeler in labelers])

    if options.only:
        compute_conditions(options.only)
        return 0
    old = ages(options.data)
    whole = [run(labeler, everything) for labeler in labelers]
    known = [run(labeler, everything, by_speaker=True) for labeler in labelers]
    row("all, lone recordings", [r.cell() for r in whole])
    for what, results in (("95 % over speakers", whole), ("95 % over speakers, speakers known", known)):
        found = [interval(r.wrong, r.speakers) for r in results]
        spans = [f"{100 * (i.low or 0):.1f} to {100 * (i.high or 0):.1f} | " for i in found]
        if results is known:
            row("all, speakers known", [r.cell() for r in known])
        row(what, spans)
    for what, keep in ((f"under {ADULT}", lambda age: age < ADULT), ("adults", lambda age: age >= ADULT)):
        parts = []
        for r in whole:
            chosen = np.asarray([s in old and keep(old[s]) for s in r.speakers])
            parts.append(Result(r.wrong[chosen], r.confidence[chosen], []).cell() if chosen.any() else "- | -")
        row(f"{what}, lone recordings", parts)
    compute_conditions("")
    for other in options.also:
        spoken = read(other, None, 1)
        row(f"{other.name}, lone recordings", [run(labeler, spoken).cell() for labeler in labelers])
    report.write(options.results, "\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
