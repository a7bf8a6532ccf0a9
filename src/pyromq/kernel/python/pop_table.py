"""The table of young check points in plain Python, and its journal: table and journal agree by construction.

`kernel/pops.py` explains lanes, check points and the journal; `native/pop_table.pxi` has the same class with C structs.
`broker/pop` constructs it through `kernel/state.py`. It never reads a clock, a disk or a message. Event loop only.

Beyond the calls that a reader expects there are `begin`, `note_base` with two journal offsets, `base_of`,
`note_other`, `points` and `lanes`; `Ack.CLASH` is the fourth answer (of `change` alone).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from ..pops import FIRST_OTHER, MOST_OTHER, REVIVED, SPILLED, Ack, CheckPoint, LaneFigures
from .popping import entries
from .popping.entries import word
from .popping.lane import Epoch, Lane, OpenPoint
from .popping.points import OpenPoints, Others, check_offsets, check_revive_queue
from .popping.reader import read_entries


class PopTable:
    """Check points that are neither settled, revived nor spilled. Invariant: `replay` of all entries gives the same."""

    def __init__(self, most_bytes: int) -> None:
        """`most_bytes`: beyond it nothing is handed out; from seven eighths of it on `aged` names what has to leave."""
        self._most_bytes = most_bytes
        self._open = OpenPoints()
        self._is_changed = True  # since the last BASE; true at first, so that a start writes one
        self._entries: list[bytes] = []
        self._entry_bytes = 0
        self._last_ack: tuple[OpenPoint, int] | None = None  # the newest entry is an ACK: whose, and of which bits

    # --- lanes ----------------------------------------------------------------------------------------------------

    def lane(self, group: str, topic: str, queue_id: int) -> int:
        """Return the number of a lane, known or new. Numbers are small and hold for this process run."""
        number = self._open.numbers.get((group, topic, queue_id))
        if number is None:
            if queue_id not in entries.QUEUES:
                raise OverflowError(f"queue {queue_id} does not fit into 32 bits")
            lane = self._open.add_lane(self._open.next_number, group, topic, queue_id)
            self._declare(lane)
            number = lane.number
        return number

    def names(self, lane: int) -> tuple[str, str, int]:
        """Return group, topic and queue."""
        found = self._open.lane(lane)
        return found.group, found.topic, found.queue_id

    def next_offset(self, lane: int) -> int:
        """Return where the next pop reads; -1: unknown, the broker decides where to start."""
        return self._open.lane(lane).next_offset

    def set_next(self, lane: int, offset: int) -> None:
        """Set where the next pop reads, after a start, a reset, a hole, or entries that no filter wants."""
        found = self._open.lane(lane)
        if found.next_offset != word(offset):
            self._declare(found)
            found.next_offset = offset
            self._note(entries.next_entry(lane, offset))

    def base(self, lane: int) -> int:
        """Return the first offset that is not settled, else where the next pop reads: the group's committed offset."""
        return self._open.lane(lane).base()

    def drop_lane(self, lane: int) -> list[CheckPoint]:
        """Remove and return all check points of a lane, and forget where its next pop reads (-1)."""
        found = self._open.lane(lane)
        dropped = [point.as_given() for point in found.open()]
        if dropped or found.next_offset != -1:
            self._declare(found)
            self._note(entries.drop_entry(lane))
            self._open.drop(found)
        return dropped

    # --- check points ---------------------------------------------------------------------------------------------

    def hand_out(
        self,
        lane: int,
        start: int,
        offsets: Sequence[int],
        next_offset: int,
        pop_time: int,
        invisible_ms: int,
        revive_queue: int,
    ) -> bool:
        """Add a check point of these ascending offsets, 64 at most, and go on at `next_offset`.

        False: an equal one (start, pop time) is open, or the table is full; then nothing has changed.
        """
        found = self._open.lane(lane)
        given = tuple(offsets)
        check_offsets(start, given, next_offset)
        check_revive_queue(revive_queue)
        for value in (pop_time, invisible_ms):
            word(value)
        if self._open.bytes >= self._most_bytes or found.find(start, pop_time) is not None:
            return False
        self._declare(found)
        self._note(
            entries.pop_entry(entries.PopEntry(lane, start, pop_time, invisible_ms, revive_queue, next_offset, given))
        )
        found.next_offset = next_offset
        self._open.add(found, start, given, pop_time, invisible_ms, revive_queue)
        return True

    def ack(self, lane: int, start: int, pop_time: int, offset: int) -> Ack:
        """Settle one message of the check point with this start and pop time."""
        point, bit = self._open.message(self._open.lane(lane), start, pop_time, offset)
        if point is None:
            return Ack.UNKNOWN
        if not point.open_bits & bit:
            return Ack.AGAIN
        self._declare(point.lane)
        self._note_ack(point, bit)
        self._open.settle(point, bit)
        return Ack.SET

    def change(
        self, lane: int, start: int, pop_time: int, offset: int, now_ms: int, invisible_ms: int, suspend: bool
    ) -> Ack:
        """Move one message to a check point of its own with start `offset` and pop time `now_ms`."""
        for value in (now_ms, invisible_ms):
            word(value)
        found = self._open.lane(lane)
        point, bit = self._open.message(found, start, pop_time, offset)
        if point is None:
            return Ack.UNKNOWN
        if not point.open_bits & bit:
            return Ack.AGAIN
        other = found.find(offset, now_ms)
        if other is not None and (other is not point or point.open_bits != bit):
            return Ack.CLASH
        entry = entries.ChangeEntry(lane, start, pop_time, offset, now_ms, invisible_ms, point.revive_queue, suspend)
        self._declare(found)
        self._note(entries.change_entry(entry))
        self._open.settle(point, bit)
        self._open.add(found, offset, (offset,), now_ms, invisible_ms, point.revive_queue, suspend)
        return Ack.SET

    def due(self, now_ms: int, most: int) -> list[CheckPoint]:
        """Return those whose invisible time is over, the earliest first. They stay until `revived` or `spilled`."""
        return self._open.by_due.first(most, lambda point: point.due_ms <= now_ms)

    def aged(self, popped_before_ms: int, most: int) -> list[CheckPoint]:
        """Return those that were popped before, the oldest first, and beyond them what the limit asks to leave."""
        excess = self._open.bytes - self._most_bytes // 8 * 7

        def has_to_leave(point: OpenPoint) -> bool:
            nonlocal excess
            before, excess = excess, excess - point.size
            return before > 0 or point.pop_time < popped_before_ms

        return self._open.by_age.first(most, has_to_leave)

    def revived(self, point: CheckPoint) -> None:
        """Remove a check point whose open messages were put anew. One that left meanwhile is no error."""
        self._leave(point, REVIVED)

    def spilled(self, point: CheckPoint) -> None:
        """Remove a check point that is in the log in Java's form now. One that left meanwhile is no error."""
        self._leave(point, SPILLED)

    # --- figures --------------------------------------------------------------------------------------------------

    @property
    def used_bytes(self) -> int:
        """Return what the open check points count against the limit."""
        return self._open.bytes

    def lanes(self) -> list[int]:
        """Return the numbers of all lanes, in order."""
        return sorted(self._open.lanes)

    def points(self, lane: int, most: int | None = None) -> list[CheckPoint]:
        """Return the open check points of a lane, by start and pop time: all of them, or the first."""
        return [point.as_given() for point in islice(self._open.lane(lane).open(), most)]

    def point(self, lane: int, start: int, pop_time: int) -> CheckPoint | None:
        """Return the check point with this start and pop time if it is open."""
        found = self._open.lane(lane).find(start, pop_time)
        return None if found is None else found.as_given()

    def moved(self, lane: int, offset: int) -> int | None:
        """Return the pop time of the newest check point that has this message alone, as a change makes them."""
        return self._open.lane(lane).moved(offset)

    def in_flight(self, group: str | None = None) -> list[LaneFigures]:
        """Return what is open, by lane; of one group or of all. Lanes without any are left out."""
        return [
            LaneFigures(lane.number, lane.messages, lane.points)
            for _, lane in sorted(self._open.lanes.items())
            if lane.points and group in (None, lane.group)
        ]

    # --- the journal ----------------------------------------------------------------------------------------------

    @property
    def entry_bytes(self) -> int:
        """Return how many bytes `take_entries` would give."""
        return self._entry_bytes

    def take_entries(self) -> bytes:
        """Return and clear the entries of all changes since the last call."""
        taken = b"".join(self._entries)
        self._entries.clear()
        self._entry_bytes = 0
        self._last_ack = None
        return taken

    def note_other(self, kind: int, body: bytes) -> None:
        """Add an entry that is not the table's: `kind` is 128 to 255, the body up to whoever reads it."""
        if not FIRST_OTHER <= kind <= MOST_OTHER:
            raise ValueError(f"entries of others are of kind {FIRST_OTHER} to {MOST_OTHER}, not {kind}")
        self._note(entries.other_entry(kind, body))

    def begin(self, journal_offset: int) -> None:
        """Say where in the journal the entries begin that are replayed next. Once, on an empty table."""
        if self._open.count or len(self._open.epochs) > 1:
            raise ValueError("the table is in use already")
        self._open.epochs[0].begin = journal_offset

    def note_base(self, journal_offset: int, saved_offset: int) -> bool:
        """Begin an epoch, if anything has changed since the last one, and tell where a replay has to begin.

        `journal_offset`: where the next record of the journal goes. `saved_offset`: where it went when the committed
        offsets that are on disk were read from this table (0: never).
        """
        if not self._is_changed:
            return False
        self._open.epochs.append(Epoch(journal_offset))
        while (
            len(self._open.epochs) > 1 and not self._open.epochs[0].open and self._open.epochs[1].begin <= saved_offset
        ):
            self._open.epochs.popleft()
        self._note(entries.base_entry(self._open.epochs[0].begin))
        self._is_changed = False
        return True

    @staticmethod
    def base_of(raw: bytes) -> int | None:
        """Return the journal offset of the last BASE in a record's entries; None: it has none."""
        found = None
        for entry in read_entries(raw):
            if isinstance(entry, entries.BaseEntry):
                found = entry.journal_offset
        return found

    def replay(self, raw: bytes, others: Others | None = None) -> None:
        """Apply a record's entries; `others` gets the ones that are not the table's. The limit does not count here.

        DamagedJournal at the first entry that cannot be read or does not fit; those before it are applied.
        """
        self._open.replay(raw, others)

    # --- parts ----------------------------------------------------------------------------------------------------

    def _leave(self, given: CheckPoint, kind: int) -> None:
        lane = self._open.lane(given.lane)
        point = lane.find(given.start, given.pop_time)
        if point is not None:
            self._declare(lane)
            self._note(entries.gone_entry(kind, lane.number, point.start, point.pop_time))
            self._open.settle(point, point.open_bits)

    def _declare(self, lane: Lane) -> None:
        """Write its LANE entry, if this epoch has none yet."""
        if lane.told is not self._open.epochs[-1]:
            lane.told = self._open.epochs[-1]
            self._note(entries.lane_entry(lane.number, lane.queue_id, lane.next_offset, lane.group, lane.topic))

    def _note_ack(self, point: OpenPoint, bit: int) -> None:
        """Write an ACK, in place of the one before if that is of the same check point."""
        bits = bit
        if self._last_ack is not None and self._last_ack[0] is point:
            bits |= self._last_ack[1]
            self._entry_bytes -= len(self._entries.pop())
        self._note(entries.ack_entry(point.lane.number, point.start, point.pop_time, bits))
        self._last_ack = point, bits

    def _note(self, entry: bytes) -> None:
        self._entries.append(entry)
        self._entry_bytes += len(entry)
        self._last_ack = None
        self._is_changed = True
