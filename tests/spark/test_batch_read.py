"""`spark.read.format("rocketmq")` from brokers: each option with a case."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pyromq.client.errors import TopicNotFound
from pyromq.errors import ConfigError
from pyromq.model.codes import ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.requests import RequestCode
from pyromq.spark.connect.cluster import Cluster
from pyromq.spark.connect.connection import BlockingConnection
from pyromq.spark.options import Use, read_options
from pyromq.spark.read.offsets import Queue
from tests.spark.reading import numbers, rows, tasks
from tests.spark.servers import Servers


def read(spark: SparkSession, servers: Servers, topic: str = "", schema: str = "", **options: Any) -> DataFrame:
    reader = spark.read.format("rocketmq").option("nameServer", servers.namesrv)
    if topic:
        reader = reader.option("topic", topic)
    if schema:
        reader = reader.schema(schema)
    return reader.options(**options).load()


def test_every_message_comes_once_with_all_columns(spark: SparkSession, servers: Servers, topic: str) -> None:
    servers.send(topic, 1000, tag="even")
    found = read(spark, servers, topic).collect()
    assert numbers(found) == list(range(1000))
    assert len({(row.brokerName, row.queueId, row.queueOffset) for row in found}) == 1000
    assert {(row.topic, row.tags, row.brokerName) for row in found} == {(topic, "even", "broker-a")}
    assert all(row.properties["UNIQ_KEY"] == row.msgId for row in found)
    assert all(row.storeTimestamp >= row.bornTimestamp for row in found)


def test_a_schema_prunes_columns_and_changes_types(spark: SparkSession, servers: Servers, topic: str) -> None:
    servers.send(topic, 10)
    frame = read(spark, servers, topic, "queueOffset bigint, queueId bigint, body string")
    assert [name for name, _ in frame.dtypes] == ["queueOffset", "queueId", "body"]
    assert sorted(row.body for row in frame.collect()) == sorted(f"m{number}" for number in range(10))


def test_a_wrong_schema_is_told(spark: SparkSession, servers: Servers, topic: str) -> None:
    servers.send(topic, 1)
    with pytest.raises(PySparkException, match="did you mean queueOffset"):
        read(spark, servers, topic, "queueOfset bigint").collect()
    with pytest.raises(PySparkException, match="column properties is map<string,string>, which does not become int"):
        read(spark, servers, topic, "properties int").collect()


def send_unreadable(servers: Servers, topic: str) -> None:
    """A message that says that it is compressed, and is not."""
    task = tasks(servers, topic)[0]
    fields = {"a": "p", "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": "769", "g": "0", "h": "0", "j": "0"}
    connection = BlockingConnection(
        task.address, read_options({"nameServer": servers.namesrv, "topic": topic}, Use.BATCH)
    )
    try:
        connection.send(Command(code=RequestCode.SEND_MESSAGE_V2, fields=fields), b"no zlib")
        assert connection.receive().code == ResponseCode.SUCCESS
    finally:
        connection.close()


def test_a_record_that_cannot_be_read_fails_is_left_out_or_has_no_body(
    spark: SparkSession, servers: Servers, topic: str
) -> None:
    servers.send(topic, 20)
    send_unreadable(servers, topic)
    servers.send(topic, 20, first=20)
    with pytest.raises(PySparkException, match=r"the record at offset \d+ of queue 0 .*Set mode=DROPMALFORMED"):
        read(spark, servers, topic).collect()
    assert numbers(read(spark, servers, topic, mode="DROPMALFORMED").collect()) == list(range(40))
    found = read(spark, servers, topic, mode="permissive").collect()
    (bad,) = [row for row in found if row.body is None]
    assert (bad.topic, bad.queueId, bad.sysFlag) == (topic, 0, 769)
    assert numbers([row for row in found if row is not bad]) == list(range(40))
    files = spark.read.format("rocketmq").option("store", str(servers.store())).option("topic", topic)
    with pytest.raises(PySparkException, match=rf"the record at offset \d+ .*position {bad.commitLogOffset}"):
        files.load().collect()
    assert numbers(files.option("mode", "DROPMALFORMED").load().collect()) == list(range(40))
    assert files.option("mode", "PERMISSIVE").load().count() == 41


def test_offsets_by_json_time_and_group(servers: Servers, topic: str) -> None:
    servers.send(topic, 100)
    everything = rows(servers, topic)
    places = {topic: {"broker-a": {"0": 0, "1": -1, "2": -1, "3": -1}}}
    first = rows(servers, topic, startingOffsets=json.dumps(places))
    assert numbers(first) == numbers([row for row in everything if row.queueId == 0])
    ends = {topic: {"broker-a": {str(queue): 2 if queue == 0 else 0 for queue in range(4)}}}
    some = rows(servers, topic, startingOffsets="earliest", endingOffsets=json.dumps(ends))
    assert sorted((row.queueId, row.queueOffset) for row in some) == [(0, 0), (0, 1)]
    with Cluster(read_options({"nameServer": servers.namesrv, "topic": topic}, Use.BATCH)) as cluster:
        high = cluster.bounds(cluster.queues([topic]))
        cluster.commit(f"group-{topic}", {queue: bounds.high for queue, bounds in high.items()})
    group: dict[str, Any] = {"consumerGroup": f"group-{topic}", "startingOffsets": "group"}
    assert rows(servers, topic, **group) == []
    servers.send(topic, 5, first=100)
    assert numbers(rows(servers, topic, **group)) == list(range(100, 105))


def test_starts_and_ends_by_time_for_all_and_by_topic_or_queue(servers: Servers, topic: str) -> None:
    servers.send(topic, 100)
    everything = rows(servers, topic)
    middle = sorted(row.storeTimestamp for row in everything)[50]
    since = int(middle.timestamp() * 1000)
    later = numbers([row for row in everything if row.storeTimestamp >= middle])
    sooner = numbers([row for row in everything if row.storeTimestamp < middle])
    start: dict[str, Any] = {"startingOffsetsByTimestampStrategy": "latest"}
    assert numbers(rows(servers, topic, startingTimestamp=since, **start)) == later
    assert numbers(rows(servers, topic, endingTimestamp=since)) == sooner
    by_topic = json.dumps({topic: since})
    by_queue = json.dumps({topic: {"broker-a": {str(queue): since for queue in range(4)}}})
    for times in (by_topic, by_queue):
        assert numbers(rows(servers, topic, startingOffsetsByTimestamp=times, **start)) == later
        assert numbers(rows(servers, topic, endingOffsetsByTimestamp=times)) == sooner


def test_a_time_with_nothing_since_is_an_error_unless_told(servers: Servers, topic: str) -> None:
    servers.send(topic, 4)
    future: dict[str, Any] = {"startingTimestamp": "2100-01-01T00:00:00Z"}
    with pytest.raises(ConfigError, match="startingOffsetsByTimestampStrategy=latest"):
        rows(servers, topic, **future)
    assert rows(servers, topic, **future, startingOffsetsByTimestampStrategy="latest") == []


def test_topics_by_list_pattern_and_assign(servers: Servers, topic: str) -> None:
    for number in range(3):
        servers.send(f"{topic}-x{number}", 40)  # some for each queue
    names = ["topic", "queueId"]
    both = rows(servers, f"{topic}-x0,{topic}-x1", names)
    assert (len(both), {row.topic for row in both}) == (80, {f"{topic}-x0", f"{topic}-x1"})
    fitting = rows(servers, names=names, topicPattern=f"{topic}-x[12]")
    assert {row.topic for row in fitting} == {f"{topic}-x1", f"{topic}-x2"}
    assign = json.dumps({f"{topic}-x0": {"broker-a": [1, 3]}})
    assert {row.queueId for row in rows(servers, names=names, assign=assign)} == {1, 3}
    with pytest.raises(ConfigError, match=f"there is no queue {topic}-x0/broker-a/9; there are"):
        rows(servers, assign=json.dumps({f"{topic}-x0": {"broker-a": [9]}}))


def test_tasks_are_cut_by_number_and_by_size(servers: Servers, topic: str) -> None:
    servers.send(topic, 400)
    assert len(tasks(servers, topic, minPartitions=16)) >= 16
    assert len(tasks(servers, topic, maxRecordsPerPartition=30)) >= 14
    assert numbers(rows(servers, topic, maxRecordsPerPartition=30)) == list(range(400))


def test_tags_are_chosen_by_the_broker_and_told_apart_by_text(servers: Servers, topic: str) -> None:
    servers.send(topic, 50, tag="Aa")  # Java's hashes of Aa and BB are equal
    servers.send(topic, 50, first=50, tag="BB")
    servers.send(topic, 50, first=100, tag="other")
    assert numbers(rows(servers, topic, ["body"], tags="Aa || nothing")) == list(range(50))


def test_small_pulls_give_the_same(servers: Servers, topic: str) -> None:
    servers.send(topic, 300)
    found = rows(servers, topic, ["body"], pullGroup="ordinary", pullBatchSize=7, arrowBatchRows=20)
    assert numbers(found) == list(range(300))


def test_a_limit_leaves_the_connection_in_order(spark: SparkSession, servers: Servers, topic: str) -> None:
    servers.send(topic, 2000, size=200)
    frame = read(spark, servers, topic, "body binary", pullBatchSize=10, arrowBatchRows=10)
    assert len(frame.limit(3).collect()) == 3
    assert frame.count() == 2000


def test_a_missing_topic_is_told_with_the_closest(servers: Servers, topic: str) -> None:
    servers.send(topic, 1)
    with pytest.raises(TopicNotFound, match=f"topic '{topic}s' does not exist.*Closest: '{topic}'"):
        rows(servers, f"{topic}s")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"topic": "x"}, "nameServer: it is needed"),
        ({"nameServer": "127.0.0.1:1"}, "topic, topicPattern, assign: one of them is needed"),
        ({"nameServer": "127.0.0.1:1", "maxOffsetsPerTrigger": "5"}, "topic, topicPattern, assign: one of them"),
        ({"nameServer": "127.0.0.1:1", "topic": "x", "tags": "a", "sql": "b = 1"}, "tags and sql: a broker filters by"),
    ],
)
def test_what_no_read_can_do_without_is_told_at_load(spark: SparkSession, given: dict[str, str], told: str) -> None:
    for reader in (spark.read, spark.readStream):
        with pytest.raises(PySparkException, match=rf"^[^\n]*{told}"):
            reader.format("rocketmq").options(**given).load()


def test_a_wrong_address_fails_in_seconds(spark: SparkSession) -> None:
    reader = spark.read.format("rocketmq").option("nameServer", "127.0.0.1:1").option("topic", "x")
    began = time.monotonic()
    with pytest.raises(PySparkException, match="no name server answers"):
        reader.load().collect()
    assert time.monotonic() - began < 600  # an endless wait would be a fault; a loaded machine is not


def test_an_end_behind_the_last_message_is_a_failure_or_left_out(
    spark: SparkSession, servers: Servers, topic: str
) -> None:
    servers.send(topic, 40)
    beyond = json.dumps({topic: {"broker-a": {str(queue): 1000 for queue in range(4)}}})
    with pytest.raises(PySparkException, match=r"are not there: the queue ends at .*Set failOnDataLoss=false"):
        read(spark, servers, topic, endingOffsets=beyond).collect()
    assert numbers(rows(servers, topic, endingOffsets=beyond, failOnDataLoss=False)) == list(range(40))


def test_a_temporary_view_of_sql(spark: SparkSession, servers: Servers, topic: str) -> None:
    servers.send(topic, 12, tag="t")
    name = topic.replace("-", "_")
    spark.sql(
        f"CREATE TEMPORARY VIEW {name} USING rocketmq "
        f"OPTIONS (nameServer '{servers.namesrv}', topic '{topic}', startingOffsets 'earliest')"
    )
    [row] = spark.sql(f"SELECT count(*) AS messages, max(tags) AS tag FROM {name}").collect()
    assert (row.messages, row.tag) == (12, "t")


def test_a_brokers_queues_are_known_by_topic_broker_and_number(servers: Servers, topic: str) -> None:
    servers.send(topic, 1)
    with Cluster(read_options({"nameServer": servers.namesrv, "topic": topic}, Use.BATCH)) as cluster:
        assert set(cluster.queues([topic])) == {Queue(topic, "broker-a", number) for number in range(4)}


def test_sql_is_applied_by_the_broker(spark: SparkSession, own: Servers, topic: str) -> None:
    own.start(enablePropertyFilter="true")
    frame = spark.range(60).selectExpr("concat('m', id) AS body", "map('n', string(id)) AS properties")
    frame.write.format("rocketmq").mode("append").options(nameServer=own.namesrv, topic=topic).save()
    assert numbers(rows(own, topic, ["body"], sql="n >= 40")) == list(range(40, 60))
