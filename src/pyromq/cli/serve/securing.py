"""`pyromq up --secure`: users, certificates and a profile, made once and kept in the data folder.

    secure.json       name and secret of the administrator and of the servers themselves, for their owner alone
    tls/ca.crt        what clients trust; tls/server.pem is for all servers here

The profile has what a command needs: name servers, ca.crt, and the administrator's keys.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ... import logs
from ...ambient import secret_word
from ...errors import ConfigError
from ...files import replace_file
from ...machine.open_keys import warn_of_open_keys
from ...model.foreign_text import shell_word
from ...transport.certificates.authority import Authority, CertificateFor
from ...transport.certificates.making import own_hosts
from ...transport.certificates.reading import read_certificate
from ..terminal.profiles import Keys, Profile, load_profiles

FILE, ADMIN, INNER, SERVER = "secure.json", "admin", "inner", "server"
log = logs.get("pyromq.up")

_DAYS, _CA_DAYS, _RENEW_DAYS = 397, 3650, 30

GUIDE = """\
Only users are let in, by TLS. You are {admin}, who may do everything; the profile {profile} has his keys:

  use it:               pyromq profile use {profile}        (or --profile {profile} with each command)
  a user for a program: pyromq user create shop
  what he may:          pyromq acl create shop Topic:orders 'Group:shop-*' --allow Pub,Sub
  programs trust:       {ca}, and sign with the user's name and secret

Keep {file} and {ca_key} to yourself: who has them may do everything."""


@dataclass(frozen=True, slots=True)
class SecuredFolder:
    """What `--secure` has made. `settings`: for the name server and all brokers."""

    folder: Path
    settings: dict[str, Any] = field(repr=False)
    admin: Keys
    ca: Path

    @property
    def profile(self) -> str:
        return self.folder.resolve().name or "pyromq"

    def write_profile(self, namesrv: str) -> str:
        """Make the profile, or set its address right; return its name. Keys that somebody has put in stay."""
        name, profiles = self.profile, load_profiles()
        had = profiles.named.get(name)
        ca = str(self.ca)
        if had is not None and had.tls.get("tlsCa") not in (None, ca):
            raise ConfigError(
                f"{profiles.path} has a profile {name} already, of another cluster: pyromq profile remove {name}, "
                "or give --data a folder of another name"
            )
        keys = had.keys if had is not None and had.keys.access_key else self.admin
        profiles.named[name] = Profile(namesrv, {"tlsCa": ca}, keys)
        profiles.save()
        return name

    @property
    def guide(self) -> str:
        profile = shell_word(self.profile)
        file, key = self.folder / FILE, self.ca.with_name("ca.key")
        return GUIDE.format(admin=self.admin.access_key, profile=profile, ca=self.ca, file=file, ca_key=key)


def check_not_secured(folder: Path) -> None:
    """Raise ConfigError if the folder was started with --secure: without it strangers would be let in."""
    if (folder / FILE).exists():
        raise ConfigError(
            f"{folder} belongs to users: start it with --secure again, or remove {folder / FILE} to let everybody in"
        )


def secured(folder: Path, hosts: tuple[str, ...], now_ms: int) -> SecuredFolder:
    """Return what the folder has, or make it: secrets of random words, an authority, a certificate for these hosts."""
    _check_not_lost(folder)
    secrets = _secrets(folder / FILE)
    authority = Authority((folder / "tls").absolute())
    warn_of_open_keys(log, [folder / FILE, authority.folder / "ca.key"])
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    if not authority.exists:
        authority.found(now, _CA_DAYS)
    wanted, file = own_hosts(hosts), authority.file(SERVER)
    own = read_certificate(file) if file.exists() else None
    if own is None or own.days_left(now) < _RENEW_DAYS or not set(wanted) <= set(own.hosts):
        authority.issue(CertificateFor(SERVER, tuple(wanted)), now, _DAYS)
    settings = {
        "authentication_enabled": True,
        "authorization_enabled": True,
        "init_authentication_user": json.dumps({"username": ADMIN, "password": secrets[ADMIN]}),
        "inner_client_authentication_credentials": json.dumps({"accessKey": INNER, "secretKey": secrets[INNER]}),
        "tls_server_mode": "enforcing",
        "tls_server_cert_path": str(file),
        "tls_server_key_path": str(file),
        "tls_server_trust_cert_path": str(authority.certificate),
        "tls_enable": True,
        "tls_client_auth_server": True,
        "tls_client_trust_cert_path": str(authority.certificate),
        "tls_client_cert_path": str(file),
        "tls_client_key_path": str(file),
    }
    return SecuredFolder(folder, settings, Keys(ADMIN, secrets[ADMIN]), authority.certificate)


def _check_not_lost(folder: Path) -> None:
    """Raise ConfigError where servers know the administrator already, whose secret stood in a file that is gone."""
    if (folder / FILE).exists():
        return
    having = [one for one in sorted(folder.rglob("access.json")) if _names_ours(one)]
    if having:
        raise ConfigError(
            f"{folder / FILE} is gone, and servers here have users whose secrets it had "
            f"({', '.join(map(str, having))}): put it back from a backup, or remove those files too, "
            "with their .bak, to make all users anew"
        )


def _names_ours(table: Path) -> bool:
    try:
        return not {ADMIN, INNER}.isdisjoint(json.loads(table.read_bytes()).get("users", ()))
    except (OSError, ValueError, AttributeError, TypeError):
        return True  # its server will say what is wrong with it, once the secrets are there again


def _secrets(file: Path) -> dict[str, str]:
    if not file.exists():
        found = {name: secret_word() for name in (ADMIN, INNER)}
        replace_file(Path(os.path.abspath(file)), json.dumps(found, indent=2).encode() + b"\n", keep_backup=False)
        return found
    try:
        kept = json.loads(file.read_bytes())
        return {name: str(kept[name]) for name in (ADMIN, INNER)}
    except (ValueError, KeyError, TypeError):
        raise ConfigError(f"{file} has not the secrets of {ADMIN} and {INNER}: put it back from a backup") from None
