"""The record codec against the vectors and against every record that the Java broker wrote into the golden stores."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.errors import ProtocolError
from pyromq.model.ids import host_text, offset_message_id, pack_host
from pyromq.protocol.compression import compression_of, decompress
from pyromq.protocol.properties import decode_properties
from pyromq.protocol.record import (
    CRC_PROPERTY_BYTES,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    Record,
    RecordError,
    crc_property,
    decode_record,
    encode_record,
    whole_record_crc,
)

GOLDEN = Path(__file__).parent.parent / "golden"
VECTOR = bytes.fromhex(
    "0000007bdaa320a73610a6860000000300000000000000000000002a00000000000003e8000000000000018bcfe568007f0000010000c351"
    "0000018bcfe5687bc0a8000a00002a9f0000000000000000000000000000000568656c6c6f09546f7069635465737400124b455953016b31"
    "0254414753015461674102"
)
VECTOR_RECORD = Record(
    topic="TopicTest",
    body=b"hello",
    queue_id=3,
    queue_offset=42,
    physical_offset=1000,
    born_timestamp=1700000000000,
    born_host=pack_host("127.0.0.1", 50001),
    store_timestamp=1700000000123,
    store_host=pack_host("192.168.0.10", 10911),
    properties=b"KEYS\x01k1\x02TAGS\x01TagA\x02",
    body_crc=907060870,
    size=123,
)


def test_vector_encodes_and_decodes() -> None:
    assert encode_record(VECTOR_RECORD) == VECTOR
    assert decode_record(VECTOR) == VECTOR_RECORD


def test_ipv6_hosts_set_their_bits_and_widen_the_record() -> None:
    record = Record(topic="T", queue_id=0, body=b"x", born_host=pack_host("::1", 1), store_host=pack_host("fe80::2", 2))
    raw = encode_record(record)
    decoded = decode_record(raw)
    assert len(raw) == 91 + 24 + 1 + 1
    assert decoded.sys_flag == 16 | 32
    assert (host_text(decoded.born_host), host_text(decoded.store_host)) == ("[::1]:1", "[fe80::2]:2")


def test_version_two_is_written_where_the_topic_needs_it() -> None:
    assert decode_record(encode_record(Record(topic="t" * 127, queue_id=0, body=b""))).magic == MAGIC_V1
    long = decode_record(encode_record(Record(topic="t" * 155, queue_id=0, body=b"")))
    assert (long.magic, long.topic) == (MAGIC_V2, "t" * 155)


def golden_records(name: str) -> Iterator[tuple[dict[str, Any], bytes]]:
    manifest = json.loads(gzip.decompress((GOLDEN / f"store-{name}.json.gz").read_bytes()))
    with tarfile.open(GOLDEN / f"store-{name}.tar.gz") as archive:
        log = b"".join(
            archive.extractfile(member).read()  # type: ignore[union-attr]
            for member in sorted(archive.getmembers(), key=lambda member: member.name)
            if member.isfile() and "/commitlog/" in member.name
        )
    for expected in manifest["store"]["messages"]:
        at = expected["physicalOffset"]
        yield expected, log[at : at + expected["storeSize"]]


@pytest.mark.parametrize("name", ["clean", "crashed"])
def test_every_golden_record_decodes_to_the_manifest_and_encodes_to_the_same_bytes(name: str) -> None:
    count = 0
    for expected, raw in golden_records(name):
        record = decode_record(raw)
        assert shown(record) == {key: value for key, value in expected.items() if key != "tagsCode"}
        assert encode_record(record) == raw
        count += 1
    assert count == {"clean": 4220, "crashed": 4188}[name]


def shown(record: Record) -> dict[str, Any]:
    """A record in the words of the manifest."""
    fields: dict[str, Any] = {
        "physicalOffset": record.physical_offset,
        "storeSize": record.size,
        "magic": f"0x{record.magic:08X}",
        "bodyCRC": record.body_crc,
        "topic": record.topic,
        "queueId": record.queue_id,
        "queueOffset": record.queue_offset,
        "flag": record.flag,
        "sysFlag": record.sys_flag,
        "bornTimestamp": record.born_timestamp,
        "bornHost": host_text(record.born_host),
        "storeTimestamp": record.store_timestamp,
        "storeHost": host_text(record.store_host),
        "reconsumeTimes": record.reconsume_times,
        "preparedTransactionOffset": record.prepared_transaction_offset,
        "bodyLength": len(record.body),
        "properties": decode_properties(record.properties),
        "offsetMsgId": offset_message_id(record.store_host, record.physical_offset),
    }
    if len(record.body) <= 256:
        fields["body"] = base64.b64encode(record.body).decode()
    else:
        fields["bodySha256"] = hashlib.sha256(record.body).hexdigest()
    kind = compression_of(record.sys_flag)
    if kind is not None:
        plain = decompress(record.body, kind)
        fields |= {
            "compression": {0: "ZLIB", 3: "ZLIB"}.get(kind, kind.name),
            "plainLength": len(plain),
            "plainSha256": hashlib.sha256(plain).hexdigest(),
        }
    return fields


def test_cut_anywhere_is_a_clean_error() -> None:
    for cut in range(len(VECTOR)):
        with pytest.raises(RecordError):
            decode_record(VECTOR[:cut])


def test_damage_anywhere_ends_in_a_record_or_a_clean_error_and_the_whole_record_crc_finds_it() -> None:
    whole = encode_record(VECTOR_RECORD, with_crc=True)
    for place in range(len(whole)):
        for bit in range(8):
            bad = bytearray(whole)
            bad[place] ^= 1 << bit
            try:
                survivor = decode_record(bytes(bad))
            except RecordError:
                continue
            # Only the CRC property's own name can be damaged unseen: then there is none any more.
            assert place >= len(whole) - CRC_PROPERTY_BYTES
            assert whole_record_crc(survivor.properties) is None


def test_other_magic_is_refused() -> None:
    with pytest.raises(RecordError, match="magic 0xcbd43194"):
        decode_record(VECTOR[:4] + MAGIC_BLANK.to_bytes(4, "big") + VECTOR[8:])


def test_torn_properties_are_seen_by_the_whole_record_crc_7437() -> None:
    raw = bytearray(encode_record(VECTOR_RECORD, with_crc=True))
    at = raw.index(b"TagA")
    raw[at : at + 4] = bytes(4)
    with pytest.raises(RecordError, match="whole-record CRC"):
        decode_record(bytes(raw))


def test_crc_zero_is_a_legal_value_9121() -> None:
    body = next(b for n in range(4) if (b := _body_with_crc_zero(n)) is not None)
    record = Record(topic="T", queue_id=0, body=body)
    assert decode_record(encode_record(record)).body_crc == 0


def _body_with_crc_zero(seed: int) -> bytes | None:
    """Four bytes that turn any CRC into 0 exist for any prefix: solve for them bit by bit (CRC is affine)."""
    prefix = bytes([seed]) * 4
    base = crc32(prefix + bytes(4))
    columns = [crc32(prefix + (1 << bit).to_bytes(4, "little")) ^ base for bit in range(32)]
    rows: list[tuple[int, int]] = []
    for bit, column in enumerate(columns):
        chosen = 1 << bit
        for value, mask in rows:
            if column ^ value < column:
                column, chosen = column ^ value, chosen ^ mask
        if column:
            rows.append((column, chosen))
            rows.sort(reverse=True)
    target, answer = base, 0
    for value, mask in rows:
        if target ^ value < target:
            target, answer = target ^ value, answer ^ mask
    return prefix + answer.to_bytes(4, "little") if target == 0 else None


def test_crc_property_vector() -> None:
    assert crc_property(907060870).hex() == "5f5f435243333223" + "01" + "30373830363037303930" + "02"
    assert whole_record_crc(b"a\x01b\x02" + crc_property(907060870)) == 907060870


def test_a_record_put_again_gets_one_new_crc() -> None:
    once = decode_record(encode_record(VECTOR_RECORD, with_crc=True))
    again = encode_record(once, with_crc=True)
    assert again.count(b"__CRC32#") == 1
    assert decode_record(again).properties[:-CRC_PROPERTY_BYTES] == VECTOR_RECORD.properties


hosts = st.builds(pack_host, st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)).map(str), st.integers(0, 65535))
longs = st.integers(-(1 << 63), (1 << 63) - 1)
ints = st.integers(-(1 << 31), (1 << 31) - 1)
records = st.builds(
    Record,
    topic=st.text(st.characters(codec="utf-8"), max_size=60),
    queue_id=ints,
    body=st.binary(max_size=300),
    properties=st.binary(max_size=300),
    flag=ints,
    sys_flag=st.integers(0, 0x7FFF).map(lambda flag: flag & ~48),
    queue_offset=longs,
    physical_offset=longs,
    born_timestamp=longs,
    born_host=hosts,
    store_timestamp=longs,
    store_host=hosts,
    reconsume_times=ints,
    prepared_transaction_offset=longs,
)


@given(records)
def test_round_trip(record: Record) -> None:
    raw = encode_record(record)
    assert encode_record(decode_record(raw)) == raw


@given(st.binary(max_size=400), st.data())
def test_any_bytes_are_a_record_or_a_clean_error(junk: bytes, data: st.DataObject) -> None:
    raw = bytearray(VECTOR)
    for _ in range(data.draw(st.integers(0, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    for candidate in (junk, bytes(raw), bytes(raw) + junk):
        try:
            decode_record(candidate)
        except ProtocolError:
            continue
