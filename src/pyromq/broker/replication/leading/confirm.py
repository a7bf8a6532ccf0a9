"""Which slaves count, and up to where enough of them have the log. Pure.

In sync is who is connected, has reported within `haHousekeepingInterval`, and is less than `haMaxGapNotInSync` bytes
behind. One slave has one vote, however many connections it has: a host has as many votes as slaves of this name are
registered there, and one at least.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from ..settings import BrokerRole, ReplicationSettings


class SlaveReport(NamedTuple):
    """What one connection's slave has told: the log is there up to `acked`. `heard`: monotonic seconds."""

    host: str
    acked: int
    heard: float


class SyncStanding(NamedTuple):
    """How a master stands with its slaves."""

    needed: int = 0  # slaves that must have a message before its send is answered
    in_sync: int = 0  # slaves that are in sync
    minimum: int = 0  # slaves that must be in sync, or sends are refused
    confirmed: int = 0  # as many as needed have the log up to here

    @property
    def is_short(self) -> bool:
        """Return whether too few are in sync for a send to be confirmed."""
        return self.in_sync < self.needed

    @property
    def refuses(self) -> bool:
        """Return whether so few are in sync that nothing may be stored."""
        return self.in_sync < self.minimum


def judge(
    reports: Iterable[SlaveReport], members: Iterable[str], end: int, now: float, settings: ReplicationSettings
) -> SyncStanding:
    """Judge the reports of all connections. `members`: hosts of registered slaves, once for each; `end`: of the log."""
    votes = _votes(reports, Counter(members))
    within_s, gap = settings.ha_housekeeping_interval / 1000, settings.ha_max_gap_not_in_sync
    in_sync = sum(1 for vote in votes if now - vote.heard < within_s and end - vote.acked < gap)
    if settings.broker_role is not BrokerRole.SYNC_MASTER:
        return SyncStanding(in_sync=in_sync)
    needed, minimum = settings.needed_copies - 1, settings.classic_minimum - 1
    if settings.enable_auto_in_sync_replicas:
        needed = max(minimum, min(needed, in_sync))
    acked = sorted((vote.acked for vote in votes), reverse=True)
    confirmed = acked[needed - 1] if 0 < needed <= len(acked) else 0
    return SyncStanding(needed, in_sync, minimum, confirmed)


def _votes(reports: Iterable[SlaveReport], registered: Counter[str]) -> list[SlaveReport]:
    """Return the reports that count, one for each slave: of a host with more connections than slaves, the furthest."""
    by_host: dict[str, list[SlaveReport]] = defaultdict(list)
    for report in reports:
        by_host[report.host].append(report)
    return [
        report
        for host, told in by_host.items()
        for report in sorted(told, key=lambda one: one.acked, reverse=True)[: max(1, registered[host])]
    ]
