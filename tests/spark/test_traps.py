"""What Spark does to Python sources beside the order of a stream's calls (test_stream_read.py has that)."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib.metadata import requires
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import pyromq
from pyromq.spark.failures import shown_in_a_sentence
from pyromq.spark.read.batch_read import QueuePart
from pyromq.spark.read.offsets import OffsetRange, Queue
from pyromq.spark.session import SETTINGS, settings_for
from tests.spark.servers import Servers
from tests.spark.test_batch_read import read
from tests.spark.test_pulling import make_topic
from tests.spark.test_stream_read import stream


def test_workers_run_the_python_of_the_driver(spark: SparkSession) -> None:
    assert spark.sparkContext.pythonExec == sys.executable
    assert spark.conf.get("spark.sql.session.timeZone") == SETTINGS["spark.sql.session.timeZone"]


def test_a_plan_without_tasks_gives_no_rows(spark: SparkSession, servers: Servers, topic: str) -> None:
    make_topic(servers, "broker-a", topic)
    assert read(spark, servers, topic).collect() == []


def test_settings_for_this_machine_do_not_go_to_a_cluster() -> None:
    alone, cluster, yarn = (settings_for(master) for master in ("local[2]", "spark://elsewhere:7077", "yarn"))
    assert (alone, settings_for("")) == (SETTINGS, SETTINGS)
    assert alone.keys() - cluster.keys() == {"spark.driver.host", "spark.driver.bindAddress"}
    assert cluster.keys() - yarn.keys() == {"spark.python.unix.domain.socket.enabled"}


def test_filters_are_spark_s_own_where_its_setting_is_off(spark: SparkSession, servers: Servers, topic: str) -> None:
    """A reader that takes filters would fail every query then, so ours looks as if it took none."""
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


def test_a_dataframe_and_a_view_show_later_messages_when_made_again(
    spark: SparkSession, servers: Servers, topic: str
) -> None:
    """Spark keeps the plan of a Python source's read: docs/spark.md says so, and is wrong once this fails."""
    make_topic(servers, "broker-a", topic)
    name = topic.replace("-", "_")
    using = f"USING rocketmq OPTIONS (nameServer '{servers.namesrv}', topic '{topic}')"
    spark.sql(f"CREATE TEMPORARY VIEW {name} {using}")
    loaded = read(spark, servers, topic, "body string")
    servers.send(topic, 3)
    assert (loaded.count(), spark.table(name).count()) == (3, 3)
    servers.send(topic, 2)
    spark.sql(f"REFRESH TABLE {name}")
    assert (loaded.select("body").count(), spark.table(name).count()) == (3, 3)
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {name} {using}")
    assert (read(spark, servers, topic, "body string").count(), spark.table(name).count()) == (5, 5)


def test_a_reader_that_is_never_stopped_holds_nobody_up(servers: Servers, topic: str) -> None:
    servers.send(topic, 1)
    code = (
        "from pyromq.spark.options import Use, read_options\n"
        "from pyromq.spark.read.stream_read import StreamReader\n"
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


def test_pyspark_is_not_compiled_anew_in_every_process(spark: SparkSession) -> None:
    """Spark puts a zip of its Python files in front, and a process for each stream: a second of CPU each."""
    paths = spark.sparkContext.parallelize([0], 1).map(lambda _: sys.modules["pyspark"].__file__).collect()
    assert paths == [pyspark.__file__]


def test_a_sitecustomize_of_the_users_is_run_too(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('the own one')\n", "utf-8")
    startup = Path(pyromq.__file__).parent / "spark" / "startup"
    path = os.pathsep.join((str(startup), str(tmp_path)))
    command = [sys.executable, "-c", "import sys; print(sys.modules['sitecustomize'].__file__)"]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["the own one", str(tmp_path / "sitecustomize.py")]


def test_tasks_name_the_package_which_executors_need(tmp_path: Path) -> None:
    """Classes are pickled by name: where the package is missing, that is said; `--py-files` brings a zip of it."""
    task = pickle.dumps(QueuePart(OffsetRange(Queue("orders", "broker-a", 0), 0, 5), "127.0.0.1:1"))
    code = f"import pickle; print(pickle.loads({task!r}).part.end)"
    bare = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False)
    assert "No module named 'pyromq'" in bare.stderr
    source = Path(pyromq.__file__).parent
    with zipfile.ZipFile(tmp_path / "pyromq.zip", "w") as archive:
        for file in source.rglob("*.py"):
            archive.write(file, Path("pyromq") / file.relative_to(source))
    path = [str(tmp_path / "pyromq.zip"), *(each for each in sys.path if "site-packages" in each)]
    code = f"import sys; sys.path += {path!r}; import pyromq.spark.read.pulling as p; print(p.__file__); {code}"
    shipped = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    assert shipped.stdout.split() == [str(tmp_path / "pyromq.zip" / Path("pyromq/spark/read/pulling.py")), "5"]


def test_many_tasks_are_run_by_few_workers_and_connections(spark: SparkSession, servers: Servers, topic: str) -> None:
    servers.send(topic, 200)
    frame = read(spark, servers, topic, "queueId int", maxRecordsPerPartition=10)
    assert frame.rdd.getNumPartitions() >= 20

    def process(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"pid": [os.getpid()], "rows": [batch.num_rows]})

    found = frame.mapInArrow(process, "pid bigint, rows bigint").collect()
    assert sum(row.rows for row in found) == 200
    assert len({row.pid for row in found}) <= 8  # two tasks at a time, with a worker or two each


def test_the_drivers_memory_is_what_was_asked_for(spark: SparkSession) -> None:
    """It is 1 GB by default, which a large `collect` ends, and cannot be changed once the JVM runs."""
    heap = spark.sparkContext._jvm.java.lang.Runtime.getRuntime().maxMemory()  # type: ignore[union-attr]
    asked = spark.sparkContext.getConf().get("spark.driver.memory")
    assert asked == "1g"
    assert 0.9 * (1 << 30) < heap <= 1 << 30  # collectors keep a part of it for themselves


def test_a_stateful_stream_goes_on_with_the_partitions_of_its_first_run(
    spark: SparkSession, servers: Servers, topic: str, tmp_path: Path
) -> None:
    """So that the number is set before the first run, to few: 200 tasks a batch otherwise."""
    assert int(SETTINGS["spark.sql.shuffle.partitions"]) < 10

    def run() -> dict[str, int]:
        counted: dict[str, int] = {}

        def take(batch: DataFrame, number: int) -> None:
            counted.update({row.topic: row["count"] for row in batch.collect()})

        sink = stream(spark, servers, topic).groupBy("topic").count().writeStream.outputMode("update")
        sink = sink.foreachBatch(take).option("checkpointLocation", str(tmp_path))
        sink.trigger(availableNow=True).start().awaitTermination()
        return counted

    servers.send(topic, 10)
    assert run() == {topic: 10}
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "3")
    try:
        servers.send(topic, 5)
        assert run() == {topic: 15}
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", str(before))
    last = max((tmp_path / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    told = json.loads(last.read_text().splitlines()[1])
    assert told["conf"]["spark.sql.shuffle.partitions"] == before


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"topics": "x"}, "topics = 'x': there is no such option; did you mean topic?"),
        ({"topic": "x", "pullTimeoutMs": "soon"}, "pullTimeoutMs = 'soon': allowed is"),
    ],
)
def test_a_wrong_option_of_a_read_is_a_sentence_at_load(
    spark: SparkSession, given: dict[str, str], sentence: str, is_stream: bool
) -> None:
    """Nothing has run yet, and no traceback stands in front of it."""
    reading = spark.readStream if is_stream else spark.read
    with pytest.raises(PySparkException) as refused:
        reading.format("rocketmq").option("nameServer", "127.0.0.1:9876").options(**given).load()
    assert f"ConfigError: {sentence}" in str(refused.value).splitlines()[0]
    assert "Traceback" not in str(refused.value)


def test_wrong_options_together_and_of_a_write_are_a_sentence(spark: SparkSession, servers: Servers) -> None:
    reading = spark.read.format("rocketmq").option("nameServer", servers.namesrv).option("topic", "x")
    with pytest.raises(PySparkException, match=r"(?s)^[^\n]*ConfigError: topic and topicPattern: (?!.*Traceback)"):
        reading.option("topicPattern", "y").load().count()
    rows = spark.createDataFrame([("a",)], "body string").write.format("rocketmq").mode("append")
    with pytest.raises(PySparkException, match=r"(?s)^[^\n]*ConfigError: topc = 'x': (?!.*Traceback)"):
        rows.option("nameServer", servers.namesrv).option("topc", "x").save()


def test_what_a_broker_answers_is_a_sentence_in_the_first_lines(
    spark: SparkSession, servers: Servers, tmp_path: Path
) -> None:
    given = {"nameServer": servers.namesrv, "topic": "nowhere", "fetchOffset.numRetries": "0"}
    missing = r"errors\.TopicNotFound: topic 'nowhere' does not exist on (?!.*Traceback)"
    with pytest.raises(PySparkException, match=r"(?s)^[^\n]*" + missing):
        spark.read.format("rocketmq").options(**given).load().count()
    copy = spark.readStream.format("rocketmq").options(**given).load().writeStream.format("noop")
    query = copy.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    with pytest.raises(PySparkException, match=r"(?s)^[^\n]*" + missing):
        query.awaitTermination()
    with pytest.raises(PySparkException, match=r"(?s)^[^\n]*NoNameServer: no name server answers(?!.*Traceback)"):
        spark.read.format("rocketmq").options(**given | {"nameServer": "127.0.0.1:1"}).load().count()
    rows = spark.createDataFrame([("",)], "body string").write.format("rocketmq").mode("append")
    with pytest.raises(PySparkException, match=r"(?s)^[^\n]*\n[^\n]*row 0: the body is null or empty(?!.*Traceback)"):
        rows.options(nameServer=servers.namesrv, topic="x").save()


def test_an_error_that_is_not_ours_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_HIDE_TRACEBACK", raising=False)
    with pytest.raises(KeyError), shown_in_a_sentence():
        raise KeyError
    assert "SPARK_HIDE_TRACEBACK" not in os.environ
