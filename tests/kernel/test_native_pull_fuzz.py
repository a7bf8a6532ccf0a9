"""Mutated pulls at both kernels: the same answers, the same cut connections, the same offsets. Also in `make sanitize`.

Frames recorded from Java clients and some of ours, changed as tests/protocol/fuzz.py changes them, one connection each.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import pytest

from pyromq.protocol.command import Encoding
from pyromq.testing.clock import ManualClock
from tests.broker.virtual import virtual_broker
from tests.kernel.pull_frames import filled, pull
from tests.kernel.test_native_fuzz import mutated
from tests.kernel.test_native_send import send
from tests.kernel.twins import PEER, choose, native_module, ready
from tests.protocol.fuzz import _mutate
from tests.protocol.recorded import recorded_frames
from tests.transport.support import BytesPeer, raw_peer

CASES = 300


def corpus() -> list[bytes]:
    recorded = [one.wire for one in recorded_frames() if one.is_request and one.code in (11, 361) and not one.truncated]
    ours = [
        pull(1, offset, code=code, encoding=encoding, subscription=wanted, flags=flags, commitOffset=2)
        for code in (11, 361)
        for encoding in Encoding
        for offset in (0, 7)
        for wanted in ("*", "t0 || t1")
        for flags in (4, 7)
    ]
    return recorded[:30] + ours * 2


async def answers(folder: Path, frames: Sequence[bytes], module: ModuleType | None) -> tuple[list[object], object, int]:
    with pytest.MonkeyPatch.context() as patch:
        choose(patch, module)
        clock = ManualClock(1_700_000_000_000)
        async with virtual_broker(folder, clock=clock) as life:
            await ready(life)
            raw_peer(life.broker.servers[0], PEER, BytesPeer).write(filled(60))
            await clock.settle(12)
            seen: list[object] = []
            for frame in frames:
                peer = raw_peer(life.broker.servers[0], PEER, BytesPeer)
                peer.write(frame)
                await clock.settle(12)
                seen.append((bytes(peer.raw), peer.is_lost, len(life.broker.pulls.suspended)))
                if peer.stream is not None:
                    peer.stream.close()
                await clock.settle(3)
            handed_out = sum(one.kernel.messages for one in life.broker.pull_verdicts)
            return seen, dict(life.broker.offsets.all()), handed_out


@pytest.mark.parametrize("seed", range(3))
async def test_mutated_pulls(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    plain = corpus()
    frames = [mutated(rng, rng.choice(plain)) if rng.random() < 0.9 else rng.choice(plain) for _ in range(CASES)]
    ours, our_offsets, by_kernel = await answers(tmp_path, frames, native_module())
    theirs, their_offsets, _ = await answers(tmp_path, frames, None)
    different = [number for number in range(CASES) if ours[number] != theirs[number]]
    assert not different, (frames[different[0]], ours[different[0]], theirs[different[0]])
    assert our_offsets == their_offsets
    assert by_kernel > CASES // 4


async def test_bytes_that_are_out_of_step(tmp_path: Path) -> None:
    """Lengths and all are wrong somewhere, pulls and sends in one buffer: whatever it is, the broker goes on."""
    rng = random.Random(9)
    plain = [*corpus(), *(send(number) for number in range(20))]
    frames = []
    for _ in range(CASES):
        wire = b"".join(rng.choice(plain) for _ in range(rng.randrange(1, 6)))
        frames.append(bytes(_mutate(rng, wire, recorded_frames())))
    seen, _, by_kernel = await answers(tmp_path, [*frames, pull(7)], native_module())
    assert by_kernel > CASES
    assert seen[-1] != (b"", False, 0)
