"""Who is connected and what they are doing."""

from __future__ import annotations

import msgspec

from ...model.group import ConsumeFromWhere, ConsumeType, MessageModel
from ..ints import Int32, Int64
from .body import Body, always, always_new
from .heartbeat import SubscriptionData
from .keyed import ByQueue


class ClientConnection(Body, kw_only=True):
    client_addr: str = ""
    client_id: str = ""
    language: str | None = None
    version: Int32 = always(0)


class ConsumerConnection(Body, kw_only=True):
    connection_set: list[ClientConnection] = always_new(list)
    consume_from_where: ConsumeFromWhere | None = None
    consume_type: ConsumeType | None = None
    message_model: MessageModel | None = None
    subscription_table: dict[str, SubscriptionData] = always_new(dict)


class ProducerConnection(Body, kw_only=True):
    connection_set: list[ClientConnection] = always_new(list)


class ProducerInfo(Body, kw_only=True):
    client_id: str = ""
    language: str | None = None
    last_update_timestamp: Int64 = always(0)
    remote_ip: str | None = msgspec.field(default=None, name="remoteIP")
    version: Int32 = always(0)


class ProducerTableInfo(Body, kw_only=True):
    data: dict[str, list[ProducerInfo]] = always_new(dict)  # by group


class QuerySubscriptionResponseBody(Body, kw_only=True):
    group: str | None = None
    subscription_data: SubscriptionData | None = None
    topic: str | None = None


class ConsumeMessageDirectlyResult(Body, kw_only=True):
    auto_commit: bool = always(True)
    # CR_SUCCESS, CR_LATER, CR_ROLLBACK, CR_COMMIT, CR_THROW_EXCEPTION, CR_RETURN_NULL
    consume_result: str | None = None
    order: bool = always(False)
    remark: str | None = None
    spent_time_mills: Int64 = always(0)


class ProcessQueueInfo(Body, kw_only=True):
    cached_msg_count: Int32 = always(0)
    cached_msg_max_offset: Int64 = always(0)
    cached_msg_min_offset: Int64 = always(0)
    cached_msg_size_in_mib: Int32 = always(0, name="cachedMsgSizeInMiB")
    commit_offset: Int64 = always(0)
    droped: bool = always(False)
    last_consume_timestamp: Int64 = always(0)
    last_lock_timestamp: Int64 = always(0)
    last_pull_timestamp: Int64 = always(0)
    locked: bool = always(False)
    transaction_msg_count: Int32 = always(0)
    transaction_msg_max_offset: Int64 = always(0)
    transaction_msg_min_offset: Int64 = always(0)
    try_unlock_times: Int64 = always(0)


class PopProcessQueueInfo(Body, kw_only=True):
    droped: bool = always(False)
    last_pop_timestamp: Int64 = always(0)
    wait_ack_count: Int32 = always(0)


class ConsumeStatus(Body, kw_only=True):
    """Times in milliseconds, rates per second, of one topic."""

    consume_failed_msgs: Int64 = always(0)
    consume_failed_tps: float = always(0.0, name="consumeFailedTPS")
    consume_ok_tps: float = always(0.0, name="consumeOKTPS")
    consume_rt: float = always(0.0, name="consumeRT")
    pull_rt: float = always(0.0, name="pullRT")
    pull_tps: float = always(0.0, name="pullTPS")


class ConsumerRunningInfo(Body, kw_only=True):
    jstack: str | None = None
    mq_pop_table: ByQueue[PopProcessQueueInfo] = always_new(ByQueue)
    mq_table: ByQueue[ProcessQueueInfo] = always_new(ByQueue)
    properties: dict[str, str] = always_new(dict)
    status_table: dict[str, ConsumeStatus] = always_new(dict)
    subscription_set: list[SubscriptionData] = always_new(list)
    user_consumer_info: dict[str, str] = always_new(dict)
