from __future__ import annotations

import pytest

from pyromq.client.core.routing import Latencies, penalty_ms


@pytest.mark.parametrize(
    ("latency_ms", "penalty"),
    [(0, 0), (549, 0), (550, 2000), (1799, 2000), (1800, 5000), (3000, 6000), (5000, 10_000), (15_000, 30_000)],
)
def test_java_5_s_table(latency_ms: int, penalty: int) -> None:
    assert penalty_ms(latency_ms) == penalty


def test_a_slow_broker_is_left_alone_for_its_time() -> None:
    table = Latencies()
    assert table.is_available("a", 0.0)
    table.sent("a", 600, 100.0)
    assert not table.is_available("a", 101.9)
    assert table.is_available("a", 102.0)
    table.failed("a", 200.0)
    assert not table.is_available("a", 209.9)
    table.sent("a", 1, 205.0)
    assert table.is_available("a", 205.0)


def test_none_healthy_means_the_faster_half_in_turn() -> None:
    table = Latencies()
    for name, latency in (("a", 4000), ("b", 3000), ("c", 20_000), ("d", 3500)):
        table.sent(name, latency, 0.0)
    assert {table.least_bad("abcd", 1.0) for _ in range(4)} == {"b", "d"}
    assert table.least_bad("c", 1.0) == "c"
