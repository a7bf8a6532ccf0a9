"""Asking the name servers: one after the other until one answers. A hung or dead one goes to the end of the list."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from ... import logs
from ...ambient import Random
from ...errors import CallFailed, ConnectionLost
from ...model.codes import ResponseCode
from ...model.names import DLQ_PREFIX
from ...protocol.command import Command
from ...protocol.headers.namesrv import GetRouteInfo
from ...protocol.requests import RequestCode
from ...protocol.row import A, H, R, Row
from ...transport.client import RemotingClient
from ..config import ClientConfig
from ..core.routing import Route, route_of
from ..errors import Error, NoBroker, NoNameServer, NotSupported, TopicNotFound, refused
from .answers import Answer, bad_answer
from .outages import Outages

log = logs.get("pyromq.client")

# Every name server serves these: who does not is none.
_OF_NAME_SERVERS = (RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.GET_BROKER_CLUSTER_INFO)
_BROKER = (
    "{0} is no name server: a broker, or its gRPC port? Give the address of the name server (9876 by default), "
    'or use the gRPC port by connect(endpoints="{0}")'
)


class NameServers:
    """Event loop only. Routes are asked for here and kept by the session."""

    def __init__(self, client: RemotingClient, config: ClientConfig, rng: Random, outages: Outages) -> None:
        self._outages = outages
        self._client = client
        self._config = config
        self._addresses = list(config.name_servers)  # the one that answered last in front
        rng.shuffle(self._addresses)  # each client settles on one, all share the load

    async def route(self, topic: str, *, explain: bool = True) -> Route:
        """Return the route as a name server knows it now. TopicNotFound, NoBroker, NoNameServer, or Refused.

        `explain`: where there is none, all topics are asked for, to tell why. Who asks again and again does without:
        the list of a large cluster has megabytes.
        """
        try:
            return await self._ask_route(topic, explain)
        except NoBroker:  # unless the topic was made between the question for its route and the one for all topics
            return await self._ask_route(topic, explain)

    async def _ask_route(self, topic: str, explain: bool) -> Route:
        wanted = GetRouteInfo(topic=topic, accept_standard_json_only=True)
        expected = (ResponseCode.SUCCESS, ResponseCode.TOPIC_NOT_EXIST)
        answer = await self.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, wanted, expected=expected)
        address = answer.address
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            if not explain:
                raise TopicNotFound(f"{address} has no route of {topic!r}", address=address, code=answer.code)
            raise await self._not_found(topic, address)
        try:
            route = route_of(topic, answer.body)
        except ValueError as fault:
            raise bad_answer(address, str(fault), may_be_stored=False) from None
        if route.is_static:
            raise NotSupported(f"{topic} is a static topic, which this client cannot use yet", address=address)
        return route

    async def topics(self) -> list[str]:
        return sorted((await self.ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)).body.topic_list)

    async def _not_found(self, topic: str, address: str) -> Error:
        known: list[str] | None = None
        with suppress(Error):  # the answer that matters is there already
            known = await self.topics()
        if known is not None and (not known or topic in known):  # every broker has topics of its own
            has = f"knows topic {topic!r}, but no broker that has it is" if known else "knows no topic: no broker is"
            return NoBroker(
                f"{address} {has} registered there now",
                hint="Is its broker running? It registers within a moment of its start, 30 s of the name server's",
                address=address,
                code=ResponseCode.TOPIC_NOT_EXIST,
            )
        from difflib import get_close_matches  # not at the top: most topics exist

        close = get_close_matches(topic, known or (), 3)
        hint = f"Closest: {', '.join(map(repr, close))}. " if close else ""
        if topic.startswith(DLQ_PREFIX):
            hint += "A group's first dead letter makes it. To wait for that one, make it before. "
        who = f"Who has the right Create on Topic:{topic} makes it" if known is None else "Create it"
        return TopicNotFound(
            f"topic {topic!r} does not exist on {address}",
            hint=f"{hint}{who}: pyromq topic create {topic} -n {address}",
            address=address,
            code=ResponseCode.TOPIC_NOT_EXIST,
        )

    async def ask(
        self, row: Row[H, Any, A, R], header: H | None = None, *, expected: Iterable[int] = (ResponseCode.SUCCESS,)
    ) -> Answer[A, R]:
        """Return the first answer that comes, if its code is one of those expected. NoNameServer or Refused."""
        address, command = await self._first_answer(row, {} if header is None else header.to_fields())
        if command.code not in expected:
            is_broker = command.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED and row in _OF_NAME_SERVERS
            raise refused(command.code, command.remark, address, _BROKER.format(address) if is_broker else None)
        return Answer(row, command, address)

    async def probe(self) -> None:
        """Try those that are away: while another one answers, nobody would ask them."""
        for address in self._outages.away.keys() & set(self._config.name_servers):
            try:
                await self._client.connect(address)
            except CallFailed as fault:
                self._outages.failed("name server", address, fault)
            else:
                self._outages.answered(address)

    async def _first_answer(self, code: int, fields: dict[str, str]) -> tuple[str, Command]:
        faults, hint = [], ""
        addresses = list(self._addresses)
        for number, address in enumerate(addresses, 1):
            is_last = number == len(addresses)
            timeout_s = self._config.name_server_timeout_s if is_last else self._config.name_server_patience_s
            request = Command(code=code, fields=dict(fields))
            try:
                answer = await self._client.call(address, request, timeout_s)
            except CallFailed as fault:
                faults.append(str(fault))
                hint = hint or (fault.hint if isinstance(fault, ConnectionLost) else "")
                self._addresses.remove(address)
                self._addresses.append(address)  # asked again only after all the others
                self._outages.failed("name server", address, fault)
            else:
                if address in self._outages.away:
                    self._outages.answered(address)
                return address, answer
        error = NoNameServer(
            f"no name server answers: {'; '.join(faults)}",
            hint=hint or "Is one running there (pyromq up)? Name others by -n, connect(...) or PYROMQ_NAMESRV",
            address=";".join(addresses),
        )
        error.is_explained = bool(hint)
        raise error
