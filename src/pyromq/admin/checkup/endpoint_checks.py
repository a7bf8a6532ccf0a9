"""The check of `pyromq doctor` on endpoints of 5.x clients (gRPC): those of our brokers, and any that is named."""

from __future__ import annotations

from collections.abc import AsyncIterator

from ...client.errors import Error
from ...client.grpc.grpc_calls import GrpcCalls
from ...protocol.grpc import v2
from ...transport.http2.client import Http2Client
from ..cluster import BrokerPlace
from .checked import BROKEN, GOOD, CheckedCluster, CheckResult

_NO_TOPIC = "pyromq-doctor"  # no topic: an endpoint that reaches its cluster says so
_ANSWERS = (v2.Code.OK, v2.Code.TOPIC_NOT_FOUND)
_WITHIN_S = 5.0
_NOT_REACHED = (
    "Is it running, and can this machine reach it? A broker opens it unless grpcServerPort is -1, a gateway by: "
)
_REFUSES = "See its log: it is there, and cannot serve its clients"


async def endpoints(checked: CheckedCluster) -> AsyncIterator[CheckResult]:
    """Ask each endpoint for a route, as every client does first."""
    wanted = [(f"{address} of the broker {place.name}", address) for place, address in _of_brokers(checked)]
    wanted += [(address, address) for address in checked.endpoints]
    session = checked.calls.session
    http = Http2Client(clock=session.clock, rng=session.rng, tls=session.config.tls)
    calls = GrpcCalls(session.client_id, session.config, session.clock, http)
    try:
        for what, address in wanted:
            yield await _check(calls, what, address)
    finally:
        await http.close()


def _of_brokers(checked: CheckedCluster) -> list[tuple[BrokerPlace, str]]:
    shown = ((place, checked.inspected.get(place.address, {}).get("grpcEndpoint")) for place in checked.masters)
    return [(place, str(address)) for place, address in shown if address]


async def _check(calls: GrpcCalls, what: str, address: str) -> CheckResult:
    request = v2.QueryRouteRequest(topic=v2.Resource(name=_NO_TOPIC))
    try:
        answer = await calls.ask(address, "QueryRoute", request, v2.QueryRouteResponse, _WITHIN_S)
    except Error as fault:
        text = f"{what} does not answer: {str(fault).removesuffix(fault.hint).rstrip('. ')}"
        return CheckResult("gRPC endpoint", BROKEN, text, _NOT_REACHED, "pyromq proxy")
    if answer.status.code not in _ANSWERS:
        return CheckResult("gRPC endpoint", BROKEN, f"{what} answers {answer.status.message}", _REFUSES)
    return CheckResult("gRPC endpoint", GOOD, f"{what} answers")
