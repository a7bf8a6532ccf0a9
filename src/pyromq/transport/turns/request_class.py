"""Which requests share a lane: each class has its share of the event loop, so that a storm of one delays no other.

The table is by what a late answer costs. A heartbeat that waits makes a healthy broker or consumer look dead, so it
comes first; administration is what can wait. A code that is not listed is administration.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from ...model.codes import RequestCode as Code


class RequestClass(IntEnum):
    """In the order in which a turn of the loop serves them."""

    HEARTBEAT = 0
    SEND = 1
    PULL = 2
    QUERY = 3
    ADMIN = 4


# How many requests of each class one turn of the loop serves at most.
SHARES: Mapping[RequestClass, int] = {
    RequestClass.HEARTBEAT: 32,
    RequestClass.SEND: 64,
    RequestClass.PULL: 64,
    RequestClass.QUERY: 32,
    RequestClass.ADMIN: 8,
}

_CODES: Mapping[RequestClass, tuple[Code, ...]] = {
    RequestClass.HEARTBEAT: (
        Code.HEART_BEAT,
        Code.UNREGISTER_CLIENT,
        Code.REGISTER_BROKER,
        Code.UNREGISTER_BROKER,
        Code.BROKER_HEARTBEAT,
        Code.QUERY_DATA_VERSION,  # a broker asks it before each registration
        Code.RAFT_BROKER_HEART_BEAT_EVENT_REQUEST,
        Code.LOCK_BATCH_MQ,  # renewed like a heartbeat; late means that ordered consumption stops
        Code.UNLOCK_BATCH_MQ,
        Code.EXCHANGE_BROKER_HA_INFO,
    ),
    RequestClass.SEND: (
        Code.SEND_MESSAGE,
        Code.SEND_MESSAGE_V2,
        Code.SEND_BATCH_MESSAGE,
        Code.SEND_REPLY_MESSAGE,
        Code.SEND_REPLY_MESSAGE_V2,
        Code.CONSUMER_SEND_MSG_BACK,
        Code.END_TRANSACTION,
        Code.RECALL_MESSAGE,
        Code.PUSH_REPLY_MESSAGE_TO_CLIENT,
        Code.CHECK_TRANSACTION_STATE,
    ),
    RequestClass.PULL: (
        Code.PULL_MESSAGE,
        Code.LITE_PULL_MESSAGE,
        Code.POP_MESSAGE,
        Code.POP_LITE_MESSAGE,
        Code.PEEK_MESSAGE,
        Code.NOTIFICATION,
        Code.ACK_MESSAGE,
        Code.BATCH_ACK_MESSAGE,
        Code.ACK_LITE_MESSAGE,
        Code.CHANGE_MESSAGE_INVISIBLETIME,
        Code.UPDATE_CONSUMER_OFFSET,
    ),
    RequestClass.QUERY: (
        Code.GET_ROUTEINFO_BY_TOPIC,
        Code.GET_BROKER_CLUSTER_INFO,
        Code.GET_BROKER_MEMBER_GROUP,
        Code.QUERY_MESSAGE,
        Code.VIEW_MESSAGE_BY_ID,
        Code.QUERY_BROKER_OFFSET,
        Code.QUERY_CONSUMER_OFFSET,
        Code.SEARCH_OFFSET_BY_TIMESTAMP,
        Code.GET_MAX_OFFSET,
        Code.GET_MIN_OFFSET,
        Code.GET_EARLIEST_MSG_STORETIME,
        Code.GET_CONSUMER_LIST_BY_GROUP,
        Code.QUERY_ASSIGNMENT,
        Code.NOTIFY_CONSUMER_IDS_CHANGED,
        Code.NOTIFY_MIN_BROKER_ID_CHANGE,
        Code.NOTIFY_UNSUBSCRIBE_LITE,
        Code.LITE_SUBSCRIPTION_CTL,
        Code.CHECK_CLIENT_CONFIG,
    ),
}

_CLASS_OF: dict[int, RequestClass] = {code: kind for kind, codes in _CODES.items() for code in codes}

# Where a send carries its message properties: the short header form has one-letter names.
PROPERTIES_FIELD: Mapping[int, str] = {
    Code.SEND_MESSAGE: "properties",
    Code.SEND_REPLY_MESSAGE: "properties",
    Code.SEND_MESSAGE_V2: "i",
    Code.SEND_BATCH_MESSAGE: "i",
    Code.SEND_REPLY_MESSAGE_V2: "i",
}


def class_of(code: int) -> RequestClass:
    return _CLASS_OF.get(code, RequestClass.ADMIN)


def keeps_order(code: int) -> bool:
    """Whether later sends of a connection wait until this request is finished.

    A reply does not count: it is finished when the client that waits for it has answered, and where that client is on
    the same connection, its answer would never be read.
    """
    return class_of(code) is RequestClass.SEND and code not in _REPLIES


_REPLIES = (Code.SEND_REPLY_MESSAGE, Code.SEND_REPLY_MESSAGE_V2)
