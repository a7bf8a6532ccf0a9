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
from ..terminal.printing import print_text
from ..terminal.shell import Shell, talks
from ..terminal.tree import Tree, command
from .counts import MessagesConsumed, MessagesSent
from .kinds import batch, transaction
from .shared import (
    BenchMessage,
    conclude,
    count_option,
    interval_option,
    java_truth,
    now_in_words,
    quantity_option,
    run_senders,
    topic_option,
    trace_option,
    until_stopped,
)
from .timer import timer

GROUP = "benchmark_consumer"


@click.group(cls=Tree)
def bench() -> None:
    """Measure, with the flags and columns of Apache's benchmark."""


bench.add_command(batch)
bench.add_command(transaction)
bench.add_command(timer)


@command("pyromq bench producer -w 64 -s 1024 -q 100000", "pyromq bench producer -t orders -y true -ri 1000", of=bench)
@topic_option
@count_option("-w", "--thread-count", "threads", default=64, text="Senders at a time.")
@count_option("-s", "--message-size", "size", default=128, text="Bytes of each body.")
@click.option("-k", "--key-enable", "keys", type=bool, default=False, help="Give each message a key.")
@click.option("-p", "--property-size", type=click.IntRange(min=0), default=0, help="Bytes of properties.")
@click.option("-l", "--tag-count", "tags", type=click.IntRange(min=0), default=0, help="So many different tags.")
@quantity_option
@click.option("-d", "--delay-enable", "delays", type=bool, default=False, help="Send delayed messages.")
@click.option("-e", "--delay-level", type=click.IntRange(1, 18), default=1, help="Of delayed messages.")
@click.option(
    "-y", "--async-enable", "is_async", type=bool, default=False, help="Many in flight, as Java's async send."
)
@click.option("-c", "--compress-enable", "compress", type=bool, default=False, help="Compress large bodies.")
@click.option("-ch", "--compress-over-how-much", "over", type=click.IntRange(min=0), default=4096, help="Bytes.")
@trace_option
@interval_option
@talks
async def producer(shell: Shell, topic: str, quantity: int, report_interval: int, trace: bool, **how: Any) -> None:
    """Send until Ctrl-C, or -q messages; one line each interval, and one at the end."""
    from ...client.produce.outgoing import Packing

    packing = Packing(compress_over_bytes=how["over"]) if how["compress"] else Packing(compression=None)
    clock = shell.session.clock
    counts = MessagesSent(clock.monotonic())
    senders = ASYNC_IN_FLIGHT if how["is_async"] else how["threads"]
    shell.say(
        f"topic: {topic}, threadCount: {1 if how['is_async'] else how['threads']}, messageSize: {how['size']}, "
        f"keyEnable: {java_truth(how['keys'])}, propertySize: {how['property_size']}, tagCount: {how['tags']}, "
        f"messageQuantity: {quantity}, delayEnable: {java_truth(how['delays'])}, delayLevel: {how['delay_level']}, "
        f"asyncEnable: {java_truth(how['is_async'])}, compressEnable: {java_truth(how['compress'])}, "
        f"reportInterval: {report_interval}"
    )
    message = BenchMessage(how)
    async with shell.client(trace=trace) as client, client.producer("benchmark_producer", packing=packing) as sender:
        await run_senders(
            shell,
            counts,
            senders,
            lambda: sender.send(topic, message.body, **message.arguments(clock.now_ms())),
            quantity,
            report_interval,
        )
    conclude(shell, counts)


ASYNC_IN_FLIGHT = 1000


@command("pyromq bench consumer -w 20", "pyromq bench consumer -t orders -f TAG -e tags.txt -q 100000", of=bench)
@topic_option
@count_option("-w", "--thread-count", "threads", default=20, text="Handlers at a time.")
@click.option("-g", "--group", default=GROUP, show_default=True, help="Consumer group.")
@click.option("-p", "--group-prefix-enable", "suffix", type=bool, default=False, help="Put a number behind the group.")
@click.option("-f", "--filter-type", type=click.Choice(["TAG", "SQL92"]), help="With -e.")
@click.option("-e", "--expression", type=click.Path(exists=True, dir_okay=False), help="File with the filter.")
@click.option("-r", "--fail-rate", type=Number(0, 1), default=0.0, help="Share that the handler fails.")
@quantity_option
@trace_option
@interval_option
@talks
async def consumer(
    shell: Shell,
    topic: str,
    threads: int,
    group: str,
    suffix: bool,
    filter_type: str | None,
    expression: str | None,
    fail_rate: float,
    quantity: int,
    trace: bool,
    report_interval: int,
) -> None:
    """Consume until Ctrl-C, or -q messages; one line each interval.

    B2C is the time from a message's birth to its handler, S2C from its storing.
    """
    session = shell.session
    clock, rng = session.clock, session.rng
    name = f"{group}_{clock.now_ms() % 100}" if suffix else group
    wanted = _filter(filter_type, expression)
    shell.say(
        f"topic: {topic}, threadCount {threads}, group: {name}, suffix: {java_truth(suffix)}, filterType: "
        f"{filter_type or 'null'}, expression: {expression or 'null'}, reportInterval: {report_interval}"
    )
    await shell.session.name_servers.topics()  # a consumer would wait for a name server for ever
    counts, enough = MessagesConsumed(clock.monotonic()), asyncio.Event()

    async def handle(msg: Received) -> None:
        now = clock.now_ms()
        counts.got(now - msg.born_ms, now - msg.stored_ms)
        if quantity and counts.count >= quantity:
            enough.set()
        if fail_rate and rng.random() < fail_rate:
            counts.failed += 1
            raise BenchmarkFailure("failed on purpose (-r)")

    options: dict[str, Any] = {"concurrency": threads, "begin": ConsumeFromWhere.FIRST_OFFSET, "grace_s": 1.0}
    async with (
        shell.client(trace=trace) as client,
        client.push_consumer(topic, handle, group=name, filter=wanted, **options),
    ):
        shell.say("Consumer Started.")
        work = asyncio.ensure_future(enough.wait())
        await until_stopped(
            shell, work, report_interval, lambda: counts.line(clock.monotonic(), now_in_words(clock), shell.as_json)
        )
    if shell.as_json:
        shell.rows([counts.total(clock.monotonic())])
    else:
        print_text(counts.complete(clock.monotonic()))


class BenchmarkFailure(Exception):
    """The share that -r wants."""


def _filter(kind: str | None, file: str | None) -> Any:
    from pathlib import Path

    from ...client.subscription import everything, sql, tag

    if kind is None and file is None:
        return everything()
    if kind is None or file is None:
        raise click.UsageError("-f and -e go together: a kind of filter, and the file with it")
    text = Path(file).read_text("utf-8").strip()
    return sql(text) if kind == "SQL92" else tag(*(one.strip() for one in text.split("||")))
