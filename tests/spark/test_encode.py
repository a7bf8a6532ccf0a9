"""Arrow rows to batch bodies: the same bytes as the plain encoder, and refusals that say which row."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.model.message import Property
from pyromq.protocol.batch import BatchEntry, encode_batch
from pyromq.protocol.properties import decode_properties
from pyromq.spark.codec.encode import BadRows, batch_entries, bodies, property_strings
from pyromq.spark.schema import MAP

WORDS = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), min_size=1, max_size=6)
OWN = set(vars(Property).values()) - {"KEYS", "TAGS", "__SHARDINGKEY"}  # made anew, whatever a map says
ROW = st.fixed_dictionaries(
    {
        "body": st.binary(min_size=1, max_size=20),
        "keys": WORDS | st.none() | st.just(""),
        "tags": WORDS | st.none(),
        "properties": st.dictionaries(
            WORDS | st.sampled_from(["KEYS", "TAGS", "UNIQ_KEY", "__CRC32#"]), WORDS, max_size=4
        ),
    }
)


def chunk(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    types = {"body": pa.binary(), "keys": pa.string(), "tags": pa.string(), "properties": MAP}
    names = [name for name in types if any(name in row for row in rows)]
    columns = [pa.array([_items(row.get(name)) for row in rows], types[name]) for name in names]
    return pa.RecordBatch.from_arrays(columns, names)


def _items(value: Any) -> Any:
    return list(value.items()) if isinstance(value, dict) else value


def expected(row: dict[str, Any], unique: str) -> dict[str, str]:
    found = {name: value for name, value in row["properties"].items() if name not in OWN}
    for name, column in (("KEYS", "keys"), ("TAGS", "tags")):
        if row[column] is not None:
            found.pop(name, None)
            if row[column]:
                found[name] = row[column]
    return found | {"UNIQ_KEY": unique, "WAIT": "true"}


@given(st.lists(ROW, min_size=1, max_size=6), st.integers(0, 3))
def test_rows_become_the_entries_that_the_plain_encoder_writes(rows: list[dict[str, Any]], skipped: int) -> None:
    batch = chunk(rows).slice(min(skipped, len(rows) - 1))
    kept = rows[min(skipped, len(rows) - 1) :]
    ids = [f"U{number}" for number in range(len(kept))]
    strings = property_strings(batch, pa.array(ids))
    assert [decode_properties(each) for each in strings.to_pylist()] == [
        expected(row, unique) for row, unique in zip(kept, ids, strict=True)
    ]
    entries = batch_entries(bodies(batch), strings)
    plain = [BatchEntry(row["body"], 0, raw) for row, raw in zip(kept, strings.to_pylist(), strict=True)]
    assert b"".join(entries.to_pylist()) == encode_batch(plain)


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (
            [{"body": b"x", "tags": "a"}, {"body": b"x", "tags": "a\x02KEYS\x01b"}],
            "row 1: a property, key or tag holds",
        ),
        ([{"body": b"x", "properties": {"a": "b" * 40_000}}], "row 0: its properties take"),
        ([{"body": b"x", "properties": {"TRAN_MSG": "true"}}], "no transactional messages"),
    ],
)
def test_what_brokers_would_misread_is_refused(rows: list[dict[str, Any]], told: str) -> None:
    batch = chunk(rows)
    with pytest.raises(BadRows, match=told):
        property_strings(batch, pa.array(["U"] * len(rows)))


@pytest.mark.parametrize("body", [None, b""])
def test_a_row_without_body_is_refused(body: bytes | None) -> None:
    with pytest.raises(BadRows, match="row 1: the body is null or empty"):
        bodies(chunk([{"body": b"x"}, {"body": body}]))
    with pytest.raises(BadRows, match="row 0"):
        bodies(chunk([{"body": body}]))


def test_keys_as_a_list_delays_and_delivery_times() -> None:
    batch = pa.RecordBatch.from_pydict(
        {
            "body": pa.array([b"a", b"b"]),
            "keys": pa.array([["k1", "k2"], None]),
            "delayTimeLevel": pa.array([3, 0]),
            "deliverTimestamp": pa.array([None, 1_700_000_000_123_456], pa.timestamp("us", tz="UTC")),
            "shardingKey": pa.array(["s", None]),
        }
    )
    first, second = (decode_properties(each) for each in property_strings(batch, pa.array(["A", "B"])).to_pylist())
    assert first == {"KEYS": "k1 k2", "DELAY": "3", "__SHARDINGKEY": "s", "UNIQ_KEY": "A", "WAIT": "true"}
    assert second == {"TIMER_DELIVER_MS": "1700000000123", "UNIQ_KEY": "B", "WAIT": "true"}


@pytest.mark.parametrize("element", [pa.field("element", pa.string(), False), pa.field("element", pa.int64())])
def test_keys_as_a_list_of_any_type_that_spark_makes(element: pa.Field) -> None:
    keys = pa.array([[1, 2], None], pa.list_(pa.int64())).cast(pa.list_(element))
    batch = pa.RecordBatch.from_arrays([pa.array([b"a", b"b"]), keys], ["body", "keys"])
    strings = property_strings(batch, pa.array(["A", "B"])).to_pylist()
    assert [decode_properties(each).get("KEYS") for each in strings] == ["1 2", None]


def test_a_key_that_is_null_takes_no_others_along() -> None:
    keys = pa.array([["k1", None, "k2"], [None], None], pa.list_(pa.string()))
    batch = pa.RecordBatch.from_arrays([pa.array([b"a", b"b", b"c"]), keys], ["body", "keys"])
    strings = property_strings(batch, pa.array(["A", "B", "C"])).to_pylist()
    assert [decode_properties(each).get("KEYS") for each in strings] == ["k1 k2", None, None]
