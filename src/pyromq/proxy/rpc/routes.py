"""QueryRoute and QueryAssignment."""

from __future__ import annotations

from ...model.topic import Perm
from ...protocol.grpc import v2
from ...protocol.grpc.v2 import Code, Permission
from ..calls import Caller
from ..messages.convert import NO_TYPE, accepted_types
from ..messages.names import check_group
from ..queues import masters, shown_queues
from ..services import Services
from ..statuses import OK, Denied


async def query_route(services: Services, caller: Caller, request: v2.QueryRouteRequest) -> v2.QueryRouteResponse:
    topic = request.topic.name
    services.check_topic(topic)
    backend = services.backend
    route = await backend.route(topic)
    types = accepted_types(await backend.topic_type(topic) or NO_TYPE)
    endpoints = backend.endpoints(request.endpoints)
    answer = v2.QueryRouteResponse(status=OK)
    known = masters(route)
    for data in route.queue_datas:
        if data.broker_name not in known:
            continue
        broker = v2.Broker(name=data.broker_name, endpoints=endpoints)
        for number, permission in enumerate(shown_queues(data)):
            answer.message_queues.add(
                topic=request.topic, id=number, permission=permission, broker=broker, accept_message_types=types
            )
    return answer


async def query_assignment(
    services: Services, caller: Caller, request: v2.QueryAssignmentRequest
) -> v2.QueryAssignmentResponse:
    """Answer each readable broker as a whole; to a group that consumes in order, each of its queues."""
    topic = request.topic.name
    services.check_topic(topic)
    check_group(request.group.name)
    route = await services.backend.route(topic)
    group = await services.backend.group(request.group.name)
    endpoints = services.backend.endpoints(request.endpoints)
    known = masters(route)
    answer = v2.QueryAssignmentResponse(status=OK)
    for data in route.queue_datas:
        if not data.perm & Perm.READ or not data.read_queue_nums or data.broker_name not in known:
            continue
        broker = v2.Broker(name=data.broker_name, endpoints=endpoints)
        is_orderly = group is not None and group.consume_message_orderly
        for number in range(data.read_queue_nums) if is_orderly else (-1,):
            queue = v2.MessageQueue(topic=request.topic, id=number, permission=Permission.READ_WRITE, broker=broker)
            answer.assignments.add(message_queue=queue)
    if not answer.assignments:
        raise Denied(Code.FORBIDDEN, "no readable queue")
    return answer
