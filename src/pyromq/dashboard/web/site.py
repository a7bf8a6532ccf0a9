"""What every answer needs: who visits, which clusters he sees, and a page out of a template."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import msgspec
from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import Response

from ... import logs
from ...client.errors import Error
from ...errors import PyroError
from ..acting.kept_plans import KeptPlans
from ..acting.plan import NotPossible
from ..acting.refusals import FAULTS, Refusal, refusal_of
from ..acting.visitor import ADMINISTRATOR, READER, RoleMissing, Visitor
from ..acting.works import Works
from ..views.missing import NotThere
from ..watch.user_views import UserView, UserViews
from ..watch.watched import ClusterWatch
from .answers.fragments import Fragments
from .forms import BadForm, fields
from .rendering import environment
from .routes import NAV
from .sessions import Sessions
from .words import LANGUAGES, Words, chosen

log = logs.get("pyromq.dashboard")
THEMES = ("auto", "light", "dark")
# What a view or a plan may raise, and what the answer's number is then.
EXPECTED = (NotThere, NotPossible, RoleMissing, msgspec.ValidationError, *FAULTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteLimits:
    """What `pyromq dashboard` was told to keep from everybody."""

    read_only: bool = False
    hide_bodies: bool = False


@dataclass(slots=True, eq=False, repr=False, kw_only=True)
class Site:
    """Event loop only. `watched`: the clusters as the dashboard itself sees them."""

    watched: Mapping[str, ClusterWatch]
    sessions: Sessions
    views: UserViews
    plans: KeptPlans
    works: Works
    limits: SiteLimits
    fragments: Fragments
    life: str  # another after each start, as numbers of snapshots begin anew then
    base: str
    templates: Environment = field(default_factory=environment)

    def visitor(self, request: Request) -> Visitor:
        """Return who asks."""
        state, view = request.scope["state"], view_of(request)
        return Visitor(
            user="" if view is None else view.name,
            came_by=state.get("came_by", ""),
            address="" if request.client is None else request.client.host,
            owner=state.get("owner"),
            role=READER if self.limits.read_only else ADMINISTRATOR,
            sees_bodies=not self.limits.hide_bodies,
        )

    def cluster(self, request: Request) -> ClusterWatch:
        """Return the cluster that the path names, as who asks sees it. NotThere."""
        name, watched = request.path_params["cluster"], self.clusters(request)
        if name not in watched:
            raise NotThere("cluster", name, watched)
        return watched[name]

    def clusters(self, request: Request) -> Mapping[str, ClusterWatch]:
        """Return the clusters as who asks sees them."""
        view = view_of(request)
        return self.watched if view is None else view.watched

    def address_of(self, cluster: ClusterWatch) -> str:
        """Return the path of a cluster's first page."""
        return f"{self.base}/c/{quote(cluster.name, safe='')}"

    # --- pages ------------------------------------------------------------------------------------------------------

    def page(self, request: Request, template: str, status: int, **values: Any) -> Response:
        text = self._rendered(request, template, form_token=form_token_of(request), is_fragment=False, **values)
        return Response(text, status, media_type="text/html; charset=utf-8")

    def fragment(self, request: Request, template: str, **values: Any) -> str:
        """Return the parts of a page that are kept fresh. No form's token is in it, since many sessions share it."""
        return self._rendered(request, template, form_token="", is_fragment=True, **values)

    def words(self, request: Request) -> Words:
        """Return the texts in the language of who asks."""
        return chosen(request.cookies.get("lang", ""), request.headers.get("accept-language", ""))

    def _rendered(self, request: Request, template: str, **values: Any) -> str:
        theme = request.cookies.get("theme", "auto")
        view, watched = view_of(request), self.clusters(request)
        name = request.path_params.get("cluster", next(iter(watched)))
        cluster = watched.get(name) or next(iter(watched.values()))
        return self.templates.get_template(template).render(
            _=self.words(request),
            theme=theme if theme in THEMES else "auto",
            base=self.base,
            home=self.address_of(cluster),
            cluster=cluster,
            clusters=list(watched),
            user="" if view is None else view.name,
            visitor=self.visitor(request),
            snapshot=cluster.snapshot,
            now_ms=cluster.now_ms(),
            path=request.url.path,
            address=str(request.url.path) + (f"?{request.url.query}" if request.url.query else ""),
            languages=LANGUAGES,
            nav=NAV,
            quote=lambda text: quote(text, safe=""),
            **({"here": "", "wanted": None} | values),
        )

    def fault_page(self, request: Request, fault: Exception, right: str = "") -> Response:
        """Return a page that says why there is nothing else. `right`: that brokers want, by its name in policies."""
        status, refusal = judged(fault, right)
        return self.error_page(request, status, refusal.text, refusal)

    def error_page(self, request: Request, status: int, text: str, refusal: Refusal | None = None) -> Response:
        return self.page(request, "error.html", status, number=status, text=text, refusal=refusal)

    async def our_form(self, request: Request) -> dict[str, str]:
        """Return the fields of a form that a page of this session holds. BadForm if it is another's."""
        form, token = await fields(request), form_token_of(request)
        if not token or form.get("form_token") != token:
            raise BadForm("the form is none of this session's, or old: load the page again")
        return form


def judged(fault: Exception, right: str = "") -> tuple[int, Refusal]:
    """Return the number of the answer to one of `EXPECTED`, and what it says."""
    refusal = refusal_of(fault, right) if isinstance(fault, PyroError) else Refusal(text=str(fault))
    match fault:
        case NotThere():
            return 404, refusal
        case msgspec.ValidationError():
            return 400, refusal
        case NotPossible():
            return 422, refusal
        case RoleMissing():
            return 403, refusal
        case Error() if refusal.is_denial:
            return 403, refusal
        case _:
            return 502, refusal


def view_of(request: Request) -> UserView | None:
    view: UserView | None = request.scope["state"].get("view")
    return view


def form_token_of(request: Request) -> str | None:
    token: str | None = request.scope["state"].get("form_token")
    return token
