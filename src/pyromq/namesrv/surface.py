"""Request code to handler: the whole surface of the name server on one page."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from ..access.administration import AccessAdmin
from ..model.topic import TopicFlag
from ..protocol.requests import RequestCode as Code
from ..protocol.row import ServedBy
from ..transport.dispatch import Handler, bind, bound, replying
from .handlers.brokers import BrokerHandlers
from .handlers.operators import KvHandlers, SettingsHandlers
from .handlers.topics import TopicHandlers


def surface(
    brokers: BrokerHandlers,
    topics: TopicHandlers,
    kv: KvHandlers,
    settings: SettingsHandlers,
    access: AccessAdmin | None = None,
) -> Mapping[int, Handler]:
    """Return a handler for every code that is served. `access` None: users are not, as Java's name servers do."""
    pairs = (
        bind(Code.REGISTER_BROKER, brokers.register),
        bind(Code.UNREGISTER_BROKER, brokers.unregister),
        bind(Code.BROKER_HEARTBEAT, brokers.heartbeat),
        bind(Code.QUERY_DATA_VERSION, brokers.query_data_version),
        bind(Code.GET_BROKER_MEMBER_GROUP, brokers.members),
        bind(Code.GET_BROKER_CLUSTER_INFO, brokers.cluster_info),
        bind(Code.WIPE_WRITE_PERM_OF_BROKER, brokers.wipe_write),
        bind(Code.ADD_WRITE_PERM_OF_BROKER, brokers.add_write),
        bind(Code.GET_ROUTEINFO_BY_TOPIC, topics.route),
        bind(Code.REGISTER_TOPIC_IN_NAMESRV, topics.register_topic),
        bind(Code.DELETE_TOPIC_IN_NAMESRV, topics.delete_topic),
        bind(Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, topics.all_topics),
        bind(Code.GET_TOPICS_BY_CLUSTER, topics.topics_of_cluster),
        bind(Code.GET_SYSTEM_TOPIC_LIST_FROM_NS, topics.system_topics),
        bind(Code.GET_UNIT_TOPIC_LIST, partial(topics.flagged, wanted=TopicFlag.UNIT)),
        bind(Code.GET_HAS_UNIT_SUB_TOPIC_LIST, partial(topics.flagged, wanted=TopicFlag.UNIT_SUB)),
        bind(
            Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
            partial(topics.flagged, wanted=TopicFlag.UNIT_SUB, unwanted=TopicFlag.UNIT),
        ),
        bind(Code.PUT_KV_CONFIG, kv.put),
        bind(Code.GET_KV_CONFIG, kv.get),
        bind(Code.DELETE_KV_CONFIG, kv.delete),
        bind(Code.GET_KVLIST_BY_NAMESPACE, kv.namespace),
        bind(Code.UPDATE_NAMESRV_CONFIG, settings.change),
        bind(Code.GET_NAMESRV_CONFIG, settings.show),
    )
    if access is None:
        return bound(pairs, ServedBy.NAME_SERVER)
    of_users = ((row.code, replying(answer)) for row, answer in access.answers().items())
    return bound((*pairs, *of_users), ServedBy.NAME_SERVER, ServedBy.USERS)
