"""Worlds for the SDK's tests. With `PYROMQ_TEST_BROKER=java` they are Apache's, and only tests that ask for one run.

A test that needs more of the broker than the wire gives, or a setting that Apache's lacks, says so:
`@pytest.mark.own_broker("why")`. One that stops broker-a does too: `@pytest.mark.fresh_broker`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.client.cluster import Cluster
from tests.client.java_world import JavaWorld, Shared
from tests.client.world import ON_JAVA, Servers, World
from tests.interop.peers import cache, java
from tests.support import require

NewWorld = Callable[..., Awaitable[Servers]]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not ON_JAVA:
        return
    kept = [item for item in items if "shared_java" in getattr(item, "fixturenames", ())]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept
    for item in items:
        if (mark := item.get_closest_marker("own_broker")) is not None:
            item.add_marker(pytest.mark.skip(reason=f"our broker only: {mark.args[0]}"))


@pytest.fixture(scope="session")
def shared_java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared | None]:
    """None: the worlds are ours."""
    if not ON_JAVA:
        yield None
        return
    try:
        java.runtime()
        java.jars("5.5.0")
    except cache.PeerMissing as reason:
        require(False, str(reason))
    shared = Shared(tmp_path_factory.mktemp)
    yield shared
    shared.close()


def _world(folder: Path, shared: Shared | None, *, is_shared: bool = True, **settings: Any) -> Servers:
    return World(folder, **settings) if shared is None else JavaWorld(folder, shared, is_shared=is_shared, **settings)


@pytest.fixture
async def empty_world(tmp_path: Path, shared_java: Shared | None) -> AsyncIterator[Servers]:
    """Nothing runs yet; what a test starts is stopped."""
    world = _world(tmp_path, shared_java, is_shared=False)
    yield world
    await world.close()


@pytest.fixture
async def world_with(
    tmp_path: Path, shared_java: Shared | None, request: pytest.FixtureRequest
) -> AsyncIterator[NewWorld]:
    """`await world_with(trace_on=False)`: a name server and broker-a with settings of `BrokerConfig`."""
    is_shared = request.node.get_closest_marker("fresh_broker") is None
    async with AsyncExitStack() as stack:

        async def start(**settings: Any) -> Servers:
            world = _world(tmp_path, shared_java, is_shared=is_shared, **settings)
            stack.push_async_callback(world.close)
            await world.start_name_server()
            await world.start_broker()
            return world

        yield start


@pytest.fixture
async def world(world_with: NewWorld) -> Servers:
    """A name server and broker-a."""
    return await world_with()


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    """A scripted name server and broker on virtual time."""
    made = Cluster()
    yield made
    await made.close()
