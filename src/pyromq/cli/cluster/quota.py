"""`pyromq quota`: what users, groups, topics and addresses may use of brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ... import admin
from ...model.wire_text import whole_number
from ..terminal.exits import NO
from ..terminal.options import one_broker
from ..terminal.shell import Shell, changes, talks
from ..terminal.tree import Fail, Tree, command

if TYPE_CHECKING:
    from ...admin.cluster import BrokerPlace
    from ...protocol.bodies.own import QuotaLine

_whom = click.argument("whom", metavar="KIND:NAME")


@click.group(cls=Tree)
def quota() -> None:
    """What users, groups, topics and addresses may use of brokers.

    KIND:NAME is user:alice, group:billing, topic:orders or address:10.0.0.5; user:* is each user without a quota of his
    own. A quota counts on each broker by itself.
    """


def _owner(whom: str) -> tuple[str, str]:
    kind, colon, name = whom.partition(":")
    if not colon or not kind or not name:
        raise click.UsageError(f"{whom}: it is KIND:NAME, such as topic:orders or user:alice")
    return kind, name


@command(
    "pyromq quota set topic:orders sendBytes=10485760 readBytes=52428800",
    "pyromq quota set 'user:*' connections=100 sendMessages=1000 --yes",
    of=quota,
    name="set",
)
@_whom
@click.argument("limits", nargs=-1, required=True, metavar="LIMIT=NUMBER...")
@one_broker
@changes
async def put(shell: Shell, whom: str, limits: tuple[str, ...], broker: str | None) -> None:
    """Set the quota of KIND:NAME, in the place of the one that it has. Exit code 1: a broker did not get it.

    A second: sendBytes, sendMessages, readBytes, readMessages. Of users and addresses connections, topics, groups; of
    groups connections, subscriptions; of topics queues, timers, storedBytes; of groups and topics halfMessages. Of
    users, groups and addresses loopTime: milliseconds of a broker's event loop a second.
    """
    kind, name = _owner(whom)
    wanted = dict(map(_limit, limits))
    before: dict[BrokerPlace, QuotaLine | None] = {}

    async def read(place: BrokerPlace) -> None:
        before[place] = _find(await admin.quotas.of_broker(shell.calls, place.address), kind, name)

    async def write(place: BrokerPlace) -> None:
        await admin.quotas.put(shell.calls, place.address, kind, name, wanted)
        done.append(place)

    done: list[BrokerPlace] = []
    away = await shell.each(await shell.masters(broker), read)
    rows = {
        place: {"broker": place.name, "of": whom, "was": _text(was.limits if was else {}), "limits": _text(wanted)}
        for place, was in before.items()
    }
    shell.about_to(f"set the quota of {whom}", list(rows.values()))
    away += await shell.each(list(before), write)
    shell.rows([rows[place] for place in done])
    if away:
        raise Fail(f"{', '.join(away)} did not get the quota of {whom}: type the same again once they are there", NO)


def _limit(text: str) -> tuple[str, int]:
    name, _, value = text.partition("=")
    number = whole_number(value)
    if number is None:
        raise click.UsageError(f"{text}: it is LIMIT=NUMBER, such as sendBytes=1048576")
    return name, number


def _find(lines: list[QuotaLine], kind: str, name: str) -> QuotaLine | None:
    return next((line for line in lines if (line.kind, line.name) == (kind, name)), None)


@command("pyromq quota list", "pyromq quota list -b broker-a --json", of=quota, name="list")
@one_broker
@talks
async def list_all(shell: Shell, broker: str | None) -> None:
    """List the quotas of all brokers, or of one, and what is used of those that name somebody."""
    rows: list[dict[str, Any]] = []
    for place in await shell.masters(broker):
        for line in await admin.quotas.of_broker(shell.calls, place.address):
            row: dict[str, Any] = {"broker": place.name, "of": f"{line.kind}:{line.name}", "limits": line.limits}
            row |= {"used": line.used, "source": line.source}
            if not shell.as_json:
                row |= {"limits": _text(line.limits), "used": _text(line.used)}
            rows.append(row)
    shell.rows(rows)


@command("pyromq quota delete topic:orders --yes", of=quota)
@_whom
@one_broker
@changes
async def delete(shell: Shell, whom: str, broker: str | None) -> None:
    """Delete the quota of KIND:NAME. One in the setting quotas stays, and counts again. Exit code 1: there is none."""
    kind, name = _owner(whom)
    places = await shell.masters(broker)
    shell.about_to(f"delete the quota of {whom}", [{"broker": place.name, "of": whom} for place in places])
    gone = [place.name for place in places if await admin.quotas.delete(shell.calls, place.address, kind, name)]
    if not gone:
        raise Fail(f"there is no quota of {whom} in the table of any broker: pyromq quota list", NO)
    shell.rows([{"broker": one, "of": whom} for one in gone])


def _text(limits: dict[str, int]) -> str:
    return " ".join(f"{name}={value}" for name, value in limits.items())
