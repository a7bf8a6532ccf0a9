"""Records cut into the buffers of columns: the same as the plain decoder says, and any bytes are survived."""

from __future__ import annotations

from array import array
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pyromq.errors import ProtocolError
from pyromq.model.ids import host_text, offset_message_id, pack_host
from pyromq.protocol.properties import decode_properties
from pyromq.protocol.record import MAGIC_V1, MAGIC_V2, Record, check_crc, decode_record, encode_record, locate
from tests.kernel.twins import native_module

NUMBERS = {"queueId": "i", "flag": "i", "sysFlag": "i", "storeSize": "i", "reconsumeTimes": "i"}
NUMBERS |= {"queueOffset": "q", "commitLogOffset": "q", "bornTimestamp": "q", "storeTimestamp": "q"}
TEXTS = ("topic", "body", "bornHost", "storeHost", "keys", "tags", "msgId")
WANTED = [*NUMBERS, *TEXTS, "properties"]
HOSTS = st.sampled_from([pack_host("10.1.2.3", 10911), pack_host("fe80::1", 80)])
PAIRS = st.lists(
    st.sampled_from([b"KEYS", b"TAGS", b"UNIQ_KEY", b"a", b"\x01", b"\x02", b"\xff", "ä".encode()]), max_size=9
)


@st.composite
def records(draw: st.DrawFn) -> bytes:
    made = Record(
        topic=draw(st.sampled_from(["T", "thè", "y" * 200])),
        queue_id=draw(st.integers(0, 7)),
        body=draw(st.binary(max_size=30)),
        properties=b"".join(draw(PAIRS)),
        flag=draw(st.integers(-(2**31), 2**31 - 1)),
        queue_offset=draw(st.integers(0, 2**60)),
        physical_offset=0,
        born_timestamp=draw(st.integers(0, 2**60)),
        born_host=draw(HOSTS),
        store_timestamp=draw(st.integers(0, 2**60)),
        store_host=draw(HOSTS),
        reconsume_times=draw(st.integers(0, 99)),
        magic=draw(st.sampled_from([MAGIC_V1, MAGIC_V2])),
    )
    return encode_record(made, with_crc=draw(st.booleans()))


def starts_of(raw: bytes) -> array[int]:
    return array("q", native_module().walk_records(raw) or b"")


def texts(parts: tuple[int, int, bytes | None, bytes, bytes, int]) -> list[bytes | None]:
    rows, nulls, valid, offsets, data, used = parts
    ends = array("i", offsets[: 4 * (rows + 1)])
    assert ends[rows] == used <= len(data)
    found: list[bytes | None] = [data[ends[row] : ends[row + 1]] for row in range(rows)]
    if valid is not None:
        found = [each if valid[row >> 3] >> (row & 7) & 1 else None for row, each in enumerate(found)]
    assert found.count(None) == nulls
    return found


def expected(record: Record) -> dict[str, Any]:
    named = decode_properties(record.properties)
    words = {name: named[name].encode() if name in named else None for name in ("KEYS", "TAGS", "UNIQ_KEY")}
    own = offset_message_id(record.store_host, record.physical_offset).encode()
    return {
        "queueId": record.queue_id,
        "flag": record.flag,
        "sysFlag": record.sys_flag,
        "storeSize": record.size,
        "reconsumeTimes": record.reconsume_times,
        "queueOffset": record.queue_offset,
        "commitLogOffset": record.physical_offset,
        "bornTimestamp": record.born_timestamp,
        "storeTimestamp": record.store_timestamp,
        "topic": record.topic.encode(),
        "body": bytes(record.body),
        "bornHost": host_text(record.born_host).encode(),
        "storeHost": host_text(record.store_host).encode(),
        "keys": words["KEYS"],
        "tags": words["TAGS"],
        "msgId": words["UNIQ_KEY"] or own,
    }


@given(st.lists(records(), min_size=1, max_size=5))
def test_columns_are_what_the_plain_decoder_says(given_records: list[bytes]) -> None:
    raw = b"".join(given_records)
    starts = starts_of(raw)
    plain = [decode_record(raw, at) for at in starts]
    rows = [expected(each) for each in plain]
    cut = native_module().cut_columns(raw, starts, WANTED, host_text)
    for name, parts in cut.items():
        if name in NUMBERS:
            assert list(array(NUMBERS[name], parts)) == [row[name] for row in rows]
        elif name != "properties":
            assert texts(parts) == [row[name] for row in rows]
    if "properties" in cut:
        ends, names, values = cut["properties"]
        pairs = list(zip(texts(names), texts(values), strict=True))
        bounds = array("i", ends)
        for row, each in enumerate(plain):
            told = [(name.encode(), value.encode()) for name, value in decode_properties(each.properties).items()]
            assert pairs[bounds[row] : bounds[row + 1]] == told
    assert set(NUMBERS) | {"topic", "body", "bornHost", "storeHost"} <= set(cut)


@given(st.lists(records(), min_size=1, max_size=3).map(b"".join), st.data())
def test_any_bytes_are_survived(raw: bytes, data: st.DataObject) -> None:
    harmed = bytearray(raw)
    for _ in range(data.draw(st.integers(1, 4))):
        harmed[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(harmed[: data.draw(st.integers(0, len(raw)) | st.just(len(raw)))])
    kernel = native_module()
    starts = array("q", data.draw(st.lists(st.integers(-5, len(cut) + 5), max_size=4)))
    for places in (starts_of(cut), starts):
        found = kernel.cut_columns(cut, places, WANTED, host_text) or {}
        for name, parts in found.items():
            assert name in NUMBERS or name == "properties" or len(texts(parts)) == len(places)
    for verify in (False, True):
        walked, end = kernel.walk_log(cut, 0, 1 << 40, verify)
        assert len(walked) % 8 == 0
        assert end <= len(cut)


@given(st.lists(records(), min_size=1, max_size=4), st.integers(0, 1 << 40), st.data())
def test_a_log_is_walked_up_to_the_first_record_that_is_not_intact(
    given_records: list[bytes], position: int, data: st.DataObject
) -> None:
    raw = bytearray()
    places = []
    for each in given_records:
        made = decode_record(each)
        made.physical_offset = position + len(raw)
        places.append(len(raw))
        raw += encode_record(made)
    hit = data.draw(st.integers(0, len(raw) - 1))
    raw[hit] ^= data.draw(st.integers(1, 255))
    walked, _ = native_module().walk_log(bytes(raw), position, 1 << 40, True)
    good = [at for at in places if at not in _broken(bytes(raw), places, position)]
    assert list(array("q", walked)) == good[: len(walked) // 8]
    first = min(_broken(bytes(raw), places, position), default=len(raw))
    before = [at for at in places if at < first]
    # The record that was hit may pass as one without a CRC of its own (its property's end is gone): that is for Python.
    left = [at for at in before if at < max(each for each in places if each <= hit)]
    assert list(array("q", walked)) in (before, left)


def _broken(raw: bytes, places: list[int], position: int) -> set[int]:
    """By the plain decoder: what does not add up, says another place, or has another CRC."""
    found = set()
    for at, end in zip(places, [*places[1:], len(raw)], strict=True):
        try:
            layout = locate(raw, at)
            check_crc(memoryview(raw), at, layout)
            record = decode_record(raw, at, verify=False)
            if record.physical_offset != position + at or record.size != end - at:
                found.add(at)
        except (ProtocolError, UnicodeDecodeError):
            found.add(at)
    return found
