"""How far minutes of labels go, preset by preset and with `auto`: `python -m experiments.little_data DATA`.

Of a corpus of one speaker the last 100 recordings are the test; training takes the first minutes of the others. Of a corpus
of many speakers the ten of the split `test` who speak most are the material, all others of that split the test: none of them
has been heard by the shipped model that `auto` may go on from. Nothing is chosen by the test set. `--files` joins the same
material into so many recordings, or cuts it into so many at its pauses. Finished cells are kept in `runs/little-data.jsonl` and
not computed again; the section of RESULTS.md is written from all of them.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import soundfile

from experiments import report
from experiments.cells import commit
from phonechain.features import corpora
from phonechain.features.audio.utterances import decode_utterance
from phonechain.features.phones.notation import nonspeech
from phonechain.features.segment_checks import prepare
from phonechain.features.segments import Segment, Utterance
from phonechain.model import pretrained_path
from phonechain.model.labeler import PhoneLabeler
from phonechain.model.presets import AUTO, preset
from phonechain.model.scoring.evaluation import evaluate

TEST = 100
SPEAKERS = 10
RATE = 16_000
PAUSE = 0.25
"""Seconds of silence between recordings that are joined."""
NAME = "little-data"
SYSTEMS = ("spn-lc-crf", "spn-ho-lc-crf", "blstm-seg-lc-crf", "blstm-ho-lc-crf", "warm", AUTO)
"""`warm`: blstm-ho-lc-crf from the encoder of the shipped model, 20 epochs."""


def parts_of(root: Path) -> tuple[list[Utterance], list[Utterance]]:
    """(material in order, test)."""
    every = sorted(corpora.read(root).utterances, key=lambda u: u.id)
    if not any(u.split == "test" for u in every):
        return every[:-TEST], every[-TEST:]
    spoken: dict[str, list[Utterance]] = defaultdict(list)
    for u in every:
        if u.split == "test":
            spoken[str(u.speaker)].append(u)
    most = sorted(spoken, key=lambda s: (-seconds(spoken[s]), s))[:SPEAKERS]
    turns = max(len(spoken[s]) for s in most)
    material = [spoken[s][n] for n in range(turns) for s in most if n < len(spoken[s])]
    return material, [u for s in sorted(spoken) if s not in most for u in spoken[s]][::3]


def seconds(utterances: Sequence[Utterance]) -> float:
    """Of labelled speech."""
    return sum(s.end - s.start for u in utterances for s in u.segments)


def first_minutes(utterances: Sequence[Utterance], minutes: float) -> list[Utterance]:
    """As many utterances, in order, as make up that much labelled speech."""
    chosen: list[Utterance] = []
    heard = 0.0
    for u in utterances:
        if heard >= 60 * minutes:
            break
        chosen.append(u)
        heard += seconds([u])
    return chosen


def join(utterances: Sequence[Utterance], files: int, folder: Path) -> list[Utterance]:
    """The same speech in so many recordings of about as many utterances, with a short silence between them."""
    made = []
    for n, group in enumerate(np.array_split(np.arange(len(utterances)), files)):
        sound: list[np.ndarray] = []
        segments: list[Segment] = []
        at = 0.0
        for index in group:
            audio = decode_utterance(utterances[index], rate=RATE)
            own, _ = prepare(utterances[index].segments, audio.duration)
            segments += [Segment(at + s.start, at + s.end, s.label) for s in own]
            sound += [audio.samples, np.zeros(int(PAUSE * RATE), dtype=np.float32)]
            at += (len(audio.samples) + int(PAUSE * RATE)) / RATE
        path = folder / f"{n:03d}.wav"
        soundfile.write(path, np.concatenate(sound), RATE, subtype="PCM_16")
        speakers = {utterances[index].speaker for index in group}
        made.append(Utterance(path.stem, path, segments, speakers.pop() if len(speakers) == 1 else None))
    return made


def split(utterances: Sequence[Utterance], files: int, folder: Path) -> list[Utterance]:
    """The same speech in so many recordings: the longest is cut before the pause nearest its middle, again and again."""
    parts = [(u, 0, len(u.segments)) for u in utterances]
    while len(parts) < files:
        longest = max(range(len(parts)), key=lambda n: parts[n][2] - parts[n][1])
        u, begin, end = parts[longest]
        pauses = [n for n in range(begin + 1, end) if nonspeech(u.segments[n].label or "") == "silence"]
        at = min(pauses or range(begin + 1, end), key=lambda n: abs(2 * n - begin - end))
        parts[longest : longest + 1] = [(u, begin, at), (u, at, end)]
    made = []
    for n, (u, begin, end) in enumerate(parts):
        audio = decode_utterance(u, rate=RATE)
        segments = u.segments[begin:end]
        first = 0.0 if begin == 0 else segments[0].start
        last = audio.duration if end == len(u.segments) else segments[-1].end
        path = folder / f"{n:03d}.wav"
        soundfile.write(path, audio.samples[round(first * RATE) : round(last * RATE)], RATE, subtype="PCM_16")
        moved = [Segment(s.start - first, s.end - first, s.label) for s in segments]
        made.append(Utterance(path.stem, path, moved, u.speaker))
    return made


def regroup(utterances: list[Utterance], files: int, folder: Path) -> list[Utterance]:
    """The same speech in so many recordings, kept in `folder`; 0: as it is."""
    if files in (0, len(utterances)):
        return utterances
    return (join if files < len(utterances) else split)(utterances, files, folder)


def labeler(system: str, base: PhoneLabeler, seed: int) -> tuple[PhoneLabeler, PhoneLabeler | None]:
    """(an untrained labeler, the base that it goes on from)."""
    if system == AUTO:
        return PhoneLabeler(AUTO, training=replace(preset(AUTO).training, seed=seed)), base
    given = preset("blstm-ho-lc-crf" if system == "warm" else system)
    training = replace(given.training, seed=seed)
    if system in ("warm", "blstm-ho-lc-crf"):
        training = replace(training, epochs=20)
    if system != "warm":
        return PhoneLabeler(system, training=training), None
    return PhoneLabeler(given.name, model=base.system.model, training=training, features=base.features_), base


def train(name: str, utterances: list[Utterance], base: PhoneLabeler | None, epochs: int) -> PhoneLabeler:
    """A preset on some utterances, from the encoder of a base where there is one."""
    given = preset(name)
    made = PhoneLabeler(
        name, model=base.system.model if base is not None else given.model, training=replace(given.training, epochs=epochs),
        features=base.features_ if base is not None else None,
    )  # fmt: skip
    return made.fit(utterances, base=base)


def compute(
    system: str, utterances: list[Utterance], test: list[Utterance], base: PhoneLabeler, seed: int
) -> dict[str, Any]:
    """Train and score one cell."""
    untrained, start = labeler(system, base, seed)
    spent, began = time.process_time(), time.perf_counter()
    trained = untrained.fit(utterances, base=start)
    spent, began = time.process_time() - spent, time.perf_counter() - began
    found = evaluate(trained, test)
    return {
        "error": found.per, "ece": found.ece, "segments": found.segments, "dev_error": trained.metrics_["dev_error"],
        "cpu": round(spent, 1), "wall": round(began, 1), "chosen": trained.system.name if system == AUTO else "",
        "candidates": trained.metrics_.get("candidates", []), "commit": commit(),
    }  # fmt: skip


def section(results: Sequence[dict[str, Any]]) -> str:
    """The Markdown of all cells."""
    lines = [
        "## Little data",
        "",
        "Phone error in per cent. festvox-ru: the last 100 recordings, after the first minutes of the others; speechocean762: "
        "every third recording of the test split's other speakers, after ten of that split who speak most. Nothing is chosen by "
        "the test set. `python -m experiments.little_data DATA`",
        "",
        "| corpus | minutes | files | system | seed | error | ECE | dev error | CPU s | commit |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for r in sorted(results, key=lambda r: (r["corpus"], r["minutes"], -r["files"], r["error"])):
        system = f"`{r['system']}`" + (f" ({r['chosen']})" if r["chosen"] else "")
        lines.append(
            f"| {r['corpus']} | {r['minutes']:g} | {r['files']} | {system} | {r['seed']} | {100 * r['error']:.1f} | "
            f"{100 * r['ece']:.1f} | {100 * r['dev_error']:.1f} | {r['cpu']:.0f} | {r['commit']} |"
        )
    return "\n".join(lines) + "\n"


def main(given: list[str] | None = None) -> int:
    """Compute what is missing, and write the section of RESULTS.md."""
    parser = argparse.ArgumentParser(prog="python -m experiments.little_data", description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--base", default="english")
    parser.add_argument("--minutes", type=float, nargs="+", default=[5, 10, 30])
    parser.add_argument("--systems", nargs="+", default=SYSTEMS, choices=SYSTEMS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument(
        "--files", type=int, nargs="+", default=[0], help="Join or cut the material into so many; 0: as it is."
    )
    parser.add_argument("--runs", type=Path, default=Path(__file__).parent / "runs")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "RESULTS.md")
    options = parser.parse_args(given)
    material, test = parts_of(options.data)
    base = PhoneLabeler.load(options.base if Path(options.base).is_file() else pretrained_path(options.base))
    base = base.trainable()
    store = report.Store(options.runs)
    for minutes in options.minutes:
        chosen = first_minutes(material, minutes)
        for files in options.files:
            with TemporaryDirectory() as folder:
                utterances = regroup(chosen, files, Path(folder))
                for system in options.systems:
                    for seed in options.seeds:
                        facts = {
                            "corpus": options.data.resolve().name, "minutes": minutes, "files": len(utterances), "system": system,
                            "seed": seed, "base": base.version_,
                        }  # fmt: skip
                        key = " ".join([NAME, *map(str, facts.values())])
                        if store.get(key) is not None:
                            continue
                        result = {"key": key, **facts, **compute(system, utterances, test, base, seed)}
                        store.add(NAME, result)
                        print(f"{key}: {100 * result['error']:.1f} % {result['chosen']} {result['cpu']} s", flush=True)
    report.write(options.results, section([r for r in store.results() if r["key"].startswith(f"{NAME} ")]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
