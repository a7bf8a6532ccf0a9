"""Actions in a browser: the form, the plan that it makes, the click that applies it, and how that ended.

Every answer is a page, so all of it works without JavaScript. The same over JSON is in action_api.py.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from ...acting.kept_plans import KeptPlan
from ...views.missing import NotThere
from ..forms import BadForm, Pairs, pairs, shown_values, wanted_of
from ..routes import ACTIONS, NAV
from ..site import EXPECTED, Site, form_token_of, judged
from ..tables import ActionRoute
from . import action_api, fragments
from .planned import WAIT_S, applied, planned, renewed

Answer = Callable[[Request], Awaitable[Response]]


def routes(site: Site, route: ActionRoute) -> list[Route]:
    """Return the paths of an action, as pages and in the API."""
    page, api = f"/c/{{cluster}}{route.path}", f"/api/v1/{{cluster}}{route.path}"
    pages = ActionPages(site, route)
    return [
        Route(f"{page}/apply", pages.apply, methods=["POST"]),
        Route(page, pages.form, methods=["GET"]),
        Route(page, pages.plan, methods=["POST"]),
        Route(f"{api}:plan", action_api.plan(site, route), methods=["POST"]),
        Route(f"{api}:apply", action_api.apply(site, route), methods=["POST"]),
    ]


class ActionPages:
    """Pages of one action."""

    def __init__(self, site: Site, route: ActionRoute) -> None:
        self.site, self.route = site, route

    async def form(self, request: Request) -> Response:
        """Show the form, filled with what is so now, or with what the address says."""
        try:
            self.site.visitor(request).check(self.route.role)
            return self._form(request, 200, list(request.query_params.multi_items()))
        except EXPECTED as fault:
            return self.site.fault_page(request, fault, self.route.right)

    async def plan(self, request: Request) -> Response:
        """Show what would be done."""
        given = await self._own_pairs(request)
        try:
            found = await planned(self.site, self.route, request, lambda: wanted_of(given, self.route.wants))
        except (msgspec.ValidationError, *EXPECTED) as fault:
            return self._refused(request, given, fault)
        return self._plan(request, 200, found.kept)

    async def apply(self, request: Request) -> Response:
        """Do what was planned, unless what it rests on has moved: then the new plan is shown."""
        form = dict(await self._own_pairs(request))
        try:
            found = await renewed(self.site, self.route, request, form.get("plan", ""))
        except EXPECTED as fault:
            return self.site.fault_page(request, fault, self.route.right)
        if found.moved:
            return self._plan(request, 409, found.kept, moved=found.moved)
        if found.kept.plan.confirm and form.get("confirm", "").strip() != found.kept.plan.confirm:
            return self._plan(request, 400, found.kept, is_mistyped=True)
        work = await applied(self.site, self.route, request, found, WAIT_S)
        home = self.site.address_of(self.site.cluster(request))
        return RedirectResponse(f"{home}/results/{quote(work.id)}", 303)

    async def _own_pairs(self, request: Request) -> Pairs:
        given = await pairs(request, self.route.most_bytes)
        token = form_token_of(request)
        if not token or dict(given).get("form_token") != token:
            raise BadForm("the form is none of this session's, or old: load the page again")
        return given

    def _refused(self, request: Request, given: Pairs, fault: Exception) -> Response:
        """Show the form again with what is wrong, where the form can mend it."""
        status, refusal = judged(fault, self.route.right)
        if status in (400, 422) and self.route.fields:
            return self._form(request, status, given, fault=refusal.text)
        return self.site.fault_page(request, fault, self.route.right)

    def _form(self, request: Request, status: int, given: Pairs, fault: str = "") -> Response:
        cluster, own = self.site.cluster(request), [request.path_params[name] for name in self.route.parameters]
        now = {} if self.route.prefill is None or fault else self.route.prefill(cluster, *own)
        begun = {one.name: one.value for one in self.route.fields if one.value and not fault}
        values = shown_values((name, str(value)) for name, value in (begun | now).items()) | shown_values(given)
        return self.site.page(
            request,
            self.route.page,
            status,
            here=self.route.below,
            route=self.route,
            own=own,
            values=values,
            fault=fault,
        )

    def _plan(self, request: Request, status: int, kept: KeptPlan, **more: object) -> Response:
        back = next((entry.path for entry in NAV if entry.route == self.route.below), "")
        shown = {"moved": [], "is_mistyped": False, "back": back} | more
        return self.site.page(
            request, "plan.html", status, here=self.route.below, route=self.route, kept=kept, plan=kept.plan, **shown
        )


def result_page(site: Site) -> Answer:
    """Return what answers how an action ended, or how far it is."""

    async def answer(request: Request) -> Response:
        cluster, key = site.cluster(request), request.path_params["id"]
        work = site.works.find(site.visitor(request).owner, key, cluster.name)
        if work is None:
            return site.fault_page(request, NotThere("result", key, ()))
        here = next((route.below for route in ACTIONS if route.name == work.action), "")
        if fragments.is_wanted(request):
            return fragments.answer(request, site.fragment(request, "result.html", here=here, work=work))
        return site.page(request, "result.html", 200, here=here, work=work)

    return answer
