"""What the commands of `pyromq bench` share: options, what is sent, a loop that sends, lines until the end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ...client.errors import Error, Refused
from ..terminal.exits import NO, NO_ANSWER
from ..terminal.printing import print_text
from ..terminal.shell import Shell
from ..terminal.tables import moment
from ..terminal.tree import Fail

if TYPE_CHECKING:
    from ...ambient import Clock
    from .counts import MessagesSent

F = TypeVar("F", bound=Callable[..., Any])
TOPIC = "BenchmarkTest"
FAILED_PAUSE_S = 3.0


def count_option(*names: str, default: int, text: str) -> Callable[[F], F]:
    """Return an option that is a number from 1 on."""
    return click.option(*names, type=click.IntRange(min=1), default=default, show_default=True, help=text)


topic_option = click.option("-t", "--topic", default=TOPIC, show_default=True, help="Topic name.")
interval_option = click.option(
    "-ri", "--report-interval", type=click.IntRange(min=1), default=10_000, show_default=True, help="ms between lines."
)
trace_option = click.option("-m", "--msg-trace-enable", "trace", type=bool, default=False, help="Write traces.")
quantity_option = click.option(
    "-q", "--message-quantity", "quantity", type=click.IntRange(min=0), default=0, help="0: until Ctrl-C."
)


class BenchMessage:
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


async def send_loop(
    send: Callable[[], Awaitable[object]],
    counts: MessagesSent,
    left: list[int],
    is_bounded: bool,
    clock: Clock,
    step: int = 1,
) -> None:
    """Send the next message, or the next `step` of them, when the last one is answered, until none is left."""
    while not is_bounded or left[0] > 0:
        left[0] -= step
        began = clock.monotonic()
        try:
            await send()
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


async def run_senders(
    shell: Shell,
    counts: MessagesSent,
    senders: int,
    send: Callable[[], Awaitable[object]],
    quantity: int,
    ri: int,
    step: int = 1,
) -> None:
    """Send with all senders at once, and print a line each interval (`ri`, ms)."""
    clock, left = shell.session.clock, [quantity]
    work = asyncio.gather(*(send_loop(send, counts, left, bool(quantity), clock, step) for _ in range(senders)))
    await until_stopped(shell, work, ri, lambda: counts.line(clock.monotonic(), now_in_words(clock), shell.as_json))


def conclude(shell: Shell, counts: MessagesSent) -> None:
    """Print the last line. Fail if a send failed: the text says how many did, and why the last one."""
    now = shell.session.clock.monotonic()
    if shell.as_json:
        shell.rows([counts.total(now)])
    else:
        print_text(counts.complete(now))
    if counts.last_fault:
        fault = f"{counts.failed + counts.response_failed} sends failed, the last one: {counts.last_fault}"
        raise Fail(fault, NO if counts.count else NO_ANSWER)


async def until_stopped(shell: Shell, work: asyncio.Future[Any], interval_ms: int, line: Callable[[], str]) -> None:
    """Print a line each interval until the work is done or Ctrl-C."""
    from ..serve.stopping import stop_on_signals

    clock, stop = shell.session.clock, asyncio.ensure_future(stop_on_signals().wait())
    try:
        while not work.done() and not stop.done():
            try:
                async with clock.timeout(interval_ms / 1000):
                    await asyncio.wait((work, stop), return_when=asyncio.FIRST_COMPLETED)
            except TimeoutError:
                print_text(line())
        if work.done():
            work.result()
    finally:
        for one in (work, stop):
            one.cancel()
        await asyncio.gather(work, stop, return_exceptions=True)


def now_in_words(clock: Clock) -> str:
    """Return the time as Java's benchmark writes it."""
    return moment(clock.now_ms()).replace(".", ",")


def java_truth(value: bool) -> str:
    return str(value).lower()
