"""Header blocks against hpack's own codec, and fields against RFC 9113's rules."""

from __future__ import annotations

import random

import pytest
from hpack import Decoder, Encoder
from hpack.exceptions import HPACKError

from pyromq.transport.http2.header_codec import HeaderDecoder, HeaderEncoder
from pyromq.transport.http2.header_fields import (
    MalformedFields,
    read_request,
    read_response,
    read_trailers,
)

Fields = list[tuple[bytes, bytes]]
GOOD: Fields = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/a/B"), (b"te", b"trailers")]


def some_fields(rng: random.Random) -> Fields:
    names = [b":path", b":status", b"content-type", b"x-mq-request-id", b"x-%d" % rng.randrange(5), b"authorization"]
    values = [b"", b"200", b"application/grpc", rng.randbytes(rng.randrange(40)), b"v%d" % rng.randrange(9), b"x" * 200]
    return [(rng.choice(names), rng.choice(values)) for _ in range(rng.randrange(12))]


@pytest.mark.parametrize("seed", range(50))
def test_blocks_are_decoded_as_hpack_does(seed: int) -> None:
    rng = random.Random(seed)
    encoder, ours, theirs = Encoder(), HeaderDecoder(1 << 16), Decoder(1 << 16)
    for _ in range(30):
        if rng.random() < 0.1:
            encoder.header_table_size = rng.choice((0, 60, 200, 4096))
        fields = some_fields(rng)
        block = encoder.encode(fields, huffman=rng.random() < 0.7)
        assert ours.decode(block, raw=True) == [tuple(each) for each in theirs.decode(block, raw=True)] == fields
        assert list(ours.header_table.dynamic_entries) == list(theirs.header_table.dynamic_entries)


@pytest.mark.parametrize("seed", range(300))
def test_broken_blocks_are_refused_where_hpack_refuses_them(seed: int) -> None:
    rng = random.Random(seed)
    block = bytearray(Encoder().encode(some_fields(rng)) or b"\x88")
    for _ in range(rng.randrange(1, 4)):
        block[rng.randrange(len(block))] = rng.randrange(256)
    found = []
    for decoder in (HeaderDecoder(8192), Decoder(8192)):
        try:
            found.append([tuple(each) for each in decoder.decode(bytes(block), raw=True)])
        except (HPACKError, IndexError):
            found.append(None)  # type: ignore[arg-type]
    assert found[0] == found[1] or found[0] is None  # ours refuses absurd integers that hpack takes


def test_a_block_that_unfolds_to_too_much_is_given_up() -> None:
    decoder = HeaderDecoder(8192)
    decoder.decode(Encoder().encode([(b"x", b"y" * 3000)]))
    with pytest.raises(HPACKError, match="header list of more than 8192"):
        decoder.decode(b"\xbe" * 3)


@pytest.mark.parametrize(
    "block", [b"\x80", b"\xff\xff\xff\xff\xff\xff\x7f", b"\x41", b"\x00\x05ab", b"\x88\x20", b"\x3f\xe2\x1f"]
)
def test_blocks_that_say_nothing_are_refused(block: bytes) -> None:
    with pytest.raises((HPACKError, IndexError)):
        HeaderDecoder(8192).decode(block)


def test_our_blocks_are_read_by_hpack_whatever_its_table_may_be() -> None:
    encoder = HeaderEncoder()
    for table in (4096, 0):
        decoder = Decoder()
        decoder.max_allowed_table_size = table
        fields = [(b":status", b"200"), (b"grpc-status", b"12"), (b"grpc-message", b"m" * 300), (b"content-type", b"a")]
        first, second = HeaderEncoder().encode(fields), encoder.encode(fields)
        assert [tuple(each) for each in decoder.decode(first, raw=True)] == fields
        assert [tuple(each) for each in decoder.decode(second, raw=True)] == fields
        assert encoder.encode(fields) == first[1:]  # the size of the table is said once


@pytest.mark.parametrize(
    "fields",
    [
        GOOD[1:],
        [*GOOD[:2], (b":path", b""), GOOD[3]],
        [*GOOD, (b":authority", b"late")],
        [*GOOD[:3], (b":path", b"/twice")],
        [*GOOD[:3], (b":status", b"200")],
        [*GOOD, (b"Upper", b"x")],
        [*GOOD, (b"", b"x")],
        [*GOOD, (b"with space", b"x")],
        [*GOOD, (b"connection", b"close")],
        [*GOOD, (b"transfer-encoding", b"chunked")],
        [*GOOD[:3], (b"te", b"gzip")],
        [*GOOD, (b"x", b"line\nbreak")],
        [*GOOD, (b"x", b"nul\0")],
        [*GOOD, (b"x", b" led")],
        [*GOOD, (b"x", b"trailed\t")],
        [*GOOD, (b"x", b"y" * 200 + b"\r")],
    ],
)
def test_fields_that_no_peer_may_send_are_refused(fields: Fields) -> None:
    with pytest.raises(MalformedFields):
        read_request(fields)


def test_fields_become_text() -> None:
    found = read_request([*GOOD, (b"x-a", b"1"), (b"x-b", "ü".encode()), (b"x-a", b"2"), (b"grpc-timeout", b"3S")])
    assert found[":path"] == "/a/B"
    assert (found["x-a"], found["x-b"]) == ("1,2", "ü")
    assert read_response([(b":status", b"200")]) == {":status": "200"}
    assert read_trailers([(b"grpc-status", b"0")]) == {"grpc-status": "0"}
    for bad in ([], [(b"x", b"y")]):
        with pytest.raises(MalformedFields):
            read_response(bad)
    with pytest.raises(MalformedFields):
        read_trailers([(b":status", b"200")])
