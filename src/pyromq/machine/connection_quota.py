"""Connections that the listeners of one process may hold together, so that sockets never take the descriptors of files.

Made once a process (`budget.py`). Each listener asks for a quota of its own; a flood at one of them leaves the others a
part that only they may use.
"""

from __future__ import annotations

_OWN_SHARE = 8  # every listener has an eighth of all connections to itself


class ConnectionQuota:
    """Event loop only. Invariant: never more connections in use than `total`."""

    def __init__(self, total: int, limited_by: str = "open files") -> None:
        """Divide `total` connections. `limited_by`: what there would have to be more of."""
        self.total = total
        self.limited_by = limited_by
        self._listeners: list[ListenerQuota] = []

    def listener(self) -> ListenerQuota:
        listener = ListenerQuota(self)
        self._listeners.append(listener)
        return listener

    @property
    def in_use(self) -> int:
        return sum(listener.in_use for listener in self._listeners)

    def has_free_for(self, asking: ListenerQuota) -> bool:
        """Return whether a connection is left that no other listener has to itself."""
        own = self.total // _OWN_SHARE
        of_others = sum(max(listener.in_use, own) for listener in self._listeners if listener is not asking)
        return asking.in_use + of_others < self.total


class ListenerQuota:
    def __init__(self, shared: ConnectionQuota) -> None:
        self.shared = shared
        self.in_use = 0

    def acquire(self) -> bool:
        """Count one more connection, or return False if there is none left."""
        if not self.shared.has_free_for(self):
            return False
        self.in_use += 1
        return True

    def release(self) -> None:
        self.in_use -= 1
