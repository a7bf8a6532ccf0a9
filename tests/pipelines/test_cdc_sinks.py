"""Sinks of changes on real servers, as a task uses them: what is left at last, repeats, late events, servers away."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import deltalake
import psycopg2
import pymongo
import pytest
import redis

from pyromq.cdc.events import Op
from pyromq.errors import PyroError
from pyromq.pipelines.cdc.delta_sink import DeltaSink
from pyromq.pipelines.cdc.iceberg_sink import IcebergSink
from pyromq.pipelines.cdc.jdbc_sink import JdbcSink
from pyromq.pipelines.cdc.mongo_sink import MongoSink
from pyromq.pipelines.cdc.redis_sink import RedisSink
from pyromq.pipelines.cdc.rows import RowWrite, as_meant, fold
from pyromq.pipelines.cdc.sinks import Applied, Sink, SinkAway, SinkRefused
from pyromq.pipelines.lake.catalog import open_catalog
from tests.pipelines.changes import TABLE, Rows, applied, by_key, message, workload
from tests.pipelines.stores import Process, mongo_server, postgres_server, redis_server


class Store(NamedTuple):
    sink: Sink
    rows: Callable[[], Rows]
    process: Process | None  # a lake is files alone


@pytest.fixture
def hashes(tmp_path: Path) -> Iterator[Store]:
    with redis_server(tmp_path) as (url, process):

        def rows() -> Rows:
            found: Rows = {}
            with redis.Redis.from_url(url, decode_responses=True) as client:
                for name in client.scan_iter("c:*"):
                    if not name.endswith("#deleted"):
                        assert name.startswith(f"c:{TABLE}:")
                        row: Any = client.hgetall(name)
                        found[int(row["id"])] = {
                            "id": int(row["id"]),
                            "name": row["name"],
                            "price": int(row["price"]),
                            "note": row.get("note"),
                        }
            return found

        yield Store(RedisSink(url, prefix="c:"), rows, process)


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[Store]:
    with postgres_server(tmp_path) as (url, process):

        def ask(text: str) -> list[Any]:
            connection = psycopg2.connect(url)
            try:
                with connection, connection.cursor() as cursor:
                    cursor.execute(text)
                    return cursor.fetchall() if cursor.description else []
            finally:
                connection.close()

        ask("CREATE TABLE items (id bigint PRIMARY KEY, name text, price integer, note text)")

        def rows() -> Rows:
            found = ask("SELECT id, name, price, note FROM items")
            return {row[0]: dict(zip(("id", "name", "price", "note"), row, strict=True)) for row in found}

        yield Store(JdbcSink(url), rows, process)


@pytest.fixture
def documents(tmp_path: Path) -> Iterator[Store]:
    with mongo_server(tmp_path) as (url, process):

        def rows() -> Rows:
            client: Any
            with pymongo.MongoClient(url) as client:
                found = list(client["cdc"][TABLE].find())
            return {row.pop("_id"): {name: row[name] for name in row if name != "cdcNumber"} for row in found}

        yield Store(MongoSink(url), rows, process)


@pytest.fixture
def lake(tmp_path: Path) -> Store:
    def rows() -> Rows:
        found = deltalake.DeltaTable(str(tmp_path / TABLE)).to_pyarrow_table().to_pylist()
        own = ("cdcNumber", "cdcDeleted")
        return {
            row["id"]: {name: row[name] for name in row if name not in own} for row in found if not row["cdcDeleted"]
        }

    return Store(DeltaSink(str(tmp_path)), rows, None)


@pytest.fixture
def iceberg(tmp_path: Path) -> Store:
    def rows() -> Rows:
        with open_catalog(str(tmp_path)) as catalog:
            found = catalog.load_table(TABLE).scan(row_filter="cdcDeleted = false").to_arrow().to_pylist()
        return {row["id"]: {name: row[name] for name in row if not name.startswith("cdc")} for row in found}

    return Store(IcebergSink(str(tmp_path)), rows, None)


@pytest.fixture(params=["hashes", "tables", "lake", "iceberg", pytest.param("documents", marks=pytest.mark.slow)])
def store(request: pytest.FixtureRequest) -> Store:
    found: Store = request.getfixturevalue(request.param)
    found.sink.check()
    return found


def test_a_store_has_the_rows_of_the_source(store: Store) -> None:
    is_lake = store.process is None  # each of whose commits takes a while
    messages, rows = workload(22, 120 if is_lake else 600)
    assert applied(store.sink, messages).repeats == 0
    assert store.rows() == rows
    again = applied(store.sink, messages)  # a batch that is repeated whole
    assert (again.written, again.deleted) == (0, 0)
    assert store.rows() == rows
    for begin in (0, 40, 80, 500):  # late ones, from whichever place
        applied(store.sink, messages[begin : begin + 80], piece=40 if is_lake else 7)
    assert store.rows() == rows


def test_a_store_that_is_away_is_waited_for(store: Store) -> None:
    if store.process is None:
        return
    messages, rows = workload(23, 200)
    applied(store.sink, messages[:100])
    with store.sink.opened() as opened:
        opened.apply(list(fold(messages[:1]).writes.values()))
        store.process.stop()
        for _ in range(2):  # the connection that broke, and a new one
            with pytest.raises(SinkAway):
                opened.apply(list(fold(messages[100:]).writes.values()))
        store.process.start()
        opened.apply(list(fold(messages[100:]).writes.values()))
    assert store.rows() == rows


@pytest.mark.parametrize("name", ["lake", "iceberg"])
def test_the_schema_of_a_lake_follows(name: str, request: pytest.FixtureRequest) -> None:
    lake: Store = request.getfixturevalue(name)
    with lake.sink.opened() as opened:
        opened.apply([RowWrite(TABLE, {"id": 1}, 1, {"id": 1, "name": "pen"})])
        opened.apply([RowWrite(TABLE, {"id": 2}, 2, {"id": 2, "name": "ink", "weight": 1.5, "tags": ["a"]})])
        opened.apply([RowWrite(TABLE, {"id": 1}, 3, {"id": 1, "weight": 2.5}, is_whole=False)])
        opened.apply([RowWrite(TABLE, {"id": 2}, 4, {"id": 2, "name": "ink"})])  # of a table without the column
        with pytest.raises(SinkRefused, match=r"column weight of shop.items is double and does not take 'heavy'"):
            opened.apply([RowWrite(TABLE, {"id": 1}, 5, {"id": 1, "weight": "heavy"})])
    assert lake.rows() == {
        1: {"id": 1, "name": "pen", "weight": 2.5, "tags": None},
        2: {"id": 2, "name": "ink", "weight": None, "tags": None},
    }


@pytest.mark.parametrize("name", ["lake", "iceberg"])
def test_rows_of_a_lake_are_told_apart_by_several_columns(name: str, request: pytest.FixtureRequest) -> None:
    sink: Sink = request.getfixturevalue(name).sink
    at = [{"day": date(2026, 1, 1 + number % 2), "line": number // 2} for number in range(4)]
    with sink.opened() as opened:
        first = [RowWrite("shop.days", key, number, {**key, "sold": 0}) for number, key in enumerate(at)]
        assert opened.apply(first).written == 4
        late = RowWrite("shop.days", at[1], 0, {**at[1], "sold": 9})
        assert opened.apply([RowWrite("shop.days", at[2], 4, {**at[2], "sold": 3}), late]).written == 1
        assert opened.apply([RowWrite("shop.days", at[3], 5, None)]).deleted == 1
        assert opened.apply([*first, RowWrite("shop.days", at[3], 4, first[3].values)]) == Applied(repeats=5)


def test_what_a_table_refuses_is_named_with_what_to_type(tables: Store) -> None:
    tables.sink.check()
    other = RowWrite("shop.orders", {"id": 1}, 5, {"id": 1, "paid": True})
    long = RowWrite(TABLE, {"id": 1}, 6, {"id": 1, "price": 2**40})
    with tables.sink.opened() as opened:
        with pytest.raises(SinkRefused, match=r'CREATE TABLE "orders" \("id" bigint, "paid" boolean, PRIMARY KEY'):
            opened.apply([other])
        with pytest.raises(SinkRefused, match="out of range"):
            opened.apply([long])
        good = RowWrite(TABLE, {"id": 1}, 5, {"id": 1, "price": 3})  # what was refused has left no number
        assert opened.apply([good]).written == 1


def test_a_dry_run_leaves_no_table(tables: Store) -> None:
    tables.sink.check(dry_run=True)
    with tables.sink.opened() as opened, pytest.raises(SinkRefused, match="does not exist"):
        opened.apply([RowWrite(TABLE, {"id": 1}, 1, {"id": 1, "price": 3})])


def test_a_wrong_address_says_what_to_write(tmp_path: Path) -> None:
    with pytest.raises(PyroError, match=r"Write --redis redis://HOST:PORT"):
        RedisSink(f"unix://user:secret@{tmp_path}/none").check()
    with pytest.raises(PyroError, match=r"Write --postgres postgresql://") as refused:
        JdbcSink(f"postgresql://me:secret@/x?host={tmp_path}").check()
    assert "secret" not in str(refused.value)


def test_changes_are_folded_by_row() -> None:
    messages, rows = workload(24, 400)
    found = fold(messages)
    assert by_key(list(found.writes.values())) == rows
    assert fold([*messages, *messages]).repeats == len(messages)
    odd = [
        message(Op.TRUNCATE, 1, None, None),
        message(Op.CREATE, 2, None, {"a": 1}),
        message(Op.CREATE, 3, {"id": 1}, {"id": 1})._replace(body=b"no event"),
    ]
    causes = [each.cause for each in fold(odd).bad]
    assert len(causes) == 3
    assert "was truncated" in causes[0]
    assert "has no primary key" in causes[1]
    assert "is not JSON" in causes[2]


@pytest.mark.parametrize(
    ("value", "meaning", "text"),
    [
        (20410, "io.debezium.time.Date", "2025-11-18"),
        (1763467200123, "io.debezium.time.Timestamp", "2025-11-18T12:00:00.123000"),
        (1763467200123456, "io.debezium.time.MicroTimestamp", "2025-11-18T12:00:00.123456"),
        (3_600_000_000, "io.debezium.time.MicroTime", "01:00:00"),
        ("2025-11-18T12:00:00Z", "io.debezium.time.ZonedTimestamp", "2025-11-18T12:00:00+00:00"),
    ],
)
def test_times_are_times_where_an_event_says_so(value: Any, meaning: str, text: str) -> None:
    assert as_meant(value, meaning).isoformat() == text
    assert as_meant(value, "") == value
