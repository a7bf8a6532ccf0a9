"""The broker's composition root: makes the parts, starts them in order, stops them in reverse. Nothing else.

daemon.py runs it as a process. Tests and the pytest plugin make a `Broker` on a disk of theirs and let it listen.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from .. import logs
from ..ambient import Clock
from ..config import Live, Loaded
from ..errors import RequestRefused
from ..model.codes import ResponseCode
from ..model.filters.bloom import Bloom
from ..model.ids import UniqueIds, pack_host
from ..model.names import TIMER_TOPIC
from ..protocol.bodies.topics import TopicConfig
from ..store.config import FlushMode
from ..store.disk import Disk
from ..store.flush_loop import LogFlusher, RunBlocking
from ..store.marks import refuse_missing_tables
from ..store.message_store import MessageStore
from ..store.retention import DiskGate, Retention, RetentionConfig
from ..store.tables import Table
from ..store.timer_store import open_timer_store
from ..transport.address import format_address, parse_address
from ..transport.client import Client, Connect
from ..transport.dispatch import Answer, Dispatcher, Handler, Request
from ..transport.peer import Peer
from ..transport.request_class import RequestClass
from ..transport.server import Server
from ..transport.settings import TransportSettings
from .admin.cold_reads import ColdReadAdmin
from .admin.connections import ConnectionAdmin
from .admin.dead_letters import DeadLetterAdmin
from .admin.expired import Expired
from .admin.groups import GroupAdmin
from .admin.inspection import Inspection
from .admin.maintenance import Maintenance
from .admin.message_life import MessageLife
from .admin.offsets import OffsetAdmin
from .admin.progress import Progress
from .admin.replicas import Replicas
from .admin.rocksdb import RocksDbAdmin
from .admin.runtime import RuntimeInfo
from .admin.settings import SettingsAdmin
from .admin.topics import TopicAdmin
from .admission import Admission, LoopLag
from .clients.consumers import Consumers
from .clients.filter_data import ConsumerFilters
from .clients.handlers import ClientHandlers
from .clients.producers import Producers
from .config import BrokerConfig
from .duplicate_recovery import rebuild_window
from .duplicates import DuplicateTable
from .intake import Intake
from .java_keys import BROKER_KEYS
from .message_queries import MessageQueries
from .metadata.attributes import QUEUE_TYPE
from .metadata.groups import Groups
from .metadata.new_topics import NewTopics
from .metadata.offsets import Offsets
from .metadata.saving import SaveSoon
from .metadata.system_topics import system_topics
from .metadata.topics import Topics
from .offset_handlers import OffsetHandlers
from .order_lock_table import OrderLockTable
from .order_locks import OrderLocks
from .parking import refuse_what_nobody_delivers
from .pull import PullHandler
from .pull_checks import PullChecks
from .pull_verdicts import Pulling, PullVerdicts
from .queue_handlers import QueueHandlers
from .registration import Identity, Picture, Registration
from .replies import Replies
from .retries.dead_letters import DeadLetters
from .retries.send_back import SendBack
from .send import SendHandler, born_host
from .send_checks import SendChecks
from .send_once import SendOnce
from .slow_readers import Backlog, ColdReads
from .spread import Spread
from .stamp import Stamp
from .stats.counters import Counters
from .surface import on_fast_port, surface
from .timing.deliver import Delivery
from .timing.handlers import DelayHandlers, TimerHandlers
from .timing.park import LevelPark
from .timing.progress import DelayProgress
from .timing.recall import Recall
from .timing.table import note_levels
from .timing.timer_records import TimerPark
from .timing.timers import Timers
from .transactions.carry import HalfCarrier
from .transactions.check import TransactionChecks
from .transactions.end import TransactionEnds
from .transactions.halves import Halves
from .transactions.listing import HalfListing
from .transactions.park import park_half
from .transactions.recovery import recover
from .verdicts import Sending, Verdicts, native_verdicts, patience

log = logs.get("pyromq.broker")

HOUSEKEEPING_S = 10.0
SAMPLE_S = 10.0
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
        memory_bytes: int = 0,
        around: Callable[[Handler], Handler] | None = None,
        flusher: LogFlusher | None = None,
    ) -> None:
        config = loaded.config
        self._clock = clock
        self._around = around  # faults that a test wants
        self._rng = rng
        self._config = config
        self._memory_bytes = memory_bytes
        self._transport = config.part(TransportSettings)
        self.live = Live(loaded, BROKER_KEYS, config.overlay_path)
        refuse_missing_tables(disk)
        self._saves = [
            SaveSoon(Table(disk, f"config/{name}.json"), run_blocking, clock)
            for name in ("topics", "subscriptionGroup", "consumerOffset", "delayOffset")
        ]
        topics, groups, offsets, delays = self._saves
        self.topics = Topics(topics.table, clock.now_ms, system_topics(config), topics.changed)
        self._new_topics = NewTopics(topics.saved)
        self.groups = Groups(groups.table, clock.now_ms, groups.changed)
        self.offsets = Offsets(offsets.table, clock.now_ms, config.consumer_offset_update_version_step)
        self.delay_progress = DelayProgress(delays.table, clock.now_ms)
        self.store = MessageStore(disk, config, clock, run_blocking, self._is_batch_topic, flusher)
        retention = config.part(RetentionConfig)
        self._disk_gate = DiskGate(disk, retention)
        self.retention = Retention(self.store, self._disk_gate, self.store.files_in_use, retention, clock)
        self.cold_reads, self._backlog = ColdReads(), Backlog()
        self.counters = Counters(config.broker_cluster_name, clock.now_ms())
        self.consumers, self.producers = Consumers(), Producers()
        self.locks = OrderLocks(config.rebalance_lock_max_live_time / 1000)
        self._lock_save = SaveSoon(Table(disk, "pyromq/orderLocks.json"), run_blocking, clock)
        self._kept_locks = OrderLockTable(self._lock_save.table, self.locks, clock.monotonic(), self._lock_save.saved)
        self._lag = LoopLag(clock)
        self._levels = LevelPark(config.delay_levels)
        note_levels(Table(disk, "pyromq/delayLevels.json"), config.message_delay_level)
        self.delays: Delivery | None = None
        waiting = self.store.queues.get(TIMER_TOPIC, 0)
        self.timer_store = open_timer_store(
            disk,
            config.timer,
            clock.now_ms(),
            self.store.reader.record_at,
            0 if waiting is None else waiting.next_offset,
        )
        self.timer_park = TimerPark(
            lambda: self.live.config, clock.now_ms, self.timer_store.count_at, self._rng.randrange
        )
        self._timer_counts = SaveSoon(Table(disk, "config/timermetrics"), run_blocking, clock)
        self.timers: Timers | None = None
        self._run_blocking = run_blocking
        self.transactions: TransactionChecks | None = None
        self.half_messages: HalfListing | None = None
        self._transaction_saves = [
            # Nobody but us reads the first: with 100,000 undecided, writing it whole each few seconds costs much.
            SaveSoon(Table(disk, "pyromq/transactionChecks.json"), run_blocking, clock, fold_s=60.0),
            SaveSoon(Table(disk, "config/transactionMetrics"), run_blocking, clock),
        ]
        self._expired_saves = SaveSoon(Table(disk, "pyromq/expired.json"), run_blocking, clock)
        self._expired = Expired(
            self._expired_saves.table, self.store.commit_log, clock.now_ms, self._expired_saves.changed
        )
        parks = (park_half, refuse_what_nobody_delivers, self.timer_park, self._levels)
        self.intake = Intake(self.store, clock, config.flush_mode, parks)
        self.duplicates = self._duplicate_window()
        self._filter_save = SaveSoon(Table(disk, "config/consumerFilter.json"), run_blocking, clock)
        bloom = Bloom.sized(config.max_error_rate_of_bloom_filter, config.expect_consumer_num_use_filter)
        self.filters = ConsumerFilters(self._filter_save.table, clock.now_ms, bloom, self._filter_save.changed)
        self.clients = ClientHandlers(
            self.live,
            clock,
            self.topics,
            self.groups,
            self.consumers,
            self.producers,
            self.locks,
            self.filters,
            self._kept_locks.keep,
        )
        self._pull_checks = PullChecks(self.topics, self.groups, self.consumers, self.filters)
        self.pulls = PullHandler(
            self.live,
            clock,
            self.store,
            self._pull_checks,
            self.offsets,
            self.cold_reads,
            self._backlog,
            self.counters.got,
        )
        self._client = Client(
            clock=clock,
            rng=rng,
            tls=self._transport.client_tls(),
            connect=connect,
            on_close=self._name_server_lost,
        )
        self._front: dict[str, Dispatcher] = {}
        self._sending: Sending | None = None
        self.verdicts: list[Verdicts] = []
        self.pull_verdicts: list[PullVerdicts] = []
        self.runtime = RuntimeInfo(
            self.live,
            clock,
            self.store,
            disk,
            self.counters,
            self._waiting,
            self._lag.now_ms,
            self.intake.times,
            self.pulls,
            lambda: self.delay_progress.levels(self.store.queues),
            lambda: {} if self.timers is None else self.timers.behind(),
        )
        self.servers = [self._server(name) for name in ("main", "fast")]
        self.registration: Registration | None = None
        self._spread: Spread | None = None
        self.address = ""

    def _duplicate_window(self) -> DuplicateTable | None:
        config = self._config
        if not config.duplicate_window_enable:
            return None
        table = DuplicateTable(config.duplicate_window_messages, config.duplicate_window_seconds * 1000)
        rebuild_window(table, self.store.commit_log, config.delay_levels, self._clock.now_ms())
        return table

    def _waiting_for_disk(self) -> int:
        """Sends whose answer waits for a sync. Asked for every received buffer, so it is quick where there are none."""
        if self._config.flush_mode is FlushMode.ASYNC:
            return 0
        return self.intake.waiting + sum(server.parked for server in self.servers)

    def _waiting(self, kind: RequestClass) -> int:
        return sum(server.waiting(kind) for server in self.servers)

    def _is_batch_topic(self, name: str) -> bool:
        topic = self.topics.find(name)
        return topic is not None and topic.attributes.get(QUEUE_TYPE) == "BatchCQ"

    def _server(self, name: str) -> Server:
        return Server(
            self._served(name),
            clock=self._clock,
            limits=self._transport.limits(),
            tls=self._transport.server_tls(),
            on_close=self._connection_lost,
            name=name,
        )

    def _served(self, listener: str) -> Handler:
        def serve(request: Request) -> Answer:
            return self._serve(listener, request)

        return serve if self._around is None else self._around(serve)

    def _serve(self, listener: str, request: Request) -> Answer:
        dispatcher = self._front.get(listener)
        if dispatcher is None:
            raise RequestRefused("this broker is starting: try again", ResponseCode.SERVICE_NOT_AVAILABLE)
        return dispatcher(request)

    # --- start and stop -------------------------------------------------------------------------------------------

    async def start(self) -> str:
        """Listen and serve; the address that clients are told."""
        config = self._config
        host = config.bind_address.strip("[]")
        port = parse_address(await self.servers[0].start(host, config.listen_port))[1]
        await self.servers[1].start(host, config.fast_port)
        self.address = format_address(config.advertised_host, port)
        self._disk_gate.look()
        identity = Identity(
            cluster=config.broker_cluster_name,
            broker_name=config.broker_name,
            address=self.address,
            ha_address=format_address(config.advertised_host, port + 1),
        )
        self.registration = self._registration(identity)
        self._spread = Spread(self._client, identity, config.namesrv_addr)
        store_host = pack_host(config.advertised_host, port)
        self.delays = Delivery(
            self.store, self.intake, self._clock, self._levels, self.delay_progress, store_host, self.counters.put
        )
        self.retention.add_carrier(self.delays.carry)
        self.timers = self._make_timers(store_host)
        self.retention.add_carrier(self.timers.carry)
        halves = Halves(
            self.store, self.intake, self.offsets, self._transaction_saves[0].table, store_host, self._clock
        )
        metrics = self._transaction_saves[1].table
        self.half_messages = HalfListing(halves, metrics, store_host, self._clock.now_ms)
        self.transactions = self._transaction_checks(halves, store_host)
        await recover(self.store, halves)
        self.retention.add_carrier(HalfCarrier(self.store, self.intake, halves, store_host))
        dead_letters = DeadLetters(
            self.live, self.store, self.intake, store_host, self._clock.now_ms, lambda: self.retention.is_short
        )
        self.retention.add_carrier(dead_letters.carry)
        self.retention.add_carrier(self._expired.note)
        handlers = self._handlers(store_host, halves, dead_letters)
        self._front = {"main": Dispatcher(handlers), "fast": Dispatcher(on_fast_port(handlers))}
        self._feed_kernel()
        self.topics.watch(lambda name, topic: self._topic_changed(name))
        return self.address

    def _parked(self) -> dict[str, int]:
        levels = self.delay_progress.waiting_in(self.store.queues)()
        if self.delays is not None and self.delays.lost:
            levels["delay levels, LOST"] = self.delays.lost
        if self.half_messages is not None and self.half_messages.lost:
            levels["half messages, LOST"] = self.half_messages.lost
        return levels | ({} if self.timers is None else self.timers.parked())

    def _make_timers(self, store_host: bytes) -> Timers:
        return Timers(
            self.live,
            self.store,
            self.intake,
            self.timer_store,
            self._timer_counts,
            self._run_blocking,
            self._clock,
            store_host,
            self.counters.put,
        )

    def _recall(self, store_host: bytes) -> Recall:
        return Recall(
            self.live,
            self.topics,
            self.store,
            self.intake,
            self.timer_park,
            store_host,
            self._clock.now_ms,
            born_host,
            self.counters.put,
        )

    def _registration(self, identity: Identity) -> Registration:
        config = self._config
        return Registration(
            self._client,
            self._clock,
            identity,
            config.namesrv_addr,
            self._picture,
            period_s=config.register_name_server_period / 1000,
            timeout_s=config.register_broker_timeout_mills / 1000,
            order_topics=self.topics.declare_ordered,
        )

    def _picture(self) -> Picture:
        config = self.live.config
        return Picture(self.topics.version, self.topics.all(), config.broker_permission, config.compressed_register)

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        """What runs as long as the broker does. One that ends takes the daemon with it."""
        loops = [
            self.store.run(),
            *self.message_loops(),
            self.retention.run(),
            self._lag.run(),
            self._every(HOUSEKEEPING_S, self.housekeep),
            self._sample_counters(),
            self._every(1.0, self.runtime.sample),
            self._every(PROTECTION_S, self._protect),
            self._every(PROTECTION_S, lambda: self.filters.clean(self.live.config.filter_data_clean_time_span)),
            self._every(self._config.flush_consumer_offset_interval / 1000, self._store_offsets),
        ]
        if self.registration is not None and self._config.namesrv_addr:
            loops.append(self.registration.run())
        return loops

    def _transaction_checks(self, halves: Halves, store_host: bytes) -> TransactionChecks:
        return TransactionChecks(
            self.live,
            self._clock,
            self.store,
            self.intake,
            halves,
            self.producers,
            store_host,
            self._transactions_changed,
        )

    def _transactions_changed(self) -> None:
        assert self.half_messages is not None
        self.half_messages.count()
        for save in self._transaction_saves:
            save.changed()

    def message_loops(self) -> list[Coroutine[Any, Any, None]]:
        """Those that carry messages on by themselves."""
        assert self.delays is not None
        assert self.timers is not None
        assert self.transactions is not None
        return [
            self.delays.run(),
            self.timers.run(),
            self._every(self._config.flush_delay_offset_interval / 1000, self._store_delays),
            self.transactions.run(),
        ]

    def housekeep(self) -> None:
        self.clients.housekeep()
        if self._kept_locks.note():  # some have expired: a restart must not bring them back
            self._lock_save.changed()

    async def _every(self, seconds: float, act: Callable[[], None]) -> None:
        while True:
            await self._clock.sleep(seconds)
            act()

    async def _sample_counters(self) -> None:
        while True:
            await self._clock.sleep(SAMPLE_S)
            for _ in self.counters.sampling(self._clock.now_ms()):
                await self._clock.sleep(0)

    def _store_offsets(self) -> None:
        if self.offsets.store_changed():
            self._saves[2].changed()

    def _store_delays(self) -> None:
        if self.delay_progress.store_changed(self.store.flushed.value):
            self._saves[3].changed()

    async def stop(self) -> None:
        """Name servers first, so that clients look elsewhere; then what is in flight; the tables and the store last.

        Whatever fails on the way, the store is closed, so that the next start need not recover.
        """
        try:
            await self._stop_serving()
            await self._stop_loops()
        finally:
            self.store.close()

    async def _stop_serving(self) -> None:
        if self.registration is not None:
            await self.registration.farewell()
        self.pulls.stop()
        for server in self.servers:
            self.intake.flush()  # its answers are not among the requests that the server waits for
            await server.stop(self._config.shutdown_wait_time_seconds)
        if self._spread is not None:
            await self._spread.close()
        await self._client.close()

    async def _stop_loops(self) -> None:
        if self.transactions is not None:
            await self.transactions.close()
        self.offsets.store_changed()
        if self.delays is not None:
            await self.delays.close()
        if self.timers is not None:
            await self.timers.close()
        self.delay_progress.store_changed(self.store.flushed.value)
        for save in (*self._saves, *self._transaction_saves, self._expired_saves, self._lock_save, self._filter_save):
            await save.close()

    # --- what happens ---------------------------------------------------------------------------------------------

    def _connection_lost(self, peer: Peer) -> None:
        self.pulls.lost(peer)
        self.clients.lost(peer)

    def _name_server_lost(self, peer: Peer) -> None:
        if self.registration is not None:
            self.registration.lost(peer)

    def _topic_changed(self, name: str) -> None:
        self.pulls.topic_changed(name)
        if self.registration is not None:
            self.registration.announce()

    # --- the surface ----------------------------------------------------------------------------------------------

    def _handlers(self, store_host: bytes, halves: Halves, dead_letters: DeadLetters) -> dict[int, Handler]:
        topics, groups = self._saves[:2]
        send, half_messages = self._send_handler(store_host), self.half_messages
        timers = self.timers
        assert half_messages is not None
        assert timers is not None
        tables = (self.topics, self.groups, self.offsets, self.consumers)
        name = self._config.broker_name
        return surface(
            send=send,
            replies=Replies(self.live, self._clock, self.producers, send, self._own_address),
            delays=DelayHandlers(self.delay_progress),
            timers=TimerHandlers(self.timer_store, timers),
            recall=self._recall(store_host),
            send_back=self._send_back(store_host),
            ends=TransactionEnds(
                self.live,
                self.store,
                self.intake,
                halves,
                self._levels,
                store_host,
                self._clock.now_ms,
                self.counters.put,
            ),
            half_messages=half_messages,
            pulls=self.pulls,
            clients=self.clients,
            offsets=OffsetHandlers(self.live, self.topics, self.groups, self.offsets, self.store, self._memory_bytes),
            queues=QueueHandlers(self.store),
            queries=MessageQueries(self.live, self.store),
            topic=TopicAdmin(
                self.live, self.topics, self.offsets, self.store.queues, topics.saved, self.counters.forget_topic
            ),
            group=GroupAdmin(self.groups, self.offsets, groups.saved, self.counters.forget_group),
            offset=OffsetAdmin(self.live, *tables, self.store, self._offsets_saved),
            progress=Progress(
                name, self._own_address, self._clock.now_ms, *tables, self.store, self.counters, self.filters
            ),
            connection=ConnectionAdmin(name, self._own_address, *tables, self.producers, self.store),
            settings=SettingsAdmin(self.live, self._clock.now_ms, self._own_address, self._settings_changed),
            runtime=self.runtime,
            replicas=Replicas(self.store),
            rocksdb=RocksDbAdmin(
                {
                    "topics": topics.saved,
                    "subscriptionGroups": groups.saved,
                    "consumerOffsets": self._offsets_saved,
                }
            ),
            upkeep=Maintenance(self.topics, self.store, self.retention),
            cold_reads=ColdReadAdmin(self.live, self.cold_reads, self.store.commit_log),
            inspection=Inspection(
                self.live,
                self._clock,
                self.store,
                self.intake,
                self.pulls,
                self.locks,
                self.consumers,
                self.producers,
                self.servers,
                lambda: self.registration,
                lambda: self._disk_gate.refusal,
                self._lag.now_ms,
                self.duplicates,
                self._parked,
                half_messages.undecided,
            ),
            life=MessageLife(
                self.live,
                self.store,
                self.offsets,
                self.consumers,
                halves,
                dead_letters,
                self._expired,
                self._clock.now_ms,
            ),
            dead_letters=DeadLetterAdmin(self.live, self.store, dead_letters, self._clock.now_ms),
        )

    def _send_back(self, store_host: bytes) -> SendBack:
        return SendBack(
            self.live,
            self.topics,
            self.groups,
            self.store,
            self.intake,
            self._levels,
            store_host,
            self._clock.now_ms,
            self._rng.randrange,
            self.counters.put,
        )

    def _own_address(self) -> str:
        return self.address

    async def _offsets_saved(self) -> None:
        self.offsets.store_changed()
        await self._saves[2].saved()

    def _protect(self) -> None:
        """Stop groups that are too far behind, if that is wanted, until an administrator allows them again."""
        self.cold_reads.sweep(self._clock.monotonic())
        for name, behind in self._backlog.too_far(self.live.config).items():
            group = self.groups.find(name)
            if group is not None and group.consume_enable:
                log.warning("group reads too far behind and is stopped", group=name, bytes_behind=behind)
                self.groups.put(msgspec.structs.replace(group, consume_enable=False))

    def _auto_created(self, topic: TopicConfig) -> None:
        self._new_topics.made(topic.topic_name)
        if self._spread is not None and self.live.config.spread_auto_created_topics:
            self._spread(topic)

    def _settings_changed(self, keys: set[str]) -> None:
        self.retention.use(self.live.config.part(RetentionConfig))
        if "brokerPermission" in keys and self.registration is not None:
            self.registration.announce()

    def _send_handler(self, store_host: bytes) -> SendHandler:
        config = self._config
        ids = UniqueIds(config.advertised_host, os.getpid(), self._rng.getrandbits(32), self._clock.now_ms)
        checks = SendChecks(
            self.topics,
            self.groups,
            self._clock.now_ms,
            lambda group: self.locks.is_locked(group, self._clock.monotonic()),
            self._rng.randrange,
            self._auto_created,
        )
        intake = self.intake
        stamp = Stamp(config.broker_cluster_name, config.region_id, ids.next)
        admit = Admission(
            self._clock,
            self._lag,
            lambda: self.store.unflushed,
            self._waiting_for_disk,
            lambda: self._disk_gate.refusal,
        )
        self._sending = Sending(
            self.live,
            self.topics,
            checks,
            admit,
            intake,
            stamp,
            store_host,
            self._new_topics,
            self.store,
            self._clock,
            self.counters.put,
            self._transport.limits(),
        )
        return SendHandler(
            self.live,
            checks,
            intake if self.duplicates is None else SendOnce(intake, self.duplicates, self._clock.now_ms),
            stamp,
            store_host,
            admit,
            self.counters.put,
            self._new_topics,
        )

    def _pulling(self) -> Pulling:
        return Pulling(
            self.live,
            self._clock,
            self.store,
            self.topics,
            self.groups,
            self.consumers,
            self.offsets,
            self._pull_checks,
            self.pulls,
            self._transport.limits(),
        )

    def _feed_kernel(self) -> None:
        """A native kernel takes plain sends and pulls where nobody has to show who he is, and no test stands in the
        way."""
        assert self._sending is not None
        if self._around is not None:
            return
        for server in self.servers:
            verdicts = native_verdicts(self._sending) if self._front[server.name].allows_all else None
            if verdicts is not None:
                self.verdicts.append(verdicts)
                pulls = PullVerdicts(self._pulling(), verdicts.module, verdicts.feed)
                self.pull_verdicts.append(pulls)
                server.use_feed(pulls.feed)
                if self._config.flush_mode is FlushMode.SYNC:
                    self.store.readable.on_advance(server.release)
                    self.store.readable.on_failure(server.give_up_parked)
                    server.wait_at_most(patience(self.live))
