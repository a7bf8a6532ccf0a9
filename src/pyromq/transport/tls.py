"""TLS as RocketMQ has it, as a layer of bytes: ciphertext in, plain bytes out, and back. Owns no socket.

A server decides by the first byte of a connection (0x16 begins a TLS handshake, and no frame that we would accept).
Certificates are looked at again with each new handshake, so replaced files serve the next connection without a restart;
files that cannot be loaded leave the old ones in use, with a log line.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from .. import logs
from ..errors import ConfigError, ProtocolError

log = logs.get("pyromq.transport")

HANDSHAKE_BYTE = 0x16
_READ_BYTES = 64 << 10


class TlsMode(Enum):
    """`tls.server.mode`. Permissive takes plain and TLS connections on one port."""

    DISABLED = "disabled"
    PERMISSIVE = "permissive"
    ENFORCING = "enforcing"


class ClientCertificates(Enum):
    """`tls.server.need.client.auth`: whether a connecting program has to show a certificate."""

    NONE = "none"
    OPTIONAL = "optional"
    REQUIRE = "require"


class Verify(Enum):
    """What a client checks of the server's certificate. Java's clients check nothing unless told to."""

    NONE = "none"
    CA = "ca"  # signed by our CA, whatever its name
    FULL = "full"  # and made out to the host that we connect to


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTls:
    mode: TlsMode = TlsMode.PERMISSIVE
    certificate: Path
    key: Path
    key_password: str | None = field(default=None, repr=False)
    ca: Path | None = None  # who signs client certificates
    client_certificates: ClientCertificates = ClientCertificates.NONE

    def __post_init__(self) -> None:
        if self.client_certificates is not ClientCertificates.NONE and self.ca is None:
            raise ConfigError(
                f"client certificates are to be checked ({self.client_certificates.value}), "
                "but no CA file says by whom they must be signed: name one"
            )

    def new_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        _harden(context)
        context.set_alpn_protocols(["h2"])  # gRPC clients want to hear h2; remoting asks for nothing
        context.load_cert_chain(self.certificate, self.key, self.key_password or "")
        if self.ca is not None:
            context.load_verify_locations(self.ca)
        context.verify_mode = {
            ClientCertificates.NONE: ssl.CERT_NONE,
            ClientCertificates.OPTIONAL: ssl.CERT_OPTIONAL,
            ClientCertificates.REQUIRE: ssl.CERT_REQUIRED,
        }[self.client_certificates]
        return context


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTls:
    """Settings of a client."""

    verify: Verify = Verify.FULL
    ca: Path | None = None  # None: the system's own
    certificate: Path | None = None
    key: Path | None = None
    key_password: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.verify, Verify):
            known = ", ".join(f"Verify.{each.name}" for each in Verify)
            raise ConfigError(f"verify = {self.verify!r}: one of {known} is needed")
        if (self.certificate is None) != (self.key is None):
            raise ConfigError("a client certificate needs its key and the other way round: name both files or none")

    def new_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        _harden(context)
        context.check_hostname = self.verify is Verify.FULL
        context.verify_mode = ssl.CERT_NONE if self.verify is Verify.NONE else ssl.CERT_REQUIRED
        if self.ca is not None:
            context.load_verify_locations(self.ca)
        elif self.verify is not Verify.NONE:
            context.load_default_certs()
        if self.certificate is not None:
            context.load_cert_chain(self.certificate, self.key, self.key_password or "")
        return context


def _harden(context: ssl.SSLContext) -> None:
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION


class Certificates:
    """The context of the files as they are now. ConfigError at first, a log line and the old context later."""

    def __init__(self, settings: ServerTls | ClientTls) -> None:
        self._settings = settings
        named = (settings.certificate, settings.key, settings.ca)
        self._files = list(dict.fromkeys(path for path in named if path is not None))
        self._seen = self._stamp()
        try:
            self._context = settings.new_context()
        except (OSError, ValueError) as fault:  # SSLError is an OSError
            raise ConfigError(_unusable(self._files, fault)) from None

    def context(self) -> ssl.SSLContext:
        stamp = self._stamp()
        if stamp != self._seen:
            self._seen = stamp  # a broken state of the files is tried, and complained of, once
            try:
                self._context = self._settings.new_context()
                log.info("certificates reloaded", files=_names(self._files))
            except (OSError, ValueError) as fault:
                reason = _unusable(self._files, fault)
                log.error("certificates not reloaded, the old ones stay in use", fault=reason)
        return self._context

    def _stamp(self) -> list[tuple[int, int, int]]:
        found = []
        for path in self._files:
            with suppress(OSError):
                status = os.stat(path)
                found.append((status.st_mtime_ns, status.st_size, status.st_ino))
        return found


def _names(files: Sequence[Path]) -> str:
    return ", ".join(map(str, files))


def _unusable(files: Sequence[Path], fault: Exception) -> str:
    return (
        f"TLS files cannot be used ({fault}): check that {_names(files)} are readable PEM, "
        "that key and certificate belong together, and the password"
    )


class TlsSession:
    """One connection's TLS. What goes wrong in it is a ProtocolError."""

    __slots__ = ("_incoming", "_object", "_outgoing", "is_ready")

    def __init__(self, context: ssl.SSLContext, *, server_side: bool, host: str | None = None) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._object = context.wrap_bio(self._incoming, self._outgoing, server_side=server_side, server_hostname=host)
        self.is_ready = False
        if not server_side:
            self._handshake()

    def receive(self, data: bytes | memoryview) -> bytes:
        """Return plain bytes. `take_outgoing` has what is to be sent then, even after a ProtocolError (the alert)."""
        self._incoming.write(data)
        if not self.is_ready and not self._handshake():
            return b""
        plain: list[bytes] = []
        try:
            while piece := self._object.read(_READ_BYTES):
                plain.append(piece)
        except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            pass  # no more for now; or the peer's closing alert, behind which the end of the stream follows
        except ssl.SSLError as fault:
            raise ProtocolError(f"TLS: {fault}") from None
        return b"".join(plain)

    def encrypt(self, parts: Sequence[bytes | memoryview]) -> bytes:
        """Encrypt the parts. The session must be ready."""
        try:
            for part in parts:
                view = memoryview(part)
                while view:
                    view = view[self._object.write(view) :]
        except ssl.SSLError as fault:
            raise ProtocolError(f"TLS: {fault}") from None
        return self._outgoing.read()

    @property
    def identity(self) -> str | None:
        """Return the common name in the peer's certificate, which was checked; None: it showed none."""
        shown: Any = (self._object.getpeercert() if self.is_ready else None) or {}
        names = (value for part in shown.get("subject", ()) for key, value in part if key == "commonName")
        return next(names, None)

    def take_outgoing(self) -> bytes:
        return self._outgoing.read()

    def close(self) -> bytes:
        """Return the closing alert. The peer's own is not waited for: frames say where they end."""
        with suppress(ssl.SSLError, ValueError):
            self._object.unwrap()
        return self._outgoing.read()

    def _handshake(self) -> bool:
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except (ssl.SSLError, ssl.CertificateError) as fault:
            raise ProtocolError(f"TLS handshake: {fault}") from None
        self.is_ready = True
        return True


# First byte of a connection to its TLS session, or None for plain. ProtocolError: not taken here.
Opening = Callable[[int], TlsSession | None]


def opening(settings: ServerTls | None) -> Opening:
    """Return how a listener with these settings accepts connections."""
    certificates = None if settings is None or settings.mode is TlsMode.DISABLED else Certificates(settings)

    def choose(first: int) -> TlsSession | None:
        if first == HANDSHAKE_BYTE:
            if certificates is None:
                text = "the peer speaks TLS, which is disabled here: use a plain connection, or configure TLS"
                raise ProtocolError(text)
            return TlsSession(certificates.context(), server_side=True)
        if settings is not None and settings.mode is TlsMode.ENFORCING:
            raise ProtocolError("the peer speaks plain, but TLS is enforced here: use TLS")
        return None

    return choose
