"""`pyromq bench`: how many messages a second, with the flags and the columns of Apache's own benchmark.

Its figures stand beside Java's: the same meaning of each flag, the same line each interval. A thread there is a
coroutine here. What is counted is in counts.py; batches and transactions are in kinds.py, timers in
timer.py.
"""

from __future__ import annotations

import asyncio
from typing import Any

import click

from ...client.received import Received  # at the top: the SDK reads the types of handlers
from ...model.group import ConsumeFromWhere
from ..terminal.options import Number
from ..terminal.tree import Tree, command
from . import shared
from .counts import MessagesConsumed, MessagesSent
from .kinds import batch, transaction
from .shared import BenchMessage, BenchRun, count_option, java_truth, measures
from .timer import timer

GROUP = "benchmark_consumer"


@click.group(cls=Tree)
def bench() -> None:
    """Measure, with the flags and columns of Apache's benchmark."""


for _command in (batch, transaction, timer):
    bench.add_command(_command)


@command("pyromq bench producer -w 64 -s 1024 -q 100000", "pyromq bench producer -t orders -y true -ri 1000", of=bench)
@shared.topic_option
@count_option("-w", "--thread-count", "threads", default=64, text="Senders at a time.", is_shown=True)
@count_option("-s", "--message-size", "size", default=128, text="Bytes of each body.", is_shown=True)
@click.option("-k", "--key-enable", "keys", type=bool, default=False, help="Give each message a key.")
@shared.properties_option
@shared.tags_option
@shared.quantity_option
@click.option("-d", "--delay-enable", "delays", type=bool, default=False, help="Send delayed messages.")
@click.option("-e", "--delay-level", type=click.IntRange(1), default=1, help="Of delayed messages.")
@click.option(
    "-y", "--async-enable", "is_async", type=bool, default=False, help="Many in flight, as Java's async send."
)
@click.option("-c", "--compress-enable", "compress", type=bool, default=False, help="Compress large bodies.")
@count_option("-ch", "--compress-over-how-much", "over", least=0, default=4096, text="Bytes.")
@shared.trace_option
@shared.interval_option
@measures
async def producer(run: BenchRun, trace: bool, **how: Any) -> None:
    """Send until Ctrl-C, or -q messages; one line each interval, and one at the end."""
    from ...client.produce.outgoing import Packing

    packing = Packing(compress_over_bytes=how["over"]) if how["compress"] else Packing(compression=None)
    shell, counts = run.shell, MessagesSent(run.clock.monotonic())
    senders = ASYNC_IN_FLIGHT if how["is_async"] else how["threads"]
    shell.say(
        f"topic: {run.topic}, threadCount: {1 if how['is_async'] else how['threads']}, messageSize: {how['size']}, "
        f"keyEnable: {java_truth(how['keys'])}, propertySize: {how['property_size']}, tagCount: {how['tags']}, "
        f"messageQuantity: {run.quantity}, delayEnable: {java_truth(how['delays'])}, delayLevel: {how['delay_level']}, "
        f"asyncEnable: {java_truth(how['is_async'])}, compressEnable: {java_truth(how['compress'])}, "
        f"reportInterval: {run.interval_ms}"
    )
    level = how["delay_level"] if how["delays"] else None
    message = BenchMessage(how["size"], how["property_size"], how["tags"], keys=how["keys"], delay_level=level)
    async with (
        run.shell.client(trace=trace) as client,
        client.producer("benchmark_producer", packing=packing) as sender,
    ):

        async def send() -> None:
            await sender.send(run.topic, message.body, **message.arguments(run.clock.now_ms()))

        await run.send(counts, senders, send)
    run.conclude(counts)


ASYNC_IN_FLIGHT = 1000


@command("pyromq bench consumer -w 20", "pyromq bench consumer -t orders -f TAG -e tags.txt -q 100000", of=bench)
@shared.topic_option
@count_option("-w", "--thread-count", "threads", default=20, text="Handlers at a time.", is_shown=True)
@click.option("-g", "--group", default=GROUP, show_default=True, help="Consumer group.")
@click.option("-p", "--group-prefix-enable", "suffix", type=bool, default=False, help="Put a number behind the group.")
@click.option("-f", "--filter-type", type=click.Choice(["TAG", "SQL92"]), help="With -e.")
@click.option("-e", "--expression", type=click.Path(exists=True, dir_okay=False), help="File with the filter.")
@click.option("-r", "--fail-rate", type=Number(0, 1), default=0.0, help="Share that the handler fails.")
@shared.quantity_option
@shared.trace_option
@shared.interval_option
@measures
async def consumer(
    run: BenchRun, threads: int, group: str, suffix: bool, fail_rate: float, trace: bool, **wanted: str | None
) -> None:
    """Consume until Ctrl-C, or -q messages; one line each interval.

    B2C is the time from a message's birth to its handler, S2C from its storing.
    """
    clock, rng = run.clock, run.shell.session.rng
    name = f"{group}_{clock.now_ms() % 100}" if suffix else group
    chosen = _filter(**wanted)
    run.shell.say(
        f"topic: {run.topic}, threadCount {threads}, group: {name}, suffix: {java_truth(suffix)}, filterType: "
        f"{wanted['filter_type'] or 'null'}, expression: {wanted['expression'] or 'null'}, "
        f"reportInterval: {run.interval_ms}"
    )
    await run.shell.session.name_servers.topics()  # a consumer would wait for a name server for ever
    counts, enough = MessagesConsumed(clock.monotonic()), asyncio.Event()

    async def handle(msg: Received) -> None:
        now = clock.now_ms()
        counts.got(now - msg.born_ms, now - msg.stored_ms)
        if run.quantity and counts.count >= run.quantity:
            enough.set()
        if fail_rate and rng.random() < fail_rate:
            counts.failed += 1
            raise BenchmarkFailure("failed on purpose (-r)")

    options: dict[str, Any] = {"concurrency": threads, "begin": ConsumeFromWhere.FIRST_OFFSET, "grace_s": 1.0}
    async with (
        run.shell.client(trace=trace) as client,
        client.push_consumer(run.topic, handle, group=name, filter=chosen, **options),
    ):
        run.shell.say("Consumer Started.")
        await run.until_stopped(asyncio.ensure_future(enough.wait()), lambda: [counts])
    run.print_total(counts)


class BenchmarkFailure(Exception):
    """The share that -r wants."""


def _filter(filter_type: str | None, expression: str | None) -> Any:
    from pathlib import Path

    from ...client.subscription import everything, sql, tag

    if filter_type is None and expression is None:
        return everything()
    if filter_type is None or expression is None:
        raise click.UsageError("-f and -e go together: a kind of filter, and the file with it")
    text = Path(expression).read_text("utf-8").strip()
    return sql(text) if filter_type == "SQL92" else tag(*(one.strip() for one in text.split("||")))
