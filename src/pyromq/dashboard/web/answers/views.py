"""Views as pages, as fragments of pages, and as JSON."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ...views.lists import ListQuery, with_fields
from ..problems import fault_problem
from ..site import EXPECTED, Site, view_of
from ..tables import ViewRoute
from . import fragments
from .bound import bound

Answer = Callable[[Request], Awaitable[Response]]


def page(site: Site, route: ViewRoute) -> Answer:
    """Return what answers the page of a route."""
    here = route.below or route.name

    async def answer(request: Request) -> Response:
        try:
            if fragments.is_wanted(request):
                return fragments.answer(request, await _fragment(site, route, request))
            found, wanted = await _view(site, route, request)
        except EXPECTED as fault:
            return site.fault_page(request, fault)
        return site.page(request, route.page, 200, here=here, found=found, wanted=wanted)

    return answer


def api(site: Site, route: ViewRoute) -> Answer:
    """Return what answers the path of a route below /api/v1."""

    async def answer(request: Request) -> Response:
        try:
            tag = _tag(site, request) if route.of_snapshot else ""
            if tag and fragments.has(request, tag):
                return fragments.unchanged(tag)
            found, wanted = await _view(site, route, request)
            if isinstance(wanted, ListQuery) and wanted.fields:
                found = with_fields(found, wanted.fields)
        except EXPECTED as fault:
            return fault_problem(fault)
        return Response(msgspec.json.encode(found), 200, {"etag": tag} if tag else None, media_type="application/json")

    return answer


async def _fragment(site: Site, route: ViewRoute, request: Request) -> str:
    """Return the parts of a page. All that they depend on is their key: so nobody gets another's."""
    visitor, cluster = site.visitor(request), site.cluster(request)

    async def make() -> str:
        found, wanted = await _view(site, route, request)
        return site.fragment(request, route.page, here=route.below or route.name, found=found, wanted=wanted)

    whose = visitor.owner if route.for_visitor else view_of(request)
    who = (id(whose), visitor.user, visitor.role, visitor.sees_bodies)
    key = (who, cluster.name, str(request.url.path), request.url.query, site.words(request).language)
    return await site.fragments.text(key, cluster.snapshot.number, make)


def _tag(site: Site, request: Request) -> str:
    """Return what stands for all that a view of the snapshot shows: its number, and when the checks ran."""
    cluster = site.cluster(request)
    who = site.visitor(request)
    return fragments.tag_of(site.life, who.user, cluster.name, cluster.snapshot.number, cluster.checkup.at_ms)


async def _view(site: Site, route: ViewRoute, request: Request) -> tuple[Any, Any]:
    """Return what a view finds, and what was wanted of it."""
    call, wanted = bound(site, route, request, route.view)
    return await call(), wanted
