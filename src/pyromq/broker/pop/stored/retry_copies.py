"""Puts messages whose invisible time is over into their group's retry topic again, in Java's form.

`revive_topic.py` calls it for stored check points. Those of the table are revived by `young/revive.py`, from memory if
it can be. Both put the same copies (`retry_records.py`). A message that retention took meanwhile is counted and said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

from .... import logs
from ....config import Live
from ....errors import RequestRefused
from ....model.message import Property
from ....model.names import RETRY_PREFIX
from ....model.pop_names import normal_topic, retry_topic
from ....protocol.properties import find_property
from ....protocol.record import Record
from ....store.log.reader import KeyQuery
from ...config import BrokerConfig
from ...intake.intake import LogAccess, Outcome
from ...loop_quarantine import LoopQuarantine
from ...metadata.groups import Groups
from ...metadata.offsets import Offsets
from ...metadata.topics import Topics
from ..retry_records import retry_copy

log = logs.get("pyromq.broker")

_UNIQUE = Property.UNIQ_KEY.encode()
MOST_BYTES = 4 << 20  # read at once
INDEX_MS = 1_000  # the index knows times by the second
_SAID_AGAIN_S = 10.0


class Hidden(NamedTuple):
    """Messages of one check point that are neither acked nor changed, and whose time is over."""

    group: str
    topic: str  # the retry topic's name, if it is one
    queue_id: int
    pop_time: int
    revive_ms: int
    offsets: Sequence[int]
    suspend: bool = False  # the attempt does not count

    @property
    def normal_topic(self) -> str:
        return normal_topic(self.topic, self.group)


class Revived(NamedTuple):
    """What became of them. `failed`: offsets whose copies could not be put now, and must be tried again."""

    end: int  # of the last copy in the log; 0: none was put
    failed: Sequence[int] = ()
    why: str = ""


@dataclass(slots=True, eq=False, repr=False)
class RetryCopies:
    """Event loop only."""

    live: Live[BrokerConfig]
    topics: Topics
    groups: Groups
    offsets: Offsets
    access: LogAccess
    quarantine: LoopQuarantine
    put: int = 0  # copies
    gone: int = 0  # messages that retention took while they were in flight
    skipped: int = 0  # messages of topics and groups that were deleted
    _few: logs.Limited = field(init=False)

    def __post_init__(self) -> None:
        self._few = logs.Limited(log, self.access.clock, _SAID_AGAIN_S)

    async def put_again(self, hidden: Hidden, *, doubtful: bool = False) -> Revived:
        """Put a copy of each message. The last ones reach the log in the same turn of the loop in which this returns.

        `doubtful`: before a kill copies may have been put already, and are looked for.
        """
        if hidden.normal_topic not in self.topics or hidden.group not in self.groups:
            self.skipped += len(hidden.offsets)
            return Revived(0)
        end, failed, why, at = 0, list[int](), "", 0
        while at < len(hidden.offsets):
            records, at = await self._read(hidden, at)
            if doubtful:
                records = [record for record in records if not await self._has_copy(hidden, record)]
            share = self._put(hidden, records)
            end, why = max(end, share.end), why or share.why
            failed += share.failed
        return Revived(end, failed, why)

    # --- reading --------------------------------------------------------------------------------------------------

    async def _read(self, hidden: Hidden, at: int) -> tuple[list[Record], int]:
        """Return the messages from one of the offsets on that are read together, and which of them is the next."""
        offsets = hidden.offsets
        run = _run(offsets, at)
        selection = await self.access.store.select(
            hidden.topic, hidden.queue_id, offsets[at], max_count=run, max_bytes=MOST_BYTES, scan=run
        )
        end = at + 1
        while end < at + run and offsets[end] < selection.next_offset:
            end += 1
        wanted = [one for one in selection.ranges if offsets[at] <= one.queue_offset <= offsets[end - 1]]
        raws = await self.access.store.read(replace(selection, ranges=wanted)) if wanted else []
        records = self.quarantine.decode(raws, hidden.topic)
        self._note_gone(hidden, end - at - len(records))
        return records, end

    def _note_gone(self, hidden: Hidden, count: int) -> None:
        if count <= 0:
            return
        self.gone += count
        self._few.warning(
            "MESSAGES IN FLIGHT ARE GONE: retention deleted their log file before they were acked, or it is damaged",
            group=hidden.group,
            topic=hidden.topic,
            queue=hidden.queue_id,
            gone=self.gone,
        )

    # --- copies ---------------------------------------------------------------------------------------------------

    def copy_of(self, hidden: Hidden, record: Record) -> Record:
        """Return the record of the retry topic for a message."""
        queue_id = hidden.queue_id if self.live.config.use_separate_retry_queue else 0
        host = self.access.store_host
        return retry_copy(record, hidden.group, self._target(hidden), queue_id, hidden.pop_time, hidden.suspend, host)

    def _target(self, hidden: Hidden) -> str:
        if hidden.topic.startswith(RETRY_PREFIX):
            return hidden.topic
        return retry_topic(hidden.topic, hidden.group, self.live.config.enable_retry_topic_v2)

    def _put(self, hidden: Hidden, records: Sequence[Record]) -> Revived:
        ends, refused = [0], dict[int, RequestRefused]()
        for record in records:
            try:
                copy = self.copy_of(hidden, record)
            except Exception as fault:
                self.quarantine.put(record, fault)
                continue
            self._ensure_topic(copy.topic, hidden)
            self.access.intake.put(copy, partial(self._done, record, copy, ends, refused))
        self.access.intake.flush()
        return Revived(max(ends), list(refused), str(next(iter(refused.values()), "")))

    def _done(
        self, record: Record, copy: Record, ends: list[int], refused: dict[int, RequestRefused], outcome: Outcome
    ) -> None:
        if outcome.refusal is None:
            placed = outcome.places[-1]
            ends.append(placed.end)
            self.put += 1
            self.access.count(copy.topic, copy.queue_id, 1, placed.size)
        elif not self.quarantine.put_refused(record, outcome.refusal):
            refused[record.queue_offset] = outcome.refusal

    def _ensure_topic(self, name: str, hidden: Hidden) -> None:
        """Make the retry topic at its first message; the group begins at its start."""
        if name in self.topics:
            return
        source = self.topics.find(hidden.normal_topic)
        is_separate = self.live.config.use_separate_retry_queue and source is not None
        queues = source.read_queue_nums if is_separate and source is not None else 1
        self.topics.ensure(name, queues)
        self.offsets.commit_missing(name, hidden.group, dict.fromkeys(range(queues), 0))

    # --- once -----------------------------------------------------------------------------------------------------

    async def _has_copy(self, hidden: Hidden, record: Record) -> bool:
        """Return whether a copy was put before the broker was killed: the index knows, by the message's unique id."""
        unique = find_property(record.properties, _UNIQUE)
        if unique is None:
            return False
        attempts = record.reconsume_times + (not hidden.suspend)
        begin = hidden.revive_ms - INDEX_MS
        query = KeyQuery(self._target(hidden), unique.decode("utf-8", "replace"), begin=begin)
        return any(
            found.reconsume_times == attempts
            and found.physical_offset > record.physical_offset
            and found.born_timestamp == record.born_timestamp
            and found.body == record.body
            for found in await self.access.store.by_key(query)
        )


def _run(offsets: Sequence[int], at: int) -> int:
    """Return how many offsets from one place on follow each other."""
    end = at + 1
    while end < len(offsets) and offsets[end] == offsets[end - 1] + 1:
        end += 1
    return end - at
