"""Readers of old messages: held to a rate, or stopped when they are too far behind."""

from __future__ import annotations

from typing import Any

import pytest

from pyromq.broker.config import BrokerConfig
from pyromq.broker.reading.slow_readers import IDLE_S, Backlog, ColdReads

MIB = 1 << 20


def config(**settings: Any) -> BrokerConfig:
    return BrokerConfig(broker_name="broker-a", cold_data_flow_control_enable=True, **settings)


def test_a_second_s_worth_goes_at_once_and_then_the_rate_counts() -> None:
    cold = ColdReads()
    limits = config(cg_cold_read_threshold=MIB)
    waits = [cold.wait_s("G", MIB // 2, limits, now=0, now_ms=0) for _ in range(4)]
    assert waits == [0, 0, 0.5, 1.0]
    assert cold.wait_s("G", MIB // 2, limits, now=3, now_ms=3000) == 0


def test_groups_do_not_pay_for_each_other_but_share_the_whole() -> None:
    cold = ColdReads()
    limits = config(cg_cold_read_threshold=MIB, global_cold_read_threshold=2 * MIB)
    assert cold.wait_s("G", MIB, limits, 0, 0) == 0
    assert cold.wait_s("H", MIB, limits, 0, 0) == 0
    assert cold.wait_s("I", MIB, limits, 0, 0) == 0.5


def test_a_group_may_have_a_limit_of_its_own() -> None:
    cold = ColdReads()
    limits = config(cg_cold_read_threshold=MIB)
    cold.set_limit("G", 4 * MIB)
    assert cold.wait_s("G", 4 * MIB, limits, 0, 0) == 0
    cold.drop_limit("G")
    cold.drop_limit("G")
    assert cold.wait_s("G", MIB, limits, 0, 0) == 1.0


def test_nothing_is_held_back_while_limits_are_off() -> None:
    cold = ColdReads()
    assert cold.wait_s("G", 1 << 40, BrokerConfig(broker_name="broker-a"), 0, 0) == 0
    assert cold.info(BrokerConfig(broker_name="broker-a")) == {
        "runtimeTable": {},
        "configTable": {},
        "cgColdReadThreshold": 3_145_728,
        "globalColdReadThreshold": 104_857_600,
        "globalAcc": 0,
    }


def test_who_reads_nothing_cold_any_more_is_forgotten() -> None:
    cold = ColdReads()
    cold.wait_s("G", 10, config(), 0, 1000)
    cold.wait_s("H", 10, config(), 500, 2000)
    cold.sweep(IDLE_S + 1)
    assert list(cold.info(config())["runtimeTable"]) == ["H"]  # type: ignore[call-overload]


@pytest.mark.parametrize(("on", "found"), [(True, {"far": 1001}), (False, {})])
def test_groups_too_far_behind_are_named_once(on: bool, found: dict[str, int]) -> None:
    backlog = Backlog()
    backlog.note("near", 1000)
    backlog.note("far", 1001)
    settings = BrokerConfig(
        broker_name="broker-a", disable_consume_if_consumer_read_slowly=on, consumer_fallbehind_threshold=1000
    )
    assert backlog.too_far(settings) == found
    assert backlog.too_far(settings) == {}
