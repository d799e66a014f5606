"""What strangers may try at a service, done to a live one, with figures.

    python -m benchmarks.attack [--seconds 8] [--only NAME ...]

The service runs as a process of its own on the loopback, with keys, a worker process and short deadlines. While each attack
runs, another process labels the sample over and over: its latency is told as multiples of its median while nothing else
happens, right before and right after, so that a machine that is busy otherwise is the same for both. Memory is the service's
highest beside what it had before. An attack is held off where what it wants is refused, and where neither the median nor the
95th percentile of the latency passes `BAR` times the idle median. The exit code is 1 where one is not held off.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.attack import floods, intrusions
from benchmarks.attack.measure import beside
from benchmarks.attack.target import Check, Target, service

BAR = 3.0


def idle(target: Target) -> list[Check]:
    """Nothing."""
    return []


ATTACKS: dict[str, Callable[[Target], list[Check]]] = {
    one.__name__.replace("_", "-"): one
    for one in (
        idle, intrusions.other_sites, intrusions.others_jobs, intrusions.out_of_the_root, floods.odd_bodies,
        floods.many_files, floods.slow_heads, floods.slow_bodies, floods.hoard_bodies, floods.pax_header,
        floods.zips_of_zeros, intrusions.refuse_twins, floods.disconnect_clients, floods.long_recordings,
        intrusions.code_in_the_scheduler,
    )
}  # fmt: skip


def main() -> int:
    """Attack, print the table."""
    parser = argparse.ArgumentParser(description="What strangers may try, done to a live service, with figures.")
    parser.add_argument(
        "--seconds", type=float, default=5.0, help="least length of an attack, and of the idle time between two"
    )
    parser.add_argument("--only", nargs="*", choices=list(ATTACKS), help="these attacks alone")
    asked = parser.parse_args()
    chosen = ["idle", *(name for name in asked.only or ATTACKS if name != "idle")]
    held = True
    with tempfile.TemporaryDirectory(prefix="attack-") as name, service(Path(name), asked.seconds) as target:
        beside(target, idle)  # warm
        calm = beside(target, idle)[0].seconds
        print(
            f"{'attack':<22} {'held':<5} {'s':>5} {'MiB':>6} {'peak':>6} {'n':>5} {'p50 ms':>7} {'x idle':>7} "
            f"{'p95 ms':>7} {'x idle':>7}"
        )
        for name in chosen:
            measured, checks, spent = beside(target, ATTACKS[name])
            after = beside(target, idle)[0].seconds
            base = float(np.median(calm + after))
            calm = after
            p50, p95 = measured.quantile(0.5), measured.quantile(0.95)
            alive = target.process.poll() is None
            fast = max(p50, p95) <= BAR * base or name == "idle"
            good = alive and not measured.wrong and fast and all(ok for _, ok in checks)
            held &= good
            print(
                f"{name:<22} {'yes' if good else 'NO':<5} {spent:5.0f} {measured.before:6.0f} {measured.peak:6.0f} "
                f"{len(measured.seconds):5d} {1e3 * p50:7.0f} {p50 / base:7.1f} {1e3 * p95:7.0f} {p95 / base:7.1f}",
                flush=True,
            )
            for said, ok in checks:
                print(f"    {'' if ok else 'NOT '}{said}", flush=True)
            if measured.wrong:
                print(
                    f"    NOT {measured.wrong} of {len(measured.seconds)} answers of the probe were not 200", flush=True
                )
            assert alive, target.log[-3000:]
    print("held off" if held else "NOT held off")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
