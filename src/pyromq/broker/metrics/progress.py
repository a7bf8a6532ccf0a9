"""How far groups are on their topics: what waits, what is in flight, and how old the oldest of it is.

Straight from the tables of offsets, in slices. Store times are read for queues that lag alone, and remembered by queue
and offset. Groups whose consumers are gone keep their lag here, unlike in Java.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ...metrics.families import Family, Merge, words
from ...model import names
from ...model.pop_names import is_pop_retry, normal_topic
from ...store.message_store import MessageStore
from ..clients.consumers import Consumers
from ..metadata.offsets import SEPARATOR, Offsets
from ..metadata.topics import Topics
from .meter import Meter, Series, with_unit

_Place = tuple[str, int, int]  # topic, queue, offset


class _Pair(NamedTuple):
    group: str
    topic: str
    is_retry: bool


@dataclass(slots=True)
class _Progress:
    lag: int = 0
    ready: int = 0
    in_flight: int = 0
    oldest_ms: int = 0  # store time of the oldest message that is not consumed; 0: there is none
    waiting_ms: int = 0  # of the oldest that nobody has taken yet


@dataclass(slots=True, eq=False, repr=False)
class ProgressMetrics:
    """Event loop only."""

    meter: Meter
    topics: Topics
    offsets: Offsets
    consumers: Consumers
    store: MessageStore
    now_ms: Callable[[], int]
    given_end: Callable[[str, str, int], int]  # of pops in order: behind what a queue has in flight
    _times: dict[_Place, int] = field(default_factory=dict)
    _used: dict[_Place, int] = field(default_factory=dict)
    _ends: dict[str, list[tuple[int, int, int]]] = field(default_factory=dict)

    async def families(self) -> AsyncIterator[Family]:
        found: dict[_Pair, _Progress] = {}
        for key, committed in list(self.offsets.all().items()):
            topic, _, group = key.partition(SEPARATOR)
            if SEPARATOR not in group and topic in self.topics and self._is_of_interest(group, topic):
                await self._add(found, topic, group, committed)
        self._times, self._used = self._used, {}
        self._ends.clear()
        now, meter = self.now_ms(), self.meter
        rows = []
        async for pair, progress in meter.slices.each(found.items()):
            system = meter.is_system(pair.topic, pair.group)
            own = {"consumer_group": pair.group, "topic": pair.topic}
            rows.append((meter.labels.of(**own, is_retry=words(pair.is_retry), is_system=system), progress))
        texts = {
            "rocketmq_consumer_lag_messages": ("Messages that the group has not consumed.", _lag),
            "rocketmq_consumer_inflight_messages": ("Messages handed out and not consumed yet.", _in_flight),
            "rocketmq_consumer_ready_messages": ("Messages that nobody has taken yet.", _ready),
        }
        for name, (text, value) in texts.items():
            yield meter.gauge(name, text, [(labels, value(one)) for labels, one in rows])
        ages: dict[str, tuple[str, Series]] = {
            "rocketmq_consumer_lag_latency_milliseconds": (
                "Age of the oldest message that the group has not consumed; 0 without lag.",
                [(labels, _age(now, one.oldest_ms)) for labels, one in rows],
            ),
            "rocketmq_consumer_queueing_latency_milliseconds": (
                "Age of the oldest message that nobody has taken yet; 0 if there is none.",
                [(labels, _age(now, one.waiting_ms)) for labels, one in rows],
            ),
        }
        for name, (text, series) in ages.items():
            yield with_unit(meter.gauge(name, text, series, Merge.MOST), "milliseconds")

    def _is_of_interest(self, group: str, topic: str) -> bool:
        """Return whether its offsets matter: an online group's of topics that it no longer subscribes to do not."""
        members = self.consumers.find(group)
        if members is None or not members.subscriptions or topic in members.subscriptions:
            return True
        return is_pop_retry(topic, group) or topic == names.retry_topic(group)

    async def _add(self, found: dict[_Pair, _Progress], topic: str, group: str, committed: Mapping[int, int]) -> None:
        is_retry = names.is_retry(topic)
        named = normal_topic(topic, group) if is_retry and is_pop_retry(topic, group) else topic
        progress = found.setdefault(_Pair(group, named, is_retry), _Progress())
        pulled = self.offsets.all_pulled().get(f"{topic}{SEPARATOR}{group}", {})
        for queue_id, low, end in self._queues_of(topic):
            done = committed.get(queue_id)
            if done is None:
                continue  # the group has not begun with it
            done = min(max(done, low), end)
            told = pulled.get(queue_id)
            taken = min(end, max(done, 0 if told is None else told.value, self.given_end(topic, group, queue_id)))
            progress.lag += end - done
            progress.in_flight += taken - done
            progress.ready += end - taken
            if done < end:
                time = self._used.get((topic, queue_id, done)) or await self._time(topic, queue_id, done)
                progress.oldest_ms = _older(progress.oldest_ms, time)
            if taken < end:
                time = self._used.get((topic, queue_id, taken)) or await self._time(topic, queue_id, taken)
                progress.waiting_ms = _older(progress.waiting_ms, time)
        await self.meter.slices.give_way_if_due()

    def _queues_of(self, topic: str) -> list[tuple[int, int, int]]:
        """Return number, first offset and end of each queue of a topic, as they are in this scrape."""
        known = self._ends.get(topic)
        if known is None:
            queues = self.store.queues.of_topic(topic) if self.topics.find(topic) is not None else []
            known = self._ends[topic] = [(one.queue_id, one.min_offset, one.readable_end) for one in queues]
        return known

    async def _time(self, topic: str, queue_id: int, offset: int) -> int:
        """Return the store time of a message; 0 if it cannot be read."""
        place = topic, queue_id, offset
        time = self._times.get(place)
        if time is None:
            time = max(0, await self.store.ask(lambda: self.store.reader.store_time(topic, queue_id, offset)))
        self._used[place] = time
        return time


def _lag(progress: _Progress) -> int:
    return progress.lag


def _in_flight(progress: _Progress) -> int:
    return progress.in_flight


def _ready(progress: _Progress) -> int:
    return progress.ready


def _older(known_ms: int, time_ms: int) -> int:
    return min(known_ms, time_ms) if known_ms and time_ms else known_ms or time_ms


def _age(now_ms: int, time_ms: int) -> int:
    return max(0, now_ms - time_ms) if time_ms else 0
