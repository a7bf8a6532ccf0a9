"""What the gateway knows of its cluster: routes, addresses of brokers, types of topics, groups, each for a while."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from ..ambient import Clock
from ..client.connect.session import Session
from ..model.codes import ResponseCode
from ..model.topic import MASTER_ID
from ..protocol.bodies.groups import SubscriptionGroupConfig
from ..protocol.bodies.route import BrokerData, TopicRouteData
from ..protocol.command import Command
from ..protocol.grpc.v2 import Code
from ..protocol.headers.header import GroupName, TopicName
from ..protocol.headers.namesrv import GetRouteInfo
from ..protocol.requests import RequestCode
from ..proxy.statuses import away, no_route, refused
from .config import GatewayConfig

V = TypeVar("V")

_BROKER_S = 2.0
_MESSAGE_TYPE = "message.type"
_NORMAL = "NORMAL"  # a topic that names no type


class Remembered(Generic[V]):
    """Answers by name, at most so many, each kept for so many seconds. Event loop only."""

    def __init__(self, clock: Clock, keep_s: float, most: int, read: Callable[[str], Awaitable[V]]) -> None:
        self._clock, self._keep_s, self._most, self._read = clock, keep_s, most, read
        self._known: OrderedDict[str, tuple[float, V]] = OrderedDict()

    async def get(self, name: str) -> V:
        """Return what is known, or read it. Whatever the reading raises is not remembered."""
        found = self._known.get(name)
        now = self._clock.monotonic()
        if found is not None and now - found[0] < self._keep_s:
            return found[1]
        value = await self._read(name)
        self._known[name] = (self._clock.monotonic(), value)
        self._known.move_to_end(name)
        if len(self._known) > self._most:
            self._known.popitem(last=False)
        return value

    def forget(self, name: str) -> None:
        """Read it anew when it is asked for."""
        self._known.pop(name, None)


class ClusterView:
    """Event loop only."""

    def __init__(self, session: Session, clock: Clock, config: GatewayConfig) -> None:
        self._session = session
        self._masters: dict[str, str] = {}  # address of a broker's master, or of who acts as one
        self._seen: set[str] = set()  # names of brokers that were there at any time
        keep_s, most = config.topic_route_service_cache_refresh_seconds, config.topic_route_service_cache_max_num
        self.routes = Remembered(clock, keep_s, most, self._read_route)
        keep_s, most = config.topic_config_cache_refresh_seconds, config.topic_config_cache_max_num
        self.types = Remembered(clock, keep_s, most, self._read_type)
        keep_s = config.subscription_group_config_cache_refresh_seconds
        self.groups = Remembered(clock, keep_s, config.subscription_group_config_cache_max_num, self._read_group)

    async def address(self, broker: str) -> str:
        """Return where a broker is reached; of an empty name any. Denied: 50001 if it has left, 40013 if there never
        was one such."""
        if broker not in self._masters:
            await self._read_cluster()
        if not broker and self._masters:
            return next(iter(self._masters.values()))
        found = self._masters.get(broker)
        if found is None and broker in self._seen:
            raise away(broker, "the name server does not list it now")
        if found is None:
            raise refused(Code.INVALID_RECEIPT_HANDLE, f"cannot find broker {broker}")
        return found

    async def masters(self) -> dict[str, str]:
        """Return the address of every broker's master."""
        await self._read_cluster()
        return dict(self._masters)

    def forget(self, broker: str) -> None:
        """Look for a broker anew: it did not answer where it was."""
        self._masters.pop(broker, None)

    def forget_topic(self, topic: str) -> None:
        """Read a topic's route and type anew: a broker says that the topic, or a queue of it, is not there."""
        self.routes.forget(topic)
        self.types.forget(topic)

    async def _read_cluster(self) -> None:
        answer = await self._session.name_servers.ask(RequestCode.GET_BROKER_CLUSTER_INFO)
        self._learn(list(answer.body.broker_addr_table.values()))

    def _learn(self, brokers: list[BrokerData]) -> None:
        for one in brokers:
            address = one.broker_addrs.get(MASTER_ID)
            if address is None and one.enable_acting_master and one.broker_addrs:
                address = one.broker_addrs[min(one.broker_addrs)]
            if address is not None:
                self._masters[one.broker_name] = address
                self._seen.add(one.broker_name)

    async def _read_route(self, topic: str) -> TopicRouteData:
        wanted = GetRouteInfo(topic=topic, accept_standard_json_only=True)
        expected = (ResponseCode.SUCCESS, ResponseCode.TOPIC_NOT_EXIST)
        answer = await self._session.name_servers.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, wanted, expected=expected)
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            raise no_route(topic)
        route = answer.body
        self._learn(route.broker_datas)
        return route

    async def _read_type(self, topic: str) -> str:
        """Return the type by one of the topic's brokers: they are configured alike."""
        route = await self.routes.get(topic)
        for broker in sorted({one.broker_name for one in route.queue_datas}):
            row = RequestCode.GET_TOPIC_CONFIG
            answer = await self._ask(await self.address(broker), row, TopicName(topic=topic).to_fields())
            if answer.code == ResponseCode.SUCCESS:
                config = row.gives.read_body(bytes(answer.body))
                return config.attributes.get(_MESSAGE_TYPE, _NORMAL)
        return _NORMAL

    async def _read_group(self, name: str) -> SubscriptionGroupConfig | None:
        """Return the group by any broker; None if that does not know it."""
        row = RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG
        answer = await self._ask(await self.address(""), row, GroupName(group=name).to_fields())
        return row.gives.read_body(bytes(answer.body)) if answer.code == ResponseCode.SUCCESS else None

    async def _ask(self, address: str, code: int, fields: dict[str, str]) -> Command:
        return await self._session.transport.call(address, Command(code=code, fields=fields), _BROKER_S)
