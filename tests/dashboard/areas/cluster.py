"""Overview, brokers, clients, checks."""

from __future__ import annotations

from tests.client.world import World
from tests.dashboard.running import Dashboard
from tests.dashboard.test_api import fill

PATHS = ("", "/brokers", "/clients", "/doctor")


async def prepare(world: World, dashboard: Dashboard) -> None:
    await fill(world)
    await dashboard.until("/groups", lambda found: found["rows"])
