"""What Spark does to Python sources beside the order of a stream's calls (test_stream_read.py has that)."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import requires

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyromq.spark.session import SETTINGS
from tests.spark.servers import Servers
from tests.spark.test_batch_read import read
from tests.spark.test_pulling import make_topic


def test_workers_run_the_python_of_the_driver(spark: SparkSession) -> None:
    assert spark.sparkContext.pythonExec == sys.executable
    assert spark.conf.get("spark.sql.session.timeZone") == SETTINGS["spark.sql.session.timeZone"]


def test_a_plan_without_tasks_gives_no_rows(spark: SparkSession, servers: Servers, topic: str) -> None:
    make_topic(servers, "broker-a", topic)
    assert read(spark, servers, topic).collect() == []


def test_filters_are_spark_s_own_where_its_setting_is_off(spark: SparkSession, servers: Servers, topic: str) -> None:
    """A reader that takes filters would fail every query then; ours takes them only where that was asked for."""
    servers.send(topic, 10)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    try:
        assert read(spark, servers, topic, "queueOffset bigint").where("queueOffset >= 0").count() == 10
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")


def test_a_persistent_table_loses_its_options_and_says_what_is_missing(
    spark: SparkSession, servers: Servers, topic: str
) -> None:
    servers.send(topic, 1)
    name = topic.replace("-", "_")
    given = f"OPTIONS (nameServer '{servers.namesrv}', topic '{topic}')"
    spark.sql(f"CREATE TABLE {name} USING rocketmq {given}")
    try:
        with pytest.raises(PySparkException, match="nameServer: it is needed"):
            spark.sql(f"SELECT * FROM {name}").collect()
    finally:
        spark.sql(f"DROP TABLE {name}")


def test_a_reader_that_is_never_stopped_holds_nobody_up(servers: Servers, topic: str) -> None:
    servers.send(topic, 1)
    code = (
        "from pyromq.spark.options import Use, read_options\n"
        "from pyromq.spark.stream_read import StreamReader\n"
        "from tests.spark.reading import BODY\n"
        f"given = {{'nameServer': '{servers.namesrv}', 'topic': '{topic}'}}\n"
        "print(StreamReader(read_options(given, Use.STREAM), BODY).initialOffset())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert topic in done.stdout


def test_pandas_is_one_that_spark_knows() -> None:
    wanted = [each for each in requires("pyromq") or [] if each.startswith("pandas")]
    assert wanted
    assert all("<3" in each for each in wanted)
