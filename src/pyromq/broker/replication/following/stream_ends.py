"""The socket's side of a replica's stream, whatever it speaks: what comes is taken at once and reported at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NoReturn, Protocol, cast

from ....ambient import Clock
from ....errors import ConnectionLost, PyroError
from ....transport.client import Connect
from ..leading.transfer_rate import TransferRate
from .reporting import Reporting

CONNECT_S = 5.0


class ReplicaStream(Protocol):
    """A replica's end of one stream: bytes and moments in, bytes out. No socket, no clock."""

    @property
    def reporting(self) -> Reporting: ...

    def begin(self, now: float) -> bytes:
        """Return what is written first."""
        ...

    def receive(self, data: bytes, now: float) -> None:
        """Take what came. Any PyroError: this stream has to end."""
        ...

    def report(self, now: float) -> bytes:
        """Return the report that is to leave now; empty: none is."""
        ...


@dataclass(slots=True)
class StreamTimes:
    """When something went over a replica's streams, in wall-clock milliseconds (0: never), and how much came."""

    heard_ms: int = 0
    reported_ms: int = 0
    rate: TransferRate = field(default_factory=TransferRate)


class PortRefuses(ConnectionLost):
    """Nobody listens at the master's HA port: its process is gone."""


class StreamEnds(asyncio.Protocol):
    """Event loop only. Made by `connected`. `fault`: why the stream had to end."""

    def __init__(self, stream: ReplicaStream, clock: Clock, address: str, times: StreamTimes | None = None) -> None:
        self._stream = stream
        self._clock = clock
        self._address = address
        self.times = times or StreamTimes()
        self._transport: asyncio.Transport | None = None
        self._is_closed = False
        self.fault: PyroError | None = None
        self.stirred, self.lost = asyncio.Event(), asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._stream.begin(self._clock.monotonic()))

    def data_received(self, data: bytes) -> None:
        if self.fault is not None or self._is_closed:
            return  # what comes behind the end is not taken: nobody would be told of it
        now = self._clock.monotonic()
        self.times.heard_ms = self._clock.now_ms()
        self.times.rate.note(now, len(data))
        try:
            self._stream.receive(data, now)
        except PyroError as fault:
            self.fault = fault
            self.close()
        else:
            self.write_report()
        self.stirred.set()

    def write_report(self) -> None:
        if self.fault is None:
            self.write(self._stream.report(self._clock.monotonic()))

    def write(self, data: bytes) -> None:
        if data and self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)
            self.times.reported_ms = self._clock.now_ms()

    def connection_lost(self, exc: Exception | None) -> None:
        if isinstance(exc, PyroError):
            self.fault = self.fault or exc  # of TLS
        self.lost.set()
        self.stirred.set()

    def close(self) -> None:
        self._is_closed = True
        if self._transport is not None:
            self._transport.abort()

    async def serve(self, stirred: Callable[[], Awaitable[None]]) -> None:
        """Report and listen for as long as the connection lasts, then raise why it ended.

        `stirred` is awaited after bytes have come, before the next report leaves."""
        while not self.lost.is_set():
            await self._stir()
            if self.stirred.is_set():
                self.stirred.clear()
                await stirred()
            self._check_silence()
            self.write_report()
        self.raise_end()

    async def until(self, is_there: Callable[[], bool]) -> None:
        """Return once what came makes this true. Raises why the connection ended before."""
        while not is_there():
            if self.lost.is_set() or self.fault is not None:
                self.raise_end()
            await self._stir()
            self.stirred.clear()
            self._check_silence()

    async def _stir(self) -> None:
        """Wait until something comes, or it is time to look."""
        with suppress(TimeoutError):
            async with self._clock.timeout(max(0.0, self._stream.reporting.due - self._clock.monotonic())):
                await self.stirred.wait()

    def _check_silence(self) -> None:
        reporting = self._stream.reporting
        if reporting.is_silent(self._clock.monotonic()):
            raise ConnectionLost(f"the master has sent nothing for {reporting.silence_s:g} s (haHousekeepingInterval)")

    def raise_end(self) -> NoReturn:
        """Raise why the stream has ended."""
        raise self.fault or ConnectionLost(f"the master {self._address} has closed the connection")


async def connected(
    stream: ReplicaStream, connect: Connect, address: str, clock: Clock, times: StreamTimes | None = None
) -> StreamEnds:
    """Connect a stream to a master's HA port. ConnectionLost says why that cannot be; PortRefuses: nobody is there."""
    ends = StreamEnds(stream, clock, address, times)
    try:
        async with clock.timeout(CONNECT_S):
            await connect(address, ends)
    except ConnectionRefusedError as fault:
        raise PortRefuses(f"the HA port {address} cannot be reached: {fault}") from None
    except (OSError, TimeoutError) as fault:
        raise ConnectionLost(f"the HA port {address} cannot be reached: {str(fault) or 'no answer'}") from None
    return ends
