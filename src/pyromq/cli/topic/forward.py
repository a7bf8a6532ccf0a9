"""`pyromq topic forward`: a backlog into a topic with more queues. What it does is in admin/copies.py."""

from __future__ import annotations

import click

from ... import admin
from ...model.names import topic_fault
from ..msg.copying import Skipped
from ..terminal.interrupts import tells_if_stopped
from ..terminal.progress import counted
from ..terminal.shell import Shell, changes
from ..terminal.tree import Fail, command
from ..terminal.validation import check_sendable

TYPE = "message.type"


@command(
    "pyromq topic forward orders orders-wide --queues 32 --dry-run",
    "pyromq topic forward orders orders-wide --queues 32 --group billing --yes",
)
@click.argument("source")
@click.argument("target")
@click.option("--queues", type=click.IntRange(min=1), help="Queues on each broker of a TARGET that is not there yet.")
@click.option("-g", "--group", help="Only what this group has not consumed yet.")
@changes
async def forward(shell: Shell, source: str, target: str, queues: int | None, group: str | None) -> None:
    """Copy the messages of SOURCE that are there now into TARGET, which may have more queues.

    A run that was stopped goes on where it was, with the same command; at most a page of messages of each queue is
    copied twice. Messages with one order key keep their order. One that cannot be read is named and left out: exit
    code 1.
    """
    if source == target:
        raise click.UsageError("SOURCE and TARGET are the same topic")
    await shell.topic(source)
    places = await shell.masters()
    if group is not None:
        await shell.group(group, places)
    is_new = target not in await admin.topics.names(shell.calls)
    if is_new and queues is None:
        raise click.UsageError(f"topic {target} is not there yet: --queues says how many it gets")
    if not is_new:
        await check_sendable(shell, [target])
    elif (fault := topic_fault(target)) is not None:
        raise click.UsageError(fault)
    work = await admin.copies.ranges_to_copy(shell.calls, places, source, target, group)
    count = sum(each.count for each in work)
    plan = [
        {"broker": each.place.name, "queue": each.queue_id, "from": each.first, "to": each.end, "messages": each.count}
        | {"goesOn": each.is_resumed}
        for each in work
    ]
    into = f"{target}, made with {queues} queues on each broker" if is_new else target
    shell.about_to(f"copy {count} messages of {source} into {into}", plan)
    if is_new and queues is not None:
        await _make(shell, places, source, target, queues)
    skipped, counts = Skipped(f"pyromq msg resend {source} ID --to {target}"), [0]
    told = tells_if_stopped(lambda: f"{sum(counts)} messages were copied, the same command goes on behind them")
    with told, counted(count, f"{source} to {target}", is_quiet=shell.as_json) as done:

        def copied(number: int) -> None:
            counts.append(number)
            done(number)

        await admin.copies.forward(shell.calls, source, target, work, copied, skipped.add)
    gone_on = any(one.is_resumed for one in work)
    shell.rows([{"source": source, "target": target, "copied": sum(counts), "goneOn": gone_on} | skipped.column()])
    skipped.check()
    if group is not None:
        shell.say(f"{group} has them in {source} still. Let it skip them there: pyromq group skip {group} {source}")


async def _make(shell: Shell, places: list[admin.cluster.BrokerPlace], source: str, target: str, queues: int) -> None:
    """Make the target with the source's type and permission."""
    import msgspec

    found = [await admin.topics.config(shell.calls, place.address, source) for place in places]
    pattern = next((config for config in found if config is not None), None)
    if pattern is None:
        raise Fail(f"no broker has topic {source!r}")
    fresh = msgspec.structs.replace(pattern, topic_name=target, read_queue_nums=queues, write_queue_nums=queues)
    kind = pattern.attributes.get(TYPE)
    for place in places:
        await admin.topics.put(shell.calls, place.address, fresh, f"+{TYPE}={kind}" if kind else None)
