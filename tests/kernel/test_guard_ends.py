"""Signed ends of transactions: the kernel commits for who may send to the half message's topic, and for nobody else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyromq.protocol.command import Encoding
from pyromq.protocol.frame import FrameLimits, decode_frames
from tests.kernel.guard_frames import (
    BOSS,
    GONE,
    SECRET,
    SHOP,
    Outcome,
    Step,
    codes,
    outcome,
    same,
    signed,
    unsigned,
    users,
)
from tests.kernel.test_detours import half
from tests.kernel.test_guard import CHANGES
from tests.kernel.test_half_ends import ROLLBACK, end
from tests.kernel.twins import native_module

REFUSED = 16
ENCODINGS = pytest.mark.parametrize("encoding", list(Encoding))
HALVES = [
    signed(half(3), BOSS),  # it makes the queue
    b"".join(signed(half(number, queue=number % 3), BOSS) for number in range(10, 20))
    + b"".join(signed(half(number, topic="B"), BOSS) for number in range(20, 23)),
]
ON_A = range(10, 20)


@pytest.fixture(autouse=True)
def opened(monkeypatch: pytest.MonkeyPatch) -> None:
    native_module()


async def places(folder: Path, **settings: Any) -> dict[int, tuple[int, int]]:
    """Where the halves are: offset in their queue and position in the log, by the number of their send."""
    seen = await outcome(folder / "places", list(HALVES), None, **settings)
    commands, _, _ = decode_frames(b"".join(seen.answers), FrameLimits())
    return {one.opaque: (int(one.fields["queueOffset"]), int(one.fields["msgId"][-16:], 16)) for one in commands}


def ended(seen: Outcome) -> dict[int, int]:
    """The codes of the answers to ends, by the number of the half message."""
    return {opaque - 1000: code for opaque, code in codes(seen).items() if opaque >= 1000}


@ENCODINGS
@pytest.mark.parametrize("settings", [{}, {"authorization_enabled": False}], ids=["judged", "not judged"])
async def test_signed_commits_are_the_kernels(tmp_path: Path, encoding: Encoding, settings: dict[str, Any]) -> None:
    known = await places(tmp_path, **settings)
    burst = b"".join(signed(end(number, *known[number], encoding=encoding)) for number in ON_A)
    seen = await same(tmp_path, [*HALVES, burst, burst], native_module(), **settings)
    assert ended(seen) == dict.fromkeys(ON_A, 0)
    assert seen.sent_by_kernel == 13 + 10  # the ones that come again are the handlers'


async def test_the_topic_of_the_half_message_is_judged(tmp_path: Path) -> None:
    """Whatever the request itself says of a topic; and the verdict on one topic is none on another."""
    known = await places(tmp_path)
    burst = b"".join(signed(end(number, *known[number], topic="A")) for number in (10, 20, 11, 21))
    others = signed(end(22, *known[22]), BOSS) + signed(end(12, *known[12]))
    seen = await same(tmp_path, [*HALVES, burst, others], native_module())
    assert ended(seen) == {10: 0, 20: REFUSED, 11: 0, 21: REFUSED, 22: 0, 12: 0}
    assert seen.sent_by_kernel == 13 + 4


WRONG: dict[str, Callable[[bytes], bytes]] = {
    "nobody": lambda frame: frame,
    "no signature": lambda frame: unsigned(signed(frame), "Signature"),
    "no name": lambda frame: unsigned(signed(frame), "AccessKey"),
    "another secret": lambda frame: signed(frame, secret="guessed"),
    "a stranger": lambda frame: signed(frame, "stranger"),
    "a disabled user": lambda frame: signed(frame, GONE),
    "added later": lambda frame: signed(frame, bname="broker-b"),
    "changed later": lambda frame: signed(frame, commitLogOffset="0"),
    "another's name": lambda frame: signed(frame, AccessKey=BOSS),
}


@pytest.mark.parametrize("name", WRONG)
async def test_what_may_not_pass_is_refused(tmp_path: Path, name: str) -> None:
    known = await places(tmp_path)
    frames = WRONG[name](end(10, *known[10])) + signed(end(11, *known[11]))
    seen = await same(tmp_path, [*HALVES, frames, signed(end(10, *known[10]))], native_module())
    assert ended(seen)[11] == 0
    assert seen.sent_by_kernel == 13 + 2
    answers, _, _ = decode_frames(b"".join(seen.answers), FrameLimits())
    assert sorted(one.code for one in answers if one.opaque == 1010) == [0, REFUSED]


async def test_what_the_feed_does_not_take_goes_to_the_handlers(tmp_path: Path) -> None:
    known = await places(tmp_path)
    frames = [
        signed(end(10, *known[10], how=ROLLBACK)),
        signed(end(20, *known[20], how=ROLLBACK)),  # of another's topic
        signed(end(11, known[11][0], known[12][1])),
        signed(end(12, *known[12], producerGroup="Q")),
        signed(end(13, *known[13], body=b"x")),
    ]
    seen = await same(tmp_path, [*HALVES, b"".join(frames)], native_module())
    assert seen.sent_by_kernel == 13
    answers = ended(seen)
    assert answers[10] == answers[13] == 0
    assert answers[20] == REFUSED
    assert answers[11] != 0
    assert answers[12] != 0


async def test_commits_between_sends_of_several_users(tmp_path: Path) -> None:
    known = await places(tmp_path)
    burst = b"".join(
        frame
        for number in ON_A
        for frame in (
            signed(half(100 + number)),
            signed(end(number, *known[number]), BOSS if number % 2 else SHOP),
        )
    )
    seen = await same(tmp_path, [*HALVES, burst], native_module())
    assert set(codes(seen).values()) == {0}
    assert seen.sent_by_kernel == 13 + 20


async def test_for_whom_a_gateway_asks(tmp_path: Path) -> None:
    """It signs as a server, which may everything, and names whose rights count: the handlers look at those."""
    inner: dict[str, Any] = {
        "inner_client_authentication_credentials": f'{{"accessKey":"{BOSS}","secretKey":"{SECRET}"}}'
    }
    known = await places(tmp_path, **inner)
    named: dict[str, Any] = {"pyromqUser": SHOP, "pyromqSource": "127.0.0.1"}
    frames = [
        signed(end(20, *known[20]), BOSS),
        signed(end(21, *known[21], **named), BOSS),
        signed(end(10, *known[10], **named), BOSS),
    ]
    seen = await same(tmp_path, [*HALVES, *frames], native_module(), **inner)
    assert ended(seen) == {20: 0, 21: REFUSED, 10: 0}
    assert seen.sent_by_kernel == 13 + 1


@pytest.mark.parametrize("name", CHANGES)
async def test_a_change_counts_for_the_next_commit(tmp_path: Path, name: str) -> None:
    known = await places(tmp_path)
    steps: list[Step] = [
        *HALVES,
        signed(end(10, *known[10])),
        lambda life: CHANGES[name](users(life)),
        signed(end(11, *known[11])) + signed(end(12, *known[12]), BOSS),
    ]
    seen = await same(tmp_path, steps, native_module())
    assert ended(seen) == {10: 0, 11: REFUSED, 12: 0}
    assert seen.sent_by_kernel == 13 + 2
