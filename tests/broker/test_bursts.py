"""A burst of puts in which one cannot be written: it is refused alone, and everybody else is answered."""

from __future__ import annotations

import asyncio
import logging
import struct
from pathlib import Path

import msgspec
import pytest

from pyromq.broker.intake.intake import Outcome, refusal
from pyromq.kernel.state import QueueTail
from pyromq.model.codes import ResponseCode
from pyromq.protocol.record import Record
from pyromq.protocol.requests import RequestCode
from pyromq.store.config import FlushMode
from tests.broker.retries.test_send_back import give_back
from tests.broker.virtual import Virtual, virtual_broker

MOST = (1 << 31) - 1


async def a_record(life: Virtual, **changes: object) -> Record:
    """Like one that was sent."""
    if not life.stored("T"):
        await life.send(body=b"first")
    return msgspec.structs.replace(life.stored("T")[0], **changes)


async def test_a_message_that_was_retried_2147483647_times_can_be_given_back_and_its_burst_is_answered(
    tmp_path: Path,
) -> None:
    async with virtual_broker(tmp_path) as life:
        await life.send(body=b"x", reconsumeTimes=MOST)
        (often,) = life.stored("T")
        assert often.reconsume_times == MOST
        given, *sent = await asyncio.gather(
            give_back(life, often, maxReconsumeTimes=MOST, level=1),
            *(life.send(body=b"%d" % number) for number in range(3)),
        )
        assert [one.code for one in (given, *sent)] == [0, 0, 0, 0]
        await life.advance(60)
        assert life.bodies("T") == ["x", "0", "1", "2"]
        dead = life.stored("%DLQ%G") + life.stored("%RETRY%G")
        assert [one.reconsume_times for one in dead] == [MOST]


def test_a_message_that_there_is_no_memory_for_may_be_sent_again() -> None:
    refused = refusal(MemoryError())
    assert (refused.code, "try again later" in str(refused)) == (ResponseCode.SYSTEM_BUSY, True)


async def test_a_record_that_cannot_be_encoded_is_refused_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with virtual_broker(tmp_path) as life:
        intake, told = life.broker.intake, list[Outcome]()
        good = await a_record(life)
        bad = msgspec.structs.replace(good, reconsume_times=1 << 31)
        for number in range(3):
            intake.put(msgspec.structs.replace(good, body=b"%d" % number), told.append)
            intake.put(msgspec.structs.replace(bad), told.append)
        intake.flush()
        assert [one.refusal is None for one in told] == [True, False] * 3
        assert life.bodies("T") == ["first", "0", "1", "2"]
        refusal = told[1].refusal
        assert refusal is not None
        assert refusal.code == ResponseCode.MESSAGE_ILLEGAL
        assert "cannot be written as a record, error" in str(refusal)
        lines = [line for line in caplog.records if line.getMessage().startswith("a record cannot be written")]
        assert len(lines) == 1  # three of them, one traceback
        assert lines[0].exc_info is not None
        assert lines[0].levelno == logging.ERROR


async def test_a_record_that_cannot_be_encoded_leaves_the_delay_loop_running(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        await life.send(body=b"later", properties={"DELAY": "1"})
        bad = await a_record(life, reconsume_times=1 << 31)
        told: list[Outcome] = []
        put = life.broker.intake.put

        def put_both(record: Record, done: object, wait_s: float = 0.0) -> None:
            life.broker.intake.put = put  # type: ignore[method-assign]
            put(bad, told.append)
            put(record, done, wait_s)  # type: ignore[arg-type]

        life.broker.intake.put = put_both  # type: ignore[method-assign]
        await life.advance(5)
        assert "later" in life.bodies("T")
        assert told[0].refusal is not None
        assert not life.broker.environment.loops.faults


async def test_a_batch_that_cannot_be_encoded_is_refused(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        told: list[Outcome] = []
        batch = await a_record(life, body=struct.pack(">iiiii", 22, 0, 0, 0, 1) + b"x\0\0", reconsume_times=1 << 31)
        life.broker.intake.put_batch(batch, told.append)
        assert told[0].refusal is not None
        assert told[0].refusal.code == ResponseCode.MESSAGE_ILLEGAL
        assert (await life.send(body=b"next")).code == 0


async def test_a_caller_that_fails_when_told_does_not_keep_the_others_from_their_answers(tmp_path: Path) -> None:
    def fails(outcome: Outcome) -> None:
        raise KeyError("gone")

    async with virtual_broker(tmp_path) as life:
        record, told = await a_record(life), list[Outcome]()
        for done in (fails, told.append, fails, told.append):
            life.broker.intake.put(msgspec.structs.replace(record), done)
        life.broker.intake.flush()
        assert [one.refusal for one in told] == [None, None]


async def test_a_caller_that_fails_when_told_does_not_keep_those_who_wait_for_the_disk(tmp_path: Path) -> None:
    def fails(outcome: Outcome) -> None:
        raise KeyError("gone")

    async with virtual_broker(tmp_path, flush_mode=FlushMode.SYNC) as life:
        sent = asyncio.ensure_future(life.send(body=b"first"))
        await life.clock.settle()
        await life.broker.store.flush_all()
        await sent
        record, told = await a_record(life), list[Outcome]()
        for done in (fails, told.append, fails, told.append):
            life.broker.intake.put(msgspec.structs.replace(record), done, 5.0)
        life.broker.intake.flush()
        assert not told
        await life.broker.store.flush_all()
        await life.clock.settle()
        assert [one.late for one in told] == [None, None]


async def test_who_listens_for_arrivals_and_fails_does_not_undo_a_send(tmp_path: Path) -> None:
    def fails(queue: QueueTail) -> None:
        raise KeyError(queue.topic)

    async with virtual_broker(tmp_path) as life:
        life.broker.store.on_arrival("T", fails)
        answer = await life.send(body=b"once")
        assert (answer.code, life.bodies("T")) == (0, ["once"])
        assert (await life.call(RequestCode.GET_MAX_OFFSET, topic="T", queueId=0)).fields["offset"] == "1"
