"""Transactions that were sent or checked here and are not decided: where their half messages are. Pure but for time."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from ..ambient import Clock
from .config import ProxySettings

_MOST = 100_000  # ids; the oldest goes first, and is found at its broker then


@dataclass(frozen=True, slots=True)
class SentHalf:
    """One half message."""

    broker: str
    half_offset: int
    position: int
    message_id: str
    seen_ms: int


class OpenTransactions:
    """Event loop only. By topic and transaction id. Decided ones are known for a while: none is ended twice."""

    def __init__(self, settings: ProxySettings, clock: Clock) -> None:
        self._settings, self._clock = settings, clock
        self._halves: OrderedDict[tuple[str, str], list[SentHalf]] = OrderedDict()
        self._decided: OrderedDict[tuple[str, str], int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._halves)

    def remember(self, topic: str, transaction_id: str, half: SentHalf) -> None:
        key = (topic, transaction_id)
        self._decided.pop(key, None)
        halves = self._halves.setdefault(key, [])
        halves.append(half)
        del halves[: -self._settings.transaction_data_max_num]
        self._halves.move_to_end(key)
        self._clean()

    def newest(self, topic: str, transaction_id: str) -> SentHalf | None:
        """Return the newest half message. None: it is not known here."""
        halves = self._halves.get((topic, transaction_id))
        return halves[-1] if halves else None

    def decide(self, topic: str, transaction_id: str) -> None:
        """Note that the broker has taken a decision: the next one finds nothing to decide."""
        key = (topic, transaction_id)
        self._halves.pop(key, None)
        self._decided[key] = self._clock.now_ms()

    def is_decided(self, topic: str, transaction_id: str) -> bool:
        return (topic, transaction_id) in self._decided

    def _clean(self) -> None:
        oldest = self._clock.now_ms() - self._settings.transaction_data_expire_millis
        while len(self._halves) > _MOST:
            self._halves.popitem(last=False)
        while self._halves and next(iter(self._halves.values()))[-1].seen_ms < oldest:
            self._halves.popitem(last=False)
        while self._decided and (len(self._decided) > _MOST or next(iter(self._decided.values())) < oldest):
            self._decided.popitem(last=False)
