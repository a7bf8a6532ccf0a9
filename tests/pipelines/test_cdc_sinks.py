"""Sinks of changes on real servers, as a task uses them: what is left at last, repeats, late events, servers away."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import deltalake
import msgspec
import psycopg2
import pyarrow as pa
import pymongo
import pytest
import redis
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.cdc.events import UNAVAILABLE, Op
from pyromq.errors import PyroError
from pyromq.pipelines.cdc.delta_sink import DeltaSink
from pyromq.pipelines.cdc.iceberg_sink import IcebergSink
from pyromq.pipelines.cdc.jdbc_sink import JdbcSink
from pyromq.pipelines.cdc.mongo_sink import MongoSink
from pyromq.pipelines.cdc.redis_sink import RedisSink
from pyromq.pipelines.cdc.rows import ChangeMessage, Folded, RowWrite, as_meant, fold
from pyromq.pipelines.cdc.sinks import Applied, Sink, SinkAway, SinkRefused
from pyromq.pipelines.cdc.task import SinkTask
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
                        del row["cdcNumber"]
                        whole = {at: int(row[at]) for at in ("id", "price") if at in row}
                        found[whole["id"]] = {"note": None, **row, **whole}
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


DOCUMENTS = pytest.param("documents", marks=pytest.mark.slow)


@pytest.fixture(params=["hashes", "tables", "lake", "iceberg", DOCUMENTS])
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


@pytest.mark.parametrize("store", ["hashes", "tables", DOCUMENTS], indirect=True)
def test_a_store_that_is_away_is_waited_for(store: Store) -> None:
    assert store.process is not None
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


def test_older_rows_are_swept(store: Store) -> None:
    """Those of one table, by the numbers of their events; done again, nothing is left to do."""
    names = {"name": "pen", "price": 3, "note": None}
    with store.sink.opened() as opened:
        assert opened.sweep("shop.others", 5) == 0
        opened.apply([RowWrite(TABLE, {"id": at}, at, {"id": at, **names}) for at in range(1, 9)])
        opened.apply([RowWrite(TABLE, {"id": at}, 10 + at, {"id": at, **names}) for at in (7, 8)])
        assert opened.sweep(TABLE, 10) == 6
        assert store.rows().keys() == {7, 8}
        assert opened.sweep(TABLE, 10) == 0
        opened.apply([RowWrite(TABLE, {"id": 3}, 20, {"id": 3, **names})])
        assert store.rows().keys() == {3, 7, 8}
        assert opened.sweep(TABLE, 99) == 3
    assert store.rows() == {}


@contextmanager
def full_disk(folder: Path) -> Iterator[None]:
    """No byte can be written by this process, into no file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def lost_objects(folder: Path) -> Iterator[None]:
    """The data of a table cannot be read, as where an object store answers that there is none."""
    there = list(folder.rglob("*.parquet"))
    assert there
    for each in there:
        each.rename(each.with_suffix(".away"))
    try:
        yield
    finally:
        for each in there:
            each.with_suffix(".away").rename(each)


@contextmanager
def no_folder(folder: Path) -> Iterator[None]:
    """A file stands where the logs of tables are, or the folder of the catalog."""
    there = [*folder.rglob("_delta_log"), *folder.rglob("catalog.db")]
    assert there
    for each in there:
        each.rename(each.with_suffix(".away"))
        each.mkdir() if each.name == "catalog.db" else each.touch()
    try:
        yield
    finally:
        for each in there:
            each.rmdir() if each.is_dir() else each.unlink()
            each.with_suffix(".away").rename(each)


@pytest.mark.parametrize("fault", [full_disk, lost_objects, no_folder])
@pytest.mark.parametrize("store", ["lake", "iceberg"], indirect=True)
def test_a_lake_whose_storage_is_at_fault_is_waited_for(
    store: Store, fault: Callable[[Path], AbstractContextManager[None]], tmp_path: Path
) -> None:
    """In the middle of a task, and where a task begins with it. Nothing counts as refused."""
    messages, rows = workload(25, 60)
    rest = list(fold(messages[30:]).writes.values())
    with store.sink.opened() as opened:
        opened.apply(list(fold(messages[:30]).writes.values()))
        with fault(tmp_path):
            for _ in range(2):
                with pytest.raises(SinkAway):
                    opened.apply(rest)
            with store.sink.opened() as anew, pytest.raises(SinkAway):
                anew.apply(rest)
        assert opened.apply(rest).written > 0
    assert store.rows() == rows


def test_what_passes_at_a_server_is_waited_for_and_what_is_wrong_with_a_row_is_not(
    hashes: Store, tables: Store
) -> None:
    assert isinstance(hashes.sink, RedisSink)
    assert isinstance(tables.sink, JdbcSink)
    pen = RowWrite(TABLE, {"id": 1}, 1, {"id": 1, "name": "pen", "price": 3})
    with redis.Redis.from_url(hashes.sink.url) as client, hashes.sink.opened() as opened:
        for name, value, usual in (("maxmemory", "1", "0"), ("min-replicas-to-write", "1", "0")):
            client.config_set(name, value)
            with pytest.raises(SinkAway):
                opened.apply([pen])
            client.config_set(name, usual)
        client.set(f"c:{TABLE}:1", "somebody's own")
        with pytest.raises(SinkRefused, match="WRONGTYPE"):
            opened.apply([pen])
        client.delete(f"c:{TABLE}:1")
        assert opened.apply([pen]).written == 1
    tables.sink.check()
    with psycopg2.connect(tables.sink.url) as connection, connection.cursor() as cursor:
        cursor.execute("ALTER DATABASE postgres SET default_transaction_read_only = on")
    connection.close()
    with tables.sink.opened() as opened, pytest.raises(SinkAway, match="read-only"):
        opened.apply([pen])


class Broken:
    """A sink that is away so often."""

    place = "nowhere"

    def __init__(self, times: int) -> None:
        self.times, self.rows = times, 0

    def check(self, *, dry_run: bool = False) -> None: ...

    @contextmanager
    def opened(self) -> Iterator[Broken]:
        yield self

    def apply(self, writes: Sequence[RowWrite]) -> Applied:
        self.times -= 1
        if self.times >= 0:
            raise SinkAway("not there")
        self.rows += len(writes)
        return Applied(len(writes))

    def sweep(self, table: str, below: int) -> int:
        return 0


def test_a_task_waits_no_longer_than_it_is_told() -> None:
    events = [message(Op.CREATE, number, {"id": number}, {"id": number}) for number in range(3)]
    columns: dict[str, list[Any]] = {
        "topic": [each.topic for each in events],
        "brokerName": ["broker-a"] * 3,
        "queueId": [0] * 3,
        "queueOffset": [each.offset for each in events],
        "body": [each.body for each in events],
        "properties": [list(each.properties.items()) for each in events],
    }
    batch = pa.RecordBatch.from_pydict(columns)
    batch = batch.set_column(5, "properties", pa.array(columns["properties"], pa.map_(pa.string(), pa.string())))
    sink = Broken(2)
    (outcome,) = SinkTask(sink, 3600, wait=lambda seconds: None).run(iter([batch]))
    assert (sink.rows, outcome.to_pylist()[0]["written"], outcome.num_rows) == (3, 3, 1)
    with pytest.raises(PyroError, match=r"was away for 0 s: not there. Start the pipeline again when it is back"):
        list(SinkTask(Broken(9), 0).run(iter([batch])))


@pytest.mark.parametrize("name", ["lake", "iceberg"])
def test_the_schema_of_a_lake_follows(name: str, request: pytest.FixtureRequest) -> None:
    lake: Store = request.getfixturevalue(name)
    with lake.sink.opened() as opened:
        opened.apply([RowWrite(TABLE, {"id": 1}, 1, {"id": 1, "name": "pen"})])
        opened.apply([RowWrite(TABLE, {"id": 2}, 2, {"id": 2, "name": "ink", "weight": 1.5, "tags": ["a"]})])
        opened.apply([RowWrite(TABLE, {"id": 1}, 3, {"id": 1, "weight": 2.5}, frozenset({"name"}))])
        opened.apply([RowWrite(TABLE, {"id": 2}, 4, {"id": 2, "name": "ink"})])  # of a table without the column
        with pytest.raises(SinkRefused, match=r"column weight of shop.items is double and does not take 'heavy'"):
            opened.apply([RowWrite(TABLE, {"id": 1}, 5, {"id": 1, "weight": "heavy"})])
    assert lake.rows() == {
        1: {"id": 1, "name": "pen", "weight": 2.5, "tags": None},
        2: {"id": 2, "name": "ink", "weight": None, "tags": None},
    }


@pytest.mark.parametrize("store", ["hashes", "lake", "iceberg", DOCUMENTS], indirect=True)
def test_columns_that_the_source_has_no_more_go_with_the_next_update(store: Store) -> None:
    """By the events of an UPDATE, in pieces of their own and folded into one: what the log does not have stays."""
    first = {"name": "pen", "price": 3, "note": "new"}
    for at, piece in ((1, 1), (2, 4)):
        key = {"id": at}
        changes = [
            message(Op.CREATE, 10 * at, key, key | first),
            message(Op.UPDATE, 10 * at + 1, key, key | {"name": "pen", "price": UNAVAILABLE}),  # DROP COLUMN note
            message(Op.UPDATE, 10 * at + 2, key, key | {"title": UNAVAILABLE, "price": UNAVAILABLE}),  # RENAME name
            message(Op.UPDATE, 10 * at + 3, key, key | {"title": "ink", "price": UNAVAILABLE}),
        ]
        applied(store.sink, changes, piece)
    assert present(store.rows()) == {at: {"id": at, "title": "ink", "price": 3} for at in (1, 2)}
    applied(store.sink, [message(Op.UPDATE, 30, {"id": 1}, {"id": 1})])
    assert present(store.rows())[1] == {"id": 1}


def present(rows: Rows) -> Rows:
    return {at: {name: value for name, value in row.items() if value is not None} for at, row in rows.items()}


def test_columns_of_postgresql_are_left_to_its_users(tables: Store) -> None:
    """One that no event names may be theirs; one that is not there is asked for, and the events are not lost by it."""
    tables.sink.check()
    key = {"id": 1}
    applied(tables.sink, [message(Op.CREATE, 1, key, key | {"name": "pen", "price": 3, "note": "new"})])
    applied(tables.sink, [message(Op.UPDATE, 2, key, key | {"name": "ink", "price": UNAVAILABLE})])
    assert tables.rows() == {1: {"id": 1, "name": "ink", "price": 3, "note": "new"}}
    renamed = [message(Op.UPDATE, 3, key, key | {"title": "nib", "price": 4})]
    with pytest.raises(SinkRefused, match=r'column "title" of relation "items" does not exist.*RENAME COLUMN'):
        applied(tables.sink, renamed)
    assert isinstance(tables.sink, JdbcSink)
    with psycopg2.connect(tables.sink.url) as connection, connection.cursor() as cursor:
        cursor.execute("ALTER TABLE items RENAME COLUMN name TO title; ALTER TABLE items ADD COLUMN name text")
    connection.close()
    applied(tables.sink, renamed)
    assert present(tables.rows())[1] == {"id": 1, "price": 4, "note": "new"}


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
    at = messages[-1].offset + 1
    emptied = fold([*messages, message(Op.TRUNCATE, at, None, None)])
    assert (emptied.truncated, emptied.bad) == ({TABLE: at}, [])
    assert fold(messages, emptied.truncated).repeats == len(messages)
    beside = [
        ChangeMessage("cdc-heartbeat", 0, 0, b'{"ts_ms":1}', {"cdcOp": "heartbeat", "cdcNumber": "9"}),
        ChangeMessage("cdc-transaction", 0, 0, b'{"status":"BEGIN","id":"7"}', {"cdcOp": "BEGIN"}),
    ]
    assert fold(beside) == Folded()
    odd = [
        message(Op.TRUNCATE, 1, None, None)._replace(properties={}),
        message(Op.CREATE, 2, None, {"a": 1}),
        message(Op.CREATE, 3, {"id": 1}, {"id": 1})._replace(body=b"no event"),
    ]
    causes = [each.cause for each in fold(odd).bad]
    assert len(causes) == 3
    assert "was truncated" in causes[0]
    assert "has no primary key" in causes[1]
    assert "is not JSON" in causes[2]


_TEXTS = st.sampled_from(
    ["a", "id", "op", "source", "payload", "schema", "field", "fields", "name", "after", UNAVAILABLE]
)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _TEXTS,
    lambda some: st.lists(some, max_size=3) | st.dictionaries(_TEXTS, some, max_size=3),
    max_leaves=8,
)


@settings(max_examples=300, deadline=None)
@given(
    body=st.fixed_dictionaries({"source": _VALUES, "op": st.sampled_from("cudrt") | _VALUES, "after": _VALUES}),
    schema=st.none() | _VALUES,
    key=_VALUES,
)
def test_whatever_a_message_holds_is_a_change_or_has_a_cause(body: Any, schema: Any, key: Any) -> None:
    whole = body if schema is None else {"schema": schema, "payload": body}
    given = [ChangeMessage("t", 0, 7, msgspec.json.encode(whole), {"cdcKey": msgspec.json.encode(key).decode()})]
    found = fold(given)
    assert len(found.writes) + len(found.bad) == 1
    assert [*found.messages.values(), *[[each.message] for each in found.bad]] == [given]


def test_a_time_that_is_none_stays_as_it_is() -> None:
    assert as_meant("infinity", "io.debezium.time.ZonedTimestamp") == "infinity"
    assert as_meant("0001-01-01T00:00:00+01:00", "io.debezium.time.ZonedTimestamp") == "0001-01-01T00:00:00+01:00"
    assert as_meant(2**60, "io.debezium.time.Date") == 2**60


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
