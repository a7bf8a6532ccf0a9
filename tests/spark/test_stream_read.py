"""`spark.readStream.format("rocketmq")`: every offset once, whatever restarts; and each trap of Spark's calls."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from pyromq.ambient import SystemClock, pause
from pyromq.client.errors import TopicNotFound
from pyromq.errors import ConfigError
from pyromq.spark.connect.cluster import Cluster
from pyromq.spark.options import Use, read_options
from pyromq.spark.read import made_anew
from pyromq.spark.read.listener import OffsetPublisher
from pyromq.spark.read.offsets import STORED, DataLoss, Queue, from_json
from pyromq.spark.read.stream_read import StreamReader
from pyromq.testing.clock import ManualClock
from tests.spark.dying_reader import DyingSource
from tests.spark.reading import numbers
from tests.spark.servers import Servers
from tests.spark.test_pulling import delete_topic, make_topic

BODY = StructType().add("body", "binary")


def stream(spark: SparkSession, servers: Servers, topic: str, **options: Any) -> DataFrame:
    source = spark.readStream.format("rocketmq").option("nameServer", servers.namesrv).option("topic", topic)
    return source.options(**({"startingOffsets": "earliest"} | options)).load()


def to_files(frame: DataFrame, folder: Path) -> StreamingQuery:
    """What is available now, into Parquet: exactly-once there."""
    sink = frame.selectExpr("body", "queueId", "queueOffset").writeStream.format("parquet")
    sink = sink.option("path", str(folder / "out")).option("checkpointLocation", str(folder / "checkpoint"))
    query = sink.trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def found(spark: SparkSession, folder: Path) -> list[int]:
    return numbers(spark.read.parquet(str(folder / "out")).collect())


def forget_last_commit(folder: Path) -> None:
    """As if the driver had died before it noted that the batch is done."""
    last = max((folder / "checkpoint" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    last.unlink()
    (last.parent / f".{last.name}.crc").unlink(missing_ok=True)


def test_all_that_is_available_in_limited_batches_and_the_rest_later(
    spark: SparkSession, servers: Servers, topic: str, tmp_path: Path
) -> None:
    servers.send(topic, 100)
    query = to_files(stream(spark, servers, topic, maxOffsetsPerTrigger=30), tmp_path)
    batches = [progress for progress in query.recentProgress if progress.numInputRows]
    assert len(batches) >= 4
    assert all(batch.numInputRows <= 32 for batch in batches)
    assert found(spark, tmp_path) == list(range(100))
    servers.send(topic, 20, first=100)
    to_files(stream(spark, servers, topic, maxOffsetsPerTrigger=30), tmp_path)
    assert found(spark, tmp_path) == list(range(120))


def test_a_batch_that_is_repeated_has_the_same_rows(
    spark: SparkSession, servers: Servers, topic: str, tmp_path: Path
) -> None:
    servers.send(topic, 50)
    rows: list[tuple[int, list[int]]] = []

    def take(frame: DataFrame, batch: int) -> None:
        rows.append((batch, numbers(frame.collect())))

    def run() -> None:
        sink = stream(spark, servers, topic).writeStream.foreachBatch(take)
        sink.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(
            availableNow=True
        ).start().awaitTermination()

    run()
    forget_last_commit(tmp_path)
    servers.send(topic, 5, first=50)
    run()
    assert rows == [(0, list(range(50))), (0, list(range(50))), (1, list(range(50, 55)))]


def test_new_topics_and_queues_join_a_stream(spark: SparkSession, servers: Servers, topic: str, tmp_path: Path) -> None:
    servers.send(f"{topic}-a", 10)

    def pattern() -> DataFrame:
        source = spark.readStream.format("rocketmq").option("nameServer", servers.namesrv)
        return source.options(topicPattern=f"{topic}-.*", startingOffsets="earliest").load()

    to_files(pattern(), tmp_path)
    servers.send(f"{topic}-b", 10, first=10)
    to_files(pattern(), tmp_path)
    assert found(spark, tmp_path) == list(range(20))


def test_a_broker_that_is_killed_and_restarted_mid_batch(
    spark: SparkSession, own: Servers, topic: str, tmp_path: Path
) -> None:
    own.start()
    own.send(topic, 400, size=100)
    frame = stream(spark, own, topic, pullBatchSize=5)
    killed: list[int] = []

    def take(batch: DataFrame, number: int) -> None:
        if not killed:
            own.kill()
            own.start()
            killed.append(number)
        batch.select("body").write.mode("overwrite").parquet(str(tmp_path / "out" / f"batch={number}"))

    sink = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path / "checkpoint"))
    sink.trigger(availableNow=True).start().awaitTermination()
    assert killed == [0]
    assert found(spark, tmp_path) == list(range(400))


def test_a_worker_that_is_killed_in_the_middle_of_its_read(
    spark: SparkSession, own: Servers, topic: str, tmp_path: Path
) -> None:
    """Once for each queue, and the broker between two runs: each offset is there once. campaign.py kills at random,
    also the driver."""
    own.start()
    make_topic(own, "broker-a", topic, queues=2)
    own.send(topic, 200)
    spark.dataSource.register(DyingSource)
    source = spark.readStream.format("dying").options(nameServer=own.namesrv, topic=topic, marks=str(tmp_path))
    frame = source.options(startingOffsets="earliest", maxOffsetsPerTrigger=120, arrowBatchRows=20, pullBatchSize=20)
    for life in range(3):
        try:
            to_files(frame.load(), tmp_path)
            break
        except PySparkException:
            assert len(list(tmp_path.glob("died-*"))) > life  # a kill each time
            own.kill()
            own.start()
    assert len(list(tmp_path.glob("died-*"))) == 2
    assert found(spark, tmp_path) == list(range(200))


def test_offsets_of_the_group_are_published_also_for_the_last_batch(
    spark: SparkSession, servers: Servers, topic: str, tmp_path: Path
) -> None:
    """Spark commits a batch when the next one begins, and the last of AvailableNow never: the listener is in time."""
    servers.send(topic, 40)
    publisher = OffsetPublisher({"nameServer": servers.namesrv}, f"group-{topic}")
    spark.streams.addListener(publisher)
    try:
        query = to_files(stream(spark, servers, topic, consumerGroup=f"group-{topic}"), tmp_path)
        assert publisher.wait_for(query.id)
    finally:
        spark.streams.removeListener(publisher)
        publisher.close()
    with Cluster(read_options({"nameServer": servers.namesrv, "topic": topic}, Use.STREAM)) as cluster:
        queues = cluster.queues([topic])
        committed = cluster.committed(f"group-{topic}", queues)
        assert committed == {queue: bounds.high for queue, bounds in cluster.bounds(queues).items()}


def test_a_wrong_option_of_a_stream_is_told(spark: SparkSession, servers: Servers, topic: str, tmp_path: Path) -> None:
    with pytest.raises(PySparkException, match="did you mean maxOffsetsPerTrigger"):
        to_files(stream(spark, servers, topic, maxOffsetPerTrigger=3), tmp_path)


# --- the order of calls, without Spark -------------------------------------------------------------------------------


def reader(servers: Servers, topic: str, clock: ManualClock | None = None, **options: str) -> StreamReader:
    given = {"nameServer": servers.namesrv, "topic": topic} | options
    return StreamReader(read_options(given, Use.STREAM), BODY, clock)


@pytest.fixture
def readers() -> Iterator[list[StreamReader]]:
    made: list[StreamReader] = []
    yield made
    for each in made:
        each.stop()


def total(offsets: dict[str, Any]) -> int:
    return sum(from_json(offsets).values())


def test_the_initial_offset_stays_the_same_when_asked_twice(
    servers: Servers, topic: str, readers: list[StreamReader]
) -> None:
    servers.send(topic, 10)
    made = reader(servers, topic)
    readers.append(made)
    first = made.initialOffset()
    servers.send(topic, 10)
    assert made.initialOffset() == first
    assert total(first) == 10


def test_a_stream_begins_where_it_is_told_to(servers: Servers, topic: str, readers: list[StreamReader]) -> None:
    """By word, offsets, group and time, of all, of a topic or of a queue; of some queues, or of topics by a pattern."""
    make_topic(servers, "broker-a", topic, queues=2)
    servers.send(topic, 40)
    high = {"0": 20, "1": 20}

    def begin(**options: str) -> dict[str, int]:
        made = StreamReader(read_options({"nameServer": servers.namesrv} | options, Use.STREAM), BODY)
        readers.append(made)
        found: dict[str, int] = made.initialOffset()[topic]["broker-a"]
        return found

    with Cluster(read_options({"nameServer": servers.namesrv, "topic": topic}, Use.STREAM)) as cluster:
        cluster.commit(f"g-{topic}", {queue: 7 + queue.queue_id for queue in cluster.queues([topic])})
    later = str(SystemClock().now_ms() + 3_600_000)
    latest = {"startingOffsetsByTimestampStrategy": "latest"}
    assert begin(topic=topic) == high  # of a stream; a batch read begins with the earliest
    assert begin(topic=topic, startingOffsets="latest") == high
    assert begin(topic=topic, startingOffsets="earliest") == {"0": 0, "1": 0}
    assert begin(topic=topic, startingOffsets="group", consumerGroup=f"g-{topic}") == {"0": 7, "1": 8}
    offsets = json.dumps({topic: {"broker-a": {"0": 5, "1": -1}}})
    assert begin(topic=topic, startingOffsets=offsets) == {"0": 5, "1": 20}
    assert begin(topic=topic, startingTimestamp="0") == {"0": 0, "1": 0}
    assert begin(topic=topic, startingTimestamp=later, **latest) == high
    by_queue = json.dumps({topic: {"broker-a": {"0": 0, "1": int(later)}}})
    assert begin(topic=topic, startingOffsetsByTimestamp=by_queue, **latest) == {"0": 0, "1": 20}
    assert begin(assign=json.dumps({topic: {"broker-a": [1]}}), startingOffsets="earliest") == {"1": 0}
    assert begin(topicPattern=f"{topic}|none", startingOffsets="earliest") == {"0": 0, "1": 0}
    with pytest.raises(ConfigError, match="startingOffsetsByTimestampStrategy=latest"):
        begin(topic=topic, startingTimestamp=later)


def test_a_first_batch_that_failed_is_repeated_from_where_it_began(
    servers: Servers, topic: str, readers: list[StreamReader]
) -> None:
    servers.send(topic, 10)
    first = reader(servers, topic, consumerGroup=f"g-{topic}")
    start = first.initialOffset()
    servers.send(topic, 10)
    first._refreshed_at = -1.0
    end = first.latestOffset(start, ReadAllAvailable())
    servers.send(topic, 30)
    again = reader(servers, topic, consumerGroup=f"g-{topic}")
    readers += [first, again]
    later = again.initialOffset()  # has moved on to 50
    assert total(later) == 50
    assert sum(part.part.size for part in again.partitions(later, end)) == 10


def test_without_a_group_such_a_repeat_is_refused_or_left_out(
    servers: Servers, topic: str, readers: list[StreamReader]
) -> None:
    servers.send(topic, 10)
    first, again, careless = (
        reader(servers, topic),
        reader(servers, topic),
        reader(servers, topic, failOnDataLoss="false"),
    )
    readers += [first, again, careless]
    end = first.initialOffset()
    servers.send(topic, 30)
    with pytest.raises(DataLoss, match="Give consumerGroup, which keeps it"):
        again.partitions(again.initialOffset(), end)
    assert careless.partitions(careless.initialOffset(), end) == []


def test_an_idle_query_asks_the_brokers_now_and_then_alone(
    servers: Servers, topic: str, readers: list[StreamReader]
) -> None:
    servers.send(topic, 10)
    made = reader(servers, topic, startingOffsets="earliest")
    readers.append(made)
    start = made.initialOffset()
    made._refreshed_at = made._clock.monotonic() + 3600  # just now, however slow this machine is
    servers.send(topic, 10)
    assert total(made.latestOffset(start, ReadAllAvailable())) == 10
    made._refreshed_at = -1.0
    assert total(made.latestOffset(start, ReadAllAvailable())) == 20


def test_limits_are_shared_and_available_now_has_a_fixed_end(
    servers: Servers, topic: str, readers: list[StreamReader]
) -> None:
    servers.send(topic, 100)
    made = reader(servers, topic, startingOffsets="earliest", maxOffsetsPerTrigger="20", minOffsetsPerTrigger="20")
    readers.append(made)
    start = made.initialOffset()
    limit = made.getDefaultReadLimit()
    assert limit == ReadMaxRows(20)
    made.prepareForTriggerAvailableNow()
    servers.send(topic, 100)
    made._refreshed_at = -1.0
    seen = start
    for _ in range(20):
        following = made.latestOffset(seen, limit)
        assert total(following) - total(seen) <= 20
        if following == seen:
            break
        seen = following
    assert total(seen) == 100  # also what is less than minOffsetsPerTrigger


def test_a_stream_waits_for_enough_messages_but_not_for_ever(
    servers: Servers, topic: str, readers: list[StreamReader]
) -> None:
    servers.send(topic, 10)
    made = reader(servers, topic, startingOffsets="earliest", minOffsetsPerTrigger="50", maxTriggerDelay="15m")
    readers.append(made)
    start = made.initialOffset()
    assert made.latestOffset(start, ReadAllAvailable()) == start
    assert made._triggered_at is not None
    made._triggered_at -= 901  # also where the machine was started less than that ago
    assert total(made.latestOffset(start, ReadAllAvailable())) == 10


def test_new_queues_of_a_topic_join_a_stream_that_runs(
    servers: Servers, topic: str, readers: list[StreamReader]
) -> None:
    make_topic(servers, "broker-a", topic, queues=1)
    servers.send(topic, 20)
    made = reader(servers, topic, startingOffsets="earliest")
    readers.append(made)
    first = made.latestOffset(made.initialOffset(), ReadAllAvailable())
    assert from_json(first) == {Queue(topic, "broker-a", 0): 20}
    make_topic(servers, "broker-a", topic, queues=3)
    second = first
    while set(second[topic]["broker-a"]) != {"0", "1", "2"}:  # until the name server has heard of it
        made._refreshed_at = -1.0
        second = made.latestOffset(first, ReadAllAvailable())
    servers.send(topic, 60, first=20)
    made._refreshed_at = -1.0
    third = made.latestOffset(second, ReadAllAvailable())
    parts = made.partitions(second, third)
    assert {part.part.queue.queue_id for part in parts} == {0, 1, 2}
    assert numbers([SimpleNamespace(**row) for part in parts for row in rows_of(made, part)]) == list(range(20, 80))


def test_a_topic_that_is_deleted_does_not_stop_a_stream_of_others(
    servers: Servers, topic: str, readers: list[StreamReader]
) -> None:
    """By a pattern, its queues stay where they were; by its name, the stream waits for it and says that it is gone. A
    topic of that name which is made anew is a loss."""
    for name in ("a", "b"):
        make_topic(servers, "broker-a", f"{topic}-{name}", queues=1)
        servers.send(f"{topic}-{name}", 10)
    clock = ManualClock()
    given = {"nameServer": servers.namesrv, "startingOffsets": "earliest"}
    many = StreamReader(read_options(given | {"topicPattern": f"{topic}-."}, Use.STREAM), BODY)
    one = StreamReader(
        read_options(given | {"topic": f"{topic}-a", "fetchOffset.numRetries": "0"}, Use.STREAM), BODY, clock
    )
    readers += [many, one]
    first = many.latestOffset(many.initialOffset(), ReadAllAvailable())
    a, b = (Queue(f"{topic}-{name}", "broker-a", 0) for name in "ab")
    assert from_json(one.latestOffset(one.initialOffset(), ReadAllAvailable())) == {a: 10}
    delete_topic(servers, "broker-a", f"{topic}-a")
    servers.send(f"{topic}-b", 5, first=10)
    many._refreshed_at = one._refreshed_at = -1.0
    second = many.latestOffset(first, ReadAllAvailable())
    assert from_json(second) == {a: 10, b: 15}
    assert [part.part.size for part in many.partitions(first, second)] == [5]
    assert from_json(one.latestOffset(one.initialOffset(), ReadAllAvailable())) == {a: 10}
    one._answered_at = one._refreshed_at = -1000.0
    with pytest.raises(TopicNotFound):
        one.latestOffset(one.initialOffset(), ReadAllAvailable())
    make_topic(servers, "broker-a", f"{topic}-a", queues=1)
    servers.send(f"{topic}-a", 3)
    many._refreshed_at = -1.0
    third = many.latestOffset(second, ReadAllAvailable())
    with pytest.raises(DataLoss, match=f"{topic}-a/broker-a/0: offsets 3 to 10 were there before: the queue was made"):
        many.partitions(second, third)


@pytest.mark.parametrize("is_planned", [True, False], ids=["the next batch", "a batch that is repeated"])
def test_a_topic_that_was_made_anew_and_has_grown_past_the_checkpoint_is_a_loss(
    servers: Servers, topic: str, readers: list[StreamReader], monkeypatch: pytest.MonkeyPatch, is_planned: bool
) -> None:
    """Its offsets fit: the stream went on in the middle of the new topic, without a word."""
    monkeypatch.setattr(made_anew, "_MARGIN_MS", 0)
    make_topic(servers, "broker-a", topic, queues=1)
    servers.send(topic, 10)
    before = reader(servers, topic, startingOffsets="earliest")
    first = before.latestOffset(before.initialOffset(), ReadAllAvailable())
    servers.send(topic, 5, first=10)
    before._refreshed_at = -1.0
    second = json.loads(json.dumps(before.latestOffset(first, ReadAllAvailable())))  # as in the checkpoint
    assert [part.part.size for part in before.partitions(first, second)] == [5]  # it is the same topic
    while SystemClock().now_ms() <= second[STORED]["broker-a"] + 1:
        pause(0.001)
    delete_topic(servers, "broker-a", topic)
    make_topic(servers, "broker-a", topic, queues=1)
    servers.send(topic, 40, first=100)
    strict, lax = (
        reader(servers, topic, startingOffsets="earliest", failOnDataLoss=str(each).lower()) for each in (True, False)
    )
    readers += [before, strict, lax]
    if is_planned:
        start, end, told = second, strict.latestOffset(second, ReadAllAvailable()), "offsets 0 to 15"
        assert from_json(lax.latestOffset(second, ReadAllAvailable())) == from_json(end)
    else:
        start, end, told = first, second, "offsets 0 to 10"
    with pytest.raises(DataLoss, match=f"{topic}/broker-a/0: {told} were stored after the stream had passed them"):
        strict.partitions(start, end)
    [part] = lax.partitions(start, end)
    assert (part.part.begin, part.part.end) == (0, 40 if is_planned else 15)


def test_a_checkpoint_that_serves_other_topics_meanwhile_makes_no_topic_another(
    servers: Servers, topic: str, readers: list[StreamReader], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an archive's does, with a pass for topics and one for dead letters: the last of those may be older."""
    monkeypatch.setattr(made_anew, "_MARGIN_MS", 0)
    older = f"{topic}-older"
    for each in (older, topic):
        make_topic(servers, "broker-a", each, queues=1)
        servers.send(each, 5)
        pause(0.01)
    offset: dict[str, Any] = {}
    for wanted in (topic, older, f"{topic},{older}"):
        made = reader(servers, wanted, startingOffsets="earliest")
        readers.append(made)
        after = made.latestOffset(offset or made.initialOffset(), ReadAllAvailable())
        assert sum(part.part.size for part in made.partitions(offset or made.initialOffset(), after)) == 5
        offset = json.loads(json.dumps(after))
        if wanted == older:
            servers.send(topic, 5, first=5)


def test_a_clock_that_was_set_back_makes_no_topic_another(
    servers: Servers, topic: str, readers: list[StreamReader]
) -> None:
    """Messages from before have later times than those behind them, for as long as the clock is behind."""
    make_topic(servers, "broker-a", topic, queues=1)
    servers.send(topic, 10)
    made = reader(servers, topic, startingOffsets="earliest")
    readers.append(made)
    first = made.latestOffset(made.initialOffset(), ReadAllAvailable())
    first[STORED]["broker-a"] += 3_600_000
    servers.send(topic, 5, first=10)
    made._refreshed_at = -1.0
    second = made.latestOffset(first, ReadAllAvailable())
    assert second[STORED] == first[STORED]
    assert from_json(second) != from_json(first)


def rows_of(made: StreamReader, part: Any) -> list[dict[str, Any]]:
    return [row for batch in made.read(part) for row in batch.to_pylist()]


def test_lag_shows_in_mqadmin_and_our_own_tools(servers: Servers, topic: str, readers: list[StreamReader]) -> None:
    servers.send(topic, 40)
    made = reader(servers, topic, startingOffsets="earliest", consumerGroup=f"g-{topic}")
    readers.append(made)
    made.commit(made.latestOffset(made.initialOffset(), ReadAllAvailable()))
    servers.send(topic, 7, first=40)
    own = tool("from pyromq.cli.main import main", "group", "lag", f"g-{topic}", "-n", servers.namesrv)
    assert own.splitlines()[:2] == [f"group  g-{topic}", "lag    7"]
    with Cluster(read_options({"nameServer": servers.namesrv, "topic": topic}, Use.STREAM)) as cluster:
        while not cluster.topics(f"%RETRY%g-{topic}"):
            pause(0.05)  # until the name server has heard of the group's retry topic, by which mqadmin finds it
    java = tool("from pyromq.mqadmin.main import main", "consumerProgress", "-g", f"g-{topic}", "-n", servers.namesrv)
    assert "Diff Total: 7" in java


def tool(code: str, *arguments: str) -> str:
    command = [sys.executable, "-c", f"{code}; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout


def test_a_reader_is_copied_without_its_connections(servers: Servers, topic: str, readers: list[StreamReader]) -> None:
    import pickle

    servers.send(topic, 10)
    made = reader(servers, topic, startingOffsets="earliest")
    readers.append(made)
    start = made.initialOffset()
    [*parts] = made.partitions(start, made.latestOffset(start, ReadAllAvailable()))
    copy = pickle.loads(pickle.dumps(made))
    rows = [row for part in pickle.loads(pickle.dumps(parts)) for batch in copy.read(part) for row in batch.to_pylist()]
    assert sorted(row["body"] for row in rows) == sorted(f"m{number}".encode() for number in range(10))
