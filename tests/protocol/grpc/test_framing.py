"""Prefix, limits, gzip, timeouts and texts of gRPC."""

from __future__ import annotations

import gzip

import pytest

from pyromq.protocol.grpc.framing import MessageReader, MessageRefused, frame_message
from pyromq.protocol.grpc.status import GrpcStatus, decode_text, encode_text, status_of_http
from pyromq.protocol.grpc.timeout import format_timeout, parse_timeout


def packed(message: bytes, flag: int = 1) -> bytes:
    data = gzip.compress(message, mtime=0)
    return bytes([flag]) + len(data).to_bytes(4, "big") + data


def test_messages_may_be_split_at_any_byte() -> None:
    messages = [b"one", b"", b"x" * 300, b"last"]
    wire = b"".join(map(frame_message, messages))
    for cut in range(len(wire) + 1):
        reader = MessageReader(1000)
        assert reader.receive(wire[:cut]) + reader.receive(wire[cut:]) == messages
        assert reader.kept_bytes == 0
        reader.check_end()


def test_messages_come_byte_by_byte() -> None:
    reader = MessageReader(1000, "gzip")
    wire = frame_message(b"plain") + packed(b"packed" * 50)
    assert [one for at in range(len(wire)) for one in reader.receive(wire[at : at + 1])] == [b"plain", b"packed" * 50]


def test_a_message_over_the_limit_is_refused_by_its_prefix_alone() -> None:
    assert MessageReader(10).receive(frame_message(b"x" * 10)) == [b"x" * 10]
    with pytest.raises(MessageRefused, match="gRPC message exceeds maximum size 10: 11") as refused:
        MessageReader(10).receive(frame_message(b"x" * 11)[:5])
    assert refused.value.status is GrpcStatus.RESOURCE_EXHAUSTED


def test_a_bomb_is_given_up_at_the_limit() -> None:
    wire = packed(bytes(50_000_000))
    with pytest.raises(MessageRefused, match="Decompressed gRPC message exceeds maximum size 100000") as refused:
        MessageReader(100_000, "gzip").receive(wire)
    assert refused.value.status is GrpcStatus.RESOURCE_EXHAUSTED


def test_compressed_messages_have_a_limit_of_their_own() -> None:
    reader = MessageReader(1 << 20, "gzip", most_unpacked=1000)
    assert reader.receive(packed(bytes(1000))) == [bytes(1000)]
    with pytest.raises(MessageRefused, match="maximum size 1000"):
        reader.receive(packed(bytes(1001)))


@pytest.mark.parametrize(
    ("wire", "encoding", "text"),
    [
        (packed(b"x"), "identity", "compression not configured"),
        (packed(b"x", flag=2), "gzip", "reserved bits"),
        (b"\1\0\0\0\3abc", "gzip", "cannot be unpacked"),
        (b"\1\0\0\0\x0a" + gzip.compress(b"x", mtime=0)[:10], "gzip", "cut off"),
        (
            b"\1" + (len(gzip.compress(b"x", mtime=0)) + 1).to_bytes(4, "big") + gzip.compress(b"x", mtime=0) + b"!",
            "gzip",
            "behind",
        ),
    ],
)
def test_what_cannot_be_unpacked_ends_the_call(wire: bytes, encoding: str, text: str) -> None:
    with pytest.raises(MessageRefused, match=text) as refused:
        MessageReader(1000, encoding).receive(wire)
    assert refused.value.status is GrpcStatus.INTERNAL


def test_the_end_in_the_middle_of_a_message_is_an_error() -> None:
    reader = MessageReader(1000)
    reader.receive(frame_message(b"abc")[:-1])
    assert reader.kept_bytes == 7
    with pytest.raises(MessageRefused, match="mid-frame"):
        reader.check_end()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("3S", 3), ("250m", 0.25), ("1H", 3600), ("2M", 120), ("5u", 5e-6), ("99999999n", 0.099999999)],
)
def test_timeouts_are_read(text: str, seconds: float) -> None:
    assert parse_timeout(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "3", "S", "123456789S", "-1S", "1.5S", "3s", " 3S", "٣S"])
def test_other_timeouts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="grpc-timeout"):
        parse_timeout(text)


@pytest.mark.parametrize("seconds", [0, 1e-9, 0.05, 0.5, 3, 20.5, 3600, 86400 * 400, 1e9])
def test_timeouts_are_written_to_be_read_again(seconds: float) -> None:
    assert parse_timeout(format_timeout(seconds)) == pytest.approx(seconds, rel=1e-6)


def test_a_time_that_is_over_is_written_as_none() -> None:
    assert parse_timeout(format_timeout(-1)) == 0
    assert parse_timeout(format_timeout(1e18)) > 1e11


def test_texts_are_percent_encoded() -> None:
    assert encode_text("100 % ~ü\n") == "100 %25 ~%C3%BC%0A"
    assert decode_text("100 %25 ~%C3%BC%0A") == "100 % ~ü\n"
    assert decode_text("%zz%ff") == "%zz\ufffd"
    assert len(encode_text("ü" * 5000)) == 1024 * 6


def test_http_statuses_mean_what_grpc_says() -> None:
    assert status_of_http(503) is GrpcStatus.UNAVAILABLE
    assert status_of_http(404) is GrpcStatus.UNIMPLEMENTED
    assert status_of_http(301) is GrpcStatus.UNKNOWN
