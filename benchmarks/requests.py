"""`POST /classify` of the sample: a request by itself against the same work without HTTP, and many clients at a time.

    python benchmarks/requests.py [--model paper] [--clients 16] [--seconds 8] [--processes 1 2]

The service is a process of its own; the clients here are sockets with a request that was put together before, so that
they take next to none of the cores. Printed are ratios of one run: the median of a kept connection and of new ones over
the same work in this process (bytes in, the answer's bytes out), and the requests per second of all clients. Each row is of
a service with so many processes.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SETTLE = 5.0
"""Seconds after the first answer in which further processes start."""
sys.path.insert(0, str(ROOT))

from phonechain.app import samples  # noqa: E402


def request_of(port: int, model: str, *, keep: bool = True) -> bytes:
    """The bytes of one request: recording and annotation of the sample as a form."""
    mark = "phonechain-benchmark"
    fields = (("audio", samples.AUDIO), ("segments", samples.SEGMENTS))
    parts = [
        f'--{mark}\r\nContent-Disposition: form-data; name="{name}"; filename="{path.name}"\r\n\r\n'.encode()
        + path.read_bytes()
        + b"\r\n"
        for name, path in fields
    ]
    body = b"".join(parts) + f"--{mark}--\r\n".encode()
    head = (
        f"POST /classify?model={model} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: {len(body)}\r\n"
        f"Content-Type: multipart/form-data; boundary={mark}\r\nConnection: {'keep-alive' if keep else 'close'}\r\n\r\n"
    )
    return head.encode() + body


class Client:
    """One connection."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, request: bytes) -> bytes:
        """The body of the answer. Raises RuntimeError where it is not 200."""
        self.socket.sendall(request)
        data = b""
        while (end := data.find(b"\r\n\r\n")) < 0:
            data += self._more()
        head, body = data[:end], data[end + 4 :]
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(head.split(b"\r\n")[0].decode())
        found = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
        assert found is not None
        while len(body) < int(found[1]):
            body += self._more()
        return body

    def _more(self) -> bytes:
        data = self.socket.recv(1 << 18)
        if not data:
            raise RuntimeError("the service closed the connection")
        return data

    def close(self) -> None:
        self.socket.close()


@contextmanager
def service(models: Path, processes: int = 1) -> Iterator[tuple[int, float]]:
    """A running service, its port, and the seconds from its start to the first answer."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as data:
        env = dict(os.environ, PHONECHAIN_DATA=data, PHONECHAIN_MODELS=str(models), PHONECHAIN_LOG_LEVEL="warning")
        env["PYTHONPATH"] = str(ROOT)
        command = [
            sys.executable,
            "-m",
            "phonechain.app.cli",
            "serve",
            "--port",
            str(port),
            "--processes",
            str(processes),
        ]
        begun = time.perf_counter()
        running = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL)
        try:
            request = request_of(port, "default")
            while True:
                try:
                    client = Client(port)
                    client.ask(request)
                    client.close()
                    break
                except (OSError, RuntimeError):
                    if running.poll() is not None or time.perf_counter() - begun > 60:
                        raise
                    time.sleep(0.02)
            yield port, time.perf_counter() - begun
        finally:
            running.send_signal(signal.SIGTERM)
            running.wait(30)


def alone(port: int, request: bytes, count: int, *, keep: bool) -> float:
    """The median of `count` requests, one after the other, ms."""
    client, spent = Client(port), []
    for n in range(count + 5):
        begun = time.perf_counter()
        if not keep and n:
            client = Client(port)
        client.ask(request)
        spent.append(time.perf_counter() - begun)
        if not keep:
            client.close()
    return 1e3 * statistics.median(spent[5:])


def together(port: int, request: bytes, clients: int, seconds: float) -> tuple[float, float]:
    """Answers per second, and the median of their latency in ms, while `clients` ask without a pause."""
    spent: list[float] = []
    stop = time.perf_counter() + seconds

    def run() -> None:
        client = Client(port)
        while (begun := time.perf_counter()) < stop:
            client.ask(request)
            spent.append(time.perf_counter() - begun)
        client.close()

    threads = [threading.Thread(target=run) for _ in range(clients)]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(spent) / (time.perf_counter() - begun), 1e3 * statistics.median(spent)


def bare(path: Path, count: int) -> tuple[float, float]:
    """Milliseconds of the same work in this process, the model's share of them."""
    from starlette.datastructures import QueryParams

    from phonechain.app.http.answers import ClassifyResult
    from phonechain.app.http.routes.classify import parse_request, prepare
    from phonechain.app.http.uploads import File, Upload
    from phonechain.app.labelling.batcher import LabelledUtterance, set_threads
    from phonechain.app.labelling.pipeline import label_sequences
    from phonechain.app.models.catalog import Entry
    from phonechain.app.settings import Settings
    from phonechain.model.labeler import PhoneLabeler

    set_threads(1)
    settings, entry = Settings(), Entry("default", PhoneLabeler.load(path))
    files = {
        "audio": File(samples.AUDIO.read_bytes(), samples.AUDIO.name),
        "segments": File(samples.SEGMENTS.read_bytes(), samples.SEGMENTS.name),
    }
    mode = entry.model.normaliser.check_mode(None, known_speakers=False)
    whole, model = [], []
    for _ in range(count + 5):
        begun = time.perf_counter()
        asked = parse_request(Upload(files=files), QueryParams(), settings)
        ready = prepare(asked, entry, settings)
        before = time.perf_counter()
        [labelled] = label_sequences(
            entry.model,
            [(ready.inputs, ready.segments, ready.starts)],
            n_best=1,
            decode="posterior",
            comparisons=[ready.comparison],
            mode=mode,
        )
        after = time.perf_counter()
        scored = LabelledUtterance(labelled, 0.0, after - before, 1)
        ClassifyResult(asked, entry, ready, scored, begun, before - begun).render()
        whole.append(time.perf_counter() - begun)
        model.append(after - before)
    return 1e3 * statistics.median(whole[5:]), 1e3 * statistics.median(model[5:])


def main() -> int:
    """Run, print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", nargs="+", default=["paper", "default"])
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--processes", nargs="+", type=int, default=[1, 2], help="of the service")
    parser.add_argument("--count", type=int, default=100, help="requests of one client")
    asked = parser.parse_args()
    from phonechain.model import pretrained_path

    print(
        "| model | processes | in process, ms | its model | kept connection | new ones | clients | requests/s | median, ms |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name in asked.model:
            if name != "default":
                (Path(folder) / f"{name}.safetensors").symlink_to(pretrained_path(name))
        starts = []
        costs = {name: bare(pretrained_path(name), asked.count) for name in asked.model}
        for processes in asked.processes:
            with service(Path(folder), processes) as (port, first):
                time.sleep(SETTLE)
                for name in asked.model:
                    request = request_of(port, name)
                    kept = alone(port, request, asked.count, keep=True)
                    new = alone(port, request_of(port, name, keep=False), asked.count, keep=False)
                    rate, median = together(port, request, asked.clients, asked.seconds)
                    whole, model = costs[name]
                    print(
                        f"| {name} | {processes} | {whole:.1f} | {100 * model / whole:.0f} % | {kept / whole:.2f} times "
                        f"| {new / whole:.2f} times | {asked.clients} | {rate:.0f} | {median:.0f} |",
                        flush=True,
                    )
                starts.append(f"start of {processes} to the first answer: {first:.2f} s")
    print()  # not between the rows of the table
    print("\n".join(starts))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
