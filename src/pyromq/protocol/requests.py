"""Every request code, one row each: what it and its answer carry, its lane, the access it needs, and who serves it.

The codes are those of RocketMQ 5.5.0 and 4.9; those from 30,001 on are our own brokers' alone, above RocketMQ's for
brokers and within the 16 bits of a binary header. To add one, write its row here and bind it to a handler in the
`surface.py` of who serves it. `NOTHING` carries neither fields nor a body; a row without a lane is administration, one
without a need asks for UPDATE on the cluster, one without a server is the broker's. Where `adminListener` is set,
administration is refused elsewhere, but for rows with `others`: replicas, gateways or clients need these.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from .access import Action, Resource, on_all, on_body_group, on_body_topic, on_cluster, on_group, on_message, on_topic
from .bodies import connections, groups, heartbeat, offsets, own, registration, replication, route, stats, topics
from .bodies import lite as lites
from .bodies.body import DataVersion
from .headers import admin, namesrv, pop, pull, send
from .headers import clients as client
from .headers import offsets as offset
from .headers import replication as replica
from .headers.header import ConsumerGroupName, GroupName, GroupQueue, RpcHeader, TopicName, TopicQueue
from .json import Dialect
from .row import AnyRow, Content, Plain, RequestClass, Row, ServedBy

HEARTBEAT, SEND, PULL, QUERY, _ = RequestClass
MESSAGE, RECORDS, PROPERTIES, TEXT, BINARY = Plain
PUB, SUB, CREATE, UPDATE, DELETE, GET, LIST = Action
BROKER, RELAYED, NAME_SERVER, CLIENT, CONTROLLER, CONTROLLED, NOBODY, POP, REPLICATION, USERS, LITE, STATIC = ServedBy
JAVA = Dialect.JAVA

NOTHING = Content()
LONG_SEND = Content(send.SendMessage, MESSAGE)
SHORT_SEND = Content(send.SendMessageV2, MESSAGE)
SENT = Content(send.SendMessageAnswer)
OFFSET = Content(offset.OffsetAnswer)
TOPICS = Content(None, topics.TopicList)
SETTINGS = Content(None, PROPERTIES)
READ = on_cluster(GET)
CONSUME = on_topic(SUB) + on_group(SUB)
LIST_TOPICS = on_all(Resource.TOPIC, LIST)


class RequestCode:
    """The rows by RocketMQ's names."""

    # A table, wrapped by hand: what a row carries comes first, the rest below where there is more than a line.
    # fmt: off

    # produce
    SEND_MESSAGE = Row(10, LONG_SEND, SENT, lane=SEND, needs=on_topic(PUB))
    SEND_MESSAGE_V2 = Row(310, SHORT_SEND, SENT, lane=SEND, needs=on_topic(PUB, field="b"))
    SEND_BATCH_MESSAGE = Row(320, SHORT_SEND, SENT, lane=SEND, needs=on_topic(PUB, field="b"))
    SEND_REPLY_MESSAGE = Row(324, LONG_SEND, SENT, lane=SEND, needs=on_topic(PUB))
    SEND_REPLY_MESSAGE_V2 = Row(325, SHORT_SEND, SENT, lane=SEND, needs=on_topic(PUB, field="b"))
    CONSUMER_SEND_MSG_BACK = Row(36, Content(send.ConsumerSendMsgBack), NOTHING,
        lane=SEND, needs=on_group(SUB, field="group"))
    RECALL_MESSAGE = Row(370, Content(send.RecallMessage), Content(send.RecallMessageAnswer),
        lane=SEND, needs=on_topic(PUB))

    # transactions; the end of one is checked by its message: 4.x names no topic, and a named one could be another
    END_TRANSACTION = Row(37, Content(send.EndTransaction), NOTHING, lane=SEND, needs=on_message(PUB))
    RESUME_CHECK_HALF_MESSAGE = Row(323, Content(send.ResumeCheckHalfMessage), NOTHING, needs=on_message(UPDATE))

    # consume
    PULL_MESSAGE = Row(11, Content(pull.PullMessage), Content(pull.PullMessageAnswer, RECORDS),
        lane=PULL, needs=CONSUME)
    LITE_PULL_MESSAGE = Row(361, Content(pull.PullMessage), Content(pull.PullMessageAnswer, RECORDS),
        lane=PULL, needs=CONSUME)
    HEART_BEAT = Row(34, Content(RpcHeader, heartbeat.HeartbeatData),
        Content(client.HeartbeatAnswer, own.RefusedGroups),
        lane=HEARTBEAT,
        needs=on_body_group("consumerDataSet.groupName", SUB, optional=True)
        + on_body_topic("consumerDataSet.subscriptionDataSet.topic", SUB, optional=True))
    UNREGISTER_CLIENT = Row(35, Content(client.UnregisterClient), NOTHING,
        lane=HEARTBEAT, needs=on_group(SUB, optional=True))
    CHECK_CLIENT_CONFIG = Row(46, Content(None, heartbeat.CheckClientRequestBody), NOTHING,
        lane=QUERY, needs=on_body_group("group", SUB) + on_body_topic("subscriptionData.topic", SUB))
    GET_CONSUMER_LIST_BY_GROUP = Row(38, Content(ConsumerGroupName),
        Content(None, heartbeat.GetConsumerListByGroupResponseBody), lane=QUERY, needs=on_group(SUB, GET))
    LOCK_BATCH_MQ = Row(41, Content(RpcHeader, heartbeat.LockBatchRequestBody),
        Content(None, heartbeat.LockBatchResponseBody), lane=HEARTBEAT,
        needs=on_body_group("consumerGroup", SUB) + on_body_topic("mqSet.topic", SUB))
    UNLOCK_BATCH_MQ = Row(42, Content(RpcHeader, heartbeat.LockBatchRequestBody), NOTHING,
        lane=HEARTBEAT, needs=on_body_group("consumerGroup", SUB) + on_body_topic("mqSet.topic", SUB))
    QUERY_CONSUMER_OFFSET = Row(14, Content(offset.QueryConsumerOffset), OFFSET,
        lane=QUERY, needs=on_topic(SUB, GET) + on_group(SUB, GET))
    UPDATE_CONSUMER_OFFSET = Row(15, Content(offset.UpdateConsumerOffset), NOTHING,
        lane=PULL, needs=on_topic(SUB, UPDATE) + on_group(SUB, UPDATE))
    GET_MAX_OFFSET = Row(30, Content(offset.GetMaxOffset), OFFSET, lane=QUERY, needs=on_topic(SUB, GET))
    GET_MIN_OFFSET = Row(31, Content(TopicQueue), OFFSET, lane=QUERY, needs=on_topic(SUB, GET))
    SEARCH_OFFSET_BY_TIMESTAMP = Row(29, Content(offset.SearchOffset), OFFSET, lane=QUERY, needs=on_topic(SUB, GET))
    GET_EARLIEST_MSG_STORETIME = Row(32, Content(TopicQueue), Content(offset.GetEarliestMsgStoretimeAnswer),
        lane=QUERY, needs=on_topic(SUB, GET))
    QUERY_MESSAGE = Row(12, Content(pull.QueryMessage), Content(pull.QueryMessageAnswer, RECORDS),
        lane=QUERY, needs=on_topic(SUB, GET))
    VIEW_MESSAGE_BY_ID = Row(33, Content(pull.ViewMessage), Content(None, RECORDS),
        lane=QUERY, needs=on_message(SUB, GET))

    # POP
    POP_MESSAGE = Row(200050, Content(pop.PopMessage), Content(pop.PopMessageAnswer, RECORDS),
        lane=PULL, needs=CONSUME)
    PEEK_MESSAGE = Row(200052, Content(pop.PeekMessage), Content(pop.PopMessageAnswer, RECORDS),
        lane=PULL, needs=CONSUME)
    ACK_MESSAGE = Row(200051, Content(pop.AckMessage), NOTHING, lane=PULL, needs=CONSUME)
    BATCH_ACK_MESSAGE = Row(200151, Content(None, offsets.BatchAckMessageRequestBody), NOTHING,
        lane=PULL, needs=on_body_topic("acks.t", SUB) + on_body_group("acks.c", SUB))
    CHANGE_MESSAGE_INVISIBLETIME = Row(200053, Content(pop.ChangeInvisibleTime), Content(pop.ChangeInvisibleTimeAnswer),
        lane=PULL, needs=CONSUME)
    NOTIFICATION = Row(200054, Content(pop.Notification), Content(pop.NotificationAnswer),
        lane=PULL, needs=CONSUME)
    POLLING_INFO = Row(200055, Content(GroupQueue), Content(pop.PollingInfoAnswer),
        needs=on_topic(GET) + on_group(GET), others=True)
    POP_ROLLBACK = Row(200056, NOTHING, NOTHING)
    QUERY_ASSIGNMENT = Row(400, Content(None, heartbeat.QueryAssignmentRequestBody),
        Content(None, heartbeat.QueryAssignmentResponseBody), lane=QUERY,
        needs=on_body_topic("topic", SUB) + on_body_group("consumerGroup", SUB))
    SET_MESSAGE_REQUEST_MODE = Row(401, Content(None, heartbeat.SetMessageRequestModeRequestBody), NOTHING,
        needs=on_body_topic("topic", UPDATE) + on_body_group("consumerGroup", UPDATE))
    GET_ALL_MESSAGE_REQUEST_MODE = Row(402, NOTHING, Content(None, heartbeat.MessageRequestModeSerializeWrapper),
        needs=READ, others=True)

    # lite topics
    POP_LITE_MESSAGE = Row(200070, Content(pop.PopLiteMessage), Content(pop.PopLiteMessageAnswer, RECORDS),
        lane=PULL, needs=CONSUME, by=LITE)
    LITE_SUBSCRIPTION_CTL = Row(200071, Content(RpcHeader, lites.LiteSubscriptionCtlRequestBody), NOTHING, lane=QUERY,
        by=LITE, needs=on_body_topic("subscriptionSet.topic", SUB) + on_body_group("subscriptionSet.group", SUB))
    ACK_LITE_MESSAGE = Row(200072, NOTHING, NOTHING, lane=PULL, by=NOBODY)
    GET_BROKER_LITE_INFO = Row(200074, NOTHING, Content(None, lites.GetBrokerLiteInfoResponseBody), needs=READ, by=LITE)
    GET_PARENT_TOPIC_INFO = Row(200075, Content(TopicName), Content(None, lites.GetParentTopicInfoResponseBody),
        needs=on_topic(GET), by=LITE)
    GET_LITE_TOPIC_INFO = Row(200076, Content(pop.GetLiteTopicInfo), Content(None, lites.GetLiteTopicInfoResponseBody),
        needs=on_topic(GET, field="parentTopic"), by=LITE)
    GET_LITE_CLIENT_INFO = Row(200077, Content(pop.GetLiteClientInfo),
        Content(None, lites.GetLiteClientInfoResponseBody), by=LITE,
        needs=on_topic(GET, field="parentTopic") + on_group(GET, field="group"))
    GET_LITE_GROUP_INFO = Row(200078, Content(pop.GetLiteGroupInfo), Content(None, lites.GetLiteGroupInfoResponseBody),
        needs=on_group(GET, field="group"), by=LITE)
    TRIGGER_LITE_DISPATCH = Row(200079, Content(pop.TriggerLiteDispatch), NOTHING,
        needs=on_group(UPDATE, field="group"), by=LITE)

    # name server
    GET_ROUTEINFO_BY_TOPIC = Row(105, Content(namesrv.GetRouteInfo), Content(None, route.TopicRouteData),
        lane=QUERY, needs=on_topic(PUB, SUB, GET), by=NAME_SERVER)
    REGISTER_BROKER = Row(103, Content(namesrv.RegisterBroker, registration.RegisterBrokerBody),
        Content(namesrv.RegisterBrokerAnswer, route.KVTable), lane=HEARTBEAT, by=NAME_SERVER)
    UNREGISTER_BROKER = Row(104, Content(namesrv.RegisteredBroker), NOTHING, lane=HEARTBEAT, by=NAME_SERVER)
    BROKER_HEARTBEAT = Row(904, Content(namesrv.BrokerHeartbeat), NOTHING, lane=HEARTBEAT, by=NAME_SERVER)
    GET_BROKER_MEMBER_GROUP = Row(901, Content(namesrv.GetBrokerMemberGroup),
        Content(None, route.GetBrokerMemberGroupResponseBody, JAVA), lane=QUERY, needs=READ, by=NAME_SERVER)
    QUERY_DATA_VERSION = Row(322, Content(namesrv.RegisteredBroker, DataVersion),
        Content(namesrv.QueryDataVersionAnswer, DataVersion), lane=HEARTBEAT, needs=READ, by=NAME_SERVER)
    GET_BROKER_CLUSTER_INFO = Row(106, NOTHING, Content(None, route.ClusterInfo, JAVA),
        lane=QUERY, needs=READ, by=NAME_SERVER)
    GET_ALL_TOPIC_LIST_FROM_NAMESERVER = Row(206, NOTHING, TOPICS, needs=LIST_TOPICS, by=NAME_SERVER, others=True)
    GET_TOPICS_BY_CLUSTER = Row(224, Content(namesrv.GetTopicsByCluster), TOPICS, needs=LIST_TOPICS, by=NAME_SERVER)
    GET_SYSTEM_TOPIC_LIST_FROM_NS = Row(304, NOTHING, TOPICS, needs=LIST_TOPICS, by=NAME_SERVER)
    GET_UNIT_TOPIC_LIST = Row(311, NOTHING, TOPICS, needs=LIST_TOPICS, by=NAME_SERVER)
    GET_HAS_UNIT_SUB_TOPIC_LIST = Row(312, NOTHING, TOPICS, needs=LIST_TOPICS, by=NAME_SERVER)
    GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST = Row(313, NOTHING, TOPICS, needs=LIST_TOPICS, by=NAME_SERVER)
    DELETE_TOPIC_IN_NAMESRV = Row(216, Content(namesrv.DeleteTopicInNamesrv), NOTHING, by=NAME_SERVER)
    REGISTER_TOPIC_IN_NAMESRV = Row(217, Content(TopicName, route.TopicRouteData), NOTHING, by=NAME_SERVER, others=True)
    WIPE_WRITE_PERM_OF_BROKER = Row(205, Content(namesrv.BrokerName), Content(namesrv.WipeWritePermAnswer),
        by=NAME_SERVER)
    ADD_WRITE_PERM_OF_BROKER = Row(327, Content(namesrv.BrokerName), Content(namesrv.AddWritePermAnswer),
        by=NAME_SERVER)
    PUT_KV_CONFIG = Row(100, Content(namesrv.PutKvConfig), NOTHING, by=NAME_SERVER)
    GET_KV_CONFIG = Row(101, Content(namesrv.KvKey), Content(namesrv.GetKvConfigAnswer), needs=READ, by=NAME_SERVER)
    DELETE_KV_CONFIG = Row(102, Content(namesrv.KvKey), NOTHING, by=NAME_SERVER)
    GET_KVLIST_BY_NAMESPACE = Row(219, Content(namesrv.KvNamespace), Content(None, route.KVTable),
        needs=READ, by=NAME_SERVER)
    UPDATE_NAMESRV_CONFIG = Row(318, SETTINGS, NOTHING, by=NAME_SERVER)
    GET_NAMESRV_CONFIG = Row(319, NOTHING, SETTINGS, needs=READ, by=NAME_SERVER)

    # topics
    UPDATE_AND_CREATE_TOPIC = Row(17, Content(admin.CreateTopic), NOTHING, needs=on_topic(CREATE))
    UPDATE_AND_CREATE_TOPIC_LIST = Row(18, Content(RpcHeader, topics.CreateTopicListRequestBody), NOTHING,
        needs=on_body_topic("topicConfigList.topicName", CREATE))
    UPDATE_AND_CREATE_STATIC_TOPIC = Row(513, Content(admin.CreateTopic, topics.TopicQueueMappingDetail, JAVA), NOTHING,
        needs=on_topic(CREATE), by=STATIC)
    GET_ALL_TOPIC_CONFIG = Row(21, Content(admin.GetAllTopicConfig),
        Content(admin.GetAllTopicConfigAnswer, topics.TopicConfigAndMappingSerializeWrapper, JAVA),
        needs=on_all(Resource.TOPIC, GET, LIST), others=True)
    GET_TOPIC_CONFIG = Row(351, Content(TopicName), Content(None, topics.TopicConfigAndQueueMapping),
        needs=on_topic(GET), others=True)
    DELETE_TOPIC_IN_BROKER = Row(215, Content(TopicName), NOTHING, needs=on_topic(DELETE))
    QUERY_TOPIC_CONSUME_BY_WHO = Row(300, Content(TopicName), Content(None, groups.GroupList), needs=on_topic(GET))
    QUERY_TOPICS_BY_CONSUMER = Row(343, Content(GroupName), TOPICS, needs=on_group(GET, field="group"))
    QUERY_SUBSCRIPTION_BY_CONSUMER = Row(345, Content(admin.QuerySubscriptionByConsumer),
        Content(None, connections.QuerySubscriptionResponseBody),
        needs=on_group(GET, field="group") + on_topic(GET, optional=True))
    GET_SYSTEM_TOPIC_LIST_FROM_BROKER = Row(305, NOTHING, TOPICS, needs=LIST_TOPICS)

    # subscription groups
    UPDATE_AND_CREATE_SUBSCRIPTIONGROUP = Row(200, Content(None, groups.SubscriptionGroupConfig), NOTHING,
        needs=on_body_group("groupName", CREATE))
    UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST = Row(225, Content(None, groups.SubscriptionGroupList), NOTHING,
        needs=on_body_group("groupConfigList.groupName", CREATE))
    GET_ALL_SUBSCRIPTIONGROUP_CONFIG = Row(201, Content(admin.GetAllSubscriptionGroup),
        Content(admin.GetAllSubscriptionGroupAnswer, groups.SubscriptionGroupWrapper),
        needs=on_all(Resource.GROUP, GET, LIST), others=True)
    DELETE_SUBSCRIPTIONGROUP = Row(207, Content(admin.DeleteSubscriptionGroup), NOTHING,
        needs=on_group(DELETE, field="groupName"))
    GET_SUBSCRIPTIONGROUP_CONFIG = Row(352, Content(GroupName), Content(None, groups.SubscriptionGroupConfig),
        needs=on_group(SUB, GET, field="group"), others=True)
    UPDATE_AND_GET_GROUP_FORBIDDEN = Row(353, Content(admin.UpdateGroupForbidden), Content(None, groups.GroupForbidden),
        needs=on_topic(UPDATE) + on_group(UPDATE, field="group"))

    # configuration, state, statistics
    UPDATE_BROKER_CONFIG = Row(25, SETTINGS, NOTHING)
    GET_BROKER_CONFIG = Row(26, NOTHING, Content(admin.GetBrokerConfigAnswer, PROPERTIES), needs=READ, others=True)
    GET_BROKER_RUNTIME_INFO = Row(28, NOTHING, Content(None, route.KVTable), needs=READ, others=True)
    GET_TOPIC_STATS_INFO = Row(202, Content(TopicName), Content(None, offsets.TopicStatsTable, JAVA),
        needs=on_topic(GET), others=True)
    GET_CONSUME_STATS = Row(208, Content(admin.GetConsumeStats), Content(None, offsets.ConsumeStats, JAVA),
        needs=on_group(GET)
        + on_topic(GET, optional=True) + on_topic(GET, field="topicList", separator=";", optional=True))
    GET_BROKER_CONSUME_STATS = Row(317, Content(admin.GetBrokerConsumeStats),
        Content(None, offsets.ConsumeStatsList, JAVA), needs=READ)
    GET_CONSUMER_CONNECTION_LIST = Row(203, Content(ConsumerGroupName), Content(None, connections.ConsumerConnection),
        needs=on_group(GET), others=True)
    GET_PRODUCER_CONNECTION_LIST = Row(204, Content(client.GetProducerConnectionList),
        Content(None, connections.ProducerConnection), needs=READ)
    GET_ALL_PRODUCER_INFO = Row(328, NOTHING, Content(None, connections.ProducerTableInfo), needs=READ)
    QUERY_CONSUME_TIME_SPAN = Row(303, Content(admin.QueryConsumeTimeSpan),
        Content(None, offsets.QueryConsumeTimeSpanBody), needs=on_topic(GET) + on_group(GET, field="group"))
    QUERY_CORRECTION_OFFSET = Row(308, Content(offset.QueryCorrectionOffset),
        Content(None, offsets.QueryCorrectionOffsetBody, JAVA),
        needs=on_topic(GET)
        + on_group(GET, field="compareGroup") + on_group(GET, field="filterGroups", separator=",", optional=True))
    VIEW_BROKER_STATS_DATA = Row(315, Content(admin.ViewBrokerStatsData),
        Content(admin.ViewBrokerStatsDataAnswer, stats.BrokerStatsData), needs=READ)
    QUERY_CONSUME_QUEUE = Row(321, Content(pull.QueryConsumeQueue), Content(None, stats.QueryConsumeQueueResponseBody),
        needs=on_topic(GET) + on_group(GET, optional=True))

    # offsets by hand, and calls relayed to clients
    INVOKE_BROKER_TO_RESET_OFFSET = Row(222, Content(offset.ResetOffset), Content(None, offsets.ResetOffsetBody, JAVA),
        needs=on_topic(UPDATE) + on_group(UPDATE, field="group"))
    INVOKE_BROKER_TO_GET_CONSUMER_STATUS = Row(223, Content(offset.GetConsumerStatus),
        Content(None, offsets.GetConsumerStatusBody, JAVA), needs=on_topic(GET) + on_group(GET, field="group"))
    GET_CONSUMER_RUNNING_INFO = Row(307, Content(client.GetConsumerRunningInfo),
        Content(None, connections.ConsumerRunningInfo, JAVA), needs=on_group(GET), by=RELAYED)
    CONSUME_MESSAGE_DIRECTLY = Row(309, Content(client.ConsumeMessageDirectly, RECORDS),
        Content(None, connections.ConsumeMessageDirectlyResult), by=RELAYED,
        needs=on_group(SUB) + on_topic(SUB, optional=True))
    CLONE_GROUP_OFFSET = Row(314, Content(offset.CloneGroupOffset), NOTHING, needs=on_group(GET, UPDATE,
        field="srcGroup") + on_group(UPDATE, field="destGroup") + on_topic(UPDATE, optional=True))

    # upkeep
    CLEAN_EXPIRED_CONSUMEQUEUE = Row(306, NOTHING, NOTHING)
    CLEAN_UNUSED_TOPIC = Row(316, NOTHING, NOTHING)
    DELETE_EXPIRED_COMMITLOG = Row(329, NOTHING, NOTHING)
    CHECK_ROCKSDB_CQ_WRITE_PROGRESS = Row(354, Content(admin.CheckRocksdbCqWriteProgress),
        Content(None, stats.CheckRocksdbCqWriteResult), needs=READ)
    EXPORT_ROCKSDB_CONFIG_TO_JSON = Row(355, Content(admin.ExportRocksdbConfig), NOTHING)
    UPDATE_COLD_DATA_FLOW_CTR_CONFIG = Row(2001, SETTINGS, NOTHING)
    REMOVE_COLD_DATA_FLOW_CTR_CONFIG = Row(2002, Content(None, TEXT), NOTHING)
    GET_COLD_DATA_FLOW_CTR_INFO = Row(2003, NOTHING, Content(None, stats.ColdDataFlowCtrInfo), needs=READ)
    SET_COMMITLOG_READ_MODE = Row(2004, Content(admin.SetCommitLogReadMode), NOTHING)
    SWITCH_TIMER_ENGINE = Row(5001, Content(admin.SwitchTimerEngine), NOTHING)

    # replication and controller
    GET_ALL_CONSUMER_OFFSET = Row(43, NOTHING, Content(None, offsets.ConsumerOffsetSerializeWrapper, JAVA), needs=READ,
        others=True)
    GET_ALL_DELAY_OFFSET = Row(45, NOTHING, Content(None, offsets.DelayOffsetSerializeWrapper), needs=READ, others=True)
    GET_TIMER_CHECK_POINT = Row(60, NOTHING, Content(None, BINARY), needs=READ, others=True)
    GET_TIMER_METRICS = Row(61, NOTHING, Content(None, stats.TimerMetrics), needs=READ, others=True)
    ADD_BROKER = Row(902, Content(replica.AddBroker), NOTHING, by=REPLICATION)
    REMOVE_BROKER = Row(903, Content(replica.RemoveBroker), NOTHING, by=REPLICATION)
    EXCHANGE_BROKER_HA_INFO = Row(906, Content(replica.ExchangeHaInfo), Content(replica.ExchangeHaInfo),
        lane=HEARTBEAT)
    GET_BROKER_HA_STATUS = Row(907, NOTHING, Content(None, replication.HARuntimeInfo), needs=READ)
    RESET_MASTER_FLUSH_OFFSET = Row(908, Content(replica.ResetMasterFlushOffset), NOTHING)
    CONTROLLER_ALTER_SYNC_STATE_SET = Row(1001, Content(replica.AlterSyncStateSet, replication.SyncStateSet),
        Content(replica.AlterSyncStateSetAnswer, replication.SyncStateSet), by=CONTROLLER)
    CONTROLLER_ELECT_MASTER = Row(1002, Content(replica.ElectMaster),
        Content(replica.ElectedMaster, replication.ElectMasterResponseBody), by=CONTROLLER)
    CONTROLLER_REGISTER_BROKER = Row(1003, Content(replica.RegisterBrokerToController),
        Content(replica.RegisterBrokerToControllerAnswer, replication.SyncStateSet), by=CONTROLLER)
    CONTROLLER_GET_REPLICA_INFO = Row(1004, Content(replica.GetReplicaInfo),
        Content(replica.ReplicaMaster, replication.SyncStateSet), needs=READ, by=CONTROLLER)
    CONTROLLER_GET_METADATA_INFO = Row(1005, NOTHING, Content(replica.GetMetadataInfoAnswer), needs=READ, by=CONTROLLER)
    CONTROLLER_GET_SYNC_STATE_DATA = Row(1006, Content(None, list[str]), Content(None, replication.BrokerReplicasInfo),
        needs=READ, by=CONTROLLER)
    GET_BROKER_EPOCH_CACHE = Row(1007, NOTHING, Content(None, replication.EpochEntryCache), needs=READ)
    UPDATE_CONTROLLER_CONFIG = Row(1009, SETTINGS, NOTHING, by=CONTROLLER)
    GET_CONTROLLER_CONFIG = Row(1010, NOTHING, SETTINGS, needs=READ, by=CONTROLLER)
    CLEAN_BROKER_DATA = Row(1011, Content(replica.CleanBrokerData), NOTHING, by=CONTROLLER)
    CONTROLLER_GET_NEXT_BROKER_ID = Row(1012, Content(replica.ControlledBroker), Content(replica.GetNextBrokerIdAnswer),
        needs=READ, by=CONTROLLER)
    CONTROLLER_APPLY_BROKER_ID = Row(1013, Content(replica.ApplyBrokerId), Content(replica.ControlledBroker),
        by=CONTROLLER)
    BROKER_CLOSE_CHANNEL_REQUEST = Row(1014, NOTHING, NOTHING, by=NOBODY)
    CHECK_NOT_ACTIVE_BROKER_REQUEST = Row(1015, NOTHING, NOTHING, by=NOBODY)
    GET_BROKER_LIVE_INFO_REQUEST = Row(1016, NOTHING, NOTHING, by=NOBODY)
    GET_SYNC_STATE_DATA_REQUEST = Row(1017, NOTHING, NOTHING, by=NOBODY)
    RAFT_BROKER_HEART_BEAT_EVENT_REQUEST = Row(1018, NOTHING, NOTHING, lane=HEARTBEAT, by=NOBODY)

    # users and permissions
    AUTH_CREATE_USER = Row(3001, Content(admin.UserName, groups.UserInfo), NOTHING, by=USERS)
    AUTH_UPDATE_USER = Row(3002, Content(admin.UserChange, groups.UserInfo), NOTHING, by=USERS)
    AUTH_DELETE_USER = Row(3003, Content(admin.UserName), NOTHING, by=USERS)
    AUTH_GET_USER = Row(3004, Content(admin.UserName), Content(None, groups.UserInfo), needs=READ, by=USERS)
    AUTH_LIST_USER = Row(3005, Content(admin.ListUsers), Content(None, list[groups.UserInfo]), needs=READ, by=USERS)
    AUTH_CREATE_ACL = Row(3006, Content(admin.AclSubject, groups.AclInfo), NOTHING, by=USERS)
    AUTH_UPDATE_ACL = Row(3007, Content(admin.AclSubject, groups.AclInfo), NOTHING, by=USERS)
    AUTH_DELETE_ACL = Row(3008, Content(admin.DeleteAcl), NOTHING, by=USERS)
    AUTH_GET_ACL = Row(3009, Content(admin.AclSubject), Content(None, groups.AclInfo), needs=READ, by=USERS)
    AUTH_LIST_ACL = Row(3010, Content(admin.ListAcls), Content(None, list[groups.AclInfo]), needs=READ, by=USERS)

    # from servers to clients and brokers: whoever sends one the other way must be trusted with the cluster
    CHECK_TRANSACTION_STATE = Row(39, Content(send.CheckTransactionState, RECORDS), NOTHING, lane=SEND, by=CLIENT)
    NOTIFY_CONSUMER_IDS_CHANGED = Row(40, Content(ConsumerGroupName), NOTHING, lane=QUERY, by=CLIENT)
    RESET_CONSUMER_CLIENT_OFFSET = Row(220, Content(offset.ResetOffset, offsets.ResetOffsetBody, JAVA), NOTHING,
        by=CLIENT)
    GET_CONSUMER_STATUS_FROM_CLIENT = Row(221, Content(offset.GetConsumerStatus),
        Content(None, offsets.GetConsumerStatusBody, JAVA), by=CLIENT)
    PUSH_REPLY_MESSAGE_TO_CLIENT = Row(326, Content(send.PushReplyMessage, MESSAGE), NOTHING, lane=SEND, by=CLIENT)
    NOTIFY_MIN_BROKER_ID_CHANGE = Row(905, Content(namesrv.NotifyMinBrokerIdChange), NOTHING,
        lane=QUERY, by=REPLICATION)
    NOTIFY_BROKER_ROLE_CHANGED = Row(1008, Content(replica.ElectedMaster, replication.SyncStateSet), NOTHING,
        by=CONTROLLED, others=True)
    NOTIFY_UNSUBSCRIBE_LITE = Row(200073, Content(pop.NotifyUnsubscribeLite), NOTHING, lane=QUERY, by=CLIENT)

    # numbers that nobody handles
    QUERY_BROKER_OFFSET = Row(13, NOTHING, NOTHING, lane=QUERY, by=NOBODY)
    GET_TOPIC_CONFIG_LIST = Row(22, NOTHING, NOTHING, by=NOBODY)
    GET_TOPIC_NAME_LIST = Row(23, NOTHING, NOTHING, by=NOBODY)
    TRIGGER_DELETE_FILES = Row(27, NOTHING, NOTHING, by=NOBODY)
    GET_CLIENT_CONFIG = Row(47, NOTHING, NOTHING, by=NOBODY)
    UPDATE_AND_CREATE_ACL_CONFIG = Row(50, NOTHING, NOTHING, by=NOBODY)
    DELETE_ACL_CONFIG = Row(51, NOTHING, NOTHING, by=NOBODY)
    GET_BROKER_CLUSTER_ACL_INFO = Row(52, NOTHING, NOTHING, by=NOBODY)
    UPDATE_GLOBAL_WHITE_ADDRS_CONFIG = Row(53, NOTHING, NOTHING, by=NOBODY)
    SUSPEND_CONSUMER = Row(209, NOTHING, NOTHING, by=NOBODY)
    RESUME_CONSUMER = Row(210, NOTHING, NOTHING, by=NOBODY)
    RESET_CONSUMER_OFFSET_IN_CONSUMER = Row(211, NOTHING, NOTHING, by=NOBODY)
    RESET_CONSUMER_OFFSET_IN_BROKER = Row(212, NOTHING, NOTHING, by=NOBODY)
    ADJUST_CONSUMER_THREAD_POOL = Row(213, NOTHING, NOTHING, by=NOBODY)
    WHO_CONSUME_THE_MESSAGE = Row(214, NOTHING, NOTHING, by=NOBODY)
    REGISTER_FILTER_SERVER = Row(301, NOTHING, NOTHING, by=NOBODY)
    REGISTER_MESSAGE_FILTER_CLASS = Row(302, NOTHING, NOTHING, by=NOBODY)

    # our own, answered by no other broker
    INSPECT = Row(30001, NOTHING, Content(None, own.BrokerInspection), needs=READ)
    MESSAGE_LIFE = Row(30002, Content(admin.MessageLifeRequest), Content(None, own.MessageLifeAnswer),
        needs=on_topic(GET))
    HALF_MESSAGES = Row(30003, Content(admin.HalfMessagesRequest), Content(None, own.HalfMessagesAnswer), needs=READ)
    DEAD_LETTERS = Row(30005, Content(admin.DeadLettersRequest), Content(None, own.DeadLettersAnswer), needs=READ)
    TABLE_VERSIONS = Row(30006, NOTHING, Content(None, own.TableVersions), lane=QUERY, needs=READ)
    OWN_COMMITS = Row(30007, NOTHING, Content(None, own.OwnCommitsAnswer), needs=READ, others=True)
    SNAPSHOT = Row(30008, Content(admin.SnapshotRequest), Content(None, own.SnapshotAnswer), needs=READ)
    SET_QUOTA = Row(30010, Content(None, own.QuotaChange), NOTHING)
    QUOTAS = Row(30011, NOTHING, Content(None, own.QuotaList), needs=READ)
    DELETE_QUOTA = Row(30012, Content(admin.QuotaName), NOTHING)
    SHARE_USERS = Row(30015, Content(None, own.UserChanges), Content(None, own.UserChangesAnswer), lane=QUERY, by=USERS)
    # fmt: on


ROWS: Mapping[int, AnyRow] = MappingProxyType(
    {row.code: row for row in vars(RequestCode).values() if isinstance(row, Row)}
)
