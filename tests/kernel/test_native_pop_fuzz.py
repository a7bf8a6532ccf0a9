"""Mutated pops, acks, batches and changes at both kernels: the same answers, cut connections, table and offsets. In
`make sanitize` too.

Frames of ours with receipts that are good there, changed as tests/protocol/fuzz.py changes them, one connection each.
"""

from __future__ import annotations

import random
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

from pyromq.testing.clock import ManualClock
from tests.broker.virtual import Virtual, virtual_broker
from tests.kernel.pop_frames import NOW, PLACE, Popped, ack, batch, change, filled, pop, popped
from tests.kernel.pop_steps import State, state_of
from tests.kernel.test_native_fuzz import mutated
from tests.kernel.test_native_send import send
from tests.kernel.twins import PEER, choose, native_module, ready
from tests.protocol.fuzz import _mutate
from tests.protocol.recorded import recorded_frames
from tests.transport.support import BytesPeer, raw_peer

CASES = 300


class Seen(NamedTuple):
    """Of each frame what came back and whether the connection was cut; at the end what the broker knows."""

    answers: list[tuple[bytes, bool]]
    table: State
    offsets: object
    by_kernel: int


def corpus(rng: random.Random, found: list[Popped]) -> bytes:
    """A request that makes sense now."""
    one = rng.choice(found)
    return rng.choice(
        (
            lambda: pop(
                7,
                rng.randrange(-1, 4),
                rng.randrange(1, 33),
                exp=rng.choice(("*", "t0", "t0 || t1")),
                pollTime=rng.choice((0, 0, 3_000)),
            ),
            lambda: ack(one),
            lambda: change(one, invisible=rng.choice((0, 1000, 60_000)), suspend=rng.choice((None, "true", "false"))),
            lambda: batch([each for each in found if rng.random() < 0.3] or [one]),
        )
    )()


async def opened(life: Virtual, clock: ManualClock) -> list[Popped]:
    """Messages in four queues, lanes that are open, and what was popped of them."""
    await ready(life)
    peer = raw_peer(life.broker.servers[0], PEER)
    for step in (filled(400), pop(1, count=4), pop(2, count=32), *(pop(3 + queue, queue, 16) for queue in range(4))):
        peer.write(step)
        await clock.settle(30)
    return [one for answer in peer.received for one in popped(answer)]


async def answers(folder: Path, seed: int, module: ModuleType | None, *, out_of_step: bool = False) -> Seen:
    rng = random.Random(seed)
    with pytest.MonkeyPatch.context() as patch:
        choose(patch, module)
        clock = ManualClock(NOW)
        async with virtual_broker(folder, clock=clock) as life:
            found = await opened(life, clock)
            seen = []
            for number in range(CASES):
                if out_of_step:
                    parts = [corpus(rng, found) if rng.random() < 0.8 else send(number) for _ in range(3)]
                    frame = bytes(_mutate(rng, b"".join(parts), recorded_frames()))
                else:
                    plain = corpus(rng, found)
                    frame = mutated(rng, plain) if rng.random() < 0.8 else plain
                peer = raw_peer(life.broker.servers[0], PEER, BytesPeer)
                peer.write(frame)
                await clock.settle(20)
                # Of one buffer Python may put two journal records where the kernel puts one.
                seen.append((PLACE.sub(rb"\1", bytes(peer.raw)), peer.is_lost))
                if peer.stream is not None:
                    peer.stream.close()
                await clock.settle(3)
                if number % 20 == 19:
                    await clock.advance(0.01)
            kernels = [one.kernel for one in life.broker.listeners.pop_verdicts]
            done = sum(one.messages + one.acks + one.changes for one in kernels)
            return Seen(seen, state_of(life.broker.pop_parts.table), dict(life.broker.offsets.all()), done)


@pytest.mark.parametrize("seed", range(4))
async def test_mutated_pops_and_acks(tmp_path: Path, seed: int) -> None:
    ours = await answers(tmp_path / "native", seed, native_module())
    theirs = await answers(tmp_path / "python", seed, None)
    different = [number for number in range(CASES) if ours.answers[number] != theirs.answers[number]]
    assert not different, (seed, different[0], ours.answers[different[0]], theirs.answers[different[0]])
    assert (ours.table, ours.offsets) == (theirs.table, theirs.offsets)
    assert ours.by_kernel > CASES // 4


async def test_bytes_that_are_out_of_step(tmp_path: Path) -> None:
    """Lengths and all are wrong somewhere, pops, acks and sends in one buffer: whatever it is, the broker goes on."""
    seen = await answers(tmp_path, 9, native_module(), out_of_step=True)
    assert seen.by_kernel > CASES // 4
