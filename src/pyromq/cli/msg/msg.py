"""`pyromq msg`: one message's life and trace, search, copies. Export and import are in files.py; replay and
recheck have files of their own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from ... import admin
from ...model.codes import ResponseCode
from ...model.names import retry_topic
from ...text.screen import wrapped
from ..terminal.options import one_broker
from ..terminal.printing import columns, print_lines, to_json
from ..terminal.shell import Shell, changes, talks
from ..terminal.tree import Fail, Tree, command
from ..terminal.validation import check_sendable
from .copying import FROM, TO, selects
from .dlq import list_dead
from .files import export, import_
from .message_tables import life_lines, trace_json, trace_lines
from .recheck import recheck
from .replay import replay

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...admin.cluster import BrokerPlace
    from ...admin.search import Window
    from ...model.message_trace import MessageTrace, Traced

TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"  # model.names.TRACE_TOPIC: shown in the help, for which nothing is imported


@click.group(cls=Tree)
def msg() -> None:
    """Messages: the life of one, search, traces, send again, export, import."""


msg.add_command(list_dead, "dead")
for _command in (export, import_, recheck, replay):
    msg.add_command(_command)


@command("pyromq msg get orders order-1", "pyromq msg get orders 7F00000100002A9F0000000000000000 --json", of=msg)
@click.argument("topic")
@click.argument("message_id")
@one_broker
@talks
async def get(shell: Shell, topic: str, message_id: str, broker: str | None) -> None:
    """Tell the life of a message: MESSAGE_ID is its id, its offset id, or a key that it alone has.

    Exit code 0: found, 1: no broker knows it, 2: no answer. Apache's brokers tell where it is stored and which groups
    are past it; ours also retries, dead letters, transactions and timers of it.
    """
    lives: list[dict[str, Any]] = []
    places = await shell.masters(broker)
    for place in places:
        lives += [found | {"broker": place.address} for found in await _lives(shell, place, topic, message_id)]
    for one in lives:
        print_lines(*([to_json(one)] if shell.as_json else _fitting(life_lines(one))))
    if not lives:
        await shell.topic(topic, places)
        raise Fail(f"no message {message_id} of topic {topic} is known here")


async def _lives(shell: Shell, place: BrokerPlace, topic: str, message_id: str) -> list[dict[str, Any]]:
    from ...admin.finding.lives import on_broker

    known = await on_broker(shell.calls, place, topic, message_id)
    if known.lives and not known.is_whole:
        print_lines(f"{place.name} is Apache's: retries, dead letters and timers of it are not told", err=True)
    return known.lives


@command("pyromq msg trace order-1", "pyromq msg trace order-1 --trace-topic my-traces --json", of=msg)
@click.argument("message_id")
@click.option("--trace-topic", default=TRACE_TOPIC, show_default=True, help="Where the clients write their traces.")
@one_broker
@talks
async def trace(shell: Shell, message_id: str, trace_topic: str, broker: str | None) -> None:
    """Tell what clients traced of a message: MESSAGE_ID is its id, or a key. Clients trace where it is switched on.

    Exit code 0: found, 1: nobody traced it, 2: no answer.
    """
    found = await _traced(shell, await shell.masters(broker), trace_topic, message_id)
    for one in found:
        print_lines(*([to_json(trace_json(one))] if shell.as_json else _fitting(trace_lines(one))))
    if not found:
        raise Fail(f"no trace of {message_id} in {trace_topic}")


async def _traced(shell: Shell, places: Sequence[BrokerPlace], trace_topic: str, word: str) -> list[MessageTrace]:
    """Return the traces of an id, or of the ids that a key leads to: not every event of a message names its keys."""
    from ...model.message_trace import stories

    first = stories(await _events(shell, places, trace_topic, word), word)
    return [
        one
        if one.message_id == word
        else stories(await _events(shell, places, trace_topic, one.message_id), one.message_id)[0]
        for one in first
    ]


async def _events(shell: Shell, places: Sequence[BrokerPlace], trace_topic: str, word: str) -> list[Traced]:
    from ...protocol.requests import RequestCode
    from ...protocol.trace import answered_events, trace_query

    known = (ResponseCode.QUERY_NOT_FOUND, ResponseCode.TOPIC_NOT_EXIST)
    events: list[Traced] = []
    for place in places:
        header = trace_query(trace_topic, word)
        answer = await shell.calls.ask(place.address, RequestCode.QUERY_MESSAGE, header, known=known)
        if answer.code == ResponseCode.SUCCESS:
            events += answered_events(answer.body)
    return events


@command(
    "pyromq msg query orders --key order-1",
    "pyromq msg query orders --from 2026-11-16T08:00:00 --to 2026-11-16T09:00:00 --most 100",
    "pyromq msg query orders --tag paid --json",
    of=msg,
)
@click.argument("topic")
@click.option("--key", help="Messages with this key.")
@click.option("--tag", "tags", multiple=True, help="Messages with this tag; may be given several times.")
@FROM
@TO
@click.option("--queue", type=click.IntRange(min=0), help="Only this queue.")
@click.option("--most", type=click.IntRange(min=1), default=32, show_default=True, help="End after so many.")
@one_broker
@talks
@selects
async def query(shell: Shell, topic: str, key: str | None, wanted: Window, most: int, broker: str | None) -> None:
    """Search TOPIC by key, or by time and tag. Exit code 0: found, 1: none."""
    from .message_rows import row

    if key is not None and (wanted.tags != "*" or wanted.queue_id is not None):
        raise click.UsageError("--key finds by the index alone: give it without --tag and --queue")
    places = await shell.masters(broker)
    await shell.topic(topic, places)
    rows: list[dict[str, Any]] = []
    if key is not None:
        rows = await _with_key(shell, places, topic, key, wanted, most)
    else:
        async for found in admin.search.by_time(shell.calls, places, topic, wanted):
            rows.append(row(found.message, found.place.name, is_short=not shell.as_json))
            if len(rows) == most:
                break
    shell.rows(sorted(rows, key=lambda one: (one["storedMs"], one["broker"], one["queue"], one["offset"])))
    if not rows:
        raise Fail(f"no message of {topic} fits")


async def _with_key(
    shell: Shell, places: Sequence[BrokerPlace], topic: str, key: str, wanted: Window, most: int
) -> list[dict[str, Any]]:
    """Return the messages that really have the key: the index finds by hash."""
    from ...admin.finding.keyed import with_key
    from .message_rows import row

    rows: list[dict[str, Any]] = []
    for place in places:
        found = await with_key(shell.calls, place, topic, key, wanted, most)
        rows += [row(one, place.name, is_short=not shell.as_json) for one in found]
    return rows[:most]


@command(
    "pyromq msg resend orders 7F000001...                 a copy into its own topic, for all groups",
    "pyromq msg resend orders 7F000001... --to orders-2",
    "pyromq msg resend orders 7F000001... -g billing      once more to this group alone",
    of=msg,
)
@click.argument("topic")
@click.argument("message_id")
@click.option("--to", "target", help="Topic that gets the copy.  [default: its own]")
@click.option("-g", "--group", help="Only this group gets it, by way of its retry topic; the message keeps its id.")
@changes
async def resend(shell: Shell, topic: str, message_id: str, target: str | None, group: str | None) -> None:
    """Send a stored message again. MESSAGE_ID is its id or its offset id."""
    if target and group:
        raise click.UsageError("--to and --group are two ways: give one of them")
    places = await shell.masters()
    await shell.topic(topic, places)
    if group is not None:
        await shell.group(group, places)
    found = await admin.search.by_id(shell.calls, places, topic, message_id)
    if found is None:
        by_key = f"pyromq msg query {topic} --key {message_id}"
        raise Fail(f"no message {message_id} of topic {topic} is known here. Is it a key? Ids: {by_key}")
    try:
        admin.copies.check_readable(found.message)
    except admin.copies.CannotCopy as fault:
        raise Fail(f"not sent: {fault}") from None
    goal = f"group {group}" if group else f"topic {target or topic}"
    if shell.is_dry:
        await check_sendable(shell, [retry_topic(group) if group else target or topic])
        shell.about_to(f"send {message_id} again to {goal}")
    copies = admin.copies.Copies(shell.session)
    copied = copies.retry(found.message, group) if group else copies.send(found.message, target or topic)
    sent = await copied
    row = {"messageId": sent.message_id, "copyOf": message_id, "to": goal, "broker": sent.queue.broker_name}
    shell.rows([row | {"queue": sent.queue.queue_id, "offset": sent.queue_offset}])


def _fitting(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines; one that is wider than the screen goes on below itself, behind where times stand."""
    for line in lines:
        yield from wrapped(line, columns(), " " * 25)
