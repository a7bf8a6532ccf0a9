"""One cluster of ours for each test: name server and broker in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.client.world import World
from tests.dashboard.running import Dashboard, running_dashboard


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    world = World(tmp_path)
    await world.start_name_server()
    await world.start_broker()
    yield world
    await world.close()


@pytest.fixture
async def dashboard(world: World, tmp_path: Path) -> AsyncIterator[Dashboard]:
    async with running_dashboard(world, tmp_path) as found:
        yield found
