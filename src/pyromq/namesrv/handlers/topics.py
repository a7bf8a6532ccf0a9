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
from ...model.topic import TopicFlag
from ...protocol.bodies.body import encode_body
from ...protocol.bodies.route import TopicRouteData
from ...protocol.bodies.topics import TopicList
from ...protocol.headers import namesrv as headers
from ...protocol.headers.header import TopicName
from ...protocol.json import Dialect
from ...transport.dispatch import Reply, Request, RequestOf
from ...transport.turns.slices import Slices
from ..config import NamesrvConfig
from ..kv_config import ORDER_TOPIC_CONFIG, KvConfig
from ..registration_checks import check_topic_room
from ..route_table import RouteTable
from ..route_views import in_zone, with_acting_masters

log = logs.get("pyromq.namesrv")

FAQ = "See https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."


@dataclass(slots=True, eq=False)
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
                f"No topic route info in name server for the topic: {header.topic}\n{FAQ}",
                ResponseCode.TOPIC_NOT_EXIST,
            )
        if config.support_acting_master:
            route = with_acting_masters(header.topic, route)
        if config.order_message_enable:
            route = replace(route, order_topic_conf=self.kv.get(ORDER_TOPIC_CONFIG, header.topic))
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

    def delete_topic(self, request: RequestOf[headers.DeleteTopicInNamesrv, None]) -> Reply:
        """Answer 216: success also if there is no such topic."""
        header = request.header
        if self.table.delete_topic(header.topic, header.cluster_name or None):
            log.info("topic deleted", topic=header.topic, cluster=header.cluster_name, by=request.peer.address)
        return Reply()

    async def all_topics(self, request: Request) -> Reply:
        if not self.live.config.enable_all_topic_list:
            raise RequestRefused("disable")
        return await self._list(self.table.topics())

    async def topics_of_cluster(self, request: RequestOf[headers.GetTopicsByCluster, None]) -> Reply:
        self._check_lists_are_enabled()
        return await self._list(self.table.topics_of_cluster(request.header.cluster))

    async def unit_topics(self, request: Request) -> Reply:
        self._check_lists_are_enabled()
        return await self._flagged(TopicFlag.UNIT)

    async def unit_sub_topics(self, request: Request) -> Reply:
        self._check_lists_are_enabled()
        return await self._flagged(TopicFlag.UNIT_SUB)

    async def unit_sub_ununit_topics(self, request: Request) -> Reply:
        self._check_lists_are_enabled()
        return await self._flagged(TopicFlag.UNIT_SUB, unwanted=TopicFlag.UNIT)

    async def system_topics(self, request: Request) -> Reply:
        """Answer 304. Every cluster and every broker has a topic of its name; with an address to ask for the others."""
        info = self.table.cluster_info()
        addresses = (address for broker in info.broker_addr_table.values() for address in broker.broker_addrs.values())
        return await self._list({*info.broker_addr_table, *info.cluster_addr_table}, next(addresses, None))

    def _check_lists_are_enabled(self) -> None:
        if not self.live.config.enable_topic_list:
            raise RequestRefused("disable")

    async def _flagged(self, wanted: int, unwanted: int = 0) -> Reply:
        every, table = self.slices.each(self.table.topics()), self.table
        return await self._list([name async for name in every if table.has_flags(name, wanted, unwanted)])

    async def _list(self, names: Collection[str], broker_address: str | None = None) -> Reply:
        body = TopicList(topic_list=await self.slices.in_order(names), broker_addr=broker_address)
        return Reply(body=body)
