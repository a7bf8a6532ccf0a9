"""The dashboard as an ASGI application: routes to views, and what they return to pages or JSON."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any
from urllib.parse import quote

import msgspec
from jinja2 import Environment
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from ... import logs
from ...client.errors import Error
from ...errors import CallFailed, Malformed
from ..views.missing import NotThere
from ..views.rows import group_rows, topic_rows
from ..watch.user_views import LoginRefused, UserView, UserViews
from ..watch.watched import ClusterWatch
from .forms import BadForm, fields
from .guard import COOKIE, Guard
from .openapi import document
from .problems import problem
from .rendering import environment
from .routes import NAV, ROUTES
from .sessions import Sessions
from .tables import ViewRoute
from .words import LANGUAGES, chosen

log = logs.get("pyromq.dashboard")
MOST_FOUND = 50
THEMES = ("auto", "light", "dark")
_FAULTS = (Error, CallFailed, Malformed)


@dataclass(slots=True, eq=False, repr=False)
class Site:
    """Handlers that are no view's: login, preferences, errors; and how a view becomes a page."""

    watched: Mapping[str, ClusterWatch]  # as the dashboard itself sees them
    sessions: Sessions
    views: UserViews
    base: str
    is_secure: bool = False
    templates: Environment = field(default_factory=environment)

    # --- views ----------------------------------------------------------------------------------------------------

    def page(self, route: ViewRoute) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            try:
                found, wanted = await self._view(route, request)
            except NotThere as fault:
                return self._error_page(request, 404, str(fault))
            except msgspec.ValidationError as fault:
                return self._error_page(request, 400, str(fault))
            except _FAULTS as fault:
                return self._error_page(request, 502, str(fault))
            return self._render(request, route.page, 200, here=route.below or route.name, found=found, wanted=wanted)

        return answer

    def api(self, route: ViewRoute) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            try:
                found, _ = await self._view(route, request)
            except NotThere as fault:
                return problem(404, str(fault))
            except msgspec.ValidationError as fault:
                return problem(400, str(fault))
            except _FAULTS as fault:
                return problem(502, str(fault))
            return Response(msgspec.json.encode(found), media_type="application/json")

        return answer

    async def _view(self, route: ViewRoute, request: Request) -> tuple[Any, Any]:
        cluster = self._cluster(request)
        own = [request.path_params[name] for name in route.parameters]
        if route.query is None:
            return await route.view(cluster, *own), None
        given = {key: value for key, value in request.query_params.items() if value != ""}
        wanted = msgspec.convert(given, route.query, strict=False)
        return await route.view(cluster, *own, wanted), wanted

    def _cluster(self, request: Request) -> ClusterWatch:
        name, watched = request.path_params["cluster"], self._watched(request)
        if name not in watched:
            raise NotThere("cluster", name, watched)
        return watched[name]

    def _watched(self, request: Request) -> Mapping[str, ClusterWatch]:
        """Return the clusters as who asks sees them."""
        view = _view(request)
        return self.watched if view is None else view.watched

    def _render(self, request: Request, template: str, status: int, **values: Any) -> Response:
        words = chosen(request.cookies.get("lang", ""), request.headers.get("accept-language", ""))
        theme = request.cookies.get("theme", "auto")
        view, watched = _view(request), self._watched(request)
        name = request.path_params.get("cluster", next(iter(watched)))
        cluster = watched.get(name) or next(iter(watched.values()))
        text = self.templates.get_template(template).render(
            _=words,
            theme=theme if theme in THEMES else "auto",
            base=self.base,
            home=f"{self.base}/c/{quote(cluster.name, safe='')}",
            cluster=cluster,
            clusters=list(watched),
            user="" if view is None else view.name,
            snapshot=cluster.snapshot,
            now_ms=cluster.now_ms(),
            path=request.url.path,
            address=str(request.url.path) + (f"?{request.url.query}" if request.url.query else ""),
            form_token=_form_token(request),
            languages=LANGUAGES,
            nav=NAV,
            quote=lambda text: quote(text, safe=""),
            **({"here": "", "wanted": None} | values),
        )
        return Response(text, status, media_type="text/html; charset=utf-8")

    def _error_page(self, request: Request, status: int, text: str) -> Response:
        return self._render(request, "error.html", status, number=status, text=text)

    # --- login and preferences --------------------------------------------------------------------------------------

    async def login_form(self, request: Request) -> Response:
        return self._render(request, "login.html", 200, fault="", next=request.query_params.get("next", ""))

    async def login(self, request: Request) -> Response:
        form = await fields(request)
        goal = own_path(form.get("next", ""), self.base)
        address = "" if request.client is None else request.client.host
        if not self.sessions.may_try(address):
            fault = "Too many tries: wait a minute"
            return self._render(request, "login.html", 429, fault=fault, next=goal)
        name, fault = form.get("user", "").strip(), ""
        if name:
            try:
                word: str | None = self.sessions.begin(await self.views.open(name, form.get("secret", "")))
            except LoginRefused as refusal:
                word, fault = None, str(refusal)
        else:
            word = self.sessions.login(form.get("token", "").strip())
            fault = "This token is wrong, or was used already. The newest one stands where the dashboard was started"
        if word is None:
            log.warning("a login was refused", address=address, user=name)
            return self._render(request, "login.html", 403, fault=fault, next=goal)
        log.info("logged in", address=address, user=name)
        self.sessions.logout(request.cookies.get(COOKIE, ""))  # of whom this browser was before
        answer = RedirectResponse(goal, 303)
        own: dict[str, Any] = {"httponly": True, "samesite": "strict", "path": self.base or "/"}
        answer.set_cookie(COOKIE, word, secure=self.is_secure, **own)
        return answer

    async def logout(self, request: Request) -> Response:
        await self._our_form(request)
        self.sessions.logout(request.cookies.get(COOKIE, ""))
        answer = RedirectResponse(f"{self.base}/login", 303)
        answer.delete_cookie(COOKIE, path=self.base or "/")
        return answer

    async def make_token(self, request: Request) -> Response:
        """Show a token of the session, this once."""
        await self._our_form(request)
        token = self.sessions.make_token(request.scope["state"]["session"])
        if token is None:
            return self._error_page(request, 403, "This session has enough tokens: they end with it")
        log.info("a token was made", user=getattr(_view(request), "name", ""))
        return self._render(request, "api.html", 200, here="api", routes=ROUTES, token=token)

    async def preferences(self, request: Request) -> Response:
        form = await self._our_form(request)
        answer = RedirectResponse(own_path(form.get("next", ""), self.base), 303)
        for name, known in (("theme", THEMES), ("lang", tuple(LANGUAGES))):
            value = form.get(name, "")
            if value in known:
                answer.set_cookie(name, value, max_age=365 * 86_400, samesite="strict", path=self.base or "/")
        return answer

    async def check_again(self, request: Request) -> Response:
        await self._our_form(request)
        cluster = self._cluster(request)
        await cluster.check()
        return RedirectResponse(f"{self.base}/c/{quote(cluster.name, safe='')}/doctor", 303)

    async def _our_form(self, request: Request) -> dict[str, str]:
        """Return the fields of a form that a page of this session holds. BadForm if it is another's."""
        form, token = await fields(request), _form_token(request)
        if not token or form.get("form_token") != token:
            raise BadForm("the form is none of this session's, or old: load the page again")
        return form

    async def refused_form(self, request: Request, fault: Exception) -> Response:
        return problem(403, str(fault))

    async def unknown_name(self, request: Request, fault: Exception) -> Response:
        return self._error_page(request, 404, str(fault))

    async def search(self, request: Request) -> Response:
        """Go to the one topic or group that is meant, or show all that have the words in their names."""
        name = request.path_params["cluster"]
        snapshot = self._cluster(request).snapshot
        q = request.query_params.get("q", "").strip()
        words = q.lower().split()
        found: dict[str, list[str]] = {}
        for kind, rows in (
            ("topics", topic_rows(snapshot, system=False)),
            ("groups", group_rows(snapshot, system=False)),
        ):
            found[kind] = sorted(row.name for row in rows if words and all(word in row.name.lower() for word in words))
        exact = [(kind, one) for kind, names in found.items() for one in names if one == q]
        every = exact or [(kind, one) for kind, names in found.items() for one in names]
        if len(every) == 1:
            kind, one = every[0]
            return RedirectResponse(f"{self.base}/c/{quote(name, safe='')}/{kind}/{quote(one, safe='')}", 303)
        first = {kind: names[:MOST_FOUND] for kind, names in found.items()}
        return self._render(request, "search.html", 200, here="search", q=q, **first)

    # --- others -----------------------------------------------------------------------------------------------------

    async def home(self, request: Request) -> Response:
        return RedirectResponse(f"{self.base}/c/{quote(next(iter(self._watched(request))), safe='')}", 303)

    async def api_page(self, request: Request) -> Response:
        return self._render(request, "api.html", 200, here="api", routes=ROUTES, token="")

    async def openapi(self, request: Request) -> Response:
        return Response(msgspec.json.encode(document(self.base)), media_type="application/json")

    async def cluster_names(self, request: Request) -> Response:
        return Response(
            msgspec.json.encode([{"name": name} for name in self._watched(request)]), media_type="application/json"
        )

    async def healthy(self, request: Request) -> Response:
        return Response("ok\n", media_type="text/plain")

    async def ready(self, request: Request) -> Response:
        """Answer 200 once every cluster was looked at."""
        waiting = [name for name, one in self.watched.items() if one.snapshot.number == 0]
        return Response("\n".join(["waiting for", *waiting]) if waiting else "ok\n", 503 if waiting else 200)

    async def not_found(self, request: Request, fault: Exception) -> Response:
        status = fault.status_code if isinstance(fault, HTTPException) else 500
        if "/api/" in request.url.path:
            return problem(status, "there is nothing here: /api/v1/openapi.json tells what there is")
        return self._error_page(request, status, "there is no such page")


def _view(request: Request) -> UserView | None:
    view: UserView | None = request.scope["state"].get("view")
    return view


def _form_token(request: Request) -> str | None:
    token: str | None = request.scope["state"].get("form_token")
    return token


def own_path(goal: str, base: str) -> str:
    """Return the path to go on at, which is one of ours whatever the form says."""
    is_ours = goal.startswith(f"{base}/") and not goal.startswith("//") and "\\" not in goal and goal.isprintable()
    return quote(goal, safe="/?&=%") if is_ours else f"{base}/"


def application(site: Site, hosts: frozenset[str]) -> ASGIApp:
    """Return the whole application behind its guard."""
    views = [Route(f"/c/{{cluster}}{route.path}", site.page(route)) for route in ROUTES if route.page]
    views += [Route(f"/api/v1/{{cluster}}{route.path}", site.api(route)) for route in ROUTES]
    own = [
        Route("/", site.home),
        Route("/login", site.login_form),
        Route("/login", site.login, methods=["POST"]),
        Route("/logout", site.logout, methods=["POST"]),
        Route("/tokens", site.make_token, methods=["POST"]),
        Route("/preferences", site.preferences, methods=["POST"]),
        Route("/c/{cluster}/doctor/again", site.check_again, methods=["POST"]),
        Route("/c/{cluster}/search", site.search),
        Route("/api", site.api_page),
        Route("/api/v1/openapi.json", site.openapi),
        Route("/api/v1/clusters", site.cluster_names),
        Route("/-/healthy", site.healthy),
        Route("/-/ready", site.ready),
        Mount("/static", StaticFiles(directory=str(files(__package__).joinpath("..", "static")))),
    ]
    routes = [*own, *views]
    mounted = [Mount(site.base, routes=routes)] if site.base else routes
    faults: dict[Any, Any] = {404: site.not_found, 405: site.not_found}
    faults |= {BadForm: site.refused_form, NotThere: site.unknown_name}
    app = Starlette(routes=mounted, exception_handlers=faults)
    return _with_state(Guard(app, site.sessions, hosts, site.base))


def _with_state(app: ASGIApp) -> ASGIApp:
    async def prepared(scope: Any, receive: Any, send: Any) -> None:
        scope.setdefault("state", {})
        await app(scope, receive, send)

    return prepared
