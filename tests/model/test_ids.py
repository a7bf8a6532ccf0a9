from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.model import java_hash as java_hash_module
from pyromq.model.ids import (
    UniqueId,
    UniqueIds,
    host_text,
    month_start_ms,
    offset_message_id,
    pack_host,
    parse_offset_message_id,
    parse_unique_id,
    unpack_host,
)
from pyromq.model.java_hash import java_hash, unsigned_hash

NOW = 1_700_000_000_123
addresses = st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)).map(str)


def test_offset_id_vector() -> None:
    host = pack_host("192.168.0.10", 10911)
    assert offset_message_id(host, 1000) == "C0A8000A00002A9F00000000000003E8"
    assert parse_offset_message_id("C0A8000A00002A9F00000000000003E8") == (host, 1000)


@given(addresses, st.integers(0, 65535), st.integers(0, (1 << 63) - 1))
def test_offset_id_round_trip(ip: str, port: int, position: int) -> None:
    host = pack_host(ip, port)
    assert unpack_host(host) == (ip, port)
    assert parse_offset_message_id(offset_message_id(host, position)) == (host, position)


def test_host_text() -> None:
    assert host_text(pack_host("10.0.0.1", 9)) == "10.0.0.1:9"
    assert host_text(pack_host("::1", 9)) == "[::1]:9"


@pytest.mark.parametrize("bad", ["", "C0A8", "Z" * 32, "0" * 33, "0" * 57])
def test_malformed_ids_are_refused(bad: str) -> None:
    with pytest.raises(ValueError, match="hex digits"):
        parse_offset_message_id(bad)
    with pytest.raises(ValueError, match="hex digits"):
        parse_unique_id(bad)


def test_unique_id_of_a_java_client() -> None:
    parsed = parse_unique_id("C000020240734E0E2F2A4C2B7AD50000")
    assert parsed == UniqueId("192.0.2.2", 0x4073, 0x4E0E2F2A, 0x4C2B7AD5, 0)
    assert len("FD0000000000000000000000000000023F614E0E2F2A4C3D12530000") == 56
    assert parse_unique_id("FD0000000000000000000000000000023F614E0E2F2A4C3D12530000").ip == "fd00::2"


@given(addresses)
def test_made_ids_are_distinct_and_say_when(ip: str) -> None:
    ids = UniqueIds(ip, 70_000, 0x12345678, lambda: NOW)
    made = [ids.next() for _ in range(3)]
    assert len(set(made)) == 3
    parsed = parse_unique_id(made[1])
    assert (parsed.ip, parsed.process_id, parsed.salt, parsed.counter) == (ip, 70_000 & 0xFFFF, 0x12345678, 1)
    assert parsed.born_near(NOW + 5) == NOW


def test_a_new_month_starts_again() -> None:
    now = [month_start_ms(NOW) - 1]
    ids = UniqueIds("127.0.0.1", 1, 1, lambda: now[0])
    last_of_month = parse_unique_id(ids.next())
    now[0] += 1
    assert parse_unique_id(ids.next()).month_ms == 0
    assert last_of_month.born_near(now[0]) == now[0] - 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), ("TagA", 2598919), ("T#k1", 2539445), ("polygenelubricants", -(1 << 31)), ("ä€", 228 * 31 + 0x20AC)],
)
def test_java_hash_vectors(text: str, expected: int) -> None:
    assert java_hash(text) == expected


def test_the_hash_of_a_long_text_leaves_nothing_behind() -> None:
    """A table of powers as long as the longest text that anybody ever sent would stay for good."""
    powers = len(java_hash_module._POWERS)
    for text in ("x" * 1_000_000, "€" * 5000):
        unsigned_hash(text)
    assert len(java_hash_module._POWERS) == powers


@given(st.text(max_size=80) | st.integers(1000, 3100).map(lambda size: "aé€" * size))
def test_java_hash_is_the_sum_over_utf16_units(text: str) -> None:
    raw = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(raw), 2):
        value = (value * 31 + (raw[at] << 8 | raw[at + 1])) & 0xFFFFFFFF
    assert unsigned_hash(text) == value
