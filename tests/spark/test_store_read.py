"""`option("store", PATH)`: files that Java's broker wrote, a running broker's, and damaged ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from pyromq.spark.options import Use, read_options
from pyromq.spark.store.store_read import StoreReader
from tests.spark.reading import numbers
from tests.spark.servers import Servers
from tests.store.golden_store import apply_variant, manifest, unpack


def test_a_store_of_javas_without_a_broker(spark: SparkSession, tmp_path: Path) -> None:
    store = unpack("clean", tmp_path)
    known = {each["physicalOffset"]: each for each in manifest("clean")["store"]["messages"]}
    rows = spark.read.format("rocketmq").option("store", str(store)).option("minPartitions", 4).load().collect()
    assert {row.commitLogOffset for row in rows} >= known.keys()
    for row in rows:
        expected = known.get(row.commitLogOffset)
        if expected is not None and not row.sysFlag & 128:  # a message of an inner batch has its own properties
            assert (row.topic, row.queueId, row.storeHost) == (
                expected["topic"],
                expected["queueId"],
                expected["storeHost"],
            )
            assert row.properties == expected["properties"]


def test_topics_and_times_are_chosen(spark: SparkSession, servers: Servers, topic: str) -> None:
    servers.send(topic, 60)
    reader = spark.read.format("rocketmq").option("store", str(servers.store())).option("topic", topic)
    rows = reader.load().collect()
    assert numbers(rows) == list(range(60))
    middle = sorted(row.storeTimestamp for row in rows)[30]
    later = reader.option("startingTimestamp", str(int(middle.timestamp() * 1000))).load().collect()
    assert numbers(later) == numbers([row for row in rows if row.storeTimestamp >= middle])


def test_damage_is_an_error_a_gap_or_a_report(spark: SparkSession, tmp_path: Path) -> None:
    store = unpack("crashed", tmp_path)
    apply_variant(store, "badcrc")
    reader = spark.read.format("rocketmq").option("store", str(store))
    places = reader.option("content", "damage").load().collect()
    assert places
    assert all(place.size > 0 and place.reason for place in places)
    with pytest.raises(PySparkException, match=r"are no record: .*Set failOnDataLoss=false to read around it"):
        reader.option("content", "messages").load().collect()
    assert reader.option("content", "messages").option("failOnDataLoss", "false").load().count() > 0


def scanned(store: Path, **options: str) -> list[tuple[int, bytes]]:
    """Positions and bodies as the tasks of a read find them, without Spark."""
    schema = StructType().add("commitLogOffset", "long").add("body", "binary")
    reader = StoreReader(read_options({"store": str(store)} | options, Use.BATCH), schema)
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return [(row["commitLogOffset"], row["body"]) for batch in batches for row in batch.to_pylist()]


def test_a_record_whose_crc_is_wrong_is_read_where_that_is_asked_for(tmp_path: Path) -> None:
    store = unpack("clean", tmp_path)
    before = scanned(store)
    places = [place for place, _ in before]
    spoilt, body = next((place, body) for place, body in before if len(body) > 8 and places.count(place) == 1)
    log = min((store / "commitlog").iterdir())
    raw = bytearray(log.read_bytes())
    at = raw.index(body, spoilt - int(log.name))
    raw[at] ^= 0xFF
    log.write_bytes(raw)
    rest = [row for row in before if row[0] != spoilt]
    assert scanned(store, failOnDataLoss="false") == rest
    after = scanned(store, verifyCrc="false")
    assert [row for row in after if row[0] != spoilt] == rest
    assert [row[1] for row in after if row[0] == spoilt] == [bytes([body[0] ^ 0xFF]) + body[1:]]


def test_a_folder_that_is_no_store_is_told(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PySparkException, match="is not a store: it has no folder commitlog"):
        spark.read.format("rocketmq").option("store", str(tmp_path)).load().collect()
