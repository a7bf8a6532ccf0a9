"""Which groups the client of a connection is in. `consumers.py` and `producers.py` have one each. Pure."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from ...transport.peer import Peer

_NONE: frozenset[str] = frozenset()


class Memberships:
    """Event loop only. Most connections are in one group, and thousands in the same: those share one set."""

    def __init__(self) -> None:
        self._groups: dict[Peer, AbstractSet[str]] = {}
        self._alone: dict[str, tuple[frozenset[str], int]] = {}  # the set of one group, and how many have it

    def of(self, peer: Peer) -> AbstractSet[str]:
        """Return the groups of a connection; none where it is in no group."""
        return self._groups.get(peer, _NONE)

    def add(self, peer: Peer, group: str) -> None:
        its = self._groups.get(peer)
        if its is None:
            self._groups[peer] = self._share(group)
        elif isinstance(its, set):
            its.add(group)
        elif group not in its:
            self._groups[peer] = {*its, group}
            self._unshare(next(iter(its)))

    def remove(self, peer: Peer, group: str) -> bool:
        """Take a connection out of a group that it is in. Return whether it was its last."""
        its = self._groups[peer]
        if isinstance(its, set):
            its.remove(group)
        else:
            self._unshare(group)
        if isinstance(its, set) and its:
            return False
        del self._groups[peer]
        return True

    def _share(self, group: str) -> frozenset[str]:
        alone, count = self._alone.get(group) or (frozenset((group,)), 0)
        self._alone[group] = alone, count + 1
        return alone

    def _unshare(self, group: str) -> None:
        alone, count = self._alone[group]
        if count == 1:
            del self._alone[group]
        else:
            self._alone[group] = alone, count - 1
