"""What pages and API do alike with an action: plan it, plan it anew before it is applied, apply it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec
from starlette.requests import Request

from ...acting.kept_plans import KeptPlan
from ...acting.plan import ActionPlan, NotPossible, sentence
from ...acting.works import Work
from ..site import Site
from ..tables import ActionRoute

WAIT_S = 0.5  # that an answer waits for the end of an action: most have ended by then


@dataclass(frozen=True, slots=True)
class Planned:
    """`moved`: what the plan that was shown rested on and that is another now; `kept` is the new plan."""

    kept: KeptPlan
    moved: list[str]


async def planned(site: Site, route: ActionRoute, request: Request, wanted: Callable[[], Any]) -> Planned:
    """Make a plan and keep it for who asks. `wanted` reads what he wants, once it is known that he may try."""
    visitor, cluster = site.visitor(request), site.cluster(request)
    visitor.check(route.role)
    own = tuple(request.path_params[name] for name in route.parameters)
    struct = wanted()
    plan: ActionPlan = await route.plan(cluster, *own, struct)
    if route.is_final and not plan.confirm:
        raise AssertionError(f"{route.name} cannot be undone, and its plan has no word to be typed")
    return Planned(site.plans.keep(visitor.owner, route.name, cluster.name, own, struct, plan), [])


async def renewed(site: Site, route: ActionRoute, request: Request, key: str) -> Planned:
    """Return a kept plan as it is now. NotPossible: there is no such plan."""
    visitor, cluster = site.visitor(request), site.cluster(request)
    visitor.check(route.role)
    kept = site.plans.find(visitor.owner, key, route.name, cluster.name)
    if kept is None or kept.given != tuple(request.path_params[name] for name in route.parameters):
        raise NotPossible(sentence("This plan was applied already, or is older than ten minutes: make it again"))
    site.plans.drop(kept)
    plan = await route.plan(cluster, *kept.given, kept.wanted)
    fresh = site.plans.keep(visitor.owner, route.name, cluster.name, kept.given, kept.wanted, plan)
    return Planned(fresh, kept.plan.moved(plan))


async def applied(site: Site, route: ActionRoute, request: Request, found: Planned, wait_s: float) -> Work:
    """Begin an action, and return when it has ended, or after so many seconds while it goes on."""
    visitor, cluster, kept = site.visitor(request), site.cluster(request), found.kept
    site.plans.drop(kept)
    work = Work(
        id=site.plans.word()[:32],
        owner=visitor.owner,
        cluster=cluster.name,
        action=route.name,
        right=route.right,
        does=kept.plan.does,
        begun_ms=cluster.now_ms(),
    )
    facts = {
        "of": dict(zip(route.parameters, kept.given, strict=True)),
        "wanted": public_values(route, kept.wanted),
        "before": kept.plan.before,
        "after": kept.plan.after,
    }
    site.works.begin(visitor, work, lambda begun: route.apply(cluster, kept.plan, begun), facts)
    with suppress(TimeoutError):
        async with cluster.watcher.clock.timeout(wait_s):
            await work.ended.wait()
    return work


def public_values(route: ActionRoute, wanted: msgspec.Struct) -> dict[str, Any]:
    """Return what was wanted without bodies and secrets."""
    private = {one.name for one in route.fields if one.is_private}
    values = msgspec.structs.asdict(wanted)
    return {name: msgspec.to_builtins(value) for name, value in values.items() if name not in private and value != ""}
