"""What this process does right now, for `pyromq group stack` and `mqadmin consumerStatus -s`."""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from collections.abc import Iterator

from .places import awaited_frames


def stack_text() -> str:
    """Return where each task of this event loop waits, and where each thread stands."""
    return "\n".join([*_tasks(), *_threads()])


def _tasks() -> Iterator[str]:
    for task in sorted(asyncio.all_tasks(), key=lambda one: one.get_name()):
        yield f"Task {task.get_name()}"
        for frame in awaited_frames(task.get_coro()):
            yield f"  {frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"


def _threads() -> Iterator[str]:
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():
        yield f"Thread {names.get(ident, ident)}"
        for one in reversed(traceback.extract_stack(frame)):
            yield f"  {one.filename}:{one.lineno} in {one.name}"
