"""Headers that a guard reads for the feeds behind it: what they make of them is what they make of frames they read."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyromq.protocol.command import Encoding
from tests.kernel.guard_frames import BOSS, Step, codes, same, shuffled, signed
from tests.kernel.pop_frames import pop
from tests.kernel.pull_frames import pull
from tests.kernel.test_native_send import send
from tests.kernel.twins import native_module

ENCODINGS = pytest.mark.parametrize("encoding", list(Encoding))
REFUSED = 16


@ENCODINGS
async def test_more_frames_than_are_read_ahead(tmp_path: Path, encoding: Encoding) -> None:
    burst = b"".join(signed(send(n, queue=n % 3, body=b"x" * (1 + n % 40), encoding=encoding)) for n in range(1, 201))
    seen = await same(tmp_path, [burst], native_module())
    assert seen.sent_by_kernel == 200


async def test_more_escaped_values_than_there_is_room_for(tmp_path: Path) -> None:
    """Their place moves when it grows: headers that were read before are then read again."""
    properties = [f"UNIQ_KEY\x01u{n}\x02big\x01{chr(97 + n % 26) * (2000 * (n % 12))}\x02" for n in range(30)]
    burst = b"".join(signed(send(1 + n, properties=one)) for n, one in enumerate(properties))
    seen = await same(tmp_path, [burst, burst], native_module())
    assert seen.sent_by_kernel == 60


@ENCODINGS
async def test_codes_in_turns(tmp_path: Path, encoding: Encoding) -> None:
    """Each feed finds its own headers among the others', whatever the order of their fields is."""
    frames = []
    for n in range(1, 60, 3):
        frames.append(signed(send(n, code=(10, 310)[n % 2], queue=1, encoding=encoding)))
        frames.append(signed(pull(n + 1, offset=n // 3, encoding=encoding)))
        frames.append(signed(pop(n + 2, topic="B"), BOSS))
    first = b"".join(signed(send(number, queue=number % 2)) for number in range(100, 140))
    steps: list[Step] = [first, b"".join(shuffled(one, at % 3) for at, one in enumerate(frames)), signed(send(200))]
    seen = await same(tmp_path, steps, native_module())
    empty = dict.fromkeys(range(6, 61, 3), 210)  # the first pop has had topic B's one message
    assert codes(seen) == dict.fromkeys((*range(1, 61), *range(100, 140), 200), 0) | empty
    assert seen.sent_by_kernel == 61
    assert seen.given_by_kernel


WIDE = "UNIQ_KEY\x01u\x02Ключ\x01значение\x02"


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (signed(send(2, topic="A\x01")), REFUSED),
        (signed(send(2, properties='UNIQ_KEY\x01u\x02quoted\x01"\\\x02')), 0),
        (signed(send(2, properties=WIDE)), 0),
        (signed(send(2, properties="")), 0),
        (signed(send(2, unknown="5")), 0),
        (signed(send(2, timeoutMs="3000")), 0),
        (signed(send(2, timeoutMs="soon")), 1),
        (signed(send(2, queue="0x")), 1),
        (signed(send(2, k="maybe")), 1),
    ],
    ids=["topic", "quoted", "wide", "no properties", "unknown", "timeout", "odd timeout", "odd queue", "odd flag"],
)
async def test_odd_ones_between_plain_ones(tmp_path: Path, frame: bytes, code: int) -> None:
    burst = signed(send(1)) + frame + signed(send(3))
    seen = await same(tmp_path, [burst, signed(send(4))], native_module())
    assert codes(seen)[2] == code
    assert {codes(seen)[n] for n in (1, 3, 4)} == {0}


async def test_nothing_is_kept_for_the_next_buffer(tmp_path: Path) -> None:
    """The same place in memory, the same lengths, and another frame: a pull is none for the feed of sends."""
    steps: list[Step] = [signed(send(n, topic="BA"[n % 2], body=b"%04d" % n)) for n in range(1, 20)]
    seen = await same(tmp_path, steps, native_module())
    assert codes(seen) == {n: 0 if n % 2 else REFUSED for n in range(1, 20)}
    assert seen.sent_by_kernel == 10


async def test_two_users_in_turns(tmp_path: Path) -> None:
    burst = b"".join(signed(send(n), (BOSS, "shop")[n // 3 % 2]) for n in range(1, 90))
    seen = await same(tmp_path, [burst], native_module())
    assert seen.sent_by_kernel == 89
