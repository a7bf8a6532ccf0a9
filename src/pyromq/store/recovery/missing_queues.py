"""Queue files that are gone, as far as opening the store notices it and writes their queues anew. `store verify` asks.

The catalogue of a clean stop knows them, after a kill the list of derived files does (recovery.py, pass 2). In a store
that only Java wrote nobody knows. Nothing is changed.
"""

from __future__ import annotations

from functools import cached_property

from ..files.disk import Disk, folder_of
from ..files.segment import parse_segment_name
from ..layout import BATCH_QUEUES, QUEUES
from .catalogue import KnownQueue
from .store_state import StoreState


class MissingQueues:
    """Asked only about queues that lack entries, so a clean store is not looked at twice."""

    def __init__(self, disk: Disk, state: StoreState) -> None:
        self._disk = disk
        self._state = state

    def is_missing(self, topic: str, queue_id: int) -> bool:
        """Return whether a queue without any file had some."""
        folders = {f"{root}/{topic}/{queue_id}" for root in (QUEUES, BATCH_QUEUES)}
        return (topic, queue_id) in self._known or not folders.isdisjoint(self._folders_gone)

    def is_file_missing(self, topic: str, queue_id: int, name: str) -> bool:
        """Return whether this file of a queue that has others was there."""
        if name in self._state.gone:
            return True
        known = self._known.get((topic, queue_id))
        base = parse_segment_name(name.rpartition("/")[2])
        if known is None or known.state is None or base is None or self._disk.exists(name):
            return False
        return known.state.first_file <= base <= known.state.last_file

    @cached_property
    def _known(self) -> dict[tuple[str, int], KnownQueue]:
        left = self._state.catalogue
        queues = [] if left is None else left.known_queues()
        return {(known.topic, known.queue_id): known for known in queues if known.next_offset}

    @cached_property
    def _folders_gone(self) -> set[str]:
        return {folder_of(name) for name in self._state.gone}
