"""cdc-verify on real servers: every kind of value, what differs and only that, and changes that come while it looks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import deltalake
import psycopg2
import pymongo
import pytest
import redis
from click.testing import CliRunner
from pyspark.sql import SparkSession

from pyromq.cdc.config import CdcConfig
from pyromq.cdc.databases import open_rows
from pyromq.cdc.key_ranges import KeyRange
from pyromq.cli.pipeline.pipeline import pipeline
from pyromq.pipelines.cdc.delta_sink import DeltaSink
from pyromq.pipelines.cdc.iceberg_sink import IcebergSink
from pyromq.pipelines.cdc.jdbc_sink import JdbcSink
from pyromq.pipelines.cdc.mongo_sink import MongoSink
from pyromq.pipelines.cdc.redis_sink import RedisSink
from pyromq.pipelines.cdc.rows import RowWrite
from pyromq.pipelines.cdc.sinks import Sink
from pyromq.pipelines.cdc_verify import verify
from pyromq.pipelines.cdc_verify.jdbc_view import JdbcView
from pyromq.pipelines.cdc_verify.lake_views import DeltaView, IcebergView
from pyromq.pipelines.cdc_verify.mongo_view import MongoView
from pyromq.pipelines.cdc_verify.reading import writes_of
from pyromq.pipelines.cdc_verify.redis_view import RedisView
from pyromq.pipelines.cdc_verify.verify import cdc_verify
from pyromq.pipelines.cdc_verify.views import SinkView
from pyromq.pipelines.report.summary import Summary
from tests.cdc.mariadb import MariaDb, require_mariadb
from tests.cdc.postgres import Postgres, require_postgres
from tests.pipelines.stores import mongo_server, postgres_server, redis_server
from tests.pipelines.test_commands import Commands, commands

__all__ = ["commands"]

ROWS = 300
MASK, LEAVE_OUT = ("shop.items.email",), ("shop.items.secret",)
ITEMS = (
    "CREATE TABLE shop.items (id int PRIMARY KEY, name varchar(40), price decimal(12,3), weight double, small float, "
    "born date, woken time(3), changed datetime(6), seen timestamp(3) NULL, big bigint unsigned, data varbinary(20), "
    "kind enum('a','b'), flags bit(5), body json, email varchar(40), secret varchar(40), note text)"
)
ITEM_COLUMNS = (
    *("id", "name", "price", "weight", "small", "born", "woken", "changed", "seen", "big"),
    *("data", "kind", "flags", "body", "email", "note"),
)
DAYS = "CREATE TABLE shop.days (day date, line int, sold int, PRIMARY KEY (line, day))"
WORDS = "CREATE TABLE shop.words (word varchar(40) PRIMARY KEY, times int) COLLATE utf8mb4_general_ci"
FILLED = (
    "INSERT INTO shop.items SELECT seq * 3, concat('näme \"', seq), seq / 7, seq / 3, seq / 3, '2026-01-01' + INTERVAL "
    "seq DAY, '11:22:33.456', '2026-01-01 01:02:03.123456' + INTERVAL seq MINUTE, '2026-03-01 02:03:04.5', "
    "9223372036854775807 - seq, unhex(md5(seq)), 'b', 5, concat('{\"n\": ', seq, '}'), 'a@b.c', 'word', "
    f"if(seq % 2, NULL, 'note') FROM seq_1_to_{ROWS}",
    "INSERT INTO shop.days SELECT '2026-01-01' + INTERVAL seq % 5 DAY, seq div 5, seq FROM seq_1_to_40",
    "INSERT INTO shop.words VALUES ('Apple', 1), ('äpfel', 2), ('apple pie', 3), ('7', 4), ('naïve:*', 5)",
)
IN_POSTGRES = (
    "CREATE TABLE items (id bigint PRIMARY KEY, name text, price numeric, weight double precision, small real, "
    "born date, woken time, changed timestamp, seen timestamptz, big numeric, data text, kind text, flags text, "
    "body jsonb, email text, note text)",
    "CREATE TABLE days (day date, line int, sold int, PRIMARY KEY (line, day))",
    "CREATE TABLE words (word text PRIMARY KEY, times int)",
)


class Store:
    """A sink, how it is looked at, and how somebody changes single rows of shop.items in it behind our back."""

    def __init__(self, sink: Sink, view: SinkView, spoil: Callable[[], None]) -> None:
        self.sink, self.view, self.spoil = sink, view, spoil
        self._first_number = 0  # of the next delivery: higher than all before

    def take(self, config: CdcConfig) -> list[RowWrite]:
        """Deliver all rows as they are in the source now; return what was delivered."""
        rows = open_rows(config)
        try:
            pages = [page for table in rows.tables() for page in rows.rows(table, KeyRange())]
        finally:
            rows.close()
        found = (write for page in pages for write in writes_of(page, config))
        writes = [replace(write, number=number) for number, write in enumerate(found, self._first_number)]
        self._first_number += len(writes)
        with self.sink.opened() as opened:
            for name in dict.fromkeys(write.table for write in writes):
                opened.apply([write for write in writes if write.table == name])
        return writes


@pytest.fixture(scope="module")
def mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    require_mariadb()
    server = MariaDb(tmp_path_factory.mktemp("mariadb"))
    yield server
    server.kill()


@pytest.fixture
def filled(mariadb: MariaDb) -> CdcConfig:
    mariadb.run("DROP DATABASE shop", "CREATE DATABASE shop CHARACTER SET utf8mb4", ITEMS, DAYS, WORDS)
    with mariadb.session() as cursor:
        for each in FILLED:
            cursor.execute(each)
    return CdcConfig(database_url=mariadb.url, include=("shop.*",), mask=MASK, leave_out=LEAVE_OUT, schemas=True)


@pytest.fixture
def hashes(tmp_path: Path) -> Iterator[Store]:
    with redis_server(tmp_path) as (url, _):

        def spoil() -> None:
            with redis.Redis.from_url(url) as client:
                client.delete("c:shop.items:30")
                client.hset("c:shop.items:31", "id", "31")
                client.hset("c:shop.items:33", "price", "1.000")

        sink = RedisSink(url, "c:")
        yield Store(sink, RedisView(sink), spoil)


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[Store]:
    with postgres_server(tmp_path) as (url, _):

        def ask(*statements: str) -> None:
            connection = psycopg2.connect(url)
            with connection, connection.cursor() as cursor:
                for each in statements:
                    cursor.execute(each)
            connection.close()

        def spoil() -> None:
            ask(
                "DELETE FROM items WHERE id = 30",
                "INSERT INTO items (id) VALUES (31)",
                "UPDATE items SET price = 1 WHERE id = 33",
            )

        ask(*IN_POSTGRES)
        sink = JdbcSink(url)
        sink.check()
        yield Store(sink, JdbcView(sink), spoil)


@pytest.fixture
def documents(tmp_path: Path) -> Iterator[Store]:
    with mongo_server(tmp_path) as (url, _):

        def spoil() -> None:
            client: Any
            with pymongo.MongoClient(url) as client:
                items = client["cdc"]["shop.items"]
                items.delete_one({"_id": 30})
                items.insert_one({"_id": 31, "id": 31})
                items.update_one({"_id": 33}, {"$set": {"price": "1.000"}})

        sink = MongoSink(url)
        yield Store(sink, MongoView(sink), spoil)


def _spoil_lake(sink: Sink) -> None:
    with sink.opened() as opened:
        opened.apply([RowWrite("shop.items", {"id": 30}, 10**6, None)])
        opened.apply([RowWrite("shop.items", {"id": 31}, 10**6, {"id": 31})])
        others = frozenset(ITEM_COLUMNS) - {"id", "price"}
        opened.apply([RowWrite("shop.items", {"id": 33}, 10**6, {"id": 33, "price": "1.000"}, kept=others)])


@pytest.fixture
def delta(tmp_path: Path) -> Store:
    sink = DeltaSink(str(tmp_path / "lake"))
    return Store(sink, DeltaView(sink), lambda: _spoil_lake(sink))


@pytest.fixture
def iceberg(tmp_path: Path) -> Store:
    sink = IcebergSink(str(tmp_path / "lake"))
    return Store(sink, IcebergView(sink), lambda: _spoil_lake(sink))


@pytest.fixture(params=["hashes", "tables", "delta", "iceberg", pytest.param("documents", marks=pytest.mark.slow)])
def store(request: pytest.FixtureRequest) -> Store:
    found: Store = request.getfixturevalue(request.param)
    return found


def look(spark: SparkSession, config: CdcConfig, store: Store, **how: Any) -> Summary:
    return cdc_verify(spark, config, store.view, **{"chunk_rows": 50, "tasks": 2, "settle_s": 0.0, **how})


def examples(summary: Summary) -> list[tuple[str, str, str]]:
    found = next(table.rows for table in summary.tables if table.title == "examples")
    return [(row["verdict"], row["key"], row["columns"]) for row in found]


def test_rows_of_every_kind_agree_and_single_ones_that_differ_are_found(
    spark: SparkSession, store: Store, filled: CdcConfig
) -> None:
    store.take(filled)
    summary = look(spark, filled, store)
    assert summary.facts["agree"], summary.as_text()
    assert (summary.facts["rows"], summary.facts["sinkRows"]) == (ROWS + 45, ROWS + 45)
    assert (summary.facts["tables"], summary.facts["chunksRead"]) == (3, 0)
    store.spoil()
    summary = look(spark, filled, store)
    facts = summary.facts
    assert (facts["missing"], facts["added"], facts["differing"]) == (1, 1, 1)
    assert (facts["agree"], facts["chunksRead"]) == (False, 1)  # all of them are in the first range of keys
    assert examples(summary) == [("added", "31", ""), ("differing", "33", "price"), ("missing", "30", "")]


def test_a_sink_without_the_tables_has_no_row(spark: SparkSession, store: Store, filled: CdcConfig) -> None:
    facts = look(spark, filled, store, examples=3).facts
    assert (facts["missing"], facts["sinkRows"], facts["agree"]) == (ROWS + 45, 0, False)


def test_what_was_not_yet_there_is_looked_at_again(
    spark: SparkSession, hashes: Store, filled: CdcConfig, mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sink that is behind by one look agrees; a row that changes before every look is named as such."""
    hashes.take(filled)
    mariadb.run("UPDATE shop.items SET price = 9 WHERE id = 3")
    monkeypatch.setattr(verify, "_wait", lambda seconds: hashes.take(filled))
    facts = look(spark, filled, hashes, settle_s=1.0).facts
    assert (facts["agree"], facts["changing"]) == (True, 0)
    prices = iter(range(100, 200))

    def change(seconds: float) -> None:
        mariadb.run(f"UPDATE shop.items SET price = {next(prices)} WHERE id = 3")

    mariadb.run("UPDATE shop.items SET price = 10 WHERE id = 3")
    monkeypatch.setattr(verify, "_wait", change)
    summary = look(spark, filled, hashes, settle_s=1.0, looks=3)
    assert (summary.facts["agree"], summary.facts["changing"], summary.facts["differing"]) == (False, 1, 0)
    assert next(prices) == 103  # it was waited for three times
    monkeypatch.setattr(verify, "_wait", lambda seconds: None)
    facts = look(spark, filled, hashes, settle_s=1.0).facts
    assert (facts["agree"], facts["changing"], facts["differing"]) == (False, 0, 1)


def test_what_cannot_be_compared_is_named(
    spark: SparkSession, hashes: Store, filled: CdcConfig, mariadb: MariaDb
) -> None:
    """A table without a key; a column that only the sink has, such as one that is left out now."""
    hashes.take(filled)
    mariadb.run("CREATE TABLE shop.lines (text varchar(9))", "ALTER TABLE shop.words DROP COLUMN times")
    summary = look(spark, filled, hashes)
    tables = {table.title: table.rows for table in summary.tables}
    assert tables["onlyInTheSink"] == [{"table": "shop.words", "columns": "times"}]
    (refused,) = tables["notCompared"]
    assert refused["table"] == "shop.lines"
    assert "no primary key" in refused["cause"]
    assert summary.facts["agree"]


def test_a_delta_table_that_has_a_row_twice_is_told(spark: SparkSession, delta: Store, filled: CdcConfig) -> None:
    delta.take(filled)
    place = f"{delta.sink.folder}/shop.days"  # type: ignore[attr-defined]
    twice = deltalake.DeltaTable(place).to_pyarrow_table().slice(0, 2)
    deltalake.write_deltalake(place, twice, mode="append")
    facts = look(spark, filled, delta).facts
    assert (facts["doubled"], facts["differing"], facts["sinkRows"]) == (2, 0, ROWS + 47)


def test_a_command_compares_with_postgresql_as_the_source(
    spark: SparkSession, hashes: Store, commands: Commands, tmp_path: Path
) -> None:
    require_postgres()
    server = Postgres()
    try:
        server.run(
            "CREATE TABLE people (id uuid PRIMARY KEY, tags text[], paid numeric(20,4), at timestamptz, picture bytea)",
            "INSERT INTO people SELECT md5(n::text)::uuid, ARRAY['a', n::text, NULL], n / 7.0, "
            "'2026-01-01 00:00:00.5Z', decode(md5(n::text), 'hex') FROM generate_series(1, 200) n",
            "CREATE TABLE lines (id bigint, at int, note text, PRIMARY KEY (id, at))",
            "INSERT INTO lines SELECT n / 3, n, NULLIF(n % 4, 0)::text FROM generate_series(1, 300) n",
            "CREATE PUBLICATION pyromq_cdc FOR ALL TABLES",
            "GRANT SELECT ON ALL TABLES IN SCHEMA public TO cdc",
        )
        config = CdcConfig(
            database_url=f"postgresql://cdc:secret@127.0.0.1:{server.port}/shop", include=("shop.public.*",)
        )
        hashes.take(config)
        file = tmp_path / "cdc.toml"
        file.write_text(f'database_url = "{config.database_url}"\ninclude = ["shop.public.*"]\n')
        url = hashes.view.sink.url  # type: ignore[attr-defined]
        words = ["cdc-verify", "-c", str(file), "--redis", url, "--prefix", "c:", "--settle", "0", "--chunk", "40"]
        plan = json.loads(CliRunner().invoke(pipeline, [*words, "--dry-run", "--json"]).stdout)
        assert {row["table"]: row["chunks"] for row in plan["toDo"]} == {
            "shop.public.lines": 8,
            "shop.public.people": 64,
        }
        done = CliRunner().invoke(pipeline, [*words, "--json"])
        told = json.loads(done.stdout)
        assert (done.exit_code, told["agree"], told["rows"]) == (0, True, 500), done.output
        server.run("UPDATE lines SET note = 'x' WHERE at = 7", "DELETE FROM people WHERE id = md5('1')::uuid")
        done = CliRunner().invoke(pipeline, [*words, "--json", "--report", str(tmp_path / "page.html")])
        told = json.loads(done.stdout)
        assert (done.exit_code, told["differing"], told["added"]) == (1, 1, 1)
        assert [row["key"] for row in told["examples"]] == ['{"id":2,"at":7}', "c4ca4238-a0b9-2382-0dcc-509a6f75849b"]
        assert "What does not agree" in (tmp_path / "page.html").read_text("utf-8")
        done = CliRunner().invoke(pipeline, ["cdc-verify", "-c", str(file)])
        assert (done.exit_code, "write one of --redis" in done.stderr) == (64, True)
    finally:
        server.close()
