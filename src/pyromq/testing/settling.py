"""When all is settled: nothing in the loop is ready, no bytes are under way, no handler waits for the outside.

    settling = Settling(lambda: network.is_quiet, lambda: some_handler_runs, test_wait=Mailbox.handle.__code__)
    await settling.settled(patience_s=5)

What is left then waits for the manual clock or for the test, so time may go on. `broker.py` calls this after every
timer. Turns of the loop are not counted: work takes as many as it needs, and what never ends is named (`NotSettled`).
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import concurrent.futures.thread
import inspect
import os
import socket
import sys
from collections.abc import Callable, Collection, Iterator, Set
from types import CodeType, FrameType
from typing import Any

from ..ambient import SystemClock

BUSY_S = 20.0  # of real time, for a loop in which something is always ready
PASSES_PER_CHECK = 200  # passes between two looks at the real clock
BLIND_PASSES = 100  # of a loop that does not show what is ready
NAMED = 5

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_ASYNCIO = os.path.dirname(os.path.abspath(asyncio.__file__)) + os.sep


class NotSettled(AssertionError):
    """Time cannot go on: something is still under way, and does not come to its end."""


class Settling:
    """Event loop only. Several tasks may wait at once."""

    def __init__(self, is_quiet: Callable[[], bool], handlers_run: Callable[[], bool], test_wait: CodeType) -> None:
        """`handlers_run`: handlers are at work, apart from those that wait for the test in `test_wait`."""
        self._is_quiet = is_quiet
        self._handlers_run = handlers_run
        self._test_wait = test_wait
        self._clock = SystemClock()  # the real one: patience is not of the time that the test moves
        self._old_threads = busy_threads()  # this one, and those of others
        self._own_timers: list[object] = []  # of `over`
        self._passing = 0  # tasks that wait here for the end of a pass: they are always ready

    async def settled(self, patience_s: float | None) -> list[str]:
        """Return what is still under way after so many seconds of real time. None: handlers are not waited for."""
        until: float | None = None
        while True:
            await self._at_rest()
            # Cheap, since it is asked after each timer; `outside_waits` inspects every task.
            if patience_s is None or not self._handlers_run():
                return []
            waits = outside_waits(self._test_wait, self._old_threads, self._own_timers)
            if not waits:
                return []
            now = self._clock.monotonic()
            until = now + patience_s if until is None else until
            if now >= until:
                return waits
            await self._clock.sleep(0.001)

    async def over(self, task: asyncio.Task[Any], patience_s: float) -> bool:
        """Return whether the task ends within so many seconds of real time. Others may settle meanwhile, unaware."""
        woken = asyncio.Event()
        task.add_done_callback(lambda _: woken.set())
        timer = self._clock.call_later(patience_s, woken.set)
        self._own_timers.append(timer)
        try:
            await woken.wait()
        finally:
            timer.cancel()
            self._own_timers.remove(timer)
        return task.done()

    def handlers(self) -> str:
        return "; ".join(waiting_handlers(self._test_wait)) or "no handler: a request or the clock is waited for"

    async def _at_rest(self) -> None:
        """Run until a pass leaves nothing that is ready, and nothing is between two ends."""
        ready: Any = getattr(asyncio.get_running_loop(), "_ready", None)  # there is no public word for it
        began: float | None = None
        passes = idle = 0
        while True:
            self._passing += 1
            try:
                await self._clock.sleep(0)
            finally:
                self._passing -= 1
            passes += 1
            idle = 0 if ready is not None and len(ready) > self._passing else idle + 1
            if idle >= (1 if ready is not None else BLIND_PASSES) and self._is_quiet():
                return
            if passes % PASSES_PER_CHECK == 0:
                began = self._clock.monotonic() if began is None else began
                if self._clock.monotonic() - began > BUSY_S:
                    raise NotSettled(_busy(ready))


def _busy(ready: Any) -> str:
    names = sorted({repr(handle) for handle in tuple(ready or ())})
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    what = "; ".join(names[:NAMED]) or "bytes between two ends that are not taken"
    return (
        f"the loop did not come to rest within {BUSY_S:g} s of real time; always ready: {what}{more}. "
        "A task that polls (`sleep(0)` in a loop) must wait for something instead"
    )


# --- what the tasks of clients and broker wait for when nothing is ready: the clock and each other, or the outside ----
# Where asyncio has no public word for that, a loop without the names below (uvloop) is taken as one that the outside
# can wake: then the answer is "maybe", and costs a wait.


def outside_waits(test_wait: CodeType, old_threads: Set[int], own_timers: Collection[object] = ()) -> list[str]:
    """Return where handlers and threads of ours are that something outside may still end, one line each.

    `test_wait`: code in which a handler waits for the test, by intention. `old_threads` are of `busy_threads`, before.
    `own_timers` of the loop wake no handler.
    """
    leaves = [leaf for task, frames in _our_tasks(test_wait) for leaf in _leaves(task, frames)]
    can_wake = _outside_can_wake(old_threads, own_timers)
    return [
        f"a thread works for {_place(frame)}" if _is_in_thread(leaf) else _place(frame)
        for frame, leaf in leaves
        if _is_in_thread(leaf) or (can_wake and not _is_ours(frame.f_code))
    ]


def waiting_handlers(test_wait: CodeType) -> list[str]:
    """Return where handlers of users stand, whatever they wait for."""
    found: list[str] = []
    for _, frames in _our_tasks(test_wait):
        seen = [frame for frame in frames if not frame.f_code.co_filename.startswith(_ASYNCIO)]
        theirs = [frame for frame in seen if not _is_ours(frame.f_code)]
        if theirs:
            found.append(_place(theirs[-1]))
        elif _in_thread(seen[-1]) is not None:
            found.append(_place(seen[-1]))
    return found


def _our_tasks(test_wait: CodeType) -> Iterator[tuple[asyncio.Task[Any], list[FrameType]]]:
    for task in asyncio.all_tasks():
        frames = list(_frames(task.get_coro()))
        if frames and _is_ours(frames[0].f_code) and not any(frame.f_code is test_wait for frame in frames):
            yield task, frames


def busy_threads() -> set[int]:
    """Return all threads, this one too, except those of pools that wait for work."""
    idle = getattr(concurrent.futures.thread, "_worker", None)
    frames = sys._current_frames().items()
    return {ident for ident, frame in frames if idle is None or frame.f_code is not idle.__code__}


def _leaves(task: asyncio.Task[Any], frames: list[FrameType]) -> Iterator[tuple[FrameType, Any]]:
    """Yield the innermost frame that is not asyncio's, and the future it waits for; through tasks that it waits for."""
    inner = next((frame for frame in reversed(frames) if not frame.f_code.co_filename.startswith(_ASYNCIO)), frames[-1])
    waits_for = getattr(task, "_fut_waiter", None)
    parts = getattr(waits_for, "_children", (waits_for,))  # of `gather`
    for part in parts:
        if isinstance(part, asyncio.Task) and (below := list(_frames(part.get_coro()))):
            yield from _leaves(part, below)
        elif part is None or not part.done():
            yield inner, part


def _frames(awaited: Any) -> Iterator[FrameType]:
    """Return the coroutines from the outermost to the innermost that can be seen."""
    frame = _frame(awaited)
    while frame is not None:
        yield frame
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)
        if _frame(awaited) is None:
            awaited = _driven(frame)
        frame = _frame(awaited)


def _frame(awaited: Any) -> FrameType | None:
    return getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)


def _driven(frame: FrameType) -> Any:
    """Return a coroutine that one of our generators takes forward by hand (`client/handle/attempts.py`)."""
    if frame.f_code.co_flags & inspect.CO_GENERATOR and _is_ours(frame.f_code):
        return next((each for each in frame.f_locals.values() if getattr(each, "cr_suspended", False)), None)
    return None


def _is_ours(code: CodeType) -> bool:
    return code.co_filename.startswith(_OURS)


def _place(frame: FrameType) -> str:
    if (code := _in_thread(frame)) is not None:
        return f"{code.co_qualname}, {code.co_filename}:{code.co_firstlineno}"
    return f"{frame.f_code.co_qualname}, {frame.f_code.co_filename}:{frame.f_lineno}"


def _in_thread(frame: FrameType) -> CodeType | None:
    """Return the user's plain function for which a frame of ours waits (`client/handle/handlers.py`)."""
    if not _is_ours(frame.f_code):
        return None
    handler = inspect.unwrap(frame.f_locals.get("handler"))  # type: ignore[arg-type]
    return getattr(getattr(handler, "__func__", handler), "__code__", None)


def _is_in_thread(leaf: Any) -> bool:
    """Return whether the future is the asyncio side of a call in a thread whose end the loop has not seen yet.

    The thread cannot be asked instead: it shows neither a call that it has not begun nor one that it has just ended.
    """
    callbacks = [callback for callback, _ in getattr(leaf, "_callbacks", None) or () if inspect.isfunction(callback)]
    captured = [cell.cell_contents for callback in callbacks for cell in callback.__closure__ or ()]
    return any(isinstance(value, concurrent.futures.Future) for value in captured)


def _outside_can_wake(old_threads: Set[int], own_timers: Collection[object]) -> bool:
    loop: Any = asyncio.get_running_loop()
    try:
        timers, sockets, own = loop._scheduled, loop._selector.get_map().values(), loop._ssock.fileno()
    except AttributeError:
        return True
    return (
        any(not timer.cancelled() and timer not in own_timers for timer in timers)
        or any(_is_in_thread(getattr(task, "_fut_waiter", None)) for task in asyncio.all_tasks())
        or not busy_threads() <= old_threads
        or any(key.fd != own and not _listens(key.fd) for key in sockets)
    )


def _listens(fd: int) -> bool:
    try:
        with socket.socket(fileno=os.dup(fd)) as stream:
            return bool(stream.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
    except OSError:  # a pipe
        return False
