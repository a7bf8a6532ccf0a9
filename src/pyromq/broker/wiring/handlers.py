"""The handlers of all request codes, each made with the parts that it uses. `surface.py` says which serves which."""

from __future__ import annotations

from dataclasses import dataclass

from ...store.log.retention import RetentionConfig
from ...transport.dispatch import Handler
from ...transport.turns.slices import Slices
from ..admin.cold_reads import ColdReadAdmin
from ..admin.connections import ConnectionAdmin
from ..admin.groups import GroupAdmin
from ..admin.maintenance import Maintenance
from ..admin.offsets import OffsetAdmin
from ..admin.progress import Progress
from ..admin.replicas import Replicas
from ..admin.rocksdb import RocksDbAdmin
from ..admin.settings import SettingsAdmin
from ..admin.topics import TopicAdmin
from ..clients.offset_handlers import OffsetHandlers
from ..messages.dead_letters import DeadLetterAdmin
from ..messages.inspection import Inspection
from ..messages.message_life import MessageLife
from ..messages.message_queries import MessageQueries
from ..messages.queue_handlers import QueueHandlers
from ..surface import surface
from .clients import ClientSide
from .front import Front
from .ground import Ground
from .naming import Naming
from .pulling import Pulls
from .retries import Retries
from .sending import Sends
from .statistics import Statistics
from .storage import Storage
from .tables import Tables
from .timing import Timing
from .transactions import Transactions


@dataclass(frozen=True, slots=True)
class Wired:
    """Every group of parts, once all have begun."""

    ground: Ground
    tables: Tables
    storage: Storage
    clients: ClientSide
    timing: Timing
    sends: Sends
    pulls: Pulls
    transactions: Transactions
    retries: Retries
    statistics: Statistics
    naming: Naming
    front: Front


def handlers(wired: Wired, store_host: bytes, memory_bytes: int) -> dict[int, Handler]:
    ground, tables, storage, clients = wired.ground, wired.tables, wired.storage, wired.clients
    timing, sends, pulls = wired.timing, wired.sends, wired.pulls
    counters, own_address = wired.statistics.counters, wired.naming.own_address
    live, now_ms, name = ground.live, ground.clock.now_ms, ground.config.broker_name
    store, topics, groups, offsets = storage.store, tables.topics, tables.groups, tables.offsets
    known = (topics, groups, offsets, clients.consumers)
    slices = Slices(ground.clock)
    topics_saved, groups_saved = tables.topic_save.saved, tables.group_save.saved
    return surface(
        send=sends.handler,
        replies=sends.replies(clients, own_address),
        delays=timing.delay_handlers(),
        timers=timing.timer_handlers(),
        recall=timing.recall(topics, sends.intake, counters, store_host),
        send_back=wired.retries.send_back,
        ends=wired.transactions.ends(timing.levels, counters),
        half_messages=wired.transactions.listing,
        pulls=pulls.handler,
        clients=clients.handlers,
        offsets=OffsetHandlers(live, topics, groups, offsets, store, memory_bytes),
        queues=QueueHandlers(store),
        queries=MessageQueries(live, store),
        topic=TopicAdmin(live, topics, offsets, store.queues, topics_saved, counters.forget_topic, slices),
        group=GroupAdmin(groups, offsets, groups_saved, counters.forget_group, slices),
        offset=OffsetAdmin(live, *known, store, tables.offsets_saved, slices),
        progress=Progress(name, own_address, now_ms, *known, store, counters, clients.filters, slices),
        connection=ConnectionAdmin(name, own_address, *known, clients.producers, store, slices),
        settings=_settings(wired),
        runtime=wired.statistics.runtime,
        replicas=Replicas(store),
        rocksdb=RocksDbAdmin(
            {"topics": topics_saved, "subscriptionGroups": groups_saved, "consumerOffsets": tables.offsets_saved}
        ),
        upkeep=Maintenance(topics, store, storage.retention, slices),
        cold_reads=ColdReadAdmin(live, pulls.cold_reads, store.commit_log),
        inspection=_inspection(wired),
        life=_message_life(wired),
        dead_letters=DeadLetterAdmin(live, store, wired.retries.dead_letters, now_ms),
    )


def _settings(wired: Wired) -> SettingsAdmin:
    live, retention, naming = wired.ground.live, wired.storage.retention, wired.naming

    def changed(keys: set[str]) -> None:
        retention.use(live.config.part(RetentionConfig))
        if "brokerPermission" in keys:
            naming.announce()

    return SettingsAdmin(live, wired.ground.clock.now_ms, naming.own_address, changed)


def _inspection(wired: Wired) -> Inspection:
    clients, sends, timing, transactions = wired.clients, wired.sends, wired.timing, wired.transactions
    return Inspection(
        wired.ground.live,
        wired.ground.clock,
        wired.storage.store,
        sends.intake,
        wired.pulls.handler,
        clients.locks,
        clients.consumers,
        clients.producers,
        wired.front.servers,
        wired.naming.current,
        wired.storage.refusal,
        wired.statistics.lag.now_ms,
        wired.statistics.holds,
        sends.duplicates,
        lambda: timing.parked() | transactions.parked(),
        transactions.listing.undecided,
        wired.storage.quarantine,
        wired.ground.loops,
        wired.ground.budget,
    )


def _message_life(wired: Wired) -> MessageLife:
    return MessageLife(
        wired.ground.live,
        wired.storage.store,
        wired.tables.offsets,
        wired.clients.consumers,
        wired.transactions.halves,
        wired.retries.dead_letters,
        wired.storage.expired,
        wired.storage.quarantine,
        wired.ground.clock.now_ms,
    )
