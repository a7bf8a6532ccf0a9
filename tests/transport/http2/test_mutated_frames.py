"""Mutated frames: a session ends a stream or the connection, never anything else, and keeps its counts.

A share runs always; `pytest -m slow` does a million. `PYROMQ_SEED` begins elsewhere.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from typing import Any

import pytest

from pyromq.kernel import choice
from pyromq.kernel.http2 import CallBegun, CallReset, Http2Limits, MessageArrived, SessionClosed
from pyromq.transport.http2.client_session import AnswerEnded, ClientSession
from pyromq.transport.http2.session import ServerSession
from tests.kernel.http2_peer import Peer, framed, headers

SEED = int(os.environ.get("PYROMQ_SEED", "1"))
LIMITS = Http2Limits(streams=8, message_bytes=2000, pending_bytes=5000, resets=20, idle_frames=50, output_bytes=50_000)
FRAMES_A_STORY = 12


def story(rng: random.Random) -> bytes:
    """Some frames of a client that keeps the rules."""
    peer = Peer(window=rng.choice((None, None, 0, 10, 100_000)))
    for stream in range(1, 9, 2):
        packed = {"grpc_encoding": "gzip"} if rng.random() < 0.2 else {}
        peer.h2.send_headers(stream, headers("/a.B/C", x_id=str(rng.random()), **packed))
        peer.h2.send_data(stream, framed(rng.randbytes(rng.randrange(300)), rng.random() < 0.1))
        if rng.random() < 0.6:
            peer.h2.end_stream(stream)
        elif rng.random() < 0.3:
            peer.h2.reset_stream(stream, 8)
    peer.h2.ping(b"12345678")
    return peer.said()


def mutated(data: bytes, rng: random.Random, keep: int) -> bytes:
    """The same with bits flipped, bytes changed, left out, doubled, or frames out of place; `keep` stays."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(keep, len(out)) if len(out) > keep else keep
        kind = rng.randrange(5)
        if at >= len(out):
            break
        if kind == 0:
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            out[at] = rng.choice((0, 1, 4, 0x7F, 0x80, 0xFF))
        elif kind == 2:
            del out[at : at + rng.randrange(1, 12)]
        elif kind == 3:
            out[at:at] = out[at : at + rng.randrange(1, 30)]
        else:
            out[at:at] = rng.randbytes(rng.randrange(1, 20))
    return bytes(out)


def pieces(data: bytes, rng: random.Random) -> Iterator[bytes]:
    while data:
        size = rng.choice((1, 9, 50, len(data)))
        yield data[:size]
        data = data[size:]


def serve(session: Any, data: bytes, rng: random.Random) -> None:
    """Feed a server and answer its calls, somehow. Whatever it raises fails the test."""
    open_calls: set[int] = set()
    begun: set[int] = set()  # messages may still come of calls that we have ended
    for piece in pieces(data, rng):
        for event in session.receive(piece):
            if isinstance(event, CallBegun):
                assert event.stream not in begun
                open_calls.add(event.stream)
                begun.add(event.stream)
            elif isinstance(event, SessionClosed):
                assert event.reason
                open_calls.clear()
            else:
                assert event.stream in begun
                if isinstance(event, CallReset):
                    open_calls.discard(event.stream)
        assert len(open_calls) <= LIMITS.streams
        for stream in tuple(open_calls):
            if rng.random() < 0.3:
                session.send(stream, rng.randbytes(rng.randrange(3000)))
            if rng.random() < 0.3:
                session.finish(stream, rng.randrange(3), "text")
                open_calls.discard(stream)
        session.take_output()
        assert 0 <= session.pending_bytes <= LIMITS.pending_bytes
        assert session.unsent_bytes >= 0


def native(limits: Http2Limits) -> Any:
    module = choice.native_http2()
    if module is None:
        pytest.skip("HTTP/2 is not built natively here: make native (it needs libnghttp2-dev)")
    return module.Http2Session(limits)


servers = pytest.mark.parametrize("make", [ServerSession, native], ids=["twin", "native"])


@servers
@pytest.mark.parametrize("share", range(4))
def test_servers_survive_a_share_of_mutated_frames(make: Any, share: int) -> None:
    run_servers(make, SEED * 1000 + share, 60)


@servers
@pytest.mark.slow
def test_servers_survive_a_million_mutated_frames(make: Any) -> None:
    run_servers(make, SEED, 1_000_000 // FRAMES_A_STORY)


def run_servers(make: Any, seed: int, stories: int) -> None:
    rng = random.Random(seed)
    for number in range(stories):
        data = mutated(story(rng), rng, keep=rng.choice((0, 24, 24, 24)))
        try:
            serve(make(LIMITS), data, rng)
        except Exception as fault:
            raise AssertionError(f"seed {seed}, story {number}: {data.hex()}") from fault


def answers(rng: random.Random) -> bytes:
    """What a server says that keeps the rules, to calls 1, 3 and 5."""
    peer, session = Peer(), ServerSession()
    for stream in (1, 3, 5):
        peer.call(stream, b"request")
    session.receive(peer.said())
    for stream in (1, 3, 5):
        session.send(stream, rng.randbytes(rng.randrange(300)))
        session.finish(stream, rng.randrange(2), "text")
    if rng.random() < 0.3:
        session.goaway()
    return session.take_output()


def run_clients(seed: int, stories: int) -> None:
    rng = random.Random(seed)
    for number in range(stories):
        data = mutated(answers(rng), rng, keep=0)
        session = ClientSession()
        open_calls = {session.request("/a.B/C", "localhost:1", ()) for _ in range(3)}
        try:
            for piece in pieces(data, rng):
                for event in session.receive(piece):
                    if isinstance(event, MessageArrived):
                        assert event.stream in open_calls
                    elif isinstance(event, AnswerEnded | CallReset):
                        open_calls.remove(event.stream)
                session.take_output()
                assert session.pending_bytes >= 0
        except Exception as fault:
            raise AssertionError(f"seed {seed}, story {number}: {data.hex()}") from fault


@pytest.mark.parametrize("share", range(2))
def test_clients_survive_a_share_of_mutated_frames(share: int) -> None:
    run_clients(SEED * 1000 + share, 100)


@pytest.mark.slow
def test_clients_survive_a_million_mutated_frames() -> None:
    run_clients(SEED, 1_000_000 // FRAMES_A_STORY)
