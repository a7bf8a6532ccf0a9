"""Remoting clients through the gateway: routes name the gateway, requests go on to the broker that they name.

Each client has connections of its own to the brokers, so that these see it as if it had come itself: what they ask of
it, or tell it, comes back over the same connections.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

import msgspec

from .. import logs
from ..access.gate import AccessGate
from ..access.sharing.behalf import count_for, name_caller
from ..access.signatures import SIGNING, inner_sign
from ..ambient import Clock
from ..errors import CallFailed, PyroError, RequestRefused
from ..model.codes import ResponseCode
from ..model.topic import MASTER_ID
from ..model.wire_text import INT_MAX, whole_number
from ..protocol.bodies.heartbeat import GetConsumerListByGroupResponseBody, HeartbeatData
from ..protocol.bodies.route import TopicRouteData
from ..protocol.command import Command
from ..protocol.requests import RequestCode
from ..proxy.queues import masters
from ..proxy.statuses import Denied
from ..transport.client import Reconnect, RemotingClient
from ..transport.dispatch import Answer, Handler, Reply, Request
from ..transport.peer import Peer
from .announcements import ClientAnnouncements
from .cluster_view import ClusterView
from .config import GatewayConfig
from .members import GatewayMembers, connection_of

log = logs.get("pyromq.gateway")

RECONNECT = Reconnect(most_s=1.0)  # many clients wait for a broker that comes back
_CALL_S = 10.0
_WAITS = ("suspendTimeoutMillis", "pollTime")  # how long a request may be held by its broker
_BROKER_FIELDS = ("bname", "n", "brokerName")
_TOPIC_FIELDS = ("topic", "b", "originTopic")
_PASSED_ON = (
    RequestCode.SEND_MESSAGE,
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.SEND_BATCH_MESSAGE,
    RequestCode.CONSUMER_SEND_MSG_BACK,
    RequestCode.END_TRANSACTION,
    RequestCode.RECALL_MESSAGE,
    RequestCode.CHECK_CLIENT_CONFIG,
    RequestCode.PULL_MESSAGE,
    RequestCode.LITE_PULL_MESSAGE,
    RequestCode.QUERY_CONSUMER_OFFSET,
    RequestCode.UPDATE_CONSUMER_OFFSET,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
    RequestCode.GET_MAX_OFFSET,
    RequestCode.GET_MIN_OFFSET,
    RequestCode.GET_EARLIEST_MSG_STORETIME,
    RequestCode.POP_MESSAGE,
    RequestCode.ACK_MESSAGE,
    RequestCode.BATCH_ACK_MESSAGE,
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME,
    RequestCode.QUERY_ASSIGNMENT,
)
_LOCKS = (RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ)

_Passing = Callable[[Request, int], Awaitable[Reply | None]]  # and by which version of the directory it was judged


class Tunnel:
    """Event loop only. `address` is what routes name; set once it is known."""

    def __init__(
        self,
        view: ClusterView,
        members: GatewayMembers,
        announcer: ClientAnnouncements,
        clock: Clock,
        rng: random.Random,
        config: GatewayConfig,
        gate: AccessGate | None = None,
        *,
        are_counted: Callable[[], bool],
    ) -> None:
        """`gate`: has judged each request, as another user than whose signature the brokers see; None: nobody is asked
        who he is. `are_counted`: whether brokers count who uses them."""
        self._view, self._clock, self._rng, self._tls = view, clock, rng, config.client_tls()
        self._members, self._announcer = members, announcer
        self._gate, self._sign, self._are_counted = gate, inner_sign(config.access), are_counted
        trace = "true" if config.trace_on else "false"
        self._marks = {"MSG_REGION": config.region_id, "TRACE_ON": trace}  # in every answer, as Java's proxy has it
        self._upstream: dict[Peer, RemotingClient] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self.address = ""

    def handlers(self) -> dict[int, Handler]:
        passing: dict[int, _Passing] = {row.code: self._pass_on for row in _PASSED_ON}
        passing |= {row.code: self._pass_on_by_queue for row in _LOCKS}
        passing[RequestCode.HEART_BEAT.code] = self._heartbeat
        passing[RequestCode.UNREGISTER_CLIENT.code] = self._farewell
        passing[RequestCode.GET_CONSUMER_LIST_BY_GROUP.code] = self._list_members
        passing[RequestCode.GET_CONSUMER_CONNECTION_LIST.code] = self._connections
        found: dict[int, Handler] = {code: partial(self._begin, handler) for code, handler in passing.items()}
        found[RequestCode.GET_ROUTEINFO_BY_TOPIC.code] = self._route
        return found

    def _begin(self, handler: _Passing, request: Request) -> Answer:
        """Note, in the turn in which a request was judged, by which version of the directory that was."""
        return handler(request, 0 if self._gate is None else self._gate.directory.version)

    def lost(self, peer: Peer) -> None:
        """End the connections of a client that has gone: its brokers hear of it by that."""
        client = self._upstream.pop(peer, None)
        self._announcer.left(peer)
        if client is not None:
            task = asyncio.get_running_loop().create_task(client.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        for peer in tuple(self._upstream):
            self.lost(peer)
        await asyncio.gather(*self._closing)

    # --- requests of clients --------------------------------------------------------------------------------------

    async def _route(self, request: Request) -> Reply:
        """Answer a route in which every broker is reached here."""
        topic = request.command.fields.get("topic", "")
        try:
            route = await self._view.routes.get(topic)
        except Denied as missing:
            raise RequestRefused(str(missing), ResponseCode.TOPIC_NOT_EXIST) from None
        known = masters(route)
        brokers = [
            msgspec.structs.replace(one, broker_addrs={MASTER_ID: self.address})
            for one in route.broker_datas
            if one.broker_name in known
        ]
        queues = [one for one in route.queue_datas if one.broker_name in known]
        return Reply(
            fields=self._marks,
            body=TopicRouteData(broker_datas=brokers, queue_datas=queues, order_topic_conf=route.order_topic_conf),
        )

    async def _pass_on(self, request: Request, judged: int) -> Reply | None:
        fields = request.command.fields
        broker = next((fields[name] for name in _BROKER_FIELDS if fields.get(name)), "")
        return await self._ask(request, judged, broker)

    async def _pass_on_by_queue(self, request: Request, judged: int) -> Reply | None:
        queues = request.body.mq_set
        return await self._ask(request, judged, queues[0].broker_name if queues else "")

    async def _ask(self, request: Request, judged: int, broker: str) -> Reply | None:
        address = await self._address(broker, request.command.fields)
        try:
            return await self._exchange(request, judged, address)
        except CallFailed as fault:
            self._view.forget(broker)
            raise RequestRefused(f"the broker at {address} does not answer: {fault}") from None

    async def _heartbeat(self, request: Request, judged: int) -> Reply | None:
        beat: HeartbeatData = request.body
        reply = await self._broadcast(request, judged)
        if reply is None or reply.code == ResponseCode.SUCCESS:
            without = beat.without_sub
            consumers = beat.consumer_data_set
            self._announcer.passed(request.peer, beat.client_id, consumers, without_subscriptions=without)
        return reply

    async def _farewell(self, request: Request, judged: int) -> Reply | None:
        group = request.command.fields.get("consumerGroup")
        if group:
            self._announcer.left(request.peer, group)
        return await self._broadcast(request, judged)

    async def _list_members(self, request: Request, judged: int) -> Reply | None:
        """Answer with the members that brokers know and those that gateways know."""
        reply = await self._pass_on(request, judged)
        others = self._members.of(request.command.fields.get("consumerGroup", ""))
        if reply is None or not others:
            return reply
        gives = RequestCode.GET_CONSUMER_LIST_BY_GROUP.gives
        known = gives.read_body(reply.body).consumer_id_list if reply.code == ResponseCode.SUCCESS else []
        ids = [*known, *(one for one in others if one not in known)]
        return Reply(fields=self._marks, body=GetConsumerListByGroupResponseBody(consumer_id_list=ids))

    async def _connections(self, request: Request, judged: int) -> Reply | None:
        reply = await self._pass_on(request, judged)
        others = self._members.of(request.command.fields.get("consumerGroup", ""))
        if reply is None or not others:
            return reply
        shown = None
        if reply.code == ResponseCode.SUCCESS:
            shown = RequestCode.GET_CONSUMER_CONNECTION_LIST.gives.read_body(reply.body)
        return Reply(fields=self._marks, body=connection_of(others.values(), shown))

    async def _broadcast(self, request: Request, judged: int) -> Reply | None:
        """Pass a heartbeat or a farewell on to every broker; the first refusal is the answer."""
        addresses = (await self._view.masters()).values()
        asked = (self._exchange(request, judged, address) for address in addresses)
        answers = await asyncio.gather(*asked, return_exceptions=True)
        refusal = next((one for one in answers if isinstance(one, RequestRefused)), None)
        if refusal is not None:
            raise refusal
        replies = [one for one in answers if isinstance(one, Reply)]
        if not replies and not request.command.is_oneway:
            raise RequestRefused(f"no broker answers: {answers[0] if answers else 'none is registered'}")
        return next((one for one in replies if one.code != ResponseCode.SUCCESS), replies[0] if replies else None)

    async def _address(self, broker: str, fields: Mapping[str, str]) -> str:
        """Return where to pass a request on. Clients of 4.x name no broker: the first of the topic's then."""
        topic = next((fields[name] for name in _TOPIC_FIELDS if fields.get(name)), "")
        try:
            if not broker and topic:
                broker = min(masters(await self._view.routes.get(topic)), default="")
            return await self._view.address(broker)
        except Denied as missing:
            raise RequestRefused(str(missing), ResponseCode.TOPIC_NOT_EXIST) from None

    async def _exchange(self, request: Request, judged: int, address: str) -> Reply | None:
        command, client = request.command, self._client(request.peer)
        await client.connect(address)  # now, so that it leaves in the turn in which it is judged
        judged = await self._judge_anew(request, judged)
        onward = self._onward(request)
        if command.is_oneway:
            await client.send(address, onward)
            return None
        held_ms = max((whole_number(command.fields.get(name), high=INT_MAX) or 0 for name in _WAITS), default=0)
        answer = await client.call(address, onward, _CALL_S + held_ms / 1000)
        await self._judge_anew(request, judged)  # who waited may not be allowed what came for him any more
        return Reply(answer.code, answer.remark, fields={**answer.fields, **self._marks}, body=bytes(answer.body))

    async def _judge_anew(self, request: Request, judged: int) -> int:
        """Judge a request again if rights have changed since, and return by which version of the directory it is judged
        now. RequestRefused: it may not be any more."""
        gate = self._gate
        if gate is None or gate.directory.version == judged:
            return judged
        user = gate.signer_to_learn(request.command, request.peer)
        if user:
            await gate.learn(user, request.peer.address)
        gate(request)
        return gate.directory.version

    def _onward(self, request: Request) -> Command:
        """Return what the broker gets. Where we sign, nothing of the client's signature is left in it."""
        command = request.command
        fields = dict(command.fields)
        onward = msgspec.structs.replace(command, opaque=0, fields=fields, body=bytes(command.body))
        if self._sign is not None:
            for name in SIGNING:
                fields.pop(name, None)
            name_caller(onward, request.principal, request.rights)
            if self._gate is not None and self._are_counted():
                count_for(onward, request.principal)
        return onward

    def _client(self, peer: Peer) -> RemotingClient:
        client = self._upstream.get(peer)
        if client is None:
            relay = partial(self._relay, peer)
            client = RemotingClient(
                clock=self._clock,
                rng=self._rng,
                dispatch=relay,
                tls=self._tls,
                reconnect=RECONNECT,
                sign=self._sign,
            )
            self._upstream[peer] = client
        return client

    # --- requests of brokers --------------------------------------------------------------------------------------

    def _relay(self, peer: Peer, request: Request) -> Answer:
        """Pass on to a client what a broker asks of it or tells it."""
        command = request.command
        onward = msgspec.structs.replace(command, body=bytes(command.body))
        if command.is_oneway:
            peer.send(onward)
            return None
        return self._call_client(peer, onward)

    async def _call_client(self, peer: Peer, command: Command) -> Reply:
        try:
            answer = await peer.call(command, _CALL_S)
        except PyroError as fault:
            raise RequestRefused(f"the client does not answer: {fault}") from None
        return Reply(answer.code, answer.remark, fields=answer.fields, body=bytes(answer.body))
