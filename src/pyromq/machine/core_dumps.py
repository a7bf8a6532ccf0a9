"""Memory that holds keys is not written to disk: no core dumps, and nobody of the same user reads it by a debugger."""

from __future__ import annotations

import ctypes
import sys

_PR_SET_DUMPABLE = 4


def forbid_core_dumps() -> None:
    """Let the system write no core dump of this process, for as long as it lives (Linux; elsewhere nothing happens).

    A limit on their size would not do: where dumps go to a program (`kernel.core_pattern`), it does not count."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
