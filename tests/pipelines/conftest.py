"""The session and the cluster of tests/spark serve here too."""

from tests.spark.conftest import own, servers, spark, topic

__all__ = ["own", "servers", "spark", "topic"]
