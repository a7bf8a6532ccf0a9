"""The session and the cluster of tests/spark serve here too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.spark.conftest import own, servers, topic
from tests.spark.conftest import spark as shared

__all__ = ["own", "servers", "shared", "topic"]

# Most of a small job's time goes into tasks and micro-batches: as few of them as there can be.
SMALL = {"spark.sql.shuffle.partitions": "1", "spark.sql.streaming.noDataMicroBatches.enabled": "false"}


@pytest.fixture
def spark(shared: SparkSession) -> Iterator[SparkSession]:
    before = {name: shared.conf.get(name) or "" for name in SMALL}
    for name, value in SMALL.items():
        shared.conf.set(name, value)
    yield shared
    for name, value in before.items():
        shared.conf.set(name, value)
