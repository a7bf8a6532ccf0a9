"""When to try again: sends on another broker, failed messages after a delay, and what ends in the dead letters.

Pure rules: the producer and the consumers ask, and act on the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...ambient import Random
from ...model.codes import ResponseCode

# Answers after which a send may succeed elsewhere. All others are raised at once.
RETRIED_CODES = frozenset(
    (
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.NO_PERMISSION,
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.NO_BUYER_ID,
        ResponseCode.NOT_IN_CURRENT_UNIT,
        ResponseCode.GO_AWAY,
    )
)

# What a broker says that is not the master, or not yet or no longer.
_NOT_MASTER_NOW = ResponseCode.SERVICE_NOT_AVAILABLE
_TOO_FEW_COPIES = "in-sync replicas not enough"  # Java's words, and ours, with SYSTEM_ERROR

# Seconds of the delay levels 1 to 18 of a broker that is not configured otherwise (messageDelayLevel).
LEVEL_SECONDS = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)

BROKER_CHOOSES = 0  # delay level of a send-back: 3 + the number of attempts so far
DEAD_LETTER = -1
NO_END = 0x7FFFFFFF  # retries, as Java writes that there is no bound
_FIRST_RETRY_LEVEL = 3
_TIMER_STEP_S = 1.0  # timers are no more exact
_BUSY_FIRST_S = 0.02
_BUSY_MOST_S = 1.0
_ANNOUNCED_LEAST_S, _ANNOUNCED_MOST_S = 0.01, 30.0


class Reject(Exception):
    """Raised by a handler: never try this message again, put it among the dead letters, with the text as its reason."""


class RetryLater(Exception):
    """Raised by a handler: try again after so many seconds.

    To a second where the broker serves timers or has such a delay level, else after the next longer level.
    """

    def __init__(self, seconds: float) -> None:
        if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not seconds >= 0:  # nan is not
            raise ValueError(f"RetryLater({seconds!r}): a number of seconds is needed, 0 or more, as in RetryLater(30)")
        super().__init__(f"again in {seconds:g} s")
        self.seconds = seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How many times a failed message comes again before it goes to the dead letters. None: as long as it fails.

    The first delivery is not counted, as in Java's maxReconsumeTimes: with `times=2` a handler has three attempts.
    `of_group`: the number is that of the group at its broker (retryMaxTimes), set by operators; `times` only where the
    broker does not say it.
    """

    times: int | None = 16
    of_group: bool = False

    def __post_init__(self) -> None:
        times: object = self.times
        is_count = isinstance(times, int) and not isinstance(times, bool) and 0 <= times <= NO_END
        if times is not None and not is_count:
            raise ValueError(
                f"Retry(times={times!r}): a whole number of at least 0 is needed, as in Retry(times=3), "
                "or None for no end"
            )

    @property
    def most(self) -> int:
        """Return the number of retries that the client itself keeps to."""
        return NO_END if self.times is None or self.of_group else self.times

    @property
    def sent_bound(self) -> int | None:
        """Return the bound that goes to a broker with a failed message; None: the group's own number counts."""
        return None if self.of_group else self.most


def reason_of(fault: BaseException) -> str:
    """Return why a message failed, for the dead letter that it may become: a rejection's own words, or the error."""
    text = str(fault)
    if isinstance(fault, Reject):
        return text
    return f"{type(fault).__name__}: {text}" if text else type(fault).__name__


def send_back_level(fault: BaseException, reconsume_times: int, retry: Retry) -> int:
    if isinstance(fault, Reject) or reconsume_times >= retry.most:
        return DEAD_LETTER
    return BROKER_CHOOSES


@dataclass(frozen=True, slots=True)
class BrokerDelays:
    """How long a broker can let a message wait: the seconds of its levels, of its longest timer (0: it has none)."""

    levels: Sequence[float] = LEVEL_SECONDS
    timer_s: float = 0

    def level_for(self, seconds: float) -> int:
        """Return the shortest level that is not too early; the longest where all are."""
        late = [(each, number) for number, each in enumerate(self.levels, 1) if each >= seconds]
        if late:
            return min(late)[1]
        return max(range(1, len(self.levels) + 1), key=lambda number: self.levels[number - 1], default=1)

    def timer_ms(self, seconds: float) -> int | None:
        """Return the time of a timer that comes nearer to the wish than any level does; None where a level does."""
        nearest = self.levels[self.level_for(seconds) - 1] if self.levels else 0
        if not self.timer_s or 0 <= nearest - seconds <= _TIMER_STEP_S:
            return None
        if nearest < seconds and self.timer_s <= nearest:
            return None  # the longest level comes nearer
        return round(min(seconds, self.timer_s) * 1000)


def seconds_of(level: int) -> float:
    """Return the delay of a level, where the broker is not configured otherwise."""
    return LEVEL_SECONDS[min(level, len(LEVEL_SECONDS)) - 1]


def level_after(reconsume_times: int) -> int:
    """Return the level that the broker would choose, for requests in which the client has to name it."""
    return _FIRST_RETRY_LEVEL + reconsume_times


def may_be_switching(code: int | None, remark: str) -> bool:
    """Return whether a refusal is one that brokers give while their set changes its master: it costs time alone."""
    return code == _NOT_MASTER_NOW or (code == ResponseCode.SYSTEM_ERROR and _TOO_FEW_COPIES in remark)


def busy_pause_s(failures: int, rng: Random) -> float:
    """Return how long to hold back after SYSTEM_BUSY: doubled each time, half of it by chance."""
    return growing_pause_s(2 * _BUSY_FIRST_S, _BUSY_MOST_S, failures, rng)


def announced_pause_s(fault: BaseException, otherwise_s: float, rng: Random) -> float:
    """Return how long to hold back after a refusal: as long as it says, a tenth more at most so that not all come at
    once, and no longer than a quota may take to be changed; never no time at all. `otherwise_s` if it says nothing."""
    said: float | None = getattr(fault, "retry_after_s", None)
    if said is None:
        return otherwise_s
    return min(max(said, _ANNOUNCED_LEAST_S), _ANNOUNCED_MOST_S) * (1 + 0.1 * rng.random())


def growing_pause_s(first_s: float, most_s: float, times: int, rng: Random) -> float:
    """Return the pause after so many failures: doubled each time up to the most, half of it by chance."""
    full = min(most_s, first_s * 2.0 ** min(times - 1, 30))
    return full * (0.5 + 0.5 * rng.random())


def period_s(longest_s: float, rng: Random) -> float:
    """Return the time until the next round of what is done regularly: up to a tenth early.

    Clients that began together, or lost the same server, do not go on in step.
    """
    return longest_s * (0.9 + 0.1 * rng.random())
