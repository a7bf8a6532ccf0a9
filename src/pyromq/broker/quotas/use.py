"""What one owner has used of its quota. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...kernel.state import Bucket
from .limits import Limit, QuotaSubject

CountedIn = dict[str, dict[int, dict[str, float]]]  # by address: the connections of each use that counts it
_SILENT_S = 120.0  # a connection that was not heard of for so long does not count


@dataclass(slots=True)
class QuotaUse:
    """What one owner has used of its quota."""

    owner: QuotaSubject
    limits: Mapping[Limit, int]
    buckets: dict[Limit, Bucket]
    halves_under_way: int = 0  # half messages that are not stored yet
    connections: dict[str, float] = field(default_factory=dict)  # by address with its port: when it was last heard of
    counted: CountedIn = field(default_factory=dict)  # where connections of all uses are found

    def is_unused(self, now: float) -> bool:
        """Return whether it is as if it had just been made."""
        if self.halves_under_way or self.count_connections(now):
            return False
        return not any(bucket.used(now) > 0 for bucket in self.buckets.values())

    def heard_of(self, address: str, now: float) -> None:
        """Count a connection."""
        if address not in self.connections:
            self.counted.setdefault(address, {})[id(self.connections)] = self.connections
        self.connections[address] = now

    def count_connections(self, now: float) -> int:
        for address in [each for each, seen in self.connections.items() if now - seen > _SILENT_S]:
            del self.connections[address]
            found = self.counted.get(address, {})
            found.pop(id(self.connections), None)
            if not found:
                self.counted.pop(address, None)
        return len(self.connections)
