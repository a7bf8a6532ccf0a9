"""What one owner has used of its quota. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...kernel.state import Bucket
from .limits import Limit, QuotaSubject

_SILENT_S = 120.0  # a connection that was not heard of for so long does not count


@dataclass(slots=True)
class QuotaUse:
    """What one owner has used of its quota."""

    owner: QuotaSubject
    limits: Mapping[Limit, int]
    buckets: dict[Limit, Bucket]
    halves_under_way: int = 0  # half messages that are not stored yet
    connections: dict[str, float] = field(default_factory=dict)  # by address with its port: when it was last heard of

    def is_unused(self, now: float) -> bool:
        """Return whether it is as if it had just been made."""
        return not self.count_connections(now) and not any(bucket.used(now) > 0 for bucket in self.buckets.values())

    def count_connections(self, now: float) -> int:
        for address in [each for each, seen in self.connections.items() if now - seen > _SILENT_S]:
            del self.connections[address]
        return len(self.connections)
