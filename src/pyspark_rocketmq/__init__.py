"""Lets Spark find the data source `rocketmq`: it looks for `DefaultSource` in every module named `pyspark_...`."""

from pyromq.spark.source import RocketMQSource as DefaultSource

__all__ = ["DefaultSource"]
