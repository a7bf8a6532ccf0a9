"""The Arrow codec against the plain decoder: the same rows from the same bytes, or a refusal from both."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.errors import ConfigError, ProtocolError
from pyromq.kernel.python import scan as python
from pyromq.model.ids import pack_host
from pyromq.model.message import WRAPPED_BATCH, SysFlag
from pyromq.protocol.batch import BatchEntry, encode_batch
from pyromq.protocol.compression import Compression, CompressionMissing, compress, compressed_flag
from pyromq.protocol.record import FIXED_BYTES, MAGIC_V1, MAGIC_V2, Record, encode_record
from pyromq.spark.codec.bad_records import DROPMALFORMED, FAILFAST, PERMISSIVE, BadRecord, BadRecords
from pyromq.spark.codec.batches import decode_batches, messages_to_batch
from pyromq.spark.codec.columns import decode_records, native_columns
from pyromq.spark.codec.property_table import parse_properties
from pyromq.spark.codec.records import Records, record_starts
from pyromq.spark.schema import COLUMNS, arrow_schema
from tests.kernel.twins import native_module
from tests.wire import decode_messages

HOSTS = st.sampled_from([pack_host("10.1.2.3", 10911), pack_host("fe80::1", 80), bytes(8), pack_host("127.0.0.1", 1)])
TIMES = st.integers(0, 2**42) | st.integers(-(2**63), 2**63 - 1)
WORDS = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), min_size=1, max_size=8)
ORDINARY = st.dictionaries(st.sampled_from(["KEYS", "TAGS", "UNIQ_KEY", "WAIT"]) | WORDS, WORDS, max_size=6).map(
    lambda pairs: "".join(f"{name}\x01{value}\x02" for name, value in pairs.items()).encode()
)
ODD = st.lists(
    st.sampled_from([b"KEYS", b"TAGS", b"a", b"\x01", b"\x02", b"\xff", "ä".encode(), b"\0"]), max_size=12
).map(b"".join)


@st.composite
def records(draw: st.DrawFn) -> bytes:
    body, flags = (
        draw(st.binary(max_size=40)),
        draw(st.sampled_from([0, SysFlag.TRANSACTION_COMMIT, SysFlag.MULTI_TAGS])),
    )
    if draw(st.integers(0, 5)) == 0:
        entries = st.builds(BatchEntry, st.binary(max_size=9), st.integers(0, 9), ORDINARY | ODD)
        body, flags = encode_batch(draw(st.lists(entries, max_size=3))), flags | WRAPPED_BATCH
    if draw(st.integers(0, 3)) == 0:
        kind = draw(st.sampled_from(Compression))
        body, flags = compress(body, kind), flags | compressed_flag(kind)
    record = Record(
        topic=draw(st.sampled_from(["T", "orders", "thè", "x" * 127, "y" * 300])),
        queue_id=draw(st.integers(0, 7)),
        body=body,
        properties=draw(ORDINARY | ODD),
        flag=draw(st.integers(-(2**31), 2**31 - 1)),
        sys_flag=flags,
        queue_offset=draw(st.integers(0, 2**60)),
        physical_offset=draw(st.integers(0, 2**60)),
        born_timestamp=draw(TIMES),
        born_host=draw(HOSTS),
        store_timestamp=draw(TIMES),
        store_host=draw(HOSTS),
        reconsume_times=draw(st.integers(0, 99)),
        magic=draw(st.sampled_from([MAGIC_V1, MAGIC_V2])),
    )
    return encode_record(record, with_crc=draw(st.booleans()))


@contextmanager
def without_kernel() -> Iterator[None]:
    """As on a machine without a compiler."""
    with (
        patch("pyromq.spark.codec.columns.cut_columns", None),
        patch("pyromq.spark.codec.records.walk_records", python.walk_records),
    ):
        yield


def by_columns(raw: bytes, names: list[str]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for batch in batches(raw, names):
        batch.validate(full=True)
        rows += batch.to_pylist()
    return rows


def batches(raw: bytes, names: list[str], mode: str = FAILFAST) -> list[pa.RecordBatch]:
    return list(decode_batches(Records(raw, record_starts(raw)), arrow_schema(names), "b", BadRecords(mode, "b")))


def one_by_one(raw: bytes, names: list[str]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = messages_to_batch(decode_messages(raw), arrow_schema(names), "b").to_pylist()
    return rows


@given(st.lists(records(), max_size=6).map(b"".join), st.lists(st.sampled_from(list(COLUMNS)), unique=True, min_size=1))
def test_any_records_give_the_rows_of_the_plain_decoder(raw: bytes, names: list[str]) -> None:
    assert by_columns(raw, names) == one_by_one(raw, names)
    with without_kernel():
        assert by_columns(raw, names) == one_by_one(raw, names)


@given(st.lists(records(), min_size=1, max_size=3).map(b"".join), st.data())
def test_damaged_bytes_are_refused_or_read_alike(raw: bytes, data: st.DataObject) -> None:
    harmed = bytearray(raw)
    for _ in range(data.draw(st.integers(1, 3))):
        harmed[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(harmed[: data.draw(st.integers(0, len(raw)) | st.just(len(raw)))])
    expected, found = or_refusal(one_by_one, cut), or_refusal(by_columns, cut)
    # Only the plain decoder looks at CRCs: what it refuses may still be laid out well.
    assert expected is None or found == expected
    with without_kernel():
        assert or_refusal(by_columns, cut) == found


def or_refusal(decode: Callable[[bytes, list[str]], list[dict[str, Any]]], raw: bytes) -> list[dict[str, Any]] | None:
    try:
        return decode(raw, list(COLUMNS))
    except ProtocolError:
        return None


@given(st.lists(ORDINARY, min_size=1, max_size=5))
def test_ordinary_records_are_cut_natively(properties: list[bytes]) -> None:
    raw = b"".join(encode_record(Record(topic="T", queue_id=1, body=b"x", properties=each)) for each in properties)
    found = Records(raw, record_starts(raw))
    with patch("pyromq.spark.codec.columns.cut_columns", native_module().cut_columns):  # whichever kernel serves
        assert set(native_columns(found, list(COLUMNS))) == set(COLUMNS) - {"brokerName"}


@given(st.lists(ORDINARY | ODD, max_size=8))
def test_property_strings_are_cut_as_the_plain_decoder_cuts_them(raw: list[bytes]) -> None:
    from pyromq.protocol.properties import decode_properties

    table = parse_properties(pa.array(raw, pa.binary()))
    plain = [decode_properties(each) for each in raw]
    assert [dict(row) for row in table.as_map().to_pylist()] == plain
    assert table.column("KEYS").to_pylist() == [each.get("KEYS") for each in plain]


@given(st.lists(ORDINARY | ODD, min_size=1, max_size=8))
def test_properties_are_json_or_bytes_where_the_schema_says_so(raw: list[bytes]) -> None:
    stored = b"".join(encode_record(Record(topic="T", queue_id=1, body=b"x", properties=each)) for each in raw)
    plain = [dict(each.properties) for each in decode_messages(stored)]

    def read(kind: pa.DataType) -> list[Any]:
        schema = pa.schema({"properties": kind})
        found = decode_batches(Records(stored, record_starts(stored)), schema, "b", BadRecords(FAILFAST, "b"))
        return [row for batch in found for row in batch.column("properties").to_pylist()]

    def check() -> None:
        assert [json.loads(row) for row in read(pa.string())] == plain
        assert read(pa.binary()) == raw
        one_by_one = messages_to_batch(decode_messages(stored), pa.schema({"properties": pa.string()}), "b")
        assert [json.loads(row) for row in one_by_one.column(0).to_pylist()] == plain

    check()
    with without_kernel():
        check()


def test_more_names_than_bits_and_a_name_twice() -> None:
    many = b"".join(b"n%d\x01v\x02" % number for number in range(100))
    table = parse_properties(pa.array([many, many + b"n7\x01w\x02"], pa.binary()))
    assert table.column("n7").to_pylist() == ["v", "w"]
    assert [len(row) for row in table.as_map().to_pylist()] == [100, 100]


def test_only_what_is_asked_for_is_looked_at() -> None:
    """The header's numbers do not depend on a property string that makes no sense: nobody reads it."""
    raw = bytearray(encode_record(Record(topic="T", queue_id=3, body=b"x", queue_offset=9)))
    raw[-1] = 77  # the length of the properties
    assert by_columns(bytes(raw), ["queueId", "queueOffset"]) == [{"queueId": 3, "queueOffset": 9}]
    with pytest.raises(ProtocolError, match="do not add up"):
        by_columns(bytes(raw), ["tags"])


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (bytes(FIXED_BYTES), "at byte 0: magic 0x00000000"),
        (encode_record(Record(topic="T", queue_id=0, body=b"x"))[:-1], "claims 93 bytes, 92 are there"),
        ((5).to_bytes(4, "big") + MAGIC_V1.to_bytes(4, "big") + bytes(FIXED_BYTES), "claims 5 bytes"),
        (b"\0\0\0", "3 bytes are left, a record has at least 91"),
    ],
)
def test_a_body_that_is_no_run_of_records_is_refused(raw: bytes, told: str) -> None:
    with pytest.raises(ProtocolError, match=told):
        record_starts(raw)


def test_no_records_give_no_rows_of_any_column() -> None:
    batch = decode_records(Records(b"", np.array([], np.int64)), arrow_schema())
    assert (batch.num_rows, batch.schema) == (0, arrow_schema())


def test_an_unknown_column_is_named_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="no column 'queueoffset'; did you mean queueOffset"):
        arrow_schema(["queueoffset"])


@pytest.mark.parametrize(
    ("kind", "body"), [(pa.int32(), b"m1"), (pa.string(), b"\xff"), (pa.int32(), b"x" * 5000)], ids=str
)
def test_a_value_that_its_type_cannot_hold_is_named_with_its_place(kind: pa.DataType, body: bytes) -> None:
    raw = b"".join(
        encode_record(Record(topic="orders", queue_id=3, body=each, queue_offset=offset))
        for offset, each in ((40, b"7"), (41, body))
    )
    schema = pa.schema({"body": kind})
    told = rf"^schema: column body of the message at offset 41 of queue 3 of orders does not become {kind} .{{,140}};"
    with pytest.raises(ConfigError, match=told):
        decode_records(Records(raw, record_starts(raw)), schema)
    with pytest.raises(ConfigError, match=told):
        messages_to_batch(decode_messages(raw), schema, "broker-a")


def test_a_time_that_no_calendar_has_is_null() -> None:
    raw = encode_record(Record(topic="T", queue_id=0, body=b"", born_timestamp=2**62, store_timestamp=1))
    [row] = by_columns(raw, ["bornTimestamp", "storeTimestamp"])
    assert row["bornTimestamp"] is None
    assert row["storeTimestamp"].timestamp() == 0.001


# --- bad records ------------------------------------------------------------------------------------------------------

ZLIB = compressed_flag(Compression.ZLIB)


def numbered(number: int, body: bytes = b"body", sys_flag: int = 0) -> bytes:
    return encode_record(
        Record(
            topic="T",
            queue_id=0,
            body=body,
            sys_flag=sys_flag,
            queue_offset=number,
            physical_offset=number * 1000,
            properties=b"UNIQ_KEY\x01ID%d\x02TAGS\x01t\x02" % number,
        )
    )


def misfit(number: int) -> bytes:
    """Its lengths do not add up to its size."""
    raw = bytearray(numbered(number))
    raw[84:88] = (1 << 20).to_bytes(4, "big")
    return bytes(raw)


BAD = {
    "a bad body": numbered(1, b"no zlib", ZLIB),
    "an unknown type": numbered(1, b"x", SysFlag.COMPRESSED | 7 << SysFlag.COMPRESSION_SHIFT),
    "above 64 MB": numbered(1, compress(bytes((64 << 20) + 1), Compression.ZLIB, 1), ZLIB),
    "a bad inner batch": numbered(1, b"no batch", WRAPPED_BATCH),
    "a body that does not fit": misfit(1),
    "a topic that is no text": numbered(1).replace(b"\x01T\x00", b"\x01\xff\x00", 1),
}


@contextmanager
def either_kernel(native: bool) -> Iterator[None]:
    if not native:
        with without_kernel():
            yield
        return
    with patch("pyromq.spark.codec.columns.cut_columns", native_module().cut_columns):
        yield


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("kind", BAD)
def test_a_bad_record_goes_the_way_of_its_mode_and_the_others_are_rows(kind: str, native: bool) -> None:
    raw = numbered(0) + BAD[kind] + numbered(2, compress(b"plain", Compression.ZLIB), ZLIB) + numbered(3)
    names = ["queueOffset", "body", "commitLogOffset", "tags", "topic"]
    with either_kernel(native):
        dropped = [row for batch in batches(raw, names, DROPMALFORMED) for row in batch.to_pylist()]
        kept = [row for batch in batches(raw, names, PERMISSIVE) for row in batch.to_pylist()]
        with pytest.raises(
            BadRecord, match=r"b: the record at offset 1 of queue 0 .* position 1000, .*mode=PERMISSIVE"
        ):
            batches(raw, names, FAILFAST)
    assert [(row["queueOffset"], row["body"]) for row in dropped] == [(0, b"body"), (2, b"plain"), (3, b"body")]
    (bad,) = [row for row in kept if row["queueOffset"] == 1]
    assert (bad["body"], bad["commitLogOffset"]) == (None, 1000)
    assert [row for row in kept if row is not bad] == dropped


@pytest.mark.parametrize("native", [True, False])
def test_where_nobody_asks_for_bodies_a_bad_one_is_a_row_like_others(native: bool) -> None:
    raw = numbered(0) + numbered(1, b"no zlib", ZLIB)
    with either_kernel(native):
        assert by_columns(raw, ["queueOffset", "tags"]) == [{"queueOffset": at, "tags": "t"} for at in (0, 1)]


def test_bombs_are_unpacked_a_batch_at_a_time() -> None:
    bomb = compress(bytes(30 << 20), Compression.ZLIB)
    raw = b"".join(numbered(at, bomb, ZLIB) for at in range(5)) + numbered(5)
    made = decode_batches(Records(raw, record_starts(raw)), arrow_schema(["body"]), "b", BadRecords(FAILFAST, "b"))
    assert [batch.num_rows for batch in made] == [3, 3]


def test_a_missing_package_fails_the_read_in_every_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(module: str, package: str) -> Any:
        raise CompressionMissing(f"pip install {package}")

    monkeypatch.setattr("pyromq.protocol.compression._package", missing)
    raw = numbered(0) + numbered(1, b"x", compressed_flag(Compression.LZ4))
    for mode in (FAILFAST, DROPMALFORMED, PERMISSIVE):
        with pytest.raises(CompressionMissing, match="pip install lz4"):
            batches(raw, ["body"], mode)
