"""Accepts connections and serves their requests.

    server = Server(Dispatcher(handlers), clock=clock)
    address = await server.start("127.0.0.1", 0)
    ...
    await server.stop(grace_s=5)

Whoever composes a daemon makes one per port. It knows nothing of single requests.
"""

from __future__ import annotations

import asyncio
import errno
from collections import Counter
from collections.abc import Callable, Iterator

from .. import logs
from ..ambient import Clock
from ..errors import ConfigError
from ..kernel.seam import Feed, feed_nothing
from .address import host_of, socket_address
from .connection import Connection
from .dispatch import Handler
from .limits import Limits, connection_limit
from .parked import Patience
from .peer import Peer
from .request_class import RequestClass
from .service import Service
from .tls import ServerTls, opening

log = logs.get("pyromq.transport")

_BACKLOG = 1024
_ACCEPTING_PASSES = 4  # of the loop, from an accepted socket to a connection that is refused and closed


class Server:
    """One listener. Event loop only."""

    def __init__(
        self,
        dispatch: Handler,
        *,
        clock: Clock,
        limits: Limits | None = None,
        tls: ServerTls | None = None,
        feed: Feed = feed_nothing,
        on_close: Callable[[Peer], None] | None = None,
        name: str = "main",
    ) -> None:
        """`on_close` is called once for each connection that ended; `name` stands in log lines and verdicts."""
        self._clock = clock
        self._limits = limits or Limits()
        self.name = name
        self._on_close = on_close
        self._opening = opening(tls)
        self._most = connection_limit(self._limits)
        self._connections: set[Connection] = set()
        self._per_host: Counter[str] = Counter()
        self._listener: asyncio.Server | None = None
        self._is_stopping = False
        self._service = Service(
            dispatch, clock=clock, limits=self._limits, feed=feed, opened=self._admit, closed=self._forget
        )

    async def start(self, host: str, port: int) -> str:
        """Listen; the address with the port that was chosen if it was 0."""
        loop = asyncio.get_running_loop()
        try:
            self._listener = await loop.create_server(self._accept, host, port, backlog=_BACKLOG, reuse_address=True)
        except OSError as fault:
            raise ConfigError(_cannot_listen(host, port, fault)) from None
        return socket_address(self._listener.sockets[0].getsockname())

    def attach(self, stream: asyncio.Transport) -> Peer:
        """Serve a stream that exists already, such as one end of `memory.pair`."""
        connection = self._accept()
        stream.set_protocol(connection)
        connection.connection_made(stream)
        return connection

    @property
    def connections(self) -> int:
        return len(self._connections)

    def peers(self) -> Iterator[Peer]:
        """The connections that are open and have asked for something."""
        return (connection for connection in tuple(self._connections) if connection.is_open and connection.has_spoken)

    @property
    def held_bytes(self) -> int:
        """What is held for peers at this moment: unfinished frames and requests, answers that they do not read."""
        return self._service.held_bytes

    def waiting(self, kind: RequestClass) -> int:
        """Requests of a class that wait to be served."""
        return self._service.waiting(kind)

    def use_feed(self, feed: Feed) -> None:
        """Received bytes go through this kernel first: whoever composes a daemon may know it after the start only."""
        self._service.use_feed(feed)

    @property
    def parked(self) -> int:
        """Answers of the kernel that wait for the log, a received buffer's together."""
        return self._service.parked

    def release(self, readable: int) -> None:
        """The log is readable up to here: replies that the kernel parked below it leave."""
        self._service.release(readable)

    def wait_at_most(self, patience: Patience) -> None:
        """How long replies stay parked, and what is answered in their place then."""
        self._service.wait_at_most(patience)

    def give_up_parked(self) -> None:
        """The log will not become readable any more: connections with parked replies are cut off."""
        self._service.give_up_parked()

    async def stop(self, grace_s: float) -> None:
        """Accept nothing more, finish what is in flight, write it out, close. After the grace it is all cut off."""
        self._is_stopping = True
        if self._listener is not None:
            await _stop_accepting(self._listener)
        self._service.refuse_new()
        try:
            async with self._clock.timeout(grace_s):
                await self._service.until_quiet()
                for connection in tuple(self._connections):
                    connection.close("the server stops")
                await self._all_gone()
        except TimeoutError:
            log.warning("stopped before all requests were finished", listener=self.name, grace_s=grace_s)
        await self._service.cancel()
        for connection in tuple(self._connections):
            connection.abort("the server stops")
        await self._all_gone()
        if self._listener is not None:
            await self._listener.wait_closed()
            self._listener = None

    async def _all_gone(self) -> None:
        for connection in tuple(self._connections):
            await connection.gone()

    def _accept(self) -> Connection:
        return Connection(self._service, opening=self._opening, listener=self.name)

    def _admit(self, connection: Connection) -> bool:
        if self._is_stopping:
            return False
        host = host_of(connection.address)
        per_address = self._limits.connections_per_address
        if len(self._connections) >= self._most:
            self._refuse(connection, "connections", self._most)
            return False
        if per_address is not None and self._per_host[host] >= per_address:
            self._refuse(connection, "connections_per_address", per_address)
            return False
        self._connections.add(connection)
        self._per_host[host] += 1
        return True

    def _refuse(self, connection: Connection, limit: str, value: int) -> None:
        self._service.warn.warning("connection refused", peer=connection.address, limit=limit, value=value)

    def _forget(self, connection: Connection) -> None:
        if connection not in self._connections:
            return  # it was refused
        self._connections.remove(connection)
        host = host_of(connection.address)
        self._per_host[host] -= 1
        if not self._per_host[host]:
            del self._per_host[host]
        if self._on_close is not None:
            self._on_close(connection)


async def _stop_accepting(listener: asyncio.Server) -> None:
    """A socket that was accepted a moment ago becomes a connection first: asyncio would leave it open otherwise."""
    loop = asyncio.get_running_loop()
    if isinstance(loop, asyncio.SelectorEventLoop):  # uvloop keeps its listeners to itself, and closes what they took
        for listening in listener.sockets:
            loop.remove_reader(listening.fileno())
    for _ in range(_ACCEPTING_PASSES):
        passed = loop.create_future()
        loop.call_soon(passed.set_result, None)
        await passed
    listener.close()


def _cannot_listen(host: str, port: int, fault: OSError) -> str:
    if fault.errno == errno.EADDRINUSE:
        return (
            f"port {port} on {host} is in use: choose another port (0 takes any free one), or stop what listens there"
        )
    if fault.errno == errno.EACCES:
        return f"port {port} on {host} needs rights that this process lacks: choose one above 1023"
    return f"cannot listen on {host} port {port}: {fault.strerror or fault}"
