"""What a stranger sends to a Dask cluster: code to run there.

    python -m benchmarks.attack.cluster attempt PORT FILE    write FILE through the cluster, with no certificate and a wrong one
    python -m benchmarks.attack.cluster open                 a cluster that takes code from everybody, to show that it works

`attempt` prints what came of each way in, and ends with the code `RAN` where the code ran.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

RAN = 9
ROOT = Path(__file__).resolve().parents[2]
_COMMAND = [sys.executable, "-m", "benchmarks.attack.cluster"]


def attempt(port: int, marker: Path) -> tuple[bool, str]:
    """(whether code ran through this port, what came of it)."""
    try:
        done = subprocess.run(
            [*_COMMAND, "attempt", str(port), str(marker)], capture_output=True, text=True, timeout=20, cwd=ROOT
        )
    except (
        subprocess.TimeoutExpired
    ):  # it waits for an answer that does not come; what runs later is seen by its marker
        return marker.exists(), "no answer"
    assert done.returncode in (0, RAN), done.stderr[-1000:]
    return done.returncode == RAN or marker.exists(), ", ".join(done.stdout.split("\n")).strip(", ")


@contextlib.contextmanager
def open_cluster() -> Iterator[int]:
    """The port of a scheduler that takes code from everybody."""
    process = subprocess.Popen(
        [*_COMMAND, "open"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=ROOT,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.stdin.close()
        process.wait(30)


def _attempt(port: str, marker: str) -> int:
    from distributed import Client
    from distributed.security import Security

    ran = False
    for scheme, security in (("tcp", None), ("tls", Security.temporary())):
        try:
            with Client(f"{scheme}://127.0.0.1:{port}", timeout=3, security=security, set_as_default=False) as client:
                client.submit(Path(marker).write_text, "x", pure=False).result(timeout=20)
            ran, said = True, "ran"
        except Exception as error:
            said = type(error).__name__
        print(f"{scheme} {said}", flush=True)
    return RAN if ran else 0


def _open() -> int:
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=1, processes=False, host="127.0.0.1", protocol="tcp://", dashboard_address=None
    ) as cluster:
        print(cluster.scheduler_address.rsplit(":", 1)[1], flush=True)
        sys.stdin.read()
    return 0


if __name__ == "__main__":
    sys.exit(_open() if sys.argv[1] == "open" else _attempt(*sys.argv[2:]))
