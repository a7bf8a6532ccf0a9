"""Counted things over a minute, an hour and a day: what request 315 answers, and the rates in other answers.

Pure: the time is an argument. Counting a message is two additions on a cell of its queue; what the cells hold goes
to the named counters (`trails.py`) when they are sampled or asked for, so that many names cost a send nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from ...kernel.put_counts import SIZE_BOUNDS, PutCount
from ...model import names
from ...protocol.bodies.stats import BrokerStatsData
from .events import Events
from .trails import Counter, Spans


class PutCounter(Protocol):
    """Counts messages that were stored in a queue, by so many requests."""

    def __call__(self, topic: str, queue_id: int, messages: int, size: int, requests: int = 1, /) -> None: ...


TOPIC_PUT_NUMS, TOPIC_PUT_SIZE = "TOPIC_PUT_NUMS", "TOPIC_PUT_SIZE"
QUEUE_PUT_NUMS, QUEUE_PUT_SIZE = "QUEUE_PUT_NUMS", "QUEUE_PUT_SIZE"
QUEUE_GET_NUMS, QUEUE_GET_SIZE = "QUEUE_GET_NUMS", "QUEUE_GET_SIZE"
GROUP_GET_NUMS, GROUP_GET_SIZE = "GROUP_GET_NUMS", "GROUP_GET_SIZE"
GROUP_GET_LATENCY = "GROUP_GET_LATENCY"
GROUP_FROM_DISK_NUMS, GROUP_FROM_DISK_SIZE = "GROUP_GET_FROM_DISK_NUMS", "GROUP_GET_FROM_DISK_SIZE"
TOPIC_PUT_MISTYPED = "TOPIC_PUT_MISTYPED"  # ours: by topic and type, messages that do not fit message.type
BROKER_PUT_NUMS, BROKER_GET_NUMS = "BROKER_PUT_NUMS", "BROKER_GET_NUMS"
BROKER_FROM_DISK_NUMS, BROKER_FROM_DISK_SIZE = "BROKER_GET_FROM_DISK_NUMS", "BROKER_GET_FROM_DISK_SIZE"
USER_PUT_NUMS, USER_GET_NUMS = "BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC", "BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC"
OF_BROKER = (
    BROKER_PUT_NUMS,
    BROKER_GET_NUMS,
    USER_PUT_NUMS,
    USER_GET_NUMS,
    BROKER_FROM_DISK_NUMS,
    BROKER_FROM_DISK_SIZE,
)

_SLICE = 500  # cells or counters between two chances for others to run


@dataclass(slots=True)
class _Puts:
    """What one queue got since the counters were told last."""

    messages: int = 0
    size: int = 0
    times: int = 0


@dataclass(slots=True)
class _Gets(_Puts):
    """What one group took from one queue; `ms` is how long that took in all."""

    disk_messages: int = 0
    disk_size: int = 0
    disk_times: int = 0
    ms: float = 0.0


class Counters:
    """All counters by name and key. Event loop only."""

    def __init__(self, cluster: str, now_ms: int) -> None:
        self._cluster = cluster
        self._tables: defaultdict[str, dict[str, Counter]] = defaultdict(dict)
        self._puts: dict[tuple[str, int], _Puts] = {}
        self._gets: dict[tuple[str, str, int], _Gets] = {}
        self._spans = Spans(now_ms)
        self._now_ms = now_ms
        self.sources: list[Callable[[], None]] = []  # each tells what it has counted for itself, by `put` or `got`
        self._put_total = self._put_bytes = self._got_total = 0
        self.typed: defaultdict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
        self.sizes: defaultdict[str, list[int]] = defaultdict(lambda: [0] * (len(SIZE_BOUNDS) + 1))
        self.events = Events()
        self.by_kernel = [0, 0]  # sends and pulls that a kernel has answered
        for name in OF_BROKER:
            self._counter(name, cluster)

    # --- counting -------------------------------------------------------------------------------------------------

    def put(self, topic: str, queue_id: int, messages: int, size: int, requests: int = 1) -> None:
        cell = self._puts.get((topic, queue_id))
        if cell is None:
            cell = self._puts[topic, queue_id] = _Puts()
        cell.messages += messages
        cell.size += size
        cell.times += requests
        self._put_total += messages
        self._put_bytes += size
        if requests == 1:
            self.sizes[topic][bisect_left(SIZE_BOUNDS, size // messages)] += 1

    def put_by_kernel(self, count: PutCount) -> None:
        """Count what a kernel has stored in a queue."""
        topic, queue_id, messages, size, requests, sizes, ordered = count
        self.put(topic, queue_id, messages, size, 0)
        self._puts[topic, queue_id].times += requests
        self.by_kernel[0] += requests
        counts = self.sizes[topic]
        for place, requests_of_size in enumerate(sizes):
            counts[place] += requests_of_size
        if ordered[0]:
            self.put_typed(topic, "fifo", *ordered)

    def put_typed(self, topic: str, kind: str, messages: int, size: int) -> None:
        """Note that messages which were counted by `put` are more than plain ones."""
        cell = self.typed[topic, kind]
        cell[0] += messages
        cell[1] += size

    def mistyped(self, topic: str, given: str) -> None:
        """Count a message of another type than its topic is for."""
        self._add(TOPIC_PUT_MISTYPED, f"{topic}@{given}", 1, 1)

    def got(
        self,
        topic: str,
        group: str,
        queue_id: int,
        messages: int,
        size: int,
        ms: float = 0.0,
        from_disk: bool = False,
        times: int = 1,
    ) -> None:
        """Count messages that were handed out in so many answers, none or all of them from the medium."""
        cell = self._gets.get((topic, group, queue_id))
        if cell is None:
            cell = self._gets[topic, group, queue_id] = _Gets()
        cell.messages += messages
        cell.size += size
        cell.times += times
        cell.ms += ms
        if from_disk:
            cell.disk_messages += messages
            cell.disk_size += size
            cell.disk_times += times
        self._got_total += messages

    # --- asking ---------------------------------------------------------------------------------------------------

    @property
    def put_total(self) -> int:
        self._ask_sources()
        return self._put_total

    @property
    def put_bytes(self) -> int:
        self._ask_sources()
        return self._put_bytes

    @property
    def got_total(self) -> int:
        self._ask_sources()
        return self._got_total

    def _ask_sources(self) -> None:
        for settle in self.sources:
            settle()

    def table(self, name: str) -> Mapping[str, Counter]:
        """Return the counters of a name by key, for who goes through them all."""
        self._settle()
        return self._tables.get(name, {})

    def find(self, name: str, key: str) -> Counter | None:
        self._settle()
        return self._tables.get(name, {}).get(key)

    def data(self, name: str, key: str) -> BrokerStatsData | None:
        """Return the answer to request 315; None: nothing was ever counted under it."""
        counter = self.find(name, key)
        return None if counter is None else self._spans.data(counter)

    def of_day(self, name: str, key: str) -> int:
        """Return what the last day had, nothing left out: `data` knows it by points alone."""
        counter = self.find(name, key)
        return 0 if counter is None else self._spans.of_day(counter)

    def mistyped_of_day(self) -> dict[tuple[str, str], int]:
        """Return, by topic and type, what the last day had of messages that did not fit."""
        counts = {key: self._spans.of_day(one) for key, one in self._tables[TOPIC_PUT_MISTYPED].items()}
        return {(key.rpartition("@")[0], key.rpartition("@")[2]): count for key, count in counts.items() if count}

    def rate(self, name: str, key: str) -> float:
        """Return the rate per second, over the last minute."""
        data = self.data(name, key)
        return 0.0 if data is None else data.stats_minute.tps

    # --- sampling -------------------------------------------------------------------------------------------------

    def sample(self, now_ms: int) -> None:
        """Take the samples that are due, every ten seconds or so, and forget what nobody adds to."""
        for _ in self.sampling(now_ms):
            pass

    def sampling(self, now_ms: int) -> Iterator[None]:
        """Sample in slices, one per step of the iterator, for a broker with very many queues."""
        yield from self._settling()
        self._now_ms = now_ms
        yield from self._spans.sampling(now_ms, _SLICE)
        if self._spans.day_has_ended:
            for name, table in list(self._tables.items()):
                if name not in OF_BROKER:
                    for key in [key for key, counter in table.items() if self._spans.is_idle(counter)]:
                        del table[key]
                        if name == TOPIC_PUT_NUMS:
                            self._forget_kinds(key)
                yield

    def totals(self, name: str) -> Mapping[str, int]:
        """Return the sums of all keys since each was first seen. Exhaust `settling` before."""
        return {key: counter.value for key, counter in self._tables.get(name, {}).items()}

    def settling(self) -> Iterator[None]:
        """Bring the named counters up to now, in slices."""
        return self._settling()

    def forget_topic(self, topic: str) -> None:
        self._settle()
        self._forget_kinds(topic)
        self.events.forget_topic(topic)
        for name, table in self._tables.items():
            infix = name == GROUP_GET_LATENCY
            for key in [key for key in table if key == topic or _is_of(key, topic, infix)]:
                del table[key]

    def forget_group(self, group: str) -> None:
        self._settle()
        self.events.forget_group(group)
        for table in self._tables.values():
            for key in [key for key in table if key.endswith(f"@{group}")]:
                del table[key]

    def _forget_kinds(self, topic: str) -> None:
        self.sizes.pop(topic, None)
        for key in [key for key in self.typed if key[0] == topic]:
            del self.typed[key]

    # --- from cells to counters -----------------------------------------------------------------------------------

    def _settling(self) -> Iterator[None]:
        """Settle cell by cell, so that whoever counts or asks meanwhile misses nothing that was told already.

        Whoever asks settles what is left, so a cell may be gone when its turn comes.
        """
        self._ask_sources()
        for number, place in enumerate(list(self._puts), 1):
            if (put := self._puts.pop(place, None)) is not None:
                self._settle_put(*place, put)
            if not number % _SLICE:
                yield
        for number, key in enumerate(list(self._gets), 1):
            if (got := self._gets.pop(key, None)) is not None:
                self._settle_got(*key, got)
            if not number % _SLICE:
                yield

    def _settle(self) -> None:
        for _ in self._settling():
            pass

    def _settle_put(self, topic: str, queue_id: int, cell: _Puts) -> None:
        messages, size, times = cell.messages, cell.size, cell.times
        self._add(TOPIC_PUT_NUMS, topic, messages, times)
        self._add(TOPIC_PUT_SIZE, topic, size, times)
        queue = f"{topic}@{queue_id}"
        self._add(QUEUE_PUT_NUMS, queue, messages, times)
        self._add(QUEUE_PUT_SIZE, queue, size, times)
        self._add(BROKER_PUT_NUMS, self._cluster, messages, times)
        if not names.is_system_topic(topic):
            self._add(USER_PUT_NUMS, self._cluster, messages, times)

    def _settle_got(self, topic: str, group: str, queue_id: int, cell: _Gets) -> None:
        messages, size, times = cell.messages, cell.size, cell.times
        pair, queue = f"{topic}@{group}", f"{topic}@{queue_id}@{group}"
        self._add(GROUP_GET_NUMS, pair, messages, times)
        self._add(GROUP_GET_SIZE, pair, size, times)
        self._add(QUEUE_GET_NUMS, queue, messages, times)
        self._add(QUEUE_GET_SIZE, queue, size, times)
        self._add(GROUP_GET_LATENCY, f"{queue_id}@{pair}", round(cell.ms), times)
        self._add(BROKER_GET_NUMS, self._cluster, messages, times)
        if not names.is_system_topic(topic):
            self._add(USER_GET_NUMS, self._cluster, messages, times)
        if cell.disk_times:
            self._add(GROUP_FROM_DISK_NUMS, pair, cell.disk_messages, cell.disk_times)
            self._add(GROUP_FROM_DISK_SIZE, pair, cell.disk_size, cell.disk_times)
            self._add(BROKER_FROM_DISK_NUMS, self._cluster, cell.disk_messages, cell.disk_times)
            self._add(BROKER_FROM_DISK_SIZE, self._cluster, cell.disk_size, cell.disk_times)

    def _add(self, name: str, key: str, amount: int, times: int) -> None:
        counter = self._counter(name, key)
        counter.value += amount
        counter.times += times
        self._spans.changed(counter)

    def _counter(self, name: str, key: str) -> Counter:
        table = self._tables[name]
        if key not in table:
            table[key] = Counter(self._now_ms)
        return table[key]


def _is_of(key: str, topic: str, infix: bool) -> bool:
    return f"@{topic}@" in key if infix else key.startswith(f"{topic}@")
