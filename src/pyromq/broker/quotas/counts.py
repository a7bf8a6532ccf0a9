"""What quotas count that others keep: topics and groups that are there, messages that wait, bytes that are stored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from ...model.message import Property
from .limits import Limit, QuotaKind
from .refusal import beyond
from .use import QuotaUse

_SOON_S = 1.0
_TIMED = tuple(
    f"{name}\x01"
    for name in (
        Property.TIMER_DELAY_SEC,
        Property.TIMER_DELAY_MS,
        Property.TIMER_DELIVER_MS,
    )
)


class Names(Protocol):
    """Topics or groups that are there."""

    def __contains__(self, name: str) -> bool: ...


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class QuotaCounts:
    """Event loop only."""

    topics: Names
    groups: Names
    timers_of: Callable[[str], int]  # of a topic
    stored_bytes_of: Callable[[str], int]

    def exists(self, kind: QuotaKind, name: str) -> bool:
        return name in (self.topics if kind is QuotaKind.TOPIC else self.groups)

    def check_waiting(self, uses: list[QuotaUse], properties: str) -> None:
        """Refuse a message that would wait, or be stored, where there are enough already."""
        for use in uses:
            limits, name = use.limits, use.owner.name
            if (most := limits.get(Limit.STORED_BYTES)) is not None and (used := self.stored_bytes_of(name)) >= most:
                raise beyond(use, Limit.STORED_BYTES, str(used), _SOON_S)
            is_timed = Limit.TIMERS in limits and any(key in properties for key in _TIMED)
            if is_timed and (used := self.timers_of(name)) >= limits[Limit.TIMERS]:
                raise beyond(use, Limit.TIMERS, str(used), _SOON_S)
