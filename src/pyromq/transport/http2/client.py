"""Makes gRPC calls: one connection per server, made when a call needs it, kept while it serves, made anew after.

async with Http2Client(clock=clock, rng=rng) as client:
    answer = await client.call("host:8081", path, request, metadata, timeout_s=3)
    async with await client.open("host:8081", path, metadata) as call:
        await call.send(request)
        while (message := await call.receive()) is not None: ...
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

from ...ambient import Clock, Random
from ...errors import ConfigError, ConnectionLost
from ...protocol.grpc.status import GrpcStatus
from ..address import host_of, parse_address
from ..client import Connect, Reconnect, connect_socket
from ..connection.security import retrieve
from ..tls import Certificates, ClientTls, TlsSession
from .calls import GrpcError
from .client_connection import ClientCall, Http2ClientConnection

Metadata = Iterable[tuple[str, str]]

_KEEP_ALIVE_S = 30.0


@dataclass(slots=True)
class _Endpoint:
    """What is known of one address."""

    connections: list[Http2ClientConnection] = field(default_factory=list)  # the last one takes new calls
    attempt: asyncio.Task[Http2ClientConnection] | None = None
    failures: int = 0
    not_before: float = float("-inf")
    last_fault: str = ""
    hint: str = ""  # what to do about that


class Http2Client:
    """Event loop only. A call makes at most one attempt to connect and never repeats itself."""

    def __init__(
        self,
        *,
        clock: Clock,
        rng: Random,
        tls: ClientTls | None = None,
        reconnect: Reconnect | None = None,
        connect: Connect | None = None,
        keep_alive_s: float = _KEEP_ALIVE_S,
    ) -> None:
        """`keep_alive_s`: a server that is silent for so long with calls open is asked; silent again, it is left."""
        self._clock = clock
        self._rng = rng
        self._certificates = None if tls is None else Certificates(tls)
        self._reconnect = reconnect or Reconnect()
        self._connect = connect or connect_socket
        self._keep_alive_s = keep_alive_s
        self._endpoints: dict[str, _Endpoint] = {}
        self._is_closed = False

    async def call(
        self, address: str, path: str, message: bytes, metadata: Metadata = (), *, timeout_s: float | None
    ) -> bytes:
        """Return the answer of a unary call. GrpcError for a status other than OK, ConnectionLost if none came."""
        async with await self.open(address, path, metadata, timeout_s=timeout_s) as call:
            await call.send(message)
            call.half_close()
            answer = await call.receive()
            if answer is None:
                raise GrpcError(GrpcStatus.INTERNAL, f"{address} answered {path} without a message")
            await call.receive()  # the status
            return answer

    async def open(
        self, address: str, path: str, metadata: Metadata = (), *, timeout_s: float | None = None
    ) -> ClientCall:
        """Begin a call of any kind. ConnectionLost if the server is not reached."""
        began = self._clock.monotonic()
        try:
            async with self._clock.timeout(timeout_s):
                connection = await self.connect(address)
        except TimeoutError:
            text = f"{address} was not reached within {timeout_s:g} s"
            raise GrpcError(GrpcStatus.DEADLINE_EXCEEDED, text) from None
        if timeout_s is not None:
            timeout_s = max(0.0, timeout_s - (self._clock.monotonic() - began))
        return connection.begin(path, metadata, timeout_s)

    async def connect(self, address: str) -> Http2ClientConnection:
        """Return a connection that takes calls, made if there is none. ConnectionLost if that cannot be."""
        if self._is_closed:
            raise ConnectionLost("this client is closed")
        endpoint = self._endpoints.get(address)
        if endpoint is None:
            _check_address(address)
            endpoint = self._endpoints[address] = _Endpoint()
        for connection in reversed(endpoint.connections):
            if connection.can_begin:
                return connection
        if endpoint.attempt is None:
            wait_s = endpoint.not_before - self._clock.monotonic()
            if wait_s > 0:
                text = f"{address} not reached ({endpoint.last_fault}); next attempt in {wait_s:.1f} s"
                raise ConnectionLost(text, hint=endpoint.hint)
            endpoint.attempt = asyncio.get_running_loop().create_task(self._open(address, endpoint))
            endpoint.attempt.add_done_callback(retrieve)
        return await asyncio.shield(endpoint.attempt)

    async def close(self) -> None:
        """Close all connections. Calls that wait fail with ConnectionLost."""
        self._is_closed = True
        endpoints = tuple(self._endpoints.values())
        attempts = [each.attempt for each in endpoints if each.attempt is not None]
        for attempt in attempts:
            attempt.cancel()
        await asyncio.gather(*attempts, return_exceptions=True)
        connections = [connection for each in endpoints for connection in each.connections]
        for connection in connections:
            connection.close("the client is closed")
        for connection in connections:
            await connection.gone()

    async def __aenter__(self) -> Http2Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _open(self, address: str, endpoint: _Endpoint) -> Http2ClientConnection:
        connection = Http2ClientConnection(
            address, self._tls_session(address), self._forget, clock=self._clock, keep_alive_s=self._keep_alive_s
        )
        try:
            async with self._clock.timeout(self._reconnect.attempt_s):
                await self._connect(address, connection)
                await connection.ready()
        except (OSError, ConnectionLost, ValueError) as fault:  # ValueError: a host that no resolver takes
            connection.abort("not connected")
            endpoint.failures += 1
            endpoint.last_fault = str(fault) or f"no answer within {self._reconnect.attempt_s:g} s"
            endpoint.not_before = self._clock.monotonic() + self._reconnect.delay_s(endpoint.failures, self._rng)
            endpoint.hint = fault.hint if isinstance(fault, ConnectionLost) else ""
            raise ConnectionLost(f"cannot connect to {address}: {endpoint.last_fault}", hint=endpoint.hint) from None
        except asyncio.CancelledError:
            connection.abort("the client is closed")
            raise ConnectionLost("this client is closed") from None  # for those who wait; nobody cancelled them
        finally:
            endpoint.attempt = None
        endpoint.failures = 0
        endpoint.connections.append(connection)
        return connection

    def _tls_session(self, address: str) -> TlsSession | None:
        if self._certificates is None:
            return None
        context = self._certificates.context()
        context.set_alpn_protocols(["h2"])
        return TlsSession(context, server_side=False, host=host_of(address).strip("[]"))

    def _forget(self, connection: Http2ClientConnection) -> None:
        endpoint = self._endpoints.get(connection.address)
        if endpoint is not None and connection in endpoint.connections:
            endpoint.connections.remove(connection)
            if not endpoint.connections and endpoint.attempt is None and not endpoint.failures:
                del self._endpoints[connection.address]


def _check_address(address: str) -> None:
    try:
        parse_address(address)
    except ConfigError as fault:
        raise ConnectionLost(f"cannot connect: {fault}") from None
