"""The dashboard as an ASGI application: every path with what answers it, behind the guard."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from ..views.missing import NotThere
from .answers import action_api, actions, downloads, streams, views
from .answers.login import LoginPages
from .answers.others import OtherPages
from .forms import BadForm
from .guard import Guard
from .routes import ACTIONS, DOWNLOADS, STREAMS, VIEWS
from .site import Site


def application(site: Site, hosts: frozenset[str]) -> ASGIApp:
    """Return the whole application behind its guard."""
    login, others = LoginPages(site), OtherPages(site)
    own = [
        Route("/", others.home),
        Route("/login", login.login_form),
        Route("/login", login.login, methods=["POST"]),
        Route("/logout", login.logout, methods=["POST"]),
        Route("/tokens", login.make_token, methods=["POST"]),
        Route("/preferences", login.preferences, methods=["POST"]),
        Route("/c/{cluster}/doctor/again", others.check_again, methods=["POST"]),
        Route("/c/{cluster}/search", others.search),
        Route("/c/{cluster}/results/{id}", actions.result_page(site)),
        Route("/api/v1/{cluster}/results/{id}", action_api.result(site)),
        Route("/api", others.api_page),
        Route("/api/v1/openapi.json", others.openapi),
        Route("/api/v1/clusters", others.cluster_names),
        Route("/-/healthy", others.healthy),
        Route("/-/ready", others.ready),
        Mount("/static", StaticFiles(directory=str(files(__package__).joinpath("..", "static")))),
    ]
    routes = [*own, *(one for route in ACTIONS for one in actions.routes(site, route)), *_reading_routes(site)]
    mounted = [Mount(site.base, routes=routes)] if site.base else routes
    faults: dict[Any, Any] = {404: others.not_found, 405: others.not_found}
    faults |= {BadForm: others.refused_form, NotThere: others.unknown_name}
    app = Starlette(routes=mounted, exception_handlers=faults)
    return _with_state(Guard(app, site.sessions, hosts, site.base))


def _reading_routes(site: Site) -> list[Route]:
    page, api, open_streams = "/c/{cluster}", "/api/v1/{cluster}", streams.OpenStreams()
    return [
        *(Route(f"{page}{one.path}", downloads.download(site, one, is_page=True)) for one in DOWNLOADS),
        *(Route(f"{api}{one.path}", downloads.download(site, one, is_page=False)) for one in DOWNLOADS),
        *(Route(f"{api}{one.path}", streams.stream(site, open_streams, one)) for one in STREAMS),
        *(Route(f"{page}{route.path}", views.page(site, route)) for route in VIEWS if route.page),
        *(Route(f"{api}{route.path}", views.api(site, route)) for route in VIEWS),
    ]


def _with_state(app: ASGIApp) -> ASGIApp:
    async def prepared(scope: Any, receive: Any, send: Any) -> None:
        scope.setdefault("state", {})
        await app(scope, receive, send)

    return prepared
