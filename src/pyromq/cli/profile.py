"""`pyromq profile`: name servers, the TLS that they want, and who one is to them, under names of your own."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from ..text import tables
from .terminal.options import take_tls, tls_options
from .terminal.printing import columns, print_lines, print_wrapped, to_json
from .terminal.profiles import TLS_FILES, TLS_KEYS, Keys, Profile, Profiles, load_profiles
from .terminal.secret_file import read_secret
from .terminal.tree import Tree, command, unknown

if TYPE_CHECKING:
    from ..client.connect.tls_choice import TlsChoice

_json = click.option("--json", "as_json", is_flag=True, help="JSON instead of a table.")


@click.group(cls=Tree)
def profile() -> None:
    """Name servers under names of your own.

    A command asks those of -n, else of --profile, PYROMQ_PROFILE, PYROMQ_NAMESRV, NAMESRV_ADDR, else of the profile
    that `use` chose, else 127.0.0.1:9876. A profile's TLS and user are for its own name servers.
    """


@command("pyromq profile list", "pyromq profile list --json", of=profile, name="list")
@_json
def list_profiles(as_json: bool) -> None:
    """List profiles; the one in use is marked."""
    found = load_profiles()
    used = os.environ.get("PYROMQ_PROFILE") or found.default
    named = sorted(found.named.items())
    rows = [
        {"profile": name, "namesrv": one.namesrv, "inUse": name == used, "user": one.keys.access_key, **one.tls}
        for name, one in named
    ]
    print_lines(*map(to_json, rows) if as_json else tables.lines(rows, columns()))
    if not rows and not as_json:
        print_wrapped(f"no profiles in {found.path}. Make one: pyromq profile set NAME HOST:PORT")


@command(
    "pyromq profile set prod '10.0.0.1:9876;10.0.0.2:9876'",
    "pyromq profile set prod 10.0.0.1:9876 --tls-ca /etc/pyromq/ca.pem --access-key alice --secret-file -",
    of=profile,
    name="set",
)
@click.argument("name")
@click.argument("namesrv", metavar="HOST:PORT")
@click.option("--access-key", metavar="USER", default="", help="Who you are to that cluster; needs --secret-file.")
@click.option("--secret-file", metavar="FILE", help="His secret, - for standard input. The profile keeps it (0600).")
@tls_options
@_json
def put(name: str, namesrv: str, access_key: str, secret_file: str | None, as_json: bool, **given: Any) -> None:
    """Make profile NAME, or make it anew. Several name servers have ; between them."""
    if bool(access_key) != (secret_file is not None):
        raise click.UsageError("--access-key and --secret-file belong together")
    from ..client.config import name_servers
    from ..transport.address import parse_address

    for address in name_servers(namesrv):
        parse_address(address)
    found = load_profiles()
    keys = Keys() if secret_file is None else Keys(access_key, read_secret(secret_file))
    made = found.named[name] = Profile(namesrv, _tls(take_tls(given)), keys)
    found.save()
    row = {"profile": name, "namesrv": namesrv, "user": access_key, **made.tls, "file": str(found.path)}
    how = "".join(f", {key} {word}" for key, word in made.tls.items()) + (f", as {access_key}" if access_key else "")
    print_lines(to_json(row) if as_json else f"{name}: {namesrv}{how} ({found.path})")


def _tls(choice: TlsChoice) -> dict[str, str]:
    """Return the choice with absolute paths: the profile is used from any folder."""
    words = choice.words()
    found = {key: words[name] for key, name in TLS_KEYS.items() if name in words}
    return {key: os.path.abspath(word) if key in TLS_FILES else word for key, word in found.items()}


@command("pyromq profile use prod", "pyromq profile use --none", of=profile)
@click.argument("name", required=False)
@click.option("--none", "nothing", is_flag=True, help="Use none: 127.0.0.1:9876 again.")
@_json
def use(name: str | None, nothing: bool, as_json: bool) -> None:
    """Choose the profile for commands that name no other."""
    if (name is None) == (not nothing):
        raise click.UsageError("name a profile, or give --none")
    found = load_profiles()
    if name is not None:
        _known(found, name)
    found.default = name or ""
    found.save()
    row = {"profile": name, "inUse": name is not None, "file": str(found.path)}
    print_lines(to_json(row) if as_json else f"in use: {name or 'none'} ({found.path})")


@command("pyromq profile remove prod", of=profile)
@click.argument("name")
@_json
def remove(name: str, as_json: bool) -> None:
    """Forget profile NAME."""
    found = load_profiles()
    _known(found, name)
    del found.named[name]
    if found.default == name:
        found.default = ""
    found.save()
    row = {"profile": name, "removed": True, "file": str(found.path)}
    print_lines(to_json(row) if as_json else f"{name} is removed ({found.path})")


def _known(found: Profiles, name: str) -> None:
    if name not in found.named:
        raise unknown("profile", name, found.named)
