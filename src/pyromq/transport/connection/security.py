"""Whether one connection speaks TLS, the plain bytes of what it receives, and what to do where TLS ended it.

Undecided until the first byte on the server's side; on the client's a session from the start, or none.
"""

from __future__ import annotations

import asyncio
from typing import Any

from ..tls import Opening, TlsSession

# Words for `ConnectionLost.hint`: what to do about a connection of ours that TLS or a full server may have ended.
TURN_ON = "pyromq --tls, PYROMQ_TLS=true in the environment, or connect(tls=pyromq.ClientTls()) in a program"
_CA = "--tls-ca FILE, PYROMQ_TLS_CA, ClientTls(ca=...)"
_VERIFY = "--tls-verify ca, PYROMQ_TLS_VERIFY=ca, ClientTls(verify=pyromq.Verify.CA)"
_OWN = "--tls-cert and --tls-key, PYROMQ_TLS_CERT and PYROMQ_TLS_KEY, ClientTls(certificate=..., key=...)"

_FULL = (
    "The server ended it without an answer: see its log. It may have no room for more connections: raise its "
    "maxConnections or its ulimit -n, or end some. Or it may"
)
SILENT = f"{_FULL} take TLS alone. Turn TLS on: {TURN_ON}"
NO_TLS = "The server may not speak TLS (tls.server.mode=disabled, or no certificate): its log says so. Turn TLS off"
NO_ANSWER_TO_TLS = f"{_FULL} not speak TLS (tls.server.mode=disabled, or no certificate). Turn TLS off"
UNTRUSTED = (
    f"TLS: its certificate is signed by nobody whom we trust. Name the file of who signed it: {_CA}. "
    "A server that made its certificate itself logs at its start where a copy for clients is (self-signed.crt)"
)
OTHER_NAME = (
    f"TLS: its certificate is made out to another name. Use that name, or check only who signed it: {_VERIFY}. "
    "Brokers are reached at the address that they advertise (brokerIP1)"
)
EXPIRED = "TLS: its certificate is past its time, or the clock of this machine is wrong. Renew it: no restart is needed"
NOT_OURS = f"TLS: the server may want a certificate of ours, signed by whom it trusts: see its log. Name one: {_OWN}"
FAULTY = "TLS: certificates or versions of both sides do not fit; the server's log has its part of it"


class Security:
    """Event loop only. `handshake` is done when ours as a client is; None where there is none."""

    __slots__ = ("_is_client", "_opening", "handshake", "session")

    def __init__(self, opening: Opening | None, session: TlsSession | None) -> None:
        self._opening = opening
        self._is_client = session is not None
        self.session = session
        self.handshake: asyncio.Future[None] | None = None

    @property
    def is_undecided(self) -> bool:
        return self._opening is not None

    def start(self, stream: asyncio.Transport) -> None:
        """Begin the handshake of a client that wants TLS."""
        if self._is_client and self.session is not None:
            self.handshake = asyncio.get_running_loop().create_future()
            self.handshake.add_done_callback(retrieve)
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
        """Return a guess why a connection ended on which nothing came; empty if the way it ended says nothing."""
        session = self.session
        if session is None:
            return SILENT if by_peer else ""
        if "CERTIFICATE_VERIFY_FAILED" in reason:
            return _of_their_certificate(reason)
        if "WRONG_VERSION_NUMBER" in reason:  # plain bytes came
            return NO_TLS
        if "ALERT" in reason and ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason):
            return NOT_OURS
        if by_peer:  # TLS 1.3 tells of a certificate that was not taken when we are done already
            return NOT_OURS if session.is_ready else NO_ANSWER_TO_TLS
        return FAULTY if "TLS" in reason else ""


def retrieve(future: asyncio.Future[Any]) -> None:
    """Mark a failure as seen: those who wait get it themselves, and nobody may be left to look at this future."""
    if not future.cancelled():
        future.exception()


def _of_their_certificate(reason: str) -> str:
    if "mismatch" in reason:
        return OTHER_NAME
    return EXPIRED if "expired" in reason or "not yet valid" in reason else UNTRUSTED
