"""`pyromq profile`: name servers under names of your own."""

from __future__ import annotations

import os

import click

from . import tables
from .profiles import Profiles, load_profiles
from .shell import to_json
from .tree import Tree, examples, unknown

_json = click.option("--json", "as_json", is_flag=True, help="JSON instead of a table.")


@click.group(cls=Tree)
def profile() -> None:
    """Name servers under names of your own.

    A command asks those of -n, else of --profile, PYROMQ_PROFILE, PYROMQ_NAMESRV, NAMESRV_ADDR, else of the profile
    that `use` chose, else 127.0.0.1:9876.
    """


@profile.command("list", epilog=examples("pyromq profile list", "pyromq profile list --json"))
@_json
def list_profiles(as_json: bool) -> None:
    """List profiles; the one in use is marked."""
    found = load_profiles()
    used = os.environ.get("PYROMQ_PROFILE") or found.default
    rows = [
        {"profile": name, "namesrv": servers, "inUse": name == used} for name, servers in sorted(found.lists.items())
    ]
    for line in map(to_json, rows) if as_json else tables.lines(rows):
        click.echo(line)
    if not rows and not as_json:
        click.echo(f"no profiles in {found.path}. Make one: pyromq profile set NAME HOST:PORT")


@profile.command("set", epilog=examples("pyromq profile set prod '10.0.0.1:9876;10.0.0.2:9876'"))
@click.argument("name")
@click.argument("namesrv", metavar="HOST:PORT")
@_json
def put(name: str, namesrv: str, as_json: bool) -> None:
    """Make profile NAME, or change it. Several name servers have ; between them."""
    from ..client.config import name_servers
    from ..transport.address import parse_address

    for address in name_servers(namesrv):
        parse_address(address)
    found = load_profiles()
    found.lists[name] = namesrv
    found.save()
    row = {"profile": name, "namesrv": namesrv, "file": str(found.path)}
    click.echo(to_json(row) if as_json else f"{name}: {namesrv} ({found.path})")


@profile.command(epilog=examples("pyromq profile use prod", "pyromq profile use --none"))
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
    click.echo(to_json(row) if as_json else f"in use: {name or 'none'} ({found.path})")


@profile.command(epilog=examples("pyromq profile remove prod"))
@click.argument("name")
@_json
def remove(name: str, as_json: bool) -> None:
    """Forget profile NAME."""
    found = load_profiles()
    _known(found, name)
    del found.lists[name]
    if found.default == name:
        found.default = ""
    found.save()
    row = {"profile": name, "removed": True, "file": str(found.path)}
    click.echo(to_json(row) if as_json else f"{name} is removed ({found.path})")


def _known(found: Profiles, name: str) -> None:
    if name not in found.lists:
        raise unknown("profile", name, found.lists)
