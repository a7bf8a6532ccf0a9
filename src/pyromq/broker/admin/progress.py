"""How far things are: queues of a topic, groups on their topics, what lags behind and by how much (202, 208, 303, 317,
308, 315, 321). Read-only; computed from the store and the offset table when asked, in slices: between two of them
offsets move on, groups and topics come and go."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from ...errors import RequestRefused
from ...model.codes import ResponseCode
from ...protocol.bodies.body import encode_body
from ...protocol.bodies.heartbeat import SubscriptionData
from ...protocol.bodies.keyed import ByQueue
from ...protocol.bodies.offsets import (
    ConsumeStats,
    ConsumeStatsList,
    OffsetWrapper,
    QueryConsumeTimeSpanBody,
    QueryCorrectionOffsetBody,
    QueueTimeSpan,
    TopicOffset,
    TopicStatsTable,
)
from ...protocol.bodies.stats import ConsumeQueueData, QueryConsumeQueueResponseBody
from ...protocol.bodies.topics import TopicConfig
from ...protocol.headers.admin import (
    GetBrokerConsumeStats,
    GetConsumeStats,
    QueryConsumeTimeSpan,
    ViewBrokerStatsData,
    ViewBrokerStatsDataAnswer,
)
from ...protocol.headers.header import TopicName
from ...protocol.headers.offsets import QueryCorrectionOffset
from ...protocol.headers.pull import QueryConsumeQueue
from ...protocol.json import Dialect
from ...transport.dispatch import Reply, RequestOf
from ..clients.filter_data import ConsumerFilters
from ..messages.message_queries import entry_matches
from ..stats.counters import GROUP_GET_NUMS, TOPIC_PUT_NUMS, Counters
from .view import BrokerView

MOST_ENTRIES = 1_000  # of a queue in one answer


@dataclass(slots=True, eq=False, repr=False)
class ProgressAdmin(BrokerView):
    """Event loop only."""

    now_ms: Callable[[], int]
    counters: Counters
    filters: ConsumerFilters
    given_end: Callable[[str, str, int], int]  # of pops in order: the offset behind what a queue has in flight
    stored_in_flight: Callable[[], Mapping[tuple[str, str], int]]  # by group and topic: what has left memory
    is_popped: Callable[[str, str], bool]  # called with topic and group: it pops, and no member pulls a queue

    # --- of a topic -----------------------------------------------------------------------------------------------

    async def topic_stats(self, request: RequestOf[TopicName, None]) -> Reply:
        topic = self._topic(request.header.topic)
        table = TopicStatsTable(topic_put_tps=self.counters.rate(TOPIC_PUT_NUMS, topic.topic_name))
        async for queue_id in self.slices.each(range(max(topic.write_queue_nums, topic.read_queue_nums))):
            low, high = self.offset_range(topic.topic_name, queue_id)
            last = await self._time(topic.topic_name, queue_id, high - 1) if high > 0 else 0
            table.offset_table[self.queue(topic.topic_name, queue_id)] = TopicOffset(
                min_offset=low, max_offset=high, last_update_timestamp=last
            )
        return Reply(body=table)

    # --- of groups ------------------------------------------------------------------------------------------------

    async def consume_stats(self, request: RequestOf[GetConsumeStats, None]) -> Reply:
        header = request.header
        group = header.consumer_group
        listed = [topic for topic in (header.topic_list or "").split(";") if topic.strip()]
        if listed:
            wanted: Iterable[str] = listed
        else:
            one = (header.topic or "").strip()
            wanted = [one] if one else self.offsets.topics_of(group)
            wanted = [topic for topic in wanted if self.is_of_interest(group, topic)]
        table: ByQueue[OffsetWrapper] = ByQueue()
        stored, rate, stored_all = dict[str, int](), 0.0, self.stored_in_flight()
        async for name in self.slices.each(wanted):
            topic = self.topics.find(name)
            if topic is not None:
                if (group, name) in stored_all:
                    stored[name] = stored_all[group, name]
                await self._progress(table, group, topic, topic.read_queue_nums)
                rate += self.counters.rate(GROUP_GET_NUMS, f"{name}@{group}")
        answer = ConsumeStats(offset_table=table, consume_tps=rate, stored_in_flight=stored or None)
        answer.popped = [topic for topic in wanted if self.is_popped(topic, group)] or None
        return Reply(body=answer)

    async def all_consume_stats(self, request: RequestOf[GetBrokerConsumeStats, None]) -> Reply:
        """Answer 317: every group of this broker."""
        only_ordered = request.header.is_order
        answer, stored_all = ConsumeStatsList(broker_addr=self.address), self.stored_in_flight()
        async for group in self.slices.each(list(self.groups.all())):
            stats = []
            for name in self.offsets.topics_of(group):
                topic = self.topics.find(name)
                if topic is None or (only_ordered and not topic.order) or not self.is_of_interest(group, name):
                    continue
                table: ByQueue[OffsetWrapper] = ByQueue()
                await self._progress(table, group, topic, topic.write_queue_nums)
                answer.total_diff += sum(one.difference for one in table.values())
                stored = {name: stored_all[group, name]} if (group, name) in stored_all else None
                of_topic = ConsumeStats(offset_table=table, stored_in_flight=stored)
                answer.total_inflight_diff += of_topic.in_flight
                of_topic.consume_tps = self.counters.rate(GROUP_GET_NUMS, f"{name}@{group}")
                stats.append(of_topic)
            answer.consume_stats_list.append({group: stats})
        return Reply(body=answer)

    async def _progress(self, table: ByQueue[OffsetWrapper], group: str, topic: TopicConfig, queues: int) -> None:
        """Add a group's progress on the queues of a topic to the table."""
        name = topic.topic_name
        async for queue_id in self.slices.each(range(queues)):
            done = max(0, self.offsets.find(name, group, queue_id) or 0)
            pulled = max(done, self.offsets.pulled(name, group, queue_id) or 0, self.given_end(name, group, queue_id))
            last = await self._time(name, queue_id, done - 1) if done > 0 else 0
            table[self.queue(name, queue_id)] = OffsetWrapper(
                broker_offset=self.offset_range(name, queue_id)[1],
                consumer_offset=done,
                pull_offset=pulled,
                last_timestamp=max(0, last),
            )

    async def time_span(self, request: RequestOf[QueryConsumeTimeSpan, None]) -> Reply:
        """Answer 303: how old the oldest message not yet consumed is, by queue."""
        header = request.header
        topic = self._topic(header.topic)
        name = topic.topic_name
        spans = []
        async for queue_id in self.slices.each(range(topic.write_queue_nums)):
            low, high = self.offset_range(name, queue_id)
            first, last = await self._time(name, queue_id, low), await self._time(name, queue_id, high - 1)
            done = self.offsets.find(name, header.group, queue_id)
            consumed = await self._time(name, queue_id, done - 1) if done else first
            next_time = await self._time(name, queue_id, done or 0) if (done or 0) < high else -1
            spans.append(
                QueueTimeSpan(
                    message_queue=self.queue(name, queue_id),
                    min_time_stamp=first,
                    max_time_stamp=last,
                    consume_time_stamp=consumed,
                    delay_time=max(0, self.now_ms() - next_time) if next_time > 0 else 0,
                    min_time_stamp_str=_time_text(first),
                    max_time_stamp_str=_time_text(last),
                    consume_time_stamp_str=_time_text(consumed),
                )
            )
        return Reply(body=QueryConsumeTimeSpanBody(consume_time_span_set=spans))

    async def correction(self, request: RequestOf[QueryCorrectionOffset, None]) -> Reply:
        """Answer 308: the smallest offset of all groups by queue; where the compared group is behind it, a huge one."""
        header = request.header
        left_out = {name.strip() for name in set((header.filter_groups or "").split(","))}
        smallest: dict[int, int] = {}
        async for group in self.slices.each(self.offsets.groups_of(header.topic)):
            if group in left_out:
                continue
            async for queue_id, offset in self.slices.each(list(self.offsets.queues(header.topic, group).items())):
                if offset >= self.offset_range(header.topic, queue_id)[0]:
                    smallest[queue_id] = min(offset, smallest.get(queue_id, offset))
        compared = list(self.offsets.queues(header.topic, header.compare_group).items())
        async for queue_id, offset in self.slices.each(compared):
            if smallest.get(queue_id, 0) > offset:
                smallest[queue_id] = (1 << 63) - 1
        body = QueryCorrectionOffsetBody(correction_offsets=smallest)
        return Reply(body=body)

    # --- counters and entries -------------------------------------------------------------------------------------

    def stats_data(self, request: RequestOf[ViewBrokerStatsData, None]) -> Reply:
        header = request.header
        data = self.counters.data(header.stats_name, header.stats_key)
        if data is None:
            raise RequestRefused(
                f"The stats <{header.stats_name}> <{header.stats_key}> not exist: nothing was counted under it"
            )
        of_day = self.counters.of_day(header.stats_name, header.stats_key)
        return Reply(header=ViewBrokerStatsDataAnswer(sum_of_day=of_day), body=data)

    async def entries(self, request: RequestOf[QueryConsumeQueue, None]) -> Reply:
        """Answer 321: a stretch of a queue, and what a group's filter makes of it."""
        header = request.header
        if header.topic is None:
            raise RequestRefused("the field topic is missing")
        queue = self.store.queues.get(header.topic or "", header.queue_id)
        nothing = Reply(remark=f"Index {header.index} of {header.queue_id}@{header.topic} is not exist!")
        if queue is None:
            return nothing
        body = QueryConsumeQueueResponseBody(max_queue_index=queue.readable_end, min_queue_index=queue.min_offset)
        if header.consumer_group is not None:
            members = self.consumers.find(header.consumer_group)
            body.subscription_data = members.subscriptions.get(header.topic or "") if members is not None else None
            body.filter_data = self._filter_text(header.topic, header.consumer_group, body.subscription_data)
        if not queue.min_offset <= header.index < queue.readable_end:
            return nothing
        end = min(queue.readable_end, header.index + min(header.count, MOST_ENTRIES))
        found = await self.store.ask(lambda: [queue.entry_at(offset) for offset in range(header.index, end)])
        entries = [one for one in found if one is not None]
        record_filter = self.filters.record_filter(header.topic, header.consumer_group or "")
        matches = await entry_matches(self.store, entries, body.subscription_data, record_filter, self.slices)
        body.queue_data = [
            ConsumeQueueData(physic_offset=one.position, physic_size=one.size, tags_code=one.tag_code, eval=is_wanted)
            for one, is_wanted in zip(entries, matches, strict=True)
        ]
        return Reply(body=body)

    def _filter_text(self, topic: str, group: str, wanted: SubscriptionData | None) -> str:
        """Return the filter that a group is known by, as JSON; a group by tags has none."""
        if wanted is None:
            return f"{group}@{topic} is not online!"
        data = self.filters.find(topic, group)
        return "null" if data is None else encode_body(data, Dialect.JAVA).decode()

    # --- shared ---------------------------------------------------------------------------------------------------

    def _topic(self, name: str) -> TopicConfig:
        topic = self.topics.find(name)
        if topic is None:
            raise RequestRefused(f"topic[{name}] not exist", ResponseCode.TOPIC_NOT_EXIST)
        return topic

    async def _time(self, topic: str, queue_id: int, offset: int) -> int:
        return await self.store.ask(lambda: self.store.reader.store_time(topic, queue_id, offset))


def _time_text(time_ms: int) -> str:
    moment = datetime.fromtimestamp(time_ms / 1000)
    return moment.strftime("%Y-%m-%d#%H:%M:%S:") + f"{moment.microsecond // 1000:03d}"
