"""Reading: by queue offset, by place, by key, by time. Nothing beyond `readable` is ever handed out, nothing damaged.

A get has two steps: `select` decides on queue entries alone, then the records are read, at once where they are in the
page cache (`read_resident`), in a helper thread otherwise (`read_cold`), so that a cold page never stops the loop.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum

from ... import logs
from ...kernel.records import TAG_MARK, Picked, Range, cut_sealed, is_intact
from ...model.boundary import Boundary
from ...model.message import Property
from ...protocol.properties import MAX_PROPERTIES_BYTES, decode_properties
from ...protocol.record import BLANK, BLANK_BYTES, CRC_PROPERTY_BYTES, FIXED_BYTES, Record, RecordError, decode_record
from ..files.disk import DiskError
from ..index.key_index import Index
from ..index.key_search import KeySearch
from ..queues.queue import StoredQueue
from ..queues.queue_table import QueueTable
from .commit_log import CommitLog
from .watermarks import Readable

log = logs.get("pyromq.store")

SCAN_ENTRIES = 800  # entries a filtered get looks at: 16,000 bytes, as Java's maxFilterMessageSize
_MAX_FOUND = 64  # answers of a query by key
_EVER = 1 << 62


class GetStatus(Enum):
    """How a get ended; the words are Java's, since they stand in remarks."""

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    NO_MATCHED_LOGIC_QUEUE = "NO_MATCHED_LOGIC_QUEUE"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"


@dataclass(frozen=True, slots=True)
class Selection:
    """What a get will carry. `next_offset` is where the next one goes on, or where a wrong offset is corrected to."""

    status: GetStatus
    ranges: Sequence[Range]
    next_offset: int
    min_offset: int
    max_offset: int


@dataclass(frozen=True, slots=True)
class KeyQuery:
    """What a query by key (or tag) asks for: at most `limit` records of a time window, the newest."""

    topic: str
    key: str
    begin: int = 0
    end: int = _EVER
    limit: int = _MAX_FOUND
    tag: bool = False


class Reader:
    """Event loop only, except `read_cold`."""

    def __init__(self, commit_log: CommitLog, queues: QueueTable, index: Index | None, readable: Readable) -> None:
        self._log = commit_log
        self._queues = queues
        self._index = index
        self._readable = readable.watermark
        self._holes: set[tuple[str, int]] = set()  # queues whose lost entries were logged

    # -- by queue offset ----------------------------------------------------------------------------------------------

    def select(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        *,
        max_count: int,
        max_bytes: int,
        tag_codes: Collection[int] | None = None,
        scan: int = SCAN_ENTRIES,
        deep: int = 0,
    ) -> Selection:
        """Select records by looking at `scan` entries; with tags at up to `deep`, while they are in the page cache."""
        queue = self._queues.get(topic, queue_id)
        if queue is None:
            return Selection(GetStatus.NO_MATCHED_LOGIC_QUEUE, (), 0, 0, 0)
        low, high = queue.min_offset, queue.readable_end
        wrong = _wrong_offset(offset, low, high)
        if high < offset <= queue.next_offset:  # stored, and not readable yet: nobody is sent back for that
            wrong = GetStatus.OFFSET_OVERFLOW_ONE, offset
        if wrong is not None:
            return Selection(wrong[0], (), wrong[1], low, high)
        picked: Picked = queue.pick(offset, tag_codes, max_count, max_bytes, self._log.start, max(scan, max_count))
        if picked.next_offset == offset and not picked.full:
            return self._behind_hole(queue, offset, low, high)
        if tag_codes is not None and picked.next_offset < min(high, offset + deep):
            picked = self._pick_on(queue, picked, tag_codes, max_count, max_bytes, offset + deep)
        status = GetStatus.FOUND if picked.ranges else GetStatus.NO_MATCHED_MESSAGE
        return Selection(status, picked.ranges, picked.next_offset, low, high)

    def _behind_hole(self, queue: StoredQueue, offset: int, low: int, high: int) -> Selection:
        """Go on behind a hole.

        Below a queue's end every entry was written, so one that is not there is lost: whoever reads goes on behind it,
        or would stand still for ever. Said once a queue, by the first that comes to it.
        """
        until = queue.skip_missing(offset)
        if (queue.topic, queue.queue_id) not in self._holes:
            self._holes.add((queue.topic, queue.queue_id))
            log.error(
                "QUEUE ENTRIES ARE LOST, readers skip their messages: stop the broker and run `pyromq store rebuild`, "
                "which writes them again from the log, then `pyromq group reset` for groups that have skipped them",
                topic=queue.topic,
                queue=queue.queue_id,
                offset=offset,
                until=until,
            )
        return Selection(GetStatus.NO_MATCHED_MESSAGE, (), until, low, high)

    def _pick_on(
        self,
        queue: StoredQueue,
        picked: Picked,
        tag_codes: Collection[int],
        max_count: int,
        max_bytes: int,
        until: int,
    ) -> Picked:
        """Go on in growing portions where matches are rare: looking at many entries costs less than another request."""
        ranges, at, full, portion = list(picked.ranges), picked.next_offset, picked.full, SCAN_ENTRIES
        left = max_bytes - sum(one.size for one in ranges)
        while not full and at < min(until, queue.readable_end) and len(ranges) < max_count:
            portion = min(portion * 4, until - at)
            if not queue.is_resident(at, portion):
                break
            more = queue.pick(at, tag_codes, max_count - len(ranges), max(left, 0), self._log.start, portion)
            if ranges and more.ranges and more.ranges[0].size > left:  # a pick takes its first whatever its size
                return Picked(ranges, more.ranges[0].queue_offset, True)
            if more.next_offset <= at:
                break
            ranges += more.ranges
            left -= sum(one.size for one in more.ranges)
            at, full = more.next_offset, more.full
        return Picked(ranges, at, full)

    def read_resident(self, ranges: Sequence[Range]) -> list[bytes] | None:
        """Return the records if all are in the page cache, else None. Damaged ones are left out."""
        parts: list[bytes] = []
        for position, length in _merged(ranges):
            part = self._log.read_resident(position, length) if self._log.sequence.has(position) else b""
            if part is None:
                return None
            parts.append(part)
        return self._intact(ranges, parts)

    def read_cold(self, ranges: Sequence[Range]) -> list[bytes]:
        """Return the records, waiting for the medium. For a helper thread; memory is bounded by what was selected."""
        merged = _merged(ranges)
        parts = self._log.read_apart(merged)
        if all(parts) or len(merged) == len(ranges):
            return self._intact(ranges, parts)
        # A part cannot be read: one by one, so that it costs the records in it alone.
        apart = self._log.read_apart([(position, size) for position, size, _ in ranges])
        return [raw for one, part in zip(ranges, apart, strict=True) for raw in self._intact([one], [part])]

    def _intact(self, ranges: Sequence[Range], parts: Sequence[bytes]) -> list[bytes]:
        """Cut what was read together into records, and leave out what is damaged."""
        sealed = cut_sealed(ranges, parts)
        if sealed is not None:
            return sealed
        lacks_crc = self._log.whole_crc.lacks
        records: list[bytes] = []
        pieces = iter(parts)
        part, at, expected = b"", 0, -1
        for position, size, offset in ranges:
            if position != expected:
                part, at = next(pieces), 0
            raw = part[at : at + size]
            at += size
            expected = position + size
            if is_intact(memoryview(raw), position) and not lacks_crc(position, raw[-CRC_PROPERTY_BYTES:]):
                records.append(raw)
            else:
                log.error("a damaged record is skipped", position=position, size=size, queue_offset=offset)
        return records

    # -- by place, key and time ---------------------------------------------------------------------------------------

    def record_at(self, position: int) -> Record | None:
        """Return the record that starts at a position, as message ids say; None if there is none or it is damaged."""
        try:
            head = self._log.read(position, BLANK_BYTES) if 0 <= position < self._readable.value else b""
            if len(head) < BLANK_BYTES:
                return None
            size = BLANK.unpack(head)[0]
            if size < FIXED_BYTES or position + size > self._readable.value:
                return None
            record = decode_record(self._log.read(position, size))
        except (RecordError, DiskError) as fault:
            log.warning("no record can be read here", position=position, why=str(fault))
            return None
        if self._log.whole_crc.lacks(position, record.properties):
            log.error("a record that lost its CRC is not shown", position=position)
            return None
        return record if record.physical_offset == position else None

    def search(self, query: KeyQuery) -> KeySearch | None:
        """Return a search for the positions of records with a key; None if there is no index, or no such key."""
        if self._index is None or len(query.key) > MAX_PROPERTIES_BYTES:
            return None  # no message has such a key, and hashing a megabyte takes its time
        indexed = TAG_MARK + query.key if query.tag else query.key
        limit = min(max(query.limit, 0), _MAX_FOUND)
        return self._index.search(query.topic, indexed, query.begin, query.end, limit)

    def keyed_at(self, position: int, query: KeyQuery) -> Record | None:
        """Return the record at a position if it has key and time: the index knows hashes and whole seconds alone."""
        record = self.record_at(position)
        if record is None or not query.begin <= record.store_timestamp <= query.end:
            return None
        return record if _has_key(record, query.topic, query.key, query.tag) else None

    def offset_by_time(self, topic: str, queue_id: int, time_ms: int, boundary: Boundary = Boundary.LOWER) -> int:
        queue = self._queues.get(topic, queue_id)
        return 0 if queue is None else queue.offset_by_time(time_ms, boundary, self._log.store_time_at)

    def store_time(self, topic: str, queue_id: int, offset: int) -> int:
        """Return the store time of the message at an offset; -1 if there is none."""
        queue = self._queues.get(topic, queue_id)
        entry = None if queue is None or offset >= queue.readable_end else queue.entry_at(offset)
        time = None if entry is None else self._log.store_time_at(entry.position)
        return -1 if time is None else time


def _wrong_offset(offset: int, low: int, high: int) -> tuple[GetStatus, int] | None:
    if high == 0:
        return GetStatus.NO_MESSAGE_IN_QUEUE, 0
    if offset < low:
        return GetStatus.OFFSET_TOO_SMALL, low
    if offset == high:
        return GetStatus.OFFSET_OVERFLOW_ONE, offset
    return (GetStatus.OFFSET_OVERFLOW_BADLY, high) if offset > high else None


def _merged(ranges: Sequence[Range]) -> list[tuple[int, int]]:
    """Return position and length of each stretch of the log in which the records of `ranges` follow each other."""
    if not ranges:
        return []
    merged: list[tuple[int, int]] = []
    begin = end = ranges[0].position
    for position, size, _ in ranges:
        if position != end:
            merged.append((begin, end - begin))
            begin = end = position
        end += size
    merged.append((begin, end - begin))
    return merged


def _has_key(record: Record, topic: str, key: str, tag: bool) -> bool:
    properties = decode_properties(record.properties)
    if record.topic != topic:
        return False
    if tag:
        return properties.get(Property.TAGS) == key
    return key == properties.get(Property.UNIQ_KEY) or key in properties.get(Property.KEYS, "").split(" ")
