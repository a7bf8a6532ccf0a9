"""One Spark session and one cluster for all tests of this folder; each test has a topic of its own."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyromq.spark.session import new_session
from tests.spark.servers import Servers
from tests.support import require

_numbers = itertools.count(1)

# Every query here is small and new: compiling it, in Spark or in the JVM, takes longer than running it.
QUICK = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    require(shutil.which("java") is not None, "Spark needs Java: apt-get install openjdk-17-jre-headless")
    tables = tmp_path_factory.mktemp("tables")
    session = new_session(
        "tests", master="local[2]", memory="1g", settings=QUICK | {"spark.sql.warehouse.dir": str(tables)}
    )
    yield session
    session.stop()


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    running = Servers(tmp_path_factory.mktemp("servers"))
    try:
        running.start()
        yield running
    finally:
        running.close()


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Servers]:
    """A name server for this test alone; brokers are started by it."""
    running = Servers(tmp_path)
    try:
        yield running
    finally:
        running.close()


@pytest.fixture
def topic() -> str:
    return f"topic-{next(_numbers)}"
