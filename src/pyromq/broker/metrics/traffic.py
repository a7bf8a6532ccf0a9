"""What came in and went out, by topic and group, from the counters that request 315 answers from, too."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from ...kernel.put_counts import SIZE_BOUNDS
from ...metrics.families import Family, HistogramValue, MetricKind, words
from ...model.names import DLQ_PREFIX, HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC, is_retry
from ..metadata.attributes import MESSAGE_TYPE
from ..metadata.topics import Topics
from ..stats.counters import GROUP_GET_NUMS, GROUP_GET_SIZE, TOPIC_PUT_NUMS, TOPIC_PUT_SIZE, Counters
from .meter import Meter, Series

_PARKED = {HALF_TOPIC: "transaction", TIMER_TOPIC: "delay", SCHEDULE_TOPIC: "delay"}
_DECLARED = {"FIFO": "fifo", "DELAY": "delay", "TRANSACTION": "transaction"}


@dataclass(slots=True, eq=False, repr=False)
class TrafficMetrics:
    """Event loop only."""

    meter: Meter
    counters: Counters
    topics: Topics

    async def families(self) -> AsyncIterator[Family]:
        meter, counters = self.meter, self.counters
        for _ in counters.settling():
            await meter.slices.give_way()
        sums = counters.totals(TOPIC_PUT_NUMS), counters.totals(TOPIC_PUT_SIZE)
        messages, sizes, spread = Series(), Series(), Series()
        async for topic in meter.slices.each(sums[0]):
            if is_retry(topic) or topic.startswith(DLQ_PREFIX):
                continue
            system = words(meter.is_system_topic(topic))
            kinds = self._kinds(topic, sums[0][topic], sums[1].get(topic, 0))
            for kind, (count, size) in kinds.items():
                labels = meter.labels.of(topic=topic, message_type=kind, is_system=system)
                messages.append((labels, count))
                sizes.append((labels, size))
            cells = counters.sizes.get(topic)
            if cells is not None and kinds:
                first = meter.labels.of(topic=topic, message_type=next(iter(kinds)), is_system=system)
                spread.append((first, HistogramValue(list(cells), sums[1].get(topic, 0))))
        yield meter.counter("rocketmq_messages_in_total", "Messages stored by sends.", messages)
        yield meter.counter("rocketmq_throughput_in_total", "Bytes of the records of these messages.", sizes)
        text = "Requests by the mean size of their records, under the commonest message_type; the sum is of all bytes."
        yield Family("rocketmq_message_size", MetricKind.HISTOGRAM, text, spread, bounds=SIZE_BOUNDS)
        async for family in self._out():
            yield family

    def _kinds(self, topic: str, messages: int, size: int) -> dict[str, tuple[int, int]]:
        """Return messages and bytes of a topic by their type, the commonest first."""
        if topic in _PARKED:
            return {_PARKED[topic]: (messages, size)}
        found = {}
        for (name, kind), cell in self.counters.typed.items() if self.counters.typed else ():
            if name == topic:
                found[kind] = (cell[0], cell[1])
                messages, size = messages - cell[0], size - cell[1]
        config = self.topics.find(topic)
        declared = None if config is None else _DECLARED.get(config.attributes.get(MESSAGE_TYPE, ""))
        usual = declared or "normal"
        if messages > 0 or not found:
            before = found.get(usual, (0, 0))
            found[usual] = (before[0] + messages, before[1] + size)
        return dict(sorted(found.items(), key=lambda item: -item[1][0]))

    async def _out(self) -> AsyncIterator[Family]:
        meter = self.meter
        counts, bytes_out = self.counters.totals(GROUP_GET_NUMS), self.counters.totals(GROUP_GET_SIZE)
        messages, sizes = Series(), Series()
        async for pair in meter.slices.each(counts):
            topic, _, group = pair.partition("@")
            if is_retry(topic) or topic.startswith(DLQ_PREFIX):
                continue
            labels = meter.labels.of(topic=topic, consumer_group=group, is_system=meter.is_system(topic, group))
            messages.append((labels, counts[pair]))
            sizes.append((labels, bytes_out.get(pair, 0)))
        yield meter.counter("rocketmq_messages_out_total", "Messages handed out to consumers.", messages)
        yield meter.counter("rocketmq_throughput_out_total", "Bytes of the records of these messages.", sizes)
