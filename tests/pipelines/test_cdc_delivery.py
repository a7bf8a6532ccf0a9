"""cdc-redis and cdc-jdbc from a topic to a real store: a whole workload, restarts, poison events, a sink away."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psycopg2
import pytest
import redis
from pyspark.sql import SparkSession

import pyromq
from pyromq.pipelines.cdc import delivery
from pyromq.pipelines.cdc.delivery import deliver
from pyromq.pipelines.cdc.jdbc_sink import JdbcSink
from pyromq.pipelines.cdc.redis_sink import RedisSink
from pyromq.pipelines.cdc.rows import ChangeMessage
from tests.pipelines.changes import TABLE, Rows, workload
from tests.pipelines.faults import instead
from tests.pipelines.stores import postgres_server, redis_server
from tests.pipelines.test_commands import Commands, commands
from tests.spark.servers import Servers

__all__ = ["commands"]


def sent(servers: Servers, messages: list[ChangeMessage]) -> None:
    """As capture sends: the changes of a row in one queue."""
    with pyromq.sync.connect(servers.namesrv) as client, client.producer() as producer:
        for each in messages:
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
    messages, rows = workload(31, 400, topic)
    poison = ChangeMessage(topic, 0, 0, b"no event", {"cdcKey": '{"id":1}'})
    sent(servers, [*messages[:250], poison])
    source, folder = {"nameServer": servers.namesrv, "topic": topic}, str(tmp_path / "run")
    with redis_server(tmp_path) as (url, _):
        with instead(delivery, "write_text"), pytest.raises(Exception, match="killed by the test"):
            deliver(spark, source, RedisSink(url), folder, "cdc-redis", tasks=2)
        summary = deliver(spark, source, RedisSink(url), folder, "cdc-redis", tasks=2)
        assert (summary.facts["events"], summary.facts["notDelivered"]) == (251, 1)
        assert "is not JSON" in summary.tables[0].rows[0]["cause"]
        assert summary.facts["repeats"] > 0  # what the try that was ended had done
        sent(servers, messages[250:])
        words = ("cdc-redis", "--topic", topic, "--redis", url, "--tasks", "2", folder)
        assert commands.run(*words, "--dry-run")["messages"] == 150
        told = commands.run(*words)
        assert (told["events"], told["notDelivered"], told["repeats"]) == (150, 0, 0)
        assert in_redis(url) == as_texts(rows)


def test_postgresql_has_the_rows_of_the_source(
    spark: SparkSession, servers: Servers, topic: str, tmp_path: Path
) -> None:
    messages, rows = workload(32, 300, topic)
    sent(servers, messages)
    source = {"nameServer": servers.namesrv, "topic": topic, "maxOffsetsPerTrigger": "100"}
    with postgres_server(tmp_path) as (url, _):
        connection = psycopg2.connect(url)
        try:
            with connection, connection.cursor() as cursor:
                cursor.execute("CREATE TABLE items (id bigint PRIMARY KEY, name text, price integer, note text)")
            summary = deliver(spark, source, JdbcSink(url), str(tmp_path / "run"), "cdc-jdbc", tasks=2)
            assert (summary.facts["events"], summary.facts["notDelivered"]) == (300, 0)
            with connection, connection.cursor() as cursor:
                cursor.execute("SELECT json_agg(items) FROM items")
                ((found,),) = cursor.fetchall()
        finally:
            connection.close()
    assert {row["id"]: row for row in found} == json.loads(json.dumps(rows), object_hook=_with_numbers)


def _with_numbers(pairs: dict[str, Any]) -> dict[Any, Any]:
    return {int(name) if name.isdigit() else name: value for name, value in pairs.items()}
