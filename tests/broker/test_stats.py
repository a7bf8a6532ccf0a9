"""Counters and rates: what the last minute, hour and day had, and in which words it is told."""

from __future__ import annotations

import pytest

from pyromq.broker.stats.counters import (
    BROKER_FROM_DISK_NUMS,
    BROKER_PUT_NUMS,
    GROUP_FROM_DISK_SIZE,
    GROUP_GET_LATENCY,
    GROUP_GET_NUMS,
    QUEUE_GET_NUMS,
    QUEUE_PUT_NUMS,
    QUEUE_PUT_SIZE,
    TOPIC_PUT_NUMS,
    USER_PUT_NUMS,
    Counters,
)
from pyromq.broker.stats.put_times import PutTimes
from pyromq.broker.stats.rates import ByDay, Rates, Totals, bytes_text, duration_text

T0 = 1_700_000_000_000


def test_a_minute_is_the_difference_of_its_samples() -> None:
    counters = Counters("C", T0)
    for step in range(1, 13):
        counters.put("T", 0, 5, 500)
        counters.sample(T0 + step * 10_000)
    data = counters.data(TOPIC_PUT_NUMS, "T")
    assert data is not None
    assert (data.stats_minute.sum, data.stats_minute.tps, data.stats_minute.avgpt) == (30, 0.5, 5.0)
    assert counters.rate(TOPIC_PUT_NUMS, "T") == 0.5
    assert counters.rate(BROKER_PUT_NUMS, "C") == 0.5
    assert counters.put_total == 60


def test_what_was_never_counted_has_no_counter_and_no_rate() -> None:
    counters = Counters("C", T0)
    assert counters.find(TOPIC_PUT_NUMS, "T") is None
    assert counters.find("NONSENSE", "T") is None
    assert counters.rate(TOPIC_PUT_NUMS, "T") == 0


def test_an_hour_and_a_day_have_their_own_samples() -> None:
    counters = Counters("C", T0)
    for step in range(1, 2 * 360 + 1):  # two hours
        counters.put("T", 0, 1, 1)
        counters.sample(T0 + step * 10_000)
    data = counters.data(TOPIC_PUT_NUMS, "T")
    assert data is not None
    assert 300 <= data.stats_hour.sum <= 360
    assert data.stats_hour.tps == pytest.approx(0.1)
    assert data.stats_day.sum > data.stats_hour.sum


def test_the_count_of_a_day_never_falls_within_the_day() -> None:
    """The samples of request 315 do: a minute has forgotten it, and the next point of the hour is yet to come."""
    hour = 3_600_000
    counters = Counters("C", T0)
    counters.put("T", 0, 5, 5)
    counts: list[int] = []
    for minute in range(1, 24 * 60 + 1):
        counters.sample(T0 + minute * 60_000)
        counts.append(counters.of_day(TOPIC_PUT_NUMS, "T"))
        if minute == 100:
            counters.put("T", 1, 2, 2)
    assert counts == [5] * 100 + [7] * 1340
    counters.put("T", 0, 1, 1)
    assert counters.of_day(TOPIC_PUT_NUMS, "T") == 8  # at once
    counters.sample(T0 + 25 * hour)
    assert counters.of_day(TOPIC_PUT_NUMS, "T") == 3  # a day later the first ones are out
    counters.sample(T0 + 50 * hour)
    assert counters.of_day(TOPIC_PUT_NUMS, "T") == 0
    assert counters.of_day(TOPIC_PUT_NUMS, "U") == 0


def test_what_nobody_adds_to_for_a_day_is_forgotten() -> None:
    counters = Counters("C", T0)
    counters.put("T", 0, 1, 1)
    counters.got("T", "G", 0, 1, 1)
    for hour in range(30):
        counters.sample(T0 + hour * 3_600_000)
    assert counters.find(TOPIC_PUT_NUMS, "T") is None
    assert counters.find(BROKER_PUT_NUMS, "C") is not None


def test_a_deleted_topic_or_group_takes_its_counters_along() -> None:
    counters = Counters("C", T0)
    for topic in ("T", "U"):
        counters.put(topic, 0, 1, 1)
        for group in ("G", "H"):
            counters.got(topic, group, 0, 1, 1)
    counters.forget_topic("T")
    counters.forget_group("H")
    assert counters.find(TOPIC_PUT_NUMS, "T") is None
    assert counters.find(GROUP_GET_NUMS, "T@G") is None
    assert counters.find(GROUP_GET_NUMS, "U@H") is None
    assert counters.find(GROUP_GET_NUMS, "U@G") is not None


def test_queues_disk_and_system_topics_are_counted_by_name() -> None:
    counters = Counters("C", T0)
    counters.put("T", 3, 5, 500)
    counters.put("SCHEDULE_TOPIC_XXXX", 0, 1, 10)
    counters.got("T", "G", 3, 4, 400, ms=12.4, from_disk=True)
    counters.got("T", "G", 3, 2, 200, ms=0.2)
    counters.sample(T0 + 10_000)

    def minute(name: str, key: str) -> int:
        data = counters.data(name, key)
        assert data is not None
        return int(data.stats_minute.sum)

    assert (minute(QUEUE_PUT_NUMS, "T@3"), minute(QUEUE_PUT_SIZE, "T@3")) == (5, 500)
    assert (minute(BROKER_PUT_NUMS, "C"), minute(USER_PUT_NUMS, "C")) == (6, 5)
    assert (minute(QUEUE_GET_NUMS, "T@3@G"), minute(GROUP_GET_LATENCY, "3@T@G")) == (6, 13)
    assert (minute(BROKER_FROM_DISK_NUMS, "C"), minute(GROUP_FROM_DISK_SIZE, "T@G")) == (4, 400)
    counters.forget_topic("T")
    assert counters.data(GROUP_GET_LATENCY, "3@T@G") is None
    assert counters.data(QUEUE_GET_NUMS, "T@3@G") is None


def test_a_minute_without_messages_has_none() -> None:
    counters = Counters("C", T0)
    counters.put("T", 0, 60, 1)
    counters.sample(T0 + 10_000)
    assert counters.rate(TOPIC_PUT_NUMS, "T") == 6.0
    counters.sample(T0 + 40_000)
    assert counters.rate(TOPIC_PUT_NUMS, "T") == 1.5
    for step in range(8, 20):
        counters.sample(T0 + step * 10_000)
    assert counters.rate(TOPIC_PUT_NUMS, "T") == 0.0


def test_sampling_very_many_queues_lets_others_run_and_misses_nothing() -> None:
    counters = Counters("C", T0)
    for queue in range(2_000):
        counters.put("T", queue, 1, 1)
    pauses = 0
    for _ in counters.sampling(T0 + 10_000):
        pauses += 1
        counters.put("T", 1_999, 1, 1)
    assert pauses > 4
    counters.sample(T0 + 20_000)
    data = counters.data(TOPIC_PUT_NUMS, "T")
    assert data is not None
    assert data.stats_minute.sum == 2_000 + pauses == counters.put_total


def test_what_is_asked_for_during_a_sample_does_not_end_the_sample() -> None:
    counters = Counters("C", T0)
    for queue in range(2_000):
        counters.put("T", queue, 1, 1)
        counters.got("T", "G", queue, 1, 1)
    for number, _ in enumerate(counters.sampling(T0 + 10_000)):
        if number == 0:
            assert counters.data(TOPIC_PUT_NUMS, "T") is not None  # settles every cell, as requests 202 and 315 do
        if number == 5:
            counters.forget_group("G")
    data = counters.data(TOPIC_PUT_NUMS, "T")
    assert data is not None
    assert data.stats_minute.sum == 2_000


def test_points_of_a_clock_that_was_ahead_do_not_pile_up() -> None:
    counters = Counters("C", T0)
    year = 365 * 86_400_000
    counters.put("T", 0, 1, 1)
    counters.sample(T0 + year)
    for step in range(100):
        counters.put("T", 0, 1, 1)
        counters.sample(T0 + step * 10_000)
    counter = counters.find(TOPIC_PUT_NUMS, "T")
    assert counter is not None
    assert len(counter.minute) < 10
    assert counters.rate(TOPIC_PUT_NUMS, "T") == 0.1


def test_put_times_are_told_of_the_minute_that_ended_last() -> None:
    times = PutTimes()
    assert (times.histogram_text(), times.percentile_text(0.99)) == ("null", "0.00")
    times.note(0.0004, 90)
    times.note(0.007, 9)
    times.note(2.5, 1)
    assert times.longest_ms == 2500
    times.end_minute()
    assert times.histogram_text().startswith("[<=0ms]:90 [0~10ms]:9 [10~50ms]:0 ")
    assert "[2~3s]:1 " in times.histogram_text()
    assert times.percentile_text(0.5) == "0.56"
    assert times.percentile_text(0.99) == "7.00"
    assert float(times.percentile_text(1.0)) == 3000
    times.end_minute()
    assert times.percentile_text(0.999) == "0.00"


def test_rates_are_three_numbers_of_which_the_young_are_left_out() -> None:
    rates = Rates(T0)
    assert rates.text(lambda totals: totals.put) == "0.0  "
    assert rates.text(lambda totals: totals.put, complete=True) == "0.0 0.0 0.0"
    for second in range(1, 61):
        rates.sample(T0 + second * 1000, Totals(put=second * 10))
    assert rates.text(lambda totals: totals.put) == "10.0 10.0 "


def test_midnight_moves_the_totals() -> None:
    day = 86_400_000
    by_day = ByDay(day * 3 + 5, lambda now: now // day * day)
    by_day.sample(day * 3 + 10, 100)
    assert (by_day.yesterday_morning, by_day.today_morning) == (0, 0)
    by_day.sample(day * 4 + 1, 150)
    by_day.sample(day * 4 + 2, 160)
    assert (by_day.yesterday_morning, by_day.today_morning) == (0, 150)
    by_day.sample(day * 5, 200)
    assert (by_day.yesterday_morning, by_day.today_morning) == (150, 200)


def test_texts_are_as_java_writes_them() -> None:
    assert duration_text(93_784) == "[ 1 days, 2 hours, 3 minutes, 4 seconds ]"
    assert [bytes_text(size) for size in (0, 1023, 1536, 5 << 30)] == ["0 B", "1023 B", "1.5 KiB", "5.0 GiB"]
