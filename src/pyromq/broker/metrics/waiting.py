"""Messages that wait inside the broker: timers, transactions, retries, dead letters, pops in flight."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from ...errors import PyroError
from ...metrics.families import Family, HistogramValue, Merge, MetricKind
from ...model import names
from ...model.wire_text import whole_number
from ...store.message_store import MessageStore
from ...store.timer.timer_store import TimerStore
from ..retries.dead_letters import DeadLetters
from ..stats.events import DELAY_BOUNDS, FINISH_BOUNDS, Events
from ..timing.timers import Timers
from ..transactions.halves import Halves
from .meter import Meter, by_label, with_unit

_LOCAL = {"storage_type": "local", "storage_medium": "disk"}
_SNAPSHOT_S = (5, 60, 300, 900, 3_600, 14_400, 28_800, 86_400)


@dataclass(slots=True, eq=False, repr=False)
class TimerFigures:
    """Event loop only."""

    meter: Meter
    timers: Timers
    store: TimerStore
    now_ms: Callable[[], int]

    async def families(self) -> AsyncIterator[Family]:
        meter, behind = self.meter, self.timers.behind()
        local = meter.labels.of(**_LOCAL)
        lag = whole_number(behind["timerOffsetBehind"]) or 0
        late = whole_number(behind["timerReadBehind"]) or 0
        text = "Timed messages that are not in the wheel yet."
        yield meter.gauge("rocketmq_timer_enqueue_lag", text, [(local, lag)])
        text = "How late the wheel takes messages in; 0 while it is up to date."
        yield with_unit(
            meter.gauge("rocketmq_timer_enqueue_latency_milliseconds", text, [(local, late if lag else 0)]),
            "milliseconds",
        )
        yield meter.gauge("rocketmq_timer_dequeue_lag", "All messages in the wheel.", [(local, self.store.waiting)])
        yield with_unit(
            meter.gauge("rocketmq_timer_dequeue_latency_milliseconds", "How late the wheel is.", [(local, late)]),
            "milliseconds",
        )
        series = [
            (meter.labels.of(topic=topic, **_LOCAL), count) for topic, count in self.timers.counts.by_topic().items()
        ]
        yield meter.gauge("rocketmq_timing_messages", "Timed messages that wait, by the topic they are for.", [*series])
        came = self.timers.counts.came
        left = {**dict.fromkeys(came, 0), **self.timers.counts.left}
        for name, text, moved in (
            ("rocketmq_timer_enqueue_total", "Timed messages that came into the wheel.", came),
            ("rocketmq_timer_dequeue_total", "Timed messages that left the wheel.", left),
        ):
            found = [(meter.labels.of(topic=topic, **_LOCAL), count) for topic, count in moved.items()]
            yield meter.counter(name, text, [*found])
        yield meter.gauge(
            "rocketmq_timer_message_snapshot",
            "Timed messages that are due between the bound before this one and this one.",
            [(meter.labels.of(timer_bound_s=str(bound), **_LOCAL), count) for bound, count in self._due().items()],
        )
        delays = [
            (meter.labels.of(topic=topic, **_LOCAL), HistogramValue(list(one.counts), one.total))
            for topic, one in self.timers.counts.delays.items()
        ]
        name, text = "rocketmq_delay_message_latency_seconds", "Delays that were asked for."
        yield with_unit(Family(name, MetricKind.HISTOGRAM, text, delays, bounds=DELAY_BOUNDS), "seconds")

    def _due(self) -> dict[int, int]:
        now, found, place = self.now_ms(), dict.fromkeys(_SNAPSHOT_S, 0), 0
        for due_ms, count in self.store.counts(_SNAPSHOT_S[-1]):
            while place < len(_SNAPSHOT_S) and due_ms - now > _SNAPSHOT_S[place] * 1_000:
                place += 1
            if place == len(_SNAPSHOT_S):
                break
            found[_SNAPSHOT_S[place]] += count
        return found


@dataclass(slots=True, eq=False, repr=False)
class TransactionMetrics:
    """Event loop only."""

    meter: Meter
    halves: Halves
    leads: bool  # else the half messages are the master's to read
    events: Events
    now_ms: Callable[[], int]

    async def families(self) -> AsyncIterator[Family]:
        meter, events = self.meter, self.events
        if self.leads:
            with suppress(PyroError):  # the loop of checks says what is wrong with the store
                await self.halves.catch_up()
        waiting = {**dict.fromkeys(events.committed, 0), **self.halves.undecided.by_topic}
        yield meter.gauge(
            "rocketmq_half_messages", "Transactions that are undecided.", by_label(meter, "topic", waiting)
        )
        yield meter.counter(
            "rocketmq_commit_messages_total", "Committed transactions.", by_label(meter, "topic", events.committed)
        )
        yield meter.counter(
            "rocketmq_rollback_messages_total",
            "Transactions that were rolled back.",
            by_label(meter, "topic", events.rolled_back),
        )
        finishes = [
            (meter.labels.of(topic=topic), HistogramValue(list(one.counts), one.total))
            for topic, one in events.finishes.items()
        ]
        name = "rocketmq_finish_message_latency_milliseconds"
        text = "From the birth of a transaction to its commit, in SECONDS, whatever the name says: as in Java."
        yield with_unit(Family(name, MetricKind.HISTOGRAM, text, finishes, bounds=FINISH_BOUNDS), "milliseconds")
        name, text = "pyromq_transaction_seconds", "From the birth of a transaction to its commit."
        yield with_unit(Family(name, MetricKind.HISTOGRAM, text, [*finishes], bounds=FINISH_BOUNDS), "seconds")
        oldest: dict[str, int] = {}
        async for half in meter.slices.each(self.halves.undecided.all()):
            oldest[half.topic] = min(half.born_ms, oldest.get(half.topic, half.born_ms))
        now = self.now_ms()
        ages = {topic: max(0, now - born) / 1000 for topic, born in oldest.items()}
        text = "Age of the oldest transaction that is undecided."
        series = by_label(meter, "topic", ages)
        yield with_unit(meter.gauge("pyromq_half_oldest_seconds", text, series, Merge.MOST), "seconds")
        yield meter.counter(
            "pyromq_half_given_up_total",
            "Transactions given up after all their checks.",
            [(meter.labels.of(), sum(events.given_up.values()))],
        )


@dataclass(slots=True, eq=False, repr=False)
class RetryMetrics:
    """Event loop only."""

    meter: Meter
    store: MessageStore
    dead_letters: DeadLetters
    events: Events
    groups: Callable[[], list[str]]  # that consume here
    now_ms: Callable[[], int]

    async def families(self) -> AsyncIterator[Family]:
        meter = self.meter
        sent = [
            (meter.labels.of(consumer_group=group, topic=topic, is_system=meter.is_system(topic, group)), count)
            for (group, topic), count in self.events.dead.items()
        ]
        yield meter.counter("rocketmq_send_to_dlq_messages_total", "Messages given up as dead letters.", [*sent])
        known: dict[str, int] = {group: 0 for group in self.groups() if not names.is_system_group(group)}
        for (group, _), count in self.events.dead.items():
            known[group] = known.get(group, 0) + count
        text = "The same by group; 0 for a group that gave up none, so that the first one is seen as growth."
        yield meter.counter("pyromq_dead_lettered_total", text, by_label(meter, "consumer_group", known))
        dead, leave = dict[str, int](), dict[str, float]()
        files, now = self.store.log_files(), self.now_ms()
        async for queue in meter.slices.each(self.dead_letters.queues()):
            count = queue.readable_end - queue.min_offset
            if not count:
                continue
            group = queue.topic.removeprefix(names.DLQ_PREFIX)
            dead[group] = dead.get(group, 0) + count
            async for oldest in self.dead_letters.read(queue):
                left = max(0, self.dead_letters.leaves_ms(oldest, files) - now) / 1000
                leave[group] = min(left, leave.get(group, left))
                break
        yield meter.gauge("pyromq_dead_letters", "Dead letters in the store.", by_label(meter, "consumer_group", dead))
        text = "Seconds until the oldest dead letter of the group may be deleted."
        series = by_label(meter, "consumer_group", leave)
        yield with_unit(meter.gauge("pyromq_dead_letters_leave_seconds", text, series, Merge.MOST), "seconds")


@dataclass(slots=True, eq=False, repr=False)
class PopMetrics:
    """Event loop only."""

    meter: Meter
    figures: Callable[[], Mapping[str, str]]  # of request 28

    async def families(self) -> AsyncIterator[Family]:
        meter, figures = self.meter, {key: whole_number(text) or 0 for key, text in self.figures().items()}
        points = figures.get("pyromqPopCheckPoints", 0)
        yield meter.gauge("rocketmq_pop_checkpoint_buffer_size", "Check points in memory.", points)
        parked = {
            "in_flight": figures.get("pyromqPopInFlight", 0) + figures.get("pyromqPopStoredInFlight", 0),
            "in_order_in_flight": figures.get("pyromqPopOrderInFlight", 0),
        }
        text = "Popped messages that are not acknowledged."
        yield meter.gauge("pyromq_pop_messages", text, by_label(meter, "state", parked))
        text = "Popped messages that were given again because their time was over."
        revived = figures.get("pyromqPopRevived", 0) + figures.get("pyromqPopStoredRevived", 0)
        yield meter.counter("pyromq_pop_revived_total", text, [(meter.labels.of(), revived)])
        text = "Acknowledgements of popped messages."
        yield meter.counter("pyromq_pop_acked_total", text, [(meter.labels.of(), figures.get("pyromqPopAcked", 0))])
