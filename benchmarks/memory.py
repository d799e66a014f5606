"""What labelling takes of memory, by the number of segments of one recording.

    python benchmarks/memory.py                       1,000 to 60,000 segments, a process each
    python benchmarks/memory.py --segments 60000 --limit 600

The English model labels drawn features; sound and annotation are not part of it. Each number is the peak of a process of its
own (ru_maxrss), with what importing and loading took beside it. Posteriors of long recordings are computed in windows; they
are compared with those of the whole for up to --compare segments.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # run from a checkout


def peak() -> float:
    """Largest resident size of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def label(segments: int, compare: bool) -> None:
    """Print the peak before and after, the seconds between, and the distance from the whole at once."""
    import torch

    from phonechain.model import pretrained_path
    from phonechain.model.labeler import PhoneLabeler
    from phonechain.model.networks import crf

    torch.set_num_threads(1)
    labeler = PhoneLabeler.load(pretrained_path())
    normaliser = labeler.normaliser_
    assert normaliser is not None
    mean, std = normaliser.mean.numpy(), normaliser.std.numpy()
    features = mean + std * np.random.default_rng(0).standard_normal((segments, len(mean)), dtype=np.float32)
    labeler.posteriors([features[:40]])
    loaded, start = peak(), time.perf_counter()
    posteriors, _ = labeler.posteriors([features])
    seconds, used = time.perf_counter() - start, peak()
    distance = ""
    if compare:
        crf.BUDGET = 2**60
        whole, _ = labeler.posteriors([features])
        distance = f"{np.abs(whole[0] - posteriors[0]).max():.1e} (whole: {peak():.0f} MB)"
    print(f"{segments:>9,}{loaded:>12.0f}{used:>10.0f}{seconds:>10.1f}   {distance}")


def main() -> int:
    """Run; returns 1 where the peak passes --limit."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--segments", type=int, nargs="+", default=[1000, 4000, 16000, 60000])
    parser.add_argument(
        "--compare", type=int, default=8000, metavar="N", help="compare with the whole up to N segments"
    )
    parser.add_argument("--limit", type=float, default=None, metavar="MB")
    parser.add_argument("--one", type=int, default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        label(options.one, options.one <= options.compare)
        return 0
    print(f"{'segments':>9}{'loaded, MB':>12}{'peak, MB':>10}{'seconds':>10}   distance from the whole")
    worst = 0.0
    for segments in options.segments:
        command = [sys.executable, __file__, "--one", str(segments), "--compare", str(options.compare)]
        line = subprocess.run(command, check=True, capture_output=True, text=True).stdout.rstrip("\n")
        print(line, flush=True)
        worst = max(worst, float(line.split()[2]))
    return 1 if options.limit is not None and worst > options.limit else 0


if __name__ == "__main__":
    sys.exit(main())
