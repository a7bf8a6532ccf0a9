"""Commits of transactions that the native kernel stores: the bytes, states and answers of the handlers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyromq.protocol.command import Command, Encoding
from pyromq.protocol.frame import FrameLimits, decode_frames, encode_frame
from pyromq.store.config import FlushMode
from tests.kernel.test_detours import half
from tests.kernel.test_native_send import send
from tests.kernel.twins import Seen, lives, native_module

HALVES = [half(3), b"".join(half(number, queue=number % 3, body=b"x" * number * 40) for number in range(10, 40))]
COMMIT, ROLLBACK = 8, 12


def end(
    number: int,
    offset: object,
    position: object,
    how: object = COMMIT,
    encoding: Encoding = Encoding.JSON,
    flag: int = 0,
    body: bytes = b"",
    **extra: Any,
) -> bytes:
    """A frame as a client writes it. An extra field that is None is left out."""
    fields = {
        "producerGroup": "P",
        "tranStateTableOffset": offset,
        "commitLogOffset": position,
        "commitOrRollback": how,
        "fromTransactionCheck": "false",
        "msgId": f"u{number}",
        "transactionId": f"u{number}",
        "bname": "broker-a",
    } | extra
    texts = {name: str(value) for name, value in fields.items() if value is not None}
    return encode_frame(
        Command(code=37, opaque=1000 + number, flag=flag, version=401, fields=texts, body=body, encoding=encoding)
    )


async def places(folder: Path, bursts: list[bytes], **settings: Any) -> dict[int, tuple[int, int]]:
    """Where halves are: offset in their queue and position in the log, by the number of their send."""
    seen = await lives(folder, bursts, None, **settings)
    found: dict[int, tuple[int, int]] = {}
    for raw in seen.answers:
        (answer,), _, _ = decode_frames(raw, FrameLimits())
        found[answer.opaque] = int(answer.fields["queueOffset"]), int(answer.fields["msgId"][-16:], 16)
    return found


async def both(folder: Path, bursts: list[bytes], **settings: Any) -> tuple[Seen, Seen]:
    return await lives(folder, bursts, native_module(), **settings), await lives(folder, bursts, None, **settings)


@pytest.mark.parametrize("encoding", list(Encoding))
@pytest.mark.parametrize("flag", [0, 2])
@pytest.mark.parametrize("flush_mode", [FlushMode.ASYNC, FlushMode.SYNC])
async def test_a_burst_of_commits(tmp_path: Path, encoding: Encoding, flag: int, flush_mode: FlushMode) -> None:
    known = await places(tmp_path, HALVES, flush_mode=flush_mode)
    burst = b"".join(end(number, *known[number], encoding=encoding, flag=flag) for number in range(10, 40))
    ours, theirs = await both(tmp_path, [*HALVES, burst, burst], flush_mode=flush_mode)
    assert ours[:3] == theirs[:3]
    assert ours.by_kernel == 30 + 30  # halves and their commits, but not those that come again


async def test_commits_between_sends_to_the_same_queues(tmp_path: Path) -> None:
    known = await places(tmp_path, HALVES)
    burst = b"".join(
        frame
        for number in range(10, 30)
        for frame in (send(100 + number, queue=number % 3), end(number, *known[number]), half(200 + number))
    )
    ours, theirs = await both(tmp_path, [*HALVES, burst])
    assert ours[:3] == theirs[:3]
    assert ours.by_kernel == 30 + 60


async def test_commits_over_the_end_of_a_file(tmp_path: Path) -> None:
    small: dict[str, Any] = {"commit_log_file_bytes": 24 << 10, "files_ahead": True}
    known = await places(tmp_path, HALVES, **small)
    bursts = [*HALVES, b"".join(end(number, *known[number]) for number in range(10, 40))]
    ours, theirs = await both(tmp_path, bursts, **small)
    assert (ours.answers, sizes_of(ours)) == (theirs.answers, sizes_of(theirs))
    assert ours.by_kernel > 45


def sizes_of(seen: Seen) -> dict[str, list[bytes]]:
    """Sizes and tags of what the queues of topic A hold, in order. Positions differ where ops lie in between."""
    queues = {name: raw for name, raw in seen.files.items() if name.startswith("consumequeue/A/")}
    return {name: [raw[at + 8 : at + 20] for at in range(0, len(raw), 20)] for name, raw in queues.items()}


@pytest.mark.parametrize(
    ("changed", "taken"),
    [
        ({}, True),
        ({"how": ROLLBACK}, False),
        ({"how": 0}, False),
        ({"how": 5}, False),
        ({"offset": 1}, False),  # another's place
        ({"offset": -1}, False),
        ({"offset": 1 << 40}, False),
        ({"position": 3}, False),
        ({"position": -3}, False),
        ({"position": 1 << 62}, False),
        ({"producerGroup": "Q"}, False),
        ({"producerGroup": "Grüppe"}, False),
        ({"producerGroup": None}, False),
        ({"msgId": None}, False),
        ({"fromTransactionCheck": "true"}, True),
        ({"fromTransactionCheck": None}, True),
        ({"fromTransactionCheck": "x"}, False),
        ({"transactionId": None, "bname": None}, True),
        ({"topic": "A"}, True),
        ({"uncounted": "true"}, False),
        ({"flag": 1}, False),
        ({"body": b"x"}, False),
    ],
)
async def test_one_of_each_shape(tmp_path: Path, changed: dict[str, Any], taken: bool) -> None:
    known = await places(tmp_path, HALVES)
    offset, position = known[20]
    frame = end(20, **({"offset": offset, "position": position} | changed))
    ours, theirs = await both(tmp_path, [*HALVES, frame])
    assert ours[:3] == theirs[:3]
    assert ours.by_kernel == 30 + taken


PAIRS = "UNIQ_KEY\x01u50\x02TRAN_MSG\x01true\x02PGROUP\x01P\x02"


@pytest.mark.parametrize(
    ("properties", "taken"),
    [
        (PAIRS + "KEYS\x01a b\x02", True),
        (PAIRS + "n\x01ü\x02", True),
        (PAIRS + "DELAY\x012\x02", False),
        (PAIRS + "CHECK_IMMUNITY_TIME_IN_SECONDS\x0160\x02", False),
        (PAIRS.replace("PGROUP", "XGROUP"), False),
        (PAIRS + "n\x01REAL_QID\x02", True),
    ],
)
async def test_halves_with_properties(tmp_path: Path, properties: str, taken: bool) -> None:
    bursts = [half(3), send(50, properties=properties, sysFlag=4)]
    known = await places(tmp_path, bursts)
    frame = end(50, *known[50])
    ours, theirs = await both(tmp_path, [*bursts, frame])
    before = await lives(tmp_path, bursts, native_module())
    assert ours[:3] == theirs[:3]
    assert ours.by_kernel - before.by_kernel == taken


@pytest.mark.parametrize("how", [COMMIT, ROLLBACK])
async def test_the_first_end_counts(tmp_path: Path, how: int) -> None:
    """Also within one buffer, where the second one is looked at before the first is stored."""
    known = await places(tmp_path, HALVES)
    burst = end(12, *known[12]) + end(12, *known[12], how=how, flag=0) + end(13, *known[13], how=how)
    ours, theirs = await both(tmp_path, [*HALVES, burst, end(13, *known[13])])
    assert (ours.answers, sizes_of(ours)) == (theirs.answers, sizes_of(theirs))
