"""Half messages kept at hand until they are ended: bounded, and never the only place where one is."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from pyromq.broker.transactions.end import RecentHalves
from pyromq.model.names import HALF_TOPIC
from pyromq.protocol.record import Record
from tests.broker.transactions.test_transactions import COMMIT, end, send_half
from tests.broker.virtual import virtual_broker


def record(position: int, size: int = 1000) -> Record:
    return Record(topic=HALF_TOPIC, queue_id=0, body=bytes(size), properties=b"", physical_offset=position)


def test_one_is_taken_once() -> None:
    recent = RecentHalves()
    half = record(700)
    recent.stored(half)
    assert recent.take(600) is None
    assert recent.take(700) is half
    assert recent.take(700) is None


def test_the_oldest_make_room() -> None:
    recent = RecentHalves(most_bytes=10_000)
    for position in range(100):
        recent.stored(record(position))
    assert 5 <= len(recent) <= 10
    assert recent.take(0) is None
    assert recent.take(99) is not None


def test_one_that_is_larger_than_the_room_is_not_kept() -> None:
    recent = RecentHalves(most_bytes=10_000)
    recent.stored(record(1, size=20_000))
    assert len(recent) == 0


async def test_a_message_is_the_same_from_memory_and_from_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with virtual_broker(tmp_path) as life:
        halves = [await send_half(life, "k", queue=1, TAGS="t", own="value") for _ in range(2)]
        assert (await end(life, halves[0], COMMIT)).code == 0
        monkeypatch.setattr(RecentHalves, "take", lambda self, position: None)
        assert (await end(life, halves[1], COMMIT)).code == 0
        one, other = life.stored("T", 1)
        own = {"queue_offset", "physical_offset", "prepared_transaction_offset", "properties"}
        first, second = msgspec.structs.asdict(one), msgspec.structs.asdict(other)
        assert {name for name in first if first[name] != second[name]} == own
        crc = len(b"__CRC32#\x010000000000\x02")  # of the whole record, its place included
        assert one.properties[:-crc] == other.properties[:-crc]


async def test_an_end_that_was_refused_may_be_told_rightly(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        half = await send_half(life)
        assert (await end(life, half, COMMIT, producerGroup="Other")).code != 0
        assert (await end(life, half, COMMIT)).code == 0
        assert life.bodies("T") == ["k"]
