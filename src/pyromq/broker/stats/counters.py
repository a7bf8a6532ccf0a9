"""Counted things over a minute, an hour and a day: what request 315 answers, and the rates in other answers.

Pure: the time is an argument. A counter keeps the running total and a few samples of it; a rate is the difference of
the newest and the oldest sample, as Java's tools expect it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from ...protocol.bodies.stats import BrokerStatsData, BrokerStatsItem

TOPIC_PUT_NUMS, TOPIC_PUT_SIZE = "TOPIC_PUT_NUMS", "TOPIC_PUT_SIZE"
GROUP_GET_NUMS, GROUP_GET_SIZE = "GROUP_GET_NUMS", "GROUP_GET_SIZE"
BROKER_PUT_NUMS, BROKER_GET_NUMS = "BROKER_PUT_NUMS", "BROKER_GET_NUMS"
NAMES = (TOPIC_PUT_NUMS, TOPIC_PUT_SIZE, GROUP_GET_NUMS, GROUP_GET_SIZE, BROKER_PUT_NUMS, BROKER_GET_NUMS)

MINUTE_SAMPLES, MINUTE_S = 7, 10
HOUR_SAMPLES, HOUR_S = 7, 600
DAY_SAMPLES, DAY_S = 25, 3_600


class Counter:
    """One counted thing. `times` is how often something was added."""

    __slots__ = ("day", "hour", "minute", "times", "value")

    def __init__(self) -> None:
        self.value = 0
        self.times = 0
        self.minute: deque[tuple[int, int, int]] = deque(maxlen=MINUTE_SAMPLES)
        self.hour: deque[tuple[int, int, int]] = deque(maxlen=HOUR_SAMPLES)
        self.day: deque[tuple[int, int, int]] = deque(maxlen=DAY_SAMPLES)

    def add(self, amount: int) -> None:
        self.value += amount
        self.times += 1

    def data(self) -> BrokerStatsData:
        return BrokerStatsData(stats_minute=_over(self.minute), stats_hour=_over(self.hour), stats_day=_over(self.day))

    @property
    def is_idle(self) -> bool:
        """Nothing was added for as long as the day's samples reach."""
        return len(self.day) == DAY_SAMPLES and self.day[0][1] == self.value


def _over(samples: deque[tuple[int, int, int]]) -> BrokerStatsItem:
    if len(samples) < 2:
        return BrokerStatsItem()
    (begin, value, times), (end, last_value, last_times) = samples[0], samples[-1]
    amount, adds = last_value - value, last_times - times
    return BrokerStatsItem(
        sum=amount,
        tps=amount * 1000 / (end - begin) if end > begin else 0.0,
        avgpt=amount / adds if adds else 0.0,
    )


class Counters:
    """All counters by name and key. Event loop only."""

    def __init__(self, cluster: str, now_ms: int) -> None:
        self._cluster = cluster
        self._tables: dict[str, dict[str, Counter]] = {name: {} for name in NAMES}
        self._last = now_ms // 1000
        self._born(BROKER_PUT_NUMS, cluster, now_ms)
        self._born(BROKER_GET_NUMS, cluster, now_ms)
        self._now_ms = now_ms

    def put(self, topic: str, queue_id: int, messages: int, size: int) -> None:
        """So many messages were stored."""
        self._counter(TOPIC_PUT_NUMS, topic).add(messages)
        self._counter(TOPIC_PUT_SIZE, topic).add(size)
        self._tables[BROKER_PUT_NUMS][self._cluster].add(messages)

    def got(self, topic: str, group: str, queue_id: int, messages: int, size: int) -> None:
        """So many messages were handed out."""
        key = f"{topic}@{group}"
        self._counter(GROUP_GET_NUMS, key).add(messages)
        self._counter(GROUP_GET_SIZE, key).add(size)
        self._tables[BROKER_GET_NUMS][self._cluster].add(messages)

    def find(self, name: str, key: str) -> Counter | None:
        return self._tables.get(name, {}).get(key)

    def rate(self, name: str, key: str) -> float:
        """Per second, over the last minute."""
        counter = self.find(name, key)
        return 0.0 if counter is None else _over(counter.minute).tps

    @property
    def put_total(self) -> int:
        return self._tables[BROKER_PUT_NUMS][self._cluster].value

    @property
    def got_total(self) -> int:
        return self._tables[BROKER_GET_NUMS][self._cluster].value

    def sample(self, now_ms: int) -> None:
        """To be called every ten seconds or so: takes the samples that are due, forgets what nobody adds to."""
        self._now_ms = now_ms
        now = now_ms // 1000
        hour_is_due, day_is_due = now // HOUR_S != self._last // HOUR_S, now // DAY_S != self._last // DAY_S
        self._last = now
        for counter in self._all():
            point = (now_ms, counter.value, counter.times)
            counter.minute.append(point)
            if hour_is_due:
                counter.hour.append(point)
            if day_is_due:
                counter.day.append(point)
        if day_is_due:
            for table in self._tables.values():
                for key in [key for key, counter in table.items() if counter.is_idle and key != self._cluster]:
                    del table[key]

    def forget_topic(self, topic: str) -> None:
        for table in self._tables.values():
            for key in [key for key in table if key == topic or key.startswith(f"{topic}@")]:
                del table[key]

    def forget_group(self, group: str) -> None:
        for table in self._tables.values():
            for key in [key for key in table if key.endswith(f"@{group}")]:
                del table[key]

    def _all(self) -> Iterator[Counter]:
        for table in self._tables.values():
            yield from table.values()

    def _counter(self, name: str, key: str) -> Counter:
        counter = self._tables[name].get(key)
        return counter if counter is not None else self._born(name, key, self._now_ms)

    def _born(self, name: str, key: str, now_ms: int) -> Counter:
        """Born with a sample of nothing, so that its first messages count."""
        counter = self._tables[name][key] = Counter()
        for samples in (counter.minute, counter.hour, counter.day):
            samples.append((now_ms, 0, 0))
        return counter
