"""Brokers that were slow or failed are left alone for a while, by Java 5's table. Only producers use it; no awaits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

# A send that took so many ms or more makes the broker unavailable for so many ms.
_PENALTIES_MS = ((15_000, 30_000), (5_000, 10_000), (3_000, 6_000), (1_800, 5_000), (550, 2_000), (0, 0))
_UNPUNISHED_MS = _PENALTIES_MS[-2][0]  # nearly every send
FAILED_MS = 10_000  # a failed send counts as one that took this long


def penalty_ms(latency_ms: float) -> int:
    return next(penalty for least, penalty in _PENALTIES_MS if latency_ms >= least)


@dataclass(slots=True)
class _BrokerLatency:
    latency_ms: float
    available_at: float


class Latencies:
    """By broker name. Times are seconds of the monotonic clock."""

    def __init__(self) -> None:
        self._brokers: dict[str, _BrokerLatency] = {}
        self._turn = 0

    def sent(self, broker_name: str, latency_ms: float, now: float) -> None:
        penalty_s = 0.0 if latency_ms < _UNPUNISHED_MS else penalty_ms(latency_ms) / 1000
        known = self._brokers.get(broker_name)
        if known is None:
            self._brokers[broker_name] = _BrokerLatency(latency_ms, now + penalty_s)
        else:
            known.latency_ms, known.available_at = latency_ms, now + penalty_s

    def failed(self, broker_name: str, now: float) -> None:
        self.sent(broker_name, FAILED_MS, now)

    def is_available(self, broker_name: str, now: float) -> bool:
        known = self._brokers.get(broker_name)
        return known is None or now >= known.available_at

    def least_bad(self, broker_names: Iterable[str], now: float) -> str:
        """Return a broker where none is available: the faster half in turn, so that not all load falls on one."""
        ranked = sorted(broker_names, key=lambda name: self._rank(name, now))
        half = max(1, len(ranked) // 2)
        self._turn += 1
        return ranked[self._turn % half]

    def _rank(self, broker_name: str, now: float) -> tuple[bool, float, float]:
        known = self._brokers.get(broker_name) or _BrokerLatency(0.0, now)
        return (now < known.available_at, known.latency_ms, known.available_at)
