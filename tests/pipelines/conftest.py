"""The session and the cluster of tests/spark serve here too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.spark.conftest import own, servers, topic
from tests.spark.conftest import spark as shared

__all__ = ["own", "servers", "shared", "topic"]


@pytest.fixture
def spark(shared: SparkSession) -> Iterator[SparkSession]:
    """One task per shuffle: a handful of rows needs no more, and most of a small job's time goes into tasks."""
    before = shared.conf.get("spark.sql.shuffle.partitions", "4")
    shared.conf.set("spark.sql.shuffle.partitions", "1")
    yield shared
    shared.conf.set("spark.sql.shuffle.partitions", before or "4")
