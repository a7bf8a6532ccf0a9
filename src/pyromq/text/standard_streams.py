"""Standard streams that whoever started the program has closed (`>&-`, `<&-`). Called first by command lines."""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import Any, NoReturn


class _ClosedInput(io.RawIOBase):
    """Fails at each read: an end of file would be taken for an empty message, or an empty document."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> NoReturn:
        raise OSError(errno.EBADF, "it is closed, and nothing can be read from it", "standard input")


def open_closed_streams() -> None:
    """Give each closed standard stream a substitute: output goes nowhere, and a read of the input fails.

    Its number is taken too, so that no socket or file gets it, to which a child process would print.
    """
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            number = os.open(os.devnull, os.O_WRONLY)
            raw = _ClosedInput() if name == "stdin" else io.FileIO(number, "w")
            buffered = io.BufferedReader(raw) if name == "stdin" else io.BufferedWriter(raw)
            setattr(sys, name, io.TextIOWrapper(buffered, encoding="utf-8"))
