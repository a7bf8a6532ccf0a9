"""What the commands of `pyromq bench` share: options, what is sent, a loop that sends, lines until the end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ...client.errors import Error, Refused
from ...text.values import moment
from ..terminal.exits import NO, NO_ANSWER
from ..terminal.printing import print_text
from ..terminal.shell import Shell, talks
from ..terminal.tree import Fail

if TYPE_CHECKING:
    from ...ambient import Clock
    from .counts import MessagesConsumed, MessagesSent, TimersDelivered

    Counts = MessagesSent | MessagesConsumed | TimersDelivered

F = TypeVar("F", bound=Callable[..., Any])
Send = Callable[[], Awaitable[object]]
FAILED_PAUSE_S = 3.0


def count_option(*names: str, default: int, text: str, least: int = 1, is_shown: bool = False) -> Callable[[F], F]:
    """Return an option that is a number from `least` on; `is_shown`: its help ends with the default."""
    return click.option(*names, type=click.IntRange(min=least), default=default, show_default=is_shown, help=text)


topic_option = click.option("-t", "--topic", default="BenchmarkTest", show_default=True, help="Topic name.")
interval_option = count_option("-ri", "--report-interval", default=10_000, text="ms between lines.", is_shown=True)
trace_option = click.option("-m", "--msg-trace-enable", "trace", type=bool, default=False, help="Write traces.")
quantity_option = count_option("-q", "--message-quantity", "quantity", least=0, default=0, text="0: until Ctrl-C.")
properties_option = count_option("-p", "--property-size", least=0, default=0, text="Bytes of properties.")
tags_option = count_option("-l", "--tag-count", "tags", least=0, default=0, text="So many different tags.")


class BenchMessage:
    """What each send carries, made once where it can be."""

    def __init__(
        self, size: int, property_size: int = 0, tags: int = 0, *, keys: bool = False, delay_level: int | None = None
    ) -> None:
        self.body = (b"0123456789abcdefghijklmnopqrstuvwxyz" * (size // 36 + 1))[:size]
        self._props = _properties(property_size)
        self._tags, self._keys, self._delay_level = tags, keys, delay_level

    def arguments(self, now_ms: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self._keys:
            found["keys"] = [str(now_ms // 1000)]
        if self._tags:
            found["tag"] = f"tag{now_ms % self._tags}"
        if self._props:
            found["props"] = self._props
        if self._delay_level is not None:
            found["delay_level"] = self._delay_level
        return found


def _properties(size: int) -> dict[str, str]:
    found: dict[str, str] = {}
    while sum(len(name) + len(value) for name, value in found.items()) < size:
        found[f"prop{len(found)}"] = f"hello{len(found)}"
    return found


@dataclass(frozen=True, slots=True)
class BenchRun:
    """One run: its topic (-t), after how many messages it ends (-q; 0: never), the ms between its lines (-ri)."""

    shell: Shell
    topic: str
    quantity: int
    interval_ms: int

    @property
    def clock(self) -> Clock:
        return self.shell.session.clock

    async def send(self, counts: MessagesSent, senders: int, send: Send, step: int = 1) -> None:
        """Send with all senders at once, and print a line each interval."""
        work = asyncio.ensure_future(self.send_all(counts, senders, send, self.quantity, step))
        await self.until_stopped(work, lambda: [counts])

    async def send_all(self, counts: MessagesSent, senders: int, send: Send, quantity: int, step: int = 1) -> None:
        """Let each sender send the next message, or the next `step` of them, when its last one is answered.

        It ends when none of the quantity is left; 0 has no end.
        """
        left = quantity

        async def send_on() -> None:
            nonlocal left
            while not quantity or left > 0:
                left -= step
                began = self.clock.monotonic()
                try:
                    await send()
                except Error as fault:
                    counts.last_fault = str(fault)
                    counts.response_failed += isinstance(fault, Refused)
                    counts.failed += not isinstance(fault, Refused)
                    if not quantity or left > 0:
                        await self.clock.sleep(FAILED_PAUSE_S)
                else:
                    counts.sent((self.clock.monotonic() - began) * 1000)

        await asyncio.gather(*(send_on() for _ in range(senders)))

    async def until_stopped(self, work: asyncio.Future[Any], counts: Callable[[], Iterable[Counts]]) -> None:
        """Print a line of all counts each interval until the work is done or Ctrl-C."""
        from ..serve.stopping import stop_on_signals

        stop = asyncio.ensure_future(stop_on_signals().wait())
        try:
            while not work.done() and not stop.done():
                try:
                    async with self.clock.timeout(self.interval_ms / 1000):
                        await asyncio.wait((work, stop), return_when=asyncio.FIRST_COMPLETED)
                except TimeoutError:
                    now, at = self.clock.monotonic(), moment(self.clock.now_ms()).replace(".", ",")  # as Java writes it
                    print_text("\n".join(one.line(now, at, self.shell.as_json) for one in counts()))
            if work.done():
                work.result()
        finally:
            for one in (work, stop):
                one.cancel()
            await asyncio.gather(work, stop, return_exceptions=True)

    def print_total(self, counts: Counts) -> None:
        now = self.clock.monotonic()
        self.shell.rows([counts.total(now)]) if self.shell.as_json else print_text(counts.complete(now))

    def conclude(self, counts: MessagesSent) -> None:
        """Print the last line. Fail if a send failed: the text says how many did, and why the last one."""
        self.print_total(counts)
        if counts.last_fault:
            fault = f"{counts.failed + counts.response_failed} sends failed, the last one: {counts.last_fault}"
            raise Fail(fault, NO if counts.count else NO_ANSWER)


def measures(function: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Make a command of the coroutine function, as `talks` does: it gets a BenchRun first, then its own options."""

    async def run(shell: Shell, *, topic: str, quantity: int, report_interval: int, **own: Any) -> None:
        await function(BenchRun(shell, topic, quantity, report_interval), **own)

    return talks(update_wrapper(run, function))


def java_truth(value: bool) -> str:
    return str(value).lower()
