"""Brokers with quotas that get the same bytes, one behind a kernel, one without: what they answer, store and count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from pyromq.access.signatures import Signer
from pyromq.broker.quotas import held
from pyromq.broker.quotas.limits import owner_of, parse
from pyromq.protocol.command import Command
from pyromq.protocol.frame import decode_frames
from pyromq.testing.clock import ManualClock
from tests.broker.virtual import Virtual, virtual_broker
from tests.kernel.guard_frames import BOSS, SECRET, make_users
from tests.kernel.twins import PEER, choose, contents, ready, split
from tests.transport.support import BytesPeer, raw_peer

Step = bytes | float | Callable[[Virtual], object]


class Counted(NamedTuple):
    """What can be told of one broker."""

    answers: list[bytes]
    files: dict[str, bytes]
    is_lost: bool
    used: dict[str, float]  # tokens taken, by owner and limit
    sent_by_kernel: int
    read_by_kernel: int
    refused_by_kernel: int
    came: list[int]  # opaques of the answers, in the order of their arrival

    @property
    def commands(self) -> list[Command]:
        return decode_frames(b"".join(self.answers))[0]

    @property
    def codes(self) -> list[int]:
        """The answers' codes in the order of their opaque."""
        return [one.code for one in sorted(self.commands, key=lambda one: one.opaque)]


def quota(text: str) -> Callable[[Virtual], object]:
    """Set a quota."""
    return lambda life: life.broker.base.quotas.put(parse(text))


def no_quota(text: str) -> Callable[[Virtual], object]:
    return lambda life: life.broker.base.quotas.delete(owner_of(*text.split(":")))


async def counted(folder: Path, steps: Sequence[Step], module: ModuleType | None, **settings: Any) -> Counted:
    """Steps one after the other: bytes are written, seconds pass, and calls change something in the broker."""
    held_s = settings.pop("held_s", 0.0)
    with pytest.MonkeyPatch.context() as patch:
        choose(patch, module)
        patch.setattr(held, "HELD_S", held_s)
        clock = ManualClock(1_700_000_000_000)
        async with virtual_broker(folder, clock=clock, **settings) as life:
            if life.broker.base.access.gate is not None:
                life.sign = Signer(BOSS, SECRET).sign
            await ready(life)
            if life.broker.base.access.gate is not None:
                make_users(life.broker.base.access.table.directory)
            peer = raw_peer(life.broker.servers[0], PEER, BytesPeer)
            for step in steps:
                if isinstance(step, bytes):
                    if not peer.is_lost:
                        peer.write(step)
                elif isinstance(step, float):
                    await clock.advance(step)
                else:
                    step(life)
                await clock.settle(30)
                await life.broker.store.flush_log()
                await clock.settle(30)
            await life.broker.store.flush_all()
            broker, quotas = life.broker, life.broker.base.quotas
            used = {
                f"{use.owner} {limit.value}": bucket.used(clock.monotonic())
                for use in quotas._uses.values()
                for limit, bucket in use.buckets.items()
            }
            return Counted(
                sorted(split(peer.raw)),
                contents(life.disk),
                peer.is_lost,
                used,
                sum(one.kernel.messages for one in broker.verdicts),
                sum(one.kernel.messages for one in broker.pull_verdicts),
                broker.quota_verdicts.kernel.refused,
                [one.opaque for one in decode_frames(bytes(peer.raw))[0]],
            )


async def same(folder: Path, steps: Sequence[Step], module: ModuleType, **settings: Any) -> Counted:
    """Both answer, store and count the same; what the one with a kernel did."""
    ours = await counted(folder / "kernel", steps, module, **settings)
    theirs = await counted(folder / "handlers", steps, None, **settings)
    assert ours[:4] == theirs[:4]
    assert theirs[4:7] == (0, 0, 0)
    return ours
