"""Heartbeat and NotifyClientTermination. Lite subscriptions, which are refused."""

from __future__ import annotations

from ...protocol.grpc import v2
from ...protocol.grpc.v2 import ClientType, Code
from ..calls import Caller, language_of
from ..clients.grpc_client import CONSUMERS, GrpcClient
from ..clients.telemetry import LITE
from ..messages.names import check_group, check_lite_topic
from ..services import Services
from ..statuses import OK, Denied

RENEWED = v2.HeartbeatResponse(status=OK)


def renewal(services: Services, caller: Caller, request: v2.HeartbeatRequest) -> v2.HeartbeatResponse | None:
    """Return the answer to a heartbeat that says nothing new, as nearly all do; None: `heartbeat` must look."""
    is_renewed = renews(services, caller.client_id, caller.language_name, caller.remote, request.group.name)
    return RENEWED if is_renewed else None


def renews(services: Services, client_id: str, language: str, remote: str, group: str) -> bool:
    """Take a heartbeat that says nothing new; False: `heartbeat` must look, and says what is wrong."""
    try:
        return services.clients.is_renewed(_found(services, client_id, language, remote, group))
    except Denied:
        return False


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
    return _found(services, caller.client_id, caller.language_name, caller.remote, group.name)


def _found(services: Services, client_id: str, language: str, remote: str, group: str) -> GrpcClient:
    client = services.clients.known(client_id)
    client.peer.address = remote
    try:
        language_of(language)
    except ValueError as fault:
        raise Denied(Code.INTERNAL_SERVER_ERROR, str(fault)) from None
    if client.type in CONSUMERS:
        check_group(group)
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
