"""`pyromq dlq`: dead letters, the time that they have left, sent again or thrown away."""

from __future__ import annotations

from collections import Counter
from typing import Any

import click

from ... import admin
from ...client.errors import Refused
from ...model.codes import ResponseCode
from ...model.foreign_text import shell_word
from ...model.message import Property, StoredMessage
from ...model.names import DLQ_PREFIX, dlq_topic
from ..terminal.interrupts import tells_if_stopped
from ..terminal.options import one_broker
from ..terminal.printing import print_lines
from ..terminal.progress import counted
from ..terminal.shell import Shell, changes, talks
from ..terminal.tree import Fail, Tree, command, unknown
from ..terminal.validation import check_name_servers, check_sendable
from .copying import Skipped

PROGRESS_GROUP = "pyromq_dlq"  # its offsets in a dead-letter topic say what has been sent again
GOES_ON = "The same command goes on behind them"
MOST_REMEMBERED = 2_000  # the youngest: a value of that table has an end


@click.group(cls=Tree)
def dlq() -> None:
    """Dead letters: list with the time left, send again, purge."""


@command("pyromq dlq list", "pyromq dlq list billing --json", of=dlq, name="list")
@click.argument("group", required=False)
@click.option("--most", type=click.IntRange(min=1), default=100, show_default=True, help="Messages that are shown.")
@one_broker
@talks
async def list_dead(shell: Shell, group: str | None, most: int, broker: str | None) -> None:
    """List groups that have dead letters, or those of one GROUP, with the time that they have left.

    Exit code 1 if the GROUP has none.
    """
    rows: list[dict[str, Any]] = []
    warnings: list[str] = []
    places = await shell.masters(broker)
    for place in places:
        rows += await _dead(shell, place, group, most, warnings)
    if group is not None and not rows:
        raise await _none(shell, places, group)
    shell.rows(rows, "no dead letters")
    for one in warnings:
        print_lines(f"WARNING: {one}", err=True)


async def _dead(
    shell: Shell, place: admin.cluster.BrokerPlace, group: str | None, most: int, warnings: list[str]
) -> list[dict[str, Any]]:
    try:
        found = await admin.messages.dead_letters(shell.calls, place.address, group, most)
    except Refused as fault:
        if fault.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            raise
        # Apache's broker: it cannot say how long they stay.
        return await _counted(shell, place) if group is None else await _listed(shell, place, group, most)
    if found is None:
        return []
    warnings += [f"{place.name}: {one}" for one in found["warnings"]]
    if found["lostForWantOfSpace"]:
        warnings.append(f"{place.name}: {found['lostForWantOfSpace']} lost for want of space since the start")
    rows = [
        {"group": one["group"], "broker": place.name, "messages": one["messages"]} | _left(one)
        for one in found.get("groups", ())
    ]
    return rows + [
        {"messageId": one["id"], "topic": one["topic"], "broker": place.name, "offset": one["offset"]}
        | {"keys": one.get("keys"), "attempts": one["attempts"], "diedMs": one["diedMs"]}
        | _left(one)
        | {"reason": one.get("reason")}
        for one in found.get("messages", ())
    ]


def _left(one: dict[str, Any]) -> dict[str, Any]:
    return {"leftSeconds": one["secondsLeft"], "leavesMs": one["leavesMs"]}


async def _counted(shell: Shell, place: admin.cluster.BrokerPlace) -> list[dict[str, Any]]:
    rows = []
    topics = await admin.topics.configs(shell.calls, place.address)
    for name in sorted(name for name in topics if name.startswith(DLQ_PREFIX)):
        if count := (await admin.topics.stats(shell.calls, place.address, name)).count:
            row = {"group": name.removeprefix(DLQ_PREFIX), "broker": place.name, "messages": count}
            rows.append(row | {"leftSeconds": None, "leavesMs": None})
    return rows


async def _listed(shell: Shell, place: admin.cluster.BrokerPlace, group: str, most: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    async for found in admin.search.by_time(shell.calls, [place], dlq_topic(group), admin.search.Window()):
        one = found.message
        rows.append(
            _where(one, place)
            | {"offset": one.queue_offset, "keys": one.properties.get(Property.KEYS), "attempts": one.reconsume_times}
            | {"diedMs": one.store_timestamp, "leftSeconds": None, "leavesMs": None}
            | {"reason": one.properties.get(Property.OWN_REASON)}
        )
        if len(rows) == most:
            break
    return rows


def _where(one: StoredMessage, place: admin.cluster.BrokerPlace) -> dict[str, Any]:
    ids = {"messageId": admin.copies.message_id(one), "topic": admin.copies.origin_topic(one)}
    return ids | {"broker": place.name}


async def _none(shell: Shell, places: list[admin.cluster.BrokerPlace], group: str) -> Fail:
    """Return the failure of a group that has no dead letters, or does not exist."""
    known = await shell.groups(places)
    return Fail(f"group {group} has no dead letters") if group in known else unknown("group", group, known)


@command(
    "pyromq dlq resend billing --dry-run",
    "pyromq dlq resend billing --yes                   once more to billing, and to nobody else",
    "pyromq dlq resend billing 7F000001... --yes       only this one",
    "pyromq dlq resend billing --to-topic --yes        to the topics where they failed, for all groups",
    of=dlq,
)
@click.argument("group")
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--to-topic", is_flag=True, help="To the topics where they failed: every group gets them.")
@click.option("--to", "target", help="To this topic.")
@click.option("--again", is_flag=True, help="Also those that were sent again before.")
@changes
async def resend(
    shell: Shell, group: str, ids: tuple[str, ...], to_topic: bool, target: str | None, again: bool
) -> None:
    """Send the dead letters of GROUP again: to the group alone, or to topics. They stay until they expire.

    What was sent is remembered at the broker, so that the next run goes on behind it. One that cannot be read is named
    and not sent: exit code 1.
    """
    from ...protocol.bodies.groups import SubscriptionGroupConfig

    if to_topic and target:
        raise click.UsageError("--to-topic and --to are two ways: give one of them")
    work = await _waiting(shell, group, ids, again)
    missing = set(ids) - {one["messageId"] for one in work}
    if missing:
        raise Fail(f"group {group} has no dead letter {', '.join(sorted(missing))}")
    if not work:
        before = "were sent again before, or skipped because they could not be read"
        shell.rows([], f"nothing to do: all dead letters of {group} {before} (--again or an ID repeats it)")
        return
    if not to_topic and not target and group not in await shell.groups(await shell.masters()):
        cure = f"Make it again: pyromq group create {shell_word(group)}; or send them elsewhere: --to-topic, --to TOPIC"
        raise Fail(f"group {group} is deleted, so nobody would get its dead letters. {cure}")
    goal = f"topic {target}" if target else "the topics where they failed" if to_topic else f"group {group} alone"
    if target or to_topic:
        await check_sendable(shell, {target or admin.copies.origin_topic(one["stored"]) for one in work})
    if ids:
        await check_name_servers(shell)
    plan = [{key: value for key, value in one.items() if key not in ("stored", "place")} for one in work]
    shell.about_to(f"send {len(work)} dead letters of {group} again, to {goal}", plan)
    copies, skipped = admin.copies.Copies(shell.session), Skipped(f"pyromq dlq resend {group} ID")
    for address in {one["place"].address for one in work}:
        await admin.groups.put(shell.calls, address, SubscriptionGroupConfig(group_name=PROGRESS_GROUP))
    sent = 0
    told = tells_if_stopped(lambda: f"{sent} dead letters were sent. {'' if ids or again else GOES_ON}".rstrip())
    with told, counted(len(work), f"dead letters of {group}", is_quiet=shell.as_json) as done:
        for one in work:
            properties = {"REDRIVE_GROUP": group, "REDRIVE_ID": one["messageId"]}
            with skipped.unless_readable():
                if to_topic or target:
                    await copies.send(one["stored"], target or admin.copies.origin_topic(one["stored"]), properties)
                else:
                    await copies.retry(one["stored"], group, properties)
                sent += 1
                await _remember(shell, group, one, by_id=bool(ids))
            done(1)
    shell.rows([{"group": group, "sent": sent, "to": goal} | skipped.column()])
    skipped.check()


async def _waiting(shell: Shell, group: str, ids: tuple[str, ...], again: bool) -> list[dict[str, Any]]:
    """Return the dead letters to be sent, oldest first in each queue. Those that are named are sent in any case."""
    topic, rows, places = dlq_topic(group), [], await shell.masters()
    queues = await admin.topics.queues(shell.calls, places, topic)
    if not queues:
        raise await _none(shell, places, group)
    by_id = set() if again or ids else await _sent_by_id(shell, group)
    for queue in queues:
        place, at = queue.place, (shell.calls, queue.place.address)
        sent = None if again or ids else await admin.offsets.committed(*at, PROGRESS_GROUP, topic, queue.queue_id)
        async for page in admin.messages.pages(*at, topic, queue.queue_id, max(queue.first, sent or 0), queue.end):
            for stored in page.messages:
                row = _where(stored, place) | {"offset": stored.queue_offset, "stored": stored, "place": place}
                if row["messageId"] in ids if ids else _letter(row) not in by_id:
                    rows.append(row)
    return rows


def _letter(one: dict[str, Any]) -> str:
    """Return what names a dead letter: its message may die again with the same id, and a purge begins anew at 0."""
    stored: StoredMessage = one["stored"]
    return f"{one['broker']}:{stored.queue_id}:{stored.queue_offset}:{stored.store_timestamp}"


def _stored_ms(letter: str) -> str:
    """Return the time as it stands: milliseconds since 1970 have 13 digits until the year 2286."""
    return letter.rpartition(":")[2]


async def _sent_by_id(shell: Shell, group: str) -> set[str]:
    from ...admin.changes.group_deletion import SENT_BY_ID

    return set(filter(None, (await admin.settings.kv_get(shell.calls, SENT_BY_ID, group) or "").split(",")))


async def _remember(shell: Shell, group: str, one: dict[str, Any], *, by_id: bool) -> None:
    """Let the next run without ids leave out this letter: it goes on behind it, or leaves out this one alone."""
    if by_id:
        from ...admin.changes.group_deletion import SENT_BY_ID

        sent = sorted(await _sent_by_id(shell, group) | {_letter(one)}, key=_stored_ms)[-MOST_REMEMBERED:]
        await admin.settings.kv_put(shell.calls, SENT_BY_ID, group, ",".join(sent))
        return
    progress = PROGRESS_GROUP, dlq_topic(group), one["stored"].queue_id, one["offset"] + 1
    await admin.offsets.commit(shell.calls, one["place"].address, *progress)


@command("pyromq dlq purge billing --dry-run", "pyromq dlq purge billing --yes", of=dlq)
@click.argument("group")
@changes
async def purge(shell: Shell, group: str) -> None:
    """Throw the dead letters of GROUP away, by deleting their topic; the next death makes it again."""
    from ...admin.changes.group_deletion import delete_letters

    topic, places = dlq_topic(group), await shell.masters()
    counts: Counter[admin.cluster.BrokerPlace] = Counter()
    unsent: Counter[admin.cluster.BrokerPlace] = Counter()
    by_id = {letter.rpartition(":")[0] for letter in await _sent_by_id(shell, group)}
    for queue in await admin.topics.queues(shell.calls, places, topic):
        at = (shell.calls, queue.place.address)
        sent = await admin.offsets.committed(*at, PROGRESS_GROUP, topic, queue.queue_id)
        counts[queue.place] += queue.count
        begin = max(queue.first, sent or 0)
        letters = (f"{queue.place.name}:{queue.queue_id}:{offset}" for offset in range(begin, queue.end))
        unsent[queue.place] += sum(letter not in by_id for letter in letters)
    if not counts:
        raise await _none(shell, places, group)
    await check_name_servers(shell)
    plan = [
        {"group": group, "broker": place.name, "messages": count, "notSentAgain": unsent[place]}
        for place, count in counts.items()
    ]
    left = f", of which `dlq resend` has not sent {unsent.total()}" if unsent.total() else ""
    shell.about_to(f"throw away the {counts.total()} dead letters of {group}{left}", plan)
    await delete_letters(shell.calls, group, counts)
    shell.rows([row | {"purged": True} for row in plan])
