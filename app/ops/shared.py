"""What the processes behind one port count together: requests in progress, bytes of bodies, changes of keys and models.

Each process has a row of numbers that all can read and it alone writes, in memory that is mapped before the processes
part. Nothing is locked, so a limit over the sum may be passed by one request for each process that decides in the same
microsecond; and a process that is killed leaves nothing but its row, which the supervisor clears.
"""

from __future__ import annotations

import mmap

FIELDS = ("in_progress", "long", "waiting", "bytes", "long_bytes", "pid", "keys", "models")
EVENTS = ("keys", "models")
"""Fields that only grow: they say that something has changed."""

BUCKETS = 65_536
"""Callers whose rate is known at one time; the kernel gives their memory as they come."""


class Shared:
    """The numbers of `processes` processes; `number` is the row of this one. A service by itself is process 0 of 1."""

    def __init__(self, processes: int = 1) -> None:
        self.processes, self.number = processes, 0
        numbers = memoryview(mmap.mmap(-1, 8 * len(FIELDS) * processes)).cast("q")
        columns = {name: numbers[n * processes : (n + 1) * processes] for n, name in enumerate(FIELDS)}
        self.in_progress: memoryview[int] = columns["in_progress"]
        """Requests in progress."""
        self.long: memoryview[int] = columns["long"]
        """Of these, the ones with long recordings."""
        self.waiting: memoryview[int] = columns["waiting"]
        """Utterances that wait for a batch."""
        self.bytes: memoryview[int] = columns["bytes"]
        """Bytes of bodies in memory."""
        self.long_bytes: memoryview[int] = columns["long_bytes"]
        """Of these, the ones of long bodies."""
        self.pid: memoryview[int] = columns["pid"]
        """Of the process; 0 where none runs."""
        self.keys: memoryview[int] = columns["keys"]
        """How often API keys were made or revoked."""
        self.models: memoryview[int] = columns["models"]
        """How often models or their aliases were changed."""
        self.buckets = memoryview(mmap.mmap(-1, 16 * BUCKETS))
        """Of callers with a rate limit; see app/http/rates.py."""
        self._columns = columns

    def clear(self, number: int) -> None:
        """A process has ended: nothing of it is in progress."""
        for name, column in self._columns.items():
            if name not in EVENTS:
                column[number] = 0
