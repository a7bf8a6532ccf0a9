"""Where each group pops on: the lanes of the table, and the group's offsets that follow from them.

A lane is (group, topic or retry topic, queue). It is open while the table knows where its next pop reads; otherwise the
group's committed offset says so. The committed offset of an open lane is its base, the first message that is neither
acknowledged nor given up; the pulled offset is where the next pop reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from ....kernel.pops import CheckPoint
from ....kernel.state import PopTable
from ...metadata.config_table import Watched
from ...metadata.offsets import SEPARATOR, Offsets
from .journal import PopJournal


class Lanes(Watched):
    """Event loop only. Watchers are called with `topic@group` when a lane opens: verdicts on its pulls end then."""

    def __init__(self, table: PopTable, offsets: Offsets, journal: PopJournal) -> None:
        super().__init__()
        self.table, self.journal = table, journal
        self._offsets = offsets
        self._open: dict[tuple[str, str], dict[int, int]] = {}  # lanes by group and topic, then by queue
        offsets.watch(self._offsets_moved)

    # --- finding and opening --------------------------------------------------------------------------------------

    def find(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return the lane if it is open."""
        lanes = self._open.get((group, topic))
        return None if lanes is None else lanes.get(queue_id)

    def open(self, group: str, topic: str, queue_id: int, offset: int) -> int:
        """Return the lane, opened at this offset if it was not."""
        lane = self.find(group, topic, queue_id)
        if lane is None:
            lane = self.table.lane(group, topic, queue_id)
            self.table.set_next(lane, offset)
            self._note_open(group, topic, queue_id, lane)
            self._notify(f"{topic}{SEPARATOR}{group}")
        return lane

    def adopt(self) -> None:
        """Take over the lanes of a table that was replayed. Offsets go on from where the table or the commits are."""
        for lane in self.table.lanes():
            if self.table.next_offset(lane) < 0:
                continue
            group, topic, queue_id = self.table.names(lane)
            committed = self._offsets.find(topic, group, queue_id)
            if committed is not None and committed > self.table.next_offset(lane):
                self.table.set_next(lane, committed)
            self._note_open(group, topic, queue_id, lane)
            self.settle(lane)

    def _note_open(self, group: str, topic: str, queue_id: int, lane: int) -> None:
        self._open.setdefault((group, topic), {})[queue_id] = lane

    # --- offsets --------------------------------------------------------------------------------------------------

    def committed(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return where the group goes on in a queue that has no lane. A reset that was pending has happened then."""
        offset = self._offsets.find(topic, group, queue_id)
        if offset is not None and self._offsets.has_reset(topic, group, queue_id):
            while self._offsets.take_reset(topic, group, queue_id, offset) is not None:
                pass  # the first call says where to go, the second that the group is there
            self._offsets.commit(topic, group, queue_id, offset)
        return offset

    def commit_start(self, group: str, topic: str, queue_id: int, offset: int) -> bool:
        """Commit where a group begins. False: there is no room for another pair of topic and group."""
        return self._offsets.commit(topic, group, queue_id, offset)

    def commit_starts(self, group: str, topic: str, offsets: Mapping[int, int]) -> bool:
        """Commit where a group begins in queues in which it has no offset. False: there is no room for them."""
        return self._offsets.commit_missing(topic, group, offsets)

    def settle(self, lane: int) -> None:
        """Commit what follows from the lane's state: to be called after each change of it."""
        if self.table.next_offset(lane) < 0:
            return  # it was closed meanwhile, and what is committed counts
        group, topic, queue_id = self.table.names(lane)
        self._offsets.commit(topic, group, queue_id, self.table.base(lane))
        self._offsets.note_pulled(topic, group, queue_id, self.table.next_offset(lane))

    # --- closing --------------------------------------------------------------------------------------------------

    def close(self, group: str, topic: str, queue_id: int) -> list[CheckPoint]:
        """Close a lane: its check points are gone from the table, the committed offset counts again."""
        lanes = self._open.get((group, topic), {})
        lane = lanes.pop(queue_id, None)
        if lane is None:
            return []
        if not lanes:
            del self._open[group, topic]
        points: list[CheckPoint] = self.table.drop_lane(lane)
        self.journal.changed()
        return points

    def close_all(self, is_meant: Callable[[str, str], bool]) -> None:
        """Close the lanes whose group and topic are meant, with all that is in flight there."""
        for group, topic in [pair for pair in self._open if is_meant(*pair)]:
            for queue_id in [*self._open[group, topic]]:
                self.close(group, topic, queue_id)

    def all(self) -> Iterator[tuple[str, str, int, int]]:
        """Return group, topic, queue and number of each open lane."""
        for (group, topic), lanes in [*self._open.items()]:
            for queue_id, lane in [*lanes.items()]:
                yield group, topic, queue_id, lane

    def _offsets_moved(self, pair: str) -> None:
        """Close lanes whose offsets were reset, or dropped with their topic or group."""
        topic, _, group = pair.partition(SEPARATOR)
        for queue_id in [*self._open.get((group, topic), ())]:
            is_dropped = self._offsets.find(topic, group, queue_id) is None
            if is_dropped or self._offsets.has_reset(topic, group, queue_id):
                self.close(group, topic, queue_id)
