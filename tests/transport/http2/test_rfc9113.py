"""What RFC 9113 says of single frames, as a table: each case whole, and split at every byte, by both sessions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hpack import Encoder

from pyromq.kernel import choice
from pyromq.kernel.http2 import PREFACE, CallBegun, CallReset, Http2Limits, SessionClosed
from pyromq.transport.http2.session import ServerSession
from tests.kernel.http2_peer import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PING,
    PRIORITY,
    PUSH,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    frame,
    framed,
    frames,
    headers,
)

PROTOCOL, FLOW, CLOSED, SIZE, COMPRESSION, CALM = 1, 3, 5, 6, 9, 11
ACK = 1

Make = Callable[[Http2Limits], Any]


def native(limits: Http2Limits) -> Any:
    module = choice.native_http2()
    if module is None:
        pytest.skip("HTTP/2 is not built natively here: make native (it needs libnghttp2-dev)")
    return module.Http2Session(limits)


@pytest.fixture(params=[ServerSession, native], ids=["twin", "native"])
def make(request: pytest.FixtureRequest) -> Make:
    made: Make = request.param
    return made


def block(*more: tuple[str, str], leave_out: str = "") -> bytes:
    """A header block that stands alone: nothing of it is put into the table."""
    usual = [(name, value) for name, value in headers("/a.B/C") if name != leave_out]
    fields = [(name, value, True) for name, value in [*usual, *more]]
    return Encoder().encode(fields, huffman=False)


def call(stream: int = 1, payload: bytes | None = None, flags: int = END_HEADERS) -> bytes:
    return frame(HEADERS, block() if payload is None else payload, stream, flags)


BEGIN = PREFACE + frame(SETTINGS)

# What is sent behind the preface, and the code of the GOAWAY or RST_STREAM that answers it. h2 and nghttp2 may regard
# an error as one of the stream or of the connection, as the RFC allows.
REFUSED = {
    "DATA on stream 0": (frame(DATA, b"x", 0), {PROTOCOL}),
    "DATA on an idle stream": (frame(DATA, b"x", 1), {PROTOCOL, CLOSED}),
    "DATA behind the end of a stream": (call(flags=5) + frame(DATA, b"x", 1), {CLOSED}),
    "HEADERS behind the end of a stream": (call(flags=5) + call(flags=5), {CLOSED}),
    "padding longer than the frame": (call() + frame(DATA, b"\x05ab", 1, 8), {PROTOCOL}),
    "HEADERS on stream 0": (call(0), {PROTOCOL}),
    "HEADERS on an even stream": (call(2), {PROTOCOL}),
    "HEADERS on a lower stream": (call(5, flags=5) + call(3), {PROTOCOL, CLOSED}),
    "HEADERS that cannot be decoded": (call(payload=b"\xff\xff\xff\xff\xff\xff\x7f"), {COMPRESSION, PROTOCOL}),
    "a stream that depends on itself": (call(1, b"\0\0\0\1\0" + block(), 0x24), {PROTOCOL}),
    "CONTINUATION without HEADERS": (frame(CONTINUATION, block(), 1, END_HEADERS), {PROTOCOL}),
    "another frame inside a header block": (call(flags=0) + frame(PING, b"12345678"), {PROTOCOL}),
    "CONTINUATION of another stream": (call(flags=0) + frame(CONTINUATION, b"", 3, 4), {PROTOCOL}),
    "PRIORITY on stream 0": (frame(PRIORITY, b"\0\0\0\1\0", 0), {PROTOCOL}),
    "PRIORITY of another size": (call() + frame(PRIORITY, b"\0\0\0\1", 1), {SIZE}),
    "RST_STREAM on stream 0": (frame(RST_STREAM, bytes(4), 0), {PROTOCOL}),
    "RST_STREAM on an idle stream": (frame(RST_STREAM, bytes(4), 1), {PROTOCOL}),
    "RST_STREAM of another size": (call() + frame(RST_STREAM, bytes(3), 1), {SIZE}),
    "SETTINGS on a stream": (frame(SETTINGS, b"", 1), {PROTOCOL}),
    "SETTINGS of another size": (frame(SETTINGS, bytes(5)), {SIZE}),
    "SETTINGS that acknowledge and say something": (frame(SETTINGS, b"\0\3\0\0\0\1", 0, ACK), {SIZE, PROTOCOL}),
    "SETTINGS with a window too large": (frame(SETTINGS, b"\0\4\x80\0\0\0"), {FLOW}),
    "SETTINGS with frames too small": (frame(SETTINGS, b"\0\5\0\0\x3f\xff"), {PROTOCOL}),
    "PUSH_PROMISE of a client": (call() + frame(PUSH, b"\0\0\0\2" + block(), 1, 4), {PROTOCOL}),
    "PING on a stream": (frame(PING, bytes(8), 1), {PROTOCOL}),
    "PING of another size": (frame(PING, bytes(7)), {SIZE}),
    "GOAWAY on a stream": (frame(GOAWAY, bytes(8), 1), {PROTOCOL}),
    "WINDOW_UPDATE by nothing": (frame(WINDOW_UPDATE, bytes(4)), {PROTOCOL}),
    "WINDOW_UPDATE by nothing of a stream": (call() + frame(WINDOW_UPDATE, bytes(4), 1), {PROTOCOL}),
    "WINDOW_UPDATE of another size": (frame(WINDOW_UPDATE, bytes(3)), {SIZE}),
    "WINDOW_UPDATE on an idle stream": (frame(WINDOW_UPDATE, b"\0\0\0\1", 1), {PROTOCOL}),
    "a window that overflows": (frame(WINDOW_UPDATE, b"\x7f\xff\xff\xff"), {FLOW}),
    "a stream's window that overflows": (call() + frame(WINDOW_UPDATE, b"\x7f\xff\xff\xff", 1), {FLOW}),
    "a frame longer than allowed": (call() + b"\0\x40\x01" + frame(DATA, b"", 1)[3:], {SIZE}),
    "trailers without an end": (call() + call(), {PROTOCOL}),
    "no method": (call(payload=block(leave_out=":method")), {PROTOCOL}),
    "no path": (call(payload=block(leave_out=":path")), {PROTOCOL}),
    "a pseudo-header behind others": (call(payload=block((":authority", "x"), leave_out=":authority")), {PROTOCOL}),
    "an upper-case name": (call(payload=block(("X-Upper", "x"))), {PROTOCOL}),
    "a field of connections": (call(payload=block(("connection", "close"))), {PROTOCOL}),
    "te that is not trailers": (call(payload=block(("te", "gzip"), leave_out="te")), {PROTOCOL}),
    "a length that is not that of the data": (
        call(payload=block(("content-length", "9"))) + frame(DATA, framed(b"ab"), 1, END_STREAM),
        {PROTOCOL},
    ),
    "another preface": (b"", {PROTOCOL}),
}

# What changes nothing: the call behind it is told.
ACCEPTED = {
    "unknown frames": frame(0x42, b"whatever") + frame(0x42, b"", 1),
    "unknown settings": frame(SETTINGS, b"\x42\x42\0\0\0\1"),
    "unknown flags": frame(PING, b"12345678", 0, 0xF6),
    "PRIORITY on an idle stream": frame(PRIORITY, b"\0\0\0\0\1", 7),
    "an acknowledgement that nobody asked for": frame(PING, b"12345678", 0, ACK),
    "many settings": frame(SETTINGS, b"\0\3\0\0\0\x64\0\4\0\1\0\0\0\1\0\0\0\0"),
}


NOT_OF_NGHTTP2 = {
    "another preface": "it says no GOAWAY where there never was HTTP/2",
    "HEADERS on a lower stream": "it keeps nothing of streams that were closed, and ignores them",
}


def codes(output: bytes) -> list[int]:
    """The error codes of GOAWAY and RST_STREAM."""
    return [
        int.from_bytes(payload[4:8] if kind == GOAWAY else payload, "big")
        for kind, _, _, payload in frames(output)
        if kind in (GOAWAY, RST_STREAM)
    ]


def told(session: Any, *pieces: bytes) -> list[Any]:
    return [event for piece in pieces for event in session.receive(piece)]


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_forbidden_ends_the_stream_or_the_connection(make: Make, case: str) -> None:
    data, expected = REFUSED[case]
    wire = BEGIN + data if data else b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n"
    if make is native and case in NOT_OF_NGHTTP2:
        pytest.skip(NOT_OF_NGHTTP2[case])
    session = make(Http2Limits())
    events = told(session, wire)
    assert set(codes(session.take_output())) & expected, events
    assert not data or any(isinstance(each, SessionClosed | CallReset) for each in events) or len(events) <= 2


@pytest.mark.parametrize("case", REFUSED)
def test_the_same_split_at_every_byte(make: Make, case: str) -> None:
    data, expected = REFUSED[case]
    if not data or (make is native and case in NOT_OF_NGHTTP2):
        pytest.skip(NOT_OF_NGHTTP2[case])
    wire = BEGIN + data
    for cut in range(len(BEGIN), len(wire)):
        session = make(Http2Limits())
        told(session, wire[:cut], wire[cut:])
        assert set(codes(session.take_output())) & expected, cut


@pytest.mark.parametrize("case", ACCEPTED)
def test_what_is_allowed_changes_nothing(make: Make, case: str) -> None:
    wire = BEGIN + ACCEPTED[case] + call(9, flags=END_HEADERS | END_STREAM)
    for cut in range(len(wire)):
        session = make(Http2Limits())
        events = told(session, wire[:cut], wire[cut:])
        assert [type(each) for each in events][:1] == [CallBegun], (cut, events)
        assert codes(session.take_output()) == [], cut


def test_settings_are_java_s_and_come_first(make: Make) -> None:
    session = make(Http2Limits())
    sent = list(frames(session.take_output()))
    assert sent[0] == (SETTINGS, 0, 0, b"\0\3\0\0\x03\xe8\0\4\0\x10\0\0\0\6\0\0\x20\0")
    assert sent[1] == (WINDOW_UPDATE, 0, 0, (983_041).to_bytes(4, "big"))


def test_a_ping_is_answered_with_its_bytes(make: Make) -> None:
    session = make(Http2Limits())
    told(session, BEGIN + frame(PING, b"12345678"))
    assert (PING, ACK, 0, b"12345678") in list(frames(session.take_output()))


def test_a_client_that_goes_away_gets_the_answers_of_its_calls(make: Make) -> None:
    session = make(Http2Limits())
    told(session, BEGIN + call(1, flags=END_HEADERS | END_STREAM) + frame(GOAWAY, bytes(8)))
    session.take_output()
    session.send(1, b"answer")
    session.finish(1, 0)
    sent = list(frames(session.take_output()))
    assert [kind for kind, _, _, _ in sent] == [HEADERS, DATA, HEADERS]
    assert sent[1][3] == framed(b"answer")
