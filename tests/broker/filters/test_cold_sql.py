"""SQL92 pulls over old messages: records that an expression is asked of are read in a helper, never on the loop."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from pyromq.model.codes import ResponseCode
from pyromq.protocol.messages import decode_messages
from pyromq.store.real_disk import RealFile
from tests.broker.running import Running, running_broker

T = TypeVar("T")
MESSAGES = 300
PAGE = 256


class ColdLog:
    """No page of the commit log is in the page cache until it was read in the helper. Queues are warm."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.warm: set[tuple[str, int]] = set()
        self.fetched = 0
        self.in_helper = False
        real = RealFile.pread

        def pages(file: RealFile, offset: int, length: int) -> set[tuple[str, int]]:
            numbers = range(offset // PAGE, -(-(offset + length) // PAGE))
            return {(file.name, page) for page in numbers} if file.name.startswith("commitlog/") else set()

        def pread(file: RealFile, offset: int, length: int) -> bytes:
            wanted = pages(file, offset, length)
            assert self.in_helper or wanted <= self.warm, f"the loop waits for {file.name} at {offset}"
            self.warm |= wanted
            return real(file, offset, length)

        def pread_resident(file: RealFile, offset: int, length: int) -> bytes | None:
            return real(file, offset, length) if pages(file, offset, length) <= self.warm else None

        monkeypatch.setattr(RealFile, "pread", pread)
        monkeypatch.setattr(RealFile, "pread_resident", pread_resident)

    async def __call__(self, call: Callable[[], T]) -> T:
        self.fetched += 1
        self.in_helper = True
        try:
            return call()
        finally:
            self.in_helper = False


async def walk(broker: Running, text: str) -> list[int]:
    """All that a consumer gets that begins at 0 and goes on where it is told."""
    found: list[int] = []
    offset = 0
    while offset < MESSAGES:
        fields: dict[str, Any] = {"expressionType": "SQL92", "offset": offset, "tags": text}
        answer = await broker.pull(**fields)
        assert answer.code in (ResponseCode.SUCCESS, ResponseCode.PULL_RETRY_IMMEDIATELY), answer.remark
        found += [int(message.body) for message in decode_messages(bytes(answer.body))]
        assert int(answer.fields["nextBeginOffset"]) > offset
        offset = int(answer.fields["nextBeginOffset"])
    return found


@pytest.mark.parametrize("step", [1, 7, 50, MESSAGES + 1])
async def test_cold_records_are_sifted_as_warm_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    async with running_broker(tmp_path, enable_property_filter=True) as broker:
        for number in range(MESSAGES):
            properties = {"n": str(number), "hit": str(number % step == step - 1).lower()}
            assert (await broker.send(body=b"%d" % number, properties=properties)).code == 0
        medium = ColdLog(monkeypatch)
        monkeypatch.setattr(broker.broker.store, "_run_blocking", medium)
        assert await walk(broker, "hit = TRUE") == list(range(step - 1, MESSAGES, step))
        assert medium.fetched > 0
        cold = medium.fetched
        assert await walk(broker, "hit = TRUE") == list(range(step - 1, MESSAGES, step))
        assert medium.fetched == cold  # all is warm now
