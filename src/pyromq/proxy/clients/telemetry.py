"""The telemetry stream: settings come in and are answered, commands of servers go out, their results come back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count

from google.protobuf.message import DecodeError

from ... import logs
from ...errors import CallTimedOut, ConnectionLost, PyroError, RequestRefused
from ...model.codes import ResponseCode
from ...model.message import Property
from ...protocol.access import Action
from ...protocol.bodies.connections import ConsumeMessageDirectlyResult, ConsumerRunningInfo
from ...protocol.command import RESPONSE_FLAG, Command
from ...protocol.grpc import v2
from ...protocol.grpc.status import GrpcStatus
from ...protocol.grpc.v2 import ClientType, Code
from ...protocol.headers.send import CheckTransactionState
from ...protocol.properties import decode_properties
from ...protocol.record import decode_record
from ...protocol.requests import RequestCode
from ...transport.http2.calls import Call, GrpcError
from ..calls import Caller
from ..messages.convert import message_of
from ..messages.names import check_group
from ..services import Services
from ..statuses import OK, Denied, status, status_of
from ..transactions import SentHalf
from .grpc_client import CONSUMERS, GrpcClient, consumer_data
from .settings import consumer_settings, producer_settings

log = logs.get("pyromq.proxy")

_FAILED = "process client telemetryCommand failed. "
LITE = "lite topics are not there yet: use a push or simple consumer with a topic of another type"


class Telemetry:
    """Implements `CallListener`: a stream is open for as long as its client is there. Event loop only.

    Here requests of servers to clients leave.
    """

    def __init__(self, services: Services) -> None:
        self._services = services
        self._nonces = count()
        services.clients.relay = self._relay
        services.clients.notify = self._notify

    async def came(self, call: Call, message: bytes) -> None:
        command = _decoded(message)
        try:
            caller = await self._services.caller_once_known(call, "TelemetryCommand", lambda: command)
        except (Denied, RequestRefused) as missing:
            await _send(call, v2.TelemetryCommand(status=status_of(missing, "Telemetry")))
            return
        kind = command.WhichOneof("command")
        if kind == "settings":
            await self._settings(caller, call, command.settings)
        elif kind == "thread_stack_trace":
            self._result(caller.client_id, command.thread_stack_trace.nonce, command)
        elif kind == "verify_message_result":
            self._result(caller.client_id, command.verify_message_result.nonce, command)

    def ended(self, call: Call) -> None:
        self._services.clients.on_stream_lost(call)

    # --- settings -------------------------------------------------------------------------------------------------

    async def _settings(self, caller: Caller, stream: Call, asked: v2.Settings) -> None:
        try:
            self._check(caller, asked)
            client, refusal = await self._register(caller, asked, stream)
            answer = await self._answer_to(client, asked)
        except Denied as fault:
            if fault.code == Code.NOT_IMPLEMENTED:
                await _send(stream, v2.TelemetryCommand(status=status(fault.code, str(fault))))
                return
            kind = GrpcStatus.INVALID_ARGUMENT if fault.code // 10_000 == 4 else GrpcStatus.INTERNAL
            raise GrpcError(kind, _FAILED + str(fault)) from None
        except (ValueError, PyroError) as fault:
            if isinstance(fault, GrpcError):
                raise
            raise GrpcError(GrpcStatus.INTERNAL, _FAILED + str(fault)) from None
        if refusal is not None:
            await _send(stream, v2.TelemetryCommand(status=refusal))
        await _send(stream, v2.TelemetryCommand(status=OK, settings=answer))

    async def _register(self, caller: Caller, asked: v2.Settings, stream: Call) -> tuple[GrpcClient, v2.Status | None]:
        """Return the client, and why its group does not take it, if so.

        Such a one has a stream and settings like any other, and its receives are refused: clients wait for settings
        that are OK, some forever, and their users would not learn why. So the reason is a command of its own.
        """
        clients = self._services.clients
        try:
            return await clients.take_settings(caller, asked, stream), None
        except Denied as fault:
            if fault.code != Code.FORBIDDEN:
                raise
            return clients.known(caller.client_id), status(fault.code, str(fault))

    def _check(self, caller: Caller, asked: v2.Settings) -> None:
        """Raise what Java raises for settings that it does not take."""
        caller.language  # noqa: B018 - raises for one that is unknown
        kind = asked.WhichOneof("pub_sub")
        if kind is None:
            raise GrpcError(GrpcStatus.INVALID_ARGUMENT, "there is no publishing or subscription data in settings")
        if kind == "publishing":
            for topic in asked.publishing.topics:
                self._services.check_topic(topic.name)
            return
        check_group(asked.subscription.group.name)
        if asked.client_type == ClientType.LITE_PUSH_CONSUMER:
            raise Denied(Code.NOT_IMPLEMENTED, LITE)
        if asked.client_type not in CONSUMERS:
            raise Denied(Code.INTERNAL_SERVER_ERROR, f"Client type is not consumer, type: {_type_name(asked)}")
        for entry in asked.subscription.subscriptions:
            self._services.check_topic(entry.topic.name)
        consumer_data(asked, 0)

    async def _answer_to(self, client: GrpcClient, asked: v2.Settings) -> v2.Settings:
        services = self._services
        if asked.HasField("publishing"):
            return producer_settings(asked, services.settings)
        group = await services.backend.group(client.group)
        return consumer_settings(asked, group, services.settings)

    # --- requests of servers --------------------------------------------------------------------------------------

    def _notify(self, client: GrpcClient, command: Command) -> None:
        if command.code == RequestCode.CHECK_TRANSACTION_STATE:
            self._services.spawn(self._recover(client, command))

    async def _recover(self, client: GrpcClient, command: Command) -> None:
        """Ask a producer how a transaction ended; another one of the topic if this one cannot be asked now."""
        header = CheckTransactionState.from_fields(command.fields)
        record = decode_record(bytes(command.body), verify=False)
        properties = decode_properties(record.properties)
        topic = properties.get(Property.REAL_TOPIC, record.topic)
        record.topic = topic
        asked = client if client.may_see(topic, Action.PUB) else self._services.clients.with_stream(topic)
        if asked is None or asked.stream is None:
            return  # the broker asks again
        now = self._services.clock.now_ms()
        message = message_of(record, now)
        message.system_properties.delivery_attempt = 1
        transaction_id = header.transaction_id or message.system_properties.message_id
        half = SentHalf(
            header.bname or "", header.tran_state_table_offset, header.commit_log_offset, header.msg_id or "", now
        )
        self._services.transactions.remember(topic, transaction_id, half)
        question = v2.RecoverOrphanedTransactionCommand(message=message, transaction_id=transaction_id)
        await _send(asked.stream, v2.TelemetryCommand(recover_orphaned_transaction_command=question))

    async def _relay(self, client: GrpcClient, command: Command, timeout_s: float) -> Command:
        if command.code == RequestCode.CONSUME_MESSAGE_DIRECTLY:
            return await self._verify(client, command, timeout_s)
        if command.code == RequestCode.GET_CONSUMER_RUNNING_INFO:
            return await self._print_stack(client, command, timeout_s)
        return _answer(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f"gRPC clients cannot be asked {command.code}")

    async def _verify(self, client: GrpcClient, command: Command, timeout_s: float) -> Command:
        """Let a client consume one message now (309)."""
        record = decode_record(bytes(command.body), verify=False)
        if client.stream is not None and not client.may_see(record.topic, Action.SUB):
            return _answer(ResponseCode.NO_PERMISSION, f"the user of {client.client_id} may not see {record.topic}")
        message = message_of(record, self._services.clock.now_ms())

        def ask(nonce: str) -> v2.TelemetryCommand:
            return v2.TelemetryCommand(verify_message_command=v2.VerifyMessageCommand(nonce=nonce, message=message))

        begun = self._services.clock.now_ms()
        result = await self._ask(client, ask, timeout_s)
        spent = self._services.clock.now_ms() - begun
        outcomes = {
            Code.OK: "CR_SUCCESS",
            Code.FAILED_TO_CONSUME_MESSAGE: "CR_LATER",
            Code.MESSAGE_CORRUPTED: "CR_RETURN_NULL",
        }
        outcome = next((text for code, text in outcomes.items() if code == result.status.code), None)
        body = ConsumeMessageDirectlyResult(
            auto_commit=True,
            consume_result=outcome,
            order=False,
            remark="from gRPC client",
            spent_time_mills=spent,
        )
        return _answer(body=RequestCode.CONSUME_MESSAGE_DIRECTLY.gives.write_body(body))

    async def _print_stack(self, client: GrpcClient, command: Command, timeout_s: float) -> Command:
        """Ask a client what its threads do (307)."""

        def ask(nonce: str) -> v2.TelemetryCommand:
            return v2.TelemetryCommand(print_thread_stack_trace_command=v2.PrintThreadStackTraceCommand(nonce=nonce))

        result = await self._ask(client, ask, timeout_s)
        body = ConsumerRunningInfo(jstack=result.thread_stack_trace.thread_stack_trace)
        return _answer(body=RequestCode.GET_CONSUMER_RUNNING_INFO.gives.write_body(body))

    async def _ask(
        self, client: GrpcClient, ask: Callable[[str], v2.TelemetryCommand], timeout_s: float
    ) -> v2.TelemetryCommand:
        stream = client.stream
        if stream is None:
            raise ConnectionLost(f"the client {client.client_id} has no telemetry stream")
        nonce = str(next(self._nonces))
        waiter: asyncio.Future[v2.TelemetryCommand] = asyncio.get_running_loop().create_future()
        nonces = client.nonces = client.nonces or {}
        nonces[nonce] = waiter
        longest = min(timeout_s, self._services.settings.grpc_proxy_relay_request_timeout_in_seconds)
        try:
            await _send(stream, ask(nonce))
            async with self._services.clock.timeout(longest):
                return await waiter
        except TimeoutError:
            raise CallTimedOut("call remote timeout") from None
        finally:
            nonces.pop(nonce, None)

    def _result(self, client_id: str, nonce: str, command: v2.TelemetryCommand) -> None:
        client = self._services.clients.find(client_id)
        waiter = None if client is None or client.nonces is None else client.nonces.get(nonce)
        if waiter is not None and not waiter.done():
            waiter.set_result(command)


async def _send(stream: Call, command: v2.TelemetryCommand) -> None:
    await stream.send(command.SerializeToString())


def _decoded(data: bytes) -> v2.TelemetryCommand:
    try:
        return v2.TelemetryCommand.FromString(data)
    except DecodeError as fault:
        raise GrpcError(GrpcStatus.INTERNAL, f"no TelemetryCommand: {fault}") from None


def _type_name(asked: v2.Settings) -> str:
    try:
        return ClientType(asked.client_type).name
    except ValueError:
        return "UNRECOGNIZED"


def _answer(code: int = ResponseCode.SUCCESS, remark: str | None = None, body: bytes = b"") -> Command:
    return Command(code=code, flag=RESPONSE_FLAG, remark=remark, body=body)
