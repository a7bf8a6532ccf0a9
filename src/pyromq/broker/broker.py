"""The broker's composition root: makes the parts, starts them in order, stops them in reverse. Nothing else.

`wiring/` has a file per capability that makes its parts; this page is the order in which they come and go. daemon.py
runs it as a process. Tests and the pytest plugin open a `Broker` on a disk of theirs.
"""

from __future__ import annotations

import random
from collections.abc import Coroutine
from contextlib import ExitStack
from typing import Any

from .. import logs
from ..ambient import Clock, RunBlocking
from ..config import Live, Loaded
from ..machine.budget import Budget
from ..store.files.disk import Disk, DiskLock
from ..store.log.flush import LogFlusher
from ..store.recovery.claim import claim_store
from ..store.recovery.store_state import refuse_missing_tables
from ..supervision import Loops
from ..transport.address import parse_address
from ..transport.client import Connect
from ..transport.peer import Peer
from .config import BrokerConfig
from .java_keys import BROKER_KEYS
from .wiring.clients import ClientParts
from .wiring.environment import Environment
from .wiring.handlers import Parts, handlers
from .wiring.listeners import InjectedFaults, Listeners, Ports, bind_ports
from .wiring.naming import Naming
from .wiring.parks import Parks
from .wiring.pulling import PullParts
from .wiring.retries import RetryParts
from .wiring.sending import SendParts
from .wiring.statistics import Statistics
from .wiring.storage import Storage
from .wiring.tables import Tables
from .wiring.timing import TimingParts
from .wiring.transactions import TransactionParts

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
        flusher: LogFlusher | None = None,
    ) -> Broker:
        """Take the store's lock, bind the ports and recover the store. ConfigError or StoreError says why not."""
        config = loaded.config
        with ExitStack() as undo:
            lock = claim_store(disk)  # first: the tables of a store that another process has are not even read
            undo.callback(lock.release)
            refuse_missing_tables(disk)
            ports = await bind_ports(config)
            undo.callback(ports.close)
            environment = Environment(
                config=config,
                live=Live(loaded, BROKER_KEYS, config.overlay_path),
                clock=clock,
                rng=rng,
                disk=disk,
                run_blocking=run_blocking,
                loops=Loops(clock, log),
                budget=budget or Budget(),
                port=parse_address(ports.main.address)[1],
            )
            with environment.tables_abandoned_on_failure():
                broker = cls(environment, ports, lock, connect, faults, flusher)
            undo.pop_all()
            return broker

    def __init__(
        self,
        environment: Environment,
        ports: Ports,
        lock: DiskLock,
        connect: Connect | None,
        faults: InjectedFaults | None,
        flusher: LogFlusher | None,
    ) -> None:
        self.environment = environment
        self.live = environment.live
        self.tables = tables = Tables(environment)
        self.topics, self.groups, self.offsets = tables.topics, tables.groups, tables.offsets
        self.storage = Storage(environment, tables, flusher, lock)
        self.store, self.retention = self.storage.store, self.storage.retention
        self.statistics = Statistics(environment)
        self.counters = self.statistics.counters
        self.clients = ClientParts(environment, tables)
        self.producers = self.clients.producers
        self.naming = Naming(environment, tables, connect)
        parks = Parks(environment, self.store)
        self.sends = SendParts(
            environment,
            self.storage,
            tables,
            self.clients,
            self.statistics,
            parks,
            lambda: self.listeners.pending_replies(),
            self.naming.auto_created,
        )
        self.intake = intake = self.sends.intake
        self.timing = TimingParts(environment, self.storage, parks, self.topics, self.sends.access)
        self.transactions = TransactionParts(
            environment, self.storage, self.offsets, self.producers, self.sends, parks.levels
        )
        self.retries = RetryParts(environment, self.storage, tables, self.sends.access, parks.levels)
        self.pull_parts = PullParts(environment, self.store, tables, self.clients, self.counters)
        self.pulls = self.pull_parts.handler
        self.runtime = self.statistics.runtime_info(
            self.storage, intake, self.pulls, self.timing, lambda kind: self.listeners.waiting(kind)
        )
        self.listeners = Listeners(
            environment,
            ports,
            self.statistics.holds.around(handlers(self._parts())),
            self.sends.parts,
            self.pull_parts.parts(),
            self.store,
            faults,
            self._connection_lost,
        )
        self.servers = self.listeners.servers
        self.verdicts, self.pull_verdicts = self.listeners.verdicts, self.listeners.pull_verdicts
        self._carry_before_deletion()
        self.topics.watch(self._topic_changed)

    def _parts(self) -> Parts:
        return Parts(
            environment=self.environment,
            tables=self.tables,
            storage=self.storage,
            clients=self.clients,
            timing=self.timing,
            sends=self.sends,
            pulls=self.pull_parts,
            transactions=self.transactions,
            retries=self.retries,
            statistics=self.statistics,
            runtime=self.runtime,
            naming=self.naming,
            servers=lambda: self.listeners.servers,
        )

    def _carry_before_deletion(self) -> None:
        """Let each of these carry forward what is still needed of a log file before it goes; the last one notes it."""
        for carrier in (
            self.timing.levels.carry,
            self.timing.timers.carry,
            self.transactions.carrier,
            self.retries.dead_letters.carry,
            self.storage.keep_quarantined,
            self.storage.expired.note,
        ):
            self.retention.add_carrier(carrier)

    @property
    def address(self) -> str:
        """Return the address that clients are given."""
        return self.environment.address

    # --- start and stop -------------------------------------------------------------------------------------------

    async def start(self) -> str:
        """Accept connections and serve; return the address that clients are given."""
        self.storage.gate.measure()
        await self.storage.put_released(self.intake)
        await self.transactions.recover()
        self.listeners.accept()
        return self.address

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        """Return the loops that run as long as the broker does. One that dies begins again (`supervision.py`)."""
        config, every, keep = self.environment.config, self.environment.every, self.environment.loops.keep
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
            every("consumer offsets", config.flush_consumer_offset_interval / 1000, self.tables.store_offsets),
            *self.naming.loops(),
        ]

    def message_loops(self) -> list[Coroutine[Any, Any, None]]:
        """Return the loops that carry messages on by themselves."""
        return [*self.timing.loops(), *self.transactions.loops()]

    async def stop(self) -> None:
        """Leave the name servers first, so that clients look elsewhere; then finish requests; close the store last.

        Whatever fails on the way, the store is closed, so that the next start need not recover.
        """
        try:
            await self._stop_serving()
            await self.transactions.checks.close()
            await self.timing.close()
            await self._close_tables()
        finally:
            self.store.close()

    async def _stop_serving(self) -> None:
        await self.naming.unregister()
        self.pulls.stop()
        for server in self.servers:
            self.intake.flush()  # its answers are not among the requests that the server waits for
            await server.stop(self.environment.config.shutdown_wait_time_seconds)
        self.listeners.close_ports()
        await self.naming.close()

    async def _close_tables(self) -> None:
        for part in (self.tables, self.transactions, self.storage, self.clients):
            await part.close_tables()

    # --- what happens ---------------------------------------------------------------------------------------------

    def _connection_lost(self, peer: Peer) -> None:
        self.pulls.lost(peer)
        self.clients.handlers.lost(peer)

    def _topic_changed(self, name: str) -> None:
        self.pulls.topic_changed(name)
        self.naming.announce()

    def _clean_filters(self) -> None:
        self.clients.filters.clean(self.live.config.filter_data_clean_time_span)
