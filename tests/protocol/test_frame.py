"""Frames: cut at any byte, bounded before memory is spent, refused with words."""

from __future__ import annotations

import struct
import tracemalloc

import pytest

from pyromq.errors import ProtocolError
from pyromq.model.client_info import Language
from pyromq.protocol.command import Command, Encoding
from pyromq.protocol.frame import FrameLimits, decode_frames, encode_frame, encode_frame_head
from tests.wire import FrameDecoder

SEND_FIELDS = {
    "a": "PG",
    "b": "T",
    "c": "TBW102",
    "d": "4",
    "e": "1",
    "f": "0",
    "g": "1700000000000",
    "h": "0",
    "i": "TAGS\x01A\x02UNIQ_KEY\x01AB\x02",
    "j": "0",
    "k": "false",
    "m": "false",
    "n": "broker-a",
}
SEND = Command(code=310, opaque=7, language=Language.JAVA, version=473, fields=SEND_FIELDS, body=b"hello")
SEND_JSON = (
    bytes.fromhex("000001270000011e")
    + b'{"code":310,"extFields":{"a":"PG","b":"T","c":"TBW102","d":"4","e":"1","f":"0","g":"1700000000000","h":"0",'
    + b'"i":"TAGS\\u0001A\\u0002UNIQ_KEY\\u0001AB\\u0002","j":"0","k":"false","m":"false","n":"broker-a"},"flag":0,'
    + b'"language":"JAVA","opaque":7,"serializeTypeCurrentRPC":"JSON","version":473}'
    + b"hello"
)
SEND_BINARY = bytes.fromhex(
    "000000b9010000b001360001d90000000700000000000000000000009b00016100000002504700016200000001540001630000000654425731"
    "3032000164000000013400016500000001310001660000000130000167"
    "0000000d313730303030303030303030300001680000000130000169000000135441475301410255"
    "4e49515f4b45590141420200016a000000013000016b0000000566616c736500016d0000000566616c736500016e0000000862726f6b65722d"
    "6168656c6c6f"
)


def frame(total: int, word: int, rest: bytes = b"") -> bytes:
    return struct.pack(">iI", total, word) + rest


@pytest.mark.parametrize(("encoding", "wire"), [(Encoding.JSON, SEND_JSON), (Encoding.ROCKETMQ, SEND_BINARY)])
def test_vectors_made_by_the_java_classes(encoding: Encoding, wire: bytes) -> None:
    command = Command(**{name: getattr(SEND, name) for name in SEND.__struct_fields__} | {"encoding": encoding})
    assert FrameDecoder().feed(wire) == [command]
    assert encode_frame(command) == wire


def test_vectors_of_a_response_and_a_oneway_request() -> None:
    response = Command(code=0, opaque=7, flag=1, language=Language.JAVA, version=473)
    header = b'{"code":0,"flag":1,"language":"JAVA","opaque":7,"serializeTypeCurrentRPC":"JSON","version":473}'
    assert encode_frame(response) == bytes.fromhex("000000630000005f") + header
    assert response.is_response
    oneway = Command(code=40, opaque=9, flag=2, language=Language.JAVA, version=0)
    assert encode_frame(oneway)[8:] == (
        b'{"code":40,"flag":2,"language":"JAVA","opaque":9,"serializeTypeCurrentRPC":"JSON","version":0}'
    )
    assert oneway.is_oneway
    assert not oneway.is_response


@pytest.mark.parametrize("wire", [SEND_JSON, SEND_BINARY], ids=["json", "binary"])
def test_a_frame_may_be_cut_at_any_byte(wire: bytes) -> None:
    whole = FrameDecoder().feed(wire)
    for cut in range(len(wire) + 1):
        decoder = FrameDecoder()
        first = decoder.feed(wire[:cut])
        assert decoder.buffered == (0 if first else cut)
        assert first + decoder.feed(wire[cut:]) == whole


def test_a_command_outlives_the_buffer_it_came_in() -> None:
    buffer = bytearray(SEND_JSON)
    (command,) = FrameDecoder().feed(memoryview(buffer))
    buffer[:] = bytes(len(buffer))
    assert bytes(command.body) == b"hello"
    assert command.fields == SEND_FIELDS


def test_what_stands_behind_whole_frames_is_kept() -> None:
    decoder = FrameDecoder()
    assert len(decoder.feed(SEND_JSON * 3 + SEND_BINARY[:50])) == 3
    assert decoder.buffered == 50
    assert decoder.feed(SEND_BINARY[50:])[0].encoding is Encoding.ROCKETMQ
    assert decoder.buffered == 0


def test_decode_frames_says_how_much_the_next_one_needs() -> None:
    commands, used, needed = decode_frames(SEND_JSON + SEND_JSON[:20])
    assert (len(commands), used, needed) == (1, len(SEND_JSON), len(SEND_JSON))
    assert decode_frames(b"\0\0") == ([], 0, 8)


LIMITS = FrameLimits(frame_bytes=1000, header_bytes=200, header_fields=2)


@pytest.mark.parametrize(
    ("wire", "words"),
    [
        (frame(3, 0), "frame length 3 is outside 4 to 1000"),
        (frame(-1, 0), "frame length -1"),
        (frame(1001, 0), "frame length 1001"),
        (frame(2**31 - 1, 0), "frame length 2147483647"),
        (frame(10, 7), "header length 7 is more than the frame's 6"),
        (frame(900, 201), "header length 201 is over the limit of 200"),
        (frame(4, 0x02000000), "unknown serialize type 2"),
        (frame(4, 0), "cannot be read|not JSON"),
        (frame(4, 0x01000000), "the binary header ends early, it has 0 bytes"),
        (frame(6, 2, b"[]"), r"Expected `object`, got `array`"),
        (frame(30, 26, b'{"extFields":{a:1,b:2,c:3}'), "'}' was expected"),
        (frame(31, 27, b'{"extFields":{a:1,b:2,c:3}}'), "3 header fields, the limit is 2"),
        (b"GET / HTTP/1.1\r\n\r\n", "frame length 1195725856"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", "frame length 369295618"),
    ],
)
def test_a_broken_frame_is_refused_in_words(wire: bytes, words: str) -> None:
    with pytest.raises(ProtocolError, match=words):
        FrameDecoder(LIMITS).feed(wire)


def test_a_length_that_is_only_promised_takes_no_memory() -> None:
    decoder = FrameDecoder()
    tracemalloc.start()
    try:
        for _ in range(100):
            decoder = FrameDecoder()
            decoder.feed(frame(16 << 20, 1 << 20))
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()
    assert decoder.buffered == 8


def test_a_large_frame_in_small_pieces_is_copied_once() -> None:
    """16 MiB in 64 KiB pieces: the buffer and the body, not a copy of the buffer for each piece."""
    big = encode_frame(Command(code=10, body=bytes(15 << 20)))
    decoder = FrameDecoder()
    tracemalloc.start()
    try:
        commands = [c for at in range(0, len(big), 65_536) for c in decoder.feed(memoryview(big)[at : at + 65_536])]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(commands[0].body) == 15 << 20
    assert peak < 3 * len(big)


def test_a_header_too_long_for_its_length_word_is_not_sent() -> None:
    with pytest.raises(ProtocolError, match="does not fit the 24 bits"):
        encode_frame_head(Command(code=1, remark="x" * (1 << 24)), 0)
