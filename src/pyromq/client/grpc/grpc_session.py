"""The session of one member over gRPC: the same calls as over remoting, as RPCs of `apache.rocketmq.v2`.

Each producer and each consumer is a client of its own there, with its own id, settings and telemetry stream; the
connections are shared. What the protocol has no RPC for is refused by name.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from ... import logs
from ...ambient import Clock, Random
from ...model.codes import ResponseCode
from ...model.message import SysFlag
from ...model.names import is_retry
from ...model.topic import MASTER_ID
from ...protocol.batch import decode_batch
from ...protocol.bodies.body import encode_body
from ...protocol.bodies.groups import SubscriptionGroupConfig
from ...protocol.bodies.keyed import MessageQueue
from ...protocol.command import Command
from ...protocol.grpc import v2
from ...protocol.headers.header import GroupName
from ...protocol.headers.send import CheckTransactionState, EndTransaction, RecallMessage, SendMessageV2
from ...protocol.properties import decode_properties
from ...protocol.requests import RequestCode
from ...transport.http2.client import Http2Client
from ..config import ClientConfig
from ..connect.session import AnyHeader, Session
from ..core.routing import Route
from ..errors import Error, NoBroker, NotSupported, TopicNotFound
from ..produce.producer import Producer
from .grpc_calls import GrpcCalls, check_status
from .messages import address_of, endpoints_of, outgoing_message, received_message
from .presence import Presence

log = logs.get("pyromq.client")

_READ = (v2.Permission.READ, v2.Permission.READ_WRITE)
_WRITE = (v2.Permission.WRITE, v2.Permission.READ_WRITE)
_NO_PLACE = "0" * 32  # the id of a half message by its place, which nobody knows here
_RESOLUTIONS = {
    SysFlag.TRANSACTION_COMMIT: v2.TransactionResolution.COMMIT,
    SysFlag.TRANSACTION_ROLLBACK: v2.TransactionResolution.ROLLBACK,
}


class _Routes:
    """Asks for routes, in place of name servers."""

    def __init__(self, calls: GrpcCalls, config: ClientConfig) -> None:
        self._calls = calls
        self._config = config

    async def route(self, topic: str, *, explain: bool = True) -> Route:
        if is_retry(topic):
            raise TopicNotFound(f"{topic!r} is its endpoint's own affair")
        request = v2.QueryRouteRequest(topic=v2.Resource(name=topic), endpoints=endpoints_of(self._config.name_servers))
        fault: Error | None = None
        for address in self._config.name_servers:
            try:
                timeout_s = self._config.name_server_timeout_s
                answer = await self._calls.ask(address, "QueryRoute", request, v2.QueryRouteResponse, timeout_s)
                check_status(address, answer.status)
                return _route(topic, answer, address)
            except TopicNotFound:
                raise
            except Error as why:
                fault = why
        raise fault or NoBroker("no endpoint is given")

    async def probe(self) -> None:
        """Do nothing: endpoints that were away are asked like all others."""


def _route(topic: str, answer: v2.QueryRouteResponse, asked: str) -> Route:
    addresses: dict[str, dict[int, str]] = {}
    readable, writable = [], []
    for each in answer.message_queues:
        queue = MessageQueue(broker_name=each.broker.name, queue_id=each.id, topic=topic)
        addresses[each.broker.name] = {MASTER_ID: address_of(each.broker.endpoints) or asked}
        if each.permission in _READ:
            readable.append(queue)
        if each.permission in _WRITE:
            writable.append(queue)
    return Route(topic=topic, addresses=addresses, readable=tuple(readable), writable=tuple(writable))


class GrpcSession(Session):
    """Event loop only. One per producer or consumer."""

    brings_replies = False

    def __init__(self, config: ClientConfig, clock: Clock, rng: Random, http: Http2Client, number: int) -> None:
        super().__init__(config, clock=clock, rng=rng)
        self.client_id = f"{self.client_id}@{number}"
        self.calls = GrpcCalls(self.client_id, config, clock, http)
        self.name_servers = _Routes(self.calls, config)  # type: ignore[assignment]
        self.presence = Presence(self.calls, config, clock, self._servers)
        self.heartbeats = self.presence  # type: ignore[assignment]
        self.on_stop: Callable[[], Awaitable[None]] | None = None
        self._transactions: dict[str, str] = {}  # ids of transactions, by message
        self._served: dict[int, Callable[..., Awaitable[Command]]] = {
            RequestCode.SEND_MESSAGE_V2: self._send,
            RequestCode.SEND_BATCH_MESSAGE: self._send,
            RequestCode.END_TRANSACTION: self._end_transaction,
            RequestCode.RECALL_MESSAGE: self._recall,
            RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: self._group_config,
            RequestCode.CHECK_CLIENT_CONFIG: self._checked,
        }

    def start(self) -> None:
        self._tasks.start(self._refresh_loop())

    async def stop(self) -> None:
        if self.on_stop is not None:
            await self.on_stop()
        await self.presence.stop()
        await super().stop()

    def _servers(self) -> set[str]:
        return self.routes.brokers(False) or {self.config.name_servers[0]}

    async def _exchange(
        self, address: str, code: int, header: AnyHeader, body: bytes, timeout_s: float, expected: Iterable[int]
    ) -> Command:
        """Serve the request by an RPC. NotSupported, if there is none for it."""
        serve = self._served.get(code)
        if serve is None:
            name = getattr(code, "name", str(code))
            hint = "Connect to a name server: connect(namesrv=...)"
            raise NotSupported(f"{name} has no counterpart in the gRPC protocol", hint=hint)
        return await serve(address, header, body, timeout_s)

    async def send_oneway(self, address: str, code: int, fields: dict[str, str], body: bytes = b"") -> None:
        """Send, and do not care for the answer: gRPC has no calls without one."""
        await self.call(address, code, fields, body)

    async def route_to_write(self, topic: str, *, by_key: bool = False) -> Route:
        route = await self.route(topic)
        if not route.writable:
            raise NoBroker(f"topic {topic!r} has no queue that can be written", hint="Does its permission allow it?")
        return route

    # --- requests as RPCs -----------------------------------------------------------------------------------------

    async def _send(self, address: str, fields: dict[str, str], body: bytes, timeout_s: float) -> Command:
        header = SendMessageV2.from_fields(fields)
        now_ms = self.clock.now_ms()
        await self.presence.publish(header.topic, address)
        request = v2.SendMessageRequest()
        if header.batch:
            for entry in decode_batch(body):
                about = decode_properties(entry.properties)
                request.messages.append(outgoing_message(header.topic, entry.body, about, now_ms))
        else:
            about = decode_properties((header.properties or "").encode())
            request.messages.append(outgoing_message(header.topic, body, about, now_ms))
        answer = await self.calls.ask(address, "SendMessage", request, v2.SendMessageResponse, timeout_s)
        check_status(address, answer.status)
        if not answer.entries:
            check_status(address, v2.Status(code=v2.Code.INTERNAL_ERROR, message="the answer has no entry"))
        for each in answer.entries:
            check_status(address, each.status)
        first = answer.entries[0]
        found = {"queueId": str(header.queue_id), "queueOffset": str(first.offset)}
        if header.sys_flag & SysFlag.TRANSACTION_PREPARED:
            self._transactions[request.messages[0].system_properties.message_id] = first.transaction_id
            found["msgId"] = _NO_PLACE
        if first.recall_handle:
            found["recallHandle"] = first.recall_handle
        return Command(code=ResponseCode.SUCCESS, fields=found)

    async def _end_transaction(self, address: str, header: EndTransaction, _: bytes, timeout_s: float) -> Command:
        source = v2.TransactionSource
        request = v2.EndTransactionRequest(
            topic=v2.Resource(name=header.topic or ""),
            message_id=header.msg_id,
            transaction_id=self._transactions.pop(header.msg_id, header.transaction_id or header.msg_id),
            resolution=_RESOLUTIONS.get(header.commit_or_rollback, 0),
            source=source.SOURCE_SERVER_CHECK if header.from_transaction_check else source.SOURCE_CLIENT,
        )
        answer = await self.calls.ask(address, "EndTransaction", request, v2.EndTransactionResponse, timeout_s)
        check_status(address, answer.status)
        return Command(code=ResponseCode.SUCCESS)

    async def _recall(self, address: str, header: RecallMessage, _: bytes, timeout_s: float) -> Command:
        request = v2.RecallMessageRequest(topic=v2.Resource(name=header.topic), recall_handle=header.recall_handle)
        answer = await self.calls.ask(address, "RecallMessage", request, v2.RecallMessageResponse, timeout_s)
        check_status(address, answer.status)
        return Command(code=ResponseCode.SUCCESS, fields={"msgId": answer.message_id})

    async def _group_config(self, address: str, header: GroupName, _: bytes, timeout_s: float) -> Command:
        """Answer what the server's settings say of the group."""
        settings = await self.presence.settings(address, header.group)
        most = settings.backoff_policy.max_attempts
        config = SubscriptionGroupConfig(
            group_name=header.group,
            consume_message_orderly=settings.subscription.fifo,
            retry_max_times=most - 1 if most > 0 else 16,
        )
        return Command(code=ResponseCode.SUCCESS, body=encode_body(config))

    async def _checked(self, *_: Any) -> Command:
        return Command(code=ResponseCode.SUCCESS)

    # --- transactions that servers ask about ----------------------------------------------------------------------

    def answer_orphans(self, producer: Producer) -> None:
        """Let the producer answer how transactions ended."""

        async def answer(address: str, command: v2.RecoverOrphanedTransactionCommand) -> None:
            half = received_message(command.message)
            queue = MessageQueue(broker_name="", queue_id=half.queue_id, topic=half.topic)
            header = CheckTransactionState(
                topic=half.topic,
                tran_state_table_offset=0,
                commit_log_offset=0,
                msg_id=half.unique_id,
                transaction_id=command.transaction_id,
            )
            asker = _Asker(self, address)
            await producer.transactions.check(asker, header, producer.received(half, queue))  # type: ignore[arg-type]
            await asker.done()

        self.presence.on_orphan = answer


class _Asker:
    """Stands for the peer that asked: what is sent to it ends the transaction by an RPC."""

    def __init__(self, session: GrpcSession, address: str) -> None:
        self._session = session
        self.address = address
        self._answer: Command | None = None

    def send(self, command: Command) -> None:
        self._answer = command

    async def done(self) -> None:
        if self._answer is None:
            return
        header = EndTransaction.from_fields(self._answer.fields)
        if header.commit_or_rollback in _RESOLUTIONS:
            try:
                await self._session.call(self.address, RequestCode.END_TRANSACTION, header)
            except Error as fault:
                log.warning("a transaction not ended, the server asks again", id=header.msg_id, fault=str(fault))
