"""The broker's composition root: makes the parts, starts them in order, stops them in reverse. Nothing else.

`wiring/` has a file per group of parts that makes them; this page is the order in which they come and go. daemon.py
runs it as a process. Tests and the pytest plugin open a `Broker` on a disk of theirs.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from .. import logs
from ..access.settings import AccessSettings
from ..access.signatures import inner_sign
from ..ambient import Clock, RunBlocking
from ..audit.log import AuditLog
from ..config import Live, Loaded
from ..machine.budget import Budget
from ..store.files.disk import Disk, DiskLock
from ..store.log.retention import Carrier
from ..store.log.thread_flusher import ThreadFlusher
from ..store.recovery.claim import claim_store, refuse_elected
from ..store.recovery.store_state import refuse_missing_tables
from ..supervision import Loops
from ..transport.address import format_address, ip_of, parse_address
from ..transport.certificates.self_signed import with_certificate
from ..transport.client import Connect, RemotingClient
from ..transport.dispatch import Handler
from ..transport.peer import Peer
from ..transport.settings import TransportSettings
from ..transport.turns.access_audit import AccessAudit
from ..transport.turns.apart import AdminListenerSettings
from ..transport.turns.auditing import Auditing
from .admin.runtime import RuntimeInfo
from .config import BrokerConfig
from .elected.role import ElectedRole
from .java_keys import BROKER_KEYS
from .metadata.retry_topics import restore_retry_topics
from .quotas.verdicts import QuotaVerdicts
from .replication.file_size import masters_file_size, with_masters_file_size
from .replication.tables.recorder import TableRecorder
from .surface import Parts, inspection, surface
from .wiring.administration import faces
from .wiring.balancing import BalanceParts
from .wiring.delivery import RetryParts, TimingParts, TransactionParts
from .wiring.environment import Environment
from .wiring.foundation import Foundation
from .wiring.grpc import GrpcParts
from .wiring.grpc_pops import OpenMessages, leaving
from .wiring.grpc_sends import serve_plain_calls
from .wiring.listeners import Feeding, InjectedFaults, Listeners, Ports, bind_ports
from .wiring.metering import MetricsParts
from .wiring.naming import Naming
from .wiring.popping import PopParts
from .wiring.replicating import ReplicatingParts, copies_of
from .wiring.serving import PullParts, SendParts
from .wiring.slave import SlaveParts, SlaveTableParts
from .wiring.stored_pops import StoredPopParts
from .wiring.table_log import FollowerTables, MasterTables

log = logs.get("pyromq.broker")

HOUSEKEEPING_S = 10.0
PROTECTION_S = 180.0  # as Java looks for groups that read too far behind


class Broker:
    """Event loop only. Made by `open`; it serves from `start` on."""

    @classmethod
    async def open(
        cls,
        loaded: Loaded[BrokerConfig],
        *,
        clock: Clock,
        rng: random.Random,
        disk: Disk,
        run_blocking: RunBlocking,
        connect: Connect | None = None,
        budget: Budget | None = None,
        faults: InjectedFaults | None = None,
        flusher: ThreadFlusher | None = None,
        tls_folder: Path | None = None,
        tables_in_log: bool = False,
        ports: Ports | None = None,
        elected: ElectedRole | None = None,
        audit: AuditLog | None = None,
    ) -> Broker:
        """Take the store's lock, bind the ports and recover the store. ConfigError or StoreError says why not.

        `tls_folder`: where a certificate is kept that the broker makes for itself; without it none is made.
        `tables_in_log`: the log carries the tables, as it does in an elected set. `ports`: bound already, and the
        broker's to close. `elected`: its role in an elected set. `audit`: administrative calls are written there."""
        tables_in_log = tables_in_log or (elected is not None and elected.carries_tables)
        with ExitStack() as undo:
            lock = claim_store(disk)  # first: the tables of a store that another process has are not even read
            undo.callback(lock.release)
            if elected is None:
                refuse_elected(disk)
            refuse_missing_tables(disk)
            if tls_folder is not None:
                loaded = with_own_certificate(loaded, tls_folder, clock)
            transport = loaded.config.part(TransportSettings)
            transport.check_tls()  # a start that ends by it leaves the store as it was
            if loaded.config.replication.is_slave and elected is None:
                sign, tls = inner_sign(loaded.config.part(AccessSettings)), transport.client_tls()
                async with RemotingClient(clock=clock, rng=rng, tls=tls, connect=connect, sign=sign) as client:
                    ask = partial(masters_file_size, client, loaded.config)
                    loaded = await with_masters_file_size(loaded, disk, ask)
            config = loaded.config
            bound = ports or await bind_ports(config)
            undo.callback(bound.close)
            environment = Environment(
                config=config,
                live=Live(loaded, BROKER_KEYS, config.overlay_path),
                clock=clock,
                rng=rng,
                disk=disk,
                run_blocking=run_blocking,
                loops=Loops(clock, log),
                budget=budget or Budget(),
                port=parse_address(bound.main.address)[1],
                ip=await ip_of(config.advertised_host, "bindAddress" if config.broker_ip1 is None else "brokerIP1"),
                elected=elected,
                tables_in_log=tables_in_log,
                audit=audit,
                recorder=TableRecorder(clock) if tables_in_log and not config.is_slave else None,
            )
            with environment.tables_abandoned_on_failure():
                broker = cls(environment, bound, lock, connect, faults, flusher)
            undo.pop_all()
            return broker

    def __init__(
        self,
        environment: Environment,
        ports: Ports,
        lock: DiskLock,
        connect: Connect | None,
        faults: InjectedFaults | None,
        flusher: ThreadFlusher | None,
    ) -> None:
        self.environment, self.live = environment, environment.live
        self.base = base = Foundation(environment, flusher, lock)
        self.tables, self.storage, self.clients = base.tables, base.storage, base.clients
        self.topics, self.groups, self.offsets = base.topics, base.groups, base.offsets
        self.store, self.retention, self.producers = base.store, base.storage.retention, base.producers
        self.statistics, self.counters = base.statistics, base.counters
        self.naming = Naming(base, connect, ports.ha_port)
        self.copies = copies_of(base)
        self.sends = SendParts(base, self.copies, lambda: self.listeners.pending_replies(), self.naming.auto_created)
        self.intake = self.sends.intake
        self.timing = TimingParts(base, self.sends)
        self.transactions = TransactionParts(base, self.sends)
        self.retries = RetryParts(base, self.sends)
        self.pull_parts = PullParts(base)
        self.pulls = self.pull_parts.handler
        self.balance = BalanceParts(base, self.naming)
        self.slave_tables = SlaveTableParts(base, self.timing, self.balance)
        self.slave: SlaveParts | None = None
        if environment.is_slave:
            self.slave = SlaveParts(base, self.naming, self.slave_tables, self.pull_parts, connect)
            if environment.tables_in_log:
                self.slave.follow_users()
        elif not environment.tables_in_log:
            self.naming.before_first = self.slave_tables.lead
        self.replicating = ReplicatingParts(base, self.naming, self.copies, ports.ha)
        self.pop_parts = PopParts(base, self.sends, self.pull_parts, self.balance.modes)
        self.stored_pops = StoredPopParts(base, self.sends, self.timing, self.pop_parts)
        self.master_tables: MasterTables | None = None
        self.follower_tables: FollowerTables | None = None
        if environment.recorder is not None:
            self.master_tables = MasterTables(base, self.timing, self.sends.access, environment.recorder)
        elif environment.tables_in_log:
            self.follower_tables = FollowerTables(base, self.timing)
        self.runtime = self._runtime_info()
        parts = Parts(
            base,
            self.naming,
            self.sends,
            self.timing,
            self.transactions,
            self.retries,
            self.pull_parts,
            self.pop_parts,
            self.stored_pops,
            self.balance,
            self.slave_tables,
            self.replicating.status(lambda: None if self.slave is None else self.slave.progress()),
            self.runtime,
            lambda: self.listeners.servers,
            format_address(base.live.config.advertised_host, ports.grpc_port),
            lambda: base.access.of_set.trouble() or (self.replicating if self.slave is None else self.slave).trouble(),
            self.store.queues.remove_topic if self.slave is None else self.slave.tables.topic_deleted,
        )
        served = surface(parts) if self.slave is None else self.slave.around(surface(parts))
        quota_gate = base.quota_gate(self.timing.waiting_of, self.transactions.halves)
        handlers = faces(base, ports.admin, quota_gate.around(served), self._dressing())
        sending, pulling = self.sends.parts, self.pull_parts.parts
        popping = self.pop_parts.parts(pulling.changes)
        self.quota_verdicts = QuotaVerdicts(base.quotas, quota_gate, base.clock)
        allowances = self.quota_verdicts.kernel
        feeding = Feeding(sending, pulling, popping, self.transactions.halves, allowances)
        self.listeners = Listeners(base, self.copies, ports, handlers, feeding, faults, self._connection_lost)
        self.servers = self.listeners.servers
        master = None if self.slave is None else self.slave.master
        self.grpc = GrpcParts(base, self.listeners.inner, self._connection_lost, master)
        self.grpc.backend.grpc_port = ports.grpc_port
        self.listeners.serve_calls(self.grpc.methods)
        self.grpc.services.renewals.open_points = OpenMessages(self.pop_parts.lanes)
        self.pop_parts.aging.leaving = partial(leaving, self.grpc)
        serve_plain_calls(base, self.grpc, self.pop_parts.handler.held, self.listeners.fed)
        self.verdicts, self.pull_verdicts = self.listeners.verdicts, self.listeners.pull_verdicts
        self.metering = self._metering(ports, parts)
        self._carry_before_deletion()
        self.topics.watch(self._topic_changed)
        if base.access.gate is not None:
            base.access.table.directory.watch(self._rights_changed)

    def _dressing(self) -> Callable[[Mapping[int, Handler]], dict[int, Handler]]:
        """Return what puts around handlers the audit log and the watch over the event loop."""
        audit, access, holds = self.environment.audit, self.base.access, self.base.statistics.holds
        if audit is None:
            return holds.around
        told = AccessAudit(audit, access.table.directory)
        told.watch(access.gate)
        told.watch_arrivals()
        auditing = Auditing(audit, told.describe)
        return lambda handlers: holds.around(auditing.around(handlers))

    def _metering(self, ports: Ports, parts: Parts) -> MetricsParts:
        return MetricsParts(
            self.base,
            self.naming,
            self.sends,
            self.timing,
            self.transactions,
            self.retries,
            self.pop_parts,
            lambda: self.pop_parts.figures() | self.stored_pops.figures(),
            lambda: self.listeners.servers,
            inspection(parts).troubles,
            ports.metrics,
        )

    def _runtime_info(self) -> RuntimeInfo:
        loops, quarantine = self.environment.loops, self.storage.quarantine
        conflicts = self.clients.consumers.conflicts
        return RuntimeInfo(
            self.live,
            self.environment.clock,
            self.store,
            self.environment.disk,
            self.counters,
            lambda kind: self.listeners.waiting(kind),
            self.statistics.lag.now_ms,
            self.statistics.holds,
            self.intake.times,
            self.pulls,
            self.timing.level_progress,
            self.timing.timers.behind,
            lambda: (
                {
                    "pyromqQuarantined": str(len(quarantine)),
                    "pyromqLoopFaults": str(loops.restarts),
                    "pyromqSubscriptionConflicts": str(len(conflicts.open)),
                    "pyromqRefusedConsumers": str(len(conflicts.refused)),
                }
                | self.pop_parts.figures()
                | self.stored_pops.figures()
                | (self.replicating if self.slave is None else self.slave).figures()
            ),
        )

    def _carry_before_deletion(self) -> None:
        """Let each of these carry forward what is still needed of a log file before it goes; the last one notes it.

        A slave carries nothing: what its master has carried comes with the log."""
        own: tuple[Carrier, ...] = (
            self.timing.levels.carry,
            self.timing.timers.carry,
            self.transactions.carrier,
            self.retries.dead_letters.carry,
        )
        if self.master_tables is not None:
            own = (*own, self.master_tables.carry)
        for carrier in (*(own if self.slave is None else ()), self.storage.keep_quarantined, self.storage.expired.note):
            self.retention.add_carrier(carrier)

    @property
    def address(self) -> str:
        """Return the address that clients are given."""
        return self.environment.address

    # --- start and stop -------------------------------------------------------------------------------------------

    async def start(self) -> str:
        """Accept connections and serve; return the address that clients are given."""
        self.storage.gate.measure()
        if self.slave is None:
            if self.environment.elected is not None:
                self.replicating.accept()
                # Recovery reads what is readable: that is all of the log once the set has confirmed it.
                await self.store.readable.reached(self.store.commit_log.end)
            await self._recover()
        self.listeners.accept()
        self.metering.exporting.begin()
        if self.slave is None and self.environment.elected is None:
            self.replicating.accept()
        return self.address

    async def _recover(self) -> None:
        """Go on where those who put messages by themselves were."""
        if self.master_tables is not None:
            await self.master_tables.begin()
        restore_retry_topics(self.topics, self.store.queues)
        await self.storage.put_released(self.intake)
        await self.transactions.recover()
        await self.pop_parts.recover()
        await self.stored_pops.recover()

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        """Return the loops that run as long as the broker does. One that dies begins again (`supervision.py`)."""
        every, keep = self.environment.every, self.environment.loops.keep
        return [
            keep("flush", self.store.run),
            *self.message_loops(),
            keep("retention", self.retention.run),
            *self.statistics.loops(),
            every("runtime samples", 1.0, self.runtime.sample),
            every("silent clients", HOUSEKEEPING_S, self.clients.housekeep),
            every("groups far behind", PROTECTION_S, self.pull_parts.protect),
            every("filters", PROTECTION_S, self._clean_filters),
            every("unused verdicts", PROTECTION_S, self.listeners.forget_unused_verdicts),
            keep("consumer offsets", self.tables.keep_offsets),
            *self.base.access.loops(),
            *self.naming.loops(),
            *self.replicating.loops(),
        ]

    def message_loops(self) -> list[Coroutine[Any, Any, None]]:
        """Return the loops that carry messages on by themselves. On a slave they come from its master alone."""
        if self.follower_tables is not None:
            return self.follower_tables.loops()
        if self.slave is not None:
            return [*self.slave.loops(), self.timing.keep_progress()]
        own = (self.timing, self.transactions, self.pop_parts, self.stored_pops)
        tables = [] if self.master_tables is None else self.master_tables.loops()
        return [*tables, *(loop for parts in own for loop in parts.loops())]

    async def stop(self, *, is_leaving: bool = True) -> None:
        """Leave the name servers first, so that clients look elsewhere; then finish requests; close the store last.

        Whatever fails on the way, the store is closed, so that the next start need not recover. `is_leaving`: False for
        a change of roles, after which this broker registers in another one.
        """
        try:
            if self.master_tables is not None:
                self.master_tables.leave()
            await self._stop_serving(is_leaving=is_leaving)
            if self.follower_tables is not None:  # whose tables are the log's: nobody else writes into them
                await self.follower_tables.close()
            else:
                await self.transactions.checks.close()
                await self.pop_parts.close()
                await self.stored_pops.close()
            await self.timing.close()
            await self.transactions.close_tables()
            await self.balance.close_tables()
            if self.slave is not None:
                await self.slave.close()
            await self.slave_tables.close_tables()
            await self.base.close_tables()
            if self.master_tables is not None:
                self.master_tables.stopped()
        finally:
            self.store.close()

    async def _stop_serving(self, *, is_leaving: bool) -> None:
        await self.metering.exporting.stop()
        if is_leaving:
            await self.naming.registration.unregister()
        self.pulls.suspended.end_all()
        self.pop_parts.end_waits()
        for server in self.servers:
            self.intake.flush()  # its answers are not among the requests that the server waits for
            await server.stop(self.environment.config.shutdown_wait_time_seconds)
        await self.replicating.close()
        self.listeners.close_ports()
        await self.grpc.close()
        await self.naming.close()

    # --- what happens ---------------------------------------------------------------------------------------------

    def _connection_lost(self, peer: Peer) -> None:
        self.pulls.suspended.drop(peer)
        self.pop_parts.connection_lost(peer)
        self.clients.handlers.lost(peer)
        self.base.quotas.lost(peer.address)

    def _topic_changed(self, name: str) -> None:
        self.pulls.suspended.end_topic(name)
        self.pop_parts.topic_changed(name)
        self.naming.registration.announce()

    def _rights_changed(self, _: str) -> None:
        """Have all who wait for messages ask again: they may not be allowed to any more."""
        self.pulls.suspended.dismiss_all()
        self.pop_parts.end_held()

    def _clean_filters(self) -> None:
        self.clients.filters.clean(self.live.config.filter_data_clean_time_span)


def with_own_certificate(loaded: Loaded[BrokerConfig], folder: Path, clock: Clock) -> Loaded[BrokerConfig]:
    """Return the configuration with the broker's own certificate, where it has none and shall have one."""
    config = loaded.config
    hosts = (config.advertised_host, config.bind_address, *config.part(AdminListenerSettings).admin_hosts)
    return with_certificate("broker", loaded, config.part(TransportSettings), folder, hosts, clock.now_ms())
