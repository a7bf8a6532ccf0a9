"""Streams between simulated replicas: in order, late, cut in one direction or both, ended or gone without a word."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from pyromq.ambient import Clock, Random
from pyromq.broker.elected.seams import MasterRefuses
from pyromq.errors import ConnectionLost

_END = ("end",)
_RETRY_S = 0.1  # until a cut is looked at again


class StreamEnded(ConnectionLost):
    """Nothing more will come."""


class Refused(StreamEnded, MasterRefuses):
    """The machine is there, and nobody listens."""


class StreamEnd:
    """One end of a stream. What is sent while the way is cut arrives after it is mended, if the stream lives then."""

    other: StreamEnd

    def __init__(self, network: Network, owner: int, peer: int) -> None:
        self._network, self._owner, self._peer = network, owner, peer
        self._inbox: deque[tuple[Any, ...]] = deque()
        self._outgoing: deque[tuple[Any, ...]] = deque()
        self._woken = asyncio.Event()
        self._is_pumping = False
        self.is_over = False

    def send(self, *message: Any) -> None:
        if self.is_over:
            return
        self._outgoing.append(message)
        if not self._is_pumping:
            self._is_pumping = True
            self._network.later(self._pump)

    def close(self) -> None:
        """End it; the other side hears of that once the way there is free."""
        self.send(*_END)
        self.vanish()

    def vanish(self) -> None:
        """End it without a word, as a machine that loses its power."""
        self.is_over = True
        self._woken.set()

    async def receive(self) -> tuple[Any, ...]:
        while True:
            if self.is_over:
                raise StreamEnded("no way there")
            if self._inbox:
                break
            self._woken.clear()
            await self._woken.wait()
        message = self._inbox.popleft()
        if message == _END:
            self.is_over = True
            raise StreamEnded("no way there")
        return message

    def _pump(self) -> None:
        if self.other.is_over:
            self._is_pumping = False
            self._outgoing.clear()
        elif self._network.is_cut(self._owner, self._peer):
            self._network.clock.call_later(_RETRY_S, self._pump)
        else:
            self.other._inbox.append(self._outgoing.popleft())
            self.other._woken.set()
            self._is_pumping = bool(self._outgoing)
            if self._is_pumping:
                self._network.later(self._pump)


class Network:
    """Who listens, and which ways are cut: pairs of from and to."""

    def __init__(self, clock: Clock, rng: Random) -> None:
        self.clock, self.rng = clock, rng
        self.cuts: set[tuple[int, int]] = set()
        self.listeners: dict[int, Callable[[StreamEnd], None]] = {}
        self.powered: set[int] = set()
        self.delay_s = 0.002

    def later(self, call: Callable[[], None]) -> None:
        self.clock.call_later(self.rng.random() * 2 * self.delay_s, call)

    def is_cut(self, origin: int, target: int) -> bool:
        return (origin, target) in self.cuts

    async def connect(self, origin: int, target: int) -> StreamEnd:
        await self.clock.sleep(self.delay_s)
        if self.is_cut(origin, target) or self.is_cut(target, origin) or target not in self.powered:
            await self.clock.sleep(1.0)
            raise StreamEnded("no way there")
        if target not in self.listeners:
            raise Refused("nobody listens")
        near, far = StreamEnd(self, origin, target), StreamEnd(self, target, origin)
        near.other, far.other = far, near
        self.listeners[target](far)
        return near
