"""`pyromq.sql.connect` and `pyromq.arrow` on a real broker and its files: answers, and what was read for them."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import parquet

import pyromq
import tests.spark.servers
from pyromq.errors import ConfigError, PyroError
from pyromq.query.connecting import open_tables
from pyromq.query.front import source_of
from pyromq.query.tables import Scans, TopicScan
from pyromq.store.files.file_sequence import FileSequence
from tests.query.conftest import Shop, price


def asked(shop: Shop, query: str, *, is_store: bool = False, **files: Path) -> tuple[list[Any], list[TopicScan]]:
    scans = Scans()
    source = source_of(shop.namesrv, shop.store if is_store else None)
    connection = open_tables(source, ["orders", "order-events"], files, scans, locked=True)
    try:
        return connection.execute(query).fetchall(), scans.scans
    finally:
        connection.close()


def handed_out(shop: Shop) -> int:
    return tests.spark.servers.handed_out(shop.namesrv, shop.transferred)


@pytest.mark.parametrize("is_store", [False, True])
def test_a_topic_counted_by_tag(shop: Shop, is_store: bool) -> None:
    rows, scans = asked(
        shop,
        "SELECT tag, count(*) FROM orders WHERE storeTimestamp > now() - INTERVAL 1 HOUR GROUP BY tag ORDER BY tag",
        is_store=is_store,
    )
    assert [tag for tag, _ in rows] == ["a", "b", "c"]
    assert sum(count for _, count in rows) == shop.orders
    assert [each.columns for each in scans] == [["tag", "storeTimestamp"]]


def test_a_broker_sends_only_the_messages_with_the_tag(shop: Shop) -> None:
    (((count, total),), _) = asked(shop, "SELECT count(*), sum((body->>'price')::double) FROM orders WHERE tag = 'b'")
    ((wanted,),), _ = asked(shop, "SELECT count(*) FROM orders WHERE upper(tag) = 'B'")
    before = handed_out(shop)
    rows, scans = asked(shop, "SELECT queueOffset FROM orders WHERE tag IN ('b', 'none')")
    assert handed_out(shop) - before == len(rows) == count == wanted < shop.orders
    assert (scans[0].rows, scans[0].columns) == (count, ["queueOffset", "tag"])
    assert 0 < total < sum(map(price, range(300)))


def test_queues_and_offsets_are_all_that_is_read(shop: Shop) -> None:
    before = handed_out(shop)
    rows, (scan,) = asked(shop, "SELECT keys FROM orders WHERE queueId = 1 AND queueOffset BETWEEN 10 AND 14")
    assert len(rows) == handed_out(shop) - before == scan.planned == scan.rows == 5
    rows, (scan,) = asked(shop, "SELECT keys FROM orders WHERE queueId IN (0, 2) AND queueOffset < 3")
    assert (len(rows), scan.planned) == (6, 6)
    rows, scans = asked(shop, "SELECT * FROM orders WHERE brokerName = 'elsewhere'")
    assert (rows, [each.planned for each in scans]) == ([], [0])


@pytest.mark.parametrize("is_store", [False, True])
def test_times_are_found_by_the_broker_and_in_files(shop: Shop, is_store: bool) -> None:
    rows, _ = asked(shop, "SELECT keys, storeTimestamp FROM orders ORDER BY storeTimestamp, keys", is_store=is_store)
    middle = rows[200][1]
    wanted = sorted(key for key, at in rows if at >= middle)
    query = f"SELECT keys FROM orders WHERE storeTimestamp >= '{middle.isoformat()}'"
    found, (scan,) = asked(shop, query, is_store=is_store)
    assert sorted(key for (key,) in found) == wanted
    if not is_store:
        assert scan.planned == len(wanted)
    late = rows[-1][1] + timedelta(milliseconds=1)
    assert asked(shop, f"SELECT * FROM orders WHERE storeTimestamp >= '{late.isoformat()}'", is_store=is_store)[0] == []
    early = rows[0][1].isoformat()
    assert asked(shop, f"SELECT * FROM orders WHERE storeTimestamp < '{early}'", is_store=is_store)[0] == []


def test_no_column_is_made_that_nobody_asks_for(shop: Shop) -> None:
    rows, (scan,) = asked(shop, "SELECT count(*) FROM orders")
    assert (rows, len(scan.columns)) == ([(shop.orders,)], 1)


def test_a_limit_ends_the_read(shop: Shop) -> None:
    rows, (scan,) = asked(shop, "SELECT topic FROM orders LIMIT 1")
    assert len(rows) == 1
    assert scan.rows < shop.orders


def test_bodies_that_are_no_text_are_null_and_there_as_bytes(shop: Shop) -> None:
    rows, (scan,) = asked(shop, 'SELECT body, bodyBytes, tag FROM "order-events" ORDER BY tag')
    assert rows == [(None, b"\xff\xfe", "odd"), ("no json", b"no json", None)]
    assert scan.not_text == 1


def test_joins_with_files(shop: Shop, tmp_path: Path) -> None:
    import deltalake

    items = pa.table({"id": ["0", "1", "2"], "name": ["pen", "ink", "paper"]})
    parquet.write_table(items, tmp_path / "items.parquet")
    (tmp_path / "items.csv").write_text("id,name\n0,pen\n1,ink\n2,paper\n", "utf-8")
    deltalake.write_deltalake(str(tmp_path / "delta"), items)
    for path in (tmp_path / "items.parquet", tmp_path / "items.csv", tmp_path / "delta"):
        rows, _ = asked(
            shop,
            "SELECT name, count(*) FROM orders JOIN items ON items.id::varchar = body->>'item' GROUP BY 1 ORDER BY 1",
            items=path,
        )
        assert rows == [("ink", 100), ("paper", 100), ("pen", 100)]


def test_a_query_opens_no_file_that_was_not_named(shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "other.csv").write_text("id\n1\n", "utf-8")
    for query in (f"SELECT * FROM '{tmp_path}/other.csv'", f"COPY orders TO '{tmp_path}/x.csv'", "INSTALL httpfs"):
        with pytest.raises(duckdb.PermissionException):
            asked(shop, query)
    with pytest.raises(duckdb.InvalidInputException, match="locked"):
        asked(shop, "SET enable_external_access = true")
    assert [each.name for each in tmp_path.iterdir()] == ["other.csv"]
    for path, words in (
        (tmp_path / "none.csv", "there is no such file"),
        (Path(__file__), "its ending says no format"),
    ):
        with pytest.raises(ConfigError, match=words):
            asked(shop, "SELECT 1", items=path)
    with pytest.raises(ConfigError, match="are one name in SQL"):
        asked(shop, "SELECT 1", ORDERS=tmp_path / "other.csv")


def test_the_python_front(shop: Shop) -> None:
    connection = pyromq.sql.connect(shop.namesrv)
    try:
        names = {name for (name,) in connection.execute("SHOW TABLES").fetchall()}
        assert {"orders", "order-events"} <= names
        assert "SCHEDULE_TOPIC_XXXX" not in names
        assert connection.sql("SELECT count(*) FROM orders").fetchall() == [(shop.orders,)]
        with pyromq.sync.connect(shop.namesrv) as client, client.producer() as producer:
            producer.send("order-events", "one more")
        assert connection.sql('SELECT count(*) FROM "order-events"').fetchall() == [(3,)]  # as it is at each query
    finally:
        connection.close()
    assert pyromq.sql("region = 'eu'").sql == "region = 'eu'"  # and still a filter of consumers
    table = pyromq.arrow("orders", shop.namesrv, columns=["tag"], filter=pc.field("queueId") == 0).read_all()
    assert (table.schema.names, table.num_rows) == (["tag"], 75)
    assert pyromq.arrow("orders", store=shop.store).read_all().num_rows == shop.orders
    with pytest.raises(ConfigError, match=r"topics have no column 'tags'\. Did you mean 'tag'"):
        pyromq.arrow("orders", shop.namesrv, columns=["tags"])


def test_a_store_outside_of_the_times_is_not_read(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes are counted where files are read; the whole log is some hundred kilobytes, of one piece."""
    read: list[int] = []
    whole = FileSequence.read

    def counted(log: FileSequence, position: int, length: int) -> Any:
        found = whole(log, position, length)
        read.append(len(found))
        return found

    monkeypatch.setattr(FileSequence, "read", counted)
    assert asked(shop, "SELECT count(*) FROM orders", is_store=True)[0] == [(shop.orders,)]
    everything = sum(read)
    read.clear()
    rows, (scan,) = asked(
        shop, "SELECT count(*) FROM orders WHERE storeTimestamp < '2020-01-01'::timestamptz", is_store=True
    )
    assert (rows, scan.planned, scan.rows) == ([(0,)], 0, 0)
    assert sum(read) < everything / 10


def test_import_loads_neither_arrow_nor_duckdb() -> None:
    loaded = "bool({'pyarrow', 'duckdb', 'numpy'} & set(sys.modules))"
    code = f"import sys, pyromq; pyromq.sql; pyromq.arrow; sys.exit({loaded})"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_what_is_missing_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(PyroError, match=r"SQL needs duckdb: .*pip install .*sql"):
        pyromq.sql.connect("127.0.0.1:1")


@pytest.mark.parametrize("is_store", [False, True])
def test_two_topics_are_joined(shop: Shop, is_store: bool) -> None:
    query = (
        'SELECT e.queueId, count(*) FROM orders o JOIN "order-events" e ON e.queueId = o.queueId '
        "WHERE o.tag = 'a' AND e.queueOffset = 0 GROUP BY 1 ORDER BY 1"
    )
    rows, scans = asked(shop, query, is_store=is_store)
    events, _ = asked(shop, 'SELECT queueId FROM "order-events" WHERE queueOffset = 0 ORDER BY 1')
    assert [queue for queue, _ in rows] == [queue for (queue,) in events]
    for queue, count in rows:
        assert asked(shop, f"SELECT count(*) FROM orders WHERE tag = 'a' AND queueId = {queue}")[0] == [(count,)]
    assert sorted(each.topic for each in scans) == ["order-events", "orders"]
