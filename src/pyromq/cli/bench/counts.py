"""What `pyromq bench` counts, and its lines: the columns of Apache's benchmark, or the same as JSON."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any


class MessagesSent:
    """One producer run. Times are monotonic seconds, durations milliseconds."""

    def __init__(self, began: float) -> None:
        self._began = self._since = began
        self.count = self.failed = self.response_failed = 0
        self.last_fault = ""
        self._total_ms = self._max_ms = 0.0
        self._window = [0, 0.0]  # messages and ms of this interval

    def sent(self, took_ms: float) -> None:
        self.count += 1
        self._total_ms += took_ms
        self._max_ms = max(self._max_ms, took_ms)
        self._window[0] += 1
        self._window[1] += took_ms

    def line(self, now: float, at: str, as_json: bool) -> str:
        """Return the line of the interval that ends now (`at` in words); the greatest time is the run's, as in Java."""
        count, took = self._window
        rate = count / max(now - self._since, 1e-9)
        self._window, self._since = [0, 0.0], now
        average = took / count if count else 0.0
        if as_json:
            return json.dumps(self._facts(rate, average) | {"complete": False})
        return f"Current Time: {at} | {self._columns(rate, average)}"

    def complete(self, now: float) -> str:
        total = self.count + self.failed + self.response_failed
        return f"[Complete] Send Total: {total} | {self._columns(self._rate(now), self._average())}"

    def total(self, now: float) -> dict[str, Any]:
        return self._facts(self._rate(now), self._average()) | {"complete": True}

    def _rate(self, now: float) -> float:
        return self.count / max(now - self._began, 1e-9)

    def _average(self) -> float:
        return self._total_ms / self.count if self.count else 0.0

    def _columns(self, rate: float, average: float) -> str:
        return (
            f"Send TPS: {rate:.0f} | Max RT(ms): {self._max_ms:.0f} | Average RT(ms): {average:7.3f} | "
            f"Send Failed: {self.failed} | Response Failed: {self.response_failed}"
        )

    def _facts(self, rate: float, average: float) -> dict[str, Any]:
        return {
            "sent": self.count,
            "sendTps": round(rate, 1),
            "maxRt": round(self._max_ms, 3),
            "averageRt": round(average, 3),
            "sendFailed": self.failed,
            "responseFailed": self.response_failed,
        }


class BatchesSent(MessagesSent):
    """One run of batches: TPS and times are of batches, MPS is of messages."""

    def __init__(self, began: float, batch_size: int) -> None:
        super().__init__(began)
        self._size = batch_size

    def _columns(self, rate: float, average: float) -> str:
        return (
            f"Send TPS: {rate:.0f} | Send MPS: {rate * self._size:.0f} | Max RT(ms): {self._max_ms:.0f} | "
            f"Average RT(ms): {average:7.3f} | Average Message RT(ms): {average / self._size:7.3f} | "
            f"Send Failed: {self._missed()} | Send Message Failed: {self._missed() * self._size}"
        )

    def _missed(self) -> int:
        return self.failed + self.response_failed

    def _facts(self, rate: float, average: float) -> dict[str, Any]:
        return super()._facts(rate, average) | {"sendMps": round(rate * self._size, 1), "batchSize": self._size}


class TransactionsSent(MessagesSent):
    """One run of transactions, and what brokers asked: about one that was ended (unexpected), about one again."""

    def __init__(self, began: float) -> None:
        super().__init__(began)
        self.open_ids: set[str] = set()
        self._checked_ids: set[str] = set()
        self.checks = self.unexpected = self.repeated = 0

    def checked(self, message_id: str) -> None:
        self.checks += 1
        self.unexpected += message_id not in self.open_ids
        self.repeated += message_id in self._checked_ids
        self._checked_ids.add(message_id)

    def _columns(self, rate: float, average: float) -> str:
        return (
            f"Send TPS: {rate:5.0f} | Max RT(ms): {self._max_ms:5.0f} | AVG RT(ms): {average:3.1f} | "
            f"Send Failed: {self.failed + self.response_failed} | Check: {self.checks} | "
            f"UnexpectedCheck: {self.unexpected} | DuplicatedCheck: {self.repeated}"
        )

    def _facts(self, rate: float, average: float) -> dict[str, Any]:
        checks = {"checks": self.checks, "unexpectedChecks": self.unexpected, "duplicatedChecks": self.repeated}
        return super()._facts(rate, average) | checks


class TimersSent(MessagesSent):
    """Messages with delivery times, in the columns of Apache's TimerProducer."""

    def _columns(self, rate: float, average: float) -> str:
        return (
            f"Send TPS: {rate:.0f}, Max RT: {self._max_ms:.0f}, Average RT: {average:7.3f}, "
            f"Send Failed: {self.failed}, Response Failed: {self.response_failed}"
        )


class TimersDelivered:
    """How late, in ms, messages came after their time: the columns of Apache's TimerConsumer.

    Shares are of all messages of the run; Apache's are of the different delays, each counted once.
    """

    SHARES = (25, 50, 80, 90, 99, 99.9)

    def __init__(self, began: float) -> None:
        self._began = self._since = began
        self.count = 0
        self._total_ms = 0
        self._late: Counter[int] = Counter()
        self._window = (0, 0)  # messages and ms at the last line

    def got(self, late_ms: int) -> None:
        self.count += 1
        self._total_ms += late_ms
        self._late[late_ms] += 1

    def line(self, now: float, at: str, as_json: bool) -> str:
        """Return the line of the interval that ends now: rate and average are its own, the rest is the run's."""
        count, total = self._window
        facts = self._facts(self.count - count, self._total_ms - total, now - self._since)
        self._window, self._since = (self.count, self._total_ms), now
        if as_json:
            return json.dumps(facts | {"complete": False})
        return f"Current Time: {at} | {self._columns(facts)}"

    def complete(self, now: float) -> str:
        return f"[Complete] Consume Total: {self.count} | {self._columns(self.total(now))}"

    def total(self, now: float) -> dict[str, Any]:
        return self._facts(self.count, self._total_ms, now - self._began) | {"consumed": self.count, "complete": True}

    def _facts(self, count: int, total_ms: int, seconds: float) -> dict[str, Any]:
        late = {f"late{share:g}": value for share, value in zip(self.SHARES, self._shares(), strict=True)}
        return {
            "consumeTps": round(count / max(seconds, 1e-9), 1),
            "averageLate": round(total_ms / count, 3) if count else 0.0,
            "maxLate": max(self._late, default=0),
        } | late

    def _shares(self) -> list[int]:
        """Return, for each share, the delay that this share of the messages does not exceed."""
        places = [int(self.count * share / 100) for share in self.SHARES]
        found: list[int] = []
        seen = 0
        for late_ms in sorted(self._late):
            seen += self._late[late_ms]
            while len(found) < len(places) and places[len(found)] < seen:
                found.append(late_ms)
        return found + [0] * (len(places) - len(found))

    def _columns(self, facts: dict[str, Any]) -> str:
        quarter, *rest = (f"%{share:g}: {facts[f'late{share:g}']}" for share in self.SHARES)
        return (
            f"Consume TPS: {facts['consumeTps']:.0f}, Avg delayedDuration: {facts['averageLate']:7.3f}, "
            f"Max delayedDuration: {facts['maxLate']}, delayDuration {quarter}, {'; '.join(rest)}"
        )


class MessagesConsumed:
    """One consumer run. B2C: born to consumed, S2C: stored to consumed, in milliseconds."""

    def __init__(self, began: float) -> None:
        self._began = self._since = began
        self.count = self.failed = 0
        self._born = self._stored = 0
        self._born_max = self._stored_max = 0
        self._window = (0, 0, 0, 0)  # the sums at the last line

    def got(self, since_born_ms: int, since_stored_ms: int) -> None:
        self.count += 1
        self._born += since_born_ms
        self._stored += since_stored_ms
        self._born_max = max(self._born_max, since_born_ms)
        self._stored_max = max(self._stored_max, since_stored_ms)

    def line(self, now: float, at: str, as_json: bool) -> str:
        """Return the line of the interval that ends now. The greatest times begin anew, as in Java."""
        count, born, stored, failed = self._window
        facts = self._facts(
            self.count - count, self._born - born, self._stored - stored, self.failed - failed, now - self._since
        )
        self._window, self._since = (self.count, self._born, self._stored, self.failed), now
        self._born_max = self._stored_max = 0
        if as_json:
            return json.dumps(facts | {"complete": False})
        return f"Current Time: {at} | {_columns(facts)}"

    def complete(self, now: float) -> str:
        return f"[Complete] Consume Total: {self.count} | {_columns(self.total(now))}"

    def total(self, now: float) -> dict[str, Any]:
        facts = self._facts(self.count, self._born, self._stored, self.failed, now - self._began)
        return facts | {"consumed": self.count, "complete": True}

    def _facts(self, count: int, born: int, stored: int, failed: int, seconds: float) -> dict[str, Any]:
        return {
            "consumeTps": round(count / max(seconds, 1e-9), 1),
            "averageB2c": round(born / count, 3) if count else 0.0,
            "averageS2c": round(stored / count, 3) if count else 0.0,
            "maxB2c": self._born_max,
            "maxS2c": self._stored_max,
            "consumeFailed": failed,
        }


def _columns(facts: dict[str, Any]) -> str:
    return (
        f"Consume TPS: {facts['consumeTps']:.0f} | AVG(B2C) RT(ms): {facts['averageB2c']:7.3f} | "
        f"AVG(S2C) RT(ms): {facts['averageS2c']:7.3f} | MAX(B2C) RT(ms): {facts['maxB2c']} | "
        f"MAX(S2C) RT(ms): {facts['maxS2c']} | Consume Fail: {facts['consumeFailed']}"
    )
