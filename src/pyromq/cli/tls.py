"""`pyromq tls`: a certificate authority of your own, certificates for all daemons and clients, and how long they last.

The files and their rights are those of `transport/certificates/authority.py`; here options come in and rows go out.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..text import tables
from .terminal.options import together
from .terminal.printing import columns, print_lines, print_wrapped, to_json
from .terminal.tree import Tree, command

if TYPE_CHECKING:
    from datetime import datetime

    from ..transport.certificates.authority import Authority
    from ..transport.certificates.reading import Certificate

SERVERS = ("broker", "namesrv", "proxy", "controller", "dashboard")
CLIENT = "client"
_DEFAULT_FOLDER = Path("tls")
_PASSWORD = "PYROMQ_TLS_CA_PASSWORD"

_folder = click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=_DEFAULT_FOLDER,
    show_default=True,
    help="Folder of the authority and its certificates.",
)
_json = click.option("--json", "as_json", is_flag=True, help="JSON instead of a table.")
_days = click.option(
    "--days", type=click.IntRange(1, 3650), default=397, show_default=True, help="Days that certificates are valid."
)
_ca_days = click.option(
    "--ca-days", type=click.IntRange(1, 36500), default=3650, show_default=True, help="Days that the authority is."
)


@click.group(cls=Tree)
def tls() -> None:
    """Make, renew and show certificates for TLS.

    PYROMQ_TLS_CA_PASSWORD encrypts the authority's key, and is needed then whenever something is signed.
    """


@command(
    "pyromq tls init --host 10.0.0.5 --host mq.example.com",
    "pyromq tls init --dir /etc/pyromq/tls broker-b --host 10.0.0.6",
    "pyromq tls init --client alice --client billing",
    of=tls,
)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--host", "hosts", multiple=True, metavar="NAME|ADDRESS", help="Under which clients reach the servers.")
@click.option("--client", "clients", multiple=True, metavar="NAME", help="Only a client's certificate, of this name.")
@together(_folder, _days, _ca_days, _json)
def init(
    names: tuple[str, ...],
    hosts: tuple[str, ...],
    clients: tuple[str, ...],
    folder: Path,
    days: int,
    ca_days: int,
    as_json: bool,
) -> None:
    """Make an authority and certificates for all daemons and a client, or for NAMES alone.

    Where the authority is there already, what is missing is made and nothing is replaced. Servers are made out to
    localhost, this machine's name and each --host.
    """
    from ..errors import ConfigError
    from ..transport.certificates.authority import CertificateFor
    from ..transport.certificates.making import own_hosts

    authority, now = _authority(folder), _now()
    if not names and not clients:
        names, clients = SERVERS, (CLIENT,)
    wanted = [CertificateFor(name, tuple(own_hosts(hosts))) for name in names]
    wanted += [CertificateFor(name) for name in clients]
    for member in wanted:
        file = authority.file(member.name)
        if file.exists():
            raise ConfigError(f"{file} is there already: pyromq tls renew {member.name} makes another in its place")
    is_new = not authority.exists
    if is_new:
        authority.found(now, ca_days)
    for member in wanted:
        authority.issue(member, now, days)
    _print(_rows(authority, [*(["ca"] if is_new else []), *(member.name for member in wanted)], now), as_json)
    if not as_json:
        _print_use(authority, [*names])


def _print_use(authority: Authority, servers: Sequence[str]) -> None:
    ca = authority.certificate.absolute()
    print_wrapped(f"Clients trust {ca}: pyromq --tls-ca {ca}, or PYROMQ_TLS_CA={ca}. Keep ca.key away from servers.")
    if servers:
        file = authority.file(servers[0]).absolute()
        print_lines(
            f"Settings of {servers[0]} (others with their own file):",
            f"  tls.server.certPath={file}",
            f"  tls.server.keyPath={file}",
            f"  tls.server.trustCertPath={ca}",
            "  tls.server.mode=enforcing",
            "  tls.enable=true",
            "  tls.client.authServer=true",
            f"  tls.client.trustCertPath={ca}",
            f"  tls.client.certPath={file}",
            f"  tls.client.keyPath={file}",
        )


@command(
    "pyromq tls renew",
    "pyromq tls renew --all --days 90",
    "pyromq tls renew broker --host 10.0.0.7",
    "pyromq tls renew --ca",
    of=tls,
)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--within", type=click.IntRange(0), default=30, show_default=True, help="Those that end in so many days.")
@click.option("--all", "everything", is_flag=True, help="All of them, whenever they end.")
@click.option("--ca", "with_authority", is_flag=True, help="The authority's own, too. Its key stays.")
@click.option("--host", "hosts", multiple=True, metavar="NAME|ADDRESS", help="With NAMES: make them out to this, too.")
@together(_folder, _days, _ca_days, _json)
def renew(
    names: tuple[str, ...],
    within: int,
    everything: bool,
    with_authority: bool,
    hosts: tuple[str, ...],
    folder: Path,
    days: int,
    ca_days: int,
    as_json: bool,
) -> None:
    """Make new keys and certificates for those that end soon, or for NAMES.

    Running daemons of ours take the new files with the next connection, without a restart. The authority is renewed
    with its own key where it ends soon, so that clients with the old ca.crt go on for as long as that is valid.
    """
    from ..transport.certificates.reading import read_certificate

    if hosts and not names:
        raise click.UsageError("--host needs NAMES: say which certificates are to have it")
    authority, now = _authority(folder), _now()
    own = read_certificate(authority.certificate)
    done: list[str] = []
    if with_authority or own.days_left(now) < within:
        authority.renew_own(now, ca_days)
        done.append("ca")
    for name in names or authority.members():
        if names or everything or read_certificate(authority.file(name)).days_left(now) < within:
            authority.renew(name, now, days, hosts)
            done.append(name)
    _print(_rows(authority, done, now), as_json)
    if not done and not as_json:
        print_wrapped(f"no certificate of {folder} ends within {within} days: nothing was done")


@command(
    "pyromq tls show",
    "pyromq tls show /etc/pyromq/tls/broker.pem --json",
    "pyromq tls show 10.0.0.5:10911",
    of=tls,
)
@click.argument("what", nargs=-1, metavar="[FILE|HOST:PORT]...")
@together(_folder, _json)
def show(what: tuple[str, ...], folder: Path, as_json: bool) -> None:
    """Show whose certificates they are, for which hosts, and when they end: of a folder, files, or running servers.

    Exit code 1: one of them is past its time or ends within 30 days.
    """
    now = _now()
    if what:
        rows = [_of(text, now) for text in what]
    else:
        authority = _authority(folder)
        rows = _rows(authority, ["ca", *authority.members()], now)
    _print(rows, as_json)
    if any(row["state"] != "good" for row in rows):
        raise click.exceptions.Exit(1)


def _of(text: str, now: datetime) -> dict[str, Any]:
    from ..transport.certificates.reading import read_certificate

    file = Path(text)
    if file.exists() or ":" not in text:
        return _row(file.stem, file, read_certificate(file), now)
    import asyncio

    from ..ambient import SystemClock
    from ..errors import ConfigError
    from ..transport.certificates.reading import of_server

    try:
        found = asyncio.run(of_server(text, SystemClock(), 5.0))
    except (OSError, TimeoutError) as fault:
        raise ConfigError(f"{text} is not reached ({fault or 'no answer within 5 s'}): is it running?") from None
    if found is None:
        raise ConfigError(f"{text} speaks no TLS: see tls.server.mode and the log of that server")
    return _row(text, None, found, now)


def _authority(folder: Path) -> Authority:
    from ..transport.certificates.authority import Authority

    return Authority(folder, os.environ.get(_PASSWORD, ""))


def _now() -> datetime:
    from ..ambient import SystemClock
    from ..transport.certificates.reading import now_of

    return now_of(SystemClock())


def _rows(authority: Authority, names: Sequence[str], now: datetime) -> list[dict[str, Any]]:
    from ..transport.certificates.reading import read_certificate

    files = [(name, authority.certificate if name == "ca" else authority.file(name)) for name in names]
    return [_row(name, file, read_certificate(file), now) for name, file in files]


def _row(name: str, file: Path | None, found: Certificate, now: datetime) -> dict[str, Any]:
    return {
        "name": name,
        "state": found.state(now),
        "until": f"{found.until:%Y-%m-%d}",
        "daysLeft": found.days_left(now),
        "hosts": ", ".join(found.hosts),
        "subject": found.subject,
        "issuer": found.issuer,
        "file": "" if file is None else str(file),
        "sha256": found.sha256,
    }


def _print(rows: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print_lines(*map(to_json, rows))
        return
    shown = ("name", "state", "until", "daysLeft", "hosts", "file")
    print_lines(*tables.lines([{key: row[key] for key in shown} for row in rows], columns()))
