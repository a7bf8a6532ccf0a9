"""A few descriptors held back for the store, so that a file can be opened while somebody else uses all others.

`real_disk.py` opens everything through here. A helper thread waits until there is a descriptor: a flush is late then,
and does not fail. The event loop's thread must not wait: it gets `TooManyFiles`, and closes files it has
kept open for later.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from typing import TypeVar

from ... import logs
from ...ambient import pause
from .disk import TooManyFiles

log = logs.get("pyromq.store")

T = TypeVar("T")
_SHORTAGE = (errno.EMFILE, errno.ENFILE)
_TRY_AGAIN_S = 0.05
_SAID_AGAIN = 200  # looks


class SpareFiles:
    """Several threads. Without spares, as for a tool that has one thread, a shortage is an error at once."""

    def __init__(self, count: int = 0) -> None:
        self._wanted = count
        self._spares: list[int] = []
        self._one_at_a_time = threading.Lock()
        self._loop_thread = threading.get_ident()
        self.refill()

    def open(self, path: str, call: Callable[[], T]) -> T:
        """Run a call that needs a descriptor for a moment or for longer; `path` is for messages to people."""
        tries = 0
        while True:
            try:
                return call()
            except OSError as fault:
                if fault.errno not in _SHORTAGE:
                    raise
                if self._give_one_back():
                    continue
                if not self._wanted or threading.get_ident() == self._loop_thread:
                    raise TooManyFiles(f"cannot open {path}: {fault.strerror}; raise ulimit -n") from fault
                if tries % _SAID_AGAIN == 0:
                    log.warning("the store waits for a descriptor: raise ulimit -n", path=path, why=fault.strerror)
                tries += 1
                pause(_TRY_AGAIN_S)

    def _give_one_back(self) -> bool:
        with self._one_at_a_time:
            if not self._spares:
                return False
            os.close(self._spares.pop())
            return True

    def refill(self) -> None:
        """Keep the descriptor of a file that was just closed if a spare is missing. Nearly always none is."""
        if len(self._spares) == self._wanted:
            return
        with self._one_at_a_time:
            while len(self._spares) < self._wanted:
                try:
                    self._spares.append(os.open(os.devnull, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0)))
                except OSError:
                    return  # the next file that is closed makes room

    def close(self) -> None:
        with self._one_at_a_time:
            self._wanted = 0
            while self._spares:
                os.close(self._spares.pop())
