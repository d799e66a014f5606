"""What labelling takes of memory, by the number of segments of one recording.

    python benchmarks/memory.py                              1,000 to 60,000 segments, a process each
    python benchmarks/memory.py --segments 60000 --limit 600
    python benchmarks/memory.py --decode viterbi             the most probable sequence as well
    python benchmarks/memory.py --sound                      from a WAV file of 16 kHz and a list of segments
    python benchmarks/memory.py --model paper

The model labels drawn features: 0.12 s of frames per segment, or its 92 features. Without --sound, sound is not
part of it. Each number is the peak of a process of its own (ru_maxrss), with what importing and loading took beside it.
Posteriors and sequences of long recordings are computed in windows; they are compared with those of the whole for up to
--compare segments.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # run from a checkout


def peak() -> float:
    """Largest resident size of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


SECONDS = 0.12
"""Duration of a segment: 60,000 are two hours."""


def draw(segments: int, features: Any) -> Any:
    """Inputs of that many segments, as extract_inputs gives them."""
    from phonechain.features.inputs import Inputs
    from phonechain.features.pooling import DIMENSION

    random = np.random.default_rng(0)
    starts = SECONDS * np.arange(segments)
    frames = np.zeros((0, 0), dtype=np.float32)
    if features.bands:
        count = int(segments * SECONDS / features.frame_period) + 1
        frames = random.standard_normal((count, features.bands), dtype=np.float32) * 2 - 6
    rows = random.standard_normal((segments, DIMENSION if features.pooled else 0), dtype=np.float32)
    return Inputs(rows, np.stack([starts, starts + SECONDS], 1), frames, features.frame_period)


def record(segments: int, folder: Path) -> tuple[Path, Any]:
    """A WAV file of noise, and as many segments."""
    import soundfile

    from phonechain.app.labelling.pipeline import list_to_annotation
    from phonechain.features.segments import Segment

    path = folder / "noise.wav"
    random = np.random.default_rng(0)
    with soundfile.SoundFile(path, "w", 16000, 1, "PCM_16") as file:
        for _ in range(0, segments, 1000):
            file.write(0.1 * random.standard_normal(int(1000 * SECONDS * 16000), dtype=np.float32))
    return path, list_to_annotation([Segment(SECONDS * n, SECONDS * (n + 1)) for n in range(segments)])


def label(segments: int, compare: bool, options: argparse.Namespace) -> None:
    """Print the peak before and after, the seconds between, and the distance from the whole at once."""
    import torch

    from phonechain.model import pretrained_path
    from phonechain.model.labeler import PhoneLabeler
    from phonechain.model.networks import crf

    torch.set_num_threads(1)
    labeler = PhoneLabeler.load(pretrained_path(options.model) if options.model else pretrained_path())
    viterbi = options.decode == "viterbi"
    labeler.posteriors([draw(40, labeler.features_)], viterbi=viterbi)
    with tempfile.TemporaryDirectory() as folder:
        if options.sound:
            from phonechain.app.labelling.pipeline import prepare_utterance

            path, annotation = record(segments, Path(folder))
            loaded, start = peak(), time.perf_counter()
            ready = prepare_utterance(path, annotation, labeler.features_, max_seconds=1e5)
            inputs = ready.inputs
        else:
            inputs = draw(segments, labeler.features_)
            loaded, start = peak(), time.perf_counter()
        prepared = peak()
        posteriors, best = labeler.posteriors([inputs], viterbi=viterbi)
    seconds, used = time.perf_counter() - start, peak()
    distance = ""
    if compare:
        crf.BUDGET = 2**60
        whole, best_of_whole = labeler.posteriors([inputs], viterbi=viterbi)
        differ = int((best[0] != best_of_whole[0]).sum())
        distance = f"{np.abs(whole[0] - posteriors[0]).max():.1e}, {differ} labels (whole: {peak():.0f} MB)"
    print(f"{segments:>9,}{loaded:>12.0f}{prepared:>14.0f}{used:>10.0f}{seconds:>10.1f}   {distance}")


def main() -> int:
    """Run; returns 1 where the peak passes --limit."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--segments", type=int, nargs="+", default=[1000, 4000, 16000, 60000])
    parser.add_argument(
        "--compare", type=int, default=8000, metavar="N", help="compare with the whole up to N segments"
    )
    parser.add_argument("--model", default=None, help="name of a shipped model")
    parser.add_argument("--decode", choices=("posterior", "viterbi"), default="posterior")
    parser.add_argument("--sound", action="store_true", help="decode and extract features too")
    parser.add_argument("--limit", type=float, default=None, metavar="MB")
    parser.add_argument("--one", type=int, default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        label(options.one, options.one <= options.compare, options)
        return 0
    print(
        f"{'segments':>9}{'loaded, MB':>12}{'features, MB':>14}{'peak, MB':>10}{'seconds':>10}   distance from the whole"
    )
    worst = 0.0
    for segments in options.segments:
        command = [sys.executable, __file__, "--one", str(segments), "--compare", str(options.compare)]
        command += ["--decode", options.decode, *(["--model", options.model] if options.model else [])]
        command += ["--sound"] if options.sound else []
        line = subprocess.run(command, check=True, capture_output=True, text=True).stdout.rstrip("\n")
        print(line, flush=True)
        worst = max(worst, float(line.split()[3]))
    return 1 if options.limit is not None and worst > options.limit else 0


if __name__ == "__main__":
    sys.exit(main())
