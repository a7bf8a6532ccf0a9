"""Before every request: is the Host one of ours, does it come from our own pages, who asks. After it: strict headers.

A page of somebody else that the same browser has open can neither read nor change anything: names that resolve to
this machine are refused by Host (DNS rebinding), forms from elsewhere by Sec-Fetch-Site or Origin.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .problems import problem
from .sessions import Sessions, WebSession

COOKIE = "pyromq_session"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'; trusted-types pyromq"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
_SAFE = ("GET", "HEAD")
_OPEN = ("/login", "/static/", "/-/healthy", "/-/ready")


@dataclass(slots=True, eq=False, repr=False)
class Guard:
    """ASGI middleware. `hosts`: names without port under which we are asked, in small letters."""

    app: ASGIApp
    sessions: Sessions
    hosts: frozenset[str]
    base: str = ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = Request(scope)
        refusal = self._refusal(request)
        await (refusal or self.app)(scope, receive, _strict(send, is_static="/static/" in request.url.path))

    def _refusal(self, request: Request) -> Response | None:
        if _host_name(request.headers.get("host", "")) not in self.hosts:
            text = "this dashboard is not served under this name: use its own address, or start it with --host NAME"
            return problem(421, text)
        path = request.url.path.removeprefix(self.base)
        state, bearer = request.scope["state"], _bearer(request)
        by_token = self.sessions.of_token(bearer) if bearer else None
        if by_token is not None or self.sessions.is_program(bearer):
            state["form_token"], state["view"] = "", None if by_token is None else by_token.view
            state["owner"] = by_token or bearer
            state["came_by"] = "program" if by_token is None else _came_by(by_token)
            return None
        if request.method not in _SAFE and (why := _foreign(request)):
            return problem(403, why)
        session = self.sessions.find(request.cookies.get(COOKIE, ""))
        if session is not None:
            state["form_token"], state["view"], state["session"] = session.form_token, session.view, session
            state["owner"], state["came_by"] = session, _came_by(session)
            return None
        if path.startswith(_OPEN):
            return None
        if path.startswith("/api/"):
            return problem(401, "log in first, or send a token as Authorization: Bearer (page API, --api-token-file)")
        goal = quote(request.url.path, safe="/")
        return RedirectResponse(f"{self.base}/login?next={goal}", 303)


def _came_by(session: WebSession) -> str:
    return "link" if session.view is None else "user"


def _host_name(host: str) -> str:
    name = host.lower()
    if name.startswith("["):
        return name.partition("]")[0] + "]"
    return name.partition(":")[0]


def _bearer(request: Request) -> str:
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""


def _foreign(request: Request) -> str:
    """Return why a request that changes something is not taken as one of our own pages'; nothing: it is one."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        return "" if site == "same-origin" else f"it comes from another page (Sec-Fetch-Site: {site})"
    if origin is not None:
        own = f"{request.url.scheme}://{request.headers.get('host', '')}"
        return "" if origin == own else f"it comes from another page (Origin: {origin})"
    return "it says neither Sec-Fetch-Site nor Origin: programs send a token"


def _strict(send: Send, *, is_static: bool) -> Callable[[Message], Awaitable[None]]:
    async def strict(message: Message) -> None:
        if message["type"] == "http.response.start":
            fields = dict(HEADERS)
            fields["cache-control"] = "public, max-age=3600" if is_static else "no-store"
            own = [(name.encode(), value.encode()) for name, value in fields.items()]
            message["headers"] = [*message.get("headers", ()), *own]
        await send(message)

    return strict
