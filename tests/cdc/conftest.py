"""One server of each database for all tests of this folder, started by the first that needs it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cdc.mariadb import MariaDb, require_mariadb
from tests.cdc.postgres import Postgres, require_postgres


@pytest.fixture(scope="session")
def mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    require_mariadb()
    server = MariaDb(tmp_path_factory.mktemp("mariadb"))
    yield server
    server.kill()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    require_postgres()
    server = Postgres()
    yield server
    server.close()
