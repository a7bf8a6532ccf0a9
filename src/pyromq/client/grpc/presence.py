"""How servers know a member: one telemetry stream to each, with its settings, and heartbeats. In place of remoting's.

Servers answer with settings of their own (whether the group is ordered, how often a message may come), and ask through
the stream how a transaction ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from typing import Any

from ... import logs
from ...ambient import Clock
from ...errors import ConnectionLost
from ...model import names
from ...model.group import ConsumeType
from ...protocol.grpc import v2
from ...transport.http2.calls import GrpcError
from ...transport.http2.client_connection import ClientCall
from ..config import ClientConfig
from ..connect.background import Bell, Tasks
from ..connect.heartbeats import GroupMember
from ..errors import Error, SubscriptionConflict, TimedOut
from .grpc_calls import VERSION, GrpcCalls, grpc_fault, status_fault
from .messages import endpoints_of
from .operators import Trial, answer_to

log = logs.get("pyromq.client")

HEARTBEAT_S = 10.0
AGAIN_S = 1.0  # before a stream that ended is begun anew

OnOrphan = Callable[[str, v2.RecoverOrphanedTransactionCommand], Coroutine[Any, Any, None]]


@dataclass(slots=True, eq=False)
class _Server:
    settings: v2.Settings | None = None
    fault: Error | None = None
    call: ClientCall | None = None
    sent: bytes = b""  # our settings, as this server has them
    refusal: SubscriptionConflict | None = None  # its group's members subscribe to something else
    changed: asyncio.Event = field(default_factory=asyncio.Event)


class Presence:
    """Event loop only. One per member."""

    def __init__(
        self, calls: GrpcCalls, config: ClientConfig, clock: Clock, addresses: Callable[[], Iterable[str]]
    ) -> None:
        self.due = Bell(clock)
        self.on_orphan: OnOrphan | None = None
        self.on_trial: Trial | None = None
        self._calls = calls
        self._config = config
        self._clock = clock
        self._addresses = addresses
        self._tasks = Tasks(lambda fault: log.error("a telemetry loop died", fault=repr(fault)))
        self._servers: dict[str, _Server] = {}
        self._producers: set[str] = set()
        self._topics: set[str] = set()  # that this member sends to
        self._group = ""
        self._member: GroupMember | None = None
        self._is_beating = False

    @property
    def has_groups(self) -> bool:
        return bool(self._producers or self._group)

    # --- what producers and consumers call ------------------------------------------------------------------------

    def add_producer(self, group: str) -> None:
        self._producers.add(group)

    async def remove_producer(self, group: str) -> None:
        self._producers.discard(group)
        await self._terminate()

    def add_member(self, group: str, member: GroupMember) -> None:
        self._group, self._member = group, member

    async def remove_member(self, group: str) -> None:
        await self._terminate()
        self._member = None

    async def publish(self, topic: str, address: str) -> None:
        """Tell the server that we send to this topic: it asks us about transactions of it."""
        is_new = topic not in self._topics
        self._topics.add(topic)
        if is_new:
            await self._send_settings(list(self._servers))
        await self.settings(address)

    async def send(self) -> bool:
        """Introduce the member to all known servers, and send a heartbeat to each. False: one did not take it."""
        self._begin_beating()
        answers = await asyncio.gather(*map(self._beat, self._known()), return_exceptions=True)
        return not any(isinstance(each, BaseException) for each in answers)

    async def settings(self, address: str, group: str = "") -> v2.Settings:
        """Return what the server has answered to our settings. Raise why it has not."""
        self._group = self._group or group
        server = self._servers.get(address)
        if server is None:
            server = self._servers[address] = _Server()
            self._tasks.start(self._converse(address, server))
        try:
            async with self._clock.timeout(self._config.call_timeout_s):
                while server.settings is None:
                    if server.fault is not None:
                        raise server.fault
                    await server.changed.wait()
        except TimeoutError:
            raise TimedOut(f"{address} does not answer our settings", address=address) from None
        return server.settings

    async def introduce(self, address: str) -> None:
        """Send our settings to a server that has forgotten them, and wait for its own. Raise why it has not."""
        if (server := self._servers.get(address)) is not None:
            server.sent = b""
        await self._send_settings([address])
        await self.settings(address)

    async def stop(self) -> None:
        await self._tasks.cancel()

    # --- the stream, heartbeats -----------------------------------------------------------------------------------

    def _known(self) -> set[str]:
        return {*self._addresses(), *self._servers}

    def _begin_beating(self) -> None:
        if not self._is_beating:
            self._is_beating = True
            self._tasks.start(self._beat_loop())

    async def _beat_loop(self) -> None:
        while True:
            await self.due.wait(HEARTBEAT_S)
            if self.has_groups and not await self.send():
                await self._clock.sleep(AGAIN_S)

    async def _beat(self, address: str) -> None:
        await self._send_settings([address])
        await self.settings(address)
        request = v2.HeartbeatRequest(client_type=self._type())
        if self._group:
            request.group.name = self._group
        answer = await self._calls.ask(address, "Heartbeat", request, v2.HeartbeatResponse, self._config.call_timeout_s)
        if answer.status.code == v2.Code.UNRECOGNIZED_CLIENT_TYPE and address in self._servers:
            self._servers[address].sent = b""  # it has forgotten us: the next heartbeat introduces us again
        fault = None if answer.status.code == v2.Code.OK else status_fault(address, answer.status)
        if address in self._servers:
            self._note_answer(self._servers[address], fault)
        if fault is not None:
            raise fault

    async def _send_settings(self, addresses: list[str]) -> None:
        """Send our settings on streams that are open, if they have changed."""
        command = self._command()
        for address in addresses:
            server = self._servers.get(address)
            if server is not None and server.call is not None and server.sent != command:
                server.settings, server.sent = None, command
                try:
                    await server.call.send(command)
                except (GrpcError, ConnectionLost) as fault:
                    log.debug("settings not sent", address=address, fault=str(fault))

    async def _converse(self, address: str, server: _Server) -> None:
        while True:
            try:
                async with await self._calls.begin(address, "Telemetry") as call:
                    server.call, server.sent = call, self._command()
                    await call.send(server.sent)
                    while (got := await call.receive()) is not None:
                        self._take(address, server, v2.TelemetryCommand.FromString(got))
                server.fault = None
            except (GrpcError, ConnectionLost) as fault:
                server.fault = grpc_fault(address, "Telemetry", fault)
            except Error as fault:
                server.fault = fault
            server.call, server.settings = None, None
            server.changed.set()
            server.changed = asyncio.Event()
            if server.fault is not None:
                log.debug("a telemetry stream ended", address=address, fault=str(server.fault))
            await self._clock.sleep(AGAIN_S)
            server.fault = None

    def _take(self, address: str, server: _Server, command: v2.TelemetryCommand) -> None:
        if command.HasField("settings"):
            server.settings, server.fault = command.settings, None
            server.changed.set()
            server.changed = asyncio.Event()
        elif command.HasField("recover_orphaned_transaction_command") and self.on_orphan is not None:
            self._tasks.start(self.on_orphan(address, command.recover_orphaned_transaction_command))
        elif command.WhichOneof("command") in ("print_thread_stack_trace_command", "verify_message_command"):
            self._tasks.start(self._answer(server, command))
        elif command.HasField("status") and command.status.code != v2.Code.OK:
            log.warning("a server refuses this client", address=address, why=command.status.message)
            self._note_answer(server, status_fault(address, command.status))

    def _note_answer(self, server: _Server, fault: Error | None) -> None:
        """Tell the consumer that its group does not take it, and that it does again."""
        before = self._refusal()
        server.refusal = fault if isinstance(fault, SubscriptionConflict) else None
        now = self._refusal()
        if (before is None) != (now is None) and self._member is not None:
            self._member.note_refusal(now)

    def _refusal(self) -> SubscriptionConflict | None:
        return next((one.refusal for one in self._servers.values() if one.refusal is not None), None)

    async def _answer(self, server: _Server, command: v2.TelemetryCommand) -> None:
        answer, call = await answer_to(command, self.on_trial), server.call
        if answer is None or call is None:
            return
        try:
            await call.send(answer.SerializeToString())
        except (GrpcError, ConnectionLost) as fault:
            log.debug("an operator's question is not answered", fault=str(fault))

    async def _terminate(self) -> None:
        request = v2.NotifyClientTerminationRequest()
        if self._group:
            request.group.name = self._group
        for address in list(self._servers):
            try:
                kind = v2.NotifyClientTerminationResponse
                await self._calls.ask(address, "NotifyClientTermination", request, kind, self._config.call_timeout_s)
            except Error as fault:
                log.debug("not unregistered", address=address, fault=str(fault))
        await self._tasks.cancel()
        self._servers.clear()
        self._is_beating = False

    def _type(self) -> int:
        if not self._group:
            return v2.ClientType.PRODUCER
        if self._member is not None and self._member.describe().consume_type is ConsumeType.POP:
            return v2.ClientType.SIMPLE_CONSUMER
        return v2.ClientType.PUSH_CONSUMER

    def _command(self) -> bytes:
        made = v2.Settings(client_type=self._type(), access_point=endpoints_of(self._config.name_servers))
        made.user_agent.language, made.user_agent.version = v2.Language.PYTHON, VERSION
        made.request_timeout.FromMilliseconds(round(self._config.call_timeout_s * 1000))
        if not self._group:
            made.publishing.topics.extend(v2.Resource(name=topic) for topic in sorted(self._topics))
            made.publishing.SetInParent()
        else:
            made.subscription.group.name = self._group
            wanted = [] if self._member is None else self._member.describe().subscription_data_set
            for each in wanted:
                if not names.is_retry(each.topic):
                    kind = v2.FilterType.SQL if each.expression_type == "SQL92" else v2.FilterType.TAG
                    expression = v2.FilterExpression(type=kind, expression=each.sub_string)
                    made.subscription.subscriptions.add(topic=v2.Resource(name=each.topic), expression=expression)
        return v2.TelemetryCommand(settings=made).SerializeToString()
