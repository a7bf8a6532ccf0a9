"""Connections that `pulling.py` keeps from one task to the next, which most likely asks the same broker.

Workers are used again for task after task. One thread; a few connections at most, all closed when the process ends.
"""

from __future__ import annotations

import atexit

from ..options import NetOptions
from .connection import BlockingConnection

_MOST = 16  # brokers; the one that was not asked for longest goes


class ConnectionPool:
    def __init__(self) -> None:
        self._kept: dict[tuple[str, bool, str], BlockingConnection] = {}

    def take(self, address: str, options: NetOptions) -> BlockingConnection | None:
        """Return a connection on which no answer is under way, and nothing came while nobody listened."""
        found = self._kept.pop(_line(address, options), None)
        if found is None or (not found.outstanding and found.is_fresh()):
            return found
        found.close()
        return None

    def keep(self, connection: BlockingConnection, options: NetOptions) -> None:
        line = _line(connection.address, options)
        if line in self._kept:
            connection.close()
            return
        while len(self._kept) >= _MOST:
            self._kept.pop(next(iter(self._kept))).close()
        self._kept[line] = connection

    def close(self) -> None:
        while self._kept:
            self._kept.popitem()[1].close()


def _line(address: str, options: NetOptions) -> tuple[str, bool, str]:
    """Return what a connection that is used again must have in common."""
    return address, options.tls, options.access_key


POOL = ConnectionPool()
atexit.register(POOL.close)
