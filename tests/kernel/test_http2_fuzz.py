"""Mutated bytes of HTTP/2 and mutated messages at the native session with hot sends. Also in `make sanitize`.

By hand: `PYROMQ_FUZZ_FRAMES=1000000 pytest tests/kernel/test_http2_fuzz.py`. A failure names its seed.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from pyromq.broker.wiring.grpc_sends import send_rules
from pyromq.kernel import choice
from pyromq.kernel.grpc_sends import HotPeer, TopicRules
from pyromq.kernel.http2 import PREFACE, Http2Limits, MessageArrived, SessionClosed
from pyromq.kernel.seam import NOTHING, Fed
from pyromq.protocol.frame import FrameLimits, decode_frames, encode_frame
from pyromq.protocol.grpc import v2
from pyromq.protocol.properties import decode_properties
from pyromq.proxy.config import ProxySettings
from pyromq.proxy.messages.convert import kind_of, properties_of, system_flag
from pyromq.proxy.messages.limits import check_message
from pyromq.transport.dispatch import Reply
from tests.kernel.http2_peer import DATA, HEADERS, SEND, Peer, frame, framed, frames
from tests.support import require

FRAMES = int(os.environ.get("PYROMQ_FUZZ_FRAMES", "6000"))
SETTINGS = ProxySettings()
REMOTE = "10.0.0.7:5"
LIMITS = Http2Limits(message_bytes=1 << 20, streams=20, idle_frames=200, resets=20)
WORDS = ("a", "color", "TAGS", "__SHARDINGKEY", "grün", " ", "", "a|b", "x" * 70, "\x01", "PGROUP", "k 1")


class Feed:
    """Answers every frame, and checks that Python would have let each through and stored the same."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.sent: dict[int, bytes] = {}
        self.taken = 0

    def judge(self, topic: str) -> TopicRules | None:
        return None if topic == "Unknown" else TopicRules(4, True, True, "broker-a")

    def answer_of(self, code: int, remark: str) -> bytes:
        raise AssertionError("no answer of this feed has another code than 0")

    def feed(self, connection: object, received: memoryview) -> Fed | bytes:
        if self.rng.random() < 0.1:
            return NOTHING
        commands, used, _ = decode_frames(bytes(received), FrameLimits(1 << 24, 1 << 20))
        assert used == len(received)
        answers = []
        for command in commands:
            self.taken += 1
            self.check(command.opaque, command.fields, bytes(command.body))
            fields = {"queueOffset": "7", "transactionId": decode_properties(command.fields["i"])["UNIQ_KEY"]}
            answers.append(encode_frame(Reply(fields=fields).to_command(command)))
        return b"".join(answers)

    def check(self, stream: int, fields: dict[str, str], body: bytes) -> None:
        if stream not in self.sent:
            return  # of bytes that were mutated: nobody knows what came
        (message,) = v2.SendMessageRequest.FromString(self.sent[stream]).messages
        check_message(message, SETTINGS, 0)
        stored = properties_of(message, REMOTE)
        assert decode_properties(fields["i"]) == stored
        assert kind_of(stored) in ("NORMAL", "FIFO")
        assert (fields["b"], body, fields["f"]) == (message.topic.name, message.body, str(system_flag(message)))
        assert fields["g"] == str(message.system_properties.born_timestamp.ToMilliseconds())


def a_message(rng: random.Random) -> bytes:
    message = v2.Message(topic=v2.Resource(name=rng.choice(("A", "A", "A", "Unknown"))), body=rng.randbytes(20))
    system = message.system_properties
    system.message_id = f"{rng.getrandbits(64):016X}"
    system.born_timestamp.FromMilliseconds(rng.randrange(1, 1 << 42))
    for _ in range(rng.randrange(3)):
        name, word = (
            rng.choice(("tag", "born_host", "message_group", "trace_context", "user", "keys")),
            rng.choice(WORDS),
        )
        if name == "user":
            message.user_properties[rng.choice(WORDS)] = word
        elif name == "keys":
            system.keys.append(word)
        else:
            setattr(system, name, word)
    if rng.random() < 0.2:
        setattr(system, *rng.choice((("priority", 3), ("delivery_attempt", -1), ("message_type", 4), ("queue_id", 9))))
    return v2.SendMessageRequest(messages=[message]).SerializeToString()


def changed(rng: random.Random, data: bytes) -> bytes:
    made = bytearray(data)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(made) + 1)
        match rng.randrange(4):
            case 0 if at < len(made):
                made[at] ^= 1 << rng.randrange(8)
            case 1 if at < len(made):
                made[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
            case 2:
                del made[at : at + rng.randrange(1, 5)]
            case _:
                made[at:at] = rng.randbytes(rng.randrange(1, 5))
    return bytes(made)


def native() -> ModuleType:
    module = choice.native_http2()
    require(module is not None, "HTTP/2 is not built natively here: make native (it needs libnghttp2-dev)")
    assert module is not None
    return module


def session_of(feed: Feed) -> Any:
    module = native()
    session = module.Http2Session(LIMITS)
    hot = module.HotSends(feed, feed.feed, send_rules(SETTINGS))
    session.serve_hot(hot, HotPeer(REMOTE, "grpc"), REMOTE)
    return session


def seeds() -> Iterator[int]:
    """Until so many frames were made, five a seed."""
    yield from range(FRAMES // 5)


def test_mutated_messages_are_taken_only_where_python_stores_the_same() -> None:
    taken = left = 0
    for seed in seeds():
        rng = random.Random(seed)
        feed = Feed(rng)
        session, peer = session_of(feed), Peer()
        for stream in range(1, 11, 2):
            message = a_message(rng)
            if rng.random() < 0.6:
                message = changed(rng, message)
            feed.sent[stream] = message
            peer.call(stream, message)
        try:
            told = session.receive(peer.said())
            session.take_output()
        except BaseException as fault:
            raise AssertionError(f"seed {seed}") from fault
        arrived = {one.stream: one.message for one in told if isinstance(one, MessageArrived)}
        assert arrived.items() <= feed.sent.items(), f"seed {seed}"
        assert feed.taken + len(arrived) == 5, f"seed {seed}"
        taken, left = taken + feed.taken, left + len(arrived)
    assert taken > FRAMES // 10
    assert left > 0


def test_mutated_frames_leave_a_session_that_is_closed_or_goes_on() -> None:
    closed = 0
    rest_unused = native().rest_unused
    for seed in seeds():
        rng = random.Random(seed)
        feed = Feed(rng)
        feed.sent = {}
        session, peer = session_of(feed), Peer()
        for stream in range(1, 2 * rng.randrange(1, 5), 2):
            peer.call(stream, a_message(rng), end=rng.random() < 0.8)
        parts = [PREFACE]
        for kind, flags, stream, payload in frames(peer.said()):
            one = frame(kind, changed(rng, payload) if rng.random() < 0.3 else payload, stream, flags)
            if rng.random() < 0.2:
                one = changed(rng, one)
            if rng.random() < 0.2:
                other = rng.choice((stream, stream + 2, 0, 1))
                one += frame(rng.randrange(11), rng.randbytes(rng.randrange(20)), other, rng.randrange(256))
            if kind in (HEADERS, DATA) and rng.random() < 0.1:
                one += one
            parts.append(one)
        said, at, told = b"".join(parts), 0, []
        try:
            while at < len(said):
                size = rng.randrange(1, 400)
                told += session.receive(said[at : at + size])
                at += size
                if rng.random() < 0.3:
                    rest_unused()
                if rng.random() < 0.3:
                    stream = rng.choice((1, 3, 5))
                    session.send(stream, b"answer")
                    session.finish(stream, rng.randrange(3), "text")
            told += session.receive(b"")
            session.take_output()
        except BaseException as fault:
            raise AssertionError(f"seed {seed}") from fault
        ends = [one for one in told if isinstance(one, SessionClosed)]
        assert len(ends) <= 1, f"seed {seed}"
        assert bool(ends) == session.is_closed, f"seed {seed}"
        assert session.open_calls <= LIMITS.streams
        closed += bool(ends)
    assert 0 < closed < FRAMES // 5


def test_what_is_framed_is_read_back() -> None:
    """The mutations are of what a client says: the untouched is all taken or told."""
    rng = random.Random(0)
    feed = Feed(rng)
    session, peer = session_of(feed), Peer()
    peer.h2.send_headers(1, [(":method", "POST"), (":scheme", "http"), (":path", SEND), (":authority", "x")])
    peer.h2.send_data(1, framed(a_message(rng)), end_stream=True)
    assert len(session.receive(peer.said())) == 3  # it has no client id
