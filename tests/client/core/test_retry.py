from __future__ import annotations

import random
from typing import Any

import pytest

from pyromq.client.connect.broker_delays import delays_of
from pyromq.client.core.retry import (
    BROKER_CHOOSES,
    DEAD_LETTER,
    BrokerDelays,
    Reject,
    Retry,
    RetryLater,
    busy_pause_s,
    level_after,
    send_back_level,
)
from pyromq.errors import ConfigError


def test_a_failed_message_comes_again_until_its_attempts_are_used_up() -> None:
    levels = [send_back_level(ValueError(), times, Retry(times=16)) for times in range(18)]
    assert levels == [BROKER_CHOOSES] * 16 + [DEAD_LETTER] * 2
    assert send_back_level(ValueError(), 10**6, Retry(times=None)) == BROKER_CHOOSES
    assert send_back_level(ValueError(), 0, Retry(times=0)) == DEAD_LETTER


def test_the_broker_may_count_by_the_groups_own_number() -> None:
    assert send_back_level(ValueError(), 10**6, Retry(of_group=True)) == BROKER_CHOOSES
    assert [Retry(of_group=True).sent_bound, Retry(times=3).sent_bound, Retry(times=None).sent_bound] == [
        None,
        3,
        0x7FFFFFFF,
    ]


def test_a_handler_may_say_when_or_never() -> None:
    assert send_back_level(Reject(), 0, Retry()) == DEAD_LETTER
    assert send_back_level(RetryLater(30), 0, Retry()) == BROKER_CHOOSES  # it is asked first what it can do
    assert send_back_level(RetryLater(30), 16, Retry()) == DEAD_LETTER


@pytest.mark.parametrize(("seconds", "level"), [(0, 1), (1, 1), (1.5, 2), (10, 3), (11, 4), (7200, 18), (99_999, 18)])
def test_the_level_is_never_too_early(seconds: float, level: int) -> None:
    assert BrokerDelays().level_for(seconds) == level


@pytest.mark.parametrize(
    ("delays", "seconds", "level", "timer_ms"),
    [
        (BrokerDelays(timer_s=259_200), 30, 4, None),  # a level has it
        (BrokerDelays(timer_s=259_200), 29.5, 4, None),  # nearly
        (BrokerDelays(timer_s=259_200), 45, 5, 45_000),
        (BrokerDelays(timer_s=259_200), 86_400, 18, 86_400_000),
        (BrokerDelays(timer_s=259_200), 999_999, 18, 259_200_000),
        (BrokerDelays(timer_s=3_600), 999_999, 18, None),  # the longest level is longer than the longest timer
        (BrokerDelays((172_800,), 259_200), 30, 1, 30_000),
        (BrokerDelays((172_800, 60)), 30, 2, None),  # in any order
        (BrokerDelays((172_800, 60)), 999_999, 1, None),
        (BrokerDelays((), 259_200), 30, 1, 30_000),
    ],
)
def test_a_timer_is_used_where_no_level_fits(
    delays: BrokerDelays, seconds: float, level: int, timer_ms: int | None
) -> None:
    assert (delays.level_for(seconds), delays.timer_ms(seconds)) == (level, timer_ms)


def test_what_a_broker_can_do_is_in_its_settings() -> None:
    lines = "a=b\nmessageDelayLevel=1s 2d\ntimerMaxDelaySec=9\ntimerWheelEnable=true\n"
    assert delays_of(lines) == BrokerDelays((1, 172_800), 9)
    assert delays_of(lines.replace("true", "false")) == BrokerDelays((1, 172_800))
    assert delays_of("brokerName=old") == BrokerDelays()
    with pytest.raises(ConfigError, match="messageDelayLevel"):
        delays_of("messageDelayLevel=soon")


def test_the_client_counts_levels_as_the_broker_would() -> None:
    assert [level_after(times) for times in (0, 1, 15)] == [3, 4, 18]


@pytest.mark.parametrize("wrong", [-1, "3", 2.5, True, 1 << 31])
def test_nonsense_is_refused(wrong: Any) -> None:
    with pytest.raises(
        ValueError, match=rf"^Retry\(times={wrong!r}\): a whole number of at least 0 .*Retry\(times=3\)"
    ):
        Retry(times=wrong)


def test_the_pause_after_busy_grows_to_a_second() -> None:
    rng = random.Random(1)
    for failures, full in ((0, 0.02), (1, 0.04), (5, 0.64), (6, 1.0), (60, 1.0)):
        assert full / 2 <= busy_pause_s(failures, rng) <= full
