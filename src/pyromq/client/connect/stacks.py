"""What this process does right now, as text: what each task of the event loop awaits, and the stacks of all threads.

A broker asks for it on behalf of `pyromq group stack` and `mqadmin consumerStatus -s`; Java's clients send theirs.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from collections.abc import Iterator
from types import FrameType
from typing import Any


def stacks() -> str:
    """Return the stacks of all threads and tasks as text. Event loop only."""
    return "\n".join([*_tasks(), *_threads()])


def _tasks() -> Iterator[str]:
    for task in sorted(asyncio.all_tasks(), key=lambda one: one.get_name()):
        yield f"Task {task.get_name()}"
        waiting: Any = task.get_coro()
        while (frame := getattr(waiting, "cr_frame", getattr(waiting, "gi_frame", None))) is not None:
            yield f"  {frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"
            waiting = _awaited(waiting, frame)


def _awaited(waiting: Any, frame: FrameType) -> Any:
    """Return what a coroutine awaits: a task's own stack ends at its first coroutine.

    A handler that was started before it was awaited is not in that chain: the frame that waits for it has it.
    """
    if hasattr(waiting, "cr_await"):
        return waiting.cr_await
    return waiting.gi_yieldfrom or frame.f_locals.get("coroutine")


def _threads() -> Iterator[str]:
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():
        yield f"Thread {names.get(ident, ident)}"
        for one in reversed(traceback.extract_stack(frame)):
            yield f"  {one.filename}:{one.lineno} in {one.name}"
