"""Heartbeats at the native session: what is taken and left, in pieces, and mutated. Also in `make sanitize`."""

from __future__ import annotations

import random
from typing import Any

import pytest
from google.protobuf.message import DecodeError

from pyromq.kernel import choice
from pyromq.kernel.grpc_beats import BeatRules
from pyromq.kernel.grpc_sends import HotPeer
from pyromq.kernel.http2 import CallBegun, Event, HalfClosed, Http2Limits, MessageArrived
from pyromq.protocol.grpc import v2
from tests.kernel.http2_peer import Peer
from tests.kernel.test_hot_sends import RULES, Broker
from tests.kernel.test_http2_fuzz import FRAMES, changed
from tests.support import require

BEAT = "/apache.rocketmq.v2.MessagingService/Heartbeat"
OK = v2.HeartbeatResponse(status=v2.Status(code=v2.Code.OK, message="OK")).SerializeToString()
G = v2.HeartbeatRequest(group=v2.Resource(name="g"), client_type=v2.ClientType.PUSH_CONSUMER).SerializeToString()
REMOTE = "10.0.0.7:5"


class Wire:
    """A client, a session, and the proxy, which takes what a test says."""

    def __init__(self, takes: bool = True) -> None:
        module = choice.native_http2()
        require(module is not None, "HTTP/2 is not built natively here: make native (it needs libnghttp2-dev)")
        assert module is not None
        self.takes = takes
        self.asked: list[tuple[str, str, str, str]] = []
        broker = Broker()
        hot = module.HotSends(broker, broker.feed, RULES)
        self.beats = module.HotBeats(self.take, BeatRules(BEAT, OK))
        hot.serve_beats(self.beats)
        self.session: Any = module.Http2Session(Http2Limits())
        self.session.serve_hot(hot, HotPeer(REMOTE, "grpc"), REMOTE)
        self.peer = Peer()
        self.receive(self.peer.said())

    def take(self, client_id: str, language: str, remote: str, group: str) -> bool:
        self.asked.append((client_id, language, remote, group))
        return self.takes

    def receive(self, data: bytes) -> list[Event]:
        told = list(self.session.receive(data))
        self.peer.hear(self.session.take_output())
        return told

    def say(self, *messages: bytes, stream: int = 1, language: str = "JAVA", **more: Any) -> list[Event]:
        self.peer.call(stream, *messages, path=BEAT, x_mq_language=language, **more)
        return self.receive(self.peer.said())


def test_a_renewal_is_answered_without_an_event() -> None:
    wire = Wire()
    assert wire.say(G, grpc_timeout="500m") == []
    assert wire.asked == [("me@1@0@abc", "JAVA", REMOTE, "g")]
    _, data, trailers, end = wire.peer.answers[1]
    assert (data, trailers, end) == (b"\0\0\0\0" + bytes((len(OK),)) + OK, {"grpc-status": "0"}, "ended")
    assert (wire.beats.renewed, wire.session.hot_calls, wire.session.open_calls) == (1, 1, 0)
    assert (wire.session.pending_bytes, wire.session.unsent_bytes) == (0, 0)


def test_what_the_proxy_does_not_take_is_told_whole() -> None:
    wire = Wire(takes=False)
    begun, arrived, closed = wire.say(G)
    assert isinstance(begun, CallBegun)
    assert begun.headers["x-mq-language"] == "JAVA"
    assert (arrived, closed) == (MessageArrived(1, G), HalfClosed(1))
    assert (wire.beats.renewed, wire.session.hot_calls) == (0, 0)
    wire.session.send(1, b"answer")
    wire.session.finish(1, 0)
    wire.peer.hear(wire.session.take_output())
    assert wire.peer.answers[1][1] == b"\0\0\0\0\x06answer"


@pytest.mark.parametrize(
    ("messages", "more"),
    [
        ((), {}),
        ((G, G), {}),
        ((G,), {"X_MQ_LANGUAGE": "CPP"}),  # a second one
        ((G,), {"grpc_timeout": "1"}),
        ((G,), {"grpc_encoding": "gzip"}),
        ((b"\x0a\x00\x0a\x00",), {}),
        ((b"\x00\x00",), {}),
        ((b"\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f",), {}),
        ((b"\x0a\x7f",), {}),
    ],
)
def test_what_is_odd_is_told_without_asking(messages: tuple[bytes, ...], more: dict[str, Any]) -> None:
    wire = Wire()
    told = wire.say(*messages, **more)
    assert told != []
    assert (wire.asked, wire.beats.renewed) == ([], 0)


def test_without_a_language_or_after_a_goaway_it_is_python_s() -> None:
    wire = Wire()
    wire.peer.call(1, G, path=BEAT)
    assert len(wire.receive(wire.peer.said())) == 3
    wire.peer.call(3, G, path=BEAT, x_mq_language="JAVA")
    said = wire.peer.said()
    wire.session.goaway()
    assert wire.session.receive(said)[1:3] == [MessageArrived(3, G), HalfClosed(3)]
    assert wire.asked == []


def test_a_fault_of_the_proxy_is_raised() -> None:
    wire = Wire()
    wire.asked = None  # type: ignore[assignment]
    with pytest.raises(AttributeError):
        wire.say(G)
    assert wire.session.is_closed


def test_it_may_come_in_any_two_pieces_and_the_session_rest_between() -> None:
    rest_unused = choice.native_http2().rest_unused  # type: ignore[union-attr]
    whole = Wire()
    whole.peer.call(1, G, path=BEAT, x_mq_language="JAVA")
    for cut in range(1, len(whole.peer.said())):
        wire = Wire()
        wire.peer.call(1, G, path=BEAT, x_mq_language="JAVA")
        said = wire.peer.said()
        assert wire.receive(said[:cut]) == []
        rest_unused()
        rest_unused()
        assert wire.receive(said[cut:]) == []
        assert (wire.beats.renewed, wire.peer.answers[1][-1]) == (1, "ended"), cut


def test_mutated_heartbeats_are_taken_only_as_protobuf_reads_them() -> None:
    taken = left = 0
    for seed in range(FRAMES // 5):
        rng = random.Random(seed)
        wire = Wire(takes=rng.random() < 0.9)
        for stream in range(1, 11, 2):
            request = v2.HeartbeatRequest(client_type=rng.randrange(6))
            if rng.random() < 0.8:
                request.group.name = rng.choice(("g", "group-1", "", " ", "grün", "x" * 200))
            if rng.random() < 0.2:
                request.group.resource_namespace = rng.choice(("n", "grün"))
            message = request.SerializeToString()
            message = changed(rng, message) if rng.random() < 0.7 else message
            before = len(wire.asked)
            told = wire.say(message, stream=stream)
            asked = wire.asked[before:]
            try:
                group = v2.HeartbeatRequest.FromString(message).group.name
            except DecodeError:
                assert asked == [], f"seed {seed}"
            else:
                assert asked in ([], [("me@1@0@abc", "JAVA", REMOTE, group)]), f"seed {seed}"
            is_taken = bool(asked) and wire.takes
            assert [type(one) for one in told] == ([] if is_taken else [CallBegun, MessageArrived, HalfClosed])
            assert is_taken == (wire.peer.answers.get(stream, [None])[-1] == "ended"), f"seed {seed}"
            taken, left = taken + is_taken, left + (not is_taken)
    assert taken > FRAMES // 10
    assert left > FRAMES // 10
