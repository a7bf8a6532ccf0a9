"""The hot state that store, broker and kernel share: typed values, native or Python, whichever kernel serves.

The store constructs and uses them as its own; a native kernel reads and writes the same numbers without a call of
Python's. Ask for the classes by this module's name (`state.LogTail(...)`): so a test can choose the other kernel's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .choice import native
from .python import state as _python

if TYPE_CHECKING:
    from .python.state import FileTail, LogTail, OpenFile, QueueTail, WatermarkState

__all__ = ["FileTail", "LogTail", "OpenFile", "QueueTail", "WatermarkState"]

globals().update({name: getattr(native() or _python, name) for name in __all__})
