"""The pytest plugin: fixtures `rmq_broker` and `rmq_client`. Needs pytest-asyncio (`pip install pyromq[testing]`).

pytest loads this in every run where pyromq is installed, so nothing heavy is imported before a fixture is used.
Settings of the broker for one test: `@pytest.mark.rmq(message_delay_level="1s 5s")`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .broker import RmqBroker
    from .client import RmqClient

try:
    from pytest_asyncio import fixture
except ImportError:  # the fixtures are there, and say what is missing when a test asks for them
    fixture = None  # type: ignore[assignment]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "rmq(**settings): settings of the broker that rmq_broker starts")


if fixture is not None:

    @fixture
    async def rmq_broker(request: pytest.FixtureRequest) -> AsyncIterator[RmqBroker]:
        """Yield a real name server and broker in this process, on a clock that stands until the test moves it."""
        from .broker import RmqBroker

        marker = request.node.get_closest_marker("rmq")
        async with RmqBroker(**(marker.kwargs if marker else {})) as broker:
            yield broker

    @fixture
    async def rmq_client(rmq_broker: RmqBroker) -> AsyncIterator[RmqClient]:
        """Yield a client of it: `send`, `receive_one`, and the whole SDK as `client`."""
        from .client import RmqClient

        made = RmqClient(rmq_broker, await rmq_broker.client())
        await made.producer.start()
        yield made

else:

    @pytest.fixture
    def rmq_broker() -> None:
        from ..text.extras import install_command

        pytest.fail(f"rmq_broker needs pytest-asyncio: {install_command('testing')}", pytrace=False)

    @pytest.fixture
    def rmq_client(rmq_broker: None) -> None:
        """Stand for the fixture: `rmq_broker` has failed before."""
