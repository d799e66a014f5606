"""Long bodies take turns: one of their connections is read at a time, and where several wait, the loop rests in between.

Reading 256 KiB and passing them on takes a third of a millisecond. A short request needs a dozen rounds of the event loop from
its head to its answer. Without turns it waits in each round for every long body that arrives at the same time; without rests
its threads get Python's lock late.
"""

from __future__ import annotations

import asyncio
from collections import deque

from uvicorn.protocols.http.flow_control import FlowControl

LONG_BODY = 2**18
"""Bytes of a body from which on its connection takes turns: what asyncio reads at once."""
REST = 0.001
"""Seconds between two turns; the long bodies of one process come at 250 MB/s at most."""


class Turns:
    """The connections with long bodies, of one event loop, in the order in which they are read next."""

    def __init__(self) -> None:
        self._waiting: deque[Flow] = deque()

    def join(self, flow: Flow) -> None:
        """Put a connection at the end, once."""
        self._waiting.append(flow)
        if len(self._waiting) == 1:
            asyncio.get_running_loop().call_soon(self._give)

    def _give(self) -> None:
        """Let the first go on, and the next one after a rest."""
        self._waiting.popleft().take_turn()
        if self._waiting:
            asyncio.get_running_loop().call_later(REST, self._give)


class Flow(FlowControl):
    """uvicorn's flow control of a connection, which is not read either until its turn comes."""

    def __init__(self, transport: asyncio.Transport, turns: Turns) -> None:
        super().__init__(transport)
        self._turns = turns
        self.waits = False
        """Whether its turn is still to come."""

    def wait_for_turn(self) -> None:
        """Read nothing until the connection's turn."""
        if not self.waits:
            self.waits = True
            self._transport.pause_reading()
            self._turns.join(self)

    def take_turn(self) -> None:
        """Read again, unless the application has not taken what was read before."""
        self.waits = False
        if not self.read_paused:
            self._transport.resume_reading()

    def resume_reading(self) -> None:
        """The application has taken what was read."""
        self.read_paused = False
        if not self.waits:
            self._transport.resume_reading()
