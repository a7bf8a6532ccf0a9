"""Where a handler's code stands: in the traceback of a failure, in a thread that runs on, in a coroutine that waits.

For lines of the log. Of many frames the innermost counts that is the user's own, not the SDK's nor a library's.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from traceback import walk_stack, walk_tb
from types import FrameType, TracebackType
from typing import Any

_SDK = str(Path(__file__).parents[2])
_LIBRARIES = (_SDK, os.path.dirname(os.__file__), "<frozen")
_INSTALLED = f"{os.sep}site-packages{os.sep}"

_Frames = Iterable[tuple[FrameType, int]]  # the innermost last


def of_fault(fault: BaseException) -> str:
    """Return where it was raised, as `shop.py:12 in charge`; "" for one that nobody raised, or only the SDK."""
    found = _innermost(walk_tb(fault.__traceback__))
    return found if found or fault.__cause__ is None else of_fault(fault.__cause__)


def of_thread(ident: int | None) -> str:
    """Return where the thread stands now; "" if it has ended."""
    frame = sys._current_frames().get(ident or 0)
    return "" if frame is None else _innermost(reversed(list(walk_stack(frame))))


def of_coroutine(waiting: Any) -> str:
    """Return where a coroutine waits, or what it awaits; "" if it has ended."""
    return _innermost((frame, frame.f_lineno) for frame in awaited_frames(waiting))


def awaited_frames(waiting: Any) -> Iterator[FrameType]:
    """Yield the frames of a coroutine and of all that it awaits, the innermost last."""
    while (frame := getattr(waiting, "cr_frame", getattr(waiting, "gi_frame", None))) is not None:
        yield frame
        if hasattr(waiting, "cr_await"):
            waiting = waiting.cr_await
        else:  # a handler that was started before it was awaited: the frame that waits for it has it
            waiting = waiting.gi_yieldfrom or frame.f_locals.get("coroutine")


def without_sdk(trace: TracebackType | None) -> TracebackType | None:
    """Return a traceback from the first frame on that is neither the SDK's nor a thread's; the whole one if all are."""
    rest = trace
    while rest is not None and rest.tb_frame.f_code.co_filename.startswith(_LIBRARIES):
        rest = rest.tb_next
    return rest or trace


def _innermost(frames: _Frames) -> str:
    found = ""
    for frame, line in frames:
        code = frame.f_code
        if not code.co_filename.startswith(_LIBRARIES) and _INSTALLED not in code.co_filename:
            found = f"{code.co_filename}:{line} in {code.co_name}"
    return found
