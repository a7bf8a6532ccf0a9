"""The broker's composition root: makes the parts, starts them in order, stops them in reverse. Nothing else.

`wiring/` has a file per capability that makes its parts; this page is the order in which they come and go. daemon.py
runs it as a process. Tests and the pytest plugin make a `Broker` on a disk of theirs and let it listen.
"""

from __future__ import annotations

import random
from collections.abc import Coroutine
from typing import Any

from .. import logs
from ..ambient import Clock, RunBlocking
from ..config import Live, Loaded
from ..machine.budget import Budget
from ..model.ids import pack_host
from ..store.files.disk import Disk
from ..store.log.flush import LogFlusher
from ..store.recovery.lock import claim_store
from ..store.recovery.store_state import refuse_missing_tables
from ..supervision import Loops
from ..transport.client import Connect
from ..transport.peer import Peer
from ..transport.settings import TransportSettings
from .config import BrokerConfig
from .intake.parking import refuse_what_nobody_delivers
from .java_keys import BROKER_KEYS
from .registration import Registration
from .transactions.park import park_half
from .transactions.recent import RecentHalves
from .wiring.clients import ClientSide
from .wiring.front import Around, Front
from .wiring.ground import Ground
from .wiring.handlers import Wired, handlers
from .wiring.naming import Naming
from .wiring.pulling import Pulls
from .wiring.retries import Retries
from .wiring.sending import Sends
from .wiring.statistics import Statistics
from .wiring.storage import Storage
from .wiring.tables import Tables
from .wiring.timing import Timing
from .wiring.transactions import Transactions

log = logs.get("pyromq.broker")

HOUSEKEEPING_S = 10.0
PROTECTION_S = 180.0  # as Java looks for groups that read too far behind


class Broker:
    """Event loop only. Opening it takes the store's lock and recovers; ConfigError or StoreError says why not."""

    def __init__(
        self,
        loaded: Loaded[BrokerConfig],
        *,
        clock: Clock,
        rng: random.Random,
        disk: Disk,
        run_blocking: RunBlocking,
        connect: Connect | None = None,
        budget: Budget | None = None,
        around: Around | None = None,
        flusher: LogFlusher | None = None,
    ) -> None:
        config = loaded.config
        self.live = Live(loaded, BROKER_KEYS, config.overlay_path)
        ground = self.ground = Ground(
            config, self.live, clock, rng, disk, run_blocking, Loops(clock, log), budget or Budget()
        )
        with ground.beginning():
            self._make_parts(ground, connect, around, flusher)

    def _make_parts(
        self, ground: Ground, connect: Connect | None, around: Around | None, flusher: LogFlusher | None
    ) -> None:
        self.tables, self.storage = _open(ground, flusher)
        self.topics, self.groups, self.offsets = self.tables.topics, self.tables.groups, self.tables.offsets
        self.store, self.retention = self.storage.store, self.storage.retention
        self.statistics = Statistics(ground)
        self.counters = self.statistics.counters
        self.client_side = ClientSide(ground, self.tables)
        self.producers = self.client_side.producers
        self.timing = Timing(ground, self.store)
        # The first one that is concerned takes a message aside.
        parks = (park_half, refuse_what_nobody_delivers, self.timing.timer_park, self.timing.levels)
        recent_halves = RecentHalves()
        self.sends = Sends(ground, self.storage, parks, recent_halves)
        self.intake = self.sends.intake
        self.transactions = Transactions(ground, self.store, self.intake, recent_halves)
        self.pull_side = Pulls(ground, self.store, self.tables, self.client_side, self.counters)
        self.pulls = self.pull_side.handler
        transport = ground.config.part(TransportSettings)
        self.naming = Naming(ground, self.tables, transport, connect)
        self.front = Front(ground, transport, around, self._connection_lost)
        self.servers, self.verdicts, self.pull_verdicts = (
            self.front.servers,
            self.front.verdicts,
            self.front.pull_verdicts,
        )
        self.statistics.watch(self.storage, self.intake, self.pulls, self.timing, self.front.waiting)

    @property
    def registration(self) -> Registration | None:
        return self.naming.registration

    @property
    def address(self) -> str:
        """What clients are told; empty before the start."""
        return self.naming.address

    # --- start and stop -------------------------------------------------------------------------------------------

    async def start(self) -> str:
        """Listen and serve; the address that clients are told."""
        port = await self.front.listen()
        self.storage.gate.look()
        self.naming.begin(port)
        store_host = pack_host(self.ground.config.advertised_host, port)
        self.timing.begin(self.storage, self.intake, self.counters, store_host)
        await self.storage.put_released(self.intake, store_host)
        await self.transactions.begin(self.storage, self.offsets, self.producers, store_host)
        retries = Retries(
            self.ground, self.storage, self.tables, self.intake, self.timing.levels, self.counters, store_host
        )
        self._keep_what_waits(retries)
        self.sends.begin(
            self.tables,
            self.client_side,
            self.statistics,
            store_host,
            self.front.limits,
            self.front.parked_answers,
            self.naming.auto_created,
        )
        every = handlers(self._wired(retries), store_host, self.ground.budget.memory_bytes)
        self.front.serve(self.statistics.holds.around(every))
        self.front.feed_kernel(self.sends.parts, self.pull_side.parts(self.front.limits), self.store)
        self.topics.watch(lambda name, topic: self._topic_changed(name))
        return self.address

    def _keep_what_waits(self, retries: Retries) -> None:
        """Before a log file goes, each of these carries forward what is still needed of it; the last one notes it."""
        assert self.timing.delays is not None
        assert self.timing.timers is not None
        for carrier in (
            self.timing.delays.carry,
            self.timing.timers.carry,
            self.transactions.carrier,
            retries.dead_letters.carry,
            self.storage.keep_quarantined,
            self.storage.expired.note,
        ):
            self.retention.add_carrier(carrier)

    def _wired(self, retries: Retries) -> Wired:
        return Wired(
            ground=self.ground,
            tables=self.tables,
            storage=self.storage,
            clients=self.client_side,
            timing=self.timing,
            sends=self.sends,
            pulls=self.pull_side,
            transactions=self.transactions,
            retries=retries,
            statistics=self.statistics,
            naming=self.naming,
            front=self.front,
        )

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        """What runs as long as the broker does. One that dies begins again (`supervision.py`)."""
        config, every, keep = self.ground.config, self.ground.every, self.ground.loops.keep
        return [
            keep("flush", self.store.run),
            *self.message_loops(),
            keep("retention", self.retention.run),
            *self.statistics.loops(),
            every("silent clients", HOUSEKEEPING_S, self.client_side.housekeep),
            every("groups far behind", PROTECTION_S, self.pull_side.protect),
            every("filters", PROTECTION_S, self._clean_filters),
            every("unused verdicts", PROTECTION_S, self.front.forget_unused_verdicts),
            every("consumer offsets", config.flush_consumer_offset_interval / 1000, self.tables.store_offsets),
            *self.naming.loops(),
        ]

    def message_loops(self) -> list[Coroutine[Any, Any, None]]:
        """Those that carry messages on by themselves."""
        return [*self.timing.loops(), *self.transactions.loops()]

    async def stop(self) -> None:
        """Name servers first, so that clients look elsewhere; then what is in flight; the tables and the store last.

        Whatever fails on the way, the store is closed, so that the next start need not recover.
        """
        try:
            await self._stop_serving()
            await self.transactions.stop()
            await self.timing.close()
            await self._close_tables()
        finally:
            self.store.close()

    async def _stop_serving(self) -> None:
        await self.naming.farewell()
        self.pulls.stop()
        for server in self.servers:
            self.intake.flush()  # its answers are not among the requests that the server waits for
            await server.stop(self.ground.config.shutdown_wait_time_seconds)
        await self.naming.close()

    async def _close_tables(self) -> None:
        for part in (self.tables, self.transactions, self.storage, self.client_side):
            await part.close_tables()

    # --- what happens ---------------------------------------------------------------------------------------------

    def _connection_lost(self, peer: Peer) -> None:
        self.pulls.lost(peer)
        self.client_side.handlers.lost(peer)

    def _topic_changed(self, name: str) -> None:
        self.pulls.topic_changed(name)
        self.naming.announce()

    def _clean_filters(self) -> None:
        self.client_side.filters.clean(self.live.config.filter_data_clean_time_span)


def _open(ground: Ground, flusher: LogFlusher | None) -> tuple[Tables, Storage]:
    """The lock first: the tables of a store that another process has are not even read."""
    lock = claim_store(ground.disk)
    try:
        refuse_missing_tables(ground.disk)
        tables = Tables(ground)
        return tables, Storage(ground, tables, flusher, lock)
    except BaseException:
        lock.release()
        raise
