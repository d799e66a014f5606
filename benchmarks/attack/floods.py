"""Attacks that want the service's time, memory or connections."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import socket
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import soundfile

from benchmarks.attack.archives import zip_members
from benchmarks.attack.target import Check, Target
from phonechain.app import samples

MIB = 2**20


def zips_of_zeros(target: Target) -> list[Check]:
    """Archives that take long to unpack."""
    bomb = zip_members(*((f"{n}.wav", bytes(200 * MIB)) for n in range(4)), level=1)
    with target.client() as client, ThreadPoolExecutor(6) as pool:

        def put(_: int) -> int:
            return client.post("/corpora", content=bomb, headers={"Content-Type": "application/zip"}).status_code

        statuses = list(pool.map(put, range(6)))
    return [(f"answered {sorted(set(statuses))}", all(400 <= status < 500 for status in statuses))]


def pax_header(target: Target) -> list[Check]:
    """A tar whose extended header claims 512 MiB, compressed to little."""
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.XHDTYPE, 512 * MIB
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb", compresslevel=1) as file:
        file.write(info.tobuf())
        for _ in range(512):
            file.write(b"\0" * MIB)
    before = target.resident()
    with target.client() as client:
        answer = client.post("/corpora", content=out.getvalue(), headers={"Content-Type": "application/gzip"})
    grown = target.resident() - before
    return [
        (f"answered {answer.status_code}", answer.status_code in (413, 422)),
        (f"{grown:.0f} MiB more", grown < 100),
    ]


def hoard_bodies(target: Target) -> list[Check]:
    """Forty bodies of 60 MiB, all but their last byte."""
    size = 60 * MIB
    head = (
        f"POST /classify HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {target.keys['other']}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {size}\r\n\r\n"
    ).encode()
    before, peak = target.resident(), 0.0
    statuses: list[int] = []

    def hoard(_: int) -> None:
        with contextlib.suppress(OSError), target.connect() as connection:
            connection.settimeout(20)
            connection.sendall(head)
            for _ in range(59):
                connection.sendall(b" " * MIB)
            connection.sendall(b" " * (MIB - 1))
            line = connection.recv(4096).split(b"\r\n")[0].split()
            statuses.append(int(line[1]) if len(line) > 1 else 0)

    with ThreadPoolExecutor(40) as pool:
        waiting = [pool.submit(hoard, n) for n in range(40)]
        while not all(one.done() for one in waiting):
            peak = max(peak, target.resident() - before)
            time.sleep(0.05)
    return [
        (f"answered {sorted(set(statuses))}", set(statuses) <= {0, 408, 503}),
        (f"{peak:.0f} MiB more at most", peak < 512),
    ]


def dripping(target: Target, head: bytes, drip: bytes, count: int = 300) -> list[Check]:
    """Connections that send a little now and then, for as long as they are let."""
    begun = time.monotonic()
    open_now: list[socket.socket] = []
    for _ in range(count):
        with contextlib.suppress(OSError):
            connection = target.connect()
            connection.sendall(head)
            connection.setblocking(False)
            open_now.append(connection)
    while open_now and time.monotonic() - begun < 60:
        left = []
        for connection in open_now:
            try:
                connection.send(drip)
                with contextlib.suppress(BlockingIOError):
                    if not connection.recv(4096):
                        raise OSError
                left.append(connection)
            except OSError:
                connection.close()
        open_now = left
        time.sleep(0.2)
    spent = time.monotonic() - begun
    for connection in open_now:
        connection.close()
    return [(f"all {count} were sent away within {spent:.0f} s", not open_now)]


def slow_heads(target: Target) -> list[Check]:
    """300 connections that drip header fields."""
    return dripping(target, b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n", b"X-A: b\r\n")


def slow_bodies(target: Target) -> list[Check]:
    """300 connections that drip a body."""
    head = (
        f"POST /classify HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {target.keys['other']}\r\n"
        "Content-Type: application/json\r\nContent-Length: 1000000\r\n\r\n"
    )
    return dripping(target, head.encode(), b" ")


def disconnect_clients(target: Target) -> list[Check]:
    """200 requests whose clients leave at once."""
    audio = samples.AUDIO.read_bytes()
    form = httpx.Request(
        "POST", f"{target.url}/classify", headers=target.bearer("other"),
        files={"audio": audio, "segments": (samples.SEGMENTS.name, samples.SEGMENTS.read_bytes())},
    )  # fmt: skip
    form.read()
    head = "".join(f"{name}: {value}\r\n" for name, value in form.headers.items())
    data = f"POST /classify HTTP/1.1\r\n{head}\r\n".encode() + form.content
    labelled = figure(target, "phonechain_segments_labelled_total")
    for _ in range(200):
        with contextlib.suppress(OSError), target.connect() as connection:
            connection.sendall(data)
    time.sleep(1)
    segments = figure(target, "phonechain_segments_labelled_total") - labelled
    # Those of the probe are in it too; 200 times the sample would be 3,600.
    return [(f"{segments:.0f} segments were labelled meanwhile", segments < 1800)]


def figure(target: Target, name: str) -> float:
    """A figure of /metrics."""
    text = httpx.get(f"{target.url}/metrics", timeout=60).text
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name))


def long_recordings(target: Target) -> list[Check]:
    """64 recordings of five minutes at a time, and a short clip that comes after them."""
    sound, rate = soundfile.read(samples.AUDIO, dtype="int16")
    out = io.BytesIO()
    # Vorbis, so that the bytes of all bodies together are no reason to refuse any.
    with soundfile.SoundFile(out, "w", rate, 1, format="OGG") as file:
        for _ in range(300 * rate // len(sound) + 1):
            file.write(sound)
    segments = json.dumps([{"start": n / 10, "end": (n + 1) / 10} for n in range(2990)]).encode()
    with target.client("other") as client, ThreadPoolExecutor(64) as pool:

        def ask(_: int) -> int:
            files: dict[str, Any] = {"audio": out.getvalue(), "segments": ("s.json", segments)}
            return client.post("/classify", files=files, timeout=600).status_code

        asked = [pool.submit(ask, n) for n in range(64)]
        while figure(target, "phonechain_queue_taken") < 32 and not all(one.done() for one in asked):
            time.sleep(0.05)
        behind = sum(not one.done() for one in asked)
        begun = time.perf_counter()
        files: dict[str, Any] = {
            "audio": samples.AUDIO.read_bytes(),
            "segments": (samples.SEGMENTS.name, samples.SEGMENTS.read_bytes()),
        }
        short = client.post("/classify", files=files).status_code
        spent = time.perf_counter() - begun
        statuses = [one.result() for one in asked]
    return [
        (f"answered {sorted(set(statuses))}", set(statuses) <= {200, 503}),
        (f"a short clip behind {behind} of them was answered {short} in {spent:.2f} s", short == 200 and spent < 5),
    ]


def odd_bodies(target: Target) -> list[Check]:
    """JSON that is nested deeply, forms of many parts, numbers that are none, media types that are none."""
    statuses = []
    with target.client("other") as client:
        json_type = {"Content-Type": "application/json"}
        for body in (
            b"[" * 10**6,
            b'{"audio":' * 10**5,
            b'{"segments": [' + b"{}," * 10**5 + b"{}]}",
            b"\xff" * 10**6,
            b"9" * 10**6,
        ):
            statuses.append(client.post("/classify", content=body, headers=json_type).status_code)
        parts = b"".join(b'--x\r\nContent-Disposition: form-data; name="%d"\r\n\r\n\r\n' % n for n in range(20_000))
        form = {"Content-Type": "multipart/form-data; boundary=x"}
        statuses.append(client.post("/classify", content=parts + b"--x--\r\n", headers=form).status_code)
        statuses.append(client.post("/jobs", content=b"--x\r\n" + b"A: " + b"b" * 10**6, headers=form).status_code)
        statuses.append(client.post("/classify", headers={"Content-Type": "a/b; " + "c" * 10**4}).status_code)
    return [(f"answered {sorted(set(statuses))}", all(400 <= status < 500 for status in statuses))]


def many_files(target: Target) -> list[Check]:
    """A form of 2,000 files, and one that ends in the middle."""
    files = [("files", (f"u{n}.lab", b"0 1000000 a\n" * 1000)) for n in range(2000)]
    begun = len(list(Path(f"/proc/{target.process.pid}/fd").iterdir()))
    with target.client("other") as client:
        answer = client.post("/jobs", data={"job": '{"kind": "label"}'}, files=files)
    opened = len(list(Path(f"/proc/{target.process.pid}/fd").iterdir())) - begun
    scratch = list((target.folder / "data" / "blobs" / "tmp").iterdir())
    return [
        (f"answered {answer.status_code}", answer.status_code == 422),
        (f"{opened} files open", opened < 20),
        ("nothing is left", not scratch),
    ]
