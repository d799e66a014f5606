"""What the fuzz runs share: mutations, and a watch over time and memory that keeps the input that broke a bound."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

LONGEST = 2.0
"""Seconds of the processor that one input may take."""
HANG = 60.0
"""Seconds on the clock after which an input hangs, also in code that no exception reaches."""
MEMORY = 1 << 30
"""Bytes by which the process may grow over what it had at the start."""
EVERY = 5.0
"""Seconds between two lines of progress."""


def mutate(draw: random.Random, pool: Sequence[bytes], pieces: Sequence[bytes]) -> bytes:
    """One of the pool, changed in a few places: bytes lost, repeated, flipped, replaced, taken from another."""
    data = bytearray(draw.choice(pool))
    for _ in range(draw.choice((1, 1, 2, 3, 8))):
        a = draw.randrange(len(data) + 1)
        b = min(len(data), a + draw.choice((1, 2, 8, 64)))
        kind = draw.randrange(8)
        if kind == 0:
            data[a:b] = b""
        elif kind == 1:
            data[a:a] = draw.choice(pieces)
        elif kind == 2:
            data[a:b] = draw.choice(pieces)
        elif kind == 3 and a < len(data):
            data[a] ^= 1 << draw.randrange(8)
        elif kind == 4:
            data[a:a] = data[a:b] * draw.choice((1, 3, 50))
        elif kind == 5:
            del data[a:]
        elif kind == 6:
            other = draw.choice(pool)
            c = draw.randrange(len(other))
            data[a:b] = other[c : c + draw.choice((4, 40, 400))]
        else:
            lines = bytes(data).split(b"\n")
            draw.shuffle(lines)
            data[:] = b"\n".join(lines)
    return bytes(data)


class Watch:
    """Bounds on each of many inputs.

    Used as `with watch.over(number, data): ...`. An exception, a slow input and a greedy one fail with the file in which the
    input was kept; an input that hangs, or that takes the whole process down, is in that file too.

    Args:
        name: of the run, for the file and the lines of progress.
        seed, count: what is run.
        tell: print progress.
        beforehand: write each input before it is tried, for code that may crash the process.
    """

    def __init__(self, name: str, seed: int, count: int, *, tell: bool = False, beforehand: bool = False) -> None:
        self.name, self.seed, self.count, self.tell, self.beforehand = name, seed, count, tell, beforehand
        self.file = Path(tempfile.gettempdir()) / f"fuzz-{name}-{seed}-{os.getpid()}.bin"
        self.begun = time.monotonic()
        self.slowest = 0.0
        self.good = 0
        self._told = self.begun
        self._memory = _peak()
        self._at: tuple[int, bytes, float] | None = None
        self._ended = threading.Event()
        if tell:
            print(f"{name}: seed {seed}, {count} inputs; one that breaks is kept in {self.file}", flush=True)
        threading.Thread(target=self._guard, daemon=True).start()

    @contextlib.contextmanager
    def over(self, number: int, data: bytes) -> Iterator[None]:
        """Raises AssertionError, with the file of the input, for whatever went wrong."""
        if self.beforehand:
            self.file.write_bytes(data)
        self._at = number, data, time.monotonic()
        began = time.process_time()
        try:
            yield
        except BaseException as error:
            if not isinstance(error, KeyboardInterrupt):
                error.add_note(self._keep(number, data))
            raise
        finally:
            self._at = None
        spent, grown = time.process_time() - began, _peak() - self._memory
        self.slowest = max(self.slowest, spent)
        assert spent < LONGEST, f"expected at most {LONGEST} s, got {spent:.1f} s; {self._keep(number, data)}"
        assert grown < MEMORY, f"expected at most {MEMORY >> 20} MB more, got {grown >> 20}; {self._keep(number, data)}"
        if self.tell and time.monotonic() - self._told > EVERY:
            self._told = time.monotonic()
            print(f"{self.name}: {number + 1} of {self.count}, {self._so_far()}", flush=True)

    def end(self) -> None:
        """Nothing was found."""
        self._ended.set()
        self.file.unlink(missing_ok=True)
        if self.tell:
            print(
                f"{self.name}: {self.count} inputs of seed {self.seed} and nothing broke; {self._so_far()}", flush=True
            )

    def _so_far(self) -> str:
        grown = _peak() - self._memory
        return (
            f"{self.good} were usable, the slowest took {self.slowest:.2f} s, memory grew by {grown >> 20} MB, "
            f"{time.monotonic() - self.begun:.0f} s"
        )

    def _keep(self, number: int, data: bytes) -> str:
        self._ended.set()
        self.file.write_bytes(data)
        return f"input {number} of seed {self.seed} of {self.name}, kept in {self.file}"

    def _guard(self) -> None:
        """Ends the process where nothing else can."""
        while not self._ended.wait(1.0):
            at = self._at
            if at is not None and time.monotonic() - at[2] > HANG:
                print(f"hangs: {self._keep(at[0], at[1])}", flush=True)
                os._exit(70)


def _peak() -> int:
    """Bytes that the process had at most so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
