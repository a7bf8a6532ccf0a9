"""A file that a command writes for its user: whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_file(name: str) -> Iterator[Callable[[str], object]]:
    """Yield the function that writes. What was there before stays until all is written, also where that is broken off.

    A pipe or a device is written as it comes.
    """
    target = Path(name)
    if target.exists() and not target.is_file():
        with open(target, "w", encoding="utf-8") as opened:
            yield opened.write
        return
    target = target.resolve()  # of a link the file that it leads to
    aside = target.with_name(f".{target.name}.unfinished")
    try:
        with open(aside, "w", encoding="utf-8") as opened:
            if target.exists():
                os.chmod(aside, target.stat().st_mode & 0o777)  # a private file stays one
            yield opened.write
        os.replace(aside, target)
    except OSError as fault:
        if fault.filename == str(aside):
            fault.filename = name
        raise
    finally:
        aside.unlink(missing_ok=True)
