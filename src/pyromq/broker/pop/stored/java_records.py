"""Check points and acks as Java's broker stores them: bodies, keys and properties of the revive topic's records.

`spill.py` writes them, `revive_topic.py` reads them, whoever wrote them. A record goes to the revive topic's queue that
the receipt names, at its delivery time: until then it waits in the timer topic like any timed message. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, NamedTuple, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from ....errors import PyroError
from ....model.message import Property
from ....model.wire_text import LONG_MAX, whole_number
from ....protocol.properties import decode_properties, encode_properties
from ....protocol.record import Record

CHECK_POINT_TAG, ACK_TAG, BATCH_ACK_TAG = "ck", "ack", "bAck"
MOST_MESSAGES = 32  # of a check point: Java's bits are those of an int
ACK_INTERVAL_MS = 1_000  # a check point is delivered so long before its time, so that its acks come behind it
NOT_ONE = -1  # `ao` of a batch ack
_MOST_PUTS = 127  # what Java makes of a counter that is no number
# Seconds added to the invisible time of a check point whose messages cannot be put, by how often that was tried.
PUT_AGAIN_S = (10, 20, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)

Long: TypeAlias = Annotated[int, msgspec.Meta(ge=-LONG_MAX - 1, le=LONG_MAX)]
Int: TypeAlias = Annotated[int, msgspec.Meta(ge=-(1 << 31), le=(1 << 31) - 1)]


class StoredCheckPoint(msgspec.Struct, frozen=True, kw_only=True):
    """Body of a check point, keys in the order in which Java writes them."""

    bits: Int = msgspec.field(name="bm", default=0)
    broker: str = msgspec.field(name="bn", default="")
    group: str = msgspec.field(name="c")
    gaps: list[Int] | None = msgspec.field(name="d", default=None)  # offset = start + gap; None: one after the other
    invisible_ms: Long = msgspec.field(name="it", default=0)
    count: Annotated[int, msgspec.Meta(ge=0, le=MOST_MESSAGES)] = msgspec.field(name="n", default=0)
    pop_time: Long = msgspec.field(name="pt", default=0)
    queue_id: Int = msgspec.field(name="q", default=0)
    revive_time: Long = msgspec.field(name="reviveTime", default=0)  # written, never read: the sum of the two counts
    revive_offset: Long = msgspec.field(name="ro", default=0)
    puts: str | UnsetType | None = msgspec.field(name="rp", default=UNSET)
    start: Long = msgspec.field(name="so", default=0)
    suspend: bool = msgspec.field(name="sp", default=False)
    topic: str = msgspec.field(name="t")

    @property
    def revive_ms(self) -> int:
        return self.pop_time + self.invisible_ms

    @property
    def deliver_ms(self) -> int:
        return self.revive_ms - ACK_INTERVAL_MS

    @property
    def offsets(self) -> list[int]:
        """Return the offsets of its messages; bit i stands for the i-th."""
        if not self.gaps:
            return list(range(self.start, self.start + self.count))
        return [self.start + gap for gap in self.gaps[: self.count]]

    @property
    def open_offsets(self) -> set[int]:
        """Return the offsets of messages that were not acked when it was written."""
        return {offset for bit, offset in enumerate(self.offsets) if not self.bits >> bit & 1}

    @property
    def put_again(self) -> int:
        """Return how often it was put again because a message could not be revived."""
        if not isinstance(self.puts, str):
            return 0
        number = whole_number(self.puts)
        return _MOST_PUTS if number is None else number


class StoredAck(msgspec.Struct, frozen=True, kw_only=True):
    """Body of an ack, or with `offsets` of a batch ack. `broker` is missing in those that Java's buffer wrote."""

    offset: Long = msgspec.field(name="ao", default=NOT_ONE)
    offsets: list[Long] | UnsetType = msgspec.field(name="aol", default=UNSET)
    broker: str | UnsetType | None = msgspec.field(name="bn", default=UNSET)
    group: str = msgspec.field(name="c")
    pop_time: Long = msgspec.field(name="pt", default=0)
    queue_id: Int = msgspec.field(name="q", default=0)
    start: Long = msgspec.field(name="so", default=0)
    topic: str = msgspec.field(name="t")

    @property
    def acked(self) -> Sequence[int]:
        return self.offsets if isinstance(self.offsets, list) else (self.offset,)


class PointKey(NamedTuple):
    """By what an ack finds its check point. Java joins these without separators; here they cannot run together."""

    topic: str
    group: str
    queue_id: int
    start: int
    pop_time: int
    broker: str


class RevivePlace(NamedTuple):
    """Where records of one revive queue go, and who writes them."""

    topic: str
    queue_id: int
    host: bytes


class RecordUnfit(PyroError):
    """A record of the revive topic is not one of a check point or an ack; the text says why."""


_POINT, _ACK = msgspec.json.Decoder(StoredCheckPoint), msgspec.json.Decoder(StoredAck)


def stored_point(
    names: tuple[str, str, int],
    broker: str,
    start: int,
    pop_time: int,
    invisible_ms: int,
    offsets: Iterable[int],
    *,
    suspend: bool = False,
    put_again: int = 0,
) -> StoredCheckPoint:
    """Return the check point of these messages, for a lane's group, topic and queue."""
    group, topic, queue_id = names
    gaps = [offset - start for offset in offsets]
    return StoredCheckPoint(
        broker=broker,
        group=group,
        gaps=gaps,
        invisible_ms=invisible_ms,
        count=len(gaps),
        pop_time=pop_time,
        queue_id=queue_id,
        revive_time=pop_time + invisible_ms,
        puts=str(put_again) if put_again else UNSET,
        start=start,
        suspend=suspend,
        topic=topic,
    )


def later_point(point: StoredCheckPoint, offset: int) -> StoredCheckPoint:
    """Return a check point of one of its messages, which could not be given again, for a later try."""
    later_ms = PUT_AGAIN_S[min(point.put_again, len(PUT_AGAIN_S) - 1)] * 1000
    return stored_point(
        (point.group, point.topic, point.queue_id),
        point.broker,
        offset,
        point.pop_time,
        point.invisible_ms + later_ms,
        [offset],
        suspend=point.suspend,
        put_again=point.put_again + 1,
    )


def point_key(point: StoredCheckPoint) -> PointKey:
    return PointKey(point.topic, point.group, point.queue_id, point.start, point.pop_time, point.broker)


def key_of_ack(ack: StoredAck, this_broker: str) -> PointKey:
    broker = ack.broker if isinstance(ack.broker, str) and ack.broker.strip() else this_broker
    return PointKey(ack.topic, ack.group, ack.queue_id, ack.start, ack.pop_time, broker)


# --- to records -------------------------------------------------------------------------------------------------------


def point_record(point: StoredCheckPoint, place: RevivePlace, now_ms: int) -> Record:
    """Return the record of the revive topic for a check point; a timer park makes it wait until its time."""
    words = (point.topic, point.queue_id, point.start, point.group, point.pop_time, point.broker, CHECK_POINT_TAG)
    return _record(msgspec.json.encode(point), CHECK_POINT_TAG, words, point.deliver_ms, place, now_ms)


def ack_record(ack: StoredAck, revive_ms: int, place: RevivePlace, now_ms: int) -> Record:
    """Return the record of an ack, or of a batch ack: its key is that of an ack of offset -1, as Java's is."""
    broker = ack.broker if isinstance(ack.broker, str) else ""
    words = (ack.topic, ack.queue_id, ack.offset, ack.group, ack.pop_time, broker, ACK_TAG)
    tag = ACK_TAG if isinstance(ack.offsets, UnsetType) else BATCH_ACK_TAG
    return _record(msgspec.json.encode(ack), tag, words, revive_ms, place, now_ms)


def _record(
    body: bytes, tag: str, words: Sequence[str | int], deliver_ms: int, place: RevivePlace, now_ms: int
) -> Record:
    pairs = {
        Property.TIMER_DELIVER_MS: str(deliver_ms),
        Property.UNIQ_KEY: "@".join(map(str, words)),
        Property.TAGS: tag,
    }
    return Record(
        topic=place.topic,
        queue_id=place.queue_id,
        body=body,
        properties=encode_properties(pairs),
        born_timestamp=now_ms,
        born_host=place.host,
        store_host=place.host,
    )


# --- from records ----------------------------------------------------------------------------------------------------


class ReviveEntry(NamedTuple):
    """What a record of the revive topic says, and the timer's slot in which it waited (0: in none)."""

    content: StoredCheckPoint | StoredAck
    slot_ms: int


def read_entry(record: Record) -> ReviveEntry | None:
    """Return what a record says; None if its tag is none of Java's. RecordUnfit says why it cannot be understood."""
    pairs = decode_properties(record.properties)
    tag = pairs.get(Property.TAGS)
    if tag not in (CHECK_POINT_TAG, ACK_TAG, BATCH_ACK_TAG):
        return None
    slot_ms = whole_number(pairs.get(Property.TIMER_OUT_MS)) or 0
    try:
        content = _POINT.decode(record.body) if tag == CHECK_POINT_TAG else _ACK.decode(record.body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as fault:
        raise RecordUnfit(f"the body of a record with tag {tag} cannot be read: {fault}") from None
    if isinstance(content, StoredCheckPoint) and content.gaps and len(content.gaps) < content.count:
        raise RecordUnfit(f"a check point of {content.count} messages names {len(content.gaps)} of them")
    return ReviveEntry(content, slot_ms)
