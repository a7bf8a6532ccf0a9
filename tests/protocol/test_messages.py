"""Pulled bodies and batches, as the Java programs exchanged them."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyromq.errors import ProtocolError
from pyromq.protocol.batch import BatchEntry, decode_batch, encode_batch
from pyromq.protocol.compression import Compression, compress, compressed_flag
from pyromq.protocol.frame import FrameDecoder
from pyromq.protocol.messages import decode_messages
from pyromq.protocol.record import Record, encode_record

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
