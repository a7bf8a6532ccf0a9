from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.errors import ProtocolError
from pyromq.protocol.batch import BatchEntry, decode_batch, encode_batch

VECTOR = bytes.fromhex(
    "00000034000000000000000000000005000000026231001c4b455953016b310257414954017472756502544147530154616741020000002200"
    "0000000000000000000000000000026232000a57414954017472756502"
)
ENTRIES = [
    BatchEntry(b"b1", 5, b"KEYS\x01k1\x02WAIT\x01true\x02TAGS\x01TagA\x02"),
    BatchEntry(b"b2", 0, b"WAIT\x01true\x02"),
]


def test_vector() -> None:
    assert encode_batch(ENTRIES) == VECTOR
    assert decode_batch(VECTOR) == ENTRIES


def test_cut_inside_a_message_is_a_clean_error() -> None:
    whole = {0, 0x34, len(VECTOR)}
    for cut in set(range(len(VECTOR))) - whole:
        with pytest.raises(ProtocolError, match="of the batch"):
            decode_batch(VECTOR[:cut])


@pytest.mark.parametrize(("at", "value"), [(0, 0), (0, 0x7FFFFFFF), (16, 0xFFFFFFFF), (16, 0x7FFFFFFF), (16, 3)])
def test_lengths_that_do_not_fit_are_a_clean_error(at: int, value: int) -> None:
    with pytest.raises(ProtocolError, match="message 0 of the batch"):
        decode_batch(VECTOR[:at] + value.to_bytes(4, "big") + VECTOR[at + 4 :])


def test_negative_properties_length_is_a_clean_error() -> None:
    with pytest.raises(ProtocolError, match="says -1 bytes of properties"):
        decode_batch(VECTOR[:22] + b"\xff\xff" + VECTOR[24:])


entries = st.lists(
    st.builds(BatchEntry, st.binary(max_size=50), st.integers(-(1 << 31), (1 << 31) - 1), st.binary(max_size=50))
)


@given(entries)
def test_round_trip(batch: list[BatchEntry]) -> None:
    assert decode_batch(encode_batch(batch)) == batch


@given(st.binary(max_size=200))
def test_any_bytes_are_a_batch_or_a_clean_error(junk: bytes) -> None:
    try:
        decoded = decode_batch(junk)
    except ProtocolError:
        return
    assert len(encode_batch(decoded)) == len(junk)
