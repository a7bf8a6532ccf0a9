"""Pops that wait and pops of groups with retries by the native kernel: answers, table and files as the handlers'."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.store.config import FlushMode
from tests.kernel.pop_frames import Popped, Step, ack, filled, frame, handed_out, pop, pops, same
from tests.kernel.test_native_pop import each
from tests.kernel.test_native_send import send
from tests.kernel.twins import native_module

WAITS: dict[str, Any] = {"pollTime": 5_000}


def fresh(number: int, **extra: Any) -> bytes:
    """A pop that is not late, whatever time has passed."""
    return pop(number, **({"bornTime": None} | extra))


def acked(most: int) -> list[Step]:
    """Acks of what was popped, some at a time: of a longer buffer Python would put two journal records."""

    def some(first: int) -> Step:
        return lambda _, found: each(found[first : first + 8])

    return [some(first) for first in range(0, most, 8)]


def expired() -> list[Step]:
    """A group whose retry topic has messages and is open."""
    return [filled(), fresh(1, invisibleTime=1_000), 1.5, *(fresh(number, count=1) for number in range(2, 12)), 0.5]


async def test_what_expires_comes_from_the_retry_topic(tmp_path: Path) -> None:
    steps: list[Step] = [
        filled(),
        fresh(1, invisibleTime=1_000),
        1.5,
        fresh(2),
        fresh(3),
        fresh(4),
        *acked(120),
    ]
    await same(tmp_path, steps, native_module())


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"enable_retry_topic_v2": True},
        {"enable_retry_topic_v2": True, "retrieve_message_from_pop_retry_topic_v1": True},
        {"pop_from_retry_probability": 100},
        {"pop_from_retry_probability": 0},
        {"pop_response_return_actual_retry_topic": True},
        {"use_separate_retry_queue": True},
        {"priority_order_asc": False},
    ],
)
async def test_pops_of_a_group_that_has_retries(tmp_path: Path, settings: dict[str, Any]) -> None:
    steps: list[Step] = [
        *expired(),
        *(fresh(number, count=1 + number % 5, invisibleTime=800) for number in range(20, 26)),
        fresh(26, queue=2, count=2),
        1.0,
        filled(12),
        *(fresh(number, count=2 + number % 7) for number in range(30, 44)),
        fresh(50, pollTime=5_000),
        *acked(120),
        6.0,
    ]
    separate = settings.get("use_separate_retry_queue", False)  # the first copy of each queue is Python's, put later
    told = await same(tmp_path, steps, native_module(), files=not separate, **settings)
    assert told.messages > (0 if separate else 30)


async def test_retries_with_properties_of_all_kinds(tmp_path: Path) -> None:
    texts = [
        "UNIQ_KEY\x01U\x02TAGS\x01t\x02",
        "UNIQ_KEY\x01U\x02KEYS\x01a b\x02empty\x01\x02more",
        "UNIQ_KEY\x01U\x02POP_CK\x01theirs\x02a\x01b\x02",
        "UNIQ_KEY\x01U\x02name\x01Gr\u00fc\u00dfe \u4f60\x02",
        "UNIQ_KEY\x01U\x02a\x011\x02b\x012\x02a\x013\x02",
        "",
        "a\x01with \x01 inside\x02",
        *(f"n{number}\x01{'v' * 400}\x02" * (number % 3 + 1) for number in range(8)),
    ]
    sends = b"".join(send(700 + n, queue=n % 4, properties=text, body=b"b" * n) for n, text in enumerate(texts))
    steps: list[Step] = [
        filled(),
        fresh(1, invisibleTime=900),
        fresh(2),
        1.2,
        sends,
        fresh(3, invisibleTime=700),
        fresh(4),
    ]
    steps += [1.0, *(fresh(number, count=3) for number in range(10, 40)), *acked(120)]
    ours = await pops(tmp_path / "native", steps, native_module())
    theirs = await pops(tmp_path / "python", steps, None)
    # Odd ones are Python's to copy, and put behind the others: what was handed out is the same, its order is not.
    assert handed_out(ours) == handed_out(theirs)
    assert ours[1:4] == theirs[1:4]
    assert ours.messages > 0


async def test_a_retry_wakes_who_waits(tmp_path: Path) -> None:
    steps: list[Step] = [
        *expired(),
        *(fresh(number, invisibleTime=700) for number in range(20, 26)),
        fresh(30, count=3, pollTime=3_000) + fresh(31, count=2, pollTime=3_000) + fresh(32, queue=0, pollTime=3_000),
        1.0,
        *acked(120),
        4.0,
    ]
    told = await same(tmp_path, steps, native_module())
    assert told.suspended == 3


async def test_held_pops_are_woken(tmp_path: Path) -> None:
    steps: list[Step] = [
        filled(8),
        pop(1),
        pop(2, pollTime=5_000),
        filled(4),
        pop(3, count=1, pollTime=900),
        filled(1),
        6.0,
    ]
    told = await same(tmp_path, steps, native_module())
    assert (told.suspended, told.messages) == (2, 5)


async def test_a_pop_waits_on_queues_that_had_no_message_yet(tmp_path: Path) -> None:
    """Queue 3 of A, and queue 1 of B, which nobody can send to, are not there."""
    steps: list[Step] = [
        pop(1),
        pop(2, topic="B"),
        pop(3, **WAITS),
        pop(4, count=1, **WAITS),
        pop(5, topic="B", **WAITS),
    ]
    steps += [
        send(6, queue=3),
        pop(7, **WAITS),
        send(8, queue=3) + send(9, topic="B", queue=0),
        pop(10, topic="B"),
        6.0,
    ]
    told = await same(tmp_path, steps, native_module())
    assert told.suspended == 4
    assert told.messages >= 1


async def test_each_message_wakes_one_of_many_that_wait(tmp_path: Path) -> None:
    held = [pop(number, queue=number % 3 - 1, count=1 + number % 3, **WAITS) for number in range(2, 20)]
    steps: list[Step] = [filled(8), pop(1), b"".join(held[:9]), *held[9:], filled(3), 0.1, filled(12), filled(1), 6.0]
    told = await same(tmp_path, steps, native_module())
    assert told.suspended == 18
    assert told.messages >= 12


async def test_what_is_left_wakes_the_next(tmp_path: Path) -> None:
    steps: list[Step] = [filled(8), pop(1), *(pop(number, count=2, **WAITS) for number in range(2, 6)), filled(7)]
    steps.append(lambda _, found: each(found))
    told = await same(tmp_path, steps, native_module())
    assert (told.messages, told.acks) == (7, 18)


async def test_a_held_pop_whose_tags_do_not_match_waits_on(tmp_path: Path) -> None:
    tagged = pop(2, exp="t5", **WAITS) + pop(3, exp="t1", count=2, **WAITS)
    await same(tmp_path, [filled(8), pop(1), tagged, filled(4), filled(8), filled(24, tags=6), 6.0], native_module())


@pytest.mark.parametrize("extra", [{}, {"bornTime": None}, {"bornTime": 0}, {"pollTime": 40}, {"pollTime": -5}])
async def test_pops_that_end_with_nothing(tmp_path: Path, extra: dict[str, Any]) -> None:
    steps: list[Step] = [filled(8), pop(1), pop(2), pop(3, **(WAITS | extra)), pop(4, queue=1, **WAITS), 7.0, fresh(5)]
    told = await same(tmp_path, steps, native_module())
    assert told.held == 0


async def test_more_than_may_wait(tmp_path: Path) -> None:
    held = [pop(number, **WAITS) for number in range(2, 9)]
    told = await same(tmp_path, [filled(8), pop(1), *held, filled(3), pop(9), 6.0], native_module(), pop_polling_size=3)
    assert told.suspended == 4
    told = await same(
        tmp_path / "all", [filled(8), pop(1), *held, filled(3), 6.0], native_module(), max_pop_polling_size=2
    )
    assert told.suspended == 2


async def test_a_held_pop_of_a_connection_that_is_gone(tmp_path: Path) -> None:
    def lost(life: Any, _: object) -> None:
        for connection in [*life.broker.servers[0]._connections]:
            connection.abort("gone")

    told = await same(tmp_path, [filled(8), pop(1), pop(2, **WAITS), lost, 0.1], native_module())
    assert (told.suspended, told.held, told.is_lost) == (1, 0, True)


async def test_held_pops_wait_for_the_disk_with_sync_flush(tmp_path: Path) -> None:
    steps: list[Step] = [filled(8), pop(1), pop(2, count=2, **WAITS) + pop(3, count=2, **WAITS), filled(3), 0.1]
    steps.append(lambda _, found: each(found))
    told = await same(tmp_path, steps, native_module(), flush_mode=FlushMode.SYNC)
    assert (told.suspended, told.messages) == (2, 3)


async def test_a_topic_that_may_not_be_read_any_more_ends_what_waits(tmp_path: Path) -> None:
    def forbid(life: Any, _: object) -> None:
        life.broker.topics.put(TopicConfig(topic_name="A", read_queue_nums=4, write_queue_nums=4, perm=2))

    await same(tmp_path, [filled(8), pop(1), pop(2, **WAITS), forbid, 0.1], native_module())


async def test_a_reset_wakes_who_waits(tmp_path: Path) -> None:
    reset = frame(222, 50, {"topic": "A", "group": "G", "timestamp": 0, "isForce": "true", "queueId": 0, "offset": 0})
    await same(tmp_path, [filled(8), pop(1), pop(2, **WAITS), reset, 0.1, pop(3, **WAITS), 6.0], native_module())


# --- walks -----------------------------------------------------------------------------------------------------------


def drawn(rng: random.Random, number: int) -> Step:
    """One step of a walk: messages come, pops that wait or not, acks, time."""
    kind = rng.randrange(10)
    if kind < 3:
        return filled(rng.randrange(1, 7), tags=3)
    if kind < 7:
        wishes = {
            "queue": rng.choice((-1, -1, -1, 0, 2)),
            "count": rng.randrange(1, 5),
            "pollTime": rng.choice((0, 30, 400, 4_000)),
            "exp": rng.choice(("*", "*", "*", "t1", "t0 || t2")),
            "invisibleTime": rng.choice((500, 60_000)),
        }
        return b"".join(fresh(100 * number + at, **wishes) for at in range(rng.randrange(1, 4)))
    if kind < 9:
        chosen = rng.randrange(1 << 30)
        return lambda _, found: acks_of(random.Random(chosen), found)
    return rng.choice((0.05, 0.45, 1.1))


def acks_of(rng: random.Random, found: list[Popped]) -> bytes:
    few = rng.sample(sorted(found), min(len(found), 5))
    return b"".join(ack(one, 70_000 + rng.randrange(10_000)) for one in few)


@pytest.mark.parametrize("flush_mode", [FlushMode.ASYNC, FlushMode.SYNC])
@pytest.mark.parametrize("seed", range(6))
async def test_walks(tmp_path: Path, seed: int, flush_mode: FlushMode) -> None:
    rng = random.Random(seed)
    steps = [filled(8), fresh(1), *(drawn(rng, number) for number in range(2, 60)), 6.0]
    told = await same(tmp_path, steps, native_module(), files=False, flush_mode=flush_mode)
    assert told.suspended > 3
