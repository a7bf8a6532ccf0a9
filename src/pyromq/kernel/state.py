"""The hot state that store, broker and kernel share: typed values, native or Python, whichever kernel serves.

The store constructs and uses them as its own; a native kernel reads and writes the same numbers without calling
Python. `python/state.py` has the Python classes; this module chooses. Ask for the classes by this module's name
(`state.LogTail(...)`): so a test can choose the other kernel's.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

from ..ambient import Clock, SystemClock
from .choice import native
from .python import appender, follow_feed, index_state, pop_table, retry_copier, state
from .python.appender import AppendCalls
from .python.quotas import allowance, allowances, buckets
from .python.state import Reason

if TYPE_CHECKING:
    from .python.appender import Appender
    from .python.follow_feed import FollowFeed
    from .python.index_state import IndexState, IndexTail, SlotState
    from .python.pop_table import PopTable
    from .python.quotas.allowance import Allowance
    from .python.quotas.allowances import Allowances
    from .python.quotas.buckets import Bucket
    from .python.retry_copier import RetryCopier
    from .python.state import (
        ChangeFlag,
        FileTail,
        Gate,
        HalfStates,
        LogTail,
        OpenFile,
        PulledOffset,
        QueueTail,
        ResidentFiles,
        TimeSource,
        WatermarkState,
    )

__all__ = [
    "Allowance",
    "Allowances",
    "Appender",
    "Bucket",
    "ChangeFlag",
    "FileTail",
    "FollowFeed",
    "Gate",
    "HalfStates",
    "IndexState",
    "IndexTail",
    "LogTail",
    "OpenFile",
    "PopTable",
    "PulledOffset",
    "QueueTail",
    "ResidentFiles",
    "RetryCopier",
    "SlotState",
    "TimeSource",
    "WatermarkState",
]
KERNEL_CLASSES = tuple(__all__)
_PARTS = (state, index_state, appender, follow_feed, pop_table, retry_copier, buckets, allowance, allowances)
PYTHON = SimpleNamespace(**{name: value for part in _PARTS for name, value in vars(part).items()})

__all__ += ["KERNEL_CLASSES", "PYTHON", "AppendCalls", "Reason", "time_source"]

globals().update({name: getattr(native() or PYTHON, name) for name in KERNEL_CLASSES})


def time_source(clock: Clock) -> TimeSource:
    return TimeSource(clock.monotonic, clock.now_ms, isinstance(clock, SystemClock))
