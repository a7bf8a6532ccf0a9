"""Connections that the listeners of one process may hold together, so that sockets never take the descriptors of files.

Made once a process (`budget.py`). Each listener asks for a quota of its own; a flood at one of them leaves the others a
part that only they may use.
"""

from __future__ import annotations

from dataclasses import dataclass, field

_OWN_SHARE = 8  # every listener has an eighth of all connections to itself


@dataclass(slots=True, eq=False, repr=False)
class ConnectionQuota:
    """Event loop only. Invariant: never more connections in use than `total`."""

    total: int
    limited_by: str = "open files"  # what there would have to be more of
    _listeners: list[ListenerQuota] = field(default_factory=list)

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


@dataclass(slots=True, eq=False, repr=False)
class ListenerQuota:
    shared: ConnectionQuota
    in_use: int = 0

    def acquire(self) -> bool:
        """Count one more connection, or return False if there is none left."""
        if not self.shared.has_free_for(self):
            return False
        self.in_use += 1
        return True

    def release(self) -> None:
        self.in_use -= 1
