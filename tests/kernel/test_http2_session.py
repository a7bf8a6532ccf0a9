"""Sessions of HTTP/2: whole gRPC messages from bytes, answers to bytes, limits. The native one and its twin alike."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from pyromq.kernel import choice
from pyromq.kernel.http2 import (
    CallBegun,
    CallReset,
    Event,
    HalfClosed,
    Http2Limits,
    MessageArrived,
    Rest,
    SessionClosed,
)
from pyromq.transport.http2.session import ServerSession
from tests.kernel.http2_peer import (
    CONTINUATION,
    END_HEADERS,
    GOAWAY,
    HEADERS,
    PING,
    PRIORITY,
    RST_STREAM,
    SEND,
    SETTINGS,
    Peer,
    frame,
    framed,
    frames,
)
from tests.support import require

Make = Callable[[Http2Limits], Any]
LIMITS = Http2Limits()


def native(limits: Http2Limits) -> Any:
    module = choice.native_http2()
    require(module is not None, "HTTP/2 is not built natively here: make native (it needs libnghttp2-dev)")
    assert module is not None
    return module.Http2Session(limits)


class Drowsy:
    """A native session that rests between any two calls: nobody may notice."""

    def __init__(self, limits: Http2Limits) -> None:
        self._session = native(limits)

    def __getattr__(self, name: str) -> Any:
        lay_down()
        return getattr(self._session, name)


def lay_down() -> None:
    """Let every session rest that nobody is just using."""
    module = choice.native_http2()
    assert module is not None
    module.rest_unused()
    while module.rest_unused() is Rest.MORE:
        pass


@pytest.fixture(params=[native, Drowsy, ServerSession], ids=["native", "resting", "twin"])
def make(request: pytest.FixtureRequest) -> Make:
    made: Make = request.param
    return made


def exchange(peer: Peer, session: Any) -> list[Event]:
    """Carry bytes both ways until nobody has any; return what the session told."""
    told: list[Event] = []
    while True:
        said = peer.said()
        told += session.receive(said) if said else ()
        answered = session.take_output()
        if answered:
            peer.hear(answered)
        if not said and not answered:
            return told


def plain(events: list[Event]) -> list[tuple[Any, ...]]:
    """Events as tuples with names, headers as dicts: to compare sessions."""
    return [
        (type(one).__name__, *(dict(each) if isinstance(each, Mapping) else each for each in one)) for one in events
    ]


def connected(make: Make, limits: Http2Limits = LIMITS, **more: Any) -> tuple[Peer, Any]:
    peer, session = Peer(**more), make(limits)
    assert exchange(peer, session) == []
    return peer, session


def test_a_call_is_told_in_three_events_and_answered_with_headers_message_and_trailers(make: Make) -> None:
    peer, session = connected(make)
    peer.call(1, b"hello", x_mq_request_id="7")
    begun, *rest = exchange(peer, session)
    assert isinstance(begun, CallBegun)
    assert begun.headers["x-mq-request-id"] == "7"
    assert begun.headers[":path"].endswith("/SendMessage")
    assert rest == [MessageArrived(1, b"hello"), HalfClosed(1)]
    session.start(1)
    session.send(1, b"world")
    session.finish(1, 0)
    assert exchange(peer, session) == []
    first, data, last, *ends = peer.answers[1]
    assert first == {
        ":status": "200",
        "content-type": "application/grpc",
        "grpc-encoding": "identity",
        "grpc-accept-encoding": "gzip",
    }
    assert (data, last, ends) == (framed(b"world"), {"grpc-status": "0"}, ["ended"])


def test_a_refusal_without_messages_is_one_block_of_headers_whose_text_is_percent_encoded(make: Make) -> None:
    peer, session = connected(make)
    peer.call(1, b"hello")
    exchange(peer, session)
    session.finish(1, 12, "nö: 100%")
    exchange(peer, session)
    status = {"grpc-status": "12", "grpc-message": "n%C3%B6: 100%25"}
    assert peer.answers[1] == [{":status": "200", "content-type": "application/grpc"} | status, "ended"]


def test_messages_of_a_stream_arrive_one_by_one_and_answers_may_come_before_the_half_close(make: Make) -> None:
    peer, session = connected(make)
    peer.call(1, b"one", b"", b"three", end=False)
    assert exchange(peer, session)[1:] == [
        MessageArrived(1, b"one"),
        MessageArrived(1, b""),
        MessageArrived(1, b"three"),
    ]
    session.start(1)
    session.send(1, b"first")
    exchange(peer, session)
    assert peer.answers[1][1:] == [framed(b"first")]
    peer.h2.end_stream(1)
    assert exchange(peer, session) == [HalfClosed(1)]
    session.finish(1, 0)
    exchange(peer, session)
    assert peer.answers[1][2:] == [{"grpc-status": "0"}, "ended"]


def test_a_call_that_is_ended_before_the_half_close_is_reset_without_an_error(make: Make) -> None:
    peer, session = connected(make)
    peer.call(1, b"one", end=False)
    exchange(peer, session)
    session.start(1)
    session.finish(1, 0)
    exchange(peer, session)
    assert peer.answers[1][1:] == [{"grpc-status": "0"}, "ended", "reset 0"]


def test_a_call_of_the_peer_s_that_it_resets_is_told_once_and_takes_no_answer(make: Make) -> None:
    peer, session = connected(make)
    peer.call(1, b"hello", end=False)
    exchange(peer, session)
    peer.h2.reset_stream(1, 8)
    assert exchange(peer, session) == [CallReset(1, 8)]
    session.start(1)
    session.send(1, b"late")
    session.finish(1, 0)
    assert exchange(peer, session) == []
    assert 1 not in peer.answers


def test_what_the_window_does_not_let_out_waits_and_is_counted(make: Make) -> None:
    peer, session = connected(make, window=100)
    peer.call(1, b"hello")
    exchange(peer, session)
    session.start(1)
    session.send(1, b"x" * 1000)
    session.finish(1, 0)
    exchange(peer, session)
    assert session.unsent(1) == 905
    peer.h2.increment_flow_control_window(2000, 1)
    exchange(peer, session)
    assert session.unsent(1) == 0
    assert b"".join(one for one in peer.answers[1] if isinstance(one, bytes)) == framed(b"x" * 1000)
    assert peer.answers[1][-2:] == [{"grpc-status": "0"}, "ended"]


def test_windows_are_given_back_so_that_a_large_message_arrives_whole(make: Make) -> None:
    peer, session = connected(make, Http2Limits(message_bytes=1 << 24))
    body = random.Random(1).randbytes(9_000_000)
    peer.call(1, end=False)
    told, left = exchange(peer, session), framed(body)
    while left:
        room = min(peer.h2.local_flow_control_window(1), 16384, len(left))
        assert room > 0
        peer.h2.send_data(1, left[:room], end_stream=room == len(left))
        told, left = told + exchange(peer, session), left[room:]
    assert told[1:] == [MessageArrived(1, body), HalfClosed(1)]


@pytest.mark.parametrize("step", [1, 2, 3, 7, 64])
def test_bytes_cut_anywhere_tell_the_same(make: Make, step: int) -> None:
    peer = Peer()
    peer.call(1, b"hello", b"x" * 300, x_mq_request_id="1")
    peer.call(3, gzip.compress(b"y" * 500, mtime=0), end=False, grpc_encoding="gzip", path="/a.B/C")
    peer.h2.ping(b"12345678")
    peer.call(5, b"z", x_mq_request_id="2")
    peer.h2.reset_stream(3)
    said = peer.said()
    whole, pieces = make(Http2Limits()), make(Http2Limits())
    expected = plain(whole.receive(said))
    told = [one for at in range(0, len(said), step) for one in pieces.receive(said[at : at + step])]
    assert plain(told) == expected
    assert [one[0] for one in expected].count("CallBegun") == 3


def story(rng: random.Random) -> bytes:
    """A client's first bytes: calls of several kinds, some of them reset, pings."""
    peer = Peer()
    for stream in range(1, 2 * rng.randrange(2, 8), 2):
        messages = [rng.randbytes(rng.randrange(60)) for _ in range(rng.randrange(3))]
        is_whole = rng.random() < 0.8
        peer.call(stream, *messages, end=is_whole, path=rng.choice((SEND, "/a.B/C")), x_mq_request_id=str(rng.random()))
        if rng.random() < 0.2:
            peer.h2.ping(b"12345678")
        if not is_whole and rng.random() < 0.5:
            peer.h2.reset_stream(stream, 8)
    return peer.said()


@pytest.mark.parametrize("seed", range(40))
def test_both_tell_the_same_of_the_same_bytes_cut_by_chance_and_answer_the_same(seed: int) -> None:
    rng = random.Random(seed)
    said, sessions, heard = story(rng), (native(LIMITS), ServerSession(LIMITS)), (Peer(), Peer())
    told: list[list[tuple[Any, ...]]] = [[], []]
    at = 0
    while at < len(said):
        piece = said[at : at + rng.randrange(1, 200)]
        at += len(piece)
        for number, session in enumerate(sessions):
            told[number] += plain(session.receive(piece))
    assert told[0] == told[1]
    for session, peer in zip(sessions, heard, strict=True):
        peer.h2.data_to_send()
        for stream in range(1, 15, 2):  # streams that the peer has not begun: it may be any other's client
            peer.call(stream, end=False)
        for _, stream in (one for one in told[0] if one[0] == "HalfClosed"):
            session.start(stream)
            session.send(stream, b"answer %d" % stream)
            session.finish(stream, stream % 3, "text" if stream % 3 else "")
        peer.hear(session.take_output())
    assert heard[0].answers == heard[1].answers
    assert sessions[0].open_calls == sessions[1].open_calls


@pytest.mark.parametrize("seed", range(200))
def test_of_mutated_bytes_both_tell_the_same_up_to_the_mutation_and_neither_fails(seed: int) -> None:
    """What an error of one call is and what one of the connection differs between h2 and nghttp2, as RFC 9113 lets."""
    rng = random.Random(seed)
    said = bytearray(story(rng))
    place = rng.randrange(24, len(said))
    good, said[place] = bytes(said[:place]), said[place] ^ (1 << rng.randrange(8))
    sessions = native(LIMITS), ServerSession(LIMITS)
    first, second = (plain(session.receive(good)) for session in sessions)
    assert first == second
    for session in sessions:
        told = [*session.receive(bytes(said[place:])), *session.receive(b"")]
        assert all(not isinstance(one, SessionClosed) for one in told[:-1])
        session.take_output()


def test_a_compressed_message_is_unpacked_and_one_that_is_none_ends_its_call(make: Make) -> None:
    peer, session = connected(make)
    for stream, sent, encoding in (
        (1, framed(gzip.compress(b"y" * 500, mtime=0), 1), "gzip"),
        (3, framed(b"no gzip", 1), "gzip"),
        (5, framed(gzip.compress(b"y" * 500, mtime=0), 1), "snappy"),
        (7, framed(gzip.compress(b"y" * 500, mtime=0)[:-9], 1), "gzip"),
        (9, framed(gzip.compress(b"y" * 100_000, mtime=0), 1), "gzip"),
        (11, framed(b"", 2), "gzip"),
    ):
        peer.call(stream, end=False, grpc_encoding=encoding)
        peer.h2.send_data(stream, sent, end_stream=True)
    told = [one for one in exchange(peer, session) if not isinstance(one, CallBegun)]
    assert told[:2] == [MessageArrived(1, b"y" * 500), HalfClosed(1)]
    assert told[2:] == [CallReset(stream, 0) for stream in (3, 5, 7, 9, 11)]
    statuses = {stream: answers[0]["grpc-status"] for stream, answers in peer.answers.items()}  # type: ignore[index]
    assert statuses == {3: "13", 5: "12", 7: "13", 9: "8", 11: "13"}


def test_a_message_beyond_the_limit_of_its_method_is_answered_resource_exhausted(make: Make) -> None:
    peer, session = connected(make, Http2Limits(message_bytes=100, large={"/a.B/Large": 1000}))
    peer.call(1, b"x" * 101, path="/a.B/Small")
    peer.call(3, b"x" * 1000, path="/a.B/Large")
    peer.call(5, b"x" * 1001, path="/a.B/Large", end=False)
    told = exchange(peer, session)
    assert [one for one in told if not isinstance(one, CallBegun)] == [
        CallReset(1, 0),
        MessageArrived(3, b"x" * 1000),
        HalfClosed(3),
        CallReset(5, 0),
    ]
    assert peer.answers[1][0]["grpc-message"] == "gRPC message exceeds maximum size 100: 101"  # type: ignore[index]


def test_unfinished_messages_of_all_calls_together_are_bounded(make: Make) -> None:
    peer, session = connected(make, Http2Limits(pending_bytes=1000))
    for stream in (1, 3, 5):
        peer.call(stream, end=False)
        peer.h2.send_data(stream, framed(b"x" * 2000)[:400])
    told = exchange(peer, session)
    assert [one for one in told if isinstance(one, CallReset)] == [CallReset(5, 0)]
    assert peer.answers[5][0]["grpc-status"] == "8"  # type: ignore[index]


def test_a_request_that_ends_inside_a_message_is_answered_internal(make: Make) -> None:
    peer, session = connected(make)
    peer.call(1, end=False)
    peer.h2.send_data(1, framed(b"hello")[:7], end_stream=True)
    assert exchange(peer, session)[1:] == [CallReset(1, 0)]
    assert peer.answers[1][0]["grpc-status"] == "13"  # type: ignore[index]


def last_goaway(session: Any) -> int:
    """The error code of the GOAWAY in its output."""
    codes = [payload[4:8] for kind, _, _, payload in frames(session.take_output()) if kind == GOAWAY]
    return int.from_bytes(codes[-1], "big")


def closes(session: Any, data: bytes, reason: str) -> None:
    told = session.receive(data)
    assert isinstance(told[-1], SessionClosed)
    assert reason in told[-1].reason
    assert last_goaway(session) == 11
    assert session.receive(frame(PING, b"12345678")) == []


@pytest.mark.parametrize("flood", [frame(PING, b"12345678"), frame(SETTINGS), frame(PRIORITY, b"\0\0\0\0\1", 1)])
def test_floods_that_no_call_gains_from_end_the_connection(make: Make, flood: bytes) -> None:
    _, session = connected(make, Http2Limits(idle_frames=100))
    assert session.receive(flood * 90) == []
    session.take_output()
    closes(session, flood * 20, "more than 100 frames in a row")


def test_a_peer_that_resets_what_it_begins_is_cut_off(make: Make) -> None:
    peer, session = connected(make, Http2Limits(resets=20))
    told: list[Event] = []
    for stream in range(1, 101, 2):
        peer.call(stream, b"x")
        exchange(peer, session)
        session.finish(stream, 0)
        exchange(peer, session)  # those that end otherwise do not count
    for stream in range(101, 141, 2):
        peer.call(stream, end=False)
        peer.h2.reset_stream(stream)
    told = exchange(peer, session)
    assert not any(isinstance(one, SessionClosed) for one in told)
    for stream in range(141, 301, 2):
        peer.call(stream, end=False)
        peer.h2.reset_stream(stream)
    closes(session, peer.said(), "reset beyond those that ended")


def test_a_header_list_beyond_the_limit_ends_the_connection(make: Make) -> None:
    peer, session = connected(make)
    peer.call(1, x_large="x" * 8192)
    closes(session, peer.said(), "header list of more than 8192 bytes")


def test_small_blocks_that_unfold_to_large_headers_end_the_connection(make: Make) -> None:
    peer, session = connected(make)
    peer.call(1, b"", x_large="x" * 2000)
    assert len(exchange(peer, session)) == 3
    block = bytes([0x80 | 62]) * 10  # ten times the newest entry of the table
    told = session.receive(frame(HEADERS, block, 3, END_HEADERS))
    assert isinstance(told[-1], SessionClosed)


def test_endless_continuations_end_the_connection(make: Make) -> None:
    _, session = connected(make)
    told = session.receive(frame(HEADERS, b"", 1) + frame(CONTINUATION, b"", 1) * 10_000)
    assert isinstance(told[-1], SessionClosed)


def test_calls_beyond_those_that_may_be_open_are_refused_and_the_others_go_on(make: Make) -> None:
    peer, session = connected(make, Http2Limits(streams=3))
    for stream in (1, 3, 5):
        peer.call(stream, b"x")
    assert len(exchange(peer, session)) == 9
    peer.h2.remote_settings[3] = 10  # it does not care
    peer.h2.remote_settings.acknowledge()
    peer.call(7, b"x")
    assert [one for one in session.receive(peer.said()) if not isinstance(one, SessionClosed)] == []


def test_what_is_no_http_2_is_refused(make: Make) -> None:
    session = make(Http2Limits())
    told = session.receive(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert [type(one) for one in told] == [SessionClosed]


def test_goaway_lets_open_calls_end(make: Make) -> None:
    peer, session = connected(make)
    peer.call(1, b"x")
    exchange(peer, session)
    session.goaway()
    answered = session.take_output()
    assert [payload for kind, _, _, payload in frames(answered) if kind == GOAWAY] == [b"\0\0\0\1\0\0\0\0"]
    session.start(1)
    session.send(1, b"y")
    session.finish(1, 0)
    kinds = [kind for kind, _, stream, _ in frames(session.take_output()) if stream == 1]
    assert kinds == [1, 0, 1]


def test_a_reset_of_ours_ends_the_call_without_an_event(make: Make) -> None:
    peer, session = connected(make)
    peer.call(1, b"x")
    exchange(peer, session)
    session.reset(1, 8)
    resets = [payload for kind, _, _, payload in frames(session.take_output()) if kind == RST_STREAM]
    assert resets == [b"\0\0\0\x08"]
    session.send(1, b"late")
    assert session.take_output() == b""


def test_output_that_nobody_reads_is_bounded(make: Make) -> None:
    peer, session = connected(make, Http2Limits(output_bytes=10_000), window=0)
    peer.call(1, b"x")
    exchange(peer, session)
    session.start(1)
    session.send(1, b"y" * 5_000)
    assert exchange(peer, session) == []
    session.send(1, b"y" * 5_000)
    told = session.receive(frame(PING, b"12345678"))
    assert [type(one) for one in told] == [SessionClosed]
    assert last_goaway(session) == 11


def test_sessions_that_write_in_turns_do_not_disturb_each_other(make: Make) -> None:
    """The native ones share the memory of the frame that is being sent."""
    ends = [connected(make, window=30_000) for _ in range(3)]
    for number, (peer, session) in enumerate(ends):
        peer.call(1, b"hello")
        exchange(peer, session)
        session.send(1, b"%d" % number * 50_000)
    for _ in range(4):
        for peer, session in ends:
            peer.h2.increment_flow_control_window(7_000, 1)
            peer.h2.increment_flow_control_window(7_000)
            said = peer.said()
            session.receive(said)
            peer.hear(session.take_output())
    for number, (peer, session) in enumerate(ends):
        session.finish(1, number, f"end of {number}")
        exchange(peer, session)
        data = b"".join(one for one in peer.answers[1] if isinstance(one, bytes))
        assert data == framed(b"%d" % number * 50_000)
        assert peer.answers[1][-2:] == [
            {"grpc-status": str(number), "grpc-message": f"end of {number}"},
            "ended",
        ]
