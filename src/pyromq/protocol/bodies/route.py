"""Where the queues of a topic are, and which brokers there are: what the name server answers."""

from __future__ import annotations

from ..ints import Int32, Int64
from .body import Body, always, always_new
from .topics import TopicQueueMappingInfo


class QueueData(Body, kw_only=True):
    broker_name: str
    perm: Int32 = always(0)
    read_queue_nums: Int32 = always(0)
    topic_sys_flag: Int32 = always(0)
    write_queue_nums: Int32 = always(0)


class BrokerData(Body, kw_only=True):
    """The brokers of one name: broker id to address, 0 is the master."""

    broker_addrs: dict[Int64, str] = always_new(dict)
    broker_name: str
    cluster: str | None = None
    enable_acting_master: bool = always(False)
    zone_name: str | None = None


class TopicRouteData(Body, kw_only=True):
    broker_datas: list[BrokerData] = always_new(list)
    filter_server_table: dict[str, list[str]] = always_new(dict)
    order_topic_conf: str | None = None
    queue_datas: list[QueueData] = always_new(list)
    topic_queue_mapping_by_broker: dict[str, TopicQueueMappingInfo] | None = None


class ClusterInfo(Body, kw_only=True):
    broker_addr_table: dict[str, BrokerData] = always_new(dict)
    cluster_addr_table: dict[str, list[str]] = always_new(dict)


class BrokerMemberGroup(Body, kw_only=True):
    broker_addrs: dict[Int64, str] = always_new(dict)
    broker_name: str | None = None
    cluster: str | None = None


class GetBrokerMemberGroupResponseBody(Body, kw_only=True):
    broker_member_group: BrokerMemberGroup | None = None


class KVTable(Body, kw_only=True):
    table: dict[str, str] = always_new(dict)
