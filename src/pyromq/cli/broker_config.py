"""`pyromq broker config`: settings of running brokers, by Java's names."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

import click

from .shell import Shell, changes, one_broker, talks
from .tree import Tree, examples, unknown


@click.group(cls=Tree)
def config() -> None:
    """Settings of running brokers, by Java's names."""


@config.command(epilog=examples("pyromq broker config get", "pyromq broker config get '*Message*' -b broker-a --json"))
@click.argument("key", default="*")
@one_broker
@talks
async def get(shell: Shell, key: str, broker: str | None) -> None:
    """Show settings: all, KEY, or those that fit (`*Size`). Exit code 1 if none does."""
    from ..admin import settings

    rows: list[dict[str, Any]] = []
    known: set[str] = set()
    for place in await shell.masters(broker):
        found = await settings.of_broker(shell.calls, place.address)
        known |= found.keys()
        rows += [
            {"broker": place.name, "key": name, "value": value}
            for name, value in sorted(found.items())
            if fnmatchcase(name, key)
        ]
    if not rows:
        raise unknown("setting", key, known)
    shell.rows(rows)


@config.command("set", epilog=examples("pyromq broker config set fileReservedTime 48 -b broker-a --yes"))
@click.argument("key")
@click.argument("value")
@one_broker
@changes
async def put(shell: Shell, key: str, value: str, broker: str | None) -> None:
    """Change a setting of all brokers, or of one. Only those that may change while running are taken."""
    from ..admin import settings

    places = await shell.masters(broker)
    plan = []
    for place in places:
        found = await settings.of_broker(shell.calls, place.address)
        if key not in found:
            raise unknown("setting", key, found)
        plan.append({"broker": place.name, "key": key, "now": found[key], "value": value})
    shell.about_to(f"set {key} to {value}", plan)
    for place in places:
        await settings.change_broker(shell.calls, place.address, {key: value})
    shell.rows([{"broker": row["broker"], "key": key, "was": row["now"], "value": value} for row in plan])
