"""Groups that read far behind, or much from the medium: held to a rate, or stopped, so that producers do not suffer.

Pure: time is an argument. `handler.py` asks before a cold read and notes how far behind each group reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ...errors import RequestRefused
from ..config import BrokerConfig

BURST_S = 1.0  # a group may read a second's worth at once
MOST_WAIT_S = 3.0  # a pull is delayed no longer; then its client is asked to come again
MOST_LIMITS = 10_000  # groups with a limit of their own
IDLE_S = 600.0  # what is known of a group that reads nothing cold for so long is forgotten


@dataclass(slots=True)
class _Reader:
    free_at: float = 0.0  # when the bytes that were let through are paid for
    total: int = 0
    since_ms: int = 0
    last_ms: int = 0
    last: float = 0.0


class ColdReads:
    """Bytes per second from the medium, by group and in all. Event loop only."""

    def __init__(self) -> None:
        self._readers: dict[str, _Reader] = {}
        self._limits: dict[str, int] = {}
        self._everyone = _Reader()

    def check_room(self, groups: Iterable[str]) -> None:
        """Refuse more limits of single groups than anybody sets by hand."""
        if len(self._limits.keys() | set(groups)) > MOST_LIMITS:
            raise RequestRefused(
                f"limits of cold reads for more than {MOST_LIMITS} groups: lift some "
                "(mqadmin removeColdDataFlowCtrGroupConfig)"
            )

    def set_limit(self, group: str, bytes_per_s: int) -> None:
        self._limits[group] = bytes_per_s

    def drop_limit(self, group: str) -> None:
        self._limits.pop(group, None)

    def wait_s(self, group: str, size: int, config: BrokerConfig, now: float, now_ms: int) -> float:
        """Return how long to delay a read of `size` bytes, which are counted with this. 0 while limits are off."""
        if not config.cold_data_flow_control_enable:
            return 0.0
        reader = self._readers.get(group)
        if reader is None:
            reader = self._readers[group] = _Reader(since_ms=now_ms)
        limit = self._limits.get(group, config.cg_cold_read_threshold)
        wait = max(_pay(reader, size, limit, now), _pay(self._everyone, size, config.global_cold_read_threshold, now))
        for one in (reader, self._everyone):
            one.total += size
            one.last, one.last_ms = now, now_ms
        return wait

    def sweep(self, now: float) -> None:
        for group in [group for group, one in self._readers.items() if now - one.last > IDLE_S]:
            del self._readers[group]

    def info(self, config: BrokerConfig) -> dict[str, object]:
        """Return what request 2003 tells, in Java's order of members."""
        return {
            "runtimeTable": {
                group: {"coldAcc": one.total, "createTimeMills": one.since_ms, "lastColdReadTimeMills": one.last_ms}
                for group, one in self._readers.items()
            },
            "configTable": dict(self._limits),
            "cgColdReadThreshold": config.cg_cold_read_threshold,
            "globalColdReadThreshold": config.global_cold_read_threshold,
            "globalAcc": self._everyone.total,
        }


def _pay(reader: _Reader, size: int, bytes_per_s: int, now: float) -> float:
    reader.free_at = max(reader.free_at, now) + size / bytes_per_s
    return max(0.0, reader.free_at - now - BURST_S)


class Backlog:
    """How many bytes of log lie between where each group reads and the end. Event loop only."""

    def __init__(self) -> None:
        self.sources: list[Callable[[], None]] = []  # each notes what it has counted for itself
        self._behind: dict[str, int] = {}

    def note(self, group: str, behind: int) -> None:
        self._behind[group] = behind

    def too_far(self, config: BrokerConfig) -> dict[str, int]:
        """Return the groups to stop, with how far behind they are, and begin anew."""
        for read_counts in self.sources:
            read_counts()
        behind, self._behind = self._behind, {}
        if not config.disable_consume_if_consumer_read_slowly:
            return {}
        return {group: far for group, far in behind.items() if far > config.consumer_fallbehind_threshold}
