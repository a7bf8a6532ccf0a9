"""Request code to handler: the whole surface of the name server on one page."""

from __future__ import annotations

from collections.abc import Mapping

from ..model.codes import RequestCode as Code
from ..transport.dispatch import Handler
from .handlers.brokers import BrokerHandlers
from .handlers.operators import KvHandlers, SettingsHandlers
from .handlers.topics import TopicHandlers


def surface(
    brokers: BrokerHandlers, topics: TopicHandlers, kv: KvHandlers, settings: SettingsHandlers
) -> Mapping[int, Handler]:
    return {
        Code.REGISTER_BROKER: brokers.register,
        Code.UNREGISTER_BROKER: brokers.unregister,
        Code.BROKER_HEARTBEAT: brokers.heartbeat,
        Code.QUERY_DATA_VERSION: brokers.query_data_version,
        Code.GET_BROKER_MEMBER_GROUP: brokers.members,
        Code.GET_BROKER_CLUSTER_INFO: brokers.cluster_info,
        Code.WIPE_WRITE_PERM_OF_BROKER: brokers.wipe_write,
        Code.ADD_WRITE_PERM_OF_BROKER: brokers.add_write,
        Code.GET_ROUTEINFO_BY_TOPIC: topics.route,
        Code.REGISTER_TOPIC_IN_NAMESRV: topics.register_topic,
        Code.DELETE_TOPIC_IN_NAMESRV: topics.delete_topic,
        Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: topics.all_topics,
        Code.GET_TOPICS_BY_CLUSTER: topics.topics_of_cluster,
        Code.GET_SYSTEM_TOPIC_LIST_FROM_NS: topics.system_topics,
        Code.GET_UNIT_TOPIC_LIST: topics.unit_topics,
        Code.GET_HAS_UNIT_SUB_TOPIC_LIST: topics.unit_sub_topics,
        Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: topics.unit_sub_ununit_topics,
        Code.PUT_KV_CONFIG: kv.put,
        Code.GET_KV_CONFIG: kv.get,
        Code.DELETE_KV_CONFIG: kv.delete,
        Code.GET_KVLIST_BY_NAMESPACE: kv.namespace,
        Code.UPDATE_NAMESRV_CONFIG: settings.change,
        Code.GET_NAMESRV_CONFIG: settings.show,
    }
