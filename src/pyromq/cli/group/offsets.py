"""`pyromq group skip`, `reset` and `clone`, and `topic reset`: where groups go on, set by hand.

`skip` goes past what nobody wants any more or what cannot be handled, `reset` to a place or time. What is planned and
done is in `admin/progress/offset_plans.py`, which the dashboard asks too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from ... import admin
from ...model.names import retry_topic
from ...text.values import plural
from ..terminal.options import one_broker, time_ms
from ..terminal.shell import Shell, changes
from ..terminal.tree import Fail, command

if TYPE_CHECKING:
    from ...admin.cluster import BrokerPlace
    from ...admin.progress.offset_plans import OffsetMove

TO_THE_END = -1  # as a time
TO = click.option(
    "--to", "--time", "when", metavar="PLACE", help="first, last, now, -1h, 'yesterday 00:00', 2026-11-16T08:30, or ms."
)


def _moment(when: str) -> int:
    """Return the time that --to names: the first message stored then or later is where it goes on."""
    places = {"first": 0, "last": TO_THE_END}
    return places[when] if when in places else time_ms(when, "--to")


@command(
    "pyromq group skip billing orders --dry-run",
    "pyromq group skip billing orders --yes",
    "pyromq group skip billing orders -b broker-a --queue 0 --messages 1    one that is stuck",
)
@click.argument("name", metavar="GROUP")
@click.argument("topic")
@click.option("--queue", type=click.IntRange(min=0), help="Only this queue.")
@click.option("--messages", type=click.IntRange(min=1), help="Only so many of the queue: 1 for a stuck one.")
@click.option("--retries", is_flag=True, help="Also what waits on the group's retry topic.")
@one_broker
@changes
async def skip(
    shell: Shell, name: str, topic: str, queue: int | None, messages: int | None, retries: bool, broker: str | None
) -> None:
    """Let GROUP skip what has accumulated in TOPIC; the messages stay. Exit code 0: done, 1: refused."""
    from ...admin.progress.offset_plans import OffsetMove

    places = await shell.masters(broker)
    if messages is not None and (queue is None or len(places) > 1):
        raise click.UsageError("--messages counts in one queue of one broker: give --queue and -b")
    await shell.group(name, places)
    work = [OffsetMove(name, topic, places, queue, time_ms=TO_THE_END)]
    if messages is not None and queue is not None:
        committed = await admin.offsets.committed(shell.calls, places[0].address, name, topic, queue)
        if committed is None:
            raise Fail(f"group {name} has no offset in queue {queue} of {topic}")
        work[0].offset = committed + messages
    if retries:
        work.append(OffsetMove(name, retry_topic(name), places, None, time_ms=TO_THE_END))
    await _move(shell, f"let group {name} skip what waits in {topic}", work)


@command(
    "pyromq group reset billing orders --to first --dry-run       or last, now, -1h, 2026-11-16T08:30",
    "pyromq group reset billing orders --to 'yesterday 00:00' --yes",
    "pyromq group reset billing orders -b broker-a --queue 0 --offset 120 --yes",
)
@click.argument("name", metavar="GROUP")
@click.argument("topic")
@click.option("--queue", type=click.IntRange(min=0), help="Only this queue.")
@click.option("--offset", type=click.IntRange(min=0), help="This offset of the queue.")
@TO
@one_broker
@changes
async def reset(
    shell: Shell, name: str, topic: str, queue: int | None, offset: int | None, when: str | None, broker: str | None
) -> None:
    """Let GROUP go on in TOPIC at a time, or, in one queue, at an offset. Exit code 0: done, 1: refused."""
    from ...admin.progress.offset_plans import OffsetMove

    if (offset is None) == (when is None):
        raise click.UsageError("say where: either --to, or --offset with --queue")
    places = await shell.masters(broker)
    if offset is not None and (queue is None or len(places) > 1):
        raise click.UsageError("--offset is of one queue of one broker: give --queue and -b")
    await shell.group(name, places)
    moment = 0 if when is None else _moment(when)
    where = f"at {when}" if when is not None else f"at offset {offset} of queue {queue}"
    work = [OffsetMove(name, topic, places, queue, moment, offset)]
    await _move(shell, f"let group {name} go on in {topic} {where}", work)


@command(
    "pyromq topic reset orders --to 2026-11-16T00:00:00 --dry-run",
    "pyromq topic reset orders --to first --yes",
    name="reset",
)
@click.argument("topic")
@TO
@one_broker
@changes
async def reset_topic(shell: Shell, topic: str, when: str | None, broker: str | None) -> None:
    """Let every group of TOPIC go on at a time. One group alone: pyromq group reset."""
    from ...admin.progress.offset_plans import OffsetMove

    if when is None:
        raise click.UsageError("say where: --to first, last, or a time")
    moment = _moment(when)
    places = await shell.masters(broker)
    await shell.topic(topic, places)
    found: dict[str, list[BrokerPlace]] = {}
    for place in places:
        if await admin.topics.config(shell.calls, place.address, topic) is not None:
            for name in await admin.topics.groups(shell.calls, place.address, topic):
                if not admin.groups.is_internal(name):
                    found.setdefault(name, []).append(place)
    if not found:
        raise Fail(f"no group has consumed {topic} yet")
    work = [OffsetMove(name, topic, found[name], None, moment, shows_group=True) for name in sorted(found)]
    await _move(shell, f"let {plural(len(work), 'group')} go on in {topic} at {when}", work)


@command("pyromq group clone billing billing-2 orders --dry-run", "pyromq group clone a b orders --yes")
@click.argument("source")
@click.argument("target")
@click.argument("topic")
@changes
async def clone(shell: Shell, source: str, target: str, topic: str) -> None:
    """Let group TARGET go on in TOPIC where group SOURCE is. TARGET should have no member online."""
    from ...admin.progress.offset_plans import consequence, goal
    from ...protocol.headers.offsets import CloneGroupOffset
    from ...protocol.requests import RequestCode

    if source == target:
        raise click.UsageError("SOURCE and TARGET are the same group")
    places = await shell.masters()
    for name in (source, target):
        await shell.group(name, places)
    await shell.topic(topic, places)
    plan: list[dict[str, Any]] = []
    for place in places:
        theirs = (await admin.offsets.progress(shell.calls, place.address, source, topic)).offset_table
        for queue, at in admin.topics.by_number(theirs):
            now = await admin.offsets.committed(shell.calls, place.address, target, topic, queue.queue_id)
            first = await admin.offsets.first(shell.calls, place.address, topic, queue.queue_id)
            columns = goal(now, at.consumer_offset, first)
            plan.append({"topic": topic, "broker": place.name, "queue": queue.queue_id} | columns)
    if not plan:
        raise Fail(f"group {source} has no offsets in {topic}")
    shell.about_to(f"let group {target} go on in {topic} where group {source} is{consequence(plan)}", plan)
    header = CloneGroupOffset(src_group=source, dest_group=target, topic=topic, offline=True)
    for place in places:
        await shell.calls.ask(place.address, RequestCode.CLONE_GROUP_OFFSET, header)
    shell.rows(plan)


async def _move(shell: Shell, what: str, work: Sequence[OffsetMove]) -> None:
    """Show from where to where, then commit. It counts as done if one broker did it."""
    from ...admin.progress.offset_plans import OutOfReach, apply, consequence
    from ...admin.progress.offset_plans import plan as plan_of

    await shell.topic(work[0].topic, work[0].places)
    try:
        plans = [(each, place, await plan_of(shell.calls, each, place)) for each in work for place in each.places]
    except OutOfReach as fault:
        raise Fail(str(fault)) from None
    if not any(planned for _, _, planned in plans):
        raise Fail(f"no broker of these has queue {work[0].queue} of {work[0].topic}")
    whole = [row for _, _, planned in plans for row in planned]
    shell.about_to(what + consequence(whole), whole)
    rows: list[dict[str, Any]] = []
    faults: list[str] = []
    for each, place, planned in plans:
        rows += await apply(shell.calls, each, place, planned, faults)
    if not rows:
        raise Fail("; ".join(faults) or "no broker has it")
    shell.rows(rows)
