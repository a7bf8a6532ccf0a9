"""Routes, lists of topics, and what operators do with single topics."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from msgspec.structs import replace

from ... import logs
from ...ambient import Clock
from ...config import Live
from ...errors import RequestRefused
from ...model import names
from ...model.client_info import Version
from ...model.codes import ResponseCode
from ...model.topic import MASTER_ID, ORDER_TOPIC_CONFIG, SYNC_BROKER_MEMBER_PREFIX, Perm
from ...protocol.bodies.body import encode_body
from ...protocol.bodies.route import BrokerData, TopicRouteData
from ...protocol.bodies.topics import TopicList
from ...protocol.headers import namesrv as headers
from ...protocol.headers.header import TopicName
from ...protocol.json import Dialect
from ...transport.dispatch import Reply, Request, RequestOf
from ...transport.turns.slices import Slices
from ..config import NamesrvConfig
from ..kv_config import KvConfig
from ..registration_checks import check_topic_room
from ..route_table import RouteTable

log = logs.get("pyromq.namesrv")

FAQ = "See https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."


@dataclass(slots=True, eq=False, repr=False)
class TopicHandlers:
    """Event loop only. Made when the name server starts: the wait for service counts from then."""

    table: RouteTable
    kv: KvConfig
    live: Live[NamesrvConfig]
    clock: Clock
    slices: Slices
    started: float = field(init=False)

    def __post_init__(self) -> None:
        self.started = self.clock.monotonic()

    def route(self, request: RequestOf[headers.GetRouteInfo, None]) -> Reply:
        config = self.live.config
        if config.need_wait_for_service and self.clock.monotonic() - self.started < config.wait_seconds_for_service:
            raise RequestRefused("name server not ready")
        header = request.header
        route = self.table.route(header.topic)
        if route is None:
            raise RequestRefused(
                f"No topic route info in name server for the topic: {header.topic}\n{FAQ}", ResponseCode.TOPIC_NOT_EXIST
            )
        if config.support_acting_master:
            route = with_acting_masters(header.topic, route)
        if config.order_message_enable and (order := self.kv.get(ORDER_TOPIC_CONFIG, header.topic)) is not None:
            route = replace(route, order_topic_conf=order)
        if header.zone_mode and header.zone_name and header.zone_name.strip():
            route = in_zone(route, header.zone_name)
        standard = request.command.version >= Version.V4_9_4 or header.accept_standard_json_only
        return Reply(body=encode_body(route, Dialect.STANDARD if standard else Dialect.JAVA))

    def register_topic(self, request: RequestOf[TopicName, TopicRouteData]) -> Reply:
        """Answer 217, of which only the queues are used."""
        header = request.header
        fault = names.label_fault("topic", header.topic)
        if fault is not None:
            raise RequestRefused(fault, ResponseCode.INVALID_PARAMETER)
        check_topic_room(header.topic, self.table, self.live.config)
        self.table.register_topic(header.topic, request.body.queue_datas)
        return Reply()

    async def delete_topic(self, request: RequestOf[headers.DeleteTopicInNamesrv, None]) -> Reply:
        """Answer 216: success also if there is no such topic. The order of one that nobody has any more goes too."""
        header = request.header
        if self.table.delete_topic(header.topic, header.cluster_name or None):
            log.info("topic deleted", topic=header.topic, cluster=header.cluster_name, by=request.peer.address)
        if self.table.route(header.topic) is None:
            await self.kv.delete(ORDER_TOPIC_CONFIG, header.topic)  # a new topic of this name may have other queues
        return Reply()

    async def all_topics(self, request: Request) -> Reply:
        if not self.live.config.enable_all_topic_list:
            raise RequestRefused("disable")
        return await self._list(self.table.topics())

    async def topics_of_cluster(self, request: RequestOf[headers.GetTopicsByCluster, None]) -> Reply:
        self._check_lists_are_enabled()
        return await self._list(self.table.topics_of_cluster(request.header.cluster))

    async def flagged(self, request: Request, wanted: int, unwanted: int = 0) -> Reply:
        """Answer 311 to 313: the topics whose system flag has one bit and not the other."""
        self._check_lists_are_enabled()
        every, table = self.slices.each(self.table.topics()), self.table
        return await self._list([name async for name in every if table.has_flags(name, wanted, unwanted)])

    async def system_topics(self, request: Request) -> Reply:
        """Answer 304. Every cluster and every broker has a topic of its name; with an address to ask for the others."""
        info = self.table.cluster_info()
        addresses = (address for broker in info.broker_addr_table.values() for address in broker.broker_addrs.values())
        return await self._list({*info.broker_addr_table, *info.cluster_addr_table}, next(addresses, None))

    def _check_lists_are_enabled(self) -> None:
        if not self.live.config.enable_topic_list:
            raise RequestRefused("disable")

    async def _list(self, names: Collection[str], broker_address: str | None = None) -> Reply:
        body = TopicList(topic_list=await self.slices.in_order(names), broker_addr=broker_address)
        return Reply(body=body)


# --- a route as a particular client should see it; the table's own routes are never changed -------------------------


def with_acting_masters(topic: str, route: TopicRouteData) -> TopicRouteData:
    """Return the route in which a lost master's smallest slave stands in for it: to read and lock, not to write."""
    if topic.startswith(SYNC_BROKER_MEMBER_PREFIX):  # by this topic brokers find out who really is there
        return route
    read_only = {one.broker_name for one in route.queue_datas if not one.perm & Perm.WRITE}
    if not any(_needs_acting_master(one, read_only) for one in route.broker_datas):
        return route
    brokers = [_promoted(one) if _needs_acting_master(one, read_only) else one for one in route.broker_datas]
    return replace(route, broker_datas=brokers)


def in_zone(route: TopicRouteData, zone: str) -> TopicRouteData:
    """Return brokers of the client's own zone, and those whose master is lost: a far slave is better than none."""
    kept = [one for one in route.broker_datas if MASTER_ID not in one.broker_addrs or _same(one.zone_name, zone)]
    names = {one.broker_name for one in kept}
    removed = {
        address for one in route.broker_datas if one.broker_name not in names for address in one.broker_addrs.values()
    }
    return replace(
        route,
        broker_datas=kept,
        queue_datas=[one for one in route.queue_datas if one.broker_name in names],
        filter_server_table={at: servers for at, servers in route.filter_server_table.items() if at not in removed},
    )


def _needs_acting_master(broker: BrokerData, read_only: set[str]) -> bool:
    return (
        broker.enable_acting_master
        and bool(broker.broker_addrs)
        and MASTER_ID not in broker.broker_addrs
        and broker.broker_name in read_only
    )


def _promoted(broker: BrokerData) -> BrokerData:
    smallest = min(broker.broker_addrs)
    others = {broker_id: address for broker_id, address in broker.broker_addrs.items() if broker_id != smallest}
    return replace(broker, broker_addrs={MASTER_ID: broker.broker_addrs[smallest]} | others)


def _same(zone: str | None, wanted: str) -> bool:
    return zone is not None and zone.casefold() == wanted.casefold()
