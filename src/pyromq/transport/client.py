"""Our own requests to other programs: one connection per address, used again and made again.

    client = RemotingClient(clock=clock, rng=rng)
    response = await client.call("127.0.0.1:9876", command, timeout_s=3)

A call makes at most one attempt to connect and never repeats itself: whether a request may be sent twice is for the
caller to know. After failed attempts the next one is put off (longer each time, with chance in it), and calls meanwhile
fail at once, so that callers turn to another address instead of queueing for a dead one.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Self

from .. import logs
from ..ambient import Clock
from ..errors import CallTimedOut, ConfigError, ConnectionLost
from ..model.codes import ResponseCode
from ..protocol.command import ONEWAY_FLAG, Command
from ..protocol.frame import MOST_HEADER_BYTES, FrameLimits
from .address import host_of, parse_address
from .connection.connection import Connection
from .connection.security import retrieve
from .dispatch import Dispatcher, Handler
from .limits import Limits
from .peer import Peer
from .service import Service
from .tls import Certificates, ClientTls, TlsSession

log = logs.get("pyromq.transport")

# Make a stream to the address and join it to the protocol. OSError: it could not be made.
Connect = Callable[[str, asyncio.BaseProtocol], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconnect:
    """How long to leave an address alone after a failed attempt: doubled each time, half of it by chance."""

    first_s: float = 0.1
    most_s: float = 10.0
    attempt_s: float = 3.0  # one attempt, TLS handshake included (connectTimeoutMillis)

    def __post_init__(self) -> None:
        if not 0 < self.first_s <= self.most_s or self.attempt_s <= 0:
            raise ConfigError(f"{self}: 0 < first_s <= most_s and attempt_s > 0 are needed")

    def delay_s(self, failures: int, rng: random.Random) -> float:
        full = min(self.most_s, self.first_s * 2.0 ** min(failures - 1, 30))
        return full * (0.5 + 0.5 * rng.random())


@dataclass(slots=True)
class _Route:
    """What is known of one address."""

    connection: Connection | None = None
    attempt: asyncio.Task[Connection] | None = None
    failures: int = 0
    not_before: float = float("-inf")
    last_fault: str = ""
    hint: str = ""  # what to do about that


ANY_ANSWER = FrameLimits(header_bytes=MOST_HEADER_BYTES)  # a batch is answered with an id for each message


class RemotingClient:
    """Event loop only. Requests that servers send us go to `dispatch`."""

    def __init__(
        self,
        *,
        clock: Clock,
        rng: random.Random,
        dispatch: Handler | None = None,
        limits: Limits | None = None,
        tls: ClientTls | None = None,
        reconnect: Reconnect | None = None,
        connect: Connect | None = None,
        on_close: Callable[[Peer], None] | None = None,
        sign: Callable[[Command], None] | None = None,
    ) -> None:
        """`sign` puts a signature into each request before it leaves, such as `protocol.signatures.Signer.sign`."""
        self._sign = sign
        self._clock = clock
        self._rng = rng
        self._limits = limits or Limits(frame=ANY_ANSWER)
        self._certificates = None if tls is None else Certificates(tls)
        self._reconnect = reconnect or Reconnect()
        self._connect = connect or connect_socket
        self._on_close = on_close
        self._routes: dict[str, _Route] = {}
        self._connections: dict[Connection, str] = {}
        self._retired: set[Connection] = set()  # told to go away: for pending calls only
        self._is_closed = False
        serve = dispatch or Dispatcher({})
        self._service = Service(serve, clock=clock, limits=self._limits, opened=lambda _: True, closed=self._forget)

    async def call(self, address: str, request: Command, timeout_s: float) -> Command:
        """Return the response, whatever its code. CallTimedOut or ConnectionLost if none comes."""
        if self._sign is not None:
            self._sign(request)
        peer = self._ready(address)
        if peer is None:
            began = self._clock.monotonic()
            try:
                async with self._clock.timeout(timeout_s):
                    peer = await self.connect(address)
            except TimeoutError:
                raise CallTimedOut(f"{address} was not reached within {timeout_s:g} s") from None
            timeout_s -= self._clock.monotonic() - began
        response = await peer.call(request, timeout_s)
        if response.code == ResponseCode.GO_AWAY and peer in self._connections:
            self._retired.add(peer)
        if peer in self._retired and not peer.pending_calls:
            peer.close("the server is going away")
        return response

    async def send(self, address: str, request: Command) -> None:
        """Send a request that nobody answers. ConnectionLost if the address cannot be reached."""
        request.flag |= ONEWAY_FLAG
        if self._sign is not None:
            self._sign(request)
        connection = await self.connect(address)
        await connection.writable()
        connection.send(request)

    def let_go(self, address: str, reason: str) -> None:
        """Cut the connection to this address, if there is one. Calls that wait fail with ConnectionLost."""
        connection = self._ready(address)
        if connection is not None:
            connection.abort(reason)

    async def close(self) -> None:
        """Close all connections. Calls that wait fail with ConnectionLost."""
        self._is_closed = True
        attempts = [route.attempt for route in self._routes.values() if route.attempt is not None]
        for attempt in attempts:
            attempt.cancel()
        await asyncio.gather(*attempts, return_exceptions=True)
        for connection in tuple(self._connections):
            connection.close("the client is closed")
        await self._service.cancel()
        for connection in tuple(self._connections):
            await connection.gone()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # --- connections -------------------------------------------------------------------------------------------------

    def _ready(self, address: str) -> Connection | None:
        """Return the connection that new calls may use, if there is one."""
        route = self._routes.get(address)
        connection = None if route is None else route.connection
        return connection if connection is not None and connection.is_open and connection not in self._retired else None

    async def connect(self, address: str) -> Connection:
        """Return the connection to the address, made if there is none."""
        if self._is_closed:
            raise ConnectionLost("this client is closed")
        connection = self._ready(address)
        if connection is not None:
            return connection
        route = self._routes.get(address)
        if route is None:
            _check_address(address)  # before anything is kept
            self._make_place(address)
            route = self._routes[address] = _Route()
        if route.attempt is None:
            wait_s = route.not_before - self._clock.monotonic()
            if wait_s > 0:
                text = f"{address} not reached ({route.last_fault}); next attempt in {wait_s:.1f} s"
                raise ConnectionLost(text, hint=route.hint)
            route.attempt = asyncio.get_running_loop().create_task(self._open(address, route))
            route.attempt.add_done_callback(retrieve)
        # Shielded: the attempt is shared, one caller that gives up does not end it for the others.
        return await asyncio.shield(route.attempt)

    async def _open(self, address: str, route: _Route) -> Connection:
        connection = Connection(self._service, tls=self._tls_session(address), address=address)
        try:
            async with self._clock.timeout(self._reconnect.attempt_s):
                await self._connect(address, connection)
                await connection.ready()
        except (OSError, ConnectionLost, ValueError) as fault:  # ValueError: a host that no resolver takes
            connection.abort("not connected")
            route.failures += 1
            route.last_fault = str(fault) or f"no answer within {self._reconnect.attempt_s:g} s"
            route.hint = fault.hint if isinstance(fault, ConnectionLost) else ""
            route.not_before = self._clock.monotonic() + self._reconnect.delay_s(route.failures, self._rng)
            raise ConnectionLost(f"cannot connect to {address}: {route.last_fault}", hint=route.hint) from None
        except asyncio.CancelledError:
            connection.abort("the client is closed")
            raise ConnectionLost("this client is closed") from None  # for those who wait; nobody cancelled them
        finally:
            route.attempt = None
        route.failures = 0
        route.connection = connection
        self._connections[connection] = address
        return connection

    def _make_place(self, address: str) -> None:
        """Forget addresses that were not reached if there is no place for one more. ConnectionLost: all are in use."""
        most = self._limits.connections
        if most is None or len(self._routes) < most:
            return
        self._routes = {known: route for known, route in self._routes.items() if route.connection or route.attempt}
        if len(self._routes) >= most:
            raise ConnectionLost(
                f"cannot connect to {address}: there are connections to {most} others, which is the share of open "
                "files that this process has for them; raise ulimit -n"
            )

    def _tls_session(self, address: str) -> TlsSession | None:
        if self._certificates is None:
            return None
        return TlsSession(self._certificates.context(), server_side=False, host=host_of(address).strip("[]"))

    def _forget(self, connection: Connection) -> None:
        address = self._connections.pop(connection, None)
        if address is None:
            return  # it was never ready
        self._retired.discard(connection)
        route = self._routes.get(address)
        if route is not None and route.connection is connection:
            route.connection = None
            if route.attempt is None:
                del self._routes[address]
        if self._on_close is not None:
            self._on_close(connection)


def _check_address(address: str) -> None:
    """Raise ConnectionLost for what is no address: others name many of ours, and then one more was not reached."""
    try:
        parse_address(address)
    except ConfigError as fault:
        raise ConnectionLost(f"cannot connect: {fault}") from None


async def connect_socket(address: str, protocol: asyncio.BaseProtocol) -> None:
    host, port = parse_address(address)
    await asyncio.get_running_loop().create_connection(lambda: protocol, host, port)
