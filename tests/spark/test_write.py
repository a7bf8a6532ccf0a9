"""`write` and `writeStream`: every row arrives, with what its columns say, and a repeat is stored once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pyromq.ambient import pause
from pyromq.client.core.routing import Route
from pyromq.client.errors import NoNameServer
from pyromq.errors import ConfigError, PyroError
from pyromq.spark.connect.cluster import Cluster
from pyromq.spark.options import WriteOptions, write_options
from pyromq.spark.write.each_batch import send_batches
from pyromq.spark.write.sending import BatchSender
from pyromq.spark.write.writing import RowWriter, check_columns
from tests.spark.reading import numbers, rows
from tests.spark.servers import Servers

SPARK_TYPES = {"flag": "bigint", "properties": "map<string,string>", "queueId": "int"}


def write(frame: DataFrame, servers: Servers, topic: str, **options: Any) -> None:
    writer = frame.write.format("rocketmq").mode("append").option("nameServer", servers.namesrv)
    writer.option("topic", topic).options(**options).save()


def some(spark: SparkSession, count: int, *more: str) -> DataFrame:
    return spark.range(0, count, 1, 3).selectExpr("concat('m', id) AS body", *more)


def test_every_row_arrives_with_its_columns(spark: SparkSession, servers: Servers, topic: str) -> None:
    more = ["concat('k', id) AS keys", "if(id % 2 = 0, 'even', null) AS tags", "map('n', string(id)) AS properties"]
    write(some(spark, 3000, *more), servers, topic)
    found = rows(servers, topic)
    assert numbers(found) == list(range(3000))
    for row in found:
        number = int(bytes(row.body)[1:])
        assert (row.keys, row.tags, dict(row.properties)["n"]) == (
            f"k{number}",
            "even" if number % 2 == 0 else None,
            str(number),
        )
    assert len({row.msgId for row in found}) == 3000
    assert len({row.queueId for row in found}) >= 3


@pytest.mark.parametrize("keys", ["array('k1', 'k2')", "split('k1 k2', ' ')", "array(concat('k', id + 1), 'k2')"])
def test_keys_may_be_an_array(spark: SparkSession, servers: Servers, topic: str, keys: str) -> None:
    write(some(spark, 1, f"{keys} AS keys"), servers, topic)
    assert [row.keys for row in rows(servers, topic)] == ["k1 k2"]


def test_small_requests_and_topics_by_row(spark: SparkSession, servers: Servers, topic: str) -> None:
    frame = some(spark, 200, f"concat('{topic}-', id % 2) AS topic")
    writer = frame.write.format("rocketmq").mode("append").option("nameServer", servers.namesrv)
    writer.option("maxBatchBytes", 500).save()
    assert numbers(rows(servers, f"{topic}-0")) == list(range(0, 200, 2))
    assert numbers(rows(servers, f"{topic}-1")) == list(range(1, 200, 2))


def test_a_sharding_key_keeps_its_queue_and_order(spark: SparkSession, servers: Servers, topic: str) -> None:
    frame = spark.range(0, 600, 1, 1).selectExpr("concat('m', id) AS body", "concat('s', id % 7) AS shardingKey")
    write(frame, servers, topic, maxBatchBytes=800)
    found = rows(servers, topic)
    for key in {dict(row.properties)["__SHARDINGKEY"] for row in found}:
        same = [row for row in found if dict(row.properties)["__SHARDINGKEY"] == key]
        own = sorted(same, key=lambda row: row.queueOffset)
        assert len({row.queueId for row in own}) == 1
        assert [int(bytes(row.body)[1:]) for row in own] == sorted(int(bytes(row.body)[1:]) for row in own)


def test_a_queue_may_be_named(spark: SparkSession, servers: Servers, topic: str) -> None:
    write(some(spark, 90, "int(id % 3) AS queueId", "'broker-a' AS brokerName"), servers, topic)
    found = rows(servers, topic)
    assert len(found) == 90
    assert all(row.queueId == int(bytes(row.body)[1:]) % 3 for row in found)


def test_a_delayed_row_comes_later(spark: SparkSession, servers: Servers, topic: str) -> None:
    write(some(spark, 3, "if(id = 0, 1, 0) AS delayTimeLevel"), servers, topic)
    files = spark.read.format("rocketmq").option("store", str(servers.store())).option("topic", "SCHEDULE_TOPIC_XXXX")
    parked = [row for row in files.load().collect() if row.properties["REAL_TOPIC"] == topic]
    assert numbers(parked) == [0]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"bdy": ["x"]}, "column 'bdy' cannot be written; did you mean body"),
        ({"tags": ["x"]}, "column body: it is needed"),
        ({"body": [None]}, "row 0: the body is null or empty"),
        ({"body": ["x"], "tags": ["a\x01b"]}, "row 0: a property, key or tag holds 0x01 or 0x02"),
        ({"body": ["x"], "properties": [[("TRAN_MSG", "true")]]}, "no transactional messages"),
        ({"body": ["x"], "queueId": [44]}, "there is no queue 44 to write"),
        ({"body": ["x"], "topic": ["a b"]}, "topic"),
        ({"body": ["x"], "flag": [1 << 40]}, "column flag: a value does not become int32"),
    ],
)
def test_rows_that_cannot_be_sent_are_told(servers: Servers, topic: str, given: dict[str, Any], told: str) -> None:
    asked = options(servers, topic)
    types = {"properties": pa.map_(pa.string(), pa.string())}
    arrays = {name: pa.array(values, types.get(name)) for name, values in given.items()}

    def task() -> None:
        check_columns({name: SPARK_TYPES.get(name, "string") for name in given}, asked)
        RowWriter(asked, "query/0/0", 0, BatchSender(asked)).write([pa.RecordBatch.from_pydict(arrays)])

    with pytest.raises(PyroError, match=told):
        task()


@pytest.mark.parametrize(
    ("name", "kind", "wanted"),
    [
        ("body", "bigint", "binary or string"),
        ("keys", "array<array<string>>", "string or array<string>"),
        ("tags", "map<string,string>", "string"),
        ("properties", "string", "map<string,string>"),
        ("properties", "map<string,int>", "map<string,string>"),
        ("queueId", "string", "int"),
        ("queueId", "double", "int"),
        ("delayTimeLevel", "decimal(2,1)", "int"),
        ("deliverTimestamp", "string", "timestamp, or bigint in milliseconds"),
    ],
)
def test_a_column_of_a_wrong_type_is_told_before_anything_is_sent(name: str, kind: str, wanted: str) -> None:
    asked = write_options({"nameServer": "127.0.0.1:9876", "topic": "x"})
    told = f"column {name} is of type {kind}; it must be {wanted}: convert it by cast"
    with pytest.raises(ConfigError, match=f"^{re.escape(told)}$"):
        check_columns({"body": "string", name: kind}, asked)


def test_types_that_fit_are_written() -> None:
    asked = write_options({"nameServer": "127.0.0.1:9876", "topic": "x"})
    fitting = {
        "body": ["binary", "string", "varchar(9)"],
        "keys": ["string", "bigint", "void", "array<string>", "array<bigint>"],
        "tags": ["string", "int", "void"],
        "properties": ["map<string,string>", "void", "map<string,void>", "map<void,void>"],
        "queueId": ["int", "bigint", "void"],
        "deliverTimestamp": ["timestamp", "timestamp_ntz", "bigint", "void"],
    }
    for name, kinds in fitting.items():
        for kind in kinds:
            check_columns({"body": "string", name: kind}, asked)


def test_columns_without_a_type_are_as_if_they_were_not_there(
    spark: SparkSession, servers: Servers, topic: str
) -> None:
    write(some(spark, 2, "null AS properties", "null AS keys", "null AS tags", "null AS flag"), servers, topic)
    write(some(spark, 2, "map() AS properties", "array() AS keys"), servers, topic)
    write(some(spark, 2, "map('a', null) AS properties", "array(null) AS keys"), servers, topic)
    found = rows(servers, topic)
    assert numbers(found) == [0, 0, 0, 1, 1, 1]
    assert {(row.keys, row.tags, row.flag) for row in found} == {(None, None, 0)}
    assert not any("a" in dict(row.properties) for row in found)


def test_spark_is_told_too_and_nothing_is_overwritten(spark: SparkSession, servers: Servers, topic: str) -> None:
    with pytest.raises(PySparkException, match="column 'bdy' cannot be written; did you mean body"):
        write(spark.range(2).selectExpr("string(id) AS bdy"), servers, topic)
    with pytest.raises(PySparkException, match=r"^[^\n]*column queueId is of type string; it must be int"):
        write(some(spark, 1, "'a' AS queueId"), servers, topic)
    to = {"nameServer": servers.namesrv, "topic": topic}
    with pytest.raises(PySparkException, match="cannot be overwritten; use mode"):
        some(spark, 1).write.format("rocketmq").mode("overwrite").options(**to).save()


def test_without_a_window_it_is_at_least_once_or_refused(own: Servers, topic: str) -> None:
    own.start(duplicateWindowEnable="false")
    strict, asked = options(own, topic, sendOnce="required"), options(own, topic)
    with pytest.raises(PyroError, match=r"sendOnce = 'required': .* has no duplicate window"):
        RowWriter(strict, "query/0/0", 0, BatchSender(strict)).write(chunks(1))
    sent = RowWriter(asked, "query/0/0", 0, BatchSender(asked)).write(chunks(50))
    assert (sent.rows, set(sent.repeatable)) == (50, {"broker-a"})
    assert numbers(rows(own, topic)) == list(range(50))


def test_a_send_that_nobody_takes_ends_by_its_timeout(own: Servers, topic: str) -> None:
    own.start()
    asked = options(own, topic, sendTimeoutMs="300", connectTimeoutMs="200", callTimeoutMs="200")
    RowWriter(asked, "query/0/0", 0, BatchSender(asked)).write(chunks(1))

    def dying() -> Iterator[pa.RecordBatch]:
        yield chunks(1)[0]
        own.kill()
        yield chunks(1)[0]

    with pytest.raises(PyroError, match="were not stored within sendTimeoutMs = 300"):
        RowWriter(asked, "query/1/0", 0, BatchSender(asked)).write(dying())


def test_a_rate_is_kept(servers: Servers, topic: str) -> None:
    waits: list[float] = []
    asked = options(servers, topic, maxMessagesPerSecond="100", producerGroup="slow-writers")
    RowWriter(asked, "query/0/0", 0, BatchSender(asked, pause=waits.append)).write(chunks(100))
    assert sum(waits) > 0
    assert numbers(rows(servers, topic)) == list(range(100))


def options(servers: Servers, topic: str, **more: str) -> WriteOptions:
    return write_options({"nameServer": servers.namesrv, "topic": topic} | more)


def chunks(count: int) -> list[pa.RecordBatch]:
    bodies = [f"m{number}".encode() for number in range(count)]
    return [pa.RecordBatch.from_pydict({"body": bodies[begin : begin + 40]}) for begin in range(0, count, 40)]


def test_a_task_that_is_run_again_stores_nothing_twice(servers: Servers, topic: str) -> None:
    given = options(servers, topic, maxBatchBytes="2000")
    for _ in range(2):  # as Spark does with a task that died between its last answer and the commit
        sent = RowWriter(given, "query/7/0", 0, BatchSender(given)).write(chunks(100))
        assert (sent.rows, set(sent.repeatable)) == (100, set())
    RowWriter(given, "query/8/0", 0, BatchSender(given)).write(chunks(20))
    assert numbers(rows(servers, topic)) == sorted([*range(100), *range(20)])


def test_a_batch_write_under_a_name_is_stored_once_however_often_it_is_done(
    spark: SparkSession, servers: Servers, topic: str
) -> None:
    for _ in range(2):
        write(some(spark, 200), servers, topic, origin="report of Monday")
    found = rows(servers, topic)
    assert numbers(found) == list(range(200))
    write(some(spark, 200), servers, topic, origin="report of Tuesday")
    assert numbers(rows(servers, topic)) == sorted([*range(200), *range(200)])


def test_a_stream_has_its_own_name(spark: SparkSession, servers: Servers, topic: str, tmp_path: Path) -> None:
    sink = spark.readStream.format("rate").load().selectExpr("string(value) AS body").writeStream.format("rocketmq")
    given = {"nameServer": servers.namesrv, "topic": topic, "checkpointLocation": str(tmp_path), "origin": "mine"}
    with pytest.raises(PySparkException, match="origin = 'mine': it names a batch write"):
        sink.options(**given).start().awaitTermination(60)


@pytest.mark.parametrize("tasks", [[75, 75], [25, 25], [20, 1, 1, 1, 1]])
def test_free_rows_are_spread_over_all_queues(servers: Servers, topic: str, tasks: list[int]) -> None:
    given = options(servers, topic)
    for _ in range(2):  # a repeat makes the same requests
        for partition, count in enumerate(tasks):
            batch = pa.RecordBatch.from_pydict({"body": [f"m{number}".encode() for number in range(count)]})
            RowWriter(given, f"{topic}/0/{partition}", partition, BatchSender(given)).write([batch])
    found = rows(servers, topic)
    assert len(found) == sum(tasks)
    with Cluster(given) as cluster:
        assert {row.queueId for row in found} == {queue.queue_id for queue in cluster.queues([topic])}


def test_a_task_that_died_midway_and_is_run_again(servers: Servers, topic: str) -> None:
    given = options(servers, topic, maxBatchBytes="500")

    def dying() -> Any:
        yield from chunks(100)[:2]
        raise RuntimeError("the worker was killed")

    with pytest.raises(RuntimeError):
        RowWriter(given, "query/0/0", 0, BatchSender(given)).write(dying())
    RowWriter(given, "query/0/0", 0, BatchSender(given)).write(chunks(100))
    assert numbers(rows(servers, topic)) == list(range(100))


def test_a_broker_that_restarts_during_a_write(own: Servers, topic: str) -> None:
    own.start()
    given = options(own, topic, maxBatchBytes="500")

    def interrupted() -> Any:
        yield from chunks(120)[:2]
        own.kill()
        own.start()
        yield from chunks(120)[2:]

    sent = RowWriter(given, "query/0/0", 0, BatchSender(given)).write(interrupted())
    assert sent.rows == 120
    assert numbers(rows(own, topic)) == list(range(120))


def test_a_stream_from_topic_to_topic(spark: SparkSession, servers: Servers, topic: str, tmp_path: Path) -> None:
    servers.send(topic, 100)

    def run() -> None:
        source = spark.readStream.format("rocketmq").option("nameServer", servers.namesrv).option("topic", topic)
        frame = source.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 60).load()
        sink = frame.selectExpr("body", "keys", "tags").writeStream.format("rocketmq")
        sink = sink.option("nameServer", servers.namesrv).option("topic", f"{topic}-copy")
        sink = sink.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        sink.start().awaitTermination()

    run()
    assert numbers(rows(servers, f"{topic}-copy")) == list(range(100))
    commits = sorted((tmp_path / "checkpoint" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    assert len(commits) > 1
    commits[-1].unlink()  # as if the driver had died between the last send and the commit
    (commits[-1].parent / f".{commits[-1].name}.crc").unlink(missing_ok=True)
    servers.send(topic, 10, first=100)
    run()
    assert numbers(rows(servers, f"{topic}-copy")) == list(range(110))


@pytest.mark.parametrize("mode", ["update", "complete"])
def test_counts_of_a_stream_are_sent_as_they_change(
    spark: SparkSession, servers: Servers, topic: str, tmp_path: Path, mode: str
) -> None:
    """Update through `foreachBatch`; complete is an ordinary write of the whole result, batch after batch."""

    def run() -> None:
        source = spark.readStream.format("rocketmq").option("nameServer", servers.namesrv).option("topic", topic)
        counts = source.option("startingOffsets", "earliest").load().groupBy("tags").count()
        sink = counts.selectExpr("concat(tags, '=', count) AS body").writeStream.outputMode(mode)
        given = {"nameServer": servers.namesrv, "topic": f"{topic}-counts"}
        sink = (
            sink.foreachBatch(send_batches(**given)) if mode == "update" else sink.format("rocketmq").options(**given)
        )
        sink.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start().awaitTermination()

    def sent() -> list[bytes]:
        return sorted(bytes(row.body) for row in rows(servers, f"{topic}-counts"))

    write(spark.createDataFrame([("a", "x"), ("b", "x"), ("c", "y")], "body string, tags string"), servers, topic)
    run()
    assert sent() == [b"x=2", b"y=1"]
    write(spark.createDataFrame([("d", "y")], "body string, tags string"), servers, topic)
    run()
    assert sent() == sorted([b"x=2", b"y=1", b"y=2"] + ([b"x=2"] if mode == "complete" else []))
    (last,) = (tmp_path / "commits").glob("1")
    last.unlink()  # as if the driver had died between the last send and the commit
    (last.parent / ".1.crc").unlink(missing_ok=True)
    before = sent()
    run()
    assert sent() == before


def test_batches_are_refused_before_the_stream_begins() -> None:
    with pytest.raises(ConfigError, match=r"^topc = 'x': there is no such option; did you mean topic\?"):
        send_batches(nameServer="127.0.0.1:9876", topc="x")
    with pytest.raises(ConfigError, match="origin = 'mine'"):
        send_batches(nameServer="127.0.0.1:9876", topic="x", origin="mine")


def test_batches_of_no_stream_are_refused() -> None:
    """Two calls would have the same ids, and brokers take the second one's rows for repeats of the first one's."""
    rows = MagicMock()
    rows.sparkSession.sparkContext.getLocalProperty.return_value = None
    with pytest.raises(ConfigError, match="send_batches is for foreachBatch"):
        send_batches(nameServer="127.0.0.1:9876", topic="x")(rows, 0)
    assert not rows.write.mock_calls


@pytest.mark.parametrize("time_ms", [60_000, 1])
def test_a_task_that_begins_while_the_name_server_is_away_waits_for_it(
    servers: Servers, topic: str, monkeypatch: pytest.MonkeyPatch, time_ms: int
) -> None:
    """Within sendTimeoutMs, as for a broker that is away: it failed at once."""
    asked = options(servers, topic, sendTimeoutMs=str(time_ms))
    pauses: list[float] = []

    def wait(seconds: float) -> None:
        pauses.append(seconds)
        pause(0.01)

    sender = BatchSender(asked, pause=wait)
    route = sender._cluster.route_to_write

    def away(name: str, *, make: bool) -> Route:
        if time_ms == 1 or len(pauses) < 2:
            raise NoNameServer("no name server answers")
        return route(name, make=make)

    monkeypatch.setattr(sender._cluster, "route_to_write", away)
    task = RowWriter(asked, "query/0/0", 0, sender)
    if time_ms == 1:
        with pytest.raises(NoNameServer):
            task.write([pa.RecordBatch.from_pydict({"body": ["m0"]})])
        return
    assert task.write([pa.RecordBatch.from_pydict({"body": ["m0"]})]).rows == 1
    assert len(pauses) == 2
