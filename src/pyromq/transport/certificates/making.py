"""X.509 as PyroMQ writes it: elliptic keys, names and addresses as alternative names, key and certificate in one file.

Used by `authority.py` and `self_signed.py`. `cryptography` is imported inside the functions: it takes
longer to import than everything else here, and a daemon that has its certificate does not need it.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from ...errors import ConfigError

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

BEFORE = timedelta(days=1)  # clocks of clients may be behind ours
_ALWAYS = ("localhost", "127.0.0.1", "::1")
_DNS = re.compile(r"(\*\.)?[A-Za-z0-9_.-]{1,253}")
_ANY = ("0.0.0.0", "::", "")


def new_key() -> ec.EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def own_hosts(hosts: Iterable[str]) -> list[str]:
    """Return under which names a program of this machine is reached: local ones, the machine's, and `hosts`."""
    named = (socket.gethostname(), *(host.strip("[]") for host in hosts))
    return [*dict.fromkeys((*_ALWAYS, *(host for host in named if host not in _ANY and host.isascii())))]


def alternative_names(hosts: Iterable[str]) -> list[x509.GeneralName]:
    """Return hosts as a certificate names them, as addresses or names of DNS. ConfigError if one is neither."""
    from cryptography import x509

    found: list[x509.GeneralName] = []
    for host in hosts:
        try:
            found.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            if not _DNS.fullmatch(host):
                raise ConfigError(f"{host!r} is neither an address nor a name of a host") from None
            found.append(x509.DNSName(host))
    return found


def begun(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    now: datetime,
    until: datetime,
    serial: int | None = None,
) -> x509.CertificateBuilder:
    """Return a certificate with what every one has: names, key, serial number, times, the identifier of its key."""
    from cryptography import x509

    return (
        x509.CertificateBuilder(subject_name=subject, issuer_name=issuer, public_key=key)
        .serial_number(x509.random_serial_number() if serial is None else serial)
        .not_valid_before(now - BEFORE)
        .not_valid_after(until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def common_name(text: str) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def signed(builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return the certificate as PEM."""
    from cryptography.hazmat.primitives import hashes, serialization

    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def key_as_pem(key: ec.EllipticCurvePrivateKey, password: str = "") -> bytes:
    """Return the key in PKCS #8, which Java reads too; encrypted if there is a password."""
    from cryptography.hazmat.primitives import serialization

    how: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if password:
        how = serialization.BestAvailableEncryption(password.encode())
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, how)
