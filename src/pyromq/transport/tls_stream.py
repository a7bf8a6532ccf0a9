"""TLS between a socket and a protocol that knows plain bytes: replication streams, which are no remoting.

The protocol is given a transport of plain bytes. A server's side decides by the first byte whether the peer speaks TLS,
and passes plain bytes on where it does not and may; a client's side hands the transport on once the handshake is done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, cast

from ..ambient import Clock
from ..errors import ConnectionLost, ProtocolError
from .address import host_of
from .client import Connect
from .connection.security import retrieve
from .tls import Certificates, Opening, TlsSession

HANDSHAKE_S = 3.0


class PeerHungUp(ConnectionLost):
    """The peer ended a connection before its TLS handshake was done, and did not say why."""


class TlsStream(asyncio.Protocol):
    """Event loop only. `opening`: of a server's side; `session`: of a client's (`secured`).

    `failed` is told why TLS has ended the connection, and returns what the protocol is told of it."""

    def __init__(
        self,
        inner: asyncio.Protocol,
        failed: Callable[[ProtocolError], Exception],
        *,
        opening: Opening | None = None,
        session: TlsSession | None = None,
    ) -> None:
        self._inner, self._failed = inner, failed
        self._opening, self._session = opening, session
        self._plain: PlainSide | None = None
        self.handshake: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.handshake.add_done_callback(retrieve)
        self._raw: asyncio.Transport | None = None
        self._fault: Exception | None = None
        self._is_made = False  # the protocol has its transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._raw = cast(asyncio.Transport, transport)  # uvloop's is none by its type
        self._plain = PlainSide(self._raw, self._encrypted)
        if self._session is None:
            self._hand_on(self._plain)
        else:
            self._raw.write(self._session.take_outgoing())

    def _hand_on(self, plain: PlainSide) -> None:
        self._is_made = True
        self._inner.connection_made(plain)

    def data_received(self, data: bytes) -> None:
        if self._fault is not None:
            return
        try:
            plain = self._decrypted(data)
        except ProtocolError as fault:
            self._end_by(fault)
            return
        if self._session is not None and self._session.is_ready and not self.handshake.done():
            self.handshake.set_result(None)
            if self._plain is not None and not self._is_made:
                self._hand_on(self._plain)
        if plain:
            self._inner.data_received(plain)

    def _decrypted(self, data: bytes) -> bytes:
        if self._opening is not None and not self.handshake.done() and self._session is None:
            self._session = self._opening(data[0])
            if self._session is None:
                self.handshake.set_result(None)
        session = self._session
        if session is None:
            return data
        try:
            return session.receive(data)
        finally:
            if (answer := session.take_outgoing()) and self._raw is not None:
                self._raw.write(answer)

    def _encrypted(self, parts: list[Any]) -> list[Any]:
        """Return what is written for these parts: nothing once TLS has ended."""
        if self._session is None or self._fault is not None:
            return parts if self._fault is None else []
        try:
            return [self._session.encrypt(parts)]
        except ProtocolError as fault:
            self._end_by(fault)
            return []

    def _end_by(self, fault: ProtocolError) -> None:
        self._fault = self._failed(fault)
        self._end_handshake(self._fault)
        if self._raw is not None:
            self._raw.close()  # the alert, which says why, is written first

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_handshake(PeerHungUp("the peer ended the connection during the TLS handshake"))
        if self._is_made or self._session is None:
            self._inner.connection_lost(self._fault or exc)

    @property
    def is_ready(self) -> bool:
        """Return whether the protocol may speak."""
        return self._is_made and self._fault is None

    def close(self) -> None:
        """End the connection."""
        if self._raw is not None:
            self._raw.abort()

    def _end_handshake(self, fault: Exception) -> None:
        if not self.handshake.done():
            self.handshake.set_exception(fault)


class PlainSide(asyncio.Transport):
    """A connection as the protocol within TLS sees it. What is not here is the socket's own affair."""

    def __init__(self, raw: asyncio.Transport, encrypted: Callable[[list[Any]], list[Any]]) -> None:
        super().__init__()
        self._raw, self._encrypted = raw, encrypted

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        self.writelines([data])

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview[Any]]) -> None:
        if parts := self._encrypted(list(list_of_data)):
            self._raw.writelines(parts)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._raw.set_write_buffer_limits(high, low)

    def pause_reading(self) -> None:
        self._raw.pause_reading()

    def resume_reading(self) -> None:
        self._raw.resume_reading()

    def is_closing(self) -> bool:
        return self._raw.is_closing()

    def close(self) -> None:
        self._raw.close()

    def abort(self) -> None:
        self._raw.abort()


def secured(connect: Connect, certificates: Certificates, clock: Clock, cure: Callable[[str], str]) -> Connect:
    """Return a Connect whose streams are TLS. It raises ConnectionLost where the handshake fails: `cure` says what to
    do about a reason."""

    async def connect_by_tls(address: str, protocol: asyncio.BaseProtocol) -> None:
        session = TlsSession(certificates.context(), server_side=False, host=host_of(address).strip("[]"))

        def failed(fault: Exception) -> ConnectionLost:
            return ConnectionLost(f"no TLS with {address}: {fault}. {cure(str(fault))}")

        stream = TlsStream(cast(asyncio.Protocol, protocol), failed, session=session)
        await connect(address, stream)
        try:
            async with clock.timeout(HANDSHAKE_S):
                await stream.handshake
        except PeerHungUp as fault:
            raise failed(fault) from None
        except TimeoutError:
            raise failed(PeerHungUp(f"no answer to the TLS handshake within {HANDSHAKE_S:g} s")) from None
        finally:
            if not stream.is_ready:
                stream.close()

    return connect_by_tls
