"""`write` and `writeStream`: every row arrives, with what its columns say, and a repeat is stored once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pyromq.spark.options import WriteOptions, write_options
from pyromq.spark.sending import BatchSender
from pyromq.spark.writing import RowWriter
from tests.spark.servers import Servers
from tests.spark.test_batch_read import numbers, read


def write(frame: DataFrame, servers: Servers, topic: str, **options: Any) -> None:
    writer = frame.write.format("rocketmq").mode("append").option("nameServer", servers.namesrv)
    writer.option("topic", topic).options(**options).save()


def some(spark: SparkSession, count: int, *more: str) -> DataFrame:
    return spark.range(0, count, 1, 3).selectExpr("concat('m', id) AS body", *more)


def test_every_row_arrives_with_its_columns(spark: SparkSession, servers: Servers, topic: str) -> None:
    more = ["concat('k', id) AS keys", "if(id % 2 = 0, 'even', null) AS tags", "map('n', string(id)) AS properties"]
    write(some(spark, 3000, *more), servers, topic)
    rows = read(spark, servers, topic).collect()
    assert numbers(rows) == list(range(3000))
    for row in rows:
        number = int(bytes(row.body)[1:])
        assert (row.keys, row.tags, row.properties["n"]) == (
            f"k{number}",
            "even" if number % 2 == 0 else None,
            str(number),
        )
    assert len({row.msgId for row in rows}) == 3000
    assert {row.queueId for row in rows} == {0, 1, 2, 3} or len({row.queueId for row in rows}) == 3


def test_small_requests_and_topics_by_row(spark: SparkSession, servers: Servers, topic: str) -> None:
    frame = some(spark, 200, f"concat('{topic}-', id % 2) AS topic")
    writer = frame.write.format("rocketmq").mode("append").option("nameServer", servers.namesrv)
    writer.option("maxBatchBytes", 500).save()
    assert numbers(read(spark, servers, f"{topic}-0").collect()) == list(range(0, 200, 2))
    assert numbers(read(spark, servers, f"{topic}-1").collect()) == list(range(1, 200, 2))


def test_a_sharding_key_keeps_its_queue_and_order(spark: SparkSession, servers: Servers, topic: str) -> None:
    frame = spark.range(0, 600, 1, 1).selectExpr("concat('m', id) AS body", "concat('s', id % 7) AS shardingKey")
    write(frame, servers, topic, maxBatchBytes=800)
    rows = read(spark, servers, topic).collect()
    for key in {row.properties["__SHARDINGKEY"] for row in rows}:
        own = sorted((row for row in rows if row.properties["__SHARDINGKEY"] == key), key=lambda row: row.queueOffset)
        assert len({row.queueId for row in own}) == 1
        assert [int(bytes(row.body)[1:]) for row in own] == sorted(int(bytes(row.body)[1:]) for row in own)


def test_a_queue_may_be_named(spark: SparkSession, servers: Servers, topic: str) -> None:
    write(some(spark, 90, "int(id % 3) AS queueId"), servers, topic)
    rows = read(spark, servers, topic).collect()
    assert all(row.queueId == int(bytes(row.body)[1:]) % 3 for row in rows)
    with pytest.raises(PySparkException, match="there is no queue 44 to write"):
        write(some(spark, 1, "44 AS queueId"), servers, topic)


def test_a_delayed_row_comes_later(spark: SparkSession, servers: Servers, topic: str) -> None:
    write(some(spark, 3, "if(id = 0, 1, 0) AS delayTimeLevel"), servers, topic)
    rows = spark.read.format("rocketmq").option("store", str(servers.store())).load().collect()
    parked = [row for row in rows if row.topic == "SCHEDULE_TOPIC_XXXX" and row.properties["REAL_TOPIC"] == topic]
    assert numbers(parked) == [0]


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        (["string(id) AS bdy"], "column 'bdy' cannot be written; did you mean body"),
        (["string(id) AS tags"], "column body: it is needed"),
        (["string(null) AS body"], "row 0: the body is null or empty"),
        (["string(id) AS body", "map('TRAN_MSG', 'true') AS properties"], "no transactional messages"),
    ],
)
def test_rows_that_cannot_be_sent_are_told(
    spark: SparkSession, servers: Servers, topic: str, columns: list[str], told: str
) -> None:
    with pytest.raises(PySparkException, match=told):
        write(spark.range(2).selectExpr(*columns), servers, topic)


def test_modes_and_promises(spark: SparkSession, own: Servers, topic: str) -> None:
    own.start(duplicateWindowEnable="false")
    with pytest.raises(PySparkException, match="cannot be overwritten; use mode"):
        some(spark, 1).write.format("rocketmq").mode("overwrite").options(nameServer=own.namesrv, topic=topic).save()
    with pytest.raises(PySparkException, match=r"sendOnce = 'required': .* has no duplicate window"):
        write(some(spark, 1), own, topic, sendOnce="required")
    write(some(spark, 5), own, topic)  # at least once
    assert numbers(read(spark, own, topic).collect()) == list(range(5))


def options(servers: Servers, topic: str, **more: str) -> WriteOptions:
    return write_options({"nameServer": servers.namesrv, "topic": topic} | more)


def chunks(count: int) -> list[pa.RecordBatch]:
    bodies = [f"m{number}".encode() for number in range(count)]
    return [pa.RecordBatch.from_pydict({"body": bodies[begin : begin + 40]}) for begin in range(0, count, 40)]


def test_a_task_that_is_run_again_stores_nothing_twice(spark: SparkSession, servers: Servers, topic: str) -> None:
    given = options(servers, topic, maxBatchBytes="2000")
    for _ in range(2):  # as Spark does with a task that died between its last answer and the commit
        sent = RowWriter(given, "query/7/0", 0, BatchSender(given)).write(chunks(100))
        assert (sent.rows, sent.repeatable) == (100, set())
    RowWriter(given, "query/8/0", 0, BatchSender(given)).write(chunks(20))
    assert numbers(read(spark, servers, topic).collect()) == sorted([*range(100), *range(20)])


def test_a_task_that_died_midway_and_is_run_again(spark: SparkSession, servers: Servers, topic: str) -> None:
    given = options(servers, topic, maxBatchBytes="500")

    def dying() -> Any:
        yield from chunks(100)[:2]
        raise RuntimeError("the worker was killed")

    with pytest.raises(RuntimeError):
        RowWriter(given, "query/0/0", 0, BatchSender(given)).write(dying())
    RowWriter(given, "query/0/0", 0, BatchSender(given)).write(chunks(100))
    assert numbers(read(spark, servers, topic).collect()) == list(range(100))


def test_a_broker_that_restarts_during_a_write(spark: SparkSession, own: Servers, topic: str) -> None:
    own.start()
    given = options(own, topic, maxBatchBytes="500")

    def interrupted() -> Any:
        yield from chunks(120)[:2]
        own.kill()
        own.start()
        yield from chunks(120)[2:]

    sent = RowWriter(given, "query/0/0", 0, BatchSender(given)).write(interrupted())
    assert sent.rows == 120
    assert numbers(read(spark, own, topic).collect()) == list(range(120))


def test_a_stream_from_topic_to_topic(spark: SparkSession, servers: Servers, topic: str, tmp_path: Path) -> None:
    servers.send(topic, 100)

    def run() -> None:
        source = spark.readStream.format("rocketmq").option("nameServer", servers.namesrv).option("topic", topic)
        frame = source.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 30).load()
        sink = frame.selectExpr("body", "keys", "tags").writeStream.format("rocketmq")
        sink = sink.option("nameServer", servers.namesrv).option("topic", f"{topic}-copy")
        sink = sink.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        sink.start().awaitTermination()

    run()
    assert numbers(read(spark, servers, f"{topic}-copy").collect()) == list(range(100))
    commits = sorted((tmp_path / "checkpoint" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    assert len(commits) > 2
    commits[-1].unlink()  # as if the driver had died between the last send and the commit
    (commits[-1].parent / f".{commits[-1].name}.crc").unlink(missing_ok=True)
    servers.send(topic, 10, first=100)
    run()
    assert numbers(read(spark, servers, f"{topic}-copy").collect()) == list(range(110))
