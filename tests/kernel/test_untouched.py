"""What is not the kernel's goes to Python untouched and in its order, whatever comes. Also in `make sanitize`.

Frames of every request and answer that were recorded, the fuzzer's mutations of them, all that it ever found, and among
them plain sends and pulls; several in a buffer, in pieces cut anywhere.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from pyromq.kernel.seam import Fed, Feed, FeedConnection, as_fed
from pyromq.protocol.command import Encoding
from pyromq.protocol.frame import FrameLimits, decode_frames
from tests.kernel.pull_frames import filled, pull
from tests.kernel.test_native_fuzz import mutated
from tests.kernel.test_native_send import send
from tests.kernel.test_verdicts import Life, native_life
from tests.protocol import fuzz
from tests.protocol.recorded import recorded_frames
from tests.transport.support import BytesPeer, raw_peer

BUFFERS = 600
TAKEN = (10, 310, 320, 11, 361)
LIMITS = FrameLimits()


class Watch:
    """Stands before a feed and looks at what it does with each buffer."""

    def __init__(self, life: Life) -> None:
        self._feed: Feed = life.broker.pull_verdicts[0].kernel.feed
        self.taken = self.left = 0
        self.faults: list[str] = []  # a feed that raises would only end its connection

    def __call__(self, connection: FeedConnection, received: memoryview) -> Fed | bytes:
        data = bytes(received)
        try:
            fed = self._feed(connection, received)
            self._look(data, as_fed(fed, received))
        except Exception as fault:
            self.faults.append(f"{fault!r}: {data.hex()}")
            raise
        return fed

    def _look(self, data: bytes, fed: Fed) -> None:
        whole = []
        at = 0
        while at < fed.used:
            end = at + 4 + int.from_bytes(data[at : at + 4], "big")
            whole.append(data[at:end])
            at = end
        assert at == fed.used <= len(data), "it takes a frame whole or not at all"
        left = [bytes(frame) for frame in fed.frames]
        for frame in whole:
            if left and frame == left[0]:
                self.left += 1
                del left[0]
                continue
            self.taken += 1
            (command,), used, _ = decode_frames(frame, LIMITS)
            assert (used, command.code in TAKEN) == (len(frame), True), "it is no other's"
        assert not left, "these are not the frames that came, in their order"


def frames(rng: random.Random, count: int) -> list[bytes]:
    recorded = [one.wire for one in recorded_frames() if not one.truncated]
    found = [wire for _, _, wire in fuzz.kept()]
    made = []
    for number in range(count):
        encoding = rng.choice(list(Encoding))
        ours = (
            send(number, rng.choice((10, 310)), queue=rng.randrange(5), encoding=encoding, flag=rng.choice((0, 2))),
            pull(number, rng.randrange(12), queue=rng.randrange(4), encoding=encoding),
        )
        others = (rng.choice(recorded), mutated(rng, rng.choice(recorded)), rng.choice(found))
        made.append(rng.choice((*ours, *ours, *others)))
    return made


async def test_whatever_comes(tmp_path: Path) -> None:
    rng = random.Random(5)
    async with native_life(tmp_path, commit_log_file_bytes=64 << 20) as one:
        await one.write(filled(30))
        watch = Watch(one)
        one.broker.servers[0].service.feed = watch
        handed_on: Any = lambda request: None  # noqa: E731 - what Python would do about it is not asked here
        one.broker.servers[0].service._dispatch = handed_on
        for _ in range(BUFFERS):
            peer = raw_peer(one.broker.servers[0], kind=BytesPeer)
            wire = b"".join(frames(rng, rng.randrange(1, 7)))
            cut = rng.choice((len(wire), rng.randrange(len(wire))))
            for piece in (wire[:cut], wire[cut:]):
                if piece and not peer.is_lost:
                    peer.write(piece)
                    await one.life.clock.settle(6)
            if peer.stream is not None:
                peer.stream.close()
            await one.life.clock.settle(3)
        assert watch.faults[:1] == []
        assert min(watch.taken, watch.left) > BUFFERS // 4


async def test_every_find_of_the_fuzzer_alone(tmp_path: Path) -> None:
    async with native_life(tmp_path) as one:
        watch = Watch(one)
        one.broker.servers[0].service.feed = watch
        for _, _, wire in fuzz.kept():
            raw_peer(one.broker.servers[0], kind=BytesPeer).write(wire)
            await one.life.clock.settle()
        assert (watch.faults, watch.taken) == ([], 0)
        await one.write(send(1))
        assert one.codes == {1: 0}
