"""Who may make a gRPC call: signatures are checked before messages are read, then what each call asks for.

Calls ask as those of 5.5.0 do. Where that asks for nothing (offsets and pulls) or for the first of many (messages of a
send), every topic and group of the call is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ..access.directory import refused
from ..access.gate import AccessGate
from ..access.needs import Want, resolved
from ..access.rights import NOBODY, Principal
from ..errors import RequestRefused
from ..protocol.access import Action, Resource
from ..protocol.grpc import v2
from ..protocol.grpc.schema import RPCS
from ..protocol.grpc.v2 import ClientType, Code
from ..transport.http2.calls import Call, Screen
from .statuses import Denied

AUTHORIZATION = "authorization"
DATE_TIME = "x-mq-date-time"
_PACKAGE = "apache.rocketmq.v2."
_CONSUMERS = (
    ClientType.PUSH_CONSUMER,
    ClientType.SIMPLE_CONSUMER,
    ClientType.PULL_CONSUMER,
    ClientType.LITE_PUSH_CONSUMER,
    ClientType.LITE_SIMPLE_CONSUMER,
)
_PUB, _SUB = (Action.PUB,), (Action.SUB,)


def admitted(gate: AccessGate | None, call: Call, name: str, request: Callable[[], Any]) -> Principal:
    """Return who makes a call. Denied (40100) if he may not. `name`: of the request's message; `request` decodes it."""
    if gate is None:
        return NOBODY
    metadata = call.metadata
    try:
        return gate.admit(
            _PACKAGE + name,
            metadata.get(AUTHORIZATION, ""),
            metadata.get(DATE_TIME, ""),
            call.remote,
            lambda: wants_of(request()),
        )
    except RequestRefused as fault:
        raise Denied(Code.UNAUTHORIZED, str(fault)) from None


def screening(gate: AccessGate) -> Screen:
    """Return what judges a stranger's call by its headers, before its message is read."""

    def screen(headers: Mapping[str, str], remote: str) -> bool | None:
        rpc = _PACKAGE + RPCS[headers[":path"].rpartition("/")[2]].request
        return gate.screen(rpc, headers.get(AUTHORIZATION, ""), headers.get(DATE_TIME, ""), remote)

    return screen


def may_call(gate: AccessGate, principal: Principal, request: Any) -> bool:
    """Tell whether somebody may make a call with this request."""
    return gate.allows_call(_PACKAGE + type(request).__name__, principal, lambda: wants_of(request))


def wants_of(request: Any) -> Iterator[Want]:
    """Yield what a request asks for. RequestRefused if it names nothing where it must."""
    asks = _ASKS.get(type(request).__name__)
    if asks is None:
        raise refused(f"{type(request).__name__} is for nobody")
    yield from asks(request)


def _topic(resource: v2.Resource, actions: tuple[Action, ...]) -> Want:
    if not resource.name.strip():
        raise refused("topic is null.")
    return resolved(Resource.TOPIC, resource.name, actions)


def _group(resource: v2.Resource) -> Want:
    if not resource.name.strip():
        raise refused("group is null.")
    return Want(Resource.GROUP, resource.name, _SUB)


def _send(request: v2.SendMessageRequest) -> Iterator[Want]:
    if not request.messages:
        raise refused("message is null.")
    for topic in {message.topic.name: message.topic for message in request.messages}.values():
        yield _topic(topic, _PUB)


def _of_topic(request: Any) -> Iterator[Want]:
    yield _topic(request.topic, _PUB)


def _of_group_and_topic(request: Any) -> Iterator[Want]:
    yield _group(request.group)
    yield _topic(request.topic, _SUB)


def _of_group_and_queue(request: Any) -> Iterator[Want]:
    yield _group(request.group)
    yield _topic(request.message_queue.topic, _SUB)


def _heartbeat(request: v2.HeartbeatRequest) -> Iterator[Want]:
    if request.client_type in _CONSUMERS:
        yield _group(request.group)


def _farewell(request: v2.NotifyClientTerminationRequest) -> Iterator[Want]:
    if request.group.name.strip():
        yield _group(request.group)


def _route(request: v2.QueryRouteRequest) -> Iterator[Want]:
    yield _topic(request.topic, (Action.PUB, Action.SUB))


def _bounds(request: v2.QueryOffsetRequest) -> Iterator[Want]:
    yield _topic(request.message_queue.topic, (Action.SUB, Action.GET))


def _telemetry(request: v2.TelemetryCommand) -> Iterator[Want]:
    if request.WhichOneof("command") != "settings":
        return
    settings = request.settings
    for topic in settings.publishing.topics:
        yield _topic(topic, _PUB)
    if settings.WhichOneof("pub_sub") == "subscription":
        yield _group(settings.subscription.group)
        for entry in settings.subscription.subscriptions:
            yield _topic(entry.topic, _SUB)


_ASKS: dict[str, Callable[[Any], Iterable[Want]]] = {
    "SendMessageRequest": _send,
    "RecallMessageRequest": _of_topic,
    "EndTransactionRequest": _of_topic,
    "HeartbeatRequest": _heartbeat,
    "NotifyClientTerminationRequest": _farewell,
    "ReceiveMessageRequest": _of_group_and_queue,
    "PullMessageRequest": _of_group_and_queue,
    "UpdateOffsetRequest": _of_group_and_queue,
    "GetOffsetRequest": _of_group_and_queue,
    "AckMessageRequest": _of_group_and_topic,
    "ForwardMessageToDeadLetterQueueRequest": _of_group_and_topic,
    "ChangeInvisibleDurationRequest": _of_group_and_topic,
    "SyncLiteSubscriptionRequest": _of_group_and_topic,
    "QueryAssignmentRequest": _of_group_and_topic,
    "QueryRouteRequest": _route,
    "QueryOffsetRequest": _bounds,
    "TelemetryCommand": _telemetry,
}
