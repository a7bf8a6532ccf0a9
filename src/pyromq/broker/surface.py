"""The whole request surface on one page: which handler serves which code, and why the others are not served.

`docs/codes.md` is generated from this file (`python -m pyromq.broker.surface`); a test keeps it up to date.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import RequestRefused
from ..model.codes import RequestCode as Code
from ..model.codes import ResponseCode
from ..transport.dispatch import Handler, Request
from .admin.cold_reads import ColdReadAdmin
from .admin.connections import ConnectionAdmin
from .admin.groups import GroupAdmin
from .admin.maintenance import Maintenance
from .admin.offsets import OffsetAdmin
from .admin.progress import Progress
from .admin.replicas import Replicas
from .admin.rocksdb import RocksDbAdmin
from .admin.runtime import RuntimeInfo
from .admin.settings import SettingsAdmin
from .admin.topics import TopicAdmin
from .clients.handlers import ClientHandlers
from .clients.offset_handlers import OffsetHandlers
from .messages.dead_letters import DEAD_LETTERS, DeadLetterAdmin
from .messages.inspection import INSPECT, Inspection
from .messages.message_life import MESSAGE_LIFE, MessageLife
from .messages.message_queries import MessageQueries
from .messages.queue_handlers import QueueHandlers
from .pull.pull import PullHandler
from .retries.send_back import SendBack
from .send.replies import Replies
from .send.send import SendHandler
from .timing.handlers import DelayHandlers, TimerHandlers
from .timing.recall import Recall
from .transactions.end import TransactionEnds
from .transactions.listing import HALF_MESSAGES, HalfListing

NAME_SERVER = "the name server answers it"
CONTROLLER = "it belongs to the controller, which is not there yet"
TO_CLIENT = "brokers send it to clients, nobody sends it to brokers"
NOBODY = "RocketMQ 5.5.0 has the number and no handler either"
POP = "pop consumption is not there yet: consume by pulling (a push consumer does)"
REPLICATION = "replication is not there yet: this broker is a lone master"
USERS = "users and permissions are not there yet"
LITE = "lite topics are not there yet"
STATIC = "static topics are not there yet"

# Codes without a handler here, by reason.
NOT_SERVED: Mapping[str, tuple[Code, ...]] = {
    NAME_SERVER: (
        Code.PUT_KV_CONFIG,
        Code.GET_KV_CONFIG,
        Code.DELETE_KV_CONFIG,
        Code.REGISTER_BROKER,
        Code.UNREGISTER_BROKER,
        Code.GET_ROUTEINFO_BY_TOPIC,
        Code.GET_BROKER_CLUSTER_INFO,
        Code.WIPE_WRITE_PERM_OF_BROKER,
        Code.ADD_WRITE_PERM_OF_BROKER,
        Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
        Code.DELETE_TOPIC_IN_NAMESRV,
        Code.REGISTER_TOPIC_IN_NAMESRV,
        Code.GET_KVLIST_BY_NAMESPACE,
        Code.GET_TOPICS_BY_CLUSTER,
        Code.GET_SYSTEM_TOPIC_LIST_FROM_NS,
        Code.GET_UNIT_TOPIC_LIST,
        Code.GET_HAS_UNIT_SUB_TOPIC_LIST,
        Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
        Code.UPDATE_NAMESRV_CONFIG,
        Code.GET_NAMESRV_CONFIG,
        Code.QUERY_DATA_VERSION,
        Code.GET_BROKER_MEMBER_GROUP,
        Code.BROKER_HEARTBEAT,
    ),
    CONTROLLER: (
        Code.CONTROLLER_ALTER_SYNC_STATE_SET,
        Code.CONTROLLER_ELECT_MASTER,
        Code.CONTROLLER_REGISTER_BROKER,
        Code.CONTROLLER_GET_REPLICA_INFO,
        Code.CONTROLLER_GET_METADATA_INFO,
        Code.CONTROLLER_GET_SYNC_STATE_DATA,
        Code.NOTIFY_BROKER_ROLE_CHANGED,
        Code.UPDATE_CONTROLLER_CONFIG,
        Code.GET_CONTROLLER_CONFIG,
        Code.CLEAN_BROKER_DATA,
        Code.CONTROLLER_GET_NEXT_BROKER_ID,
        Code.CONTROLLER_APPLY_BROKER_ID,
        Code.BROKER_CLOSE_CHANNEL_REQUEST,
        Code.CHECK_NOT_ACTIVE_BROKER_REQUEST,
        Code.GET_BROKER_LIVE_INFO_REQUEST,
        Code.GET_SYNC_STATE_DATA_REQUEST,
        Code.RAFT_BROKER_HEART_BEAT_EVENT_REQUEST,
    ),
    TO_CLIENT: (
        Code.CHECK_TRANSACTION_STATE,
        Code.NOTIFY_CONSUMER_IDS_CHANGED,
        Code.RESET_CONSUMER_CLIENT_OFFSET,
        Code.GET_CONSUMER_STATUS_FROM_CLIENT,
        Code.PUSH_REPLY_MESSAGE_TO_CLIENT,
        Code.NOTIFY_UNSUBSCRIBE_LITE,
    ),
    NOBODY: (
        Code.QUERY_BROKER_OFFSET,
        Code.GET_TOPIC_CONFIG_LIST,
        Code.GET_TOPIC_NAME_LIST,
        Code.TRIGGER_DELETE_FILES,
        Code.GET_CLIENT_CONFIG,
        Code.SUSPEND_CONSUMER,
        Code.RESUME_CONSUMER,
        Code.RESET_CONSUMER_OFFSET_IN_CONSUMER,
        Code.RESET_CONSUMER_OFFSET_IN_BROKER,
        Code.ADJUST_CONSUMER_THREAD_POOL,
        Code.WHO_CONSUME_THE_MESSAGE,
        Code.REGISTER_FILTER_SERVER,
        Code.REGISTER_MESSAGE_FILTER_CLASS,
        Code.ACK_LITE_MESSAGE,
    ),
    POP: (
        Code.POP_MESSAGE,
        Code.ACK_MESSAGE,
        Code.BATCH_ACK_MESSAGE,
        Code.PEEK_MESSAGE,
        Code.CHANGE_MESSAGE_INVISIBLETIME,
        Code.NOTIFICATION,
        Code.POLLING_INFO,
        Code.POP_ROLLBACK,
        Code.QUERY_ASSIGNMENT,
        Code.SET_MESSAGE_REQUEST_MODE,
        Code.GET_ALL_MESSAGE_REQUEST_MODE,
    ),
    REPLICATION: (
        Code.ADD_BROKER,
        Code.REMOVE_BROKER,
        Code.NOTIFY_MIN_BROKER_ID_CHANGE,
        Code.EXCHANGE_BROKER_HA_INFO,
        Code.RESET_MASTER_FLUSH_OFFSET,
    ),
    USERS: (
        Code.UPDATE_AND_CREATE_ACL_CONFIG,
        Code.DELETE_ACL_CONFIG,
        Code.GET_BROKER_CLUSTER_ACL_INFO,
        Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
        Code.AUTH_CREATE_USER,
        Code.AUTH_UPDATE_USER,
        Code.AUTH_DELETE_USER,
        Code.AUTH_GET_USER,
        Code.AUTH_LIST_USER,
        Code.AUTH_CREATE_ACL,
        Code.AUTH_UPDATE_ACL,
        Code.AUTH_DELETE_ACL,
        Code.AUTH_GET_ACL,
        Code.AUTH_LIST_ACL,
    ),
    LITE: (
        Code.POP_LITE_MESSAGE,
        Code.LITE_SUBSCRIPTION_CTL,
        Code.GET_BROKER_LITE_INFO,
        Code.GET_PARENT_TOPIC_INFO,
        Code.GET_LITE_TOPIC_INFO,
        Code.GET_LITE_CLIENT_INFO,
        Code.GET_LITE_GROUP_INFO,
        Code.TRIGGER_LITE_DISPATCH,
    ),
    STATIC: (Code.UPDATE_AND_CREATE_STATIC_TOPIC,),
}

# Requests that the fast port does not serve: they may wait long, and producers have it for themselves.
NOT_ON_FAST_PORT = frozenset(
    (
        Code.PULL_MESSAGE,
        Code.LITE_PULL_MESSAGE,
        Code.POP_MESSAGE,
        Code.PEEK_MESSAGE,
        Code.NOTIFICATION,
        Code.POLLING_INFO,
    )
)


def surface(
    *,
    send: SendHandler,
    replies: Replies,
    delays: DelayHandlers,
    timers: TimerHandlers,
    recall: Recall,
    send_back: SendBack,
    ends: TransactionEnds,
    pulls: PullHandler,
    clients: ClientHandlers,
    offsets: OffsetHandlers,
    queues: QueueHandlers,
    queries: MessageQueries,
    topic: TopicAdmin,
    group: GroupAdmin,
    offset: OffsetAdmin,
    progress: Progress,
    connection: ConnectionAdmin,
    settings: SettingsAdmin,
    runtime: RuntimeInfo,
    replicas: Replicas,
    rocksdb: RocksDbAdmin,
    upkeep: Maintenance,
    cold_reads: ColdReadAdmin,
    inspection: Inspection,
    half_messages: HalfListing,
    life: MessageLife,
    dead_letters: DeadLetterAdmin,
) -> dict[int, Handler]:
    """Every known code: what serves it, or why nothing does."""
    return refusals() | {
        Code.SEND_MESSAGE: send,
        Code.SEND_MESSAGE_V2: send,
        Code.SEND_BATCH_MESSAGE: send,
        Code.SEND_REPLY_MESSAGE: replies,
        Code.SEND_REPLY_MESSAGE_V2: replies,
        Code.GET_ALL_DELAY_OFFSET: delays.offsets,
        Code.GET_TIMER_CHECK_POINT: timers.check_point,
        Code.GET_TIMER_METRICS: timers.metrics,
        Code.SWITCH_TIMER_ENGINE: timers.switch,
        Code.RECALL_MESSAGE: recall,
        Code.CONSUMER_SEND_MSG_BACK: send_back,
        Code.END_TRANSACTION: ends,
        Code.RESUME_CHECK_HALF_MESSAGE: ends.resume,
        Code.PULL_MESSAGE: pulls,
        Code.LITE_PULL_MESSAGE: pulls,
        Code.HEART_BEAT: clients.heartbeat,
        Code.UNREGISTER_CLIENT: clients.unregister,
        Code.CHECK_CLIENT_CONFIG: clients.check_config,
        Code.GET_CONSUMER_LIST_BY_GROUP: clients.list_members,
        Code.LOCK_BATCH_MQ: clients.lock,
        Code.UNLOCK_BATCH_MQ: clients.unlock,
        Code.QUERY_CONSUMER_OFFSET: offsets.query,
        Code.UPDATE_CONSUMER_OFFSET: offsets.update,
        Code.SEARCH_OFFSET_BY_TIMESTAMP: queues.search,
        Code.GET_MAX_OFFSET: queues.max_offset,
        Code.GET_MIN_OFFSET: queues.min_offset,
        Code.GET_EARLIEST_MSG_STORETIME: queues.earliest_time,
        Code.QUERY_MESSAGE: queries.by_key,
        Code.VIEW_MESSAGE_BY_ID: queries.by_place,
        Code.UPDATE_AND_CREATE_TOPIC: topic.create,
        Code.UPDATE_AND_CREATE_TOPIC_LIST: topic.create_many,
        Code.GET_ALL_TOPIC_CONFIG: topic.get_all,
        Code.GET_TOPIC_CONFIG: topic.get,
        Code.DELETE_TOPIC_IN_BROKER: topic.delete,
        Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: topic.system_topics,
        Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: group.update,
        Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: group.update_many,
        Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: group.get_all,
        Code.GET_SUBSCRIPTIONGROUP_CONFIG: group.get,
        Code.DELETE_SUBSCRIPTIONGROUP: group.delete,
        Code.UPDATE_AND_GET_GROUP_FORBIDDEN: group.forbid,
        Code.GET_ALL_CONSUMER_OFFSET: offset.show_all,
        Code.INVOKE_BROKER_TO_RESET_OFFSET: offset.reset,
        Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: offset.status,
        Code.CLONE_GROUP_OFFSET: offset.clone,
        Code.GET_TOPIC_STATS_INFO: progress.topic_stats,
        Code.GET_CONSUME_STATS: progress.consume_stats,
        Code.GET_BROKER_CONSUME_STATS: progress.all_consume_stats,
        Code.QUERY_CONSUME_TIME_SPAN: progress.time_span,
        Code.QUERY_CORRECTION_OFFSET: progress.correction,
        Code.VIEW_BROKER_STATS_DATA: progress.counters,
        Code.QUERY_CONSUME_QUEUE: progress.entries,
        Code.GET_CONSUMER_CONNECTION_LIST: connection.consumers,
        Code.GET_PRODUCER_CONNECTION_LIST: connection.producers,
        Code.GET_ALL_PRODUCER_INFO: connection.all_producers,
        Code.QUERY_TOPIC_CONSUME_BY_WHO: connection.groups_of_topic,
        Code.QUERY_TOPICS_BY_CONSUMER: connection.topics_of_group,
        Code.QUERY_SUBSCRIPTION_BY_CONSUMER: connection.subscription,
        Code.GET_CONSUMER_RUNNING_INFO: connection.running_info,
        Code.CONSUME_MESSAGE_DIRECTLY: connection.consume_directly,
        Code.UPDATE_BROKER_CONFIG: settings.change,
        Code.GET_BROKER_CONFIG: settings.show,
        Code.GET_BROKER_RUNTIME_INFO: runtime,
        Code.GET_BROKER_HA_STATUS: replicas.status,
        Code.GET_BROKER_EPOCH_CACHE: replicas.epochs,
        Code.CHECK_ROCKSDB_CQ_WRITE_PROGRESS: rocksdb.compare,
        Code.EXPORT_ROCKSDB_CONFIG_TO_JSON: rocksdb.export,
        Code.CLEAN_EXPIRED_CONSUMEQUEUE: upkeep.clean_expired_queues,
        Code.CLEAN_UNUSED_TOPIC: upkeep.clean_unused_topics,
        Code.DELETE_EXPIRED_COMMITLOG: upkeep.delete_expired_log,
        Code.UPDATE_COLD_DATA_FLOW_CTR_CONFIG: cold_reads.set_limits,
        Code.REMOVE_COLD_DATA_FLOW_CTR_CONFIG: cold_reads.drop_limit,
        Code.GET_COLD_DATA_FLOW_CTR_INFO: cold_reads.show,
        Code.SET_COMMITLOG_READ_MODE: cold_reads.read_mode,
        INSPECT: inspection,
        MESSAGE_LIFE: life,
        DEAD_LETTERS: dead_letters,
        HALF_MESSAGES: half_messages,
    }


def refusals() -> dict[int, Handler]:
    """A handler for each code that is known and not served: it says why."""
    return {code: _refuse(code, reason) for reason, codes in NOT_SERVED.items() for code in codes}


def _refuse(code: Code, reason: str) -> Handler:
    def refuse(_: Request) -> None:
        raise RequestRefused(
            f" request type {code.value} not supported: {reason}", ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        )

    return refuse


def on_fast_port(handlers: Mapping[int, Handler]) -> dict[int, Handler]:
    return {code: handler for code, handler in handlers.items() if code not in NOT_ON_FAST_PORT}


def page() -> str:
    """The table of every known code and its state."""
    reasons = {code: reason for reason, codes in NOT_SERVED.items() for code in codes}
    lines = [
        "# Request codes of the broker",
        "",
        "Made from `src/pyromq/broker/surface.py` by `python -m pyromq.broker.surface`. A code that is not served is",
        "answered with REQUEST_CODE_NOT_SUPPORTED (3) and the reason as remark.",
        "",
        "| code | name | state |",
        "|---|---|---|",
    ]
    for code in sorted(Code):
        fast = "" if code not in NOT_ON_FAST_PORT else ", not on the fast port"
        state = f"not served: {reasons[code]}" if code in reasons else f"served{fast}"
        lines.append(f"| {code.value} | {code.name} | {state} |")
    lines.append(f"| {INSPECT} | of PyroMQ alone | served: what is held, locked and waiting (`pyromq inspect`) |")
    lines.append(f"| {MESSAGE_LIFE} | of PyroMQ alone | served: the life of one message (`pyromq msg get`) |")
    lines.append(f"| {DEAD_LETTERS} | of PyroMQ alone | served: dead letters and their time left (`pyromq dlq list`) |")
    lines.append(f"| {HALF_MESSAGES} | of PyroMQ alone | served: undecided half messages, with ages and checks |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(page(), end="")
