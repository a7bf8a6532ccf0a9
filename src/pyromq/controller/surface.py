"""Request code to handler: the whole surface of a controller on one page, and what only the one that leads answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from ..access.administration import AccessAdmin
from ..coordination.store import CoordinationRefused, CoordinationUnreachable
from ..errors import RequestRefused
from ..model.codes import ResponseCode
from ..protocol.requests import RequestCode as Code
from ..protocol.row import ServedBy
from ..transport.dispatch import Handler, Reply, RequestOf, bind, bound, replying
from .leadership import Leadership
from .operator_requests import OperatorRequests
from .set_requests import SetRequests


def surface(
    brokers: SetRequests, operators: OperatorRequests, leadership: Leadership, access: AccessAdmin | None = None
) -> Mapping[int, Handler]:
    """Return a handler for every code that is served. `access` None: users are not."""

    def led(handler: Callable[[Any], Awaitable[Reply]]) -> Callable[[Any], Awaitable[Reply]]:
        async def answer(request: RequestOf[Any, Any]) -> Reply:
            if not leadership.leads:
                raise RequestRefused("The controller is not in leader state", ResponseCode.CONTROLLER_NOT_LEADER)
            try:
                return await handler(request)
            except (CoordinationUnreachable, CoordinationRefused) as fault:
                raise RequestRefused(f"the coordination store: {fault}", ResponseCode.SYSTEM_ERROR) from None

        return answer

    pairs = (
        bind(Code.CONTROLLER_ALTER_SYNC_STATE_SET, led(brokers.alter_in_sync)),
        bind(Code.CONTROLLER_ELECT_MASTER, led(brokers.elect)),
        bind(Code.CONTROLLER_REGISTER_BROKER, led(brokers.register)),
        bind(Code.CONTROLLER_GET_REPLICA_INFO, led(brokers.replica_info)),
        bind(Code.CONTROLLER_GET_NEXT_BROKER_ID, led(brokers.next_id)),
        bind(Code.CONTROLLER_APPLY_BROKER_ID, led(brokers.apply_id)),
        bind(Code.CONTROLLER_GET_METADATA_INFO, operators.metadata),
        bind(Code.CONTROLLER_GET_SYNC_STATE_DATA, led(operators.sync_state)),
        bind(Code.UPDATE_CONTROLLER_CONFIG, operators.change_settings),
        bind(Code.GET_CONTROLLER_CONFIG, operators.show_settings),
        bind(Code.CLEAN_BROKER_DATA, led(operators.clean)),
    )
    code, heartbeat = bind(Code.BROKER_HEARTBEAT, brokers.heartbeat)  # a row of the name server's too
    served = bound(pairs, ServedBy.CONTROLLER) | {code: heartbeat}
    if access is None:
        return served
    of_users = ((row.code, replying(answer)) for row, answer in access.answers().items())
    return served | bound(of_users, ServedBy.USERS)
