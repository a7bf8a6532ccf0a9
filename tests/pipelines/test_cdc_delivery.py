"""cdc-redis and cdc-jdbc from a topic to a real store: a whole workload, restarts, poison events, a sink away."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg2
import pytest
import redis
from pyspark.sql import SparkSession

import pyromq
from pyromq.cdc.events import KEY_PROPERTY, NUMBER_PROPERTY, Op, encode_event, encode_key
from pyromq.errors import ConfigError
from pyromq.pipelines.cdc import dead_letters, delivery
from pyromq.pipelines.cdc.delivery import deliver
from pyromq.pipelines.cdc.delta_sink import DeltaSink
from pyromq.pipelines.cdc.jdbc_sink import JdbcSink
from pyromq.pipelines.cdc.redis_sink import RedisSink
from pyromq.pipelines.cdc.rows import ChangeMessage
from pyromq.pipelines.cdc.task import SinkTask
from pyromq.pipelines.run.messages import messages
from tests.pipelines import changes
from tests.pipelines.changes import TABLE, Rows, workload
from tests.pipelines.faults import after, instead
from tests.pipelines.stores import postgres_server, redis_server
from tests.pipelines.test_commands import Commands, commands
from tests.spark.servers import Servers

__all__ = ["commands"]


def sent(servers: Servers, events: list[ChangeMessage]) -> None:
    """As capture sends: the changes of a row in one queue."""
    with pyromq.sync.connect(servers.namesrv) as client, client.producer() as producer:
        for each in events:
            own = {name: value for name, value in each.properties.items() if name.startswith("cdc")}
            producer.send(each.topic, each.body, props=own, order_key=each.properties.get("cdcKey"))


def in_redis(url: str) -> Rows:
    with redis.Redis.from_url(url, decode_responses=True) as client:
        names = [name for name in client.scan_iter(f"{TABLE}:*") if not name.endswith("#deleted")]
        found: list[Any] = [client.hgetall(name) for name in names]
    return {int(row["id"]): {name: row.get(name) for name in ("name", "note", "price")} for row in found}


def as_texts(rows: Rows) -> Rows:
    return {at: {"name": row["name"], "note": row["note"], "price": str(row["price"])} for at, row in rows.items()}


def test_redis_has_the_rows_of_the_source(
    spark: SparkSession, servers: Servers, topic: str, tmp_path: Path, commands: Commands
) -> None:
    """Ended before a batch was noted, then gone on with; the command goes on where the function was."""
    events, rows = workload(31, 400, topic)
    poison = ChangeMessage(topic, 0, 0, b"no event", {"cdcKey": '{"id":1}'})
    sent(servers, [*events[:250], poison])
    source, folder = {"nameServer": servers.namesrv, "topic": topic}, str(tmp_path / "run")
    with redis_server(tmp_path) as (url, _):
        with instead(delivery, "write_text"), pytest.raises(Exception, match="killed by the test"):
            deliver(spark, source, RedisSink(url), folder, "cdc-redis", tasks=2)
        summary = deliver(spark, source, RedisSink(url), folder, "cdc-redis", tasks=2)
        assert (summary.facts["events"], summary.facts["notDelivered"]) == (251, 1)
        assert "is not JSON" in summary.tables[0].rows[0]["cause"]
        assert summary.facts["repeats"] > 0  # what the try that was ended had done
        sent(servers, events[250:])
        words = ("cdc-redis", "--topic", topic, "--redis", url, "--tasks", "2", folder)
        assert commands.run(*words, "--dry-run")["messages"] == 150
        told = commands.run(*words)
        assert (told["events"], told["notDelivered"], told["repeats"]) == (150, 0, 0)
        assert in_redis(url) == as_texts(rows)


def test_what_is_refused_is_counted_and_kept_whole_and_delivered_once_its_cause_is_mended(
    spark: SparkSession,
    servers: Servers,
    topic: str,
    tmp_path: Path,
    commands: Commands,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """More of it than is named, while others go on; killed when it was sent, before that was noted."""
    monkeypatch.setattr(dead_letters, "MOST_NAMED", 50)
    good, rows = workload(33, 60, topic)
    other = {"connector": "mariadb", "db": "shop", "table": "others"}
    bad = [
        ChangeMessage(topic, 0, 0, encode_event(Op.CREATE, None, {"id": at}, other, 1), numbered(at, 1000 + at))
        for at in range(70)
    ]
    source, dead, folder = {"nameServer": servers.namesrv, "topic": topic}, f"{topic}-dead", tmp_path / "run"
    more = ChangeMessage(topic, 0, 0, encode_event(Op.UPDATE, None, {"id": 0}, other, 2), numbered(0, 2000))
    sent(servers, [*good, *bad, more])
    with postgres_server(tmp_path) as (url, _), opened(url) as cursor:
        cursor.execute("CREATE TABLE items (id bigint PRIMARY KEY, name text, price integer, note text)")
        with instead(delivery, "write_text"), pytest.raises(Exception, match="killed by the test"):
            deliver(spark, source, JdbcSink(url), str(folder), "cdc-jdbc", tasks=2, dead=dead)
        told = commands.run("cdc-jdbc", "--topic", topic, "--postgres", url, "--dead", dead, str(folder))
        assert (told["events"], told["notDelivered"], len(told["deadLetters"])) == (131, 71, 50)
        assert in_table(cursor, "items") == rows
        kept = spark.read.parquet(told["keptIn"])
        assert {bytes(row.body) for row in kept.collect()} == {each.body for each in [*bad, more]}
        assert kept.select("queueId", "brokerName", "queueOffset").distinct().count() == kept.count() == 71
        assert kept.where("cause NOT LIKE '%CREATE TABLE \"others\"%'").count() == 0
        letters = messages(spark, {"nameServer": servers.namesrv, "topic": dead})
        whence = letters.selectExpr("properties['DEAD_TOPIC']", "properties['DEAD_QUEUE']", "properties['DEAD_OFFSET']")
        assert whence.distinct().count() == letters.count() == 71
        assert (
            letters.where(f"properties['DEAD_CAUSE'] LIKE '%others%' AND properties['DEAD_TOPIC'] = '{topic}'").count()
            == 71
        )
        cursor.execute("CREATE TABLE others (id bigint PRIMARY KEY)")
        again = commands.run("cdc-jdbc", "--topic", dead, "--postgres", url, str(tmp_path / "again"))
        assert (again["events"], again["notDelivered"]) == (71, 0)
        assert in_table(cursor, "others") == {at: {"id": at} for at in range(70)}


def test_a_table_that_was_emptied_is_empty_and_late_events_do_not_fill_it(
    spark: SparkSession, servers: Servers, topic: str, tmp_path: Path, commands: Commands
) -> None:
    """By TRUNCATE, killed when the rows were gone; then by a new snapshot, which shows no row that is gone."""
    old = [made(Op.CREATE, at, at, topic) for at in range(20)]
    new = [made(Op.CREATE, at, at, topic) for at in range(30, 33)]
    sent(servers, [*old, changes.message(Op.TRUNCATE, 25, None, None, topic), *new])
    source, folder = {"nameServer": servers.namesrv, "topic": topic}, str(tmp_path / "run")
    with redis_server(tmp_path) as (url, _):
        with after(SinkTask, "sweep"), pytest.raises(Exception, match="killed by the test"):
            deliver(spark, source, RedisSink(url), folder, "cdc-redis", tasks=2)
        summary = deliver(spark, source, RedisSink(url), folder, "cdc-redis", tasks=2)
        assert summary.facts["notDelivered"] == 0
        assert in_redis(url).keys() == {30, 31, 32}
        sent(servers, [*old[:5], *(made(Op.READ, at, 70 + at, topic) for at in (31, 32, 33))])
        told = commands.run("cdc-redis", "--topic", topic, "--redis", url, "--sweep", f"{TABLE}=40", folder)
        assert (told["written"], told["repeats"], told["swept"]) == (3, 5, 1)
        assert in_redis(url).keys() == {31, 32, 33}


def made(op: Op, at: int, number: int, topic: str) -> ChangeMessage:
    return changes.message(op, number, {"id": at}, {"id": at, "name": "pen", "price": number, "note": None}, topic)


def test_dead_letters_do_not_go_where_they_would_be_read(spark: SparkSession, servers: Servers, tmp_path: Path) -> None:
    source = {"nameServer": servers.namesrv, "topicPattern": "cdc-shop-.*"}
    with pytest.raises(ConfigError, match="cdc-shop-dead: this pipeline reads that topic"):
        deliver(spark, source, DeltaSink(str(tmp_path)), str(tmp_path / "run"), "cdc-lake", dead="cdc-shop-dead")


def numbered(at: int, number: int) -> dict[str, str]:
    return {KEY_PROPERTY: encode_key({"id": at}) or "", NUMBER_PROPERTY: str(number)}


@contextmanager
def opened(url: str) -> Iterator[Any]:
    connection = psycopg2.connect(url)
    connection.autocommit = True
    try:
        with connection.cursor() as cursor:
            yield cursor
    finally:
        connection.close()


def in_table(cursor: Any, name: str) -> Rows:
    cursor.execute(f"SELECT row_to_json({name}) FROM {name}")
    return {row["id"]: row for (row,) in cursor.fetchall()}


def test_postgresql_has_the_rows_of_the_source(
    spark: SparkSession, servers: Servers, topic: str, tmp_path: Path
) -> None:
    events, rows = workload(32, 300, topic)
    sent(servers, events)
    source = {"nameServer": servers.namesrv, "topic": topic, "maxOffsetsPerTrigger": "100"}
    with postgres_server(tmp_path) as (url, _), opened(url) as cursor:
        cursor.execute("CREATE TABLE items (id bigint PRIMARY KEY, name text, price integer, note text)")
        summary = deliver(spark, source, JdbcSink(url), str(tmp_path / "run"), "cdc-jdbc", tasks=2)
        assert (summary.facts["events"], summary.facts["notDelivered"]) == (300, 0)
        assert in_table(cursor, "items") == rows
