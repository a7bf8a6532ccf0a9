"""One attempt at a message, or at a batch of them: the handler is called, and each message gets its outcome.

Push consumers hand messages to an `Attempt`: a `HandlerRunner`, or what stands around it (traces, middleware). It never
raises, apart from being cancelled. What follows from an outcome is decided by the consume service.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from ... import logs
from ...ambient import Clock
from ...protocol.messages import UnreadableMessage
from ...transport.turns.timeouts import Timeouts
from ..consume.options import PushWay
from ..core.retry import Reject
from ..received import Received
from . import places
from .handlers import AdaptedHandler, Outcomes, Work, fault_of

log = logs.get("pyromq.client")

SLOW_S = 60.0

T = TypeVar("T")
Attempt = Callable[[Sequence[Received]], Awaitable[Outcomes]]


@dataclass(slots=True, eq=False, repr=False)
class Deadline:
    """Cancels the block once its time is over (TimeoutError); `renew` lets the time begin anew.

    As `asyncio.timeout`, which cannot be handed a clock, and with less around it: many messages pass here.
    """

    timeouts: Timeouts[Deadline]
    limit_s: float | None
    left_s: float | None  # of the limit, now
    _task: asyncio.Task[Any] | None = None
    _before: int = 0  # cancellations that were asked for already
    _is_late: bool = False

    def renew(self, seconds: float | None = None) -> None:
        """Let `seconds` count from now on, or the whole limit once more. Without a limit nothing happens."""
        if self.limit_s is not None and not self._is_late:
            self.timeouts.begin(self, self.limit_s if seconds is None else seconds)

    def late(self) -> None:
        self._is_late = True
        if self._task is not None:
            self._task.cancel()

    def __enter__(self) -> Self:
        if self.left_s is not None:
            self._task = asyncio.current_task()
            self._before = 0 if self._task is None else self._task.cancelling()
            self.timeouts.begin(self, self.left_s)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.limit_s = None  # a handler may have given the message away: no renewal after the end
        self.timeouts.end(self)
        if self._is_late and self._task is not None:
            only_ours = self._task.uncancel() <= self._before
            if kind is None:
                raise TimeoutError("the handler took longer than its time-out, and returned although it was cancelled")
            if only_ours and issubclass(kind, asyncio.CancelledError):
                more = f": {fault}" if fault is not None and fault.args else ""
                raise TimeoutError(f"the handler took longer than its time-out{more}") from fault


@dataclass(slots=True, eq=False, repr=False)
class StartedCoroutine(Generic[T]):
    """The rest of a coroutine that was started already, to be awaited in the same task."""

    coroutine: Coroutine[Any, Any, T]
    waits_for: Any  # the future that its first step waits for

    def __await__(self) -> Generator[Any, Any, T]:
        coroutine, waits_for = self.coroutine, self.waits_for
        while True:
            try:
                yield waits_for
            except GeneratorExit:
                coroutine.close()
                raise
            except BaseException as fault:  # cancelled, for instance: the handler may go on all the same
                try:
                    waits_for = coroutine.throw(fault)
                except StopIteration as end:
                    found: T = end.value
                    return found
            else:
                return (yield from coroutine.__await__())


@dataclass(slots=True, eq=False)
class _Waiting:
    """An attempt whose handler waits for something, or works in a thread."""

    messages: Sequence[Received]
    work: StartedCoroutine[Any]
    task: asyncio.Task[Any] | None
    began: float
    pause_s: float  # until the log names it


class HandlerRunner:
    """Calls the handler. Its first step is made at once: one that waits for nothing needs no time-out.

    One that waits for longer than `slow_s` is named in the log with the line where it stands, again each time that the
    time has doubled: what is behind its message is not committed before it ends.
    """

    def __init__(self, handling: AdaptedHandler, clock: Clock, timeout_s: float | None, slow_s: float = SLOW_S) -> None:
        self._work: Work = handling.run
        self._name = handling.name
        self._threads = handling.threads
        self._slow_s = slow_s
        self._waiting: Timeouts[_Waiting] = Timeouts(clock, self._log_slow)
        self._is_batch = handling.is_batch
        self._clock = clock
        self._timeouts: Timeouts[Deadline] = Timeouts(clock, Deadline.late)
        self.timeout_s = timeout_s
        self.done = 0
        self.failed = 0

    async def __call__(self, messages: Sequence[Received]) -> Outcomes:
        """Return for each message what went wrong with it, None if it is done."""
        if self._threads is not None:
            await self._threads.free(self._clock)
        began = self._clock.monotonic()
        outcomes: Outcomes
        work: Coroutine[Any, Any, Any] | None = None
        try:
            work = self._work(messages)
            waits_for = work.send(None)
        except StopIteration as end:
            if work is None:  # a model raised it, which failed to decode the body
                outcomes = [end] * len(messages)
            else:
                outcomes = [None] if end.value is None else self._outcomes(end.value)
        except (Exception, asyncio.CancelledError) as fault:
            outcomes = [failure(fault)] * len(messages)
        else:
            outcomes = await self._rest(messages, StartedCoroutine(work, waits_for), began)
        good = outcomes.count(None)
        self.done += good
        self.failed += len(messages) - good
        return outcomes

    async def _rest(self, messages: Sequence[Received], work: StartedCoroutine[Any], began: float) -> Outcomes:
        limit_s = self.timeout_s
        if limit_s is not None:
            wanted = [each.wanted_s for each in messages if each.wanted_s is not None]
            limit_s = max(wanted) if wanted else max(0.0, limit_s + began - self._clock.monotonic())
        waiting = _Waiting(messages, work, asyncio.current_task(), began, self._slow_s)
        self._waiting.begin(waiting, self._slow_s)
        try:
            with Deadline(self._timeouts, self.timeout_s, limit_s) as deadline:
                renew = deadline.renew if self._threads is None else _from_thread(deadline)
                for each in messages:
                    each.deadline = renew
                return self._outcomes(await work)
        except (Exception, asyncio.CancelledError) as fault:
            return [failure(fault)] * len(messages)
        finally:
            self._waiting.end(waiting)
            for each in messages:  # it may be handled once more
                each.deadline = each.wanted_s = None

    def _outcomes(self, returned: Any) -> Outcomes:
        return returned if self._is_batch else [fault_of(returned)]

    def _log_slow(self, waiting: _Waiting) -> None:
        first = waiting.messages[0]
        place = "" if self._threads is None else self._threads.place_of(waiting.task)
        so = "" if first.is_alone else ", and nothing behind its message is committed"
        log.warning(
            f"a handler is still busy{so}",
            handler=self._name,
            group=first.group,
            queue=str(first.queue),
            offset=first.offset,
            id=first.id,
            attempt=first.attempt,
            messages=len(waiting.messages),
            busy_s=round(self._clock.monotonic() - waiting.began),
            at=place or places.of_coroutine(waiting.work.coroutine),
        )
        waiting.pause_s *= 2
        self._waiting.begin(waiting, waiting.pause_s)


def failure(fault: Exception | asyncio.CancelledError) -> Exception:
    """Return what counts as a message's outcome. CancelledError, if it is this task that is to end.

    Else something was cancelled that the handler waits for: its message fails, and the consumer goes on.
    """
    if isinstance(fault, Exception):
        return _printable(fault)
    task = asyncio.current_task()
    if task is None or task.cancelling():
        raise fault
    return RuntimeError("what the handler waits for was cancelled").with_traceback(fault.__traceback__)


def _printable(fault: Exception) -> Exception:
    """Return the fault; in place of one whose own text raises, which would kill the consumer, another one."""
    try:
        str(fault), repr(fault)
    except Exception as broken:
        text = f"the handler raised {type(fault).__name__}, whose text cannot be made ({type(broken).__name__})"
        return RuntimeError(text).with_traceback(fault.__traceback__)
    return fault


def _from_thread(deadline: Deadline) -> Callable[[float | None], None]:
    """Return `renew` for a handler in a thread: the timers are the loop's."""
    loop = asyncio.get_running_loop()

    def renew(seconds: float | None) -> None:
        loop.call_soon_threadsafe(deadline.renew, seconds)

    return renew


def before_handlers(attempt: Attempt, way: PushWay) -> Attempt:
    """Keep unreadable messages from the handler: they are rejected, or done with where they are to be skipped."""

    def outcome(message: UnreadableMessage) -> Exception | None:
        """Return the message's outcome. One whose frame is broken has no position by which a broker could find it."""
        return None if way == "skip" or message.physical_offset < 0 else Reject(message.fault)

    async def mixed(received: Sequence[Received]) -> Outcomes:
        readable = [each for each in received if not isinstance(each.message, UnreadableMessage)]
        outcomes = iter(await attempt(readable) if readable else ())
        return [
            outcome(each.message) if isinstance(each.message, UnreadableMessage) else next(outcomes)
            for each in received
        ]

    def checked(received: Sequence[Received]) -> Awaitable[Outcomes]:
        if len(received) == 1:  # nearly always
            is_odd = isinstance(received[0].message, UnreadableMessage)
        else:
            is_odd = any(isinstance(each.message, UnreadableMessage) for each in received)
        return mixed(received) if is_odd else attempt(received)

    return checked
