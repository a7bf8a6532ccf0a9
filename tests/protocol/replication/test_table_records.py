"""Records of table changes: what is written is read, what is no such record is refused by name, at every byte."""

from __future__ import annotations

import pytest

from pyromq.model.table_change import DROPPED, TableChange
from pyromq.protocol.replication.table_records import (
    NO_SNAPSHOT,
    RecordKind,
    TableRecord,
    TableRecordRefused,
    decode,
    encode,
    portions,
)

KNOWN = frozenset(("config/topics.json", "config/consumerOffset.json"))
CHANGES = [
    ("config/topics.json", TableChange("topicConfigTable", "T", {"perm": 6, "order": False})),
    ("config/topics.json", TableChange("topicConfigTable", "gone", DROPPED)),
    ("config/consumerOffset.json", TableChange("offsetTable", "T@G", {0: 5, 1: 7})),
    ("config/topics.json", TableChange("dataVersion", None, {"counter": 3})),
    ("config/consumerOffset.json", TableChange("offsetTable", 3, 9)),
]


def body(kind: RecordKind = RecordKind.CHANGES, snapshot: int = 12) -> bytes:
    (tables,) = portions(CHANGES)
    return encode(kind, snapshot, tables.items())


def test_what_is_written_is_read() -> None:
    found = decode(body(), KNOWN)
    assert (found.kind, found.snapshot) == (RecordKind.CHANGES, 12)
    assert dict(found.changes) == {
        "config/topics.json": [CHANGES[0][1], CHANGES[1][1], CHANGES[3][1]],
        "config/consumerOffset.json": [TableChange("offsetTable", "T@G", {"0": 5, "1": 7}), CHANGES[4][1]],
    }
    assert decode(encode(RecordKind.BEGIN, NO_SNAPSHOT), KNOWN) == TableRecord(RecordKind.BEGIN, NO_SNAPSHOT, [])


def test_what_is_cut_off_at_any_byte_is_refused() -> None:
    whole = body()
    for length in range(len(whole)):
        with pytest.raises(TableRecordRefused):
            decode(whole[:length], KNOWN)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"XX" + body()[2:], "no record of table changes"),
        (body()[:2] + b"\x02" + body()[3:], "its format is 2, this PyroMQ knows 1: upgrade this broker"),
        (body()[:3] + b"\x09" + body()[4:], "its kind is 9: there are 0, 1, 2"),
        (encode(RecordKind.CHANGES, -2), "the newest snapshot begins at -2"),
        (body()[:12] + b"{}", "its changes cannot be read"),
        (body()[:12] + b"\xff\xfe", "its changes cannot be read"),
        (body()[:12] + b'[["../lock",[]]]', "changes the table '../lock'"),
        (body()[:12] + b'[["config/topics.json",[["a"]]]]', "no section, key and value"),
        (body()[:12] + b'[["config/topics.json",[[1,"a",2]]]]', "no section, key and value"),
        (body()[:12] + b'[["config/topics.json",[["a",null]]]]', "has no key"),
        (body()[:12] + b'[["config/topics.json",[["a",true,1]]]]', "has no key"),
        (body()[:12] + b'[["config/topics.json",[["a","b",' + b"[" * 40 + b"]" * 40 + b"]]]]", "nested deeper than 32"),
        (body()[:12] + b"[" * 100_000, "its changes cannot be read"),
    ],
)
def test_what_is_no_such_record_is_refused_by_name(data: bytes, why: str) -> None:
    with pytest.raises(TableRecordRefused, match=why.replace("(", r"\(")):
        decode(data, KNOWN)


def test_many_changes_are_split_and_keep_their_order() -> None:
    many = [("config/topics.json", TableChange("s", str(number), "x" * 1000)) for number in range(1000)]
    parts = list(portions(many))
    assert len(parts) == 4
    read = [
        change.key
        for tables in parts
        for _, changes in decode(encode(RecordKind.CHANGES, NO_SNAPSHOT, tables.items()), KNOWN).changes
        for change in changes
    ]
    assert read == [str(number) for number in range(1000)]
