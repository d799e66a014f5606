"""A corpus from disk to disk: `phonechain label`, `convert` and `check` of a folder, and where the time of labelling goes.

    python benchmarks/corpus.py [--recordings 600] [--model paper default] [--cores 1 2]

The recordings are those of speechocean762's test speakers (PHONECHAIN_SHARED, or `shared` beside the checkout), else the
sample many times, as WAV of 16 kHz with Praat TextGrids. Each command is a process of its own, started again for each row
and held to so many cores; the seconds of the same command over one recording are its start, and are taken off. Shares are
of one process that calls the stages one after the other, and so are of processor time.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # modules are compiled, as an installed package has them
ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import soundfile  # noqa: E402

from phonechain.app import samples  # noqa: E402
from phonechain.features import annotation as notation  # noqa: E402

SHARED = Path(os.environ.get("PHONECHAIN_SHARED", ROOT.parent / "shared"))


def make_corpus(folder: Path, count: int) -> tuple[int, float]:
    """Write `count` recordings; how many segments and seconds of sound they hold."""
    found = sorted((SHARED / "data/speechocean762/test").glob("*/*.lab"))[:count]
    pairs = [(lab.with_suffix(".ogg"), lab) for lab in found] or [(samples.AUDIO, samples.SEGMENTS)]
    segments, seconds = 0, 0.0
    for n in range(count):
        audio, lab = pairs[n % len(pairs)]
        data, rate = soundfile.read(audio, dtype="int16")
        annotation = notation.read(lab.read_bytes(), name=lab.name)
        target = folder / f"speaker{n // 20:03d}"
        target.mkdir(parents=True, exist_ok=True)
        soundfile.write(target / f"{n:05d}.wav", data, rate, subtype="PCM_16")
        (target / f"{n:05d}.TextGrid").write_bytes(notation.write(annotation, "textgrid"))
        segments += len(annotation.tiers[0].entries)
        seconds += len(data) / rate
    return segments, seconds


def run(cores: int, *command: str) -> float:
    """Seconds of `phonechain` with this command, held to so many cores."""
    begun = time.perf_counter()
    free = sorted(os.sched_getaffinity(0))[:cores]
    subprocess.run(
        [sys.executable, "-m", "phonechain.app.cli", *command],
        check=True,
        env=dict(os.environ, PYTHONPATH=str(ROOT)),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: os.sched_setaffinity(0, free),
    )
    return time.perf_counter() - begun


def fill(command: Sequence[str], folder: Path, out: Path) -> list[str]:
    """The command with its folders."""
    return [str({"IN": folder, "OUT": out}.get(part, part)) for part in command]


class Stages:
    """Processor time by stage."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        begun = time.process_time()
        yield
        self.spent[name] = self.spent.get(name, 0.0) + time.process_time() - begun

    def time_calls(self, name: str, work: Callable[..., object]) -> Callable[..., object]:
        """`work`, whose time counts for a stage."""

        def call(*args: object, **kwargs: object) -> object:
            with self.stage(name):
                return work(*args, **kwargs)

        return call


def shares(folder: Path, out: Path, model: str) -> dict[str, float]:
    """Seconds of processor time by stage, one process; the stages are cut apart by wrapping the functions between them."""
    from unittest import mock

    from phonechain.app.cli import common
    from phonechain.app.cli import label_folder as command
    from phonechain.features import inputs as extraction
    from phonechain.features.audio import reader
    from phonechain.features.corpora import candidates
    from phonechain.model.phone_model import PhoneModel

    stages = Stages()
    cut = (
        (type(command._load(model, "cpu").model_.network), "potentials", "scores"),
        (common, "load_model", "loading"),
        (candidates, "annotation_of", "reading annotations"),
        (reader, "decode", "decoding sound"),
        (extraction, "extract_inputs", "features"),
        (PhoneModel, "label", "model"),
        (command, "_write", "writing"),
    )
    patches = []
    for owner, name, stage in cut:
        original = getattr(owner, name)
        for module in [owner, *[m for m in list(sys.modules.values()) if getattr(m, name, None) is original]]:
            patches.append(mock.patch.object(module, name, stages.time_calls(stage, original)))
    for patch in patches:
        patch.start()
    begun = time.process_time()
    options = ["label", str(folder), "--out", str(out), "--model", model, "--format", "textgrid"]
    with mock.patch.object(command, "MANY", 10**9):
        from phonechain.app.cli import main as cli

        cli(options)
    whole = time.process_time() - begun
    mock.patch.stopall()
    whole -= stages.spent.pop("loading")
    stages.spent["model beside scores"] = stages.spent.pop("model") - stages.spent["scores"]
    stages.spent["the rest"] = whole - sum(stages.spent.values())
    return stages.spent


def main() -> int:
    """Run, print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--recordings", type=int, default=600)
    parser.add_argument("--model", nargs="+", default=["paper", "default"])
    parser.add_argument("--cores", nargs="+", type=int, default=[1, 2])
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, one = Path(name) / "in", Path(name) / "one"
        segments, seconds = make_corpus(folder, asked.recordings)
        make_corpus(one, 1)
        print(f"{asked.recordings} recordings, {segments} segments, {seconds / 60:.1f} minutes; start taken off\n")
        print("| command | cores | seconds | segments/s | times real time | ms per file | start, s |")
        print("|---|---|---|---|---|---|---|")
        label = ("label", "IN", "--format", "textgrid", "--out", "OUT", "--model")
        commands = [
            *((f"label, {model}", (*label, model)) for model in asked.model),
            ("label, default, bfloat16", (*label, "default", "--precision", "bfloat16")),
            ("convert to CSV", ("convert", "IN", "OUT", "--to", "csv")),
            ("check", ("check", "IN")),
        ]
        for title, command in commands:
            for cores in asked.cores:
                out = Path(name) / f"out-{title}-{cores}"
                start = run(cores, *fill(command, one, out.with_name(out.name + "-one")))
                spent = max(run(cores, *fill(command, folder, out)) - start, 1e-9)
                print(
                    f"| {title} | {cores} | {spent:.1f} | {segments / spent:.0f} | {seconds / spent:.0f} "
                    f"| {1e3 * spent / asked.recordings:.1f} | {start:.1f} |",
                    flush=True,
                )
        print()
        for model in asked.model:
            found = shares(folder, Path(name) / f"shares-{model}", model)
            whole = sum(found.values())
            parts = ", ".join(f"{stage} {100 * spent / whole:.0f} %" for stage, spent in found.items())
            print(f"{model}: {1e3 * whole / asked.recordings:.1f} ms of one core per file: {parts}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
