"""Check points and acks byte for byte as Java wrote them, and what is made of records that nobody writes."""

from __future__ import annotations

import random

import msgspec
import pytest

from pyromq.broker.pop.stored.java_records import (
    ACK_INTERVAL_MS,
    RecordUnfit,
    RevivePlace,
    StoredAck,
    StoredCheckPoint,
    ack_record,
    key_of_ack,
    point_key,
    point_record,
    read_entry,
    stored_point,
)
from pyromq.broker.timing.timer_park import TimerPark
from pyromq.model.names import TIMER_TOPIC
from pyromq.model.pop_names import revive_topic
from pyromq.protocol.properties import decode_properties
from pyromq.protocol.record import Record
from tests.broker.pop.stored.golden_records import records_of
from tests.broker.settings import live
from tests.store.golden_store import unpack

TOPIC = revive_topic("DefaultCluster")
PLACE = RevivePlace(TOPIC, 3, b"\x7f\0\0\1\0\0Q\xaf")


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> list[Record]:
    """Every record of pop in the store of a Java broker, as it waited and as it was delivered."""
    store = unpack("clean", tmp_path_factory.mktemp("golden"))
    found = [one for one in records_of(store) if TOPIC in (one.topic, pairs_of(one).get("REAL_TOPIC"))]
    assert len(found) == 51
    return found


def pairs_of(record: Record) -> dict[str, str]:
    return decode_properties(record.properties)


def park() -> TimerPark:
    return TimerPark(live(), lambda: 0, lambda slot: 0, random.Random(1).randrange)


def written_again(record: Record) -> Record:
    """The record as we write it for what it says."""
    pairs = pairs_of(record)
    place = RevivePlace(TOPIC, int(pairs["REAL_QID"]), record.store_host)
    entry = read_entry(record)
    assert entry is not None
    if isinstance(entry.content, StoredCheckPoint):
        return point_record(entry.content, place, record.born_timestamp)
    return ack_record(entry.content, int(pairs["TIMER_DELIVER_MS"]), place, record.born_timestamp)


def test_bodies_are_those_of_java(golden: list[Record]) -> None:
    kinds = set()
    for record in golden:
        ours = written_again(record)
        kinds.add(pairs_of(record)["TAGS"])
        assert ours.body == record.body
        assert (ours.born_host, ours.born_timestamp) == (record.born_host, record.born_timestamp)
        assert (ours.flag, ours.sys_flag, ours.reconsume_times) == (
            record.flag,
            record.sys_flag,
            record.reconsume_times,
        )
    assert kinds == {"ck", "ack"}


def test_what_waits_in_the_timer_topic_is_that_of_java(golden: list[Record]) -> None:
    """The order of properties is that of a hash map in Java, and means nothing."""
    parked = [one for one in golden if one.topic == TIMER_TOPIC]
    assert parked
    for record in parked:
        ours = park().until(written_again(record), int(pairs_of(record)["TIMER_DELIVER_MS"]))
        assert (ours.topic, ours.queue_id) == (record.topic, record.queue_id)
        assert pairs_of(ours) == pairs_of(record)


def test_what_reached_the_revive_topic_says_the_same(golden: list[Record]) -> None:
    waited = {pairs_of(one)["UNIQ_KEY"]: one for one in golden if one.topic == TIMER_TOPIC}
    delivered = [one for one in golden if one.topic == TOPIC]
    assert delivered
    for record in delivered:
        before = waited[pairs_of(record)["UNIQ_KEY"]]
        assert read_entry(record) == read_entry(before)


def test_acks_find_their_check_points(golden: list[Record]) -> None:
    contents = [entry.content for one in golden if (entry := read_entry(one)) is not None]
    keys = {point_key(one): one for one in contents if isinstance(one, StoredCheckPoint)}
    acks = [one for one in contents if isinstance(one, StoredAck)]
    assert acks
    for ack in acks:
        point = keys[key_of_ack(ack, "another")]
        assert set(ack.acked) <= set(point.offsets)


def test_a_batch_ack_as_recorded_of_java() -> None:
    ack = StoredAck(offsets=[0, 2], broker="broker-a", group="G", pop_time=9, queue_id=1, start=0, topic="T")
    record = ack_record(ack, 77, PLACE, 5)
    assert record.body == b'{"ao":-1,"aol":[0,2],"bn":"broker-a","c":"G","pt":9,"q":1,"so":0,"t":"T"}'
    pairs = pairs_of(record)
    assert pairs == {"UNIQ_KEY": "T@1@-1@G@9@broker-a@ack", "TAGS": "bAck", "TIMER_DELIVER_MS": "77"}
    entry = read_entry(record)
    assert entry is not None
    assert entry.content == ack
    assert entry.slot_ms == 0, "it did not wait"


def test_a_batch_ack_of_javas_buffer_has_no_broker() -> None:
    record = ack_record(StoredAck(offset=4, group="G", pop_time=9, topic="T"), 1, PLACE, 5)
    assert b"bn" not in record.body
    entry = read_entry(record)
    assert entry is not None
    assert isinstance(entry.content, StoredAck)
    assert key_of_ack(entry.content, "mine").broker == "mine"


def test_a_check_point_that_is_put_again_counts() -> None:
    point = stored_point(("G", "T", 1), "b", 10, 1000, 500, [10], put_again=3)
    assert b'"ro":0,"rp":"3","so":10,"sp":false' in msgspec.json.encode(point)
    assert (point.put_again, point.revive_ms, point.deliver_ms) == (3, 1500, 1500 - ACK_INTERVAL_MS)
    assert msgspec.structs.replace(point, puts="many").put_again == 127
    assert msgspec.structs.replace(point, puts=None).put_again == 0


def test_only_what_is_open_is_named() -> None:
    point = stored_point(("G", "T", 1), "b", 10, 1000, 500, [11, 17])
    assert (point.gaps, point.count, point.offsets) == ([1, 7], 2, [11, 17])


def test_an_old_check_point_has_no_gaps() -> None:
    point = StoredCheckPoint(group="G", topic="T", start=5, count=3)
    assert point.offsets == [5, 6, 7]


@pytest.mark.parametrize(
    ("tag", "body"),
    [
        ("ck", b""),
        ("ck", b"[]"),
        ("ck", b'{"t":"T"}'),
        ("ck", b'{"t":"T","c":"G","n":33}'),
        ("ck", b'{"t":"T","c":"G","n":-1}'),
        ("ck", b'{"t":"T","c":"G","n":3,"d":[0,1]}'),
        ("ck", b'{"t":"T","c":"G","so":9223372036854775808}'),
        ("ck", b'{"t":null,"c":"G"}'),
        ("ck", b'{"t":"\xff","c":"G"}'),
        ("ck", b"[" * 5000),
        ("ack", b'{"t":"T","c":"G","ao":"x"}'),
        ("bAck", b'{"t":"T","c":"G","aol":{}}'),
    ],
)
def test_what_cannot_be_understood_is_said(tag: str, body: bytes) -> None:
    record = Record(topic=TOPIC, queue_id=0, body=body, properties=f"TAGS\x01{tag}\x02".encode())
    with pytest.raises(RecordUnfit, match=r"check point|cannot be read"):
        read_entry(record)


def test_other_tags_are_nothing() -> None:
    assert read_entry(Record(topic=TOPIC, queue_id=0, body=b"{}", properties=b"TAGS\x01x\x02")) is None
