"""Asking the name servers: one after the other until one answers. A hung or dead one goes to the end of the list."""

from __future__ import annotations

from ... import logs
from ...ambient import Random
from ...errors import CallFailed, ConnectionLost
from ...model.codes import ResponseCode
from ...model.names import DLQ_PREFIX
from ...protocol.bodies.route import TopicRouteData
from ...protocol.bodies.topics import TopicList
from ...protocol.command import Command
from ...protocol.headers.header import Header
from ...protocol.headers.namesrv import GetRouteInfo
from ...protocol.requests import RequestCode
from ...transport.client import Client
from ..config import ClientConfig
from ..core.routing import NameServerOrder, Route, route_of
from ..errors import Error, NoBroker, NoNameServer, NotSupported, TopicNotFound, refused
from .answers import bad_answer, body_of

log = logs.get("pyromq.client")


class NameServers:
    """Event loop only. Routes are asked for here and kept by the session."""

    def __init__(self, client: Client, config: ClientConfig, rng: Random) -> None:
        self._client = client
        self._config = config
        self._order = NameServerOrder(config.name_servers, rng)

    async def route(self, topic: str) -> Route:
        """TopicNotFound, NoBroker, NoNameServer, or Refused."""
        try:
            return await self._ask_route(topic)
        except NoBroker:  # unless the topic was made between the question for its route and the one for all topics
            return await self._ask_route(topic)

    async def _ask_route(self, topic: str) -> Route:
        address, answer = await self.ask(
            RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfo(topic=topic, accept_standard_json_only=True)
        )
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            raise await self._not_found(topic, address)
        if answer.code != ResponseCode.SUCCESS:
            raise refused(answer.code, answer.remark, address)
        try:
            route = route_of(topic, body_of(answer, TopicRouteData, address))
        except ValueError as fault:
            raise bad_answer(address, str(fault)) from None
        if route.is_static:
            raise NotSupported(f"{topic} is a static topic, which this client cannot use yet", address=address)
        return route

    async def topics(self) -> list[str]:
        address, answer = await self.ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        if answer.code != ResponseCode.SUCCESS:
            raise refused(answer.code, answer.remark, address)
        return sorted(body_of(answer, TopicList, address).topic_list)

    async def _not_found(self, topic: str, address: str) -> Error:
        try:
            known = await self.topics()
        except Error:  # the answer that matters is there already
            known = []
        if topic in known:
            return NoBroker(
                f"{address} knows topic {topic!r}, but no broker that has it is registered there now",
                hint="Is its broker running? One that has just started registers within a moment",
                address=address,
                code=ResponseCode.TOPIC_NOT_EXIST,
            )
        from difflib import get_close_matches  # not at the top: most topics exist

        close = get_close_matches(topic, known, 3)
        hint = f"Closest: {', '.join(map(repr, close))}. " if close else ""
        if topic.startswith(DLQ_PREFIX):
            hint += "A group's first dead letter makes it. To wait for that one, make it before. "
        return TopicNotFound(
            f"topic {topic!r} does not exist on {address}",
            hint=f"{hint}Create it: pyromq topic create {topic} -n {address}",
            address=address,
            code=ResponseCode.TOPIC_NOT_EXIST,
        )

    async def ask(self, code: int, header: Header | None = None) -> tuple[str, Command]:
        """The first answer, whatever its code, and whose it is. NoNameServer."""
        faults, hint = [], ""
        addresses = self._order.all()
        for number, address in enumerate(addresses, 1):
            is_last = number == len(addresses)
            timeout_s = self._config.name_server_timeout_s if is_last else self._config.name_server_patience_s
            request = Command(code=code, fields=header.to_fields() if header else {})
            try:
                return address, await self._client.call(address, request, timeout_s)
            except CallFailed as fault:
                faults.append(str(fault))
                hint = hint or (fault.hint if isinstance(fault, ConnectionLost) else "")
                self._order.failed(address)
                log.debug("name server does not answer", address=address, fault=str(fault))
        error = NoNameServer(
            f"no name server answers: {'; '.join(faults)}",
            hint=hint or "Is one running there (pyromq up)? Name others by connect(...) or PYROMQ_NAMESRV",
            address=";".join(addresses),
        )
        error.is_explained = bool(hint)
        raise error
