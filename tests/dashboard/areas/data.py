"""Topics and groups."""

from __future__ import annotations

from tests.client.world import World
from tests.dashboard.running import Dashboard
from tests.dashboard.test_api import fill

PATHS = (
    "/topics",
    "/topics/orders",
    "/topics/orders/change",
    "/topics/orders/delete",
    "/create/topic",
    "/groups",
    "/groups/billing",
    "/groups/billing/delete",
)
IN_JOURNEYS = ("stack",)  # by name: opened there alone, since it needs a member that is online


async def prepare(world: World, dashboard: Dashboard) -> None:
    await fill(world)
    await dashboard.until("/groups", lambda found: found["rows"])
