"""What a filter leaves of a column: read off Arrow's expressions, and never less than what passes."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.query.filters import ANY, FilterNode, Leaves, columns_of, leaves, parsed

AT = datetime(2026, 11, 18, 12, tzinfo=UTC)
AT_US = int(AT.timestamp()) * 1_000_000
tag, offset, stored = pc.field("tag"), pc.field("queueOffset"), pc.field("storeTimestamp")


def of(values: Any) -> Any:
    """As DuckDB writes IN down."""
    return pc.if_else(pc.is_valid(tag), tag.isin(pa.array(values, pa.string())), pa.scalar(None, pa.bool_()))


@pytest.mark.parametrize(
    ("filter", "column", "expected"),
    [
        (tag == "a", "tag", Leaves(values=frozenset({"a"}))),
        (pa.scalar("a") == tag, "tag", Leaves(values=frozenset({"a"}))),
        ((tag == "a") | (tag == "b"), "tag", Leaves(values=frozenset({"a", "b"}))),
        (of(["a", "b", None]), "tag", Leaves(values=frozenset({"a", "b"}))),
        (of(list(map(str, range(40)))) & (offset > 3), "tag", Leaves(values=frozenset(map(str, range(40))))),
        (of(["a", "b"]) & (tag == "b"), "tag", Leaves(values=frozenset({"b"}))),
        ((offset >= 5) & (offset < 9) & pc.is_valid(tag), "queueOffset", Leaves(5, 8)),
        ((offset > 5) | (offset == 2), "queueOffset", Leaves(2, None)),
        ((offset > 5) | (tag == "a"), "queueOffset", ANY),
        (stored >= AT, "storeTimestamp", Leaves(AT_US, None)),
        (stored < AT, "storeTimestamp", Leaves(None, AT_US - 1)),
        (~(tag == "a"), "tag", ANY),
        (pc.is_null(tag), "tag", ANY),
        (tag >= "a", "tag", ANY),
        (offset == pa.scalar(Decimal("5.0")), "queueOffset", ANY),
        (offset.isin([1.5]), "queueOffset", ANY),
        (pc.starts_with(tag, "a"), "tag", ANY),
    ],
)
def test_what_a_filter_leaves(filter: Any, column: str, expected: Leaves) -> None:
    assert leaves(parsed(filter), column) == expected


def test_the_columns_of_a_filter() -> None:
    assert columns_of(parsed((tag == "a") & (offset > 3))) == frozenset({"tag", "queueOffset"})
    assert columns_of(FilterNode("unknown")) is None
    assert columns_of(parsed("no expression at all")) is None


atoms = st.one_of(
    st.sampled_from(["a", "b", "c"]).map(lambda value: tag == value),
    st.lists(st.sampled_from(["a", "b", None]), max_size=3).map(of),
    st.sampled_from([pc.is_null(tag), pc.is_valid(tag), ~(tag == "a")]),
    st.tuples(st.sampled_from(["__gt__", "__ge__", "__lt__", "__le__", "__eq__"]), st.integers(0, 6)).map(
        lambda pair: getattr(offset, pair[0])(pair[1])
    ),
    st.lists(st.integers(0, 6), max_size=3).map(lambda values: offset.isin(pa.array(values, pa.int64()))),
)


def joined(left: Any, right: Any, is_and: bool) -> Any:
    return left & right if is_and else left | right


filters = st.recursive(atoms, lambda inner: st.builds(joined, inner, inner, st.booleans()), max_leaves=6)
ROWS = pa.table({
    "tag": pa.array([each for each in ("a", "b", "c", None) for _ in range(7)]),
    "queueOffset": pa.array(list(range(7)) * 4, pa.int64()),
})  # fmt: skip


@given(filters)
def test_no_row_that_passes_is_left_out(filter: Any) -> None:
    tree = parsed(filter)
    tags, offsets = leaves(tree, "tag"), leaves(tree, "queueOffset")
    low, high = offsets.bounds()
    for row in ROWS.filter(filter).to_pylist():
        assert tags.has(row["tag"])
        assert offsets.has(row["queueOffset"])
        assert low is None or low <= row["queueOffset"]
        assert high is None or row["queueOffset"] <= high
