"""A certificate authority in a folder, and the certificates that it signs: what `pyromq tls` works on.

    ca.crt       the authority's certificate: what clients and servers trust; readable for everybody
    ca.key       its key, for the owner alone; encrypted where a password is given
    broker.pem   key and certificate of one member in one file, for the owner alone: certPath and keyPath name it both,
                 so that a renewal replaces both in one step and no handshake meets a key of another certificate

The authority is renewed with the key that it has, so that copies of the old ca.crt go on being good until their time.
Never reads the clock: callers hand in the time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ...errors import ConfigError
from ...files import make_folder, replace_file
from .making import alternative_names, begun, common_name, key_as_pem, new_key, signed
from .reading import Certificate, read_certificate

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

CA, CA_CERTIFICATE, CA_KEY = "ca", "ca.crt", "ca.key"
READABLE = 0o644  # a certificate is no secret, and clients are other users
_NAME = re.compile(r"[A-Za-z0-9_.@-]{1,64}")


class CertificateFor(NamedTuple):
    """Whom a certificate is for. Without hosts it is a client's: nobody can serve with it."""

    name: str
    hosts: tuple[str, ...] = ()


class Authority:
    """The folder of one authority. Blocks on the disk; one process at a time changes it."""

    def __init__(self, folder: Path, password: str = "") -> None:
        """`password`: of the authority's key."""
        self.folder, self._password = folder, password

    @property
    def exists(self) -> bool:
        return (self.folder / CA_CERTIFICATE).exists()

    @property
    def certificate(self) -> Path:
        return self.folder / CA_CERTIFICATE

    def file(self, name: str) -> Path:
        """Return the file of a member. ConfigError for a name that is no file's."""
        if not _NAME.fullmatch(name) or name.startswith(".") or name == CA:
            raise ConfigError(
                f"{name!r} cannot be the name of a certificate: take 1 to 64 letters, digits, '_', '-', '.' or '@', "
                "no dot first, and not 'ca'"
            )
        return self.folder / f"{name}.pem"

    def members(self) -> list[str]:
        return sorted(file.stem for file in self.folder.glob("*.pem") if _NAME.fullmatch(file.stem))

    def found(self, now: datetime, days: int) -> None:
        """Make the authority. ConfigError if there is one: clients that trust it would trust nobody any more."""
        if self.exists or (self.folder / CA_KEY).exists():
            raise ConfigError(f"{self.folder} has an authority already: renew it, or take another folder")
        from cryptography import x509

        make_folder(self.folder)
        key = new_key()
        replace_file(self.folder / CA_KEY, key_as_pem(key, self._password), keep_backup=False)
        # Two of the same name in one file of a client would be taken for each other.
        name = common_name(f"PyroMQ CA {x509.random_serial_number():x}"[:40])
        self._write_own(name, key, now, days)

    def renew_own(self, now: datetime, days: int) -> None:
        """Give the authority another time, with the key and the name that it has."""
        self._write_own(self._own().subject, self._key(), now, days)

    def issue(self, member: CertificateFor, now: datetime, days: int) -> Certificate:
        """Make a new key and certificate for a member, in place of those it has. It ends with the authority at last."""
        from cryptography import x509
        from cryptography.x509.oid import ExtendedKeyUsageOID

        file, own, authority_key = self.file(member.name), self._own(), self._key()
        until = min(now + timedelta(days=days), own.not_valid_after_utc)
        if until <= now:
            raise ConfigError(f"the authority of {self.folder} is past its time: pyromq tls renew --ca")
        key = new_key()
        uses = [ExtendedKeyUsageOID.CLIENT_AUTH]  # a server connects to others, too
        if member.hosts:
            uses.insert(0, ExtendedKeyUsageOID.SERVER_AUTH)
        signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
        builder = (
            begun(common_name(member.name), own.subject, key.public_key(), now, until)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.KeyUsage(True, False, False, False, False, False, False, False, False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
            .add_extension(signer, critical=False)
        )
        if member.hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName(alternative_names(member.hosts)), critical=False
            )
        replace_file(file, key_as_pem(key) + signed(builder, authority_key), keep_backup=False)
        return read_certificate(file)

    def renew(self, name: str, now: datetime, days: int, hosts: Sequence[str] = ()) -> Certificate:
        """Issue a member's certificate again, for the hosts that it had and for these."""
        file = self.file(name)
        if not file.exists():
            raise ConfigError(f"{self.folder} has no certificate of {name}: make it by pyromq tls init")
        hosts = tuple(dict.fromkeys((*read_certificate(file).hosts, *hosts)))
        return self.issue(CertificateFor(name, hosts), now, days)

    def _write_own(self, name: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, days: int) -> None:
        from cryptography import x509

        builder = (
            begun(name, name, key.public_key(), now, now + timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(x509.KeyUsage(False, False, False, False, False, True, True, False, False), critical=True)
        )
        replace_file(self.certificate, signed(builder, key), keep_backup=False)
        self.certificate.chmod(READABLE)

    def _own(self) -> x509.Certificate:
        from cryptography import x509

        try:
            return x509.load_pem_x509_certificate(self.certificate.read_bytes())
        except (OSError, ValueError) as fault:
            raise ConfigError(
                f"{self.certificate} cannot be read ({fault}): name the folder of an authority, "
                "or make one by pyromq tls init"
            ) from None

    def _key(self) -> ec.EllipticCurvePrivateKey:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        file = self.folder / CA_KEY
        try:
            key = serialization.load_pem_private_key(
                file.read_bytes(), self._password.encode() if self._password else None
            )
        except TypeError:
            what = "has no password, and one is given" if self._password else "is encrypted, and no password is given"
            raise ConfigError(f"{file} {what}: PYROMQ_TLS_CA_PASSWORD has it") from None
        except (OSError, ValueError) as fault:
            raise ConfigError(f"{file} cannot be used ({fault}): without it nothing can be signed") from None
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ConfigError(f"{file} is no elliptic key: it is not of pyromq tls init")
        return key
