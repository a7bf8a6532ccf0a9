"""What each request needs: an action on a resource, and where the resource's name stands in the request.

One row per request code. Access control reads this table and nothing else; a code without a row fails a test, and a
server would refuse it. The words are those of RocketMQ's ACL 2.0. Rules that hold for every row:

- Any one of a need's actions is enough; all needs of a row must be met.
- A topic called `%RETRY%group` or `%DLQ%group` counts as that group: PUB and SUB on it are SUB on the group.
- A name that is absent refuses the request, unless the need says that it may be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from .codes import RequestCode as C


class Action(Enum):
    PUB = "Pub"
    SUB = "Sub"
    CREATE = "Create"
    UPDATE = "Update"
    DELETE = "Delete"
    GET = "Get"
    LIST = "List"


class Resource(Enum):
    CLUSTER = "Cluster"
    TOPIC = "Topic"
    GROUP = "Group"


class NameIn(Enum):
    """Where the resource's name is found."""

    SERVER = "the server's own cluster"
    HEADER = "a header field, by its name on the wire"
    BODY = "a member of the JSON body; a dot leads into objects and each item of lists"
    MESSAGE = "the topic of the stored message that the request points at: the handler asks once it has it"
    ALL = "no single one: all resources of the kind"


@dataclass(frozen=True, slots=True)
class Need:
    """One of `actions` on the resource that `name_in` and `name` point at."""

    resource: Resource
    actions: tuple[Action, ...]
    name_in: NameIn
    name: str = ""
    separator: str = ""  # the field holds several names
    optional: bool = False  # an absent name asks for nothing


@dataclass(frozen=True, slots=True)
class Access:
    needs: tuple[Need, ...]


PUB, SUB, CREATE, UPDATE, DELETE, GET, LIST = Action


def _cluster(*actions: Action) -> Access:
    return Access((Need(Resource.CLUSTER, actions, NameIn.SERVER),))


def _all(resource: Resource, *actions: Action) -> Access:
    return Access((Need(resource, actions, NameIn.ALL),))


def _topic(*actions: Action, field: str = "topic", optional: bool = False) -> Need:
    return Need(Resource.TOPIC, actions, NameIn.HEADER, field, optional=optional)


def _group(*actions: Action, field: str = "consumerGroup", optional: bool = False) -> Need:
    return Need(Resource.GROUP, actions, NameIn.HEADER, field, optional=optional)


def _body_topic(*actions: Action, member: str) -> Need:
    return Need(Resource.TOPIC, actions, NameIn.BODY, member)


def _body_group(*actions: Action, member: str) -> Need:
    return Need(Resource.GROUP, actions, NameIn.BODY, member)


def _of_message(*actions: Action) -> Access:
    return Access((Need(Resource.TOPIC, actions, NameIn.MESSAGE),))


def _row(*needs: Need) -> Access:
    return Access(needs)


_CONSUME = _row(_topic(SUB), _group(SUB))
_ADMIN = _cluster(UPDATE)
_LOOK = _cluster(GET)

ACCESS: Mapping[C, Access] = MappingProxyType(
    {
        # produce
        C.SEND_MESSAGE: _row(_topic(PUB)),
        C.SEND_MESSAGE_V2: _row(_topic(PUB, field="b")),
        C.SEND_BATCH_MESSAGE: _row(_topic(PUB, field="b")),
        C.SEND_REPLY_MESSAGE: _row(_topic(PUB)),
        C.SEND_REPLY_MESSAGE_V2: _row(_topic(PUB, field="b")),
        C.CONSUMER_SEND_MSG_BACK: _row(_group(SUB, field="group")),
        C.RECALL_MESSAGE: _row(_topic(PUB)),
        # transactions
        C.END_TRANSACTION: _of_message(PUB),  # 4.x names no topic, and a named one could be another
        C.RESUME_CHECK_HALF_MESSAGE: _of_message(UPDATE),
        # consume
        C.PULL_MESSAGE: _CONSUME,
        C.LITE_PULL_MESSAGE: _CONSUME,
        C.HEART_BEAT: _row(
            Need(Resource.GROUP, (SUB,), NameIn.BODY, "consumerDataSet.groupName", optional=True),
            Need(Resource.TOPIC, (SUB,), NameIn.BODY, "consumerDataSet.subscriptionDataSet.topic", optional=True),
        ),
        C.UNREGISTER_CLIENT: _row(_group(SUB, optional=True)),
        C.CHECK_CLIENT_CONFIG: _row(
            _body_group(SUB, member="group"), _body_topic(SUB, member="subscriptionData.topic")
        ),
        C.GET_CONSUMER_LIST_BY_GROUP: _row(_group(SUB, GET)),
        C.LOCK_BATCH_MQ: _row(_body_group(SUB, member="consumerGroup"), _body_topic(SUB, member="mqSet.topic")),
        C.UNLOCK_BATCH_MQ: _row(_body_group(SUB, member="consumerGroup"), _body_topic(SUB, member="mqSet.topic")),
        C.QUERY_CONSUMER_OFFSET: _row(_topic(SUB, GET), _group(SUB, GET)),
        C.UPDATE_CONSUMER_OFFSET: _row(_topic(SUB, UPDATE), _group(SUB, UPDATE)),
        C.GET_MAX_OFFSET: _row(_topic(SUB, GET)),
        C.GET_MIN_OFFSET: _row(_topic(SUB, GET)),
        C.SEARCH_OFFSET_BY_TIMESTAMP: _row(_topic(SUB, GET)),
        C.GET_EARLIEST_MSG_STORETIME: _row(_topic(SUB, GET)),
        C.QUERY_MESSAGE: _row(_topic(SUB, GET)),
        C.VIEW_MESSAGE_BY_ID: _of_message(SUB, GET),
        # POP
        C.POP_MESSAGE: _CONSUME,
        C.PEEK_MESSAGE: _CONSUME,
        C.ACK_MESSAGE: _CONSUME,
        C.BATCH_ACK_MESSAGE: _row(_body_topic(SUB, member="acks.t"), _body_group(SUB, member="acks.c")),
        C.CHANGE_MESSAGE_INVISIBLETIME: _CONSUME,
        C.NOTIFICATION: _CONSUME,
        C.POLLING_INFO: _row(_topic(GET), _group(GET)),
        C.POP_ROLLBACK: _ADMIN,
        C.QUERY_ASSIGNMENT: _row(_body_topic(SUB, member="topic"), _body_group(SUB, member="consumerGroup")),
        C.SET_MESSAGE_REQUEST_MODE: _row(
            _body_topic(UPDATE, member="topic"), _body_group(UPDATE, member="consumerGroup")
        ),
        C.GET_ALL_MESSAGE_REQUEST_MODE: _LOOK,
        # lite topics
        C.POP_LITE_MESSAGE: _CONSUME,
        C.LITE_SUBSCRIPTION_CTL: _row(
            _body_topic(SUB, member="subscriptionSet.topic"), _body_group(SUB, member="subscriptionSet.group")
        ),
        C.ACK_LITE_MESSAGE: _ADMIN,
        C.GET_BROKER_LITE_INFO: _LOOK,
        C.GET_PARENT_TOPIC_INFO: _row(_topic(GET)),
        C.GET_LITE_TOPIC_INFO: _row(_topic(GET, field="parentTopic")),
        C.GET_LITE_CLIENT_INFO: _row(_topic(GET, field="parentTopic"), _group(GET, field="group")),
        C.GET_LITE_GROUP_INFO: _row(_group(GET, field="group")),
        C.TRIGGER_LITE_DISPATCH: _row(_group(UPDATE, field="group")),
        # name server
        C.GET_ROUTEINFO_BY_TOPIC: _row(_topic(PUB, SUB, GET)),
        C.REGISTER_BROKER: _ADMIN,
        C.UNREGISTER_BROKER: _ADMIN,
        C.BROKER_HEARTBEAT: _ADMIN,
        C.GET_BROKER_MEMBER_GROUP: _LOOK,
        C.QUERY_DATA_VERSION: _LOOK,
        C.GET_BROKER_CLUSTER_INFO: _LOOK,
        C.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: _all(Resource.TOPIC, LIST),
        C.GET_TOPICS_BY_CLUSTER: _all(Resource.TOPIC, LIST),
        C.GET_SYSTEM_TOPIC_LIST_FROM_NS: _all(Resource.TOPIC, LIST),
        C.GET_UNIT_TOPIC_LIST: _all(Resource.TOPIC, LIST),
        C.GET_HAS_UNIT_SUB_TOPIC_LIST: _all(Resource.TOPIC, LIST),
        C.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: _all(Resource.TOPIC, LIST),
        C.DELETE_TOPIC_IN_NAMESRV: _ADMIN,
        C.REGISTER_TOPIC_IN_NAMESRV: _ADMIN,
        C.WIPE_WRITE_PERM_OF_BROKER: _ADMIN,
        C.ADD_WRITE_PERM_OF_BROKER: _ADMIN,
        C.PUT_KV_CONFIG: _ADMIN,
        C.GET_KV_CONFIG: _LOOK,
        C.DELETE_KV_CONFIG: _ADMIN,
        C.GET_KVLIST_BY_NAMESPACE: _LOOK,
        C.UPDATE_NAMESRV_CONFIG: _ADMIN,
        C.GET_NAMESRV_CONFIG: _LOOK,
        # topics
        C.UPDATE_AND_CREATE_TOPIC: _row(_topic(CREATE)),
        C.UPDATE_AND_CREATE_TOPIC_LIST: _row(_body_topic(CREATE, member="topicConfigList.topicName")),
        C.UPDATE_AND_CREATE_STATIC_TOPIC: _row(_topic(CREATE)),
        C.GET_ALL_TOPIC_CONFIG: _all(Resource.TOPIC, GET, LIST),
        C.GET_TOPIC_CONFIG: _row(_topic(GET)),
        C.DELETE_TOPIC_IN_BROKER: _row(_topic(DELETE)),
        C.QUERY_TOPIC_CONSUME_BY_WHO: _row(_topic(GET)),
        C.QUERY_TOPICS_BY_CONSUMER: _row(_group(GET, field="group")),
        C.QUERY_SUBSCRIPTION_BY_CONSUMER: _row(_group(GET, field="group"), _topic(GET, optional=True)),
        C.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: _all(Resource.TOPIC, LIST),
        # subscription groups
        C.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: _row(_body_group(CREATE, member="groupName")),
        C.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: _row(_body_group(CREATE, member="groupConfigList.groupName")),
        C.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: _all(Resource.GROUP, GET, LIST),
        C.DELETE_SUBSCRIPTIONGROUP: _row(_group(DELETE, field="groupName")),
        C.GET_SUBSCRIPTIONGROUP_CONFIG: _row(_group(GET, field="group")),
        C.UPDATE_AND_GET_GROUP_FORBIDDEN: _row(_topic(UPDATE), _group(UPDATE, field="group")),
        # configuration, state, statistics
        C.UPDATE_BROKER_CONFIG: _ADMIN,
        C.GET_BROKER_CONFIG: _LOOK,
        C.GET_BROKER_RUNTIME_INFO: _LOOK,
        C.GET_TOPIC_STATS_INFO: _row(_topic(GET)),
        C.GET_CONSUME_STATS: _row(
            _group(GET),
            _topic(GET, optional=True),
            Need(Resource.TOPIC, (GET,), NameIn.HEADER, "topicList", separator=";", optional=True),
        ),
        C.GET_BROKER_CONSUME_STATS: _LOOK,
        C.GET_CONSUMER_CONNECTION_LIST: _row(_group(GET)),
        C.GET_PRODUCER_CONNECTION_LIST: _LOOK,
        C.GET_ALL_PRODUCER_INFO: _LOOK,
        C.QUERY_CONSUME_TIME_SPAN: _row(_topic(GET), _group(GET, field="group")),
        C.QUERY_CORRECTION_OFFSET: _row(
            _topic(GET),
            _group(GET, field="compareGroup"),
            Need(Resource.GROUP, (GET,), NameIn.HEADER, "filterGroups", separator=",", optional=True),
        ),
        C.VIEW_BROKER_STATS_DATA: _LOOK,
        C.QUERY_CONSUME_QUEUE: _row(_topic(GET), _group(GET, optional=True)),
        # offsets by hand, and calls relayed to clients
        C.INVOKE_BROKER_TO_RESET_OFFSET: _row(_topic(UPDATE), _group(UPDATE, field="group")),
        C.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: _row(_topic(GET), _group(GET, field="group")),
        C.GET_CONSUMER_RUNNING_INFO: _row(_group(GET)),
        C.CONSUME_MESSAGE_DIRECTLY: _row(_group(SUB), _topic(SUB, optional=True)),
        C.CLONE_GROUP_OFFSET: _row(
            _group(GET, UPDATE, field="srcGroup"), _group(UPDATE, field="destGroup"), _topic(UPDATE, optional=True)
        ),
        # upkeep
        C.CLEAN_EXPIRED_CONSUMEQUEUE: _ADMIN,
        C.CLEAN_UNUSED_TOPIC: _ADMIN,
        C.DELETE_EXPIRED_COMMITLOG: _ADMIN,
        C.CHECK_ROCKSDB_CQ_WRITE_PROGRESS: _LOOK,
        C.EXPORT_ROCKSDB_CONFIG_TO_JSON: _ADMIN,
        C.UPDATE_COLD_DATA_FLOW_CTR_CONFIG: _ADMIN,
        C.REMOVE_COLD_DATA_FLOW_CTR_CONFIG: _ADMIN,
        C.GET_COLD_DATA_FLOW_CTR_INFO: _LOOK,
        C.SET_COMMITLOG_READ_MODE: _ADMIN,
        C.SWITCH_TIMER_ENGINE: _ADMIN,
        # replication and controller
        C.GET_ALL_CONSUMER_OFFSET: _LOOK,
        C.GET_ALL_DELAY_OFFSET: _LOOK,
        C.GET_TIMER_CHECK_POINT: _LOOK,
        C.GET_TIMER_METRICS: _LOOK,
        C.ADD_BROKER: _ADMIN,
        C.REMOVE_BROKER: _ADMIN,
        C.EXCHANGE_BROKER_HA_INFO: _ADMIN,
        C.GET_BROKER_HA_STATUS: _LOOK,
        C.RESET_MASTER_FLUSH_OFFSET: _ADMIN,
        C.CONTROLLER_ALTER_SYNC_STATE_SET: _ADMIN,
        C.CONTROLLER_ELECT_MASTER: _ADMIN,
        C.CONTROLLER_REGISTER_BROKER: _ADMIN,
        C.CONTROLLER_GET_REPLICA_INFO: _LOOK,
        C.CONTROLLER_GET_METADATA_INFO: _LOOK,
        C.CONTROLLER_GET_SYNC_STATE_DATA: _LOOK,
        C.GET_BROKER_EPOCH_CACHE: _LOOK,
        C.UPDATE_CONTROLLER_CONFIG: _ADMIN,
        C.GET_CONTROLLER_CONFIG: _LOOK,
        C.CLEAN_BROKER_DATA: _ADMIN,
        C.CONTROLLER_GET_NEXT_BROKER_ID: _LOOK,
        C.CONTROLLER_APPLY_BROKER_ID: _ADMIN,
        C.BROKER_CLOSE_CHANNEL_REQUEST: _ADMIN,
        C.CHECK_NOT_ACTIVE_BROKER_REQUEST: _ADMIN,
        C.GET_BROKER_LIVE_INFO_REQUEST: _ADMIN,
        C.GET_SYNC_STATE_DATA_REQUEST: _ADMIN,
        C.RAFT_BROKER_HEART_BEAT_EVENT_REQUEST: _ADMIN,
        # users and permissions
        C.AUTH_CREATE_USER: _ADMIN,
        C.AUTH_UPDATE_USER: _ADMIN,
        C.AUTH_DELETE_USER: _ADMIN,
        C.AUTH_GET_USER: _LOOK,
        C.AUTH_LIST_USER: _LOOK,
        C.AUTH_CREATE_ACL: _ADMIN,
        C.AUTH_UPDATE_ACL: _ADMIN,
        C.AUTH_DELETE_ACL: _ADMIN,
        C.AUTH_GET_ACL: _LOOK,
        C.AUTH_LIST_ACL: _LOOK,
        # from servers to clients and brokers: whoever sends one the other way must be trusted with the cluster
        C.CHECK_TRANSACTION_STATE: _ADMIN,
        C.NOTIFY_CONSUMER_IDS_CHANGED: _ADMIN,
        C.RESET_CONSUMER_CLIENT_OFFSET: _ADMIN,
        C.GET_CONSUMER_STATUS_FROM_CLIENT: _ADMIN,
        C.PUSH_REPLY_MESSAGE_TO_CLIENT: _ADMIN,
        C.NOTIFY_MIN_BROKER_ID_CHANGE: _ADMIN,
        C.NOTIFY_BROKER_ROLE_CHANGED: _ADMIN,
        C.NOTIFY_UNSUBSCRIBE_LITE: _ADMIN,
        # numbers that nobody handles
        C.QUERY_BROKER_OFFSET: _ADMIN,
        C.GET_TOPIC_CONFIG_LIST: _ADMIN,
        C.GET_TOPIC_NAME_LIST: _ADMIN,
        C.TRIGGER_DELETE_FILES: _ADMIN,
        C.GET_CLIENT_CONFIG: _ADMIN,
        C.UPDATE_AND_CREATE_ACL_CONFIG: _ADMIN,
        C.DELETE_ACL_CONFIG: _ADMIN,
        C.GET_BROKER_CLUSTER_ACL_INFO: _ADMIN,
        C.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: _ADMIN,
        C.SUSPEND_CONSUMER: _ADMIN,
        C.RESUME_CONSUMER: _ADMIN,
        C.RESET_CONSUMER_OFFSET_IN_CONSUMER: _ADMIN,
        C.RESET_CONSUMER_OFFSET_IN_BROKER: _ADMIN,
        C.ADJUST_CONSUMER_THREAD_POOL: _ADMIN,
        C.WHO_CONSUME_THE_MESSAGE: _ADMIN,
        C.REGISTER_FILTER_SERVER: _ADMIN,
        C.REGISTER_MESSAGE_FILTER_CLASS: _ADMIN,
    }
)
