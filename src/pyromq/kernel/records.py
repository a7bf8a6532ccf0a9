"""The record loops behind one interface: place records in a burst, scan a log, pick queue entries for a pull.

`store/` imports the functions from here and knows nothing of which implementation serves them. `PYROMQ_KERNEL=python`
or `native` forces one; without it the native one is taken where it was built. Both give the same bytes.
"""

from __future__ import annotations

import os

from ..errors import ConfigError
from .python import append as _append
from .python import pull as _pull
from .python import scan as _scan
from .python.placed import DelayLevels, Placed, parse_delay_levels

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

place_burst = _append.place_burst
scan_records = _scan.scan_records
check_at = _scan.check_at
is_intact = _scan.is_intact
Scanned = _scan.Scanned
Fault = _scan.Fault
pick_entries = _pull.pick_entries
Picked = _pull.Picked
Range = _pull.Range


def kernel_name() -> str:
    """Which implementation serves. ConfigError if the environment asks for one that is not there."""
    wanted = os.environ.get("PYROMQ_KERNEL", "")
    if wanted not in ("", "python"):
        raise ConfigError(
            f"PYROMQ_KERNEL={wanted}: this installation has the python kernel alone; unset the variable or say python"
        )
    return "python"
