"""Makes calls to etcd's gateway: idle connections kept, another member after a failure, a token for a user.

Nothing is sent twice unless the caller says that it may be: a request whose answer did not come may have been carried
out. Failing to connect is no such case, so every call goes on to the next member then.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Mapping
from typing import TypeVar

import msgspec

from ..ambient import Clock
from ..errors import CallFailed, CallTimedOut, ConnectionLost
from ..transport.address import parse_address
from ..transport.tls import Certificates, ClientTls
from . import gateway_messages as messages
from .etcd_settings import EtcdSettings
from .http import MOST_LINE_BYTES, HttpAnswer, HttpConnection
from .store import CoordinationRefused, CoordinationUnreachable

S = TypeVar("S", bound=msgspec.Struct)

_MOST_IDLE = 4
UNAUTHENTICATED, PERMISSION_DENIED, INVALID_ARGUMENT, FAILED_PRECONDITION = 16, 7, 3, 9
_NEVER_DONE = (UNAUTHENTICATED, PERMISSION_DENIED, INVALID_ARGUMENT, FAILED_PRECONDITION)
NOT_FOUND = 5


class GatewayRefused(CallFailed):
    """etcd answered with an error. `code` is gRPC's; by `is_certain` nothing was done and asking again is of no use."""

    def __init__(self, address: str, path: str, fault: messages.ErrorAnswer) -> None:
        super().__init__(f"etcd at {address} answered {path}: {fault.message or 'no reason'} (code {fault.code})")
        self.code = fault.code
        self.is_certain = fault.code in _NEVER_DONE


class GatewayCalls:
    """Event loop only. The member that answered last is asked first."""

    def __init__(self, settings: EtcdSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self.addresses = settings.addresses
        self._certificates = Certificates(settings.tls or ClientTls()) if settings.is_encrypted else None
        self._idle: dict[str, list[HttpConnection]] = {address: [] for address in self.addresses}
        self._streams: dict[str, set[HttpConnection]] = {address: set() for address in self.addresses}
        self._first = 0  # the place of the member that is asked first
        self._token = ""
        self._is_closed = False

    async def ask(self, path: str, request: Mapping[str, object], answer: type[S], *, may_repeat: bool) -> S:
        """Return the answer of the first member that gives one.

        Raises CoordinationUnreachable if none does, GatewayRefused. With `may_repeat=False` it is sent once at most,
        and CallTimedOut or ConnectionLost say that the outcome is unknown."""
        faults: list[str] = []
        for _ in self.addresses:
            address = self.addresses[self._first]
            try:
                async with self._clock.timeout(self._settings.attempt_s):
                    content = await self._post_as_user(await self._connected(address), path, request)
                return messages.decode(content, answer, address)
            except _NotConnected as fault:
                faults.append(str(fault))
            except (TimeoutError, ConnectionLost, GatewayRefused) as fault:
                if isinstance(fault, GatewayRefused) and (fault.is_certain or fault.code == NOT_FOUND):
                    raise
                text = str(fault) or f"{address} did not answer within {self._settings.attempt_s:g} s"
                self.turn_away(address)
                if not may_repeat:
                    raise (CallTimedOut(text) if isinstance(fault, TimeoutError) else fault) from None
                faults.append(text)
                continue
            self.turn_away(address)
        raise CoordinationUnreachable(f"no member of etcd answered: {'; '.join(faults)}")

    async def stream(self, path: str, request: Mapping[str, object]) -> AsyncGenerator[bytes]:
        """Yield the lines of an endless answer of one member. ConnectionLost: it ended, or was silent for too long."""
        address = self.addresses[self._first]
        connection, began = None, False
        try:
            async with self._clock.timeout(self._settings.attempt_s):
                connection = await self._connected(address)
                headers = await self._headers(connection)
            self._streams[address].add(connection)
            lines = connection.stream(path, msgspec.json.encode(request), headers)
            while True:
                async with self._clock.timeout(self._settings.watch_silence_s):
                    line = await anext(lines, None)
                began = True
                if line is None:
                    raise ConnectionLost(f"{address} ended the stream of {path}")
                yield line
        except TimeoutError:
            if not began:  # silence later is what a quiet set looks like
                self.turn_away(address)
            raise ConnectionLost(f"{address} was silent for too long") from None
        except ConnectionLost:
            self.turn_away(address)
            raise
        finally:
            if connection is not None:
                self._streams[address].discard(connection)
                connection.close()

    async def get(self, address: str, path: str) -> bytes:
        """Return what one member answers to a plain GET; the time is that of one attempt."""
        async with self._clock.timeout(self._settings.attempt_s):
            connection = await self._connected(address)
            answer = await connection.ask("GET", path, b"", {})
        connection.close()
        return answer.body if answer.status == 200 else b""

    def turn_away(self, address: str) -> None:
        """Ask the next member first from now on, unless that has been decided meanwhile.

        Its streams end, since a member that does not answer calls says nothing on these, either: they go on elsewhere
        at once, and not when they were silent for long."""
        for connection in self._streams[address]:
            connection.close()
        if self.addresses[self._first] == address:
            self._first = (self._first + 1) % len(self.addresses)

    def forget_token(self) -> None:
        self._token = ""

    async def close(self) -> None:
        self._is_closed = True
        for connections in self._idle.values():
            while connections:
                connections.pop().close()

    # --- one attempt -------------------------------------------------------------------------------------------------

    async def _post_as_user(self, connection: HttpConnection, path: str, request: Mapping[str, object]) -> bytes:
        """Ask, with a new token if the one that we have is over: nothing was done then."""
        try:
            answer = await self._post(connection, path, request, await self._headers(connection))
            if self._token and _is_unauthenticated(answer):
                self.forget_token()
                answer = await self._post(connection, path, request, await self._headers(connection))
        except BaseException:
            connection.close()  # half an answer may stand in it
            raise
        self._keep(connection)
        return _content(answer, connection.host, path)

    async def _headers(self, connection: HttpConnection) -> dict[str, str]:
        if not self._settings.user:
            return {}
        if not self._token:
            who: dict[str, object] = {"name": self._settings.user, "password": self._settings.password}
            path = "/v3/auth/authenticate"
            content = _content(await self._post(connection, path, who, {}), connection.host, path)
            self._token = messages.decode(content, messages.TokenAnswer, connection.host).token
        return {"Authorization": self._token}

    async def _post(
        self, connection: HttpConnection, path: str, request: Mapping[str, object], headers: Mapping[str, str]
    ) -> HttpAnswer:
        return await connection.ask("POST", path, msgspec.json.encode(request), headers)

    def _keep(self, connection: HttpConnection) -> None:
        idle = self._idle[connection.host]
        if connection.is_usable and not self._is_closed and len(idle) < _MOST_IDLE:
            idle.append(connection)
        else:
            connection.close()

    async def _connected(self, address: str) -> HttpConnection:
        if self._is_closed:
            raise ConnectionLost("this client of etcd is closed")
        while self._idle[address]:
            connection = self._idle[address].pop()
            if connection.is_usable:
                return connection
            connection.close()
        host, port = parse_address(address)
        context = None if self._certificates is None else self._certificates.context()
        try:
            reader, writer = await asyncio.open_connection(host, port, ssl=context, limit=MOST_LINE_BYTES)
        except (OSError, ssl.CertificateError) as fault:
            why = str(fault) or "it closed the connection"
            hint = "" if context is None else _cure(fault)
            raise _NotConnected(f"cannot connect to etcd at {address}: {why}{hint}") from None
        return HttpConnection(reader, writer, address)


def _cure(fault: Exception) -> str:
    """Say what to do where a connection by TLS could not be made."""
    if isinstance(fault, ConnectionRefusedError):
        return ""
    if not isinstance(fault, ssl.SSLCertVerificationError):
        return " (by https://: is it http://?)"
    if "expired" in str(fault) or "not yet valid" in str(fault):
        return ". Renew etcd's certificate, or set the clock of this machine"
    return ". etcdTrustCertPath names who signs etcd's certificates, which must be made out to this address"


class _NotConnected(ConnectionLost):
    """Nothing was sent."""


def _is_unauthenticated(answer: HttpAnswer) -> bool:
    return answer.status == 401


def _content(answer: HttpAnswer, address: str, path: str) -> bytes:
    """Return the answer's body. Raises GatewayRefused, CoordinationRefused, ConnectionLost by its status."""
    if answer.status == 200:
        return answer.body
    if answer.status == 404 and not answer.body.lstrip().startswith(b"{"):
        raise CoordinationRefused(
            f"etcd at {address} does not know {path}: its JSON gateway is switched off, or something else answers "
            "there. Start etcd with --enable-grpc-gateway=true"
        )
    raise GatewayRefused(address, path, messages.decode(answer.body, messages.ErrorAnswer, address))
