"""Files with keys and secrets that others on the machine may read are said at a start."""

from __future__ import annotations

import stat
from collections.abc import Iterable
from pathlib import Path

from ..logs import EventLog


def warn_of_open_keys(log: EventLog, files: Iterable[Path | None]) -> None:
    """Say of each file that is there, and that every user of the machine may read, what to do: one line a file.

    Its group may read it: that is how keys of TLS are often shared with a daemon."""
    for file in sorted({file.absolute() for file in files if file is not None}):
        try:
            mode = stat.S_IMODE(file.stat().st_mode)
        except OSError:
            continue  # not there: who needs it says so
        if mode & stat.S_IROTH:
            log.warning(
                "a file with secrets is readable by others", file=str(file), mode=f"{mode:04o}", cure="chmod 600"
            )
