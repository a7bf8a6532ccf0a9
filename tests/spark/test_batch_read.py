"""`spark.read.format("rocketmq")` from brokers."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tests.spark.servers import Servers


def read(spark: SparkSession, servers: Servers, topic: str, schema: str = "", **options: Any) -> DataFrame:
    reader = spark.read.format("rocketmq").option("nameServer", servers.namesrv).option("topic", topic)
    if schema:
        reader = reader.schema(schema)
    return reader.options(**options).load()


def test_every_message_comes_once_with_all_columns(spark: SparkSession, servers: Servers, topic: str) -> None:
    servers.send(topic, 1000, tag="even")
    rows = read(spark, servers, topic).collect()
    assert sorted(bytes(row.body) for row in rows) == sorted(f"m{number}".encode() for number in range(1000))
    assert {(row.queueId, row.queueOffset) for row in rows} == {(row.queueId, row.queueOffset) for row in rows}
    assert len({(row.brokerName, row.queueId, row.queueOffset) for row in rows}) == 1000
    assert {row.topic for row in rows} == {topic}
    assert {row.tags for row in rows} == {"even"}
    assert all(row.properties["UNIQ_KEY"] == row.msgId for row in rows)
