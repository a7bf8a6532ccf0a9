"""A network of function calls on virtual time: servers with one core each, and who talks to them.

A request costs its server so much time, and waits for those that came before it. A server may be away, where
connections are refused at once, or gone with its machine, where nobody hears anything. What passes is counted for each
second.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from pyromq.ambient import Clock
from pyromq.errors import CallTimedOut, ConnectionLost
from pyromq.model.client_info import Language
from pyromq.protocol.command import Command
from pyromq.transport.client import Reconnect
from pyromq.transport.dispatch import Handler, Reply, Request, RequestOf, await_answer
from pyromq.transport.peer import Peer

LATENCY_S = 0.0005
HEADER_BYTES = 180  # of a frame, about


class State(Enum):
    UP = 0
    REFUSING = 1  # the process is gone, its machine is there
    SILENT = 2  # the machine is gone: neither connections nor answers


@dataclass(slots=True)
class Second:
    """What one server, or all of one kind, did in one second."""

    requests: Counter[int] = field(default_factory=Counter)
    bytes: int = 0
    longest_wait_s: float = 0.0

    @property
    def count(self) -> int:
        return self.requests.total()


class Server:
    """One program with an address. `handle` is its real surface, or a stand-in."""

    def __init__(self, network: Network, address: str, handle: Handler, cost_s: Callable[[Command], float]) -> None:
        self.network = network
        self.address = address
        self.handle = handle
        self.cost_s = cost_s
        self.state = State.UP
        self.free_at = 0.0
        self.seconds: dict[int, Second] = {}
        self.peers: set[SimulatedPeer] = set()
        self.on_close: Callable[[Peer], None] = lambda _: None
        network.servers[address] = self

    def arrive(self, command: Command, peer: SimulatedPeer, answer: asyncio.Future[Command]) -> None:
        clock = self.network.clock
        now = clock.monotonic()
        self.free_at = max(now, self.free_at) + self.cost_s(command)
        second = self.seconds.setdefault(int(now), Second())
        second.requests[command.code] += 1
        second.bytes += HEADER_BYTES + len(command.body)
        second.longest_wait_s = max(second.longest_wait_s, self.free_at - now)
        clock.call_later(self.free_at - now + LATENCY_S, self._serve, command, peer, answer, now)

    def _serve(self, command: Command, peer: SimulatedPeer, answer: asyncio.Future[Command], arrived: float) -> None:
        if self.state is not State.UP or not peer.is_open:
            return
        found = self.handle(RequestOf(command, peer, arrived))
        if found is None or isinstance(found, Reply):
            self._reply(found, command, answer)
        else:
            asyncio.get_running_loop().create_task(self._later(RequestOf(command, peer, arrived), found, answer))

    async def _later(self, request: Request, found: object, answer: asyncio.Future[Command]) -> None:
        self._reply(await await_answer(found), request.command, answer)  # type: ignore[arg-type]

    def _reply(self, reply: Reply | None, command: Command, answer: asyncio.Future[Command]) -> None:
        if reply is None or answer.done():
            return
        sent = reply.to_command(command)
        second = self.seconds.setdefault(int(self.network.clock.monotonic()), Second())
        second.bytes += HEADER_BYTES + len(sent.body)
        answer.set_result(sent)

    def go(self, state: State) -> None:
        """End all connections, or let them hang where nobody hears that they are gone."""
        self.state = state
        self.free_at = 0.0
        for peer in tuple(self.peers):
            if state is State.REFUSING:
                peer.close("connection reset by peer")
            else:
                peer.hang()

    def lost(self, peer: SimulatedPeer) -> None:
        self.peers.discard(peer)
        if self.state is State.UP:
            self.on_close(peer)


class SimulatedPeer:
    """A connection, as both ends see it. Implements `transport.peer.Peer`."""

    language = Language.PYTHON
    version = 0
    identity: str | None = None

    def __init__(self, link: Link, server: Server) -> None:
        self.link = link
        self.server = server
        self.address = server.address
        self.is_open = True
        self.pending: set[asyncio.Future[Command]] = set()
        server.peers.add(self)

    async def call(self, request: Command, timeout_s: float) -> Command:
        answer: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        self.pending.add(answer)
        if self.server.state is not State.SILENT:
            self.server.arrive(request, self, answer)
        try:
            async with self.link.clock.timeout(timeout_s):
                return await answer
        except TimeoutError:
            raise CallTimedOut(f"{self.address} did not answer within {timeout_s:.3g} s") from None
        finally:
            self.pending.discard(answer)

    def send(self, command: Command) -> None:
        """Drop it: nobody here sends one-way requests that matter."""

    def hang(self) -> None:
        """Leave it open on this side: nothing comes any more."""

    def close(self, reason: str) -> None:
        if not self.is_open:
            return
        self.is_open = False
        self.server.lost(self)
        self.link.lost(self)
        for answer in tuple(self.pending):
            if not answer.done():
                answer.set_exception(ConnectionLost(f"the connection to {self.address} ended: {reason}"))


class Link:
    """What a program has in place of a `RemotingClient`: the same calls, the same pauses between attempts."""

    def __init__(self, network: Network, rng: random.Random, on_close: Callable[[Peer], None] | None = None) -> None:
        self.network = network
        self.clock = network.clock
        self._rng = rng
        self._on_close = on_close
        self._peers: dict[str, SimulatedPeer] = {}
        self._failures: dict[str, tuple[int, float]] = {}
        self._reconnect = Reconnect()
        self.is_closed = False

    async def call(self, address: str, request: Command, timeout_s: float) -> Command:
        began = self.clock.monotonic()
        peer = await self.connect(address)
        return await peer.call(request, timeout_s - (self.clock.monotonic() - began))

    async def connect(self, address: str) -> SimulatedPeer:
        peer = self._peers.get(address)
        if peer is not None and peer.is_open:
            return peer
        failures, not_before = self._failures.get(address, (0, 0.0))
        if self.clock.monotonic() < not_before:
            raise ConnectionLost(f"{address} not reached; next attempt later")
        server = self.network.servers.get(address)
        await self.clock.sleep(LATENCY_S)
        if server is None or server.state is not State.UP:
            if server is not None and server.state is State.SILENT:
                await self.clock.sleep(self._reconnect.attempt_s)
            pause_s = self._reconnect.delay_s(failures + 1, self._rng)
            self._failures[address] = failures + 1, self.clock.monotonic() + pause_s
            raise ConnectionLost(f"cannot connect to {address}")
        self._failures.pop(address, None)
        if address not in self._peers or not self._peers[address].is_open:  # another call was not faster
            self._peers[address] = SimulatedPeer(self, server)
        return self._peers[address]

    async def send(self, address: str, request: Command) -> None:
        await self.connect(address)

    def let_go(self, address: str, reason: str) -> None:
        if address in self._peers:
            self._peers[address].close(reason)

    def lost(self, peer: SimulatedPeer) -> None:
        if self._peers.get(peer.address) is peer:
            del self._peers[peer.address]
        if self._on_close is not None and not self.is_closed:
            self._on_close(peer)

    async def close(self) -> None:
        self.is_closed = True
        for peer in tuple(self._peers.values()):
            peer.close("closed")


@dataclass(slots=True, eq=False)
class Network:
    clock: Clock
    servers: dict[str, Server] = field(default_factory=dict)
