"""`pyromq sql --spark`: the query that DuckDB answers, answered by Spark over the same columns."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyarrow import parquet
from pyspark.sql import SparkSession

import pyromq
from pyromq.cli.main import cli
from pyromq.cli.pipeline import job
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


@pytest.fixture
def typed(as_by_the_command: SparkSession, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What sessions `--spark` asked for; it gets the one of tests."""
    asked: list[tuple[Any, ...]] = []

    @contextmanager
    def session(*given: Any) -> Iterator[SparkSession]:
        asked.append(given)
        yield as_by_the_command

    monkeypatch.setattr(job, "spark_for", session)
    return asked


def answered(*words: str) -> list[dict[str, Any]]:
    done = CliRunner().invoke(cli, ["sql", *words, "--spark", "--json"])
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_flag_asks_brokers_or_files_and_reads_no_more_than_is_asked_for(
    typed: list[tuple[Any, ...]], servers: Servers, topic: str
) -> None:
    servers.send(topic, 40, tag="a")
    servers.send(topic, 40, first=40, tag="b")
    query = f"SELECT tag, count(*) AS n FROM \"{topic}\" WHERE queueId = 1 AND tag = 'b' GROUP BY tag"
    before = servers.handed_out()
    assert answered(query, "-n", servers.namesrv) == [{"tag": "b", "n": 10}]
    assert servers.handed_out() - before == 10
    before = servers.handed_out()
    assert answered(query, "--store", str(servers.store())) == [{"tag": "b", "n": 10}]
    assert servers.handed_out() == before
    assert [(name, master) for name, master, *_ in typed] == [("sql", ""), ("sql", "")]
    assert SETTINGS.items() <= typed[0][3].items()


def test_master_memory_and_settings_are_handed_on(typed: list[tuple[Any, ...]], servers: Servers, topic: str) -> None:
    servers.send(topic, 1)
    words = ("--master", "spark://elsewhere:7077", "--memory", "3g", "--conf", "spark.sql.ansi.enabled=false")
    assert answered(f'SELECT 1 AS one FROM "{topic}"', "-n", servers.namesrv, *words) == [{"one": 1}]
    ((name, master, memory, conf),) = typed
    assert (name, master, memory) == ("sql", "spark://elsewhere:7077", "3g")
    assert conf == {**SETTINGS, "spark.sql.ansi.enabled": "false"}


def test_two_topics_are_joined(typed: list[tuple[Any, ...]], servers: Servers, topic: str) -> None:
    prices = f"{topic}-prices"
    with pyromq.sync.connect(servers.namesrv) as client, client.producer() as producer:
        for number in range(6):
            producer.send(topic, json.dumps({"item": number % 2}).encode())
        for number in range(2):
            producer.send(prices, json.dumps({"item": number, "price": 10 + number}).encode())
    query = (
        "SELECT p.body->>'price' AS price, count(*) AS n "
        f"FROM \"{topic}\" o JOIN \"{prices}\" p ON p.body->>'item' = o.body->>'item' GROUP BY 1 ORDER BY 1"
    )
    rows = answered(query, "-n", servers.namesrv)
    assert rows == [{"price": "10", "n": 3}, {"price": "11", "n": 3}]
    by_duckdb = CliRunner().invoke(cli, ["sql", query, "-n", servers.namesrv, "--json"])
    assert [json.loads(line) for line in by_duckdb.stdout.splitlines()] == rows
