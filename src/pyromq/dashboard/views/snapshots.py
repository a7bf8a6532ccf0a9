"""Each new snapshot of the cluster, for programs that wait for one instead of asking again and again."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

import msgspec

from .served import StreamEvent

if TYPE_CHECKING:
    from ..watch.watched import ClusterWatch


class SnapshotEvent(msgspec.Struct, frozen=True, kw_only=True):
    """`silent`: brokers that did not answer, with the reason."""

    number: int
    at_ms: int
    fault: str
    silent: dict[str, str]


async def snapshots(cluster: ClusterWatch) -> AsyncGenerator[StreamEvent, None]:
    """Yield the newest snapshot, and then each that comes."""
    snapshot = cluster.snapshot
    while True:
        silent = {one.name: one.fault for one in snapshot.silent}
        told = SnapshotEvent(number=snapshot.number, at_ms=snapshot.at_ms, fault=snapshot.fault, silent=silent)
        yield StreamEvent("snapshot", told)
        snapshot = await cluster.watcher.next_snapshot()
