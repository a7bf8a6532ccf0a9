"""What the tasks of clients and broker wait for when nothing is ready: the clock and each other, or the outside.

Called by `settling.py`, with the loop at rest. It only looks: at coroutines, at the futures they wait for, and at who
could still wake the loop. Where asyncio has no public word for that, a loop without the names below (uvloop) is taken
as one that the outside can wake: then the answer is "maybe", and costs a wait.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import concurrent.futures.thread
import inspect
import os
import socket
import sys
from collections.abc import Collection, Iterator, Set
from types import CodeType, FrameType
from typing import Any

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_ASYNCIO = os.path.dirname(os.path.abspath(asyncio.__file__)) + os.sep
_IDLE_WORKER = getattr(concurrent.futures.thread, "_worker", None)


def outside_waits(test_wait: CodeType, old_threads: Set[int], own_timers: Collection[object] = ()) -> list[str]:
    """Return where handlers and threads of ours are that something outside may still end, one line each.

    `test_wait`: code in which a handler waits for the test, by intention. `old_threads` are of `busy_threads`, before.
    `own_timers` of the loop wake no handler.
    """
    if not _outside_can_wake(old_threads, own_timers):
        return []  # only the clock and the test can: nearly always
    found: list[str] = []
    for task, frames in _our_tasks(test_wait):
        for frame, leaf in _leaves(task, frames):
            if _is_at_work(leaf):
                found.append(f"a thread works for {_place(frame)}")
            elif not _is_ours(frame.f_code):
                found.append(_place(frame))
    return found


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
    return {ident for ident, frame in sys._current_frames().items() if not _is_idle(frame)}


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
    """Return a coroutine that one of our generators takes forward by hand (`client/consume/attempts.py`)."""
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
    """Return the user's plain function for which a frame of ours waits (`client/consume/handlers.py`)."""
    if not _is_ours(frame.f_code):
        return None
    handler = inspect.unwrap(frame.f_locals.get("handler"))  # type: ignore[arg-type]
    return getattr(getattr(handler, "__func__", handler), "__code__", None)


def _is_at_work(leaf: Any) -> bool:
    """Return whether the future is the asyncio side of a call that a thread has begun."""
    callbacks = [callback for callback, _ in getattr(leaf, "_callbacks", None) or () if inspect.isfunction(callback)]
    captured = [value for callback in callbacks for value in inspect.getclosurevars(callback).nonlocals.values()]
    return any(isinstance(value, concurrent.futures.Future) and value.running() for value in captured)


def _outside_can_wake(old_threads: Set[int], own_timers: Collection[object]) -> bool:
    """Return whether a timer of the loop, a thread at work or a connection is there."""
    loop: Any = asyncio.get_running_loop()
    try:
        timers, sockets, own = loop._scheduled, loop._selector.get_map().values(), loop._ssock.fileno()
    except AttributeError:
        return True
    return (
        any(not timer.cancelled() and timer not in own_timers for timer in timers)
        or not busy_threads() <= old_threads
        or any(key.fd != own and not _listens(key.fd) for key in sockets)
    )


def _listens(fd: int) -> bool:
    try:
        with socket.socket(fileno=os.dup(fd)) as stream:
            return bool(stream.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
    except OSError:  # a pipe
        return False


def _is_idle(frame: FrameType) -> bool:
    """Return whether the thread is one of a pool, and waits for work."""
    return _IDLE_WORKER is not None and frame.f_code is _IDLE_WORKER.__code__
