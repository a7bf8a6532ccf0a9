"""Pops, acks, batches and changes by the native kernel: the same answers, table, offsets and files as the handlers'."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.store.config import FlushMode
from tests.kernel.pop_frames import ACK, Popped, Step, ack, batch, change, filled, frame, pop, same
from tests.kernel.twins import native_module

OPENED: list[Step] = [filled(), pop(1), pop(2, count=8)]  # the first pop opens the lanes, by Python
PER_QUEUE = 10


def each(found: list[Popped]) -> bytes:
    return b"".join(ack(one, 100 + number) for number, one in enumerate(found))


async def test_pops_of_any_queue(tmp_path: Path) -> None:
    steps = [filled(80), pop(1, count=5), *(pop(number, count=7) for number in range(2, 9))]
    told = await same(tmp_path, steps, native_module())
    assert told.messages >= 20


async def test_pops_of_one_queue_and_several_in_a_buffer(tmp_path: Path) -> None:
    many = b"".join(pop(number, queue=number % 4, count=2) for number in range(10, 18))
    opened = [pop(number, queue=number, count=1) for number in range(4)]
    told = await same(tmp_path, [filled(160), *opened, many], native_module())
    assert told.messages >= 12


async def test_acks(tmp_path: Path) -> None:
    told = await same(tmp_path, [*OPENED, lambda _, found: each(found)], native_module())
    assert told.acks == 40
    assert told.table.figures == []


async def test_acks_one_by_one_and_again(tmp_path: Path) -> None:
    steps = [*OPENED, *(lambda _, found, at=at: ack(found[at], 500 + at) for at in (3, 0, 7, 3))]
    told = await same(tmp_path, steps, native_module())
    assert told.acks == 3


async def test_batches(tmp_path: Path) -> None:
    steps = [*OPENED, lambda _, found: batch(found[::2]), lambda _, found: batch(found[:9], 301)]
    told = await same(tmp_path, steps, native_module())
    assert told.acks == 24


async def test_changes(tmp_path: Path) -> None:
    steps: list[Step] = [
        *OPENED,
        0.25,
        lambda _, found: change(found[0]) + change(found[9], 201, -3) + change(found[0], 202),
        lambda _, found: change(found[5], 203, suspend="true") + ack(found[5], 204),
    ]
    told = await same(tmp_path, steps, native_module())
    assert told.changes == 4, "one of them by a receipt that was used before"


async def test_a_change_in_the_millisecond_of_the_pop(tmp_path: Path) -> None:
    told = await same(tmp_path, [*OPENED, lambda _, found: change(found[0]) + change(found[1], 201)], native_module())
    assert told.changes == 2


async def test_by_tags(tmp_path: Path) -> None:
    steps: list[Step] = [filled(80), pop(1, exp="t1"), *(pop(number, count=6, exp="t1 || t7") for number in (2, 3, 4))]
    steps.append(lambda _, found: each(found))
    told = await same(tmp_path, steps, native_module())
    assert told.messages > 0
    assert told.acks > 0


async def test_what_is_behind_everything_else(tmp_path: Path) -> None:
    """Sends, pops and acks in one buffer, and a request of another kind."""
    heartbeat = frame(34, 900, {}, b'{"clientID":"c","consumerDataSet":[],"producerDataSet":[]}')
    steps: list[Step] = [
        *OPENED,
        lambda _, found: pop(3, count=2) + ack(found[0]) + heartbeat + ack(found[1], 101) + filled(4),
    ]
    told = await same(tmp_path, steps, native_module())
    assert told.acks == 2


@pytest.mark.parametrize(
    "extra",
    [
        {"order": "true"},
        {"maxMsgNums": 33},
        {"maxMsgNums": 0},
        {"maxMsgNums": "007"},
        {"queueId": 9},
        {"topic": "Nothing"},
        {"expType": "SQL92", "exp": "a is not null"},
        {"bornTime": 1},
        {"bornTime": None, "exp": None, "expType": None},
        {"invisibleTime": "-5"},
        {"attemptId": "x"},
        {"unknown": "1"},
        {"consumerGroup": "Gr\u00fc\u00dfe"},
        {"initMode": None},
        {"flag": 2},
        {"body": b"x"},
    ],
)
async def test_odd_pops(tmp_path: Path, extra: dict[str, Any]) -> None:
    await same(tmp_path, [*OPENED, pop(3, count=extra.pop("maxMsgNums", 3), **extra), pop(4, count=1)], native_module())


@pytest.mark.parametrize(
    "extra",
    [
        {"topic": "Nothing"},
        {"queueId": 7},
        {"queueId": -1},
        {"offset": 99},
        {"offset": -1},
        {"extraInfo": "0 1 2"},
        {"extraInfo": "0 x 2 0 0 b 0 0"},
        {"extraInfo": "0 1 2 999 0 b 0 0"},
        {"extraInfo": "0 1 2 0 0 b 0 0"},
        {"extraInfo": "0 1 2 0 0 b 0 0 17"},
        {"consumerGroup": "Other"},
        {"liteTopic": "x"},
        {"flag": 2},
    ],
)
@pytest.mark.parametrize("code", ["ack", "change"])
async def test_odd_acks(tmp_path: Path, code: str, extra: dict[str, Any]) -> None:
    def odd(_: object, found: list[Popped]) -> bytes:
        return ack(found[0], 700, **extra) if code == "ack" else change(found[0], 700, **extra)

    await same(tmp_path, [*OPENED, odd, lambda _, found: ack(found[1], 701)], native_module())


@pytest.mark.parametrize(
    "extra",
    [
        {"b": "!!"},
        {"b": ""},
        {"b": "AQ"},
        {"b": "/////////////w=="},
        {"so": 5_000},
        {"rq": 999},
        {"r": "1"},
        {"t": "Nothing"},
        {"q": 77},
        {"pt": 3},
        {"x": 1},
        {"so": "0"},
    ],
)
async def test_odd_batches(tmp_path: Path, extra: dict[str, Any]) -> None:
    steps: list[Step] = [*OPENED, lambda _, found: batch(found[:3], 300, **extra), lambda _, found: batch(found[3:6])]
    await same(tmp_path, steps, native_module())


async def test_a_lane_that_is_closed_meanwhile(tmp_path: Path) -> None:
    def reset(life: Any, _: object) -> None:
        life.broker.pop_parts.lanes.close("G", "A", 0)

    steps: list[Step] = [*OPENED, reset, lambda _, found: each(found), pop(9, count=3)]
    await same(tmp_path, steps, native_module())


async def test_sync_flush(tmp_path: Path) -> None:
    steps: list[Step] = [*OPENED, lambda _, found: each(found[:7]) + change(found[8]) + pop(5, count=2)]
    told = await same(tmp_path, steps, native_module(), flush_mode=FlushMode.SYNC)
    assert told.acks == 7


async def test_a_topic_that_may_not_be_read_any_more(tmp_path: Path) -> None:
    def forbid(life: Any, _: object) -> None:
        life.broker.topics.put(TopicConfig(topic_name="A", read_queue_nums=4, write_queue_nums=4, perm=2))

    steps: list[Step] = [filled(160), *(pop(number, queue=number, count=1) for number in range(4)), pop(5, count=1)]
    told = await same(tmp_path, [*steps, forbid, pop(6, count=1), frame(ACK, 7, {})], native_module())
    assert told.messages == 1
