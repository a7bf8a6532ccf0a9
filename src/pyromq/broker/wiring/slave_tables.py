"""What brokers of one name tell each other of their tables: a slave takes over its master's, a master asks for commits.

Every broker answers (30006, 30007). The slave's role makes a pull and runs it; a master calls `lead`.
"""

from __future__ import annotations

from collections.abc import Callable

from ...transport.client import RemotingClient
from ..registration import Identity
from ..replication import adoption
from ..replication.metadata_pull import MetadataPull, SlavesTables
from ..replication.offsets_back import take_back_offsets
from ..replication.own_commits import OwnCommits
from ..replication.table_versions import TableVersionHandlers
from .balancing import BalanceParts
from .delivery import TimingParts
from .foundation import Foundation


class SlaveTableParts:
    """Event loop only."""

    def __init__(self, base: Foundation, timing: TimingParts, balance: BalanceParts) -> None:
        self._base = base
        self._save = base.environment.table("pyromq/ownCommits.json")
        self.commits = OwnCommits(self._save.table, self._save.changed)
        numbers: dict[str, Callable[[], int]] = {
            adoption.TOPICS: lambda: base.topics.changes,
            adoption.GROUPS: lambda: base.groups.changes,
            adoption.MODES: lambda: balance.modes.changes,
            adoption.OFFSETS: lambda: base.offsets.changes,
            adoption.DELAYS: lambda: timing.progress.changes,
            adoption.TIMER: lambda: timing.timer_store.read_ms,
            adoption.COUNTS: lambda: timing.timers.counts.changes,
        }
        life = f"{base.clock.now_ms():x}{base.environment.rng.getrandbits(32):08x}"
        self.handlers = TableVersionHandlers(life, numbers, self._log_end, self.commits)
        self.tables = SlavesTables(
            topics=base.topics,
            groups=base.groups,
            offsets=base.offsets,
            commits=self.commits,
            adopt_modes=balance.modes.adopt,
            adopt_levels=timing.adopt_levels,
            adopt_timer=timing.timers.adopt,
            adopt_counts=timing.adopt_counts,
            remove_queues=self._remove_queues,
            log_end=self._log_end,
        )

    def pull(self, client: RemotingClient, master: Callable[[], str | None]) -> MetadataPull:
        """Return what keeps the tables of this broker like those of the master."""
        return MetadataPull(client, self._base.clock, master, self.tables)

    async def lead(self, client: RemotingClient, identity: Identity) -> None:
        """Begin as master: what clients committed to slaves meanwhile counts, and nothing here waits for a master."""
        self.commits.clear()
        name_servers = self._base.environment.config.namesrv_addr
        await take_back_offsets(client, name_servers, identity, self._base.offsets, self._queue_end)

    async def close_tables(self) -> None:
        await self._save.close()

    def _log_end(self) -> int:
        return self._base.store.commit_log.end

    def _queue_end(self, topic: str, queue_id: int) -> int | None:
        queue = self._base.store.queues.get(topic, queue_id)
        return None if queue is None else queue.next_offset

    def _remove_queues(self, topic: str, end: int) -> None:
        """Remove the queues of a deleted topic, unless it was made again and has newer messages already."""
        lasts = [queue.last_entry() for queue in self._base.store.queues.of_topic(topic)]
        if all(last is None or last.position < end for last in lasts):
            self._base.store.queues.remove_topic(topic)
            self._base.counters.forget_topic(topic)
