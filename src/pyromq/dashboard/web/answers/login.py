"""Logins and logouts, tokens of programs, and what a browser prefers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from .... import logs
from ...watch.user_views import LoginRefused
from ..forms import fields
from ..guard import COOKIE
from ..routes import AREAS
from ..site import THEMES, Site, view_of
from ..words import LANGUAGES

log = logs.get("pyromq.dashboard")


@dataclass(slots=True, eq=False, repr=False)
class LoginPages:
    site: Site
    is_secure: bool = False

    async def login_form(self, request: Request) -> Response:
        return self.site.page(request, "login.html", 200, fault="", next=request.query_params.get("next", ""))

    async def login(self, request: Request) -> Response:
        form = await fields(request)
        goal = own_path(form.get("next", ""), self.site.base)
        address = "" if request.client is None else request.client.host
        if not self.site.sessions.may_try(address):
            fault = "Too many tries: wait a minute"
            return self.site.page(request, "login.html", 429, fault=fault, next=goal)
        name, fault = form.get("user", "").strip(), ""
        if name:
            try:
                word: str | None = self.site.sessions.begin(await self.site.views.open(name, form.get("secret", "")))
            except LoginRefused as refusal:
                word, fault = None, str(refusal)
        else:
            word = self.site.sessions.login(form.get("token", "").strip())
            fault = "This token is wrong, or was used already. The newest one stands where the dashboard was started"
        if word is None:
            log.warning("a login was refused", address=address, user=name)
            return self.site.page(request, "login.html", 403, fault=fault, next=goal)
        log.info("logged in", address=address, user=name)
        self.site.sessions.logout(request.cookies.get(COOKIE, ""))  # of whom this browser was before
        answer = RedirectResponse(goal, 303)
        own: dict[str, Any] = {"httponly": True, "samesite": "strict", "path": self.site.base or "/"}
        answer.set_cookie(COOKIE, word, secure=self.is_secure, **own)
        return answer

    async def logout(self, request: Request) -> Response:
        await self.site.our_form(request)
        self.site.sessions.logout(request.cookies.get(COOKIE, ""))
        answer = RedirectResponse(f"{self.site.base}/login", 303)
        answer.delete_cookie(COOKIE, path=self.site.base or "/")
        return answer

    async def make_token(self, request: Request) -> Response:
        """Show a token of the session, this once."""
        await self.site.our_form(request)
        token = self.site.sessions.make_token(request.scope["state"]["session"])
        if token is None:
            return self.site.error_page(request, 403, "This session has enough tokens: they end with it")
        log.info("a token was made", user=getattr(view_of(request), "name", ""))
        return self.site.page(request, "api.html", 200, here="api", areas=AREAS, token=token)

    async def preferences(self, request: Request) -> Response:
        form = await self.site.our_form(request)
        answer = RedirectResponse(own_path(form.get("next", ""), self.site.base), 303)
        for name, known in (("theme", THEMES), ("lang", tuple(LANGUAGES))):
            value = form.get(name, "")
            if value in known:
                answer.set_cookie(name, value, max_age=365 * 86_400, samesite="strict", path=self.site.base or "/")
        return answer


def own_path(goal: str, base: str) -> str:
    """Return the path to go on at, which is one of ours whatever the form says."""
    is_ours = goal.startswith(f"{base}/") and not goal.startswith("//") and "\\" not in goal and goal.isprintable()
    return quote(goal, safe="/?&=%") if is_ours else f"{base}/"
