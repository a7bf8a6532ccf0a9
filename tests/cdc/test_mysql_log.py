"""MySQL's binlog, decoded: of events that MySQL 9.7.4 wrote, recorded in `recorded/mysql_9_7.txt`; its sets of GTIDs.

The statements behind them are in the test. A real server is used in `test_mysql_capture.py`, by hand.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.cdc.binlog.json_values import json_text
from pyromq.cdc.changes import CaptureError, Position, RowChange
from pyromq.cdc.events import Op
from pyromq.cdc.mysql.gtids import ExecutedGtids
from pyromq.cdc.mysql.log import MySqlReader

RECORDED = Path(__file__).parent / "recorded" / "mysql_9_7.txt"
SERVER = "d35a153e-e454-11f1-96a3-02fc00000001"
CHARSETS = {255: "utf8mb4", 63: "binary", 33: "utf8mb3"}
FIRST = {
    "id": 9223372036854775807, "y": 2024, "price": "-12.500", "note": "ü", "kind": "b",
    "doc": '{"a": [1, -2, 300000, 1.5, null, true, "x", {"b": 12345678901234}]}',
    "spot": "AAAAAAEBAAAAAAAAAAAA8D8AAAAAAAAAQA==", "twice": 18446744073709551614,
}  # fmt: skip
SECOND = dict.fromkeys(FIRST) | {"id": 2, "twice": 4}
LATER = SECOND | {
    "note": "later",
    "doc": '{"d": "2020-01-02", "m": "2020-01-02 03:04:05.678000", "n": -12.340, "r": 1e300, "t": "-10:11:12.500000"}',
}
# One INSERT of two rows, an UPDATE, a DELETE behind which a savepoint was rolled back to, ALTER TABLE, TRUNCATE.
EXPECTED = [
    (Op.CREATE, None, FIRST), (Op.CREATE, None, SECOND), (Op.UPDATE, SECOND, LATER), (Op.DELETE, FIRST, None),
    (Op.TRUNCATE, None, None),
]  # fmt: skip


def events() -> list[bytes]:
    return [bytes.fromhex(line) for line in RECORDED.read_text().split()]


def reader(start: Position) -> MySqlReader:
    done = ExecutedGtids(start.done)
    return MySqlReader(done, start, lambda table: table == "shop.t", CHARSETS, lambda *_: {}, {"connector": "mysql"})


def shown(changes: list[RowChange]) -> list[tuple[Any, ...]]:
    return [(each.op, each.before, each.after) for each in changes]


def test_what_mysql_wrote_is_read_with_its_places() -> None:
    log = reader(Position(done=f"{SERVER}:1-17"))
    changes = [change for event in events() for change in log.feed(event)]
    assert shown(changes) == EXPECTED
    assert log.position == Position(done=f"{SERVER}:1-23")
    assert [each.transaction.rpartition(":")[2] for each in changes] == ["19", "19", "20", "21", "23"]
    columns = [(each.name, each.type, each.is_key) for each in changes[0].table.columns]
    assert columns[:3] == [("id", "bigint unsigned", True), ("y", "year", False), ("price", "decimal(9,3)", False)]
    assert [each.type for each in changes[0].table.columns[3:]] == [
        "varchar(20)", "enum('a','b')", "json", "point", "bigint unsigned",
    ]  # fmt: skip
    assert [(each.table, each.text[:11], each.place) for each in log.take_statements()] == [
        ("shop.t", "CREATE TABL", f"{SERVER}:18"), ("shop.t", "ALTER TABLE", f"{SERVER}:22"),
    ]  # fmt: skip


def test_a_log_that_is_read_again_from_any_place_gives_the_rest() -> None:
    log = reader(Position(done=f"{SERVER}:1-17"))
    places = []
    for event in events():
        places += [log.position for _ in log.feed(event)]
    for count, place in enumerate(places, 1):
        again = reader(place)
        behind = ExecutedGtids(place.done)
        found, is_new = [], False
        for event in events():  # a server begins with the first transaction that is not in the set
            if event[4] == 33:
                is_new = not behind.covers(ExecutedGtids(f"{SERVER}:{int.from_bytes(event[36:44], 'little')}"))
            found += list(again.feed(event)) if is_new else []
        assert shown(found) == EXPECTED[count:], place


@pytest.mark.parametrize(
    ("kind", "words"), [(34, "gtid_mode"), (39, "binlog_row_value_options"), (40, "compression = OFF"), (42, "tag")]
)
def test_events_that_cannot_be_read_say_what_to_set(kind: int, words: str) -> None:
    event = bytes(4) + bytes([kind]) + bytes(30)
    with pytest.raises(CaptureError, match=words):
        list(reader(Position()).feed(event))


OTHER = "00000000-0000-0000-0000-000000000001"


@given(st.sets(st.integers(1, 60)), st.sets(st.integers(1, 60)))
def test_sets_of_gtids_are_sets(first: set[int], second: set[int]) -> None:
    one, two = ExecutedGtids(), ExecutedGtids(",".join(f"{SERVER}:{number}" for number in second))
    for number in sorted(first, key=lambda each: each * 37 % 61):
        one.add(f"{SERVER}:{number}")
    assert one.covers(two) == (second <= first)
    assert one.missing(two) == len(second - first)
    assert str(ExecutedGtids(str(one))) == str(one)
    assert one.covers(ExecutedGtids(str(one)))


def test_sets_are_written_as_mysql_writes_them_and_others_are_refused() -> None:
    text = f"{OTHER}:5,{SERVER}:1-3:7"
    found = ExecutedGtids(f"{SERVER.upper()}:1-2:7:3,\n{OTHER}:5")
    assert str(found) == text
    assert found.encode().hex().startswith("0200000000000000" + SERVER.replace("-", ""))
    for bad in ("0-1-5", f"{SERVER}:x", f"{SERVER}:tag:1-5", f"{SERVER}:5-1"):
        with pytest.raises(CaptureError, match="no set of GTIDs"):
            ExecutedGtids(bad)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "null"),
        (bytes([4, 1]), "true"),
        (bytes([12, 2]) + b'"\n', '"\\"\\n"'),
        (bytes([0, 0, 0, 4, 0]), "{}"),
        (bytes([2, 1, 0, 7, 0, 5, 255, 255]), "[-1]"),
        (bytes([3, 1, 0, 0, 0, 13, 0, 0, 0, 7]) + (-70000).to_bytes(4, "little", signed=True), "[-70000]"),
    ],
)
def test_json_is_the_text_that_mysql_shows(data: bytes, text: str) -> None:
    assert json_text(data) == text
    json.loads(text)


@given(st.binary(max_size=60))
def test_damaged_json_is_refused_and_never_another_error(data: bytes) -> None:
    with suppress(CaptureError):
        assert json_text(data)
