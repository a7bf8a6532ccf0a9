"""Batches through the native kernel that it cannot take whole, when their first messages were made into records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyromq.protocol.batch import BatchEntry, encode_batch
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


async def test_a_spoilt_batch_that_does_not_fit_ends_no_file(tmp_path: Path) -> None:
    wide = encode_batch([BatchEntry(b"y" * 900)] * 5)
    bursts = [send(1, body=b"x" * 4000), send(2, 320, body=wide[:-3]), send(3), send(4, 320, body=wide), send(5)]
    small: dict[str, Any] = {"files_ahead": True, "commit_log_file_bytes": 8192}
    ours = await lives(tmp_path, bursts, native_module(), **small)
    theirs = await lives(tmp_path, bursts, None, **small)
    assert ours.by_kernel == 3 + 5
    assert ours[:3] == theirs[:3]
