"""`pyromq pub` and `req`: messages and requests from the command line. One result line per message."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ... import admin
from ...client.connect.answers import bad_order
from ...client.errors import NoBroker, Refused, TimedOut, TopicNotFound
from ...model.foreign_text import shell_word
from ...model.names import topic_fault
from ..terminal.exits import NO_REPLY, REFUSED
from ..terminal.interrupts import interruptible, typed_lines
from ..terminal.options import LONGEST_S, Number, Time, seconds
from ..terminal.printing import print_as_it_is, print_lines, to_json
from ..terminal.shell import Shell, talks
from ..terminal.tree import Fail, command

if TYPE_CHECKING:
    from ...client.produce.sending import SendResult


def _dict(ctx: click.Context, option: click.Parameter, props: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for prop in props:
        name, _, value = prop.partition("=")
        if not name.strip() or not value.strip():
            raise click.UsageError(f"--prop {prop!r}: write it as NAME=VALUE, with something on both sides")
        found[name] = value
    return found


KEYS = click.option("--key", "keys", multiple=True, help="Key to find it by; may be given several times.")
PROPS = click.option(
    "--prop", "props", multiple=True, metavar="NAME=VALUE", callback=_dict, help="Property; may be given several times."
)


@command(
    "pyromq pub orders hello --tag created --key order-1",
    "pyromq pub orders @order.json --prop region=eu --delay 60",
    "pyromq pub reminders lunch --at 2026-11-16T12:00:00",
    "cat lines.txt | pyromq pub orders - --lines",
)
@click.argument("topic")
@click.argument("body", default="-")
@click.option("--tag", help="Tag of the message.")
@KEYS
@PROPS
@click.option("--order-key", help="Messages with one key keep their order.")
@click.option("--delay", type=seconds(or_none=True), help="Seconds until it is delivered.")
@click.option(
    "--delay-level", type=click.IntRange(min=1), metavar="N", help="Delivered after level N of messageDelayLevel."
)
@click.option("--at", "due_ms", type=Time(), metavar="TIME", help="Delivered at: ms since 1970 or 2026-11-16T12:00:00.")
@click.option("--lines", is_flag=True, help="Every line of BODY is a message.")
@click.option("--count", type=click.IntRange(min=1), default=1, show_default=True, help="Send it so many times.")
@click.option("--rate", type=Number(min=1 / LONGEST_S, max=1e9), help="At most so many a second.")
@talks
async def pub(
    shell: Shell, topic: str, body: str, lines: bool, count: int, rate: float | None, due_ms: int | None, **given: Any
) -> None:
    """Send BODY to TOPIC: a text, @FILE, or - for standard input."""
    from ...client.produce.producer import Producer

    _check_name(topic)
    ways = {"--delay": given["delay"], "--delay-level": given["delay_level"], "--at": due_ms}
    if len(named := [name for name, value in ways.items() if value is not None]) > 1:
        raise click.UsageError(f"{' and '.join(named)} are {len(named)} ways: give one of them")
    shell.session.start()
    async with Producer(shell.session) as producer:
        await _check(shell, topic)
        for content in _bodies(body, lines, count):
            is_timed = due_ms is not None and due_ms > shell.session.clock.now_ms()
            is_parked = is_timed or bool(given["delay"] or given["delay_level"])
            result = await producer.send(topic, content, timeout=shell.calls.timeout_s, deliver_at_ms=due_ms, **given)
            print_lines(to_json(_facts(result)) if shell.as_json else _line(result, is_parked=is_parked))
            if rate is not None:
                await shell.session.clock.sleep(1 / rate)


@command("pyromq req prices '{\"item\": 7}'", "pyromq req prices @question.json --timeout 10 --json")
@click.argument("topic")
@click.argument("body", default="-")
@click.option("--tag", help="Tag of the request.")
@KEYS
@PROPS
@click.option("--wait", type=seconds(), metavar="SECONDS", help="For the reply.  [default: --timeout]")
@talks
async def req(
    shell: Shell,
    topic: str,
    body: str,
    tag: str | None,
    keys: tuple[str, ...],
    props: dict[str, str],
    wait: float | None,
) -> None:
    """Send BODY to TOPIC (a text, @FILE, or - for standard input) and show what a consumer replies.

    Exit code 3 if nobody replies within --timeout.
    """
    _check_name(topic)
    (content,) = _bodies(body, lines=False, count=1)
    async with shell.client() as client, client.producer() as producer:
        timeout = wait or shell.calls.timeout_s or 3.0
        try:
            reply = await producer.request(topic, content, tag=tag, keys=keys, props=props, timeout=timeout)
        except TimedOut as fault:
            raise Fail(f"{fault} A consumer may still handle the request", NO_REPLY) from None
    text = reply.body.decode("utf-8", "backslashreplace")
    if shell.as_json:
        shell.rows([{"topic": topic, "reply": text, "properties": reply.properties}])
    else:
        print_as_it_is(text)


async def _check(shell: Shell, topic: str) -> None:
    """Fail at once where waiting does not help: no broker, or no queue that may be written."""
    try:
        route = await shell.session.route(topic)
    except TopicNotFound:
        try:
            brokers = await admin.cluster.brokers(shell.calls)
        except Refused:  # who may send to a topic need not see the cluster
            return
        if not brokers:
            hint = "Start one: pyromq broker -n NAMESRV, or pyromq up, which is both"
            raise NoBroker("no broker is registered with the name server", hint=hint) from None
        return  # the first send may make it
    if route.write_fault:
        raise bad_order(route)
    masters = [name for name in route.addresses if route.master(name) is not None]
    if masters and not route.writable:
        cure = (
            f"Let it be written: pyromq topic perm {topic} rw, or pyromq broker drain {shell_word(masters[0])} --undo"
        )
        raise Fail(f"topic {topic!r} has no queue that may be written. {cure}", REFUSED)


def _check_name(topic: str) -> None:
    if (fault := topic_fault(topic)) is not None:
        raise click.UsageError(fault)


def _bodies(body: str, lines: bool, count: int) -> Iterator[bytes]:
    for _ in range(count):
        content: Iterable[bytes]
        if body == "-" and sys.stdin.isatty():
            content = _typed(lines)
        elif body == "-":
            content = typed_lines(sys.stdin.buffer) if lines else [b"".join(typed_lines(sys.stdin.buffer))]
        elif body.startswith("@"):
            content = [Path(body[1:]).read_bytes()]
        else:
            content = [body.encode()]
        if not lines:
            yield from content
        else:
            yield from (line for part in content for line in part.splitlines() if line)


def _typed(lines: bool) -> Iterator[bytes]:
    """Yield what is typed at a terminal: each line, or all of them as one."""
    what = (
        "Each line is a message, Ctrl-D or Ctrl-C ends it."
        if lines
        else "Type the message. Ctrl-D sends it, Ctrl-C does not."
    )
    prompt, typed = f"{what} (A text or @FILE behind the topic is sent at once.)", list[bytes]()
    try:
        while line := _typed_line("" if typed else prompt):
            typed.append(line)
            if lines:
                yield line
    except KeyboardInterrupt:
        if not lines:
            raise Fail("nothing was sent") from None
        return
    if not lines and typed:
        yield b"".join(typed).removesuffix(b"\n")
    if not typed:
        raise Fail("nothing was typed, nothing was sent")


def _typed_line(prompt: str) -> bytes:
    """Return a line."""
    with interruptible():
        if prompt:
            print_lines(prompt, err=True)
        return sys.stdin.buffer.readline()


def _facts(result: SendResult) -> dict[str, Any]:
    return {
        "messageId": result.message_id,
        "offsetMessageId": result.offset_message_id,
        "broker": result.queue.broker_name,
        "queue": result.queue.queue_id,
        "offset": result.queue_offset,
        "status": result.status.name,
    } | ({"recallHandle": result.recall_handle} if result.recall_handle else {})


def _line(result: SendResult, *, is_parked: bool) -> str:
    where = f"{result.queue.broker_name} queue {result.queue.queue_id} offset {result.queue_offset}"
    if is_parked:  # its offset is one among those that wait
        where = f"{result.queue.broker_name} waits until it is due"
    return f"{result.message_id}  {where}" + ("" if result.status.name == "OK" else f"  {result.status.name}")
