"""Views as pages and as JSON."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ..problems import fault_problem
from ..site import EXPECTED, Site
from ..tables import ViewRoute

Answer = Callable[[Request], Awaitable[Response]]


def page(site: Site, route: ViewRoute) -> Answer:
    """Return what answers the page of a route."""

    async def answer(request: Request) -> Response:
        try:
            found, wanted = await _view(site, route, request)
        except EXPECTED as fault:
            return site.fault_page(request, fault)
        return site.page(request, route.page, 200, here=route.below or route.name, found=found, wanted=wanted)

    return answer


def api(site: Site, route: ViewRoute) -> Answer:
    """Return what answers the path of a route below /api/v1."""

    async def answer(request: Request) -> Response:
        try:
            found, _ = await _view(site, route, request)
        except EXPECTED as fault:
            return fault_problem(fault)
        return Response(msgspec.json.encode(found), media_type="application/json")

    return answer


async def _view(site: Site, route: ViewRoute, request: Request) -> tuple[Any, Any]:
    """Return what a view finds, and what was wanted of it."""
    visitor = site.visitor(request)
    visitor.check(route.role)
    arguments = [site.cluster(request), *(request.path_params[name] for name in route.parameters)]
    wanted = None
    if route.query is not None:
        given = {key: value for key, value in request.query_params.items() if value != ""}
        wanted = msgspec.convert(given, route.query, strict=False)
        arguments.append(wanted)
    if route.for_visitor:
        return await route.view(*arguments, visitor=visitor), wanted
    return await route.view(*arguments), wanted
