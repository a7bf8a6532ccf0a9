"""Sessions of HTTP/2 that nobody uses: their memory is packed, and is as it was once somebody does.

`test_http2_session.py` lets a session rest between any two calls; here is when it rests, and that it is worth it.
"""

from __future__ import annotations

import gc
import random
import resource
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pyromq.kernel import choice
from pyromq.kernel.http2 import HalfClosed, Http2Limits, MessageArrived, Rest
from tests.kernel.http2_peer import Peer, framed
from tests.support import require

PAGE = resource.getpagesize()
LOOKS = 1000  # each packs 64 sessions: far more than other tests can have left


@pytest.fixture
def http2() -> ModuleType:
    gc.collect()  # sessions of other tests
    module = choice.native_http2()
    require(module is not None, "HTTP/2 is not built natively here: make native (it needs libnghttp2-dev)")
    assert module is not None
    for _ in range(LOOKS):
        if module.rest_unused() is Rest.ALL:
            return module
    awake = [other for other in gc.get_objects() if isinstance(other, module.Http2Session) and not other.is_resting]
    holders = [{type(holder) for holder in gc.get_referrers(other) if holder is not awake} for other in awake]
    pytest.fail(f"sessions of other tests do not rest; they are held by {holders}")


def exchange(peer: Peer, session: Any) -> list[Any]:
    told: list[Any] = []
    while said := peer.said():
        told += session.receive(said)
        peer.hear(session.take_output())
    return told


def connected(http2: ModuleType) -> tuple[Peer, Any]:
    peer, session = Peer(), http2.Http2Session(Http2Limits())
    exchange(peer, session)
    return peer, session


def test_a_session_rests_when_it_was_not_used_between_two_looks(http2: ModuleType) -> None:
    peer, session = connected(http2)
    assert http2.rest_unused() is Rest.LATER
    assert not session.is_resting
    peer.h2.ping(b"12345678")
    exchange(peer, session)
    assert http2.rest_unused() is Rest.LATER
    assert not session.is_resting
    assert http2.rest_unused() is Rest.ALL
    assert session.is_resting


def test_a_session_whose_connection_is_gone_is_not_waited_for(http2: ModuleType) -> None:
    peer, session = connected(http2)
    peer.h2.ping(b"12345678")
    session.receive(peer.said())  # its answer is never taken
    session.lose()
    assert http2.rest_unused() is Rest.ALL
    assert not session.is_resting


def test_a_session_wakes_for_bytes_and_for_answers_and_has_forgotten_nothing(http2: ModuleType) -> None:
    peer, session = connected(http2)
    peer.call(1, b"settings", end=False, x_mq_request_id="1")
    exchange(peer, session)
    rest(http2, session)
    session.send(1, b"told")
    assert not session.is_resting
    peer.hear(session.take_output())
    assert peer.answers[1][1:] == [framed(b"told")]
    for stream in range(3, 203, 2):
        rest(http2, session)
        peer.call(stream, b"beat", x_mq_request_id=str(stream))  # headers of this one are in HPACK's table
        assert exchange(peer, session)[1:] == [MessageArrived(stream, b"beat"), HalfClosed(stream)]
        session.send(stream, b"ok")
        session.finish(stream, 0)
        peer.hear(session.take_output())
        assert peer.answers[stream][1:] == [framed(b"ok"), {"grpc-status": "0"}, "ended"]


def test_asking_a_session_that_rests_what_it_has_to_say_does_not_wake_it(http2: ModuleType) -> None:
    peer, session = connected(http2)
    peer.call(1, b"settings", end=False)
    exchange(peer, session)
    rest(http2, session)
    assert session.take_output() == b""
    assert session.unsent(1) == session.unsent_bytes == session.pending_bytes == 0
    assert session.open_calls == 1
    assert session.is_resting


def test_one_that_has_something_to_write_does_not_rest(http2: ModuleType) -> None:
    peer, session = connected(http2)
    peer.call(1, b"hello")
    exchange(peer, session)
    session.finish(1, 0)
    http2.rest_unused()
    assert http2.rest_unused() is Rest.LATER
    assert not session.is_resting
    peer.hear(session.take_output())
    assert peer.answers[1][-1] == "ended"


def test_many_are_laid_down_a_few_at_a_time_and_all_in_the_end(http2: ModuleType) -> None:
    pairs = [connected(http2) for _ in range(150)]
    http2.rest_unused()
    assert http2.rest_unused() is Rest.MORE
    resting = sum(session.is_resting for _, session in pairs)
    assert 0 < resting < 150
    while http2.rest_unused() is not Rest.ALL:
        pass
    assert all(session.is_resting for _, session in pairs)


def test_a_thousand_that_rest_give_back_more_than_a_page_each(http2: ModuleType) -> None:
    pairs = [connected(http2) for _ in range(64)]  # so that there are places that were used before
    pairs.clear()
    made = [http2.Http2Session(Http2Limits()) for _ in range(1000)]
    opening = Peer().said()
    for session in made:
        session.receive(opening)
        session.take_output()
    awake = anonymous_bytes()
    while http2.rest_unused() is not Rest.ALL:
        pass
    given_back = awake - anonymous_bytes()
    assert max(session.resting_bytes for session in made) < 2048
    assert given_back > 1000 * PAGE


def test_one_that_ends_while_it_rests_leaves_its_place_to_another(http2: ModuleType) -> None:
    rng = random.Random(5)
    pairs = [connected(http2) for _ in range(200)]
    for turn in range(400):
        http2.rest_unused()
        at = rng.randrange(len(pairs))
        pairs[at] = connected(http2)
        peer, session = rng.choice(pairs)
        stream = peer.h2.get_next_available_stream_id()
        peer.call(stream, b"x" * turn)
        assert exchange(peer, session)[1:] == [MessageArrived(stream, b"x" * turn), HalfClosed(stream)]
        session.finish(stream, 5, "no")
        peer.hear(session.take_output())
        assert peer.answers[stream][-1] == "ended"


def test_more_calls_than_a_place_has_room_for_are_served_and_the_session_rests_all_the_same(http2: ModuleType) -> None:
    peer, session = connected(http2)
    streams = range(1, 801, 2)
    for stream in streams:
        peer.call(stream, b"%d" % stream, end=False, x_mq_request_id=str(stream), authorization="k" * 200)
    exchange(peer, session)
    rest(http2, session)
    for stream in streams:
        session.send(stream, b"a%d" % stream)
    rest_is_refused = http2.rest_unused() is Rest.LATER
    peer.hear(session.take_output())
    assert rest_is_refused
    assert [peer.answers[stream][1] for stream in streams] == [framed(b"a%d" % stream) for stream in streams]


def rest(http2: ModuleType, session: Any) -> None:
    while not session.is_resting:
        http2.rest_unused()


def anonymous_bytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon"))


def test_request_ids_and_dates_of_heartbeats_fill_little(http2: ModuleType) -> None:
    """HPACK's table has 4 KB of them in the end; dozens of headers are the same but for their text."""
    chance = random.Random(5)
    peer, session = connected(http2)
    for stream in range(1, 121, 2):
        request_id = f"{chance.getrandbits(64):016x}-{chance.getrandbits(72):018x}"
        peer.call(stream, b"beat", x_mq_request_id=request_id, x_mq_date_time=f"20261118T12{stream:04}Z")
        exchange(peer, session)
        session.finish(stream, 0)
        peer.hear(session.take_output())
        rest(http2, session)
    assert session.resting_bytes < 4096
