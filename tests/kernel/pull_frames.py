"""Pulls as clients write them, and two brokers that get the same ones: what they answer and what they note."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from pyromq.protocol.command import Command, Encoding
from pyromq.protocol.frame import encode_frame
from pyromq.testing.clock import ManualClock
from tests.broker.virtual import Virtual, virtual_broker
from tests.kernel.test_native_send import send
from tests.kernel.twins import PEER, choose, ready, split
from tests.transport.support import BytesPeer, RawPeer, raw_peer

GROUP = "G"
HOLD, BY_ITSELF = 2, 4  # sysFlag: may be held; brings its own subscription


def pull(
    number: int = 1,
    offset: object = 0,
    topic: object = "A",
    queue: object = 0,
    *,
    code: int = 11,
    flags: int = BY_ITSELF,
    encoding: Encoding = Encoding.JSON,
    flag: int = 0,
    body: bytes = b"",
    **extra: Any,
) -> bytes:
    """A frame as a client writes it; a field that is None is left out."""
    fields: dict[str, Any] = {
        "consumerGroup": GROUP,
        "topic": topic,
        "queueId": queue,
        "queueOffset": offset,
        "maxMsgNums": 32,
        "sysFlag": flags,
        "commitOffset": 0,
        "suspendTimeoutMillis": 15_000,
        "subscription": "*",
        "subVersion": 0,
        "expressionType": "TAG",
    } | extra
    texts = {name: str(value) for name, value in fields.items() if value is not None}
    return encode_frame(
        Command(code=code, opaque=number, flag=flag, version=401, fields=texts, body=body, encoding=encoding)
    )


def filled(count: int = 40) -> bytes:
    """Messages for the three queues of topic A, with two tags."""
    return b"".join(
        send(
            1000 + number,
            queue=number % 3,
            body=b"x" * (number * 37 % 90 + 1),
            properties=f"UNIQ_KEY\x01U{number}\x02TAGS\x01t{number // 3 % 2}\x02",
        )
        for number in range(count)
    )


class Told(NamedTuple):
    """What can be seen of pulls from outside."""

    answers: list[bytes]
    is_lost: bool
    offsets: object
    counted: object
    held: int
    by_kernel: int  # messages that the kernel handed out
    held_by_kernel: int


Step = bytes | float | Callable[[Virtual], object]


async def pulls(folder: Path, steps: Sequence[Step], module: ModuleType | None, **settings: Any) -> Told:
    """Steps one after the other: bytes are written, seconds pass, and calls change something in the broker."""
    with pytest.MonkeyPatch.context() as patch:
        choose(patch, module)
        clock = ManualClock(1_700_000_000_000)
        async with virtual_broker(folder, clock=clock, **settings) as life:
            await ready(life)
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
            return told(life, peer)


def told(life: Virtual, peer: RawPeer) -> Told:
    broker = life.broker
    counters = broker.counters
    counted = [
        (name, key, counter.value, counter.times)
        for name in ("GROUP_GET_NUMS", "GROUP_GET_SIZE", "QUEUE_GET_NUMS", "BROKER_GET_NUMS")
        for key in (f"A@{GROUP}", f"A@0@{GROUP}", f"A@1@{GROUP}", "DefaultCluster")
        if (counter := counters.find(name, key)) is not None
    ]
    pulled = [broker.offsets.pulled("A", GROUP, queue) for queue in range(4)]
    return Told(
        sorted(split(peer.raw)),
        peer.is_lost,
        (dict(broker.offsets.all()), pulled),
        counted,
        len(broker.pulls.suspended),
        sum(one.kernel.messages for one in broker.pull_verdicts),
        sum(one.kernel.suspended for one in broker.pull_verdicts),
    )


async def same(folder: Path, steps: Sequence[Step], module: ModuleType, **settings: Any) -> Told:
    """Both kernels see and note the same; what the native one did."""
    ours = await pulls(folder / "native", steps, module, **settings)
    theirs = await pulls(folder / "python", steps, None, **settings)
    assert ours[:5] == theirs[:5]
    assert theirs.by_kernel == 0
    return ours
