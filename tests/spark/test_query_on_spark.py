"""`pyromq sql --spark`: the query that DuckDB answers, answered by Spark over the same columns."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession

import pyromq
from pyromq.query.columns import NAMES
from pyromq.query.connecting import open_tables
from pyromq.query.front import source_of
from pyromq.query.on_spark import SETTINGS, columns_in, in_sparks_words, run_on_spark
from pyromq.query.tables import Scans
from tests.spark.servers import Servers


@pytest.fixture
def as_by_the_command(spark: SparkSession) -> Iterator[SparkSession]:
    """The settings that `--spark` gives its session; that of tests gets its own back."""
    before = {name: spark.conf.get(name) or "" for name in SETTINGS}
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    yield spark
    for name, value in before.items():
        spark.conf.set(name, value)


def test_both_give_the_same_answer(as_by_the_command: SparkSession, servers: Servers, tmp_path: Path) -> None:
    topic = "sql-on-spark"  # which stands in quotes
    with pyromq.sync.connect(servers.namesrv) as client, client.producer() as producer:
        for number in range(30):
            body = json.dumps({"price": number, "item": str(number % 3)}).encode()
            producer.send(topic, b"\xff" if number == 29 else body, tag="ab"[number % 2])
    items = tmp_path / "items.parquet"
    parquet.write_table(pa.table({"id": ["0", "1", "2"], "name": ["pen", "ink", "paper"]}), items)
    query = (
        "SELECT name, tag, count(*) AS n, sum(CAST(o.body->>'price' AS int)) AS total "
        f"FROM \"{topic}\" o JOIN items ON id = body->>'item' "
        "WHERE storeTimestamp > now() - INTERVAL 1 HOUR AND queueOffset < 6 GROUP BY name, tag ORDER BY name, tag"
    )
    answer = run_on_spark(as_by_the_command, query, source_of(servers.namesrv, None), [topic], {"items": items})
    ours = [tuple(row) for row in answer.collect()]
    with open_tables(source_of(servers.namesrv, None), [topic], {"items": items}, Scans()) as connection:
        assert ours == connection.execute(query).fetchall()
    assert len(ours) == 6


def test_columns_are_those_that_the_query_names() -> None:
    assert columns_in("SELECT TAG, count( * ) FROM orders WHERE queueid = 1") == ["queueId", "tag"]
    assert columns_in("SELECT count(*) FROM orders") == ["queueId"]
    assert columns_in("SELECT o.* FROM orders o") == NAMES
    assert in_sparks_words("SELECT body->>'a.b', o.body ->> '$.c[0]'") == (
        "SELECT get_json_object(body, '$.a.b'), get_json_object(o.body, '$.c[0]')"
    )
