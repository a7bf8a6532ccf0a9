"""The record loops behind one interface: place records in a burst, scan a log, pick queue entries for a pull.

`store/` imports the functions from here and knows nothing of which implementation serves them. `PYROMQ_KERNEL=python`
or `native` forces one; without it the native one is taken where it was built. Both give the same bytes.
"""

from __future__ import annotations

import os

from ..errors import ConfigError
from .python.append import place_burst
from .python.placed import DelayLevels, Placed, parse_delay_levels
from .python.pull import Picked, Range, pick_entries
from .python.scan import Fault, Scanned, check_at, is_intact, scan_records

__all__ = [
    "DelayLevels",
    "Fault",
    "Picked",
    "Placed",
    "Range",
    "Scanned",
    "check_at",
    "is_intact",
    "kernel_name",
    "parse_delay_levels",
    "pick_entries",
    "place_burst",
    "scan_records",
]


def kernel_name() -> str:
    """Which implementation serves. ConfigError if the environment asks for one that is not there."""
    wanted = os.environ.get("PYROMQ_KERNEL", "")
    if wanted not in ("", "python"):
        raise ConfigError(
            f"PYROMQ_KERNEL={wanted}: this installation has the python kernel alone; unset the variable or say python"
        )
    return "python"
