"""Offsets and progress: of consumers, of queues, of delay levels."""

from __future__ import annotations

import msgspec

from ...model import lag
from ..ints import Int32, Int64
from .body import Body, DataVersion, always, always_new
from .keyed import ByQueue, MessageQueue


class ConsumerOffsetSerializeWrapper(Body, kw_only=True):
    data_version: DataVersion | None = None
    group_topic_map: dict[str, list[str]] | None = None
    offset_table: dict[str, dict[Int32, Int64]] = always_new(dict)  # committed, by `topic@group` and queue id
    pull_offset_table: dict[str, dict[Int32, Int64]] | None = None


class DelayOffsetSerializeWrapper(Body, kw_only=True):
    data_version: DataVersion | None = None
    offset_table: dict[Int32, Int64] = always_new(dict)  # by delay level


class OffsetWrapper(Body, kw_only=True):
    broker_offset: Int64 = always(0)
    consumer_offset: Int64 = always(0)
    last_timestamp: Int64 = always(0)
    pull_offset: Int64 = always(0)

    @property
    def difference(self) -> int:
        return lag.difference(self.broker_offset, self.consumer_offset)

    @property
    def lag(self) -> int:
        return lag.lag(self.broker_offset, self.consumer_offset)

    @property
    def in_flight(self) -> int:
        """Return how many were pulled and are not committed: below zero where an offset was set back by hand."""
        return lag.difference(self.pull_offset, self.consumer_offset)


class ConsumeStats(Body, kw_only=True):
    consume_tps: float = always(0.0)
    offset_table: ByQueue[OffsetWrapper] = always_new(ByQueue)
    # Ours alone: popped messages that a committed offset has passed and nobody has acknowledged, by topic.
    stored_in_flight: dict[str, Int64] | None = msgspec.field(default=None, name="pyromqStoredInFlight")
    popped: list[str] | None = msgspec.field(default=None, name="pyromqPopped")  # ours too: topics that it only pops

    @property
    def in_flight(self) -> int:
        """Return how many were pulled and are not committed, or popped and not acknowledged."""
        return sum(at.in_flight for at in self.offset_table.values()) + sum((self.stored_in_flight or {}).values())

    @property
    def difference(self) -> int:
        return sum(at.difference for at in self.offset_table.values())

    @property
    def lag(self) -> int:
        return sum(at.lag for at in self.offset_table.values())


class ConsumeStatsList(Body, kw_only=True):
    broker_addr: str | None = None
    consume_stats_list: list[dict[str, list[ConsumeStats]]] = always_new(list)  # maps with one group each
    total_diff: Int64 = always(0)
    total_inflight_diff: Int64 = always(0)


class TopicOffset(Body, kw_only=True):
    last_update_timestamp: Int64 = always(0)
    max_offset: Int64 = always(0)
    min_offset: Int64 = always(0)

    @property
    def count(self) -> int:
        return self.max_offset - self.min_offset


class TopicStatsTable(Body, kw_only=True):
    offset_table: ByQueue[TopicOffset] = always_new(ByQueue)
    topic_put_tps: float = always(0.0)

    @property
    def count(self) -> int:
        return sum(queue.count for queue in self.offset_table.values())


class ResetOffsetBody(Body, kw_only=True):
    offset_table: ByQueue[Int64] = always_new(ByQueue)


class MessageQueueForC(Body, kw_only=True):
    broker_name: str
    offset: Int64 = always(0)
    queue_id: Int32 = always(0)
    topic: str


class ResetOffsetBodyForC(Body, kw_only=True):
    """The same as a list, for C++ clients, which read no object keys."""

    offset_table: list[MessageQueueForC] = always_new(list)


class GetConsumerStatusBody(Body, kw_only=True):
    """Offsets that clients hold: one client's by queue, or all clients' by client id."""

    consumer_table: dict[str, ByQueue[Int64]] = always_new(dict)
    message_queue_table: ByQueue[Int64] = always_new(ByQueue)


class QueryCorrectionOffsetBody(Body, kw_only=True):
    correction_offsets: dict[Int32, Int64] = always_new(dict)


class QueueTimeSpan(Body, kw_only=True):
    """The texts repeat the times as `yyyy-MM-dd#HH:mm:ss:SSS` of the broker's zone; nobody reads them back."""

    consume_time_stamp: Int64 = always(0)
    consume_time_stamp_str: str | None = None
    delay_time: Int64 = always(0)
    max_time_stamp: Int64 = always(0)
    max_time_stamp_str: str | None = None
    message_queue: MessageQueue | None = None
    min_time_stamp: Int64 = always(0)
    min_time_stamp_str: str | None = None


class QueryConsumeTimeSpanBody(Body, kw_only=True):
    consume_time_span_set: list[QueueTimeSpan] = always_new(list)


class BatchAck(Body, kw_only=True):
    """Acks of one pop: bit i of the base64 text `b` (little end first) stands for offset `so` + i."""

    b: str = ""
    c: str  # consumer group
    it: Int64 = always(0)  # invisible time
    pt: Int64 = always(0)  # pop time
    q: Int32 = always(0)  # queue id
    r: str = always("0")  # retry mark of the topic
    rq: Int32 = always(0)  # revive queue
    so: Int64 = always(0)  # start offset
    t: str  # topic


class BatchAckMessageRequestBody(Body, kw_only=True):
    acks: list[BatchAck] = always_new(list)
    broker_name: str | None = None
