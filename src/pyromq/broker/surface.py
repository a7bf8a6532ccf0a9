"""Request code to handler: the whole surface of the broker on one page. What else is known of a code is in its row.

Handlers that belong to no group of `wiring/` are made here, each with the parts that it uses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from ..errors import RequestRefused
from ..model.codes import ResponseCode
from ..protocol.requests import ROWS
from ..protocol.requests import RequestCode as Code
from ..protocol.row import AnyRow, ServedBy
from ..store.log.retention import RetentionConfig
from ..transport.dispatch import Handler, Request, bind, bound, replying
from ..transport.server import Server
from ..transport.turns.slices import Slices
from .admin.absent import AbsentFeatures
from .admin.cold_reads import ColdReadAdmin
from .admin.connections import ConnectionAdmin
from .admin.groups import GroupAdmin
from .admin.maintenance import Maintenance
from .admin.offsets import OffsetAdmin
from .admin.progress import ProgressAdmin
from .admin.runtime import RuntimeInfo
from .admin.settings import SettingsAdmin
from .admin.snapshot import SnapshotAdmin
from .admin.topics import TopicAdmin
from .clients.offset_handlers import OffsetHandlers
from .elected.set_handlers import SetHandlers
from .messages.dead_letters import DeadLetterAdmin
from .messages.inspection import Inspection
from .messages.message_life import MessageLife
from .messages.message_queries import MessageQueries
from .metadata.saving import for_administrators
from .quotas.handlers import QuotaAdmin
from .replication.leading.status import ReplicationStatus
from .wiring.balancing import BalanceParts
from .wiring.delivery import RetryParts, TimingParts, TransactionParts
from .wiring.foundation import Foundation
from .wiring.naming import Naming
from .wiring.popping import PopParts
from .wiring.serving import PullParts, SendParts
from .wiring.slave import SlaveTableParts
from .wiring.stored_pops import StoredPopParts

SERVED = (ServedBy.BROKER, ServedBy.RELAYED, ServedBy.CONTROLLED, ServedBy.USERS)

# Requests that the fast port does not serve: they may wait long, and producers have it for themselves.
NOT_ON_FAST_PORT = {
    Code.PULL_MESSAGE,
    Code.LITE_PULL_MESSAGE,
    Code.POP_MESSAGE,
    Code.PEEK_MESSAGE,
    Code.NOTIFICATION,
    Code.POLLING_INFO,
}


@dataclass(frozen=True, slots=True)
class Parts:
    """Every group of parts that handlers are made of."""

    base: Foundation
    naming: Naming
    sends: SendParts
    timing: TimingParts
    transactions: TransactionParts
    retries: RetryParts
    pulls: PullParts
    pops: PopParts
    stored_pops: StoredPopParts
    balance: BalanceParts
    slave_tables: SlaveTableParts
    replication: ReplicationStatus
    runtime: RuntimeInfo
    servers: Callable[[], Iterable[Server]]  # which are made with the handlers, so after them
    grpc_endpoint: str  # where gRPC clients are told to come
    no_master: Callable[[], str | None]  # why a slave does not follow, or a master refuses for want of slaves
    remove_queues: Callable[[str], None]  # of a deleted topic


def surface(parts: Parts) -> dict[int, Handler]:
    """Return a handler for every known code: what serves it, or what says why nothing does."""
    base, sends, timing, transactions = parts.base, parts.sends, parts.timing, parts.transactions
    live, store, tables, counters = base.live, base.store, base.tables, base.counters
    now_ms, memory_bytes = base.clock.now_ms, base.environment.budget.memory_bytes
    address = base.environment.address
    view = (live, address, base.topics, base.groups, base.offsets, base.consumers, store, Slices(base.clock))
    saved = {
        "topics": for_administrators(tables.topic_save.saved),
        "subscriptionGroups": for_administrators(tables.group_save.saved),
        "consumerOffsets": for_administrators(tables.offsets_saved),
    }
    send, replies, ends = sends.handler, sends.replies, transactions.ends
    pulls, clients, balance = parts.pulls.handler, base.clients.handlers, parts.balance
    tables_of_groups = (base.topics, base.groups, base.offsets, base.consumers)
    offsets = OffsetHandlers(live, *tables_of_groups, store, memory_bytes, saved["consumerOffsets"], parts.pops)
    queries = MessageQueries(live, store)
    topic = TopicAdmin(*view, saved["topics"], saved["consumerOffsets"], counters.forget_topic, parts.remove_queues)
    group = GroupAdmin(*view, saved["subscriptionGroups"], saved["consumerOffsets"], counters.forget_group)
    offset = OffsetAdmin(*view, saved["consumerOffsets"])
    pops = (parts.pops.order.table.given_end, parts.stored_pops.in_flight, parts.pops.is_popped)
    progress = ProgressAdmin(*view, now_ms, counters, base.clients.filters, *pops)
    connection = ConnectionAdmin(*view, base.producers, base.clients.popped)
    settings = SettingsAdmin(live, now_ms, address, _settings_changed(parts))
    snapshot = SnapshotAdmin(*view, base.clock, counters, parts.slave_tables.handlers.life)
    absent = AbsentFeatures(saved)
    in_set = SetHandlers(base.environment.elected, parts.naming.identity, lambda: store.commit_log.end)
    upkeep = Maintenance(*view, base.storage.retention)
    cold_reads = ColdReadAdmin(live, parts.pulls.cold_reads, store.commit_log)
    dead_letters = DeadLetterAdmin(live, store, parts.retries.dead_letters, now_ms)
    kept = (parts.retries.dead_letters, base.storage.expired, base.storage.quarantine)
    quotas = QuotaAdmin(base.quotas, base.clock, for_administrators(base.quotas_saved))
    life = MessageLife(live, store, base.offsets, base.consumers, transactions.halves, *kept, now_ms)
    pairs = (
        bind(Code.SEND_MESSAGE, send),
        bind(Code.SEND_MESSAGE_V2, send),
        bind(Code.SEND_BATCH_MESSAGE, send),
        bind(Code.SEND_REPLY_MESSAGE, replies),
        bind(Code.SEND_REPLY_MESSAGE_V2, replies),
        bind(Code.GET_ALL_DELAY_OFFSET, timing.handlers.delay_offsets),
        bind(Code.GET_TIMER_CHECK_POINT, timing.handlers.check_point),
        bind(Code.GET_TIMER_METRICS, timing.handlers.metrics),
        bind(Code.SWITCH_TIMER_ENGINE, timing.handlers.switch),
        bind(Code.RECALL_MESSAGE, timing.recall),
        bind(Code.CONSUMER_SEND_MSG_BACK, parts.retries.send_back),
        bind(Code.END_TRANSACTION, ends),
        bind(Code.RESUME_CHECK_HALF_MESSAGE, ends.resume),
        bind(Code.PULL_MESSAGE, pulls),
        bind(Code.LITE_PULL_MESSAGE, pulls),
        bind(Code.HEART_BEAT, clients.heartbeat),
        bind(Code.UNREGISTER_CLIENT, clients.unregister),
        bind(Code.CHECK_CLIENT_CONFIG, clients.check_config),
        bind(Code.GET_CONSUMER_LIST_BY_GROUP, clients.list_members),
        bind(Code.LOCK_BATCH_MQ, clients.lock),
        bind(Code.UNLOCK_BATCH_MQ, clients.unlock),
        bind(Code.QUERY_CONSUMER_OFFSET, offsets.query),
        bind(Code.UPDATE_CONSUMER_OFFSET, offsets.update),
        bind(Code.QUERY_ASSIGNMENT, balance.assignments),
        bind(Code.SET_MESSAGE_REQUEST_MODE, balance.handlers.set_mode),
        bind(Code.GET_ALL_MESSAGE_REQUEST_MODE, balance.handlers.show_all),
        bind(Code.SEARCH_OFFSET_BY_TIMESTAMP, queries.search),
        bind(Code.GET_MAX_OFFSET, queries.max_offset),
        bind(Code.GET_MIN_OFFSET, queries.min_offset),
        bind(Code.GET_EARLIEST_MSG_STORETIME, queries.earliest_time),
        bind(Code.QUERY_MESSAGE, queries.by_key),
        bind(Code.VIEW_MESSAGE_BY_ID, queries.by_place),
        bind(Code.UPDATE_AND_CREATE_TOPIC, topic.create),
        bind(Code.UPDATE_AND_CREATE_TOPIC_LIST, topic.create_many),
        bind(Code.GET_ALL_TOPIC_CONFIG, topic.get_all),
        bind(Code.GET_TOPIC_CONFIG, topic.get),
        bind(Code.DELETE_TOPIC_IN_BROKER, topic.delete),
        bind(Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, topic.system_topics),
        bind(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, group.update),
        bind(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, group.update_many),
        bind(Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, group.get_all),
        bind(Code.GET_SUBSCRIPTIONGROUP_CONFIG, group.get),
        bind(Code.DELETE_SUBSCRIPTIONGROUP, group.delete),
        bind(Code.UPDATE_AND_GET_GROUP_FORBIDDEN, group.forbid),
        bind(Code.GET_ALL_CONSUMER_OFFSET, offset.show_all),
        bind(Code.INVOKE_BROKER_TO_RESET_OFFSET, offset.reset),
        bind(Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, offset.status),
        bind(Code.CLONE_GROUP_OFFSET, offset.clone),
        bind(Code.GET_TOPIC_STATS_INFO, progress.topic_stats),
        bind(Code.GET_CONSUME_STATS, progress.consume_stats),
        bind(Code.GET_BROKER_CONSUME_STATS, progress.all_consume_stats),
        bind(Code.QUERY_CONSUME_TIME_SPAN, progress.time_span),
        bind(Code.QUERY_CORRECTION_OFFSET, progress.correction),
        bind(Code.VIEW_BROKER_STATS_DATA, progress.stats_data),
        bind(Code.QUERY_CONSUME_QUEUE, progress.entries),
        bind(Code.GET_CONSUMER_CONNECTION_LIST, connection.consumer_connections),
        bind(Code.GET_PRODUCER_CONNECTION_LIST, connection.producer_connections),
        bind(Code.GET_ALL_PRODUCER_INFO, connection.all_producers),
        bind(Code.QUERY_TOPIC_CONSUME_BY_WHO, connection.groups_of_topic),
        bind(Code.QUERY_TOPICS_BY_CONSUMER, connection.topics_of_group),
        bind(Code.QUERY_SUBSCRIPTION_BY_CONSUMER, connection.subscription),
        bind(Code.GET_CONSUMER_RUNNING_INFO, connection.running_info),
        bind(Code.CONSUME_MESSAGE_DIRECTLY, connection.consume_directly),
        bind(Code.UPDATE_BROKER_CONFIG, settings.change),
        bind(Code.GET_BROKER_CONFIG, settings.show),
        bind(Code.GET_BROKER_RUNTIME_INFO, parts.runtime),
        bind(Code.EXCHANGE_BROKER_HA_INFO, parts.replication.exchange),
        bind(Code.GET_BROKER_HA_STATUS, parts.replication.show),
        bind(Code.RESET_MASTER_FLUSH_OFFSET, parts.replication.reset),
        bind(Code.GET_BROKER_EPOCH_CACHE, in_set.epochs),
        bind(Code.NOTIFY_BROKER_ROLE_CHANGED, in_set.take_notice),
        bind(Code.CHECK_ROCKSDB_CQ_WRITE_PROGRESS, absent.compare_queues),
        bind(Code.EXPORT_ROCKSDB_CONFIG_TO_JSON, absent.export_tables),
        bind(Code.CLEAN_EXPIRED_CONSUMEQUEUE, upkeep.clean_expired_queues),
        bind(Code.CLEAN_UNUSED_TOPIC, upkeep.clean_unused_topics),
        bind(Code.DELETE_EXPIRED_COMMITLOG, upkeep.delete_expired_log),
        bind(Code.UPDATE_COLD_DATA_FLOW_CTR_CONFIG, cold_reads.set_limits),
        bind(Code.REMOVE_COLD_DATA_FLOW_CTR_CONFIG, cold_reads.drop_limit),
        bind(Code.GET_COLD_DATA_FLOW_CTR_INFO, cold_reads.show),
        bind(Code.SET_COMMITLOG_READ_MODE, cold_reads.read_mode),
        bind(Code.INSPECT, inspection(parts)),
        bind(Code.MESSAGE_LIFE, life),
        bind(Code.DEAD_LETTERS, dead_letters),
        bind(Code.HALF_MESSAGES, transactions.listing),
        bind(Code.SET_QUOTA, quotas.put),
        bind(Code.QUOTAS, quotas.list),
        bind(Code.DELETE_QUOTA, quotas.delete),
        bind(Code.TABLE_VERSIONS, parts.slave_tables.handlers.versions),
        bind(Code.OWN_COMMITS, parts.slave_tables.handlers.own_commits),
        bind(Code.SNAPSHOT, snapshot),
        *parts.pops.handlers(),
        *((row.code, replying(answer)) for row, answer in base.access.admin.answers().items()),
    )
    return refusals() | bound(pairs, *SERVED)


def _settings_changed(parts: Parts) -> Callable[[set[str]], None]:
    retention, live, registration = parts.base.storage.retention, parts.base.live, parts.naming.registration

    def changed(keys: set[str]) -> None:
        retention.use(live.config.part(RetentionConfig))
        if "brokerPermission" in keys:
            registration.announce()

    return changed


def inspection(parts: Parts) -> Inspection:
    """Return what looks into all of the broker."""
    base, sends, timing, transactions = parts.base, parts.sends, parts.timing, parts.transactions
    return Inspection(
        base.live,
        base.clock,
        base.store,
        sends.intake,
        parts.pulls.handler,
        base.clients.locks,
        base.consumers,
        base.producers,
        parts.servers,
        parts.naming.registration,
        base.storage.gate.why_refused,
        base.statistics.lag.now_ms,
        base.statistics.holds,
        sends.duplicates,
        lambda: timing.parked() | transactions.parked() | parts.pops.parked() | parts.stored_pops.parked(),
        transactions.listing.undecided,
        base.storage.quarantine,
        base.environment.loops,
        sends.types.of_day,
        base.environment.budget,
        parts.grpc_endpoint,
        parts.no_master,
    )


def refusals() -> dict[int, Handler]:
    """Return a handler for each code that is known and not served: it says why."""
    return {code: _refuse(row) for code, row in ROWS.items() if row.by not in SERVED}


def _refuse(row: AnyRow) -> Handler:
    def refuse(_: Request) -> None:
        raise RequestRefused(
            f" request type {row} not supported: {row.by.value}", ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        )

    return refuse


def on_fast_port(handlers: Mapping[int, Handler]) -> dict[int, Handler]:
    return {code: handler for code, handler in handlers.items() if code not in NOT_ON_FAST_PORT}
