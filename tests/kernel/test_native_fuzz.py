"""Mutated sends at both kernels: the same answers, the same cut connections, the same files. Also in `make sanitize`.

Frames recorded from Java clients and some of ours, changed as tests/protocol/fuzz.py changes them, one connection each.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import pytest

from pyromq.protocol.batch import BatchEntry
from pyromq.protocol.command import Encoding
from pyromq.testing.clock import ManualClock
from tests.broker.virtual import virtual_broker
from tests.kernel.test_detours import delayed, half
from tests.kernel.test_half_ends import end, places
from tests.kernel.test_native_send import batch, send
from tests.kernel.twins import PEER, choose, contents, native_module, ready
from tests.protocol.fuzz import _mutate
from tests.protocol.recorded import recorded_frames
from tests.transport.support import BytesPeer, raw_peer

CASES = 400
SENDS = (10, 310, 320)


def corpus() -> list[bytes]:
    recorded = [one.wire for one in recorded_frames() if one.is_request and one.code in SENDS and not one.truncated]
    ours = [send(1, code, encoding=encoding) for code in (10, 310) for encoding in Encoding]
    return (
        recorded[:40] + ours * 5 + [batch(1, BatchEntry(b"a", 1, b"TAGS\x01t\x02"), encoding=each) for each in Encoding]
    )


def mutated(rng: random.Random, wire: bytes) -> bytes:
    """Inside the header or the body, with length words that fit."""
    header_length = struct.unpack_from(">I", wire, 4)[0] & 0xFFFFFF
    header, body = wire[8 : 8 + header_length], wire[8 + header_length :]
    if rng.random() < 0.7:
        header = bytes(_mutate(rng, header, recorded_frames()))
    else:
        body = bytes(_mutate(rng, body, recorded_frames()))
    return struct.pack(">iI", 4 + len(header) + len(body), wire[4] << 24 | len(header)) + header + body


async def answers(folder: Path, frames: Sequence[bytes], module: ModuleType | None) -> tuple[list[object], object, int]:
    with pytest.MonkeyPatch.context() as patch:
        choose(patch, module)
        clock = ManualClock(1_700_000_000_000)
        async with virtual_broker(folder, clock=clock, commit_log_file_bytes=64 << 20) as life:
            await ready(life)
            seen: list[object] = []
            for frame in frames:
                peer = raw_peer(life.broker.servers[0], PEER, BytesPeer)
                peer.write(frame)
                await clock.settle(12)
                seen.append((bytes(peer.raw), peer.is_lost))
                if peer.stream is not None:
                    peer.stream.close()
                await clock.settle(3)
            await life.broker.store.flush_all()
            return seen, contents(life.disk), sum(one.kernel.messages for one in life.broker.verdicts)


@pytest.mark.parametrize("seed", range(3))
async def test_mutated_sends(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    plain = corpus()
    frames = [mutated(rng, rng.choice(plain)) if rng.random() < 0.9 else rng.choice(plain) for _ in range(CASES)]
    ours, our_files, by_kernel = await answers(tmp_path, frames, native_module())
    theirs, their_files, _ = await answers(tmp_path, frames, None)
    different = [number for number in range(CASES) if ours[number] != theirs[number]]
    assert not different, (frames[different[0]], ours[different[0]], theirs[different[0]])
    assert our_files == their_files
    assert by_kernel > CASES // 20


@pytest.mark.parametrize("seed", range(2))
async def test_mutated_messages_that_wait_and_commits(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    halves = [half(number, body=b"x" * number) for number in range(1, 60)]
    first = [*(delayed(100 + level, level) for level in (1, 2)), *halves]
    known = await places(tmp_path, first)
    ends = [end(number, *known[number], encoding=[*Encoding][number % 2]) for number in range(1, 60)]
    plain = [*ends, *(make(9, encoding=encoding) for make in (delayed, half) for encoding in Encoding)]
    frames = first + [mutated(rng, rng.choice(plain)) if rng.random() < 0.8 else rng.choice(plain) for _ in range(300)]
    ours, our_files, by_kernel = await answers(tmp_path, frames, native_module())
    theirs, their_files, _ = await answers(tmp_path, frames, None)
    different = [number for number in range(len(frames)) if ours[number] != theirs[number]]
    assert not different, (frames[different[0]], ours[different[0]], theirs[different[0]])
    assert our_files == their_files
    assert by_kernel > len(halves) + 30


async def test_bytes_that_are_out_of_step(tmp_path: Path) -> None:
    """Lengths and all are wrong somewhere, several frames in one buffer: whatever it is, the broker goes on."""
    rng = random.Random(9)
    plain = corpus()
    frames = []
    for _ in range(CASES):
        wire = b"".join(rng.choice(plain) for _ in range(rng.randrange(1, 5)))
        frames.append(bytes(_mutate(rng, wire, recorded_frames())))
    seen, _, by_kernel = await answers(tmp_path, [*frames, send(7)], native_module())
    assert by_kernel > CASES // 4
    assert seen[-1] != (b"", False)
