"""The handlers of all request codes, each made with the parts that it uses. `surface.py` says which serves which."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ...store.log.retention import RetentionConfig
from ...transport.dispatch import Handler
from ...transport.server import Server
from ...transport.turns.slices import Slices
from ..admin.absent import AbsentFeatures
from ..admin.cold_reads import ColdReadAdmin
from ..admin.connections import ConnectionAdmin
from ..admin.groups import GroupAdmin
from ..admin.maintenance import Maintenance
from ..admin.offsets import OffsetAdmin
from ..admin.progress import ProgressAdmin
from ..admin.runtime import RuntimeInfo
from ..admin.settings import SettingsAdmin
from ..admin.topics import TopicAdmin
from ..clients.offset_handlers import OffsetHandlers
from ..messages.dead_letters import DeadLetterAdmin
from ..messages.inspection import Inspection
from ..messages.message_life import MessageLife
from ..messages.message_queries import MessageQueries, QueueHandlers
from ..surface import surface
from .clients import ClientParts
from .environment import Environment
from .naming import Naming
from .pulling import PullParts
from .retries import RetryParts
from .sending import SendParts
from .statistics import Statistics
from .storage import Storage
from .tables import Tables
from .timing import TimingParts
from .transactions import TransactionParts


@dataclass(frozen=True, slots=True)
class Parts:
    """Every group of parts that handlers are made of."""

    environment: Environment
    tables: Tables
    storage: Storage
    clients: ClientParts
    timing: TimingParts
    sends: SendParts
    pulls: PullParts
    transactions: TransactionParts
    retries: RetryParts
    statistics: Statistics
    runtime: RuntimeInfo
    naming: Naming
    servers: Callable[[], Iterable[Server]]  # which are made with the handlers, so after them


def handlers(parts: Parts) -> dict[int, Handler]:
    environment, tables, storage, clients = parts.environment, parts.tables, parts.storage, parts.clients
    timing, sends, pulls = parts.timing, parts.sends, parts.pulls
    live, now_ms = environment.live, environment.clock.now_ms
    store, topics, groups, offsets = storage.store, tables.topics, tables.groups, tables.offsets
    counters, slices = parts.statistics.counters, Slices(environment.clock)
    view = (live, environment.address, topics, groups, offsets, clients.consumers, store, slices)
    topics_saved, groups_saved = tables.topic_save.saved, tables.group_save.saved
    return surface(
        send=sends.handler,
        replies=sends.replies,
        timing=timing.handlers,
        recall=timing.recall,
        send_back=parts.retries.send_back,
        ends=parts.transactions.ends,
        half_messages=parts.transactions.listing,
        pulls=pulls.handler,
        clients=clients.handlers,
        offsets=OffsetHandlers(live, topics, groups, offsets, store, environment.budget.memory_bytes),
        queues=QueueHandlers(store),
        queries=MessageQueries(live, store),
        topic=TopicAdmin(*view, topics_saved, counters.forget_topic),
        group=GroupAdmin(*view, groups_saved, counters.forget_group),
        offset=OffsetAdmin(*view, tables.offsets_saved),
        progress=ProgressAdmin(*view, now_ms, counters, clients.filters),
        connection=ConnectionAdmin(*view, clients.producers),
        settings=_settings(parts),
        runtime=parts.runtime,
        absent=AbsentFeatures(
            store,
            {"topics": topics_saved, "subscriptionGroups": groups_saved, "consumerOffsets": tables.offsets_saved},
        ),
        upkeep=Maintenance(*view, storage.retention),
        cold_reads=ColdReadAdmin(live, pulls.cold_reads, store.commit_log),
        inspection=_inspection(parts),
        life=_message_life(parts),
        dead_letters=DeadLetterAdmin(live, store, parts.retries.dead_letters, now_ms),
    )


def _settings(parts: Parts) -> SettingsAdmin:
    environment, retention, naming = parts.environment, parts.storage.retention, parts.naming
    live = environment.live

    def changed(keys: set[str]) -> None:
        retention.use(live.config.part(RetentionConfig))
        if "brokerPermission" in keys:
            naming.announce()

    return SettingsAdmin(live, environment.clock.now_ms, environment.address, changed)


def _inspection(parts: Parts) -> Inspection:
    clients, sends, timing, transactions = parts.clients, parts.sends, parts.timing, parts.transactions
    return Inspection(
        parts.environment.live,
        parts.environment.clock,
        parts.storage.store,
        sends.intake,
        parts.pulls.handler,
        clients.locks,
        clients.consumers,
        clients.producers,
        parts.servers,
        parts.naming.registration,
        parts.storage.refusal,
        parts.statistics.lag.now_ms,
        parts.statistics.holds,
        sends.duplicates,
        lambda: timing.parked() | transactions.parked(),
        transactions.listing.undecided,
        parts.storage.quarantine,
        parts.environment.loops,
        parts.environment.budget,
    )


def _message_life(parts: Parts) -> MessageLife:
    return MessageLife(
        parts.environment.live,
        parts.storage.store,
        parts.tables.offsets,
        parts.clients.consumers,
        parts.transactions.halves,
        parts.retries.dead_letters,
        parts.storage.expired,
        parts.storage.quarantine,
        parts.environment.clock.now_ms,
    )
