"""`pyromq broker config`, `stats` and `drain`: looking after running brokers, without the code of one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import click

from ... import admin
from ...config import masked
from ...model.topic import Perm
from ..terminal.exits import REFUSED
from ..terminal.options import one_broker
from ..terminal.printing import print_lines
from ..terminal.shell import Shell, changes, talks
from ..terminal.tree import Fail, TakesNegatives, Tree, command, unknown
from ..terminal.validation import check_name_servers, check_setting, is_broker_key

if TYPE_CHECKING:
    from ...admin.calls import Calls
    from ...admin.cluster import BrokerPlace


@click.group(cls=Tree)
def config() -> None:
    """Settings of running brokers, by Java's names."""


async def _show(
    shell: Shell, key: str, broker: str | None, ask: Callable[[Calls, str], Awaitable[dict[str, str]]], what: str
) -> None:
    rows: list[dict[str, Any]] = []
    known: set[str] = set()
    for place in await shell.masters(broker):
        found = await ask(shell.calls, place.address)
        known |= found.keys()
        rows += [
            {"broker": place.name, "key": name, "value": masked(name, value)}
            for name, value in sorted(found.items())
            if fnmatchcase(name, key)
        ]
    if not rows:
        raise unknown(what, key, known)
    shell.rows(rows)


@command("pyromq broker config get", "pyromq broker config get '*Message*' -b broker-a --json", of=config)
@click.argument("key", default="*")
@one_broker
@talks
async def get(shell: Shell, key: str, broker: str | None) -> None:
    """Show settings: all, KEY, or those that fit (`*Size`). Exit code 1 if none does."""
    await _show(shell, key, broker, admin.settings.of_broker, "setting")


@command("pyromq broker config set fileReservedTime 48 -b broker-a --yes", of=config, name="set", cls=TakesNegatives)
@click.argument("key")
@click.argument("value")
@one_broker
@changes
async def put(shell: Shell, key: str, value: str, broker: str | None) -> None:
    """Change a setting of all brokers, or of one. Only those that may change while running are taken."""
    places = await shell.masters(broker)
    was = {}
    for place in places:
        found = await admin.settings.of_broker(shell.calls, place.address)
        if key not in found and not is_broker_key(key):
            raise unknown("setting", key, found)
        value = await check_setting(shell, place, key, value)
        if key not in found:  # Apache's broker, or it would have been refused
            raise unknown("setting", key, found)
        was[place] = found[key]
    shown, before = masked(key, value), {place.name: masked(key, old) for place, old in was.items()}
    shell.about_to(
        f"set {key} to {shown}",
        [{"broker": name, "key": key, "now": old, "value": shown} for name, old in before.items()],
    )
    rows = []
    for place, old in was.items():
        note = await _change(shell, place, key, value, old)
        row = {"broker": place.name, "key": key, "was": before[place.name], "value": shown}
        rows.append(row | ({"note": note} if note else {}))
    shell.rows(rows)


async def _change(shell: Shell, place: BrokerPlace, key: str, value: str, was: str) -> str:
    """Change the setting and read it again: Apache's broker answers success to a value that it cannot read."""
    note = await admin.settings.change_broker(shell.calls, place.address, {key: value})
    if value != was and (await admin.settings.of_broker(shell.calls, place.address)).get(key) == was:
        raise Fail(f"{place.name} took {key}={value} and goes on with {was}: is that a value for it?", REFUSED)
    return note


@command("pyromq broker stats", "pyromq broker stats 'put*' -b broker-a --json")
@click.argument("key", default="*")
@one_broker
@talks
async def stats(shell: Shell, key: str, broker: str | None) -> None:
    """Show what brokers tell of themselves: all, KEY, or keys that fit (`put*`). Exit code 1 if none does."""
    await _show(shell, key, broker, admin.cluster.runtime, "key")


@command("pyromq broker drain broker-a --yes", "pyromq broker drain broker-a --undo --yes")
@click.argument("name", metavar="BROKER")
@click.option("--undo", is_flag=True, help="Let it be written again.")
@changes
async def drain(shell: Shell, name: str, undo: bool) -> None:
    """Tell producers, by way of the name servers, to write to BROKER no more; consumers go on. For taking it down.

    It lasts until --undo, or until BROKER or the name server starts again. Apache's name servers forget it as soon as a
    topic or group of BROKER is made or changed: drain it again then. `pyromq doctor` says whether it is drained.
    """
    if ":" in name:
        raise click.UsageError(f"{name}: name servers know brokers by name; pyromq cluster brokers shows them")
    (place,) = await shell.masters(name)
    await check_name_servers(shell)
    if not undo:
        await _warn_of_last(shell, place)
    what = f"let producers write to {name} again" if undo else f"keep producers from writing to {name}"
    servers = shell.session.config.name_servers
    shell.about_to(what, [{"broker": name, "nameServer": address} for address in servers])
    topics = [await admin.cluster.let_be_written(shell.calls, address, name, may=undo) for address in servers]
    counts = zip(servers, topics, strict=True)
    shell.rows([{"broker": name, "nameServer": address, "topics": count} for address, count in counts])


async def _warn_of_last(shell: Shell, place: BrokerPlace) -> None:
    """Warn of topics that no other broker takes messages of: sends to them fail from then on."""
    only = []
    for topic in sorted(await admin.topics.configs(shell.calls, place.address)):
        if admin.topics.is_internal(topic) or topic in (place.name, place.cluster):
            continue
        route = await admin.topics.route(shell.calls, topic)
        parts = [] if route is None else route.queue_datas
        writable = {one.broker_name for one in parts if one.perm & Perm.WRITE}
        only += [topic] if writable == {place.name} else []
    if only:
        shown = ", ".join(only[:5]) + (f" and {len(only) - 5} more" if len(only) > 5 else "")
        print_lines(f"WARNING: no other broker takes messages of {shown}: sends to them will fail", err=True)


COMMANDS = {"config": config, "stats": stats, "drain": drain}
