"""Heartbeat and NotifyClientTermination. Lite subscriptions, which are refused."""

from __future__ import annotations

from ...protocol.grpc import v2
from ...protocol.grpc.v2 import ClientType, Code
from ..calls import Caller
from ..clients.grpc_client import CONSUMERS, GrpcClient
from ..clients.telemetry import LITE
from ..messages.names import check_group, check_lite_topic
from ..services import Services
from ..statuses import OK, Denied

_RENEWED = v2.HeartbeatResponse(status=OK)


def renewal(services: Services, caller: Caller, request: v2.HeartbeatRequest) -> v2.HeartbeatResponse | None:
    """Return the answer to a heartbeat that says nothing new, as nearly all do; None: `heartbeat` must look."""
    client = _known(services, caller, request.group)
    return _RENEWED if services.clients.is_renewed(client) else None


async def heartbeat(services: Services, caller: Caller, request: v2.HeartbeatRequest) -> v2.HeartbeatResponse:
    client = _known(services, caller, request.group)
    await services.clients.renew(client)
    return v2.HeartbeatResponse(status=OK)


async def notify_client_termination(
    services: Services, caller: Caller, request: v2.NotifyClientTerminationRequest
) -> v2.NotifyClientTerminationResponse:
    await services.clients.terminate(_known(services, caller, request.group))
    return v2.NotifyClientTerminationResponse(status=OK)


def _known(services: Services, caller: Caller, group: v2.Resource) -> GrpcClient:
    client = services.clients.known(caller.client_id)
    client.peer.address = caller.remote
    try:
        caller.language  # noqa: B018 - raises for one that is unknown
    except ValueError as fault:
        raise Denied(Code.INTERNAL_SERVER_ERROR, str(fault)) from None
    if client.type in CONSUMERS:
        check_group(group.name)
    elif client.type != ClientType.PRODUCER:
        raise Denied(Code.UNRECOGNIZED_CLIENT_TYPE, client.type.name)
    return client


async def sync_lite_subscription(
    services: Services, caller: Caller, request: v2.SyncLiteSubscriptionRequest
) -> v2.SyncLiteSubscriptionResponse:
    services.check_topic(request.topic.name)
    check_group(request.group.name)
    for name in request.lite_topic_set:
        check_lite_topic(name, services.settings.max_lite_topic_size)
    raise Denied(Code.NOT_IMPLEMENTED, LITE)
