"""The data source with Apache's own name server and broker 5.5.0: pulls at their limits, writes at least once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyromq.model.names import retry_topic
from pyromq.spark.connect.cluster import Cluster
from pyromq.spark.options import Use, read_options, write_options
from pyromq.spark.write.sending import BatchSender
from pyromq.spark.write.writing import RowWriter
from tests.interop.peers import cache, java
from tests.spark.reading import numbers
from tests.spark.servers import until_registered
from tests.spark.test_write import chunks
from tests.support import require

pytestmark = pytest.mark.interop
VERSION = "5.5.0"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Address of a Java name server that knows one Java broker, and that broker's store."""
    try:
        java.runtime()
        java.classes(VERSION)
    except cache.PeerMissing as reason:
        require(False, str(reason))
    names = java.NameServer(VERSION, tmp_path_factory.mktemp("names"))
    running = java.Broker(VERSION, tmp_path_factory.mktemp("broker"), [names.address])
    until_registered(names.address, running.name)
    yield names.address, running.home / "store"
    running.kill()
    names.kill()


def test_write_read_stream_and_scan_with_apaches_broker(
    spark: SparkSession, broker: tuple[str, Path], tmp_path: Path
) -> None:
    address, store = broker
    given = write_options({"nameServer": address, "topic": "spark-java"})
    sent = RowWriter(given, "query/0/0", 0, BatchSender(given)).write(chunks(300))
    assert (sent.rows, set(sent.repeatable)) == (300, {"broker-a"})  # no duplicate window there: at least once
    frame = spark.range(300, 400).selectExpr("concat('m', id) AS body", "concat('k', id) AS keys", "'t' AS tags")
    frame.write.format("rocketmq").mode("append").options(nameServer=address, topic="spark-java").save()
    source = {"nameServer": address, "topic": "spark-java", "startingOffsets": "earliest"}
    rows = spark.read.format("rocketmq").options(**source).load().collect()
    assert numbers(rows) == list(range(400))
    assert numbers([row for row in rows if row.tags == "t"]) == list(range(300, 400))

    stream = spark.readStream.format("rocketmq").options(
        **source, consumerGroup="spark-group", maxOffsetsPerTrigger=150
    )
    sink = stream.load().select("body").writeStream.format("parquet").option("path", str(tmp_path / "out"))
    sink.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(
        availableNow=True
    ).start().awaitTermination()
    assert numbers(spark.read.parquet(str(tmp_path / "out")).collect()) == list(range(400))
    with Cluster(read_options({"nameServer": address, "topic": "spark-java"}, Use.STREAM)) as cluster:
        assert sum(cluster.committed("spark-group", cluster.queues(["spark-java"])).values()) > 0
    until_registered(address, "broker-a", retry_topic("spark-group"))  # by that mqadmin finds groups

    copy = spark.readStream.format("rocketmq").options(**source).load().select("body").writeStream.format("rocketmq")
    copy = copy.options(nameServer=address, topic="spark-java-copy", checkpointLocation=str(tmp_path / "copied"))
    copy.trigger(availableNow=True).start().awaitTermination()
    frame = spark.read.format("rocketmq").options(nameServer=address, topic="spark-java-copy").load()
    assert numbers(frame.collect()) == list(range(400))

    scan = spark.read.format("rocketmq").options(store=str(store), topic="spark-java")
    assert numbers(scan.load().collect()) == list(range(400))
