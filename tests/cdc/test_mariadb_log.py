"""The binlog of a real MariaDB, decoded: every type as a snapshot reads it too, and clear words for what cannot be."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from pyromq.cdc.binlog.checks import check
from pyromq.cdc.binlog.snapshot import MariaDbSnapshot
from pyromq.cdc.binlog.source import BinlogSource
from pyromq.cdc.changes import CaptureError, DatabaseAway, LogLost, Position, ReadBounds, RowChange
from pyromq.cdc.events import UNAVAILABLE, Op
from tests.cdc.mariadb import MariaDb
from tests.interop.waiting import eventually


@pytest.fixture
def database(mariadb: MariaDb) -> MariaDb:
    if mariadb.program is None:
        mariadb.start()
    mariadb.run("DROP DATABASE shop", "CREATE DATABASE shop CHARACTER SET utf8mb4")
    return mariadb


def in_shop(table: str) -> bool:
    return table.startswith("shop.")


def now(database: MariaDb) -> Position:
    return Position(done=database.rows("SELECT @@gtid_binlog_pos")[0][0])


def changes_since(database: MariaDb, start: Position, bounds: ReadBounds | None = None) -> list[RowChange]:
    with closing(BinlogSource(database.address, "test", start, in_shop, 77)) as source:
        found: list[RowChange] = []
        while True:
            part = source.read(bounds or ReadBounds())
            found += part.changes
            if part.is_caught_up:
                return found


TYPES = {
    "id": ("BIGINT UNSIGNED PRIMARY KEY", "18446744073709551615", 18446744073709551615),
    "year_": ("YEAR", "2024", 2024),
    "whole": ("INT UNSIGNED", "4294967295", 4294967295),
    "little": ("TINYINT", "-128", -128),
    "medium": ("MEDIUMINT", "-8388608", -8388608),
    "price": ("DECIMAL(30,10)", "-12345678901234567890.0123456789", "-12345678901234567890.0123456789"),
    "small_price": ("DECIMAL(5,5)", "0.00001", "0.00001"),
    "single": ("FLOAT", "0.1", 0.1),
    "real_": ("DOUBLE", "1.7976931348623157e308", 1.7976931348623157e308),
    "day_": ("DATE", "'1969-12-31'", -1),
    "no_day": ("DATE", "'2024-00-00'", "2024-00-00"),
    "span": ("TIME(6)", "'-838:59:59.123456'", -3020399123456),
    "span2": ("TIME(2)", "'-00:00:00.01'", -10000),
    "local_": ("DATETIME(3)", "'2020-02-03 04:05:06.789'", 1580702706789),
    "local6": ("DATETIME(6)", "'1000-01-01 00:00:00.000001'", -30610223999999999),
    "moment": ("TIMESTAMP(6) NULL", "'2020-02-03 04:05:06.789012'", "2020-02-03T04:05:06.789012Z"),
    "kind": ("ENUM('a','ß')", "'ß'", "ß"),
    "flags": ("SET('x','y','z')", "'x,z'", "x,z"),
    "text_": ("VARCHAR(300)", "REPEAT('ü', 200)", "ü" * 200),
    "latin": ("VARCHAR(20) CHARACTER SET latin1", "'ä€'", "ä€"),
    "long_": ("LONGTEXT", "'text'", "text"),
    "code": ("CHAR(5)", "'abc'", "abc"),
    "blob_": ("BLOB", "X'0001ff'", "AAH/"),
    "fixed": ("BINARY(4)", "X'61'", "YQAAAA=="),
    "json_": ("JSON", """'{"a": 1}'""", '{"a": 1}'),
    "bits": ("BIT(12)", "b'101010101010'", "qgo="),
    "flag": ("BIT(1)", "b'1'", True),
    "uuid_": ("UUID", "'2b8c8026-e390-11f1-b7af-02fc00000001'", "2b8c8026-e390-11f1-b7af-02fc00000001"),
    "address": ("INET6", "'::1'", "::1"),
    "nothing": ("INT", "NULL", None),
    "quoted_": ("ENUM('it''s','b')", "'it''s'", "it's"),
    "wide": ("INT(4) UNSIGNED ZEROFILL", "7", 7),
    "cost": ("DECIMAL(6,2) UNSIGNED", "7", "7.00"),
    "rough": ("FLOAT(7,3) UNSIGNED", "1.5", 1.5),
    "word": ("TINYTEXT", "'w'", "w"),
    "utf16_": ("VARCHAR(9) CHARACTER SET utf16", "'ä'", "ä"),
    "spot": ("POINT", "POINT(1, 2)", "AAAAAAEBAAAAAAAAAAAA8D8AAAAAAAAAQA=="),
    "shape": ("GEOMETRY", "NULL", None),
}


def test_every_type_comes_whole_and_a_snapshot_reads_the_same(database: MariaDb) -> None:
    start = now(database)
    columns = ", ".join(f"{name} {kind}" for name, (kind, _, _) in TYPES.items())
    values = ", ".join(value for _, value, _ in TYPES.values())
    with database.session() as cursor:
        cursor.execute("SET time_zone = '+00:00', sql_mode = ''")
        cursor.execute(f"CREATE TABLE types ({columns})")
        cursor.execute(f"INSERT INTO types VALUES ({values})")
    expected: dict[str, Any] = {name: wanted for name, (_, _, wanted) in TYPES.items()}
    (change,) = changes_since(database, start)
    assert change.after == expected
    with closing(MariaDbSnapshot(database.address, "test", in_shop)) as snapshot:
        found = snapshot.rows("shop.types", None, 1)
        assert [each.after for each in found.changes] == [expected]
        assert found.changes[0].table == change.table  # so that no change of the table is seen between the two
        assert snapshot.rows("shop.types", found.last, 1).changes == []
        assert snapshot.position == now(database)
    assert [column.is_key for column in change.table.columns] == [name == "id" for name in TYPES]


def test_rows_are_read_by_the_columns_that_they_were_written_with(database: MariaDb) -> None:
    start = now(database)
    database.run(
        "CREATE TABLE shop.t (id INT PRIMARY KEY, a INT)",
        "INSERT INTO shop.t VALUES (1, 1)",
        "ALTER TABLE shop.t CHANGE a b BIGINT, ADD c TEXT FIRST",
        "INSERT INTO shop.t VALUES ('x', 2, 2)",
        "ALTER TABLE shop.t DROP c",
        "UPDATE shop.t SET b = 3 WHERE id = 2",
        "TRUNCATE TABLE shop.t",
    )
    found = [(each.op, each.before, each.after) for each in changes_since(database, start)]
    assert found == [
        (Op.CREATE, None, {"id": 1, "a": 1}),
        (Op.CREATE, None, {"c": "x", "id": 2, "b": 2}),
        (Op.UPDATE, {"id": 2, "b": 2}, {"id": 2, "b": 3}),
        (Op.TRUNCATE, None, None),
    ]


def test_a_truncated_table_at_the_end_of_a_piece_is_not_read_again(database: MariaDb) -> None:
    database.run("CREATE TABLE shop.t (id INT PRIMARY KEY)")
    start = now(database)
    database.run("TRUNCATE TABLE shop.t", "INSERT INTO shop.t VALUES (1)")
    with closing(BinlogSource(database.address, "test", start, in_shop, 77)) as source:
        part = source.read(ReadBounds(rows=1))
    assert [each.op for each in part.changes] == [Op.TRUNCATE]
    assert [each.op for each in changes_since(database, part.end)] == [Op.CREATE]


def test_statements_about_wanted_tables_come_with_their_place_and_are_handed_over_once(database: MariaDb) -> None:
    database.run("CREATE OR REPLACE DATABASE elsewhere")
    start = now(database)
    database.run("CREATE TABLE shop.t (id INT PRIMARY KEY)", "CREATE TABLE elsewhere.t (id INT)", "DROP TABLE shop.t")
    places = now(database).done
    with closing(BinlogSource(database.address, "test", start, in_shop, 77)) as source:
        part = source.read(ReadBounds())
        assert source.read(ReadBounds(wait_s=0.01)).statements == []
    assert [(each.table, each.text.split(" ")[0]) for each in part.statements] == [
        ("shop.t", "CREATE"),
        ("shop.t", "DROP"),
    ]
    assert part.statements[-1].place == places
    assert part.statements[0].ts_ms > 0


def test_much_log_without_a_change_for_us_moves_the_position(database: MariaDb) -> None:
    database.run("CREATE OR REPLACE DATABASE elsewhere", "CREATE TABLE elsewhere.t (id INT, a LONGTEXT)")
    start = now(database)
    database.run(*["INSERT INTO elsewhere.t VALUES (1, REPEAT('x', 10000))"] * 5)
    with closing(BinlogSource(database.address, "test", start, in_shop, 77)) as source:
        first = source.read(ReadBounds(passed_bytes=10_000))
        assert (first.changes, first.is_caught_up) == ([], False)
        while not source.read(ReadBounds()).is_caught_up:
            pass
    assert first.end.done != start.done or first.end.inside


def test_what_is_rolled_back_is_not_there_and_a_transaction_may_be_read_in_pieces(database: MariaDb) -> None:
    database.run("CREATE TABLE shop.t (id INT PRIMARY KEY)")
    start = now(database)
    with database.session() as cursor:
        cursor.execute("INSERT INTO t VALUES (1)")
        cursor.execute("ROLLBACK")
        cursor.execute("INSERT INTO t SELECT seq FROM seq_1_to_5000")
        cursor.execute("DELETE FROM t WHERE id > 4990")
    whole = [(each.op, each.before, each.after) for each in changes_since(database, start)]
    assert len(whole) == 5010
    pieces: list[tuple[Any, ...]] = []
    position = start
    while len(pieces) < len(whole):  # a connection for each piece: the position within the transaction is all there is
        with closing(BinlogSource(database.address, "test", position, in_shop, 77)) as source:
            part = source.read(ReadBounds(rows=1777))
        pieces += [(each.op, each.before, each.after) for each in part.changes]
        position = part.end
    assert pieces == whole


def test_columns_that_the_log_lacks_are_told_from_null(database: MariaDb) -> None:
    start = now(database)
    with database.session() as cursor:
        cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)")
        cursor.execute("SET binlog_row_image = 'MINIMAL'")
        cursor.execute("INSERT INTO t VALUES (1, NULL, 2)")
        cursor.execute("UPDATE t SET b = NULL")
    created, updated = changes_since(database, start)
    assert created.after == {"id": 1, "a": None, "b": 2}
    assert updated.after == {"id": UNAVAILABLE, "a": UNAVAILABLE, "b": None}


def test_compressed_logs_are_read(database: MariaDb) -> None:
    start = now(database)
    with database.session() as cursor:
        cursor.execute("SET GLOBAL log_bin_compress = 1")
        cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, a TEXT)")
        cursor.execute("INSERT INTO t VALUES (1, REPEAT('a', 5000))")
        cursor.execute("UPDATE t SET a = REPEAT('b', 5000)")
        cursor.execute("SET GLOBAL log_bin_compress = 0")
    created, updated = changes_since(database, start)
    assert created.after == updated.before == {"id": 1, "a": "a" * 5000}
    assert updated.after == {"id": 1, "a": "b" * 5000}


def test_a_type_that_is_not_known_stops_with_its_column_and_other_tables_do_not_mind(database: MariaDb) -> None:
    start = now(database)
    database.run("CREATE TABLE shop.odd (id INT PRIMARY KEY, a VARCHAR(100) COMPRESSED)")
    database.run("INSERT INTO shop.odd VALUES (1, 'x')")
    with pytest.raises(CaptureError, match=r"column 2 of table shop.odd has the type 141.*exclude"):
        changes_since(database, start)
    source = BinlogSource(database.address, "test", start, lambda table: False, 77)
    with closing(source):
        assert source.read(ReadBounds()).end == now(database)


def test_a_log_without_names_says_which_statement_mends_it(database: MariaDb) -> None:
    start = now(database)
    database.run("SET GLOBAL binlog_row_metadata = 'NO_LOG'")
    try:
        database.run("CREATE TABLE shop.t (id INT PRIMARY KEY)", "INSERT INTO shop.t VALUES (1)")
        with pytest.raises(CaptureError, match=r"SET GLOBAL binlog_row_metadata = 'FULL'"):
            changes_since(database, start)
        found = {each.what: each for each in check(database.address, in_shop, start)}
        assert found["binlog_row_metadata"].is_bad
        assert found["binlog_row_metadata"].mend == "SET GLOBAL binlog_row_metadata = 'FULL'"
    finally:
        database.run("SET GLOBAL binlog_row_metadata = 'FULL'")


def test_a_statement_in_place_of_rows_is_refused_for_tables_that_are_wanted_alone(database: MariaDb) -> None:
    database.run("CREATE OR REPLACE DATABASE elsewhere", "CREATE TABLE elsewhere.t (id INT PRIMARY KEY)")
    database.run("CREATE TABLE shop.t (id INT PRIMARY KEY)")
    start = now(database)
    with database.session() as cursor:
        cursor.execute("SET SESSION binlog_format = 'STATEMENT'")
        cursor.execute("USE elsewhere")
        cursor.execute("INSERT INTO t VALUES (1)")
        cursor.execute("COMMIT")
        assert changes_since(database, start) == []
        cursor.execute("UPDATE t SET id = 2")
        cursor.execute("/* as one may */ INSERT INTO shop . `t` VALUES (1)")
        cursor.execute("COMMIT")
    with pytest.raises(CaptureError, match=r"as a statement.*INSERT INTO shop.*SET GLOBAL binlog_format = 'ROW'"):
        changes_since(database, start)


def test_a_purged_log_says_how_to_go_on(database: MariaDb) -> None:
    start = now(database)
    database.run("CREATE TABLE shop.t (id INT PRIMARY KEY)", "INSERT INTO shop.t VALUES (1)", "FLUSH BINARY LOGS")
    last = database.rows("SHOW BINARY LOGS")[-1][0]

    def is_purged() -> bool:
        database.run(f"PURGE BINARY LOGS TO '{last}'")  # leaves alone what a connection of a test before still reads
        return [name for name, *_ in database.rows("SHOW BINARY LOGS")] == [last]

    eventually(is_purged, "the logs before the last one are gone")
    found = {each.what: each for each in check(database.address, in_shop, start)}
    assert found["position"].is_bad
    assert "2 transactions behind it were purged" in found["position"].found
    with pytest.raises(LogLost, match="pyromq cdc reset"):
        changes_since(database, start)


def test_missing_rights_and_keys_and_cascades_are_named_with_what_mends_them(database: MariaDb) -> None:
    database.run(
        "CREATE OR REPLACE USER poor@'%' IDENTIFIED BY 'secret'",
        "CREATE TABLE shop.parents (id INT PRIMARY KEY)",
        "CREATE TABLE shop.children (id INT PRIMARY KEY, p INT REFERENCES parents(id) ON DELETE CASCADE)",
        "CREATE TABLE shop.loose (a INT) ENGINE = MyISAM",
    )
    poor = {each.what: each for each in check(replace(database.address, user="poor"), in_shop, None)}
    assert poor["right REPLICATION SLAVE"].mend == "GRANT REPLICATION SLAVE ON *.* TO 'poor'@'%'"
    found = [(each.what, each.found) for each in check(database.address, in_shop, None) if each.mend]
    assert ("shop.loose", "no primary key") in found
    assert ("shop.loose", "engine MyISAM") in found
    assert "shop.parents" not in [what for what, _ in found]
    assert any(what == "shop.children" and "cascades" in said for what, said in found)
    with pytest.raises(CaptureError, match=r"refused user 'poor'.*pyromq cdc check"):
        list(check(replace(database.address, user="poor", password="wrong"), in_shop, None))


def test_a_table_that_is_newer_than_the_snapshot_is_left_to_another_one(database: MariaDb) -> None:
    with closing(MariaDbSnapshot(database.address, "test", in_shop)) as snapshot:
        database.run("CREATE TABLE shop.late (id INT PRIMARY KEY)", "INSERT INTO shop.late VALUES (1)")
        with pytest.raises(DatabaseAway, match="late was made or altered after the snapshot began"):
            snapshot.rows("shop.late", None, 10)
    with closing(MariaDbSnapshot(database.address, "test", in_shop)) as snapshot:
        assert [change.after for change in snapshot.rows("shop.late", None, 10).changes] == [{"id": 1}]
