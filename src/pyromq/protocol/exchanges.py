"""Which header and body each request code and its answer carry: one row per code, for servers, clients and tools.

Nothing in a row: no fields or no body. A code without a row has neither (legacy numbers that nobody handles).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any

from ..model.codes import RequestCode as C
from .bodies import (
    connections,
    groups,
    heartbeat,
    lite,
    offsets,
    registration,
    replication,
    route,
    stats,
    topics,
    users,
)
from .bodies.version import DataVersion
from .headers import clients, namesrv, pop, pull, send, transactions
from .headers import groups as group_headers
from .headers import lite as lite_headers
from .headers import offsets as offset_headers
from .headers import replication as replication_headers
from .headers import stats as stats_headers
from .headers import topics as topic_headers
from .headers import users as user_headers
from .headers.header import Header
from .headers.marks import RpcHeader


class Plain(Enum):
    """Bodies that are no JSON."""

    MESSAGE = "a message's own bytes, or a batch of messages"
    RECORDS = "stored records, one after another"
    PROPERTIES = "text of `key=value` lines"
    TEXT = "a text"
    BINARY = "bytes of a layout of their own"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A request and its answer. A body is a type for `decode_body`, or a Plain kind."""

    header: type[Header] | None = None
    body: Any = None
    answer: type[Header] | None = None
    answer_body: Any = None


X = Exchange

EXCHANGES: Mapping[C, Exchange] = MappingProxyType(
    {
        # produce
        C.SEND_MESSAGE: X(header=send.SendMessage, body=Plain.MESSAGE, answer=send.SendMessageAnswer),
        C.SEND_MESSAGE_V2: X(header=send.SendMessageV2, body=Plain.MESSAGE, answer=send.SendMessageAnswer),
        C.SEND_BATCH_MESSAGE: X(header=send.SendMessageV2, body=Plain.MESSAGE, answer=send.SendMessageAnswer),
        C.SEND_REPLY_MESSAGE: X(header=send.SendMessage, body=Plain.MESSAGE, answer=send.SendMessageAnswer),
        C.SEND_REPLY_MESSAGE_V2: X(header=send.SendMessageV2, body=Plain.MESSAGE, answer=send.SendMessageAnswer),
        C.PUSH_REPLY_MESSAGE_TO_CLIENT: X(header=send.PushReplyMessage, body=Plain.MESSAGE),
        C.CONSUMER_SEND_MSG_BACK: X(header=send.ConsumerSendMsgBack),
        C.RECALL_MESSAGE: X(header=send.RecallMessage, answer=send.RecallMessageAnswer),
        # transactions
        C.END_TRANSACTION: X(header=transactions.EndTransaction),
        C.CHECK_TRANSACTION_STATE: X(header=transactions.CheckTransactionState, body=Plain.RECORDS),
        C.RESUME_CHECK_HALF_MESSAGE: X(header=transactions.ResumeCheckHalfMessage),
        # consume by pull, membership, locks
        C.PULL_MESSAGE: X(header=pull.PullMessage, answer=pull.PullMessageAnswer, answer_body=Plain.RECORDS),
        C.LITE_PULL_MESSAGE: X(header=pull.PullMessage, answer=pull.PullMessageAnswer, answer_body=Plain.RECORDS),
        C.HEART_BEAT: X(header=RpcHeader, body=heartbeat.HeartbeatData, answer=clients.HeartbeatAnswer),
        C.UNREGISTER_CLIENT: X(header=clients.UnregisterClient),
        C.CHECK_CLIENT_CONFIG: X(body=heartbeat.CheckClientRequestBody),
        C.GET_CONSUMER_LIST_BY_GROUP: X(
            header=clients.GetConsumerListByGroup, answer_body=heartbeat.GetConsumerListByGroupResponseBody
        ),
        C.NOTIFY_CONSUMER_IDS_CHANGED: X(header=clients.NotifyConsumerIdsChanged),
        C.LOCK_BATCH_MQ: X(
            header=RpcHeader, body=heartbeat.LockBatchRequestBody, answer_body=heartbeat.LockBatchResponseBody
        ),
        C.UNLOCK_BATCH_MQ: X(header=RpcHeader, body=heartbeat.LockBatchRequestBody),
        # offsets
        C.QUERY_CONSUMER_OFFSET: X(header=offset_headers.QueryConsumerOffset, answer=offset_headers.OffsetAnswer),
        C.UPDATE_CONSUMER_OFFSET: X(header=offset_headers.UpdateConsumerOffset),
        C.GET_MAX_OFFSET: X(header=offset_headers.GetMaxOffset, answer=offset_headers.OffsetAnswer),
        C.GET_MIN_OFFSET: X(header=offset_headers.GetMinOffset, answer=offset_headers.OffsetAnswer),
        C.SEARCH_OFFSET_BY_TIMESTAMP: X(header=offset_headers.SearchOffset, answer=offset_headers.OffsetAnswer),
        C.GET_EARLIEST_MSG_STORETIME: X(
            header=offset_headers.GetEarliestMsgStoretime, answer=offset_headers.GetEarliestMsgStoretimeAnswer
        ),
        C.INVOKE_BROKER_TO_RESET_OFFSET: X(header=offset_headers.ResetOffset, answer_body=offsets.ResetOffsetBody),
        C.RESET_CONSUMER_CLIENT_OFFSET: X(header=offset_headers.ResetOffset, body=offsets.ResetOffsetBody),
        C.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: X(
            header=offset_headers.GetConsumerStatus, answer_body=offsets.GetConsumerStatusBody
        ),
        C.GET_CONSUMER_STATUS_FROM_CLIENT: X(
            header=offset_headers.GetConsumerStatus, answer_body=offsets.GetConsumerStatusBody
        ),
        C.CLONE_GROUP_OFFSET: X(header=offset_headers.CloneGroupOffset),
        C.QUERY_CORRECTION_OFFSET: X(
            header=offset_headers.QueryCorrectionOffset, answer_body=offsets.QueryCorrectionOffsetBody
        ),
        C.GET_ALL_CONSUMER_OFFSET: X(answer_body=offsets.ConsumerOffsetSerializeWrapper),
        C.GET_ALL_DELAY_OFFSET: X(answer_body=offsets.DelayOffsetSerializeWrapper),
        # single messages
        C.QUERY_MESSAGE: X(header=pull.QueryMessage, answer=pull.QueryMessageAnswer, answer_body=Plain.RECORDS),
        C.VIEW_MESSAGE_BY_ID: X(header=pull.ViewMessage, answer_body=Plain.RECORDS),
        C.QUERY_CONSUME_QUEUE: X(header=pull.QueryConsumeQueue, answer_body=stats.QueryConsumeQueueResponseBody),
        # POP and assignment
        C.POP_MESSAGE: X(header=pop.PopMessage, answer=pop.PopMessageAnswer, answer_body=Plain.RECORDS),
        C.PEEK_MESSAGE: X(header=pop.PeekMessage, answer=pop.PopMessageAnswer, answer_body=Plain.RECORDS),
        C.ACK_MESSAGE: X(header=pop.AckMessage),
        C.BATCH_ACK_MESSAGE: X(body=offsets.BatchAckMessageRequestBody),
        C.CHANGE_MESSAGE_INVISIBLETIME: X(header=pop.ChangeInvisibleTime, answer=pop.ChangeInvisibleTimeAnswer),
        C.NOTIFICATION: X(header=pop.Notification, answer=pop.NotificationAnswer),
        C.POLLING_INFO: X(header=pop.PollingInfo, answer=pop.PollingInfoAnswer),
        C.POP_ROLLBACK: X(),
        C.QUERY_ASSIGNMENT: X(
            body=heartbeat.QueryAssignmentRequestBody, answer_body=heartbeat.QueryAssignmentResponseBody
        ),
        C.SET_MESSAGE_REQUEST_MODE: X(body=heartbeat.SetMessageRequestModeRequestBody),
        C.GET_ALL_MESSAGE_REQUEST_MODE: X(answer_body=heartbeat.MessageRequestModeSerializeWrapper),
        # lite topics
        C.POP_LITE_MESSAGE: X(
            header=lite_headers.PopLiteMessage, answer=lite_headers.PopLiteMessageAnswer, answer_body=Plain.RECORDS
        ),
        C.LITE_SUBSCRIPTION_CTL: X(header=RpcHeader, body=lite.LiteSubscriptionCtlRequestBody),
        C.NOTIFY_UNSUBSCRIBE_LITE: X(header=lite_headers.NotifyUnsubscribeLite),
        C.GET_BROKER_LITE_INFO: X(answer_body=lite.GetBrokerLiteInfoResponseBody),
        C.GET_PARENT_TOPIC_INFO: X(
            header=lite_headers.GetParentTopicInfo, answer_body=lite.GetParentTopicInfoResponseBody
        ),
        C.GET_LITE_TOPIC_INFO: X(header=lite_headers.GetLiteTopicInfo, answer_body=lite.GetLiteTopicInfoResponseBody),
        C.GET_LITE_CLIENT_INFO: X(
            header=lite_headers.GetLiteClientInfo, answer_body=lite.GetLiteClientInfoResponseBody
        ),
        C.GET_LITE_GROUP_INFO: X(header=lite_headers.GetLiteGroupInfo, answer_body=lite.GetLiteGroupInfoResponseBody),
        C.TRIGGER_LITE_DISPATCH: X(header=lite_headers.TriggerLiteDispatch),
        # name server
        C.GET_ROUTEINFO_BY_TOPIC: X(header=namesrv.GetRouteInfo, answer_body=route.TopicRouteData),
        C.REGISTER_BROKER: X(
            header=namesrv.RegisterBroker,
            body=registration.RegisterBrokerBody,
            answer=namesrv.RegisterBrokerAnswer,
            answer_body=route.KVTable,
        ),
        C.UNREGISTER_BROKER: X(header=namesrv.UnregisterBroker),
        C.BROKER_HEARTBEAT: X(header=namesrv.BrokerHeartbeat),
        C.GET_BROKER_MEMBER_GROUP: X(
            header=namesrv.GetBrokerMemberGroup, answer_body=route.GetBrokerMemberGroupResponseBody
        ),
        C.QUERY_DATA_VERSION: X(
            header=namesrv.QueryDataVersion,
            body=DataVersion,
            answer=namesrv.QueryDataVersionAnswer,
            answer_body=DataVersion,
        ),
        C.GET_BROKER_CLUSTER_INFO: X(answer_body=route.ClusterInfo),
        C.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: X(answer_body=topics.TopicList),
        C.GET_TOPICS_BY_CLUSTER: X(header=namesrv.GetTopicsByCluster, answer_body=topics.TopicList),
        C.GET_SYSTEM_TOPIC_LIST_FROM_NS: X(answer_body=topics.TopicList),
        C.GET_UNIT_TOPIC_LIST: X(answer_body=topics.TopicList),
        C.GET_HAS_UNIT_SUB_TOPIC_LIST: X(answer_body=topics.TopicList),
        C.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: X(answer_body=topics.TopicList),
        C.DELETE_TOPIC_IN_NAMESRV: X(header=namesrv.DeleteTopicInNamesrv),
        C.REGISTER_TOPIC_IN_NAMESRV: X(header=namesrv.RegisterTopic, body=route.TopicRouteData),
        C.WIPE_WRITE_PERM_OF_BROKER: X(header=namesrv.WipeWritePerm, answer=namesrv.WipeWritePermAnswer),
        C.ADD_WRITE_PERM_OF_BROKER: X(header=namesrv.AddWritePerm, answer=namesrv.AddWritePermAnswer),
        C.PUT_KV_CONFIG: X(header=namesrv.PutKvConfig),
        C.GET_KV_CONFIG: X(header=namesrv.GetKvConfig, answer=namesrv.GetKvConfigAnswer),
        C.DELETE_KV_CONFIG: X(header=namesrv.DeleteKvConfig),
        C.GET_KVLIST_BY_NAMESPACE: X(header=namesrv.GetKvList, answer_body=route.KVTable),
        C.UPDATE_NAMESRV_CONFIG: X(body=Plain.PROPERTIES),
        C.GET_NAMESRV_CONFIG: X(answer_body=Plain.PROPERTIES),
        # topics
        C.UPDATE_AND_CREATE_TOPIC: X(header=topic_headers.CreateTopic),
        C.UPDATE_AND_CREATE_TOPIC_LIST: X(header=RpcHeader, body=topics.CreateTopicListRequestBody),
        C.GET_ALL_TOPIC_CONFIG: X(
            header=topic_headers.GetAllTopicConfig,
            answer=topic_headers.GetAllTopicConfigAnswer,
            answer_body=topics.TopicConfigAndMappingSerializeWrapper,
        ),
        C.DELETE_TOPIC_IN_BROKER: X(header=topic_headers.TopicName),
        C.GET_TOPIC_CONFIG: X(header=topic_headers.TopicName, answer_body=topics.TopicConfigAndQueueMapping),
        C.UPDATE_AND_CREATE_STATIC_TOPIC: X(header=topic_headers.CreateTopic, body=topics.TopicQueueMappingDetail),
        C.QUERY_TOPIC_CONSUME_BY_WHO: X(header=topic_headers.TopicName, answer_body=groups.GroupList),
        C.QUERY_TOPICS_BY_CONSUMER: X(header=topic_headers.QueryTopicsByConsumer, answer_body=topics.TopicList),
        C.QUERY_SUBSCRIPTION_BY_CONSUMER: X(
            header=topic_headers.QuerySubscriptionByConsumer, answer_body=connections.QuerySubscriptionResponseBody
        ),
        C.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: X(answer_body=topics.TopicList),
        # subscription groups
        C.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: X(body=groups.SubscriptionGroupConfig),
        C.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: X(body=groups.SubscriptionGroupList),
        C.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: X(
            header=group_headers.GetAllSubscriptionGroup,
            answer=group_headers.GetAllSubscriptionGroupAnswer,
            answer_body=groups.SubscriptionGroupWrapper,
        ),
        C.DELETE_SUBSCRIPTIONGROUP: X(header=group_headers.DeleteSubscriptionGroup),
        C.GET_SUBSCRIPTIONGROUP_CONFIG: X(
            header=group_headers.GetSubscriptionGroupConfig, answer_body=groups.SubscriptionGroupConfig
        ),
        C.UPDATE_AND_GET_GROUP_FORBIDDEN: X(
            header=group_headers.UpdateGroupForbidden, answer_body=groups.GroupForbidden
        ),
        # configuration, state, statistics
        C.UPDATE_BROKER_CONFIG: X(body=Plain.PROPERTIES),
        C.GET_BROKER_CONFIG: X(answer=stats_headers.GetBrokerConfigAnswer, answer_body=Plain.PROPERTIES),
        C.GET_BROKER_RUNTIME_INFO: X(answer_body=route.KVTable),
        C.GET_TOPIC_STATS_INFO: X(header=topic_headers.TopicName, answer_body=offsets.TopicStatsTable),
        C.GET_CONSUME_STATS: X(header=stats_headers.GetConsumeStats, answer_body=offsets.ConsumeStats),
        C.GET_BROKER_CONSUME_STATS: X(header=stats_headers.GetBrokerConsumeStats, answer_body=offsets.ConsumeStatsList),
        C.GET_CONSUMER_CONNECTION_LIST: X(
            header=clients.GetConsumerConnectionList, answer_body=connections.ConsumerConnection
        ),
        C.GET_PRODUCER_CONNECTION_LIST: X(
            header=clients.GetProducerConnectionList, answer_body=connections.ProducerConnection
        ),
        C.GET_ALL_PRODUCER_INFO: X(answer_body=connections.ProducerTableInfo),
        C.QUERY_CONSUME_TIME_SPAN: X(
            header=stats_headers.QueryConsumeTimeSpan, answer_body=offsets.QueryConsumeTimeSpanBody
        ),
        C.VIEW_BROKER_STATS_DATA: X(
            header=stats_headers.ViewBrokerStatsData,
            answer=stats_headers.ViewBrokerStatsDataAnswer,
            answer_body=stats.BrokerStatsData,
        ),
        # relayed to clients
        C.GET_CONSUMER_RUNNING_INFO: X(
            header=clients.GetConsumerRunningInfo, answer_body=connections.ConsumerRunningInfo
        ),
        C.CONSUME_MESSAGE_DIRECTLY: X(
            header=clients.ConsumeMessageDirectly,
            body=Plain.RECORDS,
            answer_body=connections.ConsumeMessageDirectlyResult,
        ),
        # upkeep
        C.CLEAN_EXPIRED_CONSUMEQUEUE: X(),
        C.CLEAN_UNUSED_TOPIC: X(),
        C.DELETE_EXPIRED_COMMITLOG: X(),
        C.CHECK_ROCKSDB_CQ_WRITE_PROGRESS: X(
            header=stats_headers.CheckRocksdbCqWriteProgress, answer_body=stats.CheckRocksdbCqWriteResult
        ),
        C.EXPORT_ROCKSDB_CONFIG_TO_JSON: X(header=stats_headers.ExportRocksdbConfig),
        C.UPDATE_COLD_DATA_FLOW_CTR_CONFIG: X(body=Plain.PROPERTIES),
        C.REMOVE_COLD_DATA_FLOW_CTR_CONFIG: X(body=Plain.TEXT),
        C.GET_COLD_DATA_FLOW_CTR_INFO: X(answer_body=stats.ColdDataFlowCtrInfo),
        C.SET_COMMITLOG_READ_MODE: X(header=stats_headers.SetCommitLogReadMode),
        C.SWITCH_TIMER_ENGINE: X(header=stats_headers.SwitchTimerEngine),
        # replication and controller
        C.GET_TIMER_CHECK_POINT: X(answer_body=Plain.BINARY),
        C.GET_TIMER_METRICS: X(answer_body=stats.TimerMetrics),
        C.ADD_BROKER: X(header=replication_headers.AddBroker),
        C.REMOVE_BROKER: X(header=replication_headers.RemoveBroker),
        C.NOTIFY_MIN_BROKER_ID_CHANGE: X(header=namesrv.NotifyMinBrokerIdChange),
        C.EXCHANGE_BROKER_HA_INFO: X(
            header=replication_headers.ExchangeHaInfo, answer=replication_headers.ExchangeHaInfo
        ),
        C.GET_BROKER_HA_STATUS: X(answer_body=replication.HARuntimeInfo),
        C.RESET_MASTER_FLUSH_OFFSET: X(header=replication_headers.ResetMasterFlushOffset),
        C.CONTROLLER_ALTER_SYNC_STATE_SET: X(
            header=replication_headers.AlterSyncStateSet,
            body=replication.SyncStateSet,
            answer=replication_headers.AlterSyncStateSetAnswer,
            answer_body=replication.SyncStateSet,
        ),
        C.CONTROLLER_ELECT_MASTER: X(
            header=replication_headers.ElectMaster,
            answer=replication_headers.ElectMasterAnswer,
            answer_body=replication.ElectMasterResponseBody,
        ),
        C.CONTROLLER_REGISTER_BROKER: X(
            header=replication_headers.RegisterBrokerToController,
            answer=replication_headers.RegisterBrokerToControllerAnswer,
            answer_body=replication.SyncStateSet,
        ),
        C.CONTROLLER_GET_REPLICA_INFO: X(
            header=replication_headers.GetReplicaInfo,
            answer=replication_headers.GetReplicaInfoAnswer,
            answer_body=replication.SyncStateSet,
        ),
        C.CONTROLLER_GET_METADATA_INFO: X(answer=replication_headers.GetMetadataInfoAnswer),
        C.CONTROLLER_GET_SYNC_STATE_DATA: X(body=list[str], answer_body=replication.BrokerReplicasInfo),
        C.GET_BROKER_EPOCH_CACHE: X(answer_body=replication.EpochEntryCache),
        C.NOTIFY_BROKER_ROLE_CHANGED: X(
            header=replication_headers.NotifyBrokerRoleChanged, body=replication.SyncStateSet
        ),
        C.UPDATE_CONTROLLER_CONFIG: X(body=Plain.PROPERTIES),
        C.GET_CONTROLLER_CONFIG: X(answer_body=Plain.PROPERTIES),
        C.CLEAN_BROKER_DATA: X(header=replication_headers.CleanBrokerData),
        C.CONTROLLER_GET_NEXT_BROKER_ID: X(
            header=replication_headers.GetNextBrokerId, answer=replication_headers.GetNextBrokerIdAnswer
        ),
        C.CONTROLLER_APPLY_BROKER_ID: X(
            header=replication_headers.ApplyBrokerId, answer=replication_headers.ApplyBrokerIdAnswer
        ),
        # users and permissions
        C.AUTH_CREATE_USER: X(header=user_headers.UserName, body=users.UserInfo),
        C.AUTH_UPDATE_USER: X(header=user_headers.UserName, body=users.UserInfo),
        C.AUTH_DELETE_USER: X(header=user_headers.UserName),
        C.AUTH_GET_USER: X(header=user_headers.UserName, answer_body=users.UserInfo),
        C.AUTH_LIST_USER: X(header=user_headers.ListUsers, answer_body=list[users.UserInfo]),
        C.AUTH_CREATE_ACL: X(header=user_headers.AclSubject, body=users.AclInfo),
        C.AUTH_UPDATE_ACL: X(header=user_headers.AclSubject, body=users.AclInfo),
        C.AUTH_DELETE_ACL: X(header=user_headers.DeleteAcl),
        C.AUTH_GET_ACL: X(header=user_headers.AclSubject, answer_body=users.AclInfo),
        C.AUTH_LIST_ACL: X(header=user_headers.ListAcls, answer_body=list[users.AclInfo]),
    }
)
