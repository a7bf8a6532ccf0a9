"""Pulled bodies and batches, as the Java programs exchanged them."""

from __future__ import annotations

import base64
import dataclasses
import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyromq.errors import ProtocolError
from pyromq.protocol.batch import BatchEntry, decode_batch, encode_batch
from pyromq.protocol.compression import Compression, compress, compressed_flag
from pyromq.protocol.messages import PulledMessage, read_messages, unwrap
from pyromq.protocol.record import MAGIC_V2, Record, encode_record
from tests.wire import FrameDecoder, decode_messages, decode_records

FRAMES = Path(__file__).parent.parent / "golden" / "frames" / "index.jsonl"


def bodies(direction: str, *requests: int) -> Iterator[bytes]:
    """Bodies of the exchanges that were answered with success."""
    frames: list[dict[str, Any]] = [json.loads(line) for line in FRAMES.read_text().splitlines()]
    succeeded = {frame["pair"] for frame in frames if frame["dir"] == "response" and frame["code"] == 0}
    for frame in frames:
        known = frame["pair"] in succeeded and frame["requestCode"] in requests and not frame["truncated"]
        if known and frame["dir"] == direction:
            (command,) = FrameDecoder().feed(base64.b64decode(frame["frame_b64"]))
            yield bytes(command.body)


def test_recorded_pull_responses_decode() -> None:
    count = 0
    for body in bodies("response", 11, 33, 361, 200050):
        messages = decode_messages(body)
        assert messages
        assert all(len(message.offset_id) == 32 for message in messages)
        places = [(m.topic, m.queue_id, m.queue_offset) for m in messages]
        assert len(set(places)) == len(places)
        count += len(messages)
    assert count > 10


def test_recorded_query_responses_decode_in_ascending_order() -> None:
    answers = [decode_messages(body) for body in bodies("response", 12)]
    assert any(answers)
    for messages in answers:
        assert [m.physical_offset for m in messages] == sorted(m.physical_offset for m in messages)


def test_recorded_batch_requests_decode_and_encode_to_the_same_bytes() -> None:
    batches = list(bodies("request", 320))
    assert batches
    for body in batches:
        entries = decode_batch(body)
        assert entries
        assert encode_batch(entries) == body


def test_an_inner_batch_is_unwrapped() -> None:
    inner = encode_batch([BatchEntry(b"a", 1, b"k\x01v\x02"), BatchEntry(b"b", 2)])
    plain = Record(topic="T", queue_id=1, body=b"single", queue_offset=4)
    wrapped = Record(topic="T", queue_id=1, body=inner, queue_offset=5, sys_flag=192, physical_offset=99)
    messages = decode_messages(encode_record(plain) + encode_record(wrapped))
    assert [(m.body, m.flag, m.queue_offset, m.properties) for m in messages] == [
        (b"single", 0, 4, {}),
        (b"a", 1, 5, {"k": "v"}),
        (b"b", 2, 6, {}),
    ]
    assert messages[2].physical_offset == 99


def test_compressed_bodies_come_out_plain_and_bounded() -> None:
    packed = compress(b"x" * 5000, Compression.ZLIB)
    raw = encode_record(Record(topic="T", queue_id=0, body=packed, sys_flag=compressed_flag(Compression.ZLIB)))
    assert decode_messages(raw)[0].body == b"x" * 5000
    with pytest.raises(ProtocolError, match="over 4999 bytes"):
        decode_messages(raw, plain_limit=4999)


def test_a_body_cut_inside_a_record_is_a_clean_error() -> None:
    raw = encode_record(Record(topic="T", queue_id=0, body=b"x"))
    with pytest.raises(ProtocolError):
        decode_messages(raw + raw[:-1])


# --- plain records are read in one step: nothing may differ from the whole way ----------------------------------------

V6 = bytes(range(16)) + bytes(4)
KINDS: list[dict[str, Any]] = [
    {},
    {"properties": b""},
    {"body": b""},
    {"magic": MAGIC_V2},
    {"topic": "T" * 200},
    {"born_host": V6},
    {"store_host": V6},
    {"properties": b"broken\x02UNIQ_KEY\x01A\x02"},
    {"topic": "\u00e4\u00f6\u00fc"},
]


def record(**other: Any) -> Record:
    facts: dict[str, Any] = {
        "topic": "Orders",
        "queue_id": 3,
        "body": b"some body",
        "properties": b"UNIQ_KEY\x01ID7\x02TAGS\x01paid\x02",
        "flag": 5,
        "queue_offset": 1 << 40,
        "physical_offset": 1 << 50,
        "born_timestamp": 1_700_000_000_000,
        "born_host": b"\x7f\x00\x00\x01\x00\x00\x00\x07",
        "store_timestamp": 1_700_000_000_001,
        "store_host": b"\x7f\x00\x00\x01\x00\x00\x00\x08",
        "reconsume_times": 2,
        "prepared_transaction_offset": 11,
    }
    return Record(**(facts | other))


def whole_way(raw: bytes) -> list[tuple[Any, ...]] | str:
    try:
        return [facts(message) for each in decode_records(raw) for message in unwrap(each)]
    except ProtocolError as fault:
        return str(fault)


def short_way(raw: bytes) -> list[tuple[Any, ...]] | str:
    try:
        return [facts(message) for message in decode_messages(raw)]
    except ProtocolError as fault:
        return str(fault)


def facts(message: Any) -> tuple[Any, ...]:
    return tuple(getattr(message, field.name) for field in dataclasses.fields(message))


@pytest.mark.parametrize("with_crc", [False, True])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_the_short_way_finds_what_the_whole_way_finds(kind: dict[str, Any], with_crc: bool) -> None:
    raw = encode_record(record(), with_crc=with_crc) + encode_record(record(**kind), with_crc=with_crc)
    found = short_way(raw)
    assert len(found) == 2
    assert found == whole_way(raw)


@pytest.mark.parametrize("with_crc", [False, True])
def test_damage_of_any_byte_is_judged_alike(with_crc: bool) -> None:
    good = encode_record(record(), with_crc=with_crc)
    for place in range(len(good)):
        for bits in (0x01, 0x80):
            bad = bytearray(good)
            bad[place] ^= bits
            assert short_way(bytes(bad) + good) == whole_way(bytes(bad) + good), (place, bits)


@pytest.mark.parametrize("with_crc", [False, True])
def test_a_body_may_be_cut_at_any_byte(with_crc: bool) -> None:
    raw = encode_record(record(), with_crc=with_crc) * 2
    for end in range(len(raw)):
        assert short_way(raw[:end]) == whole_way(raw[:end]), end


def test_properties_are_decoded_when_they_are_asked_for_and_then_stay() -> None:
    (message,) = decode_messages(encode_record(record()))
    assert isinstance(message, PulledMessage)
    assert message.tags == "paid"
    message.properties["mine"] = "1"
    assert message.properties == {"UNIQ_KEY": "ID7", "TAGS": "paid", "mine": "1"}
    assert dataclasses.replace(message, queue_id=9).properties is message.properties
    assert pickle.loads(pickle.dumps(message)) == message
    with pytest.raises(AttributeError, match="no attribute 'colour'"):
        message.colour  # noqa: B018


# --- record by record -------------------------------------------------------------------------------------------------


def numbered(number: int, body: bytes = b"body", sys_flag: int = 0, **other: Any) -> bytes:
    return encode_record(
        Record(
            topic="T",
            queue_id=0,
            body=body,
            queue_offset=number,
            physical_offset=number * 1000,
            sys_flag=sys_flag,
            properties=b"UNIQ_KEY\x01ID%d\x02" % number,
            **other,
        )
    )


def test_a_record_with_damage_in_any_byte_leaves_those_before_it_and_nothing_is_raised() -> None:
    """Where its size still stands, those behind it are read too."""
    before, bad, behind = numbered(0), numbered(1, compress(b"x" * 50, Compression.ZLIB), 0x301), numbered(2)
    for at in range(len(bad)):
        raw = bytearray(before + bad + behind)
        raw[len(before) + at] ^= 0xFF
        found = read_messages(bytes(raw))
        assert found.messages[0].queue_offset == 0, at
        if at >= 8:  # behind its size and magic
            assert found.is_whole, at
            assert len(found.messages) == 3, at
            assert found.messages[-1].queue_offset == 2, at
        elif not found.is_whole:
            assert found.broken, at


def test_properties_that_are_no_text_and_a_topic_that_is_none_keep_nothing_else_from_being_read() -> None:
    good = numbered(0)
    no_text = encode_record(Record(topic="T", queue_id=0, body=b"x", properties=b"\xff\xfe\x01\xff\x02"))
    no_topic = bytearray(encode_record(Record(topic="T", queue_id=0, body=b"x", queue_offset=7, physical_offset=70)))
    no_topic[90] = 0xFF
    found = read_messages(good + no_text + bytes(no_topic) + good)
    assert [len(message.properties) for message in found.messages] == [1, 1, 0, 1]
    (bad,) = found.unreadable
    assert (bad.queue_offset, bad.physical_offset) == (7, 70)
    assert "not UTF-8" in bad.fault


def test_an_unreadable_record_has_its_place_its_id_and_its_body_as_stored() -> None:
    found = read_messages(numbered(0) + numbered(1, b"no zlib", 0x301) + numbered(2))
    assert found.is_whole
    assert [message.queue_offset for message in found.messages] == [0, 1, 2]
    (bad,) = found.unreadable
    assert bad is found.messages[1]
    assert (bad.physical_offset, bad.message_id, bad.body, bad.next_offset) == (1000, "ID1", b"no zlib", 2)
    assert "ZLIB body of 7 bytes cannot be decompressed" in bad.fault
    assert not bad.is_curable


def test_compressed_records_are_read_up_to_a_budget_and_the_first_always() -> None:
    mebibyte = compress(bytes(1 << 20), Compression.ZLIB)
    raw = b"".join(numbered(number, mebibyte, 0x301) for number in range(4))
    for budget, read in ((0, 1), (1, 1), (1 << 20, 1), (2 << 20, 2), ((2 << 20) + 1, 3), (4 << 20, 4)):
        found = read_messages(raw, budget=budget)
        assert len(found.messages) == read
        assert found.is_whole == (read == 4)
        assert not found.broken
