"""Whether one connection speaks TLS, and the plain bytes of what it receives.

Undecided until the first byte on the server's side; on the client's a session from the start, or none.
"""

from __future__ import annotations

import asyncio

from ..tls import Opening, TlsSession
from ..tls_hints import hint


class Security:
    """Event loop only. `handshake` is done when ours as a client is; None where there is none."""

    __slots__ = ("_opening", "handshake", "session")

    def __init__(self, opening: Opening | None, session: TlsSession | None) -> None:
        self._opening = opening
        self.session = session
        self.handshake: asyncio.Future[None] | None = None

    @property
    def is_undecided(self) -> bool:
        return self._opening is not None

    def start(self, stream: asyncio.Transport) -> None:
        """Begin the handshake of a client that wants TLS."""
        if self.session is not None:
            self.handshake = asyncio.get_running_loop().create_future()
            self.handshake.add_done_callback(_retrieve)
            stream.write(self.session.take_outgoing())

    def receive(self, data: memoryview, stream: asyncio.Transport) -> memoryview:
        """Return the plain bytes; what TLS has to say to the peer is written, also before a ProtocolError."""
        if self._opening is not None:
            self.session = self._opening(data[0])
            self._opening = None
        session = self.session
        if session is None:
            return data
        try:
            plain = session.receive(data)
        finally:
            if answer := session.take_outgoing():
                stream.write(answer)
        if self.handshake is not None and session.is_ready and not self.handshake.done():
            self.handshake.set_result(None)
        return memoryview(plain)

    def end(self, failure: Exception) -> None:
        """Fail a handshake that will not be done any more."""
        if self.handshake is not None and not self.handshake.done():
            self.handshake.set_exception(failure)

    def hint(self, reason: str, by_peer: bool) -> str:
        session = self.session
        is_secured = session is not None and session.is_ready
        return hint(reason, is_tls=session is not None, is_secured=is_secured, by_peer=by_peer)


def _retrieve(future: asyncio.Future[None]) -> None:
    """Mark a failure as seen: those who wait have futures of their own, and nobody may be left to look at this one."""
    if not future.cancelled():
        future.exception()
