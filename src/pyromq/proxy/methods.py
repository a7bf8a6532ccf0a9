"""The table of RPCs, and the way into each: who calls, its share of what runs at once, its request, its failures."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError

from ..protocol.grpc import v2
from ..protocol.grpc.status import GrpcStatus
from ..protocol.grpc.v2 import Code
from ..protocol.row import RequestClass
from ..transport.http2.calls import Call, GrpcError, Method, Methods, Stream, Unary
from .calls import Caller
from .clients.telemetry import Telemetry
from .rpc import ack, clients, dead_letters, offsets, receive, routes, send, transactions
from .services import Services
from .statuses import Denied, status_of

PATH = "/apache.rocketmq.v2.MessagingService/"
MOST_AT_ONCE = 10_000  # calls of one share, then 42900
MOST_WAITING = 100_000  # receives and pulls, most of which wait for messages; the broker has the same limit of pops
_COMMANDS_BYTES = 4 << 20  # a client's stack traces may be long
_ACKS_BYTES = 4 << 20  # thousands of receipts

# By share: with whose requests a call is served in turn. Remoting's requests of that kind have the same place.
_LANES = {
    "client": RequestClass.HEARTBEAT,
    "send": RequestClass.SEND,
    "decide": RequestClass.SEND,
    "end": RequestClass.SEND,
    "receive": RequestClass.PULL,
    "settle": RequestClass.PULL,
    "route": RequestClass.QUERY,
}

Serve = Callable[[Services, Caller, Any], Awaitable[Any]]


class RpcRow(NamedTuple):
    """One method: its messages, the function that serves it, and the share of running calls that it counts in."""

    name: str
    request: Any
    response: Any
    serve: Any
    share: str
    most_bytes: int = 64 << 10
    at_once: Any = None  # answers what needs no waiting


UNARY = (
    RpcRow("QueryRoute", v2.QueryRouteRequest, v2.QueryRouteResponse, routes.query_route, "route"),
    RpcRow("QueryAssignment", v2.QueryAssignmentRequest, v2.QueryAssignmentResponse, routes.query_assignment, "route"),
    RpcRow(
        "Heartbeat",
        v2.HeartbeatRequest,
        v2.HeartbeatResponse,
        clients.heartbeat,
        "client",
        at_once=clients.renewal,
    ),
    RpcRow(
        "NotifyClientTermination",
        v2.NotifyClientTerminationRequest,
        v2.NotifyClientTerminationResponse,
        clients.notify_client_termination,
        "client",
    ),
    RpcRow(
        "SyncLiteSubscription",
        v2.SyncLiteSubscriptionRequest,
        v2.SyncLiteSubscriptionResponse,
        clients.sync_lite_subscription,
        "client",
    ),
    RpcRow("SendMessage", v2.SendMessageRequest, v2.SendMessageResponse, send.send_message, "send", 0),
    RpcRow(
        "ForwardMessageToDeadLetterQueue",
        v2.ForwardMessageToDeadLetterQueueRequest,
        v2.ForwardMessageToDeadLetterQueueResponse,
        dead_letters.forward_to_dead_letter_queue,
        "send",
    ),
    RpcRow("AckMessage", v2.AckMessageRequest, v2.AckMessageResponse, ack.ack_message, "settle", _ACKS_BYTES),
    RpcRow(
        "ChangeInvisibleDuration",
        v2.ChangeInvisibleDurationRequest,
        v2.ChangeInvisibleDurationResponse,
        ack.change_invisible_duration,
        "settle",
    ),
    RpcRow(
        "EndTransaction", v2.EndTransactionRequest, v2.EndTransactionResponse, transactions.end_transaction, "decide"
    ),
    RpcRow("RecallMessage", v2.RecallMessageRequest, v2.RecallMessageResponse, transactions.recall_message, "end"),
    RpcRow("UpdateOffset", v2.UpdateOffsetRequest, v2.UpdateOffsetResponse, offsets.update_offset, "settle"),
    RpcRow("GetOffset", v2.GetOffsetRequest, v2.GetOffsetResponse, offsets.get_offset, "settle"),
    RpcRow("QueryOffset", v2.QueryOffsetRequest, v2.QueryOffsetResponse, offsets.query_offset, "settle"),
)
RECEIVE = RpcRow(
    "ReceiveMessage", v2.ReceiveMessageRequest, v2.ReceiveMessageResponse, receive.receive_message, "receive"
)
PULL = RpcRow("PullMessage", v2.PullMessageRequest, v2.PullMessageResponse, offsets.pull_message, "receive")


class CallShares:
    """Calls that run, by kind: a storm of one kind leaves the others their places.

    Receives that wait for messages count apart from acks, so that thousands of idle consumers refuse nobody's ack.
    """

    def __init__(self, most: int = MOST_AT_ONCE, most_waiting: int = MOST_WAITING) -> None:
        self._most = defaultdict(lambda: most, receive=most_waiting)
        self._running: Counter[str] = Counter()

    @contextmanager
    def place(self, share: str) -> Iterator[None]:
        """Hold a place for the block. Denied (42900) if there is none."""
        if self._running[share] >= self._most[share]:
            raise Denied(Code.TOO_MANY_REQUESTS, "flow limit")
        self._running[share] += 1
        try:
            yield
        finally:
            self._running[share] -= 1


def methods(services: Services, shares: CallShares | None = None) -> Methods:
    """Return the whole service by method path."""
    shares = shares or CallShares()
    found = {
        PATH + rpc.name: Method(
            unary=_served(services, shares, rpc),
            most_bytes=rpc.most_bytes or services.settings.grpc_max_inbound_message_size,
            lane=_LANES[rpc.share],
            refused=partial(_refused, rpc.response),
        )
        for rpc in UNARY
    }
    found[PATH + "ReceiveMessage"] = Method(
        stream=_receive(services, shares), lane=_LANES[RECEIVE.share], refused=partial(_refused, RECEIVE.response)
    )
    found[PATH + "PullMessage"] = Method(
        stream=_pull(services, shares), lane=_LANES[PULL.share], refused=partial(_refused, PULL.response)
    )
    found[PATH + "Telemetry"] = Method(
        listener=Telemetry(services),
        most_bytes=_COMMANDS_BYTES,
        lane=RequestClass.HEARTBEAT,
        refused=partial(_refused, v2.TelemetryCommand),
    )
    return found


def _refused(response: Any, why: str) -> bytes:
    """Return what a call is answered that does not show who makes it, in RocketMQ's words."""
    answer: bytes = response(status=status_of(Denied(Code.UNAUTHORIZED, why), "")).SerializeToString()
    return answer


def _served(services: Services, shares: CallShares, rpc: RpcRow) -> Unary:
    served = _unary(services, shares, rpc)
    return served if rpc.at_once is None else _at_once(services, rpc, served)


def _at_once(services: Services, rpc: RpcRow, otherwise: Unary) -> Unary:
    """Serve without a task the calls that `rpc.at_once` has an answer to; it is None for others, or raises."""

    def serve(call: Call, data: bytes) -> bytes | Awaitable[bytes]:
        if services.must_learn(call):
            return otherwise(call, data)
        try:
            request = _once(rpc, data)
            caller = services.caller_of(call, rpc.request.DESCRIPTOR.name, request)
            answer = rpc.at_once(services, caller, request())
        except (Denied, GrpcError):
            answer = None  # the usual way says what is wrong
        if answer is None:
            return otherwise(call, data)
        found: bytes = answer.SerializeToString()
        return found

    return serve


def _unary(services: Services, shares: CallShares, rpc: RpcRow) -> Unary:
    async def serve(call: Call, data: bytes) -> bytes:
        try:
            request = _once(rpc, data)
            caller = await _caller(services, call, rpc, request)
            with shares.place(rpc.share):
                answer = await rpc.serve(services, caller, request())
        except GrpcError:
            raise
        except Exception as fault:
            answer = rpc.response(status=status_of(fault, rpc.name))
        found: bytes = answer.SerializeToString()
        return found

    return serve


def _receive(services: Services, shares: CallShares) -> Stream:
    async def serve(call: Call) -> None:
        data = await call.receive()
        is_begun = False
        try:
            decoded = _once(RECEIVE, data or b"")
            caller, request = await _caller(services, call, RECEIVE, decoded), decoded()
            with shares.place(RECEIVE.share):
                is_begun = True
                await receive.receive_message(services, caller, call, request)
        except GrpcError:
            raise
        except Exception as fault:
            shown = status_of(fault, RECEIVE.name)
            await call.send(v2.ReceiveMessageResponse(status=shown).SerializeToString())
            if is_begun:  # as Java: earlier refusals are the status alone
                await call.send(receive.last_element(services.clock.now_ms()))

    return serve


def _pull(services: Services, shares: CallShares) -> Stream:
    async def serve(call: Call) -> None:
        data = await call.receive()
        try:
            decoded = _once(PULL, data or b"")
            caller, request = await _caller(services, call, PULL, decoded), decoded()
            with shares.place(PULL.share):
                await offsets.pull_message(services, caller, call, request)
        except GrpcError:
            raise
        except Exception as fault:
            shown = status_of(fault, PULL.name)
            await call.send(v2.PullMessageResponse(status=shown).SerializeToString())

    return serve


async def _caller(services: Services, call: Call, rpc: RpcRow, request: Callable[[], Any]) -> Caller:
    return await services.caller_once_known(call, rpc.request.DESCRIPTOR.name, request)


def _once(rpc: RpcRow, data: bytes) -> Callable[[], Any]:
    """Return what decodes a request when it is asked for first, and keeps it."""
    return cache(partial(_decoded, rpc, data))


def _decoded(rpc: RpcRow, data: bytes) -> Any:
    try:
        return rpc.request.FromString(data)
    except DecodeError as fault:
        raise GrpcError(GrpcStatus.INTERNAL, f"the request is no {rpc.name}Request: {fault}") from None
