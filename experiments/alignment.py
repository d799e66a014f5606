"""Alignment and recognition measured, and the English alignment model trained.

    python -m experiments.alignment align MODEL FOLDER       phones given: boundaries against the labels
    python -m experiments.alignment refine MODEL FOLDER      boundaries moved at random, refined
    python -m experiments.alignment recognize MODEL FOLDER   phone error rate
    python -m experiments.alignment calibrate MODEL FOLDER --out FILE    the decoding with the fewest phone errors there
    python -m experiments.alignment train FOLDER OUT         a model from FOLDER's labels; see --help

FOLDER is a corpus (recordings and annotations); --per-speaker takes one utterance per speaker, --split a split. --shift says
by how much the labels of the reference are known to lie early (pocketsphinx: 10 ms against exact times). --grid 0.01 counts
each boundary at the nearest of the times that such a reference can have, beside where it lies.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from phonechain.features import corpora
from phonechain.features.audio.reader import Audio, decode
from phonechain.features.mfcc import FeatureSettings
from phonechain.features.segments import Segment, Utterance
from phonechain.model.files.modelfile import Card, Provenance
from phonechain.model.scoring import edits
from phonechain.model.segmental import calibration, learning
from phonechain.model.segmental.aligner import PhoneAligner
from phonechain.model.segmental.fitting import warp_frames
from phonechain.model.segmental.learning import Epoch, Example
from phonechain.model.segmental.settings import SegmentalSettings, SegmentalTraining
from phonechain.model.segmental.transcripts import SILENCES

NOISE = ("+NSN+", "SPN", "+SPN+")

SHORT = 0.0315
"""Seconds: segments of three frames, the fewest that pocketsphinx gives a phone, are often wrong."""


def utterances(given: argparse.Namespace) -> list[Utterance]:
    """Those asked for, in a drawn order that is the same in every run."""
    found = corpora.read(given.folder).utterances
    if given.split:
        found = [u for u in found if u.split == given.split]
    random = np.random.default_rng(7)
    found = [found[n] for n in random.permutation(len(found))]
    if given.per_speaker:
        first: dict[str, Utterance] = {}
        for u in found:
            first.setdefault(u.speaker or u.id, u)
        found = list(first.values())
    return found[given.skip :][: given.count or None]


def touching(u: Utterance, duration: float, silence: str) -> list[Segment]:
    """The labels without gaps: silence between them, neighbouring silences joined, noise taken for silence."""
    out: list[Segment] = []
    for s in u.segments:
        end = min(s.end, duration)
        quiet = s.label is None or s.label in NOISE or s.label.casefold() in SILENCES
        label = silence if quiet else str(s.label)
        if end <= s.start:
            continue
        if out and s.start > out[-1].end + 0.005:
            out.append(Segment(out[-1].end, s.start, silence))
        if out and out[-1].label == label == silence:
            out[-1] = Segment(out[-1].start, end, silence)
        else:
            out.append(Segment(out[-1].end if out else 0.0, end, label))
    out[-1] = Segment(out[-1].start, duration, out[-1].label)
    return out


def sounds(given: argparse.Namespace, aligner: PhoneAligner) -> Iterator[tuple[Audio, list[Segment]]]:
    """Each recording with its reference."""
    for u in utterances(given):
        audio = decode(u.audio, rate=aligner.features_.rate)
        yield audio, touching(u, audio.duration, aligner.silence or "SIL")


def report(errors: Sequence[float], certainties: Sequence[float] = (), **more: object) -> dict[str, object]:
    """Figures of boundary errors (s) and of the certainties told of them, as one JSON line."""
    e = np.asarray(errors)
    size = np.abs(e)
    out: dict[str, object] = {
        "boundaries": len(e), "bias_ms": round(1e3 * float(e.mean()), 2), "mae_ms": round(1e3 * float(size.mean()), 2),
        "median_ms": round(1e3 * float(np.median(size)), 2),
        **{f"within_{t}_ms": round(100 * float((size <= t / 1e3 + 1e-6).mean()), 2) for t in (10, 20, 50)},
    }  # fmt: skip
    if len(certainties):
        c, right = np.asarray(certainties), size <= 0.020 + 1e-6
        order = np.argsort(c)
        bins = np.array_split(order, min(10, len(c)))
        out["ece_percent"] = round(100 * sum(abs(c[b].mean() - right[b].mean()) * len(b) for b in bins) / len(c), 2)
        for name, wrong in (("off_20_ms", ~right), ("off_50_ms", size > 0.05)):
            out[f"least_certain_tenth_holds_{name}"] = round(100 * float(wrong[bins[0]].sum() / max(1, wrong.sum())), 1)
    out |= more
    print(json.dumps(out), flush=True)
    return out


@dataclasses.dataclass(frozen=True)
class Found:
    """A boundary of a reference and where it was found: error (s), error of the nearest multiple of --grid, and what was said."""

    error: float
    on_grid: float
    certain: float
    inside: bool
    beside_silence: bool
    beside_short: bool


def measure_alignment(given: argparse.Namespace, aligner: PhoneAligner) -> None:
    """Phones of the reference given, their boundaries found."""
    found: list[Found] = []
    seconds, began = 0.0, time.process_time()
    for audio, reference in sounds(given, aligner):
        answer = aligner.align_phones(audio, [str(s.label) for s in reference])
        for n, (p, s) in enumerate(zip(answer.phones, reference, strict=True)):
            if n == 0:
                continue
            right, sides = s.start + given.shift, (reference[n - 1], s)
            nearest = round(p.start / given.grid) * given.grid if given.grid else p.start
            found.append(Found(
                p.start - right, nearest - right, p.within, p.start_low <= right <= p.start_high,
                any(x.label == aligner.silence for x in sides), any(x.end - x.start < SHORT for x in sides),
            ))  # fmt: skip
        seconds += audio.duration
    spent = time.process_time() - began
    report_found(found, given.grid, times_real_time=round(seconds / spent, 1), seconds=round(seconds))
    if given.kinds:
        report_found([b for b in found if not b.beside_silence], given.grid, kind="between two phones")
        report_found([b for b in found if b.beside_silence], given.grid, kind="beside silence")
        report_found([b for b in found if b.beside_short], given.grid, kind="beside a segment of 30 ms or less")
        report_found([b for b in found if not b.beside_short], given.grid, kind="beside longer segments")


def report_found(found: Sequence[Found], grid: float, **more: object) -> None:
    """The figures of some boundaries."""
    coverage = round(100 * float(np.mean([b.inside for b in found])), 1)
    if grid:
        close = [abs(b.on_grid) <= 0.020 + 1e-6 for b in found]
        more |= {"within_20_ms_on_grid": round(100 * float(np.mean(close)), 2)}
    report([b.error for b in found], [b.certain for b in found], interval_90_holds=coverage, **more)


def measure_refining(given: argparse.Namespace, aligner: PhoneAligner) -> None:
    """Boundaries of the reference moved by a normal error, then refined."""
    random = np.random.default_rng(5)
    before, after = [], []
    for audio, reference in sounds(given, aligner):
        right = np.array([0.0, *(s.start + given.shift for s in reference[1:])])
        moved = right + np.r_[0.0, random.normal(0.0, given.spread, len(right) - 1)]
        moved = np.minimum(np.maximum.accumulate(moved), audio.duration - 0.001 * np.arange(len(right), 0, -1))
        ends = [*moved[1:], audio.duration]
        noisy = [Segment(a, max(a, b), s.label) for a, b, s in zip(moved, ends, reference, strict=True)]
        answer = aligner.refine(audio, noisy, spread=given.spread, window=4 * given.spread)
        before += (moved[1:] - right[1:]).tolist()
        after += (np.array([p.start for p in answer.phones]) - right)[1:].tolist()
    report(before, stage="given")
    report(after, stage="refined")


def measure_recognition(given: argparse.Namespace, aligner: PhoneAligner) -> None:
    """Phone error rate, silence counted as a label and left out."""
    totals, plain, phones, bare = np.zeros(3), np.zeros(3), 0, 0
    seconds, began = 0.0, time.process_time()
    for audio, reference in sounds(given, aligner):
        found = [p.label for p in aligner.recognize(audio).phones]
        labels = [str(aligner.spell(str(s.label))) for s in reference]
        totals += edits.count(labels, found)
        phones += len(labels)
        quiet = aligner.silence
        a, b = [y for y in labels if y != quiet], [y for y in found if y != quiet]
        plain += edits.count(a, b)
        bare += len(a)
        seconds += audio.duration
    spent = time.process_time() - began
    sub, dele, ins = (round(100 * float(v) / phones, 2) for v in totals)
    print(json.dumps({
        "per": round(100 * float(totals.sum()) / phones, 2), "substitutions": sub, "deletions": dele, "insertions": ins,
        "per_without_silence": round(100 * float(plain.sum()) / bare, 2), "phones": phones,
        "times_real_time": round(seconds / spent, 1), "decoding": aligner.decoding_,
    }), flush=True)  # fmt: skip


def calibrate_decoding(given: argparse.Namespace, aligner: PhoneAligner) -> None:
    """Choose how the recogniser decodes by the recordings of FOLDER, and write the model with it; nothing else changes."""
    held = [
        (audio, [str(aligner.spell(str(s.label))) for s in reference]) for audio, reference in sounds(given, aligner)
    ]
    error = calibration.calibrate_decoding(aligner, held)
    print(json.dumps({"recordings": len(held), "phone_error": error, "decoding": aligner.decoding_}))
    aligner.save(given.out)


def noisy(samples: NDArray[np.float32], random: np.random.Generator) -> NDArray[np.float32]:
    """The sound through a smooth channel (3 dB), with coloured noise 5 to 28 dB below it."""
    power = float(np.mean(np.square(samples))) + 1e-10
    count = len(samples)
    white = np.fft.rfft(random.normal(size=count))
    tilt = (np.arange(len(white)) + len(white) / 200) ** -random.uniform(0.0, 1.0)
    noise = np.fft.irfft(white * tilt, count)
    bends = np.interp(np.linspace(0, 1, len(white)), np.linspace(0, 1, 9), random.normal(0.0, 0.35, 9))
    heard = np.fft.irfft(np.fft.rfft(samples) * np.exp(bends), count)
    heard *= np.sqrt(power / (np.mean(np.square(heard)) + 1e-10))
    level = np.sqrt(power * 10 ** (-random.uniform(5.0, 28.0) / 10)) / (noise.std() + 1e-9)
    return np.asarray(heard + level * noise, dtype=np.float32)


def examples(
    found: Sequence[Utterance],
    labels: Sequence[str],
    features: FeatureSettings,
    warps: Sequence[float],
    shift: float,
    *,
    noises: Sequence[float] = (),
    tolerance: int = 0,
    short: float = 0.0,
) -> list[Example]:
    """Frames and labels of recordings; those that cannot be used are told and left out. For the rest see `Example`."""
    index = {y: n for n, y in enumerate(labels)}
    silence = next(y for y in labels if y.casefold() in SILENCES)
    out = []
    for n, u in enumerate(found):
        audio = decode(u.audio, rate=features.rate)
        random = np.random.default_rng(n)
        reference = touching(u, audio.duration, silence)
        if audio.duration > 15 or any(s.label not in index for s in reference):
            print(f"left out {u.id}", file=sys.stderr)
            continue
        track = [warp_frames(audio.samples, features, w).astype(np.float16) for w in warps]
        track += [warp_frames(noisy(audio.samples, random), features, w).astype(np.float16) for w in noises]
        segments = [(s.start, s.end, index[str(s.label)]) for s in reference]
        out.append(Example(track, segments, shift, tolerance, short))
    return out


def train(given: argparse.Namespace) -> None:
    """A model from the labels of FOLDER, and of --exact without a shift."""
    found = utterances(given)
    held, rest = found[: given.dev], found[given.dev :]
    if given.hold_speakers:
        out = set(sorted({str(u.speaker) for u in found})[:: given.hold_speakers])
        held = [u for u in found if str(u.speaker) in out][: given.dev]
        rest = [u for u in found if str(u.speaker) not in out]
    exact = corpora.read(given.exact).utterances if given.exact else []
    features = FeatureSettings()
    names = {str(s.label) for u in rest for s in u.segments if s.label and s.label not in NOISE}
    quiet = next((y for y in sorted(names) if y.casefold() in SILENCES), "SIL")
    labels = sorted(names | {quiet})
    model = SegmentalSettings(units=given.units, products=given.products, states=given.states)
    training = SegmentalTraining(
        epochs=given.epochs, pretraining=given.pretraining, warps=tuple(given.warps), rate=given.rate, seed=given.seed,
        placement=given.placement, every=given.every,
    )  # fmt: skip
    aligner = PhoneAligner(model, training=training, features=features, card=Card(given.name))
    aligner.labels_ = labels
    data = examples(
        rest,
        labels,
        features,
        given.warps,
        given.shift,
        noises=given.noises,
        tolerance=given.tolerance,
        short=given.short,
    )
    data += given.repeat_exact * examples(exact, labels, features, given.warps, 0.0, noises=given.noises)
    dev = examples(held, labels, features, (1.0,), given.shift)
    base = PhoneAligner.load(given.base) if given.base else None
    network = learning.build(model, len(labels), given.seed) if base is None else base._require_network()

    def tell(epoch: Epoch) -> None:
        print(json.dumps(dataclasses.asdict(epoch)), flush=True)

    learning.train(network, data, dev, training, warm=base is not None, report=tell)
    aligner.network_ = network.eval()
    aligner.provenance_ = Provenance.now(command=" ".join(sys.argv[1:]), seed=given.seed, corpus=given.name)
    aligner.save(given.out)


def add_recordings(parser: argparse.ArgumentParser, shift: float = 0.0) -> None:
    """The arguments of `utterances`: a folder, which of its recordings, and how far its boundaries are moved (s)."""
    parser.add_argument("folder", type=Path)
    parser.add_argument("--split")
    parser.add_argument("--per-speaker", action="store_true")
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--skip", type=int, default=0)
    parser.add_argument("--shift", type=float, default=shift)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("align", "refine", "recognize", "calibrate", "train"):
        one = commands.add_parser(name)
        if name != "train":
            one.add_argument("model", type=Path)
        add_recordings(one)
        one.add_argument("--spread", type=float, default=0.03)
        one.add_argument("--grid", type=float, default=0.0, help="times of the reference are multiples of this (s)")
        one.add_argument("--kinds", action="store_true", help="the figures of some kinds of boundaries too")
        one.add_argument("--temperature", type=float)
        one.add_argument("--bias", type=float, help="the model's, instead of the file's")
        if name == "calibrate":
            one.add_argument("--out", type=Path, required=True)
        if name == "train":
            one.add_argument("out", type=Path)
            one.add_argument("--exact", type=Path, help="corpus whose times are exact, beside FOLDER")
            one.add_argument("--base", type=Path)
            one.add_argument("--name", default="alignment")
            one.add_argument("--dev", type=int, default=40, help="utterances held out")
            one.add_argument("--hold-speakers", type=int, default=0, help="hold out every so many speakers, by name")
            one.add_argument("--repeat-exact", type=int, default=1, help="how often --exact is in an epoch")
            one.add_argument("--placement", type=float, default=0.0, help="weight of the loss of boundaries")
            one.add_argument("--tolerance", type=int, default=0, help="frames to which FOLDER's boundaries are right")
            one.add_argument("--short", type=float, default=0.0, help="those of segments up to so long are not trusted")
            one.add_argument("--every", type=int, default=1, help="batches to one with the segmental loss")
            one.add_argument("--warps", type=float, nargs="+", default=[1.0])
            one.add_argument("--noises", type=float, nargs="*", default=[], help="warps of noisy versions")
            one.add_argument("--rate", type=float, default=2e-3)
            one.add_argument("--units", type=int, default=96)
            one.add_argument("--products", type=int, default=1)
            one.add_argument("--states", type=int, default=2)
            one.add_argument("--epochs", type=int, default=12)
            one.add_argument("--pretraining", type=int, default=2)
            one.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.command == "train":
        train(given)
        return
    aligner = PhoneAligner.load(given.model)
    if given.temperature is not None:
        aligner.temperature_ = given.temperature
    if given.bias is not None:
        aligner.shift_ = given.bias
    work = {
        "align": measure_alignment, "refine": measure_refining, "recognize": measure_recognition,
        "calibrate": calibrate_decoding,
    }  # fmt: skip
    work[given.command](given, aligner)


if __name__ == "__main__":
    main()
