from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.client.cluster import Cluster
from tests.client.world import World


@pytest.fixture
async def empty_world(tmp_path: Path) -> AsyncIterator[World]:
    """Nothing runs yet; what a test starts is stopped."""
    world = World(tmp_path)
    yield world
    await world.close()


@pytest.fixture
async def world(empty_world: World) -> World:
    """A name server and broker-a."""
    await empty_world.start_name_server()
    await empty_world.start_broker()
    return empty_world


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    """A scripted name server and broker on virtual time."""
    made = Cluster()
    yield made
    await made.close()
