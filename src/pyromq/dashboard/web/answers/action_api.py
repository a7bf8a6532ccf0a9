"""Actions for programs: `:plan` gives an id and the rows, `:apply` wants the id."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ...acting.plan import Sentence
from ...acting.works import RUNNING, StepOutcome, Work
from ...views.missing import NotThere
from ..forms import body
from ..problems import fault_problem, problem
from ..site import EXPECTED, Site
from ..tables import ActionRoute
from .planned import Planned, applied, planned, renewed

Answer = Callable[[Request], Awaitable[Response]]
API_WAIT_S = 5.0  # then the answer is 202, and where the result will be
JSON = "application/json"


class PlanShown(msgspec.Struct, frozen=True, kw_only=True):
    """`confirm`: what `:apply` wants to have repeated before what cannot be undone; empty: nothing."""

    plan: str
    does: str
    rows: list[dict[str, Any]]
    warnings: list[str]
    confirm: str


class ApplyWanted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    plan: str
    confirm: str = ""


class WorkShown(msgspec.Struct, frozen=True, kw_only=True):
    """`state`: running, done, partly, failed, interrupted. `total` is 0 where it is not known."""

    id: str
    does: str
    state: str
    total: int
    done: int
    outcomes: list[StepOutcome]


def plan(site: Site, route: ActionRoute) -> Answer:
    """Return what answers `path:plan`."""

    async def answer(request: Request) -> Response:
        given = await body(request, route.most_bytes)
        if not _is_json(request):
            return _no_json()
        try:
            found = await planned(site, route, request, lambda: msgspec.json.decode(given or b"{}", type=route.wants))
        except msgspec.DecodeError as fault:
            return problem(400, str(fault))
        except EXPECTED as fault:
            return fault_problem(fault, route.right)
        return _json(_plan_shown(found))

    return answer


def apply(site: Site, route: ActionRoute) -> Answer:
    """Return what answers `path:apply`."""

    async def answer(request: Request) -> Response:
        given = await body(request)
        if not _is_json(request):
            return _no_json()
        try:
            wanted = msgspec.json.decode(given, type=ApplyWanted)
            found = await renewed(site, route, request, wanted.plan)
        except msgspec.DecodeError as fault:
            return problem(400, str(fault))
        except EXPECTED as fault:
            return fault_problem(fault, route.right)
        if found.moved:
            text = "nothing was done: what the plan rests on has changed since"
            return problem(409, f"{text}. {'; '.join(found.moved)}", moved=found.moved, now=_plan_shown(found))
        if wanted.confirm != (name := found.kept.plan.confirm):
            return problem(400, f"this cannot be undone: repeat confirm={name!r}", now=_plan_shown(found))
        work = await applied(site, route, request, found, API_WAIT_S)
        if work.state != RUNNING:
            return _json(_work_shown(work))
        where = f"{site.base}/api/v1/{work.cluster}/results/{work.id}"
        return _json(_work_shown(work), 202, {"location": where})

    return answer


def result(site: Site) -> Answer:
    """Return what answers how an action ended, or how far it is."""

    async def answer(request: Request) -> Response:
        try:
            cluster, key = site.cluster(request), request.path_params["id"]
            work = site.works.find(site.visitor(request).owner, key, cluster.name)
            if work is None:
                raise NotThere("result", key, ())
        except NotThere as fault:
            return fault_problem(fault)
        return _json(_work_shown(work))

    return answer


def _plan_shown(found: Planned) -> PlanShown:
    plan = found.kept.plan
    rows, warnings = [_plain(row) for row in plan.rows], [str(one) for one in plan.warnings]
    return PlanShown(plan=found.kept.id, does=str(plan.does), rows=rows, warnings=warnings, confirm=plan.confirm)


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: str(value) if isinstance(value, Sentence) else value for key, value in row.items()}


def _work_shown(work: Work) -> WorkShown:
    return WorkShown(
        id=work.id, does=str(work.does), state=work.state, total=work.total, done=work.done, outcomes=work.outcomes
    )


def _is_json(request: Request) -> bool:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower() == JSON


def _no_json() -> Response:
    return problem(415, f"the body is JSON: say so by Content-Type: {JSON}")


def _json(found: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(found), status, headers=headers, media_type=JSON)
