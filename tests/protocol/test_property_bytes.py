"""The short way to a record's properties leads where the whole layout says."""

from __future__ import annotations

import pytest

from pyromq.protocol.record import Record, encode_record, locate, property_bytes


@pytest.mark.parametrize("topic", ["T", "T" * 127, "T" * 200])
@pytest.mark.parametrize("hosts", [(8, 8), (20, 8), (8, 20), (20, 20)])
@pytest.mark.parametrize("properties", [b"", b"a\x015\x02"])
@pytest.mark.parametrize("with_crc", [False, True])
def test_properties_are_found(topic: str, hosts: tuple[int, int], properties: bytes, with_crc: bool) -> None:
    born, stored = (bytes(size) for size in hosts)
    record = Record(
        topic=topic, queue_id=1, body=b"x" * 300, properties=properties, born_host=born, store_host=stored, sys_flag=8
    )
    raw = encode_record(record, with_crc=with_crc)
    assert property_bytes(raw) == raw[locate(raw).properties_at :]
    assert property_bytes(raw).startswith(properties)
