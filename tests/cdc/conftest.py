"""One server of each database for all tests of this folder, started by the first that needs it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cdc.postgres import Postgres, require_postgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    require_postgres()
    server = Postgres()
    yield server
    server.close()
