"""Two tables of a topic, declared: Spark finds out in which order to make them, and keeps the checkpoint."""

from __future__ import annotations

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession


@dp.table
def received() -> DataFrame:
    """Every message once: a streaming table, with a checkpoint."""
    spark = SparkSession.active()
    reader = spark.readStream.format("rocketmq").option("topic", "orders").option("startingOffsets", "earliest")
    messages = reader.option("nameServer", os.environ.get("PYROMQ_NAMESRV", "127.0.0.1:9876")).load()
    return messages.selectExpr("msgId", "tags", "keys", "CAST(body AS STRING) AS body", "storeTimestamp")


@dp.materialized_view
def orders_by_tag() -> DataFrame:
    """How many there are of each kind, counted anew by each run."""
    return SparkSession.active().read.table("received").groupBy("tags").count()
