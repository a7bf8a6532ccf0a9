"""A broker as slave: its log and tables follow its master's. And what brokers of one name tell each other of tables.

Every broker answers questions about its tables (30006, 30007); a master asks slaves for commits (`lead`).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from ...protocol.bodies.replication import HAClientRuntimeInfo
from ...transport.address import format_address, parse_address
from ...transport.client import Connect, RemotingClient, connect_socket
from ...transport.dispatch import Handler
from ..elected.role import FollowedReplica
from ..registration import Identity
from ..replication import adoption
from ..replication.following.follower import Follower, FollowSettings, MasterPlace
from ..replication.following.joining import no_master
from ..replication.following.stream_ends import StreamTimes
from ..replication.members import warn_of_another_master
from ..replication.metadata_pull import MetadataPull, SlavesTables
from ..replication.offsets_back import take_back_offsets
from ..replication.own_commits import OwnCommits
from ..replication.slave_surface import slave_surface
from ..replication.stream_tls import follower_connect
from ..replication.table_versions import TableVersionHandlers
from .balancing import BalanceParts
from .delivery import TimingParts
from .foundation import Foundation
from .naming import Naming
from .serving import PullParts

EXPIRE_S = 10.0


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
        self.handlers = TableVersionHandlers(life, numbers, self._log_bounds, self.commits)
        self.tables = SlavesTables(
            topics=base.topics,
            groups=base.groups,
            offsets=base.offsets,
            commits=self.commits,
            adopt_modes=balance.modes.adopt,
            adopt_levels=timing.adopt_levels,
            adopt_timer=timing.timers.adopt,
            adopt_counts=timing.adopt_counts,
            remove_queues=base.remove_queues,
            log_end=self._log_end,
        )

    def pull(self, client: RemotingClient, master: Callable[[], str | None]) -> MetadataPull:
        """Return what keeps the tables of this broker like those of the master."""
        return MetadataPull(client, self._base.clock, master, self.tables)

    async def lead(self, client: RemotingClient, identity: Identity) -> None:
        """Begin as master: what clients committed to slaves meanwhile counts, and nothing here waits for a master."""
        self.commits.clear()
        name_servers = self._base.environment.config.namesrv_addr
        if self._base.environment.elected is None:
            await warn_of_another_master(client, name_servers, identity)
        await take_back_offsets(client, name_servers, identity, self._base.offsets, self._queue_end, self._ensure_group)

    def _ensure_group(self, name: str) -> None:
        self._base.groups.ensure(name, self._base.live.config)

    async def close_tables(self) -> None:
        await self._save.close()

    def _log_bounds(self) -> tuple[int, int]:
        return self._base.store.commit_log.start, self._base.store.commit_log.end

    def _log_end(self) -> int:
        return self._base.store.commit_log.end

    def _queue_end(self, topic: str, queue_id: int) -> int | None:
        queue = self._base.store.queues.get(topic, queue_id)
        return None if queue is None else queue.next_offset


class SlaveParts:
    """What makes a broker a slave. Event loop only.

    Nothing that appends runs beside it: no deliveries of delays and timers, no checks of transactions, no revival of
    popped messages, nothing that carries records forward. What those will need is derived from the log, and is there
    when this store is started as a master's."""

    def __init__(
        self, base: Foundation, naming: Naming, tables: SlaveTableParts, pulls: PullParts, connect: Connect | None
    ) -> None:
        self._base, self._naming, self._pulls = base, naming, pulls
        environment, settings = base.environment, base.environment.config.replication
        self._ha_master = settings.ha_master_address
        self._client = naming.client()
        base.store.take_from_master_only()
        role = environment.elected
        self.follower = self._classic_follower(connect) if role is None else role.followed
        if role is not None:
            role.followed.joined = self._joined
        self.tables = tables.pull(self._client, self._followed)
        base.storage.retention.goes_by_age = lambda: not self.tables.is_ours

    def _classic_follower(self, connect: Connect | None) -> Follower | FollowedReplica:
        base, naming = self._base, self._naming
        environment, settings = base.environment, base.environment.config.replication
        return Follower(
            store=base.store,
            identity=naming.identity,
            client=self._client,
            connect=follower_connect(
                connect or connect_socket, environment.clock, environment.transport, settings.ha_tls
            ),
            clock=environment.clock,
            rng=environment.rng,
            settings=FollowSettings(
                heartbeat_s=settings.ha_send_heartbeat_interval / 1000,
                silence_s=settings.ha_housekeeping_interval / 1000,
                after_flush=settings.ha_ack_after_flush,
            ),
            find=self._find,
            look=naming.registration.announce,
            no_master=self._no_master,
            joined=self._joined,
        )

    def _find(self) -> MasterPlace | None:
        """Return where the master is: as name servers say, and as haMasterAddress does.

        Without a name server the main port is taken to be the one below the HA port, as it is unless somebody sets
        haListenPort; the follower asks there who it is."""
        told = self._naming.registration.master()
        if told is not None and told.master_addr:
            ha_address = self._ha_master or told.ha_server_addr
            return MasterPlace(told.master_addr, ha_address) if ha_address else None
        if self._ha_master is None or self._base.environment.config.namesrv_addr:
            return None
        host, port = parse_address(self._ha_master)
        return MasterPlace(format_address(host, port - 1), self._ha_master)

    def _no_master(self) -> str:
        told = self._naming.registration.master()
        if told is not None:
            return f"the master {told.master_addr} tells no HA port: set haMasterAddress to it"
        return no_master(self._naming.identity, self._naming.registration.state())

    def _followed(self) -> str | None:
        """Return the master whose log comes: tables of another one are not taken over."""
        place = self.follower.place
        return place.address if place is not None and self.follower.is_connected else None

    def _joined(self) -> None:
        self.tables.connected()
        self._pulls.handler.suspended.end_all()  # their clients go back to the master, as the answers suggest

    def follow_users(self) -> None:
        """Take users from the log of an elected set alone."""
        self._base.access.follow(self._client, self.master)

    def around(self, handlers: Mapping[int, Handler]) -> dict[int, Handler]:
        """Return the handlers of a slave."""
        return slave_surface(handlers, self.master, is_elected=self._base.environment.tables_in_log)

    def master(self) -> str | None:
        """Return the master's address; None: nobody knows."""
        place = self.follower.place
        return None if place is None else place.address

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        keep = self._base.environment.loops.keep
        classic = [keep("following the master", self.follower.run)] if isinstance(self.follower, Follower) else []
        return [
            *classic,
            keep("the master's tables", self.tables.run),
            keep("the start of the master's log", self._expire),
        ]

    async def _expire(self) -> None:
        """Let log files go that have gone at a master of ours. Of a Java master retention goes by its own clock."""
        clock, retention = self._base.clock, self._base.storage.retention
        while True:
            await clock.sleep(EXPIRE_S)
            if self.tables.is_ours and self.tables.master_log is not None:
                await retention.drop_before(self.tables.master_log[0])

    def progress(self) -> HAClientRuntimeInfo:
        """Return how far this slave is, as 907 shows it."""
        place = self.follower.place
        times = self.follower.times or StreamTimes()
        return HAClientRuntimeInfo(
            master_addr=None if place is None else place.ha_address,
            max_offset=self._base.store.commit_log.end,
            last_read_timestamp=times.heard_ms,
            last_write_timestamp=times.reported_ms,
            transferred_byte_in_second=times.rate.in_last_second(self._base.clock.monotonic()),
        )

    def figures(self) -> dict[str, str]:
        """Return what runtime information (28) says of a slave."""
        log_end, there = self._base.store.commit_log.end, self.tables.master_log
        behind = {} if there is None else {"pyromqBehindMaster": str(max(0, there[1] - log_end))}
        tables = "carried by the log" if self._base.environment.tables_in_log else self.tables.state
        return {"pyromqFollows": self.follower.state, "pyromqTables": tables} | behind

    def trouble(self) -> str | None:
        """Return why this slave does not follow; None while it does."""
        return None if self.follower.is_connected else self.follower.state

    async def close(self) -> None:
        await self._client.close()
