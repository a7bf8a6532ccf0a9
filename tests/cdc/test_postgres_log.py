"""The log of a real PostgreSQL, decoded: every type as a snapshot reads it too, and clear words for what is lost."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from typing import Any

import psycopg2
import pytest

from pyromq.cdc.changes import CaptureError, Finding, LogLost, Position, ReadBounds, RowChange
from pyromq.cdc.events import UNAVAILABLE, Op
from pyromq.cdc.postgres.checks import check
from pyromq.cdc.postgres.connection import PostgresConnection
from pyromq.cdc.postgres.lsn import lsn_of
from pyromq.cdc.postgres.slots import ensure_publication, slot_names
from pyromq.cdc.postgres.snapshot import PostgresSnapshot
from pyromq.cdc.postgres.source import PostgresPlace, PostgresSource
from tests.cdc.postgres import Postgres
from tests.interop.waiting import eventually

WAITING = (
    "SELECT count(*)::int FROM pg_stat_activity "
    "WHERE query LIKE 'CREATE_REPLICATION_SLOT%' AND wait_event = 'transactionid'"
)
NAMES = slot_names("test", "", "")


@pytest.fixture
def database(postgres: Postgres) -> Postgres:
    if postgres.program is None:
        postgres.start()
    postgres.clear()
    return postgres


def place_of(database: Postgres, **changed: str) -> PostgresPlace:
    address = replace(database.address, user="admin", password="admin secret")
    return PostgresPlace(replace(address, **changed), "test", NAMES, lambda table: table.startswith("shop."))  # type: ignore[arg-type]


def begin(database: Postgres) -> Position:
    """Make publication and slot, and return where the stream begins."""
    with closing(PostgresSnapshot(place_of(database), is_first=True)) as snapshot:
        return snapshot.position


def changes_since(database: Postgres, start: Position, until: Position | None = None) -> list[RowChange]:
    newest = lsn_of(database.rows("SELECT pg_current_wal_lsn()")[0][0])
    with closing(PostgresSource(place_of(database), start, until)) as source:
        found: list[RowChange] = []
        while True:
            part = source.read(ReadBounds())
            found += part.changes
            if lsn_of(part.end.done) >= newest or part.end == until:
                return found


def shown(changes: list[RowChange]) -> list[tuple[Any, ...]]:
    return [(each.op, each.before, each.after) for each in changes]


TYPES: dict[str, tuple[str, str, Any]] = {
    "id": ("bigint PRIMARY KEY", "-9223372036854775808", -(1 << 63)),
    "small": ("smallint", "-32768", -32768),
    "whole": ("integer", "2147483647", 2147483647),
    "price": ("numeric(30,10)", "-12345678901234567890.0123456789", "-12345678901234567890.0123456789"),
    "any_price": ("numeric", "1e40", "1" + "0" * 40),
    "no_price": ("numeric", "'NaN'", "NaN"),
    "single": ("real", "0.1", 0.1),
    "real_": ("double precision", "1.7976931348623157e308", 1.7976931348623157e308),
    "endless": ("double precision", "'-Infinity'", "-Infinity"),
    "cash": ("money", "12.34", "$12.34"),
    "yes": ("boolean", "true", True),
    "no": ("boolean", "false", False),
    "day_": ("date", "'1969-12-31'", -1),
    "old_day": ("date", "'0044-03-15 BC'", -735160),
    "far_day": ("date", "'5874897-12-31'", 2145042905),
    "no_day": ("date", "'infinity'", "infinity"),
    "span": ("time", "'24:00:00'", 86400000000),
    "span6": ("time(6)", "'04:05:06.000001'", 14706000001),
    "zone_span": ("timetz", "'04:05:06.7+02'", "04:05:06.7+02"),
    "local3": ("timestamp(3)", "'2020-02-03 04:05:06.789'", 1580702706789),
    "local_": ("timestamp", "'1000-01-01 00:00:00.000001'", -30610223999999999),
    "far_local": ("timestamp", "'10000-01-01 00:00:01'", 253402300801000000),
    "moment": ("timestamptz", "'2020-02-03 04:05:06.789012+02'", "2020-02-03T02:05:06.789012Z"),
    "old_moment": ("timestamptz", "'0044-03-15 12:00:00+00 BC'", "0044-03-15 12:00:00+00 BC"),
    "between": ("interval", "'1 year 2 months 3 days 04:05:06.789'", "P1Y2M3DT4H5M6.789S"),
    "text_": ("text", "repeat('ü', 3)", "üüü"),
    "odd_text": ("varchar(40)", "E'\\\\ \\t \\n '' \" { } , NULL'", "\\ \t \n ' \" { } , NULL"),
    "code": ("char(5)", "'abc'", "abc  "),
    "blob_": ("bytea", "'\\x0001ff'", "AAH/"),
    "json_": ("json", """'{"a":  1.10}'""", '{"a":  1.10}'),
    "jsonb_": ("jsonb", """'{"a": 12345678901234567890.10}'""", '{"a": 12345678901234567890.10}'),
    "uuid_": ("uuid", "'2b8c8026-e390-11f1-b7af-02fc00000001'", "2b8c8026-e390-11f1-b7af-02fc00000001"),
    "mood_": ("mood", "'so so'", "so so"),
    "moods": ("mood[]", "ARRAY['ok', 'so so']::mood[]", ["ok", "so so"]),
    "positive": ("positive", "7", 7),
    "bits": ("bit(12)", "b'101010101010'", "qgo="),
    "flag": ("bit(1)", "b'1'", True),
    "some_bits": ("varbit(9)", "b'00101'", "00101"),
    "numbers": ("integer[]", "ARRAY[1, NULL, 3]", [1, None, 3]),
    "nested": ("bigint[][]", "ARRAY[[1, 2], [3, NULL]]", [[1, 2], [3, None]]),
    "texts": ("text[]", "ARRAY['a,b', '', 'NULL', NULL, 'q\"\\']", ["a,b", "", "NULL", None, 'q"\\']),
    "empty": ("text[]", "'{}'", []),
    "bounds": ("int[]", "'[2:3]={1,2}'", "[2:3]={1,2}"),
    "prices": ("numeric(5,2)[]", "ARRAY[1.5]", ["1.50"]),
    "times": ("timestamp(3)[]", "ARRAY['1970-01-01 00:00:01'::timestamp]", [1000]),
    "boxes": ("box[]", "ARRAY[box '((0,0),(1,1))', box '((0,0),(2,2))']", ["(1,1),(0,0)", "(2,2),(0,0)"]),
    "address": ("inet", "'::1/64'", "::1/64"),
    "range_": ("int4range", "'[1,5)'", "[1,5)"),
    "pair_": ("pair", "ROW(1, 'x y')::pair", '(1,"x y")'),
    "words": ("tsvector", "'a b'", "'a' 'b'"),
    "nothing": ("integer", "NULL", None),
}


def test_every_type_comes_whole_and_a_snapshot_reads_the_same(database: Postgres) -> None:
    columns = ", ".join(f"{name} {kind}" for name, (kind, _, _) in TYPES.items())
    values = ", ".join(value for _, value, _ in TYPES.values())
    database.run(
        "CREATE TYPE mood AS ENUM ('ok', 'so so')",
        "CREATE TYPE pair AS (a int, b text)",
        "CREATE DOMAIN positive AS int CHECK (VALUE > 0)",
        f"CREATE TABLE types ({columns}, computed int GENERATED ALWAYS AS (whole - 1) STORED)",
    )
    start = begin(database)
    database.run(f"INSERT INTO types ({', '.join(TYPES)}) VALUES ({values})".replace("%", "%%"))
    expected = {name: wanted for name, (_, _, wanted) in TYPES.items()}
    (change,) = changes_since(database, start)
    assert change.after == expected
    assert change.table.full_name == "shop.public.types"
    with closing(PostgresSnapshot(place_of(database), is_first=False)) as snapshot:
        found = snapshot.rows("shop.public.types", None, 1)
        assert [each.after for each in found.changes] == [expected]
        assert found.changes[0].table == change.table
        assert snapshot.rows("shop.public.types", found.last, 1).changes == []
    kinds = {column.name: (column.kind, column.items) for column in change.table.columns}
    assert (kinds["numbers"], kinds["local3"], kinds["moods"]) == (
        ("array", "int32"),
        ("int64", ""),
        ("array", "string"),
    )


def test_a_row_before_is_what_the_replica_identity_has(database: Postgres) -> None:
    long = "encode(sha256(id::text::bytea), 'hex')"
    database.run(
        "CREATE TABLE usual (id int PRIMARY KEY, a int, long text)",
        "CREATE TABLE whole (id int PRIMARY KEY, a int, long text)",
        "CREATE TABLE chosen (id int PRIMARY KEY, a int NOT NULL UNIQUE, long text)",
        "ALTER TABLE whole REPLICA IDENTITY FULL",
        "ALTER TABLE chosen REPLICA IDENTITY USING INDEX chosen_a_key",
        "ALTER TABLE usual ALTER long SET STORAGE EXTERNAL",
        "ALTER TABLE whole ALTER long SET STORAGE EXTERNAL",
    )
    start = begin(database)
    found: dict[str, list[tuple[Any, ...]]] = {}
    for table in ("usual", "whole", "chosen"):
        database.run(
            f"INSERT INTO {table} SELECT id, NULLIF(3, 0), repeat({long}, 100) FROM generate_series(1, 1) id",
            f"UPDATE {table} SET a = 4",
            f"UPDATE {table} SET id = 2",
            f"DELETE FROM {table}",
        )
    changes = changes_since(database, start)
    text = changes[0].after["long"] if changes[0].after else ""
    for each in changes:
        found.setdefault(each.table.name, []).append((each.op, each.before, each.after))
    keys = {each.table.name: each.table.key_names for each in changes}
    assert keys == {"usual": ["id"], "whole": ["id"], "chosen": ["a"]}
    unknown = {"a": UNAVAILABLE, "long": UNAVAILABLE}
    assert found["usual"][1:] == [
        (Op.UPDATE, None, {"id": 1, "a": 4, "long": UNAVAILABLE}),  # it did not change, so it is not in the log
        (Op.UPDATE, {"id": 1, **unknown}, {"id": 2, "a": 4, "long": UNAVAILABLE}),
        (Op.DELETE, {"id": 2, **unknown}, None),
    ]
    assert found["whole"][1:] == [
        (Op.UPDATE, {"id": 1, "a": 3, "long": text}, {"id": 1, "a": 4, "long": text}),
        (Op.UPDATE, {"id": 1, "a": 4, "long": text}, {"id": 2, "a": 4, "long": text}),
        (Op.DELETE, {"id": 2, "a": 4, "long": text}, None),
    ]
    assert [before for _, before, _ in found["chosen"][1:]] == [
        {"id": UNAVAILABLE, "a": 3, "long": UNAVAILABLE}, None, {"id": UNAVAILABLE, "a": 4, "long": UNAVAILABLE},
    ]  # fmt: skip


def test_rows_are_read_by_the_columns_that_they_were_written_with(database: Postgres) -> None:
    database.run("CREATE TABLE t (id int PRIMARY KEY, a int)")
    start = begin(database)
    database.run(
        "INSERT INTO t VALUES (1, 1)",
        "ALTER TABLE t RENAME a TO b",
        "ALTER TABLE t ALTER b TYPE bigint",
        "ALTER TABLE t ADD c text",
        "INSERT INTO t VALUES (2, 2, 'x')",
        "ALTER TABLE t DROP c",
        "UPDATE t SET b = 3 WHERE id = 2",
        "CREATE TABLE later (id int PRIMARY KEY)",
        "INSERT INTO later VALUES (1)",
        "TRUNCATE t, later",
    )
    changes = changes_since(database, start)
    assert shown(changes) == [
        (Op.CREATE, None, {"id": 1, "a": 1}),
        (Op.CREATE, None, {"id": 2, "b": 2, "c": "x"}),
        (Op.UPDATE, None, {"id": 2, "b": 3}),
        (Op.CREATE, None, {"id": 1}),
        (Op.TRUNCATE, None, None),
        (Op.TRUNCATE, None, None),
    ]
    assert {each.table.name for each in changes[-2:]} == {"t", "later"}


def test_what_is_rolled_back_is_not_there_and_a_transaction_may_be_read_in_pieces(database: Postgres) -> None:
    database.run("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE u (id int PRIMARY KEY)")
    start = begin(database)
    with database.session() as cursor:
        cursor.execute("INSERT INTO t VALUES (1)")
        cursor.connection.rollback()
        cursor.execute("INSERT INTO t SELECT generate_series(1, 5000)")
        cursor.execute("SAVEPOINT one")
        cursor.execute("INSERT INTO t SELECT generate_series(5001, 6000)")
        cursor.execute("ROLLBACK TO one")
        cursor.execute("DELETE FROM t WHERE id > 4990")
        database.run("INSERT INTO u VALUES (1)")  # begun later, committed before
    whole = shown(changes_since(database, start))
    assert whole[0] == (Op.CREATE, None, {"id": 1})
    assert len(whole) == 5011
    pieces: list[tuple[Any, ...]] = []
    position = start
    while len(pieces) < len(whole):  # a connection for each piece: the position within the transaction is all there is
        with closing(PostgresSource(place_of(database), position)) as source:
            part = source.read(ReadBounds(rows=1777))
        pieces += shown(part.changes)
        position = part.end
    assert pieces == whole


def test_a_snapshot_and_the_stream_meet_without_gap_or_repeat_while_others_write(database: Postgres) -> None:
    database.run(
        "CREATE TABLE t (id int PRIMARY KEY, a int)", "INSERT INTO t SELECT i, 0 FROM generate_series(1, 50) i"
    )
    start = begin(database)
    open_one = psycopg2.connect(database.url)
    with open_one.cursor() as cursor:
        cursor.execute("UPDATE t SET a = 1 WHERE id = 1")
        database.run("INSERT INTO t VALUES (51, 0)")
        with ThreadPoolExecutor(1) as pool:
            opening = pool.submit(PostgresSnapshot, place_of(database), is_first=False)
            eventually(lambda: database.rows(WAITING) == [(1,)], "the snapshot waits for the one who writes")
            open_one.commit()
            made = opening.result(60)
    open_one.close()
    with closing(made) as snapshot:
        database.run("UPDATE t SET a = 2 WHERE id = 2", "INSERT INTO t VALUES (52, 0)")
        before = changes_since(database, start, until=snapshot.position)
        rows = snapshot.rows("shop.public.t", None, 1000).changes
    after = changes_since(database, snapshot.position)
    assert shown(before) == [
        (Op.CREATE, None, {"id": 51, "a": 0}), (Op.UPDATE, None, {"id": 1, "a": 1}),
    ]  # fmt: skip
    assert {each.after["id"]: each.after["a"] for each in rows if each.after} == {1: 1} | dict.fromkeys(range(2, 52), 0)
    assert shown(after) == [
        (Op.UPDATE, None, {"id": 2, "a": 2}), (Op.CREATE, None, {"id": 52, "a": 0}),
    ]  # fmt: skip


def test_keys_of_several_columns_partitions_and_filters_are_read_in_chunks(database: Postgres) -> None:
    database.run(
        "CREATE TABLE parts (b text, a int, c int, PRIMARY KEY (a, b)) PARTITION BY RANGE (a)",
        "CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (5)",
        "CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (5) TO (10)",
        r"INSERT INTO parts SELECT s, a, 1 FROM generate_series(0, 9) a, unnest(ARRAY['x', E'it''s \\', '']) s",
        "CREATE TABLE few (id int PRIMARY KEY, secret text, open boolean NOT NULL)",
        "INSERT INTO few VALUES (1, 's', true), (2, 's', false)",
        f"CREATE PUBLICATION {NAMES.publication} FOR TABLE parts, few (id) WHERE (id < 2)"
        " WITH (publish_via_partition_root = true)",
    )
    start = begin(database)
    with closing(PostgresSnapshot(place_of(database), is_first=False)) as snapshot:
        assert [each.table for each in snapshot.tables()] == ["shop.public.few", "shop.public.parts"]
        found, last = [], None
        while True:
            part = snapshot.rows("shop.public.parts", last, 7)
            found += [(each.after["a"], each.after["b"]) for each in part.changes if each.after]
            if (last := part.last) is None:
                break
        assert found == sorted(database.rows("SELECT a, b FROM parts"))
        assert [each.after for each in snapshot.rows("shop.public.few", None, 9).changes] == [{"id": 1}]
    database.run("UPDATE parts SET a = 8, b = 'y' WHERE a = 1 AND b = 'x'", "INSERT INTO parts VALUES ('z', 1, 1)")
    assert {each.table.full_name for each in changes_since(database, start)} == {"shop.public.parts"}


def test_a_quiet_database_does_not_hold_the_log_of_others(database: Postgres) -> None:
    start = begin(database)
    with closing(PostgresSource(place_of(database), start)) as source:
        database.run("CREATE TABLE elsewhere AS SELECT generate_series(1, 1000) id", database="postgres")
        newest = lsn_of(database.rows("SELECT pg_current_wal_lsn()")[0][0])

        def confirmed() -> bool:
            part = source.read(ReadBounds(wait_s=0.05))
            assert part.changes == []
            source.confirm(part.end)
            ((place,),) = database.rows("SELECT confirmed_flush_lsn FROM pg_replication_slots")
            return lsn_of(place) >= newest

        eventually(confirmed, "the slot has moved over what others wrote")
    database.run("DROP TABLE elsewhere", database="postgres")


def test_what_is_not_confirmed_is_sent_again(database: Postgres) -> None:
    """Whatever the server asks in between: nothing is safe but what the caller has said is."""
    database.run("CREATE TABLE t (id int PRIMARY KEY)")
    start = begin(database)
    database.run("INSERT INTO t VALUES (1)")
    with closing(PostgresSource(place_of(database), start)) as source:
        first = source.read(ReadBounds(rows=1))
        database.run("INSERT INTO t VALUES (2)")
        source.confirm(first.end)
        while not source.read(ReadBounds()).changes:
            pass
    assert [each.after for each in changes_since(database, first.end)][-1:] == [{"id": 2}]


def test_a_slot_that_is_gone_moved_or_lost_says_how_to_go_on(database: Postgres) -> None:
    database.run("CREATE TABLE t (id int PRIMARY KEY)")
    start = begin(database)
    database.run("INSERT INTO t SELECT generate_series(1, 1000)")
    database.run(f"SELECT pg_replication_slot_advance('{NAMES.slot}', pg_current_wal_lsn())")
    with pytest.raises(LogLost, match=r"moved by another program.*pyromq cdc reset"):
        changes_since(database, start)
    assert finding(database, f"slot {NAMES.slot}", start).mend == "pyromq cdc reset, then run"
    database.run(f"SELECT pg_drop_replication_slot('{NAMES.slot}')")
    with pytest.raises(LogLost, match=r"is gone, and with it the \d+ kB of log.*pyromq cdc reset"):
        changes_since(database, start)
    assert finding(database, f"slot {NAMES.slot}", start).is_bad

    start = begin(database)
    database.run("ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'", database="postgres")
    database.run("SELECT pg_reload_conf()")
    try:
        for _ in range(3):
            database.run("SELECT pg_switch_wal(), pg_logical_emit_message(false, '', 'x')", "CHECKPOINT")
        eventually(
            lambda: database.rows("SELECT wal_status FROM pg_replication_slots") == [("lost",)], "the slot is lost"
        )
        with pytest.raises(LogLost, match=r"max_slot_wal_keep_size was passed.*pyromq cdc reset"):
            changes_since(database, start)
        assert finding(database, f"slot {NAMES.slot}", start).is_bad
    finally:
        database.run("ALTER SYSTEM RESET max_slot_wal_keep_size", database="postgres")
        database.run("SELECT pg_reload_conf()")


def finding(database: Postgres, what: str, position: Position | None = None) -> Finding:
    return {each.what: each for each in check(place_of(database), position)}[what]


def test_a_publication_never_keeps_programs_from_changing_rows(database: Postgres) -> None:
    database.run("CREATE TABLE loose (a int)", "INSERT INTO loose VALUES (1)")
    with closing(PostgresConnection(place_of(database).address)) as connection:
        with pytest.raises(CaptureError, match=r'ALTER TABLE "public"."loose" REPLICA IDENTITY FULL'):
            ensure_publication(connection, NAMES.publication, "shop", lambda table: True)
        database.run("CREATE TABLE t (id int PRIMARY KEY)")
        ensure_publication(connection, NAMES.publication, "shop", lambda table: table.endswith(".t"))
    database.run("UPDATE loose SET a = 2")
    found = [each.mend.partition(",")[0] for each in check(place_of(database), None) if "loose" in each.what]
    assert found == [
        f'ALTER PUBLICATION "{NAMES.publication}" ADD TABLE "public"."loose"; its rows of before are not sent',
        'ALTER TABLE "public"."loose" REPLICA IDENTITY FULL',
    ]
    for mend in reversed(found):
        database.run(mend.partition(";")[0])
    database.run("UPDATE loose SET a = 3")
    assert "no primary key" in [each.found for each in check(place_of(database), None) if "loose" in each.what]


def test_missing_rights_are_named_with_what_mends_them(database: Postgres) -> None:
    database.run(
        "DROP ROLE IF EXISTS poor",
        "SET password_encryption = 'md5'; CREATE ROLE poor LOGIN PASSWORD 'secret'",
        "CREATE TABLE t (id int PRIMARY KEY)",
        "CREATE SCHEMA hidden",
        "CREATE TABLE hidden.t (id int PRIMARY KEY)",
    )
    poor = place_of(database, user="poor", password="secret")
    mends = [each.mend for each in check(poor, None) if each.is_bad]
    assert mends == [
        'ALTER ROLE "poor" REPLICATION',
        'GRANT USAGE ON SCHEMA "hidden" TO "poor"',
        'GRANT USAGE ON SCHEMA "public" TO "poor"',
    ]
    for mend in (*mends, "GRANT SELECT ON hidden.t TO poor"):
        database.run(mend)
    assert [each.mend for each in check(poor, None) if each.is_bad] == ['GRANT SELECT ON "public"."t" TO "poor"']
    database.run("GRANT SELECT ON t TO poor")
    with pytest.raises(CaptureError, match=r"our user may not make it.*CREATE PUBLICATION"):
        PostgresSnapshot(poor, is_first=True)
    with pytest.raises(CaptureError, match=r"refused user 'poor'.*password authentication failed"):
        list(check(place_of(database, user="poor", password="wrong"), None))
    database.run("DROP SCHEMA hidden CASCADE", "DROP OWNED BY poor", "DROP ROLE poor")
