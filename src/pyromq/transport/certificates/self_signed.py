"""The certificate that a daemon makes for itself where none is configured, so that TLS clients just connect.

Java's test mode (`tls.test.mode.enable`, on by default), except that the certificate is kept: `self-signed.pem` has it
with its key, for the owner alone, and `self-signed.crt` without, for clients of any user that shall trust it. It is
made at the first start and when it is past its time; any other start only loads it. Daemons call `with_certificate`
before they listen and `log_certificate` after.
"""

from __future__ import annotations

import dataclasses
import fcntl
import hashlib
import os
import ssl
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple, TypeVar

from ... import logs
from ...config import Loaded
from ...errors import ConfigError
from ...files import replace_file
from ..settings import SELF_SIGNED, TransportSettings
from ..tls import TlsMode
from .authority import READABLE
from .making import alternative_names, begun, common_name, key_as_pem, new_key, own_hosts, signed

log = logs.get("pyromq.transport")

C = TypeVar("C")

FILE, FOR_CLIENTS = SELF_SIGNED, "self-signed.crt"
VALID = timedelta(days=3650)
_KEYS = {"proxy": "set tlsCertPath and tlsKeyPath"}  # by daemon, as its settings are documented
_OWN = "set tls.server.certPath and tls.server.keyPath"


class SelfSigned(NamedTuple):
    """What the file has."""

    certificate: bytes  # DER
    until: datetime

    @property
    def fingerprint(self) -> str:
        """Return the SHA-256 as `openssl x509 -fingerprint` prints it."""
        return hashlib.sha256(self.certificate).digest().hex(":").upper()


def with_certificate(
    daemon: str, loaded: Loaded[C], settings: TransportSettings, folder: Path, hosts: Iterable[str], now_ms: int
) -> Loaded[C]:
    """Return the configuration with the certificate that is kept in `folder`, where it has none and shall have one.

    `hosts`: under which clients reach the daemon. ConfigError if the file cannot be used, and if TLS is enforced and no
    certificate can be made. In permissive mode the latter is a warning, and TLS clients are refused.
    """
    if not settings.makes_certificate:
        return loaded
    own = _KEYS.get(daemon, _OWN)
    file, now = (folder / FILE).absolute(), datetime.fromtimestamp(now_ms / 1000, UTC)
    try:
        _make_sure(file, hosts, now, own)
    except (ImportError, OSError) as fault:
        text = f"no certificate for TLS could be made in {folder} ({fault}): {own}, or tls.server.mode=disabled"
        if settings.tls_server_mode is TlsMode.ENFORCING:
            raise ConfigError(text) from None
        log.warning("TLS clients are refused", daemon=daemon, why=text)
        return loaded
    paths = {"tls_server_cert_path": file, "tls_server_key_path": file}
    return Loaded(dataclasses.replace(loaded.config, **paths), loaded.findings)  # type: ignore[type-var]


def log_certificate(daemon: str, settings: TransportSettings) -> None:
    """Say at a start, once connections are accepted, that TLS clients get a certificate of the daemon's own making."""
    file = settings.tls_server_cert_path
    if file is not None and file.name == FILE and settings.tls_server_mode is not TlsMode.DISABLED:
        own = _KEYS.get(daemon, _OWN)
        found = _load(file, own)
        log.info(
            f"TLS is served with a self-signed certificate; to use another, {own}",
            daemon=daemon,
            certificate=str(file.with_name(FOR_CLIENTS)),
            sha256=found.fingerprint,
            until=f"{found.until:%Y-%m-%d}",
        )


def _make_sure(file: Path, hosts: Iterable[str], now: datetime, own: str) -> None:
    """Make the certificate if it is not there or past its time. ImportError or OSError if that cannot be.

    Daemons that start at the same moment take turns: one makes it, the others have that.
    """
    if file.exists() and file.with_name(FOR_CLIENTS).exists() and _load(file, own).until > now:
        _show_clients(file, own)
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        _make_if_missing(file, hosts, now, own)
    finally:
        os.close(folder)


def _make_if_missing(file: Path, hosts: Iterable[str], now: datetime, own: str) -> None:
    found = _load(file, own) if file.exists() else None
    if found is None or found.until <= now:
        if found is not None:
            log.warning("the self-signed certificate has expired: a new one is made", file=str(file))
        replace_file(file, _make(hosts, now), keep_backup=False)
    _show_clients(file, own)


def _show_clients(file: Path, own: str) -> None:
    """Keep the certificate without its key beside the file."""
    found = _load(file, own)
    for_clients, text = file.with_name(FOR_CLIENTS), ssl.DER_cert_to_PEM_cert(found.certificate).encode()
    if not for_clients.exists() or for_clients.read_bytes() != text:
        replace_file(for_clients, text, keep_backup=False)
    with suppress(PermissionError):  # somebody else's file: as readable as that one made it
        for_clients.chmod(READABLE)


def _load(file: Path, own: str) -> SelfSigned:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(file, password="")
        context.load_verify_locations(file)
        (certificate,), (facts,) = context.get_ca_certs(binary_form=True), context.get_ca_certs()
    except (OSError, ValueError) as fault:  # SSLError is an OSError
        raise ConfigError(
            f"the self-signed certificate in {file} cannot be used ({fault}): remove the file, and the next start "
            f"makes another; or {own}; or set tls.test.mode.enable=false"
        ) from None
    return SelfSigned(certificate, datetime.fromtimestamp(ssl.cert_time_to_seconds(str(facts["notAfter"])), UTC))


def _make(hosts: Iterable[str], now: datetime) -> bytes:
    """Return a new key and its certificate as PEM."""
    from cryptography import x509  # not at the top: it takes longer than anything else here, and is needed once
    from cryptography.x509.oid import ExtendedKeyUsageOID

    key, serial = new_key(), x509.random_serial_number()
    # Two of the same name in one file of a client would be taken for each other.
    name = common_name(f"PyroMQ self-signed {serial:x}"[:64])
    builder = (
        begun(name, name, key.public_key(), now, now + VALID, serial)
        # Clients name it as their CA: it may sign certificates, and what is signed in a handshake.
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.KeyUsage(True, False, False, False, False, True, False, False, False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(alternative_names(own_hosts(hosts))), critical=False)
    )
    return key_as_pem(key) + signed(builder, key)
