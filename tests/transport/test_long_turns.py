"""Long turns wait for short ones: what is kept until the next pass of the loop, and that nothing of it is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from pyromq.kernel.seam import Fed, FeedConnection
from pyromq.protocol.command import RESPONSE_FLAG, Command
from pyromq.protocol.frame import decode_frames, encode_frame
from pyromq.testing.clock import ManualClock
from pyromq.transport.dispatch import Dispatcher
from pyromq.transport.server import Server
from pyromq.transport.turns.long_turns import ALONE_S, LONG_BYTES, PASS_S, LongTurns
from tests.transport.support import MakeServer, command, frames, raw_peer

LONG = LONG_BYTES


class SlowClock(ManualClock):
    """Also moves while the loop is busy."""

    busy_s = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.busy_s


@pytest.fixture
def clock() -> SlowClock:
    return SlowClock()


class Kernel:
    """Answers everything; what is long takes all the time that a pass has."""

    def __init__(self, clock: SlowClock) -> None:
        self.clock, self.fed = clock, list[tuple[str, int]]()

    def feed(self, connection: FeedConnection, received: memoryview) -> Fed | bytes:
        asked, used, _ = decode_frames(received)
        self.fed.extend((connection.address, each.opaque) for each in asked)
        if len(received) >= LONG:
            self.clock.busy_s += PASS_S
        ready = b"".join(encode_frame(Command(code=0, opaque=each.opaque, flag=RESPONSE_FLAG)) for each in asked)
        return ready if used == len(received) else Fed(used, ready)


class Peers:
    """Four connections that have spoken: the first one has little to say."""

    def __init__(self, server: Server, kernel: Kernel) -> None:
        self.kernel = kernel
        self.all = [raw_peer(server, f"peer:{number}") for number in range(4)]

    async def greet(self) -> None:
        for peer in self.all:
            peer.write(frames(command(opaque=0)))
            await peer.answers(1)
        self.kernel.fed.clear()

    def say(self, number: int, opaque: int, size: int = 0) -> None:
        self.all[number].write(frames(command(opaque=opaque, body=b"x" * size)))

    async def answered(self, *counts: int) -> None:
        for peer, count in zip(self.all, counts, strict=True):
            await peer.answers(1 + count)


@pytest.fixture
async def peers(make_server: MakeServer, clock: SlowClock) -> Peers:
    kernel = Kernel(clock)
    made = Peers(make_server(Dispatcher({}), feed=kernel.feed), kernel)
    await made.greet()
    return made


async def test_a_pass_has_one_long_turn_while_there_are_short_ones(peers: Peers) -> None:
    for number in (1, 2, 3):
        peers.say(number, 7, LONG)
    peers.say(0, 7)
    await peers.answered(1, 1, 1, 1)
    assert [address for address, _ in peers.kernel.fed] == ["peer:1", "peer:0", "peer:2", "peer:3"]


async def test_nobody_waits_where_all_turns_are_long(peers: Peers, clock: SlowClock) -> None:
    clock.busy_s += 2 * ALONE_S
    for number in (1, 2, 3):
        peers.say(number, 7, LONG)
    await peers.answered(0, 1, 1, 1)
    assert clock.busy_s == pytest.approx(2 * ALONE_S + 3 * PASS_S)
    assert [address for address, _ in peers.kernel.fed] == ["peer:1", "peer:2", "peer:3"]


async def test_each_connection_keeps_its_order(peers: Peers) -> None:
    for opaque in range(1, 6):
        for number in (1, 2, 3):
            peers.say(number, opaque, LONG)
        peers.say(0, opaque)
    await peers.answered(5, 5, 5, 5)
    for number in range(4):
        assert [opaque for address, opaque in peers.kernel.fed if address == f"peer:{number}"] == [1, 2, 3, 4, 5]


async def test_what_a_peer_sent_before_it_left_is_served(peers: Peers) -> None:
    for number in (1, 2, 3):
        peers.say(number, 7, LONG)
        stream = peers.all[number].stream
        assert stream is not None
        stream.close()
    await peers.all[0].until(lambda: len(peers.kernel.fed) == 3)
    assert [address for address, _ in peers.kernel.fed] == ["peer:1", "peer:2", "peer:3"]


async def test_what_is_kept_counts_and_goes_with_its_connection(
    make_server: MakeServer, clock: SlowClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = Kernel(clock)
    server = make_server(Dispatcher({}), feed=kernel.feed)
    peers = Peers(server, kernel)
    await peers.greet()
    later: list[Callable[[], None]] = []
    monkeypatch.setattr(LongTurns, "_count_passes", lambda turns: later.append(turns._next_pass))
    peers.say(1, 7, LONG)
    peers.say(2, 7, LONG)
    await peers.answered(0, 1, 0, 0)
    await clock.settle()
    assert server.service.buffered_bytes > LONG
    for connection in list(server.peers()):
        connection.abort("the test wants it")  # type: ignore[attr-defined]
    assert server.service.buffered_bytes == 0
    later[-1]()
    assert kernel.fed == [("peer:1", 7)]


class Turn:
    def __init__(self, turns: LongTurns, clock: SlowClock, name: str, served: list[str]) -> None:
        self.turns, self.clock, self.name, self.served = turns, clock, name, served

    def take_postponed(self) -> None:
        self.served.append(self.name)
        begun = self.clock.monotonic()
        self.clock.busy_s += PASS_S / 2
        self.turns.ended(begun)


async def test_a_pass_takes_as_many_as_it_has_time_for(clock: SlowClock) -> None:
    turns, served = LongTurns(clock), list[str]()
    turns.short_at = clock.monotonic()
    assert not turns.must_wait(clock.monotonic())
    for name in "abcde":
        turns.wait(Turn(turns, clock, name, served))
    assert turns.must_wait(clock.monotonic())
    passes = []
    for _ in range(3):
        await asyncio.sleep(0)
        passes.append("".join(served))
        turns.short_at = clock.monotonic()
    assert passes == ["ab", "abcd", "abcde"]
    await asyncio.sleep(0)
    assert not turns.must_wait(clock.monotonic())
