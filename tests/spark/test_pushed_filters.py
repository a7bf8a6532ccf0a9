"""Filters of a query that batch reads take upon themselves: which rows come, and what was read for them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)
from pyspark.sql.types import IntegerType, StringType, StructType, TimestampNTZType, TimestampType

from pyromq.ambient import pause
from pyromq.spark.options import Use, read_options
from pyromq.spark.read.offsets import OffsetRange, Queue
from pyromq.spark.read.pushed_filters import PushedFilters, is_applicable
from pyromq.spark.schema import TIMESTAMP
from pyromq.spark.store.store_read import StoreReader
from tests.spark.servers import Servers

SCHEMA = "topic string, queueId int, queueOffset bigint, storeTimestamp timestamp, tags string, body string"
START = datetime(2026, 11, 19, tzinfo=UTC)
KINDS: list[Any] = [EqualTo, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual]
NUMBERS = st.integers(-1, 4)
TIMES = st.integers(-1_500, 4_500).map(lambda value: START + timedelta(microseconds=value))


@pytest.fixture(scope="module")
def tagged(servers: Servers) -> str:
    """A topic of 80 messages with the tag a, and 40 with b."""
    servers.send("pushed-filters", 80, tag="a")
    servers.send("pushed-filters", 40, first=80, tag="b")
    return "pushed-filters"


def filters_on(column: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    compared = st.builds(lambda kind, value: kind((column,), value), st.sampled_from(KINDS), values)
    among = st.lists(st.none() | values, max_size=3).map(lambda given: In((column,), tuple(given)))
    return compared | among | st.just(IsNotNull((column,)))


def load(spark: SparkSession, servers: Servers, topic: str, **options: Any) -> DataFrame:
    reader = spark.read.format("rocketmq").schema(SCHEMA).option("nameServer", servers.namesrv)
    return reader.option("topic", topic).options(**options).load()


def explained(frame: DataFrame, capsys: pytest.CaptureFixture[str]) -> str:
    frame.explain("formatted")
    return capsys.readouterr().out


@given(
    st.lists(filters_on("queueOffset", NUMBERS), max_size=3),
    st.lists(filters_on("queueId", NUMBERS), max_size=2),
    st.lists(filters_on("storeTimestamp", TIMES), max_size=3),
)
def test_what_is_left_out_never_passes_and_offsets_and_queues_are_exact(
    offsets: list[Any], queues: list[Any], times: list[Any]
) -> None:
    pushed = PushedFilters((*offsets, *queues, *times))
    condition = pushed.row_filter()
    for queue in range(3):
        left = pushed.narrowed(OffsetRange(Queue("orders", "broker-a", queue), 0, 4))
        low, high = pushed.times_ms()
        for at in range(4):
            stored = START + timedelta(milliseconds=at)
            row = {"queueId": [queue], "queueOffset": [at], "storeTimestamp": pa.array([stored], TIMESTAMP)}
            passes = condition is None or pa.RecordBatch.from_pydict(row).filter(condition).num_rows == 1
            stored_ms = int(START.timestamp()) * 1000 + at
            is_read = left is not None and left.begin <= at < left.end
            in_time = (low is None or stored_ms >= low) and (high is None or stored_ms < high)
            assert not passes or (is_read and in_time)
            if not times and not any(isinstance(each, In) for each in offsets):
                assert passes == is_read


def test_only_what_can_be_applied_as_spark_would_is_taken() -> None:
    plain = StructType().add("queueId", "long").add("tags", "string").add("storeTimestamp", "timestamp")
    assert is_applicable(EqualTo(("queueId",), 1), plain)
    assert is_applicable(In(("tags",), ("a", None)), plain)
    assert is_applicable(IsNotNull(("tags",)), plain)
    assert is_applicable(GreaterThan(("storeTimestamp",), START), plain)
    assert not is_applicable(Not(EqualTo(("queueId",), 1)), plain)
    assert not is_applicable(LessThan(("tags",), "b"), plain)
    assert not is_applicable(EqualTo(("body",), b"x"), plain)
    other = StructType().add("queueId", "string").add("tags", StringType("UTF8_LCASE"))
    other = (
        other.add("storeTimestamp", TimestampNTZType()).add("body", IntegerType()).add("bornTimestamp", TimestampType())
    )
    assert not is_applicable(EqualTo(("queueId",), "1"), other)
    assert not is_applicable(EqualTo(("tags",), "A"), other)
    assert not is_applicable(EqualTo(("storeTimestamp",), START.replace(tzinfo=None)), other)
    assert not is_applicable(EqualTo(("bornTimestamp",), START), other)


@pytest.mark.parametrize(
    ("where", "pushed"),
    [
        ("queueId = 1 AND queueOffset >= 5", "GreaterThanOrEqual(queueOffset,5)"),
        ("tags IN ('b', 'none') AND queueId > 1", "In(tags, [b,none])"),
    ],
)
def test_no_more_is_read_than_what_passes(
    spark: SparkSession, servers: Servers, tagged: str, where: str, pushed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = sorted(load(spark, servers, tagged, filterPushdown=False).where(where).collect())
    before = servers.handed_out()
    asked = load(spark, servers, tagged).where(where)
    assert sorted(asked.collect()) == expected
    assert servers.handed_out() - before == len(expected) < 120
    assert pushed in explained(asked, capsys).partition("PushedFilters")[2]


def test_a_time_is_found_by_the_broker(
    spark: SparkSession, servers: Servers, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    servers.send(topic, 80)
    middle = max(row.storeTimestamp for row in load(spark, servers, topic).collect()) + timedelta(milliseconds=1)
    while datetime.now(UTC).replace(tzinfo=None) <= middle:
        pause(0.001)
    servers.send(topic, 30, first=80)
    before = servers.handed_out()
    asked = load(spark, servers, topic).where(f"storeTimestamp >= TIMESTAMP '{middle}'")
    assert sorted(row.body for row in asked.collect()) == sorted(f"m{number}" for number in range(80, 110))
    assert servers.handed_out() - before == 30
    assert "GreaterThanOrEqual(storeTimestamp" in explained(asked, capsys).partition("PushedFilters")[2]


def test_without_the_option_everything_is_read(
    spark: SparkSession, servers: Servers, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    servers.send(topic, 40)
    before = servers.handed_out()
    some = load(spark, servers, topic, filterPushdown=False).where("queueId = 1 AND queueOffset >= 2")
    assert some.count() == 8
    assert servers.handed_out() - before == 40
    assert "PushedFilters" not in explained(some, capsys)


def test_files_are_read_by_time_and_chosen_by_the_rest(spark: SparkSession, servers: Servers, topic: str) -> None:
    servers.send(topic, 40, tag="a")
    reader = spark.read.format("rocketmq").schema(SCHEMA).option("store", str(servers.store()))
    frame = reader.option("topic", topic).load()
    every = frame.collect()
    last = max(row.storeTimestamp for row in every)
    some = frame.where(f"storeTimestamp <= TIMESTAMP '{last}' AND queueId = 1 AND queueOffset >= 3 AND tags = 'a'")
    assert sorted(some.collect()) == sorted(row for row in every if row.queueId == 1 and row.queueOffset >= 3)


def test_pieces_of_a_log_outside_of_the_times_are_not_read(own: Servers, topic: str) -> None:
    own.start()
    own.send(topic, 20)
    own.kill()
    schema = StructType().add("storeTimestamp", "timestamp")
    options = read_options({"store": str(own.store()), "topic": topic}, Use.BATCH)

    def planned(*filters: Any) -> tuple[int, int]:
        reader = StoreReader(options, schema)
        assert reader.pushFilters(list(filters)) == []
        parts = reader.partitions()
        return len(parts), sum(batch.num_rows for part in parts for batch in reader.read(part))

    early, late = datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
    assert planned(GreaterThan(("storeTimestamp",), early), LessThan(("storeTimestamp",), late)) == (1, 20)
    assert planned(LessThan(("storeTimestamp",), early)) == (0, 0)
    assert StoreReader(options, schema).partitions() != []
