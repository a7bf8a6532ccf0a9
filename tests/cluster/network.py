"""The network between simulated machines: streams of bytes that take time, in which ways may be cut in one direction.

As with TCP nothing is lost or changes places while both ends live: what cannot pass now passes later. A process that
ends closes its streams; a machine that loses its power says nothing, and answers with a reset once it is on again.
Ports are the system's: who connects to a process that stands still waits until it goes on.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from pyromq.ambient import Random
from pyromq.transport.address import parse_address
from pyromq.transport.client import Connect
from pyromq.transport.listening import Listening
from pyromq.transport.memory import MemoryStream
from tests.cluster.processes import OutsideClock, SimulatedProcess

RETRANSMIT_S = 0.2  # most of the time between two looks whether a way is free again
CHUNKS = (64 << 10, 64 << 10, 1460, 300)  # bytes that come at once


class SimulatedStream(MemoryStream):
    """One end of a stream, of one process. Made by `Network.connect`."""

    other: SimulatedStream

    def __init__(self, network: Network, owner: SimulatedProcess, here: str, there: str, chunk_bytes: int) -> None:
        super().__init__(here, there, chunk_bytes)
        self._network, self._owner = network, owner
        self.host, self._peer_host = parse_address(here)[0], parse_address(there)[0]
        self._is_gone = False  # its machine lost its power

    def deliver_soon(self) -> None:
        """Let the other end's bytes come, when they are through."""
        if not self._delivery_is_due and (self._is_gone or not self._lost):
            self._delivery_is_due = True
            self._network.later(self._arrive)

    def _arrive(self) -> None:
        if self._network.is_cut(self._peer_host, self.host):
            self._network.clock.call_later(RETRANSMIT_S * self._network.rng.random(), self._arrive)
        elif not self._is_gone:
            self._step(self._deliver)
        elif self.host in self._network.powered:
            self.other.reset_soon()
        elif not self.other.is_closing():
            self._network.clock.call_later(1.0, self._arrive)  # sent again until somebody answers

    def take(self, most: int) -> bytes:
        piece = bytes(self._unsent[:most])
        del self._unsent[:most]
        if self._writing_is_paused and len(self._unsent) <= self._low and self._protocol is not None:
            self._writing_is_paused = False
            self._step(self._protocol.resume_writing)
        if self._closing and not self._unsent:
            self._step(self._lose, None)
        return piece

    def close(self) -> None:
        if not self._closing and not self._lost:
            self._closing = True
            self.other.deliver_soon()
            if not self._unsent:
                self._step(self._lose, None)

    def abort(self) -> None:
        """Cut off: the other end hears of it once the way there is free."""
        if not self._lost:
            self._closing = self.was_reset = True
            self._unsent.clear()
            self._step(self._lose, None)
            self._network.later(self.other.reset_soon)

    def reset_soon(self) -> None:
        """Hear that the other end has cut off."""
        if self._network.is_cut(self._peer_host, self.host):
            self._network.clock.call_later(RETRANSMIT_S * self._network.rng.random(), self.reset_soon)
        elif not self._is_gone:
            self._step(self._lose, ConnectionResetError("connection reset by peer"))

    def _lose(self, fault: Exception | None) -> None:
        if not self._lost:
            self._network.streams.pop(self, None)
        super()._lose(fault)

    def leave(self, *, power: bool) -> None:
        """Be left by a process that has ended, or by a machine without power."""
        self._network.streams.pop(self, None)
        self._protocol = None
        if power:
            self._is_gone = self._lost = self._closing = self.was_reset = True
            self._unsent.clear()
            self._delivery_is_due = False  # a step of the ended process was to take it
            if self.other.get_write_buffer_size():
                self.deliver_soon()
        else:
            self._closing = True
            self.other.deliver_soon()

    def _step(self, call: Callable[..., object], *args: Any) -> None:
        self._loop.call_soon(call, *args, context=self._owner.context)

    @property
    def owner(self) -> SimulatedProcess:
        return self._owner

    def join(self, protocol: asyncio.BaseProtocol) -> None:
        """Serve this end by a protocol from now on. The other end may be gone already."""
        self.set_protocol(protocol)
        protocol.connection_made(self)
        if self._lost:
            self._step(protocol.connection_lost, None)


class _Backlog:
    """A port of the system: who has connected, and was not accepted yet. Closed with its last socket."""

    def __init__(self, network: Network, address: str, owner: SimulatedProcess) -> None:
        self.network, self.address, self.owner = network, address, owner
        self.waiting: deque[SimulatedStream] = deque()
        self.readers: dict[SimulatedSocket, Callable[[], object]] = {}
        self.sockets = 0
        self.is_listening = False

    def come(self, stream: SimulatedStream) -> None:
        self.waiting.append(stream)
        self.ring()

    def ring(self) -> None:
        for call in list(self.readers.values())[:1]:
            asyncio.get_running_loop().call_soon(call, context=self.owner.context)


class SimulatedSocket:
    """What stands in the place of a listening socket, and of one that was accepted (`stream`)."""

    def __init__(self, backlog: _Backlog, stream: SimulatedStream | None = None) -> None:
        self._backlog, self.stream = backlog, stream
        self._is_open = stream is None
        backlog.sockets += self._is_open

    def getsockname(self) -> tuple[str, int]:
        return parse_address(self._backlog.address)

    def setblocking(self, _: bool) -> None:
        """Do nothing: it never blocks."""

    def listen(self, _: int) -> None:
        self._backlog.is_listening = True

    def dup(self) -> SimulatedSocket:
        return SimulatedSocket(self._backlog)

    def accept(self) -> tuple[SimulatedSocket, tuple[str, int]]:
        if not self._backlog.waiting:
            raise BlockingIOError
        stream = self._backlog.waiting.popleft()
        return SimulatedSocket(self._backlog, stream), stream.get_extra_info("peername")

    def close(self) -> None:
        if self.stream is not None:
            self.stream.close()
        elif self._is_open:
            self._is_open = False
            self._backlog.sockets -= 1
            if not self._backlog.sockets:
                self._backlog.network.close_port(self._backlog.address)

    def read_by(self, call: Callable[[], object] | None) -> None:
        """Call this whenever somebody waits to be accepted; None: nothing."""
        if call is None:
            self._backlog.readers.pop(self, None)
        else:
            self._backlog.readers[self] = call
            if self._backlog.waiting:
                self._backlog.ring()


class Network:
    """Who listens, which machines have power, and which ways are cut: pairs of hosts, from and to."""

    def __init__(self, clock: OutsideClock, rng: Random) -> None:
        self.clock, self.rng = clock, rng
        self.cuts: set[tuple[str, str]] = set()
        self.powered: set[str] = set()
        self.delay_s = 0.0005
        self.streams: dict[SimulatedStream, None] = {}
        self._ports: dict[str, _Backlog] = {}
        self._last_port = 49_151

    def later(self, call: Callable[[], object]) -> None:
        self.clock.call_later(self.delay_s * (0.5 + self.rng.random()), call)

    def is_cut(self, origin: str, target: str) -> bool:
        return (origin, target) in self.cuts

    def bind(self, owner: SimulatedProcess, address: str) -> Listening:
        """Return the port of a process. Nobody can connect before it listens."""
        self._ports[address] = backlog = _Backlog(self, address, owner)
        return Listening([SimulatedSocket(backlog)])  # type: ignore[list-item]

    def close_port(self, address: str) -> None:
        backlog = self._ports.pop(address, None)
        if backlog is not None:
            for stream in backlog.waiting:
                stream.abort()

    def connector(self, owner: SimulatedProcess, host: str) -> Connect:
        """Return the call by which a process on this host connects."""

        async def connect(address: str, protocol: asyncio.BaseProtocol) -> None:
            (await self._connected(owner, host, address)).join(protocol)

        return connect

    async def _connected(self, owner: SimulatedProcess, host: str, address: str) -> SimulatedStream:
        target = parse_address(address)[0]
        answered: asyncio.Future[SimulatedStream] = asyncio.get_running_loop().create_future()
        self._last_port += 1
        here, chunk_bytes = f"{host}:{self._last_port}", self.rng.choice(CHUNKS)

        def knock() -> None:
            """Arrive there, if the way is free. Somebody who hears nothing knocks again."""
            if answered.done() or owner.is_over:
                return
            if self.is_cut(host, target) or self.is_cut(target, host) or target not in self.powered:
                self.clock.call_later(1.0, knock)
                return
            backlog = self._ports.get(address)
            if backlog is None or not backlog.is_listening:
                answered.set_exception(ConnectionRefusedError(f"nobody listens at {address}"))
                return
            near = SimulatedStream(self, owner, here, address, chunk_bytes)
            far = SimulatedStream(self, backlog.owner, address, here, chunk_bytes)
            near.other, far.other = far, near
            self.streams[near] = self.streams[far] = None
            backlog.come(far)
            answered.set_result(near)

        self.later(knock)
        try:
            return await answered
        except asyncio.CancelledError:
            if answered.done() and not answered.cancelled() and answered.exception() is None:
                answered.result().abort()
            raise

    def leave(self, process: SimulatedProcess, *, power: bool) -> None:
        """Close what an ended process had open, or let it vanish with its machine."""
        for address in [address for address, backlog in self._ports.items() if backlog.owner is process]:
            backlog = self._ports.pop(address)
            backlog.waiting.clear()  # they are among the streams
        for stream in [stream for stream in self.streams if stream.owner is process]:
            stream.leave(power=power)


class SocketCalls:
    """What a loop does with sockets, where they are simulated. Mixed into the loop of a simulation."""

    def add_reader(self, listening: SimulatedSocket, call: Callable[..., object], *args: Any) -> None:
        listening.read_by(lambda: call(*args))

    def remove_reader(self, listening: SimulatedSocket) -> None:
        listening.read_by(None)

    async def connect_accepted_socket(self, factory: Callable[[], asyncio.BaseProtocol], sock: SimulatedSocket) -> None:
        assert sock.stream is not None
        sock.stream.join(factory())
