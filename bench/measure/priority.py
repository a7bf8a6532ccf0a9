"""Real-time priority for a program that measures: its own wait for a CPU must not count as the server's."""

from __future__ import annotations

import subprocess
import sys
from functools import lru_cache

_FIRST = ("chrt", "--fifo", "50")


@lru_cache(1)
def real_time() -> tuple[str, ...]:
    """Words in front of a command that give it real-time priority; none where that may not be, which is said once."""
    try:
        subprocess.run([*_FIRST, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        print("without real-time priority: latencies have the generator's own wait for a CPU in them", file=sys.stderr)
        return ()
    return _FIRST
