"""Batches through the native kernel that it cannot take whole, when their first messages were made into records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyromq.model.codes import ResponseCode
from pyromq.protocol.batch import BatchEntry, encode_batch
from pyromq.protocol.command import Encoding
from pyromq.protocol.frame import decode_frames
from tests.kernel.test_native_send import batch, send
from tests.kernel.twins import lives, native_module

FIVE = [BatchEntry(b"%d" % n, 0, f"KEYS\x01k{n}\x02".encode()) for n in range(5)]


async def test_a_batch_that_is_spoilt_behind_its_first_messages_leaves_nothing(tmp_path: Path) -> None:
    bursts = [
        send(1) + send(2, 320, body=encode_batch(FIVE)[:-3]) + send(3, topic="B"),
        batch(4, *FIVE, topic="B") + batch(5, *FIVE, BatchEntry(b"a", 0, b"__CRC32#\x01123\x02")),
        batch(6, *FIVE) + batch(7, *FIVE, queue=1) + batch(8, *FIVE),
    ]
    ours = await lives(tmp_path, bursts, native_module())
    theirs = await lives(tmp_path, bursts, None)
    assert ours.by_kernel == 2 + 5 + 15
    assert ours[:3] == theirs[:3]


@pytest.mark.parametrize("enforced", [False, True])
async def test_messages_of_another_type_in_a_batch_are_left_to_the_handlers(tmp_path: Path, enforced: bool) -> None:
    fifo = BatchEntry(b"a", 0, b"__SHARDINGKEY\x01k\x02")
    bursts = [batch(1, *FIVE, topic="Typed"), batch(2, *FIVE, fifo, topic="Typed")]
    bursts += [batch(3, *FIVE, fifo, topic="Kept"), batch(4, *FIVE, fifo)]
    ours = await lives(tmp_path, bursts, native_module(), enforce_message_type=enforced)
    theirs = await lives(tmp_path, bursts, None, enforce_message_type=enforced)
    codes = [one.code for one in decode_frames(b"".join(ours.answers))[0]]
    assert codes == [0, ResponseCode.MESSAGE_ILLEGAL if enforced else 0, 0, 0]
    assert ours.by_kernel == 5 + 6
    assert ours[:3] == theirs[:3]


async def test_a_spoilt_batch_that_does_not_fit_ends_no_file(tmp_path: Path) -> None:
    wide = encode_batch([BatchEntry(b"y" * 900)] * 5)
    bursts = [send(1, body=b"x" * 4000), send(2, 320, body=wide[:-3]), send(3), send(4, 320, body=wide), send(5)]
    small: dict[str, Any] = {"files_ahead": True, "commit_log_file_bytes": 8192}
    ours = await lives(tmp_path, bursts, native_module(), **small)
    theirs = await lives(tmp_path, bursts, None, **small)
    assert ours.by_kernel == 3 + 5
    assert ours[:3] == theirs[:3]


def empty(count: int, number: int, uniq: bool = True, **extra: Any) -> bytes:
    """As many messages as fit: a byte each."""
    given = {} if uniq else {"properties": "WAIT\x01true\x02"}
    return send(number, 320, body=encode_batch([BatchEntry(b"x")] * count), **(given | extra))


@pytest.mark.parametrize("native", [True, False])
async def test_a_batch_of_very_many_messages_is_refused_before_it_is_decoded(tmp_path: Path, native: bool) -> None:
    """180,000 of them held the loop for seconds, one-way too."""
    most = 100
    bursts = [
        empty(most, 1) + empty(most + 1, 2) + send(3),
        empty(20_000, 4, uniq=False) + empty(most + 1, 5, flag=2) + send(6),
    ]
    seen = await lives(tmp_path, bursts, native_module() if native else None, max_messages_in_batch=most)
    answers = {one.opaque: one for one in decode_frames(b"".join(seen.answers))[0]}
    assert sorted(answers) == [1, 2, 3, 4, 6]
    for number in (2, 4):
        told = "more than 100 messages in it, the limit (maxMessagesInBatch)"
        assert (answers[number].code, told in (answers[number].remark or "")) == (ResponseCode.MESSAGE_ILLEGAL, True)
    assert [answers[number].fields["queueOffset"] for number in (3, 6)] == [str(1 + most), str(2 + most)]


@pytest.mark.parametrize("encoding", list(Encoding))
@pytest.mark.parametrize("native", [True, False])
async def test_a_batch_whose_ids_no_answer_can_carry_is_refused_before_it_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, native: bool, encoding: Encoding
) -> None:
    """The header's length has 24 bits. Here a header may be shorter, so that the batches are small."""
    monkeypatch.setattr("pyromq.broker.send.answers.MOST_HEADER_BYTES", 40_000)
    most = 30_000 // 33
    bursts = [
        empty(most, 1, encoding=encoding) + empty(most + 1, 2, encoding=encoding) + send(3),
        empty(most + 1, 4, uniq=False, encoding=encoding) + empty(most + 1, 5, flag=2, encoding=encoding),  # one-way
    ]
    seen = await lives(tmp_path, bursts, native_module() if native else None)
    answers = {one.opaque: one for one in decode_frames(b"".join(seen.answers))[0]}
    assert sorted(answers) == [1, 2, 3, 4]
    assert len(answers[1].fields["msgId"].split(",")) == most
    for number in (2, 4):
        assert answers[number].code == ResponseCode.MESSAGE_ILLEGAL
        told = f"{most + 1} messages in it, and no answer can carry the ids of more than {most}"
        assert told in (answers[number].remark or "")
    assert answers[3].fields["queueOffset"] == str(1 + most)  # nothing of the refused one stands before it
    if native:
        assert seen.by_kernel == most  # what is behind a send that was left is left, too
