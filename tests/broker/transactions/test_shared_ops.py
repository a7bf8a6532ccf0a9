"""Ends of one turn share one op record: it names all of them, and none is forgotten by a full disk or a stop."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pyromq.broker.transactions.half_records import park_half
from pyromq.broker.transactions.ops import OFFSETS_IN_OP
from pyromq.kernel.state import Reason
from pyromq.model.names import OP_HALF_TOPIC
from pyromq.protocol.properties import decode_properties, encode_properties
from pyromq.protocol.record import Record
from pyromq.store.files.disk import DiskFull
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.broker.transactions.test_transactions import COMMIT, OP, end, ops, register, send_half
from tests.broker.virtual import START_MS, virtual_broker


async def test_commits_of_one_turn_leave_few_ops(tmp_path: Path) -> None:
    count = OFFSETS_IN_OP + 5
    async with virtual_broker(tmp_path) as life:
        halves = [await send_half(life, str(number)) for number in range(count)]
        answers = await asyncio.gather(*(end(life, half, COMMIT) for half in halves))
        assert {answer.code for answer in answers} == {0}
        await life.clock.settle()
        assert [len(record.body.split(b",")) - 1 for record in life.stored(OP)] == [OFFSETS_IN_OP, 5]
        assert sorted(ops(life)) == list(range(count))
        assert len(life.bodies("T")) == count


async def test_an_op_that_cannot_be_stored_is_stored_by_the_next_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with virtual_broker(tmp_path) as life:
        producer = register(life)
        halves = [await send_half(life, key) for key in "abc"]
        put = life.broker.store.put

        def no_room_for_ops(records: list[Record]) -> Any:
            if any(record.topic == OP_HALF_TOPIC for record in records):
                raise DiskFull("no room: a test took it")
            return put(records)

        monkeypatch.setattr(life.broker.store, "put", no_room_for_ops)
        answers = await asyncio.gather(*(end(life, half, COMMIT) for half in halves))
        assert [answer.code for answer in answers] == [0, 0, 0]
        await life.clock.settle()
        assert (sorted(life.bodies("T")), ops(life)) == (["a", "b", "c"], [])
        monkeypatch.undo()
        await life.advance(60)
        assert (sorted(ops(life)), len(life.stored(OP)), producer.sent) == ([0, 1, 2], 1, [])


async def test_a_stop_right_behind_a_commit_stores_its_op(tmp_path: Path) -> None:
    clock = ManualClock(START_MS)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    async with virtual_broker(tmp_path, disk, clock) as life:
        half = await send_half(life)
        ending = asyncio.ensure_future(end(life, half, COMMIT))
        await asyncio.sleep(0)
        assert life.broker.storage.append_gate.closed & Reason.GATHERED, "the message itself is not put yet"
    assert (await ending).code == 0
    async with virtual_broker(tmp_path, disk, clock) as life:
        producer = register(life)
        await life.advance(60)
        assert (life.bodies("T"), ops(life), producer.sent) == (["k"], [0], [])


@pytest.mark.parametrize(
    "more", [{}, {"REAL_TOPIC": "forged"}, {"__transactionId__": "forged"}, {"MY_REAL_QID": "9"}, {"__CRC32#": "1"}]
)
def test_a_half_has_one_value_of_what_the_broker_adds(more: dict[str, str]) -> None:
    sent = {"TRAN_MSG": "true", "PGROUP": "P", "UNIQ_KEY": "U"} | more
    record = Record(topic="T", queue_id=3, body=b"b", properties=encode_properties(sent))
    half = park_half(record, sent)
    assert half is not None
    added = {"REAL_TOPIC": "T", "REAL_QID": "3", "__transactionId__": "U"}
    kept = {name: value for name, value in sent.items() if name != "__CRC32#"}
    assert half.properties.count(b"\x02REAL_TOPIC\x01") == 1
    assert decode_properties(half.properties) == kept | added
