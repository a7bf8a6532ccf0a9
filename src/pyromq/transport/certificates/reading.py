"""What a certificate says: whose it is, for which hosts, by whom, and how long. Of a file, and of a running server."""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from ...ambient import Clock
from ...errors import ConfigError
from ..address import parse_address

ENDS_SOON_DAYS = 30


class Certificate(NamedTuple):
    subject: str
    issuer: str
    hosts: tuple[str, ...]
    begin: datetime
    until: datetime
    sha256: str  # as `openssl x509 -fingerprint` prints it

    def days_left(self, now: datetime) -> int:
        """Return the whole days until its end; below 0 it is past its time."""
        return (self.until - now).days

    def state(self, now: datetime) -> str:
        """Return `expired`, `ends soon`, `not yet valid` or `good`."""
        if now > self.until:
            return "expired"
        if now < self.begin:
            return "not yet valid"
        return "ends soon" if self.days_left(now) < ENDS_SOON_DAYS else "good"


def now_of(clock: Clock) -> datetime:
    return datetime.fromtimestamp(clock.now_ms() / 1000, UTC)


def read_certificate(file: Path) -> Certificate:
    """Return the first certificate of a PEM file. ConfigError if it has none."""
    try:
        text = file.read_bytes().decode("ascii", "replace")
        begin = text.index("-----BEGIN CERTIFICATE-----")
        end = text.index("-----END CERTIFICATE-----", begin)
        return parsed(ssl.PEM_cert_to_DER_cert(text[begin:end] + "-----END CERTIFICATE-----"))
    except (OSError, ValueError) as fault:
        raise ConfigError(f"{file} has no certificate that can be read ({fault}): name a PEM file") from None


def parsed(der: bytes) -> Certificate:
    from cryptography import x509  # not at the top: it takes long to import

    found = x509.load_der_x509_certificate(der)
    hosts: list[str] = []
    try:
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        hosts = [str(one.value) for one in names if isinstance(one, x509.DNSName | x509.IPAddress)]
    except x509.ExtensionNotFound:
        pass  # a client's: it serves nobody
    return Certificate(
        subject=found.subject.rfc4514_string(),
        issuer=found.issuer.rfc4514_string(),
        hosts=tuple(hosts),
        begin=found.not_valid_before_utc,
        until=found.not_valid_after_utc,
        sha256=hashlib.sha256(der).digest().hex(":").upper(),
    )


async def of_server(address: str, clock: Clock, timeout_s: float) -> Certificate | None:
    """Return what a server shows to whoever connects; None if it speaks no TLS. OSError, TimeoutError: not reached.

    The certificate is looked at and not checked, so that one that is past its time can be seen too.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    host, port = parse_address(address)
    try:
        async with clock.timeout(timeout_s):
            _, writer = await asyncio.open_connection(host, port, ssl=context)
    except (ssl.SSLError, ConnectionResetError, ConnectionAbortedError):
        return None
    try:
        held: ssl.SSLObject = writer.get_extra_info("ssl_object")
        der = held.getpeercert(binary_form=True)
        return None if der is None else parsed(der)
    finally:
        writer.transport.abort()
