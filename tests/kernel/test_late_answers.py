"""syncFlushTimeout holds for answers of the kernel too: the same bytes as Python's, at the same time."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from pyromq.model.codes import ResponseCode
from pyromq.protocol.batch import BatchEntry
from pyromq.protocol.command import Encoding
from pyromq.store.config import FlushMode
from tests.broker.virtual import virtual_broker
from tests.kernel.test_native_send import batch, send
from tests.kernel.twins import PEER, choose, native_module, ready
from tests.transport.support import raw_peer


async def late_life(folder: Path, module: ModuleType | None, burst: bytes) -> tuple[list[int], bytes, int]:
    """Codes of the answers, their bytes, and what the kernel took. The flush comes after the time-out."""
    with pytest.MonkeyPatch.context() as patch:
        choose(patch, module)
        async with virtual_broker(folder, flush_mode=FlushMode.SYNC, sync_flush_timeout=2_000) as life:
            await ready(life)
            peer = raw_peer(life.broker.servers[0], PEER)
            peer.write(burst)
            await life.clock.advance(1.9)
            assert peer.received == []
            await life.clock.advance(0.2)
            await life.broker.store.flush_log()
            await life.clock.settle()
            peer.write(send(99))  # what comes later is not late
            await life.clock.settle()
            await life.broker.store.flush_log()
            await life.clock.settle()
            taken = sum(one.kernel.messages for one in life.broker.verdicts)
            return [one.code for one in peer.received], bytes(peer.raw), taken


@pytest.mark.parametrize("encoding", list(Encoding))
async def test_late_answers_are_what_python_says(tmp_path: Path, encoding: Encoding) -> None:
    burst = send(1, encoding=encoding) + send(2, encoding=encoding, queue=1)
    burst += batch(3, BatchEntry(b"a"), BatchEntry(b"b"), encoding=encoding)
    ours = await late_life(tmp_path, native_module(), burst)
    theirs = await late_life(tmp_path, None, burst)
    assert ours[0] == [ResponseCode.FLUSH_DISK_TIMEOUT] * 3 + [ResponseCode.SUCCESS]
    assert ours[:2] == theirs[:2]
    assert (ours[2], theirs[2]) == (5, 0)
