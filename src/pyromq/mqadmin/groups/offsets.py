"""Where consumer groups go on: reset, skipped, copied from another group."""

from __future__ import annotations

from datetime import datetime

from ...admin import groups, offsets
from ...client.errors import Refused
from ...model.codes import ResponseCode
from ...model.names import TIMER_TOPIC
from ...model.wire_text import LONG_MAX, whole_number
from ...protocol.bodies.keyed import MessageQueue
from ..command import Failed, Run, command
from ..options import ROUTE_BY, TOPIC, UsageError
from ..printing import Columns, java
from .progress import progress_of

LIGHT_PREFIX = "%LMQ%"
RESET = Columns("{#brokerName:<40.32}  {#queueId:<40}  {#offset:<40}")
BY_HAND = Columns(
    "{#brokerName:<20.32}  {#queueId:<20}  {#brokerOffset:<20}  {#consumerOffset:<20}  {#timestampOffset:<20}  "
    "{#rollbackOffset:<20}"
)
GROUP = "-g group=  the group"
FORCE = "[-f force=]  false: never forward; deprecated"


def time_of(run: Run, text: str) -> int:
    """Return the time of `now`, of milliseconds, or of `yyyy-MM-dd#HH:mm:ss:SSS` in this machine's zone."""
    if text == "now":
        return run.clock.now_ms()
    number = whole_number(text, -LONG_MAX - 1)
    if number is not None:
        return number
    try:
        return round(datetime.strptime(text, "%Y-%m-%d#%H:%M:%S:%f").timestamp() * 1000)
    except ValueError:
        raise UsageError(f"{text}: now, milliseconds since 1970, or yyyy-MM-dd#HH:mm:ss:SSS") from None


@command("Let a group go on at a time", ROUTE_BY, FORCE, GROUP, TOPIC)
async def reset_offset_by_time(run: Run) -> None:
    """[-b broker=]  only this broker, with -q
    [-o offset=]     go on at this offset, with -b and -q
    [-q queue=]      only this queue, with -b
    -s timestamp=    now, milliseconds, or yyyy-MM-dd#HH:mm:ss:SSS"""
    time_ms = time_of(run, run["s"])
    if ("b" in run) != ("q" in run) or ("o" in run and "q" not in run):
        raise UsageError("-b and -q go together, and -o needs both")
    if "b" in run:
        await _reset_queue(run, time_ms)
        return
    table = await _reset(run, time_ms)
    wanted = (
        f"[{run['g']}], topic[{run['t']}], force[{java(run.truth('f', True))}], timestamp(string)[{run['s']}], "
        f"timestamp(long)[{time_ms}]"
    )
    if table is None:
        run.say(f"reset consumer offset by specified consumerGroup{wanted}")
        await _reset_by_hand(run, time_ms)
    else:
        run.say(f"start reset consumer offset by specified, group{wanted}")
        _print_table(run, table)


@command("Let a group skip what waits for it", ROUTE_BY, FORCE, GROUP, TOPIC)
async def skip_accumulated_message(run: Run) -> None:
    table = await _reset(run, offsets.TO_THE_END)
    if table is None:
        await _reset_by_hand(run, offsets.TO_THE_END)
    else:
        _print_table(run, table)


async def _reset(run: Run, time_ms: int) -> dict[MessageQueue, int] | None:
    """Let the brokers reset the group: they notify the members. None where they reset only groups that are online."""
    table: dict[MessageQueue, int] = {}
    for address in await _brokers(run):
        force = run.truth("f", True)
        try:
            done = await offsets.reset(run.calls, address, run["g"], run["t"], time_ms=time_ms, force=force)
        except Refused as refusal:
            if refusal.code != ResponseCode.CONSUMER_NOT_ONLINE:
                raise
            return None
        table |= done.offset_table
    return table


async def _brokers(run: Run) -> list[str]:
    topic = run["t"]
    has_no_route = topic.startswith(LIGHT_PREFIX) or topic == TIMER_TOPIC
    return list((await run.brokers_of(run["c"] if has_no_route and "c" in run else topic)).values())


def _print_table(run: Run, table: dict[MessageQueue, int]) -> None:
    rows = (RESET.format(queue.broker_name, queue.queue_id, offset) for queue, offset in sorted(table.items()))
    run.say(RESET.head, *rows)


async def _reset_queue(run: Run, time_ms: int) -> None:
    group, topic, queue, address = run["g"], run["t"], run.number("q"), run["b"]
    run.say(
        f"start reset consumer offset by specified, group[{group}], topic[{topic}], queueId[{queue}], "
        f"broker[{address}], timestamp(string)[{run['s']}], timestamp(long)[{time_ms}]"
    )
    offset = run.number("o") if "o" in run else await offsets.at_time(run.calls, address, topic, queue, time_ms)
    await offsets.commit(run.calls, address, group, topic, queue, offset)
    # Members that are online have an offset of their own: the broker notifies them.
    await offsets.reset(run.calls, address, group, topic, time_ms=0, queue_id=queue, offset=offset)
    run.say(f"reset consumer offset to {offset}")


async def _reset_by_hand(run: Run, time_ms: int) -> None:
    """Look the offsets up and commit them, for brokers that reset only groups that are online."""
    run.say(BY_HAND.head)
    for address in await _brokers(run):
        stats = await offsets.progress(run.calls, address, run["g"], run["t"])
        for queue, known in sorted(stats.offset_table.items()):
            place = (run.calls, address, queue.topic, queue.queue_id)
            found = await (offsets.end(*place) if time_ms < 0 else offsets.at_time(*place, time_ms))
            moves = run.truth("f", True) or found <= known.consumer_offset
            if moves:
                await offsets.commit(run.calls, address, run["g"], queue.topic, queue.queue_id, found)
            shown = (known.broker_offset, known.consumer_offset, found, found if moves else known.consumer_offset)
            run.say(BY_HAND.format(queue.broker_name, queue.queue_id, *shown))


@command("Let a group go on in a topic where another one is", TOPIC)
async def clone_group_offset(run: Run) -> None:
    """-d destGroup=  the group that gets the offsets
    [-o offline=]     true: members that are online are no reason for a warning
    -s srcGroup=      the group whose offsets are copied"""
    source, target, topic = run["s"], run["d"], run["t"]
    addresses = await run.brokers_of(topic)
    stats = await progress_of(run, source, topic)
    copied = [(queue, at.consumer_offset) for queue, at in stats.offset_table.items() if queue.topic == topic]
    if not copied:
        raise Failed(f"group {source} has no offsets in topic {topic}")
    for queue, offset in copied:
        if offset >= 0:
            await offsets.commit(run.calls, addresses[queue.broker_name], target, topic, queue.queue_id, offset)
    run.say(f"clone group offset success. srcGroup[{source}], destGroup=[{target}], topic[{topic}]")
    if run.truth("o"):
        return
    for address in addresses.values():
        if await groups.connections(run.calls, address, target) is not None:
            run.warn(f"{target} has members online on {address}: they may commit their own offsets over these")
