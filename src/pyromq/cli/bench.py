"""`pyromq bench`: how many messages a second, with the flags and the columns of Apache's own benchmark.

Its figures stand beside Java's: the same meaning of each flag, the same line each interval. A thread there is a
coroutine here. What is counted is in bench_counts.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from ..client.received import Received  # at the top: the SDK reads the types of handlers
from .bench_counts import Consumed, Sent
from .exits import NO, NO_ANSWER
from .numbers import Number
from .shell import Shell, talks
from .tables import moment
from .tree import Fail, Tree, examples

if TYPE_CHECKING:
    from ..ambient import Clock
    from ..client.producer import Producer

TOPIC = "BenchmarkTest"
GROUP = "benchmark_consumer"


@click.group(cls=Tree)
def bench() -> None:
    """Measure, with the flags and columns of Apache's benchmark."""


_topic = click.option("-t", "--topic", default=TOPIC, show_default=True, help="Topic name.")
_interval = click.option(
    "-ri", "--report-interval", type=click.IntRange(min=1), default=10_000, show_default=True, help="ms between lines."
)
_trace = click.option("-m", "--msg-trace-enable", "trace", type=bool, default=False, help="Write traces.")


@bench.command(
    epilog=examples("pyromq bench producer -w 64 -s 1024 -q 100000", "pyromq bench producer -t orders -y true -ri 1000")
)
@_topic
@click.option(
    "-w",
    "--thread-count",
    "threads",
    type=click.IntRange(min=1),
    default=64,
    show_default=True,
    help="Senders at a time.",
)
@click.option(
    "-s",
    "--message-size",
    "size",
    type=click.IntRange(min=1),
    default=128,
    show_default=True,
    help="Bytes of each body.",
)
@click.option("-k", "--key-enable", "keys", type=bool, default=False, help="Give each message a key.")
@click.option("-p", "--property-size", type=click.IntRange(min=0), default=0, help="Bytes of properties.")
@click.option("-l", "--tag-count", "tags", type=click.IntRange(min=0), default=0, help="So many different tags.")
@click.option("-q", "--message-quantity", "quantity", type=click.IntRange(min=0), default=0, help="0: until Ctrl-C.")
@click.option("-d", "--delay-enable", "delays", type=bool, default=False, help="Send delayed messages.")
@click.option("-e", "--delay-level", type=click.IntRange(1, 18), default=1, help="Of delayed messages.")
@click.option(
    "-y", "--async-enable", "is_async", type=bool, default=False, help="Many in flight, as Java's async send."
)
@click.option("-c", "--compress-enable", "compress", type=bool, default=False, help="Compress large bodies.")
@click.option("-ch", "--compress-over-how-much", "over", type=click.IntRange(min=0), default=4096, help="Bytes.")
@_trace
@_interval
@talks
async def producer(shell: Shell, topic: str, quantity: int, report_interval: int, trace: bool, **how: Any) -> None:
    """Send until Ctrl-C, or -q messages; one line each interval, and one at the end."""
    from ..client.outgoing import Packing

    packing = Packing(compress_over_bytes=how["over"]) if how["compress"] else Packing(compression=None)
    clock = shell.session.clock
    counts, left = Sent(clock.monotonic()), [quantity]
    senders = ASYNC_IN_FLIGHT if how["is_async"] else how["threads"]
    shell.say(
        f"topic: {topic}, threadCount: {1 if how['is_async'] else how['threads']}, messageSize: {how['size']}, "
        f"keyEnable: {_java(how['keys'])}, propertySize: {how['property_size']}, tagCount: {how['tags']}, "
        f"messageQuantity: {quantity}, delayEnable: {_java(how['delays'])}, delayLevel: {how['delay_level']}, "
        f"asyncEnable: {_java(how['is_async'])}, compressEnable: {_java(how['compress'])}, "
        f"reportInterval: {report_interval}"
    )
    message = Message(how)
    async with shell.client(trace=trace) as client, client.producer("benchmark_producer", packing=packing) as sender:
        work = asyncio.gather(
            *(_send(sender, topic, message, counts, left, bool(quantity), clock) for _ in range(senders))
        )
        await _until_stopped(
            shell, work, report_interval, lambda: counts.line(clock.monotonic(), _now(clock), shell.as_json)
        )
    if shell.as_json:
        shell.rows([counts.total(clock.monotonic())])
    else:
        click.echo(counts.complete(clock.monotonic()))
    if counts.last_fault:
        fault = f"{counts.failed + counts.response_failed} sends failed, the last one: {counts.last_fault}"
        raise Fail(fault, NO if counts.count else NO_ANSWER)


ASYNC_IN_FLIGHT = 1000


class Message:
    """What each send carries, made once where it can be."""

    def __init__(self, how: dict[str, Any]) -> None:
        self.body = (b"0123456789abcdefghijklmnopqrstuvwxyz" * (how["size"] // 36 + 1))[: how["size"]]
        self._keys, self._tags = how["keys"], how["tags"]
        self._props = _properties(how["property_size"])
        self._level = how["delay_level"] if how["delays"] else None

    def arguments(self, now_ms: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self._keys:
            found["keys"] = [str(now_ms // 1000)]
        if self._tags:
            found["tag"] = f"tag{now_ms % self._tags}"
        if self._props:
            found["props"] = self._props
        if self._level is not None:
            found["delay"] = LEVEL_SECONDS[self._level - 1]
        return found


LEVEL_SECONDS = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)


def _properties(size: int) -> dict[str, str]:
    found: dict[str, str] = {}
    length = number = 0
    while length < size:
        pair = f"prop{number}", f"hello{number}"
        found[pair[0]] = pair[1]
        length += len(pair[0]) + len(pair[1])
        number += 1
    return found


async def _send(
    producer: Producer, topic: str, message: Message, counts: Sent, left: list[int], is_bounded: bool, clock: Clock
) -> None:
    """One sender: the next message when the last one is answered."""
    from ..client.errors import Error, Refused

    while not is_bounded or left[0] > 0:
        left[0] -= 1
        began = clock.monotonic()
        try:
            await producer.send(topic, message.body, **message.arguments(clock.now_ms()))
        except Error as fault:
            counts.last_fault = str(fault)
            if isinstance(fault, Refused):
                counts.response_failed += 1
            else:
                counts.failed += 1
            if not is_bounded or left[0] > 0:
                await clock.sleep(FAILED_PAUSE_S)
        else:
            counts.sent((clock.monotonic() - began) * 1000)


FAILED_PAUSE_S = 3.0


@bench.command(
    epilog=examples("pyromq bench consumer -w 20", "pyromq bench consumer -t orders -f TAG -e tags.txt -q 100000")
)
@_topic
@click.option(
    "-w",
    "--thread-count",
    "threads",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="Handlers at a time.",
)
@click.option("-g", "--group", default=GROUP, show_default=True, help="Consumer group.")
@click.option("-p", "--group-prefix-enable", "suffix", type=bool, default=False, help="Put a number behind the group.")
@click.option("-f", "--filter-type", type=click.Choice(["TAG", "SQL92"]), help="With -e.")
@click.option("-e", "--expression", type=click.Path(exists=True, dir_okay=False), help="File with the filter.")
@click.option("-r", "--fail-rate", type=Number(0, 1), default=0.0, help="Share that the handler fails.")
@click.option("-q", "--message-quantity", "quantity", type=click.IntRange(min=0), default=0, help="0: until Ctrl-C.")
@_trace
@_interval
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
    from ..model.group import ConsumeFromWhere

    session = shell.session
    clock, rng = session.clock, session.rng
    name = f"{group}_{clock.now_ms() % 100}" if suffix else group
    wanted = _filter(filter_type, expression)
    shell.say(
        f"topic: {topic}, threadCount {threads}, group: {name}, suffix: {_java(suffix)}, filterType: "
        f"{filter_type or 'null'}, expression: {expression or 'null'}, reportInterval: {report_interval}"
    )
    await shell.session.name_servers.topics()  # a consumer would wait for a name server for ever
    counts, enough = Consumed(clock.monotonic()), asyncio.Event()

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
        await _until_stopped(
            shell, work, report_interval, lambda: counts.line(clock.monotonic(), _now(clock), shell.as_json)
        )
    if shell.as_json:
        shell.rows([counts.total(clock.monotonic())])
    else:
        click.echo(counts.complete(clock.monotonic()))


class BenchmarkFailure(Exception):
    """The share that -r wants."""


def _filter(kind: str | None, file: str | None) -> Any:
    from pathlib import Path

    from ..client.subscription import everything, sql, tag

    if kind is None and file is None:
        return everything()
    if kind is None or file is None:
        raise click.UsageError("-f and -e go together: a kind of filter, and the file with it")
    text = Path(file).read_text("utf-8").strip()
    return sql(text) if kind == "SQL92" else tag(*(one.strip() for one in text.split("||")))


async def _until_stopped(shell: Shell, work: asyncio.Future[Any], interval_ms: int, line: Callable[[], str]) -> None:
    """A line each interval until the work is done or Ctrl-C."""
    from .stopping import stop_on_signals

    clock, stop = shell.session.clock, asyncio.ensure_future(stop_on_signals().wait())
    try:
        while not work.done() and not stop.done():
            try:
                async with clock.timeout(interval_ms / 1000):
                    await asyncio.wait((work, stop), return_when=asyncio.FIRST_COMPLETED)
            except TimeoutError:
                click.echo(line())
        if work.done():
            work.result()
    finally:
        for one in (work, stop):
            one.cancel()
        await asyncio.gather(work, stop, return_exceptions=True)


def _now(clock: Clock) -> str:
    """As Java's benchmark writes it."""
    return moment(clock.now_ms()).replace(".", ",")


def _java(value: bool) -> str:
    return str(value).lower()
