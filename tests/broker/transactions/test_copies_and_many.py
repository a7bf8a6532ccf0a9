"""Half messages that were put again, and very many of them: none is ended twice, none fills the log."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from pyromq.broker.transactions.ops import OpMessages
from pyromq.model.codes import ResponseCode
from pyromq.protocol.requests import RequestCode
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.broker.transactions.test_transactions import COMMIT, GONE, HALF, ROLLBACK, end, ops, register, send_half
from tests.broker.virtual import START_MS, Virtual, virtual_broker

SMALL_LOG: dict[str, Any] = {
    "max_log_bytes": 1 << 17,
    "commit_log_file_bytes": 1 << 16,
    "transaction_check_max": 1000,
}


async def push_out(life: Virtual) -> None:
    """So much is sent that the oldest log files go."""
    start = life.broker.store.commit_log.start
    for _ in range(60):
        await life.send(topic="Fill", body=bytes(4000))
    await life.advance(60)
    assert life.broker.store.commit_log.start > start


async def test_what_was_carried_twice_is_still_ended_by_its_first_place(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path, **SMALL_LOG) as life:
        half = await send_half(life)
        await push_out(life)
        await push_out(life)
        assert life.stored(HALF)[-1].queue_offset >= 2
        assert (await end(life, half, COMMIT)).code == 0
        assert (await end(life, half, COMMIT)).code == 0
        assert life.bodies("T") == ["k"]
        assert (await end(life, half, ROLLBACK)).code == ResponseCode.SYSTEM_ERROR


async def test_a_kill_between_copy_and_note_leaves_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock(START_MS)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    async with virtual_broker(tmp_path, disk, clock, killed=True) as life:
        register(life)
        old = await send_half(life)
        await life.advance(60)
        monkeypatch.setattr(OpMessages, "gather", lambda self, offset: None)
        for carrier in life.broker.retention.carriers:
            await carrier(0, life.broker.store.commit_log.end)
        monkeypatch.undo()
        assert (len(life.stored(HALF)), ops(life)) == (2, [])
    async with virtual_broker(tmp_path, disk.kill(), clock) as life:
        (line,) = life.broker.transactions.listing.undecided(9)
        assert line.checks == 2, "what was counted goes with it"
        producer = register(life)
        await life.advance(30)
        (asked,) = producer.sent
        assert asked.fields["tranStateTableOffset"] == "1"
        assert (await end(life, old, COMMIT)).code == 0
        await life.advance(600)
        assert (life.bodies("T"), len(producer.sent), sorted(ops(life))) == (["k"], 1, [0, 1])


async def test_a_kill_between_giving_up_and_its_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock(START_MS)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    async with virtual_broker(tmp_path, disk, clock, killed=True) as life:
        register(life)
        await send_half(life)
        monkeypatch.setattr(OpMessages, "gather", lambda self, offset: None)
        await life.advance(16 * 30)
        monkeypatch.undo()
        assert (len(life.stored(GONE)), ops(life)) == (1, [])
    async with virtual_broker(tmp_path, disk.kill(), clock) as life:
        await life.advance(600)
        assert (len(life.stored(GONE)), ops(life)) == (1, [0])


async def test_a_message_has_its_own_immunity(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        producer = register(life)
        await send_half(life, CHECK_IMMUNITY_TIME_IN_SECONDS="100")
        await life.advance(90)
        assert producer.sent == []
        await life.advance(30)
        assert len(producer.sent) == 1


async def test_checks_leave_the_log_as_it_is_and_one_line_says_that_nobody_can_be_asked(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with virtual_broker(tmp_path, commit_log_file_bytes=4 << 20) as life:
        for number in range(300):
            await send_half(life, str(number))
        end_of_log = life.broker.store.commit_log.end
        with caplog.at_level(logging.WARNING):
            await life.advance(40)
        in_vain = [record for record in caplog.records if "can be asked" in record.getMessage()]
        assert len(in_vain) == 1
        producer = register(life)
        await life.advance(14 * 30)
        assert life.broker.store.commit_log.end == end_of_log, "fourteen rounds wrote nothing to it"
        assert len(producer.sent) > 10 * 300


async def test_large_ones_are_asked_about_in_smaller_portions(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path, commit_log_file_bytes=16 << 20) as life:
        producer = register(life)
        for number in range(6):
            pairs = {"TRAN_MSG": "true", "PGROUP": "P", "UNIQ_KEY": f"id-{number}"}
            born = life.clock.now_ms()
            await life.send(body=bytes(500_000), properties=pairs, sysFlag=4, bornTimestamp=born)
        await life.advance(30)
        assert len(producer.sent) == 3, "a megabyte, then a pause"
        await life.advance(1)
        assert len(producer.sent) == 6


async def test_the_listing_goes_on_where_it_ended(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        register(life)
        halves = [await send_half(life, str(number)) for number in range(5)]
        await end(life, halves[1], COMMIT)
        await life.advance(30)

        async def ask(**fields: Any) -> dict[str, Any]:
            answer = await life.call(RequestCode.HALF_MESSAGES, **fields)
            assert answer.code == 0, answer.remark
            found: dict[str, Any] = json.loads(bytes(answer.body))
            return found

        first = await ask(most=3)
        assert [one["id"] for one in first["halfMessages"]] == ["id-0", "id-2", "id-3"]
        assert (first["total"], first["next"]) == (4, 4)
        rest = await ask(most=3, from_=first["next"])
        assert [(one["id"], one["ageSeconds"], one["checks"]) for one in rest["halfMessages"]] == [("id-4", 30, 1)]
        assert rest["next"] is None
        assert (await ask(topic="Other"))["halfMessages"] == []
        assert (await ask(producerGroup="P"))["total"] == 4
        assert (await life.call(RequestCode.HALF_MESSAGES, from_="x")).code == ResponseCode.SYSTEM_ERROR


async def fullest_half(life: Virtual) -> int:
    """Sends half messages with more and more properties; how long the longest is that is taken."""
    low, high = 0, 1 << 15
    while high - low > 1:
        middle = (low + high) // 2
        pairs = {"TRAN_MSG": "true", "PGROUP": "P", "UNIQ_KEY": "id", "pad": "x" * middle}
        born = life.clock.now_ms()
        answer = await life.send(body=b"k", properties=pairs, sysFlag=4, bornTimestamp=born)
        low, high = (middle, high) if answer.code == 0 else (low, middle)
    return low


async def test_one_that_has_no_room_for_a_count_is_asked_about_and_given_up(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path, transaction_check_max=2) as life:
        length = await fullest_half(life)
        assert length > 32_000
        producer = register(life)
        await life.advance(31)
        assert producer.sent, "it is asked about"
        await life.advance(90)
        assert max(len(record.properties) for record in life.stored(GONE)) > length
        assert life.broker.transactions.listing.undecided(99) == []


# --- a forced deletion ----------------------------------------------------------------------------------------------


async def force_out(life: Virtual) -> None:
    """The oldest log file goes, and nobody asked the carriers."""
    for _ in range(20):
        await life.send(topic="Fill", body=bytes(4000))
    await life.broker.store.drop_oldest_log_file()


async def lost(life: Virtual) -> int:
    parked: dict[str, int] = json.loads(bytes((await life.call(RequestCode.INSPECT)).body))["parked"]
    return parked.get("half messages, LOST", 0)


@pytest.mark.parametrize("known", [True, False], ids=["known", "unseen"])
async def test_what_a_forced_deletion_takes_is_counted_and_said(
    known: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with virtual_broker(tmp_path, commit_log_file_bytes=1 << 16) as life:
        for number in range(3):
            half = await send_half(life, f"k{number}")
        assert (await end(life, half, COMMIT)).code == 0
        if known:
            await life.advance(31)
        await force_out(life)
        await life.advance(31)
        assert await lost(life) == 2
        assert "HALF MESSAGES ARE LOST" in caplog.text
        assert ("id-k0" in caplog.text) is known
        await life.advance(31)
        assert await lost(life) == 2
        assert life.broker.transactions.listing.undecided(9) == []


async def test_what_went_just_before_a_kill_is_missed_at_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock(START_MS)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    async with virtual_broker(tmp_path, disk, clock, killed=True, commit_log_file_bytes=1 << 16) as life:
        await send_half(life, "k0")
        half = await send_half(life, "k1")
        assert (await end(life, half, COMMIT)).code == 0
        await life.advance(31)
        await life.broker.tables.offsets_saved()  # as every five seconds
        await life.clock.settle()
        await force_out(life)
    async with virtual_broker(tmp_path, disk.kill(), clock, commit_log_file_bytes=1 << 16) as life:
        assert await lost(life) == 2, "one was committed, but the note about that went too"
        assert "perhaps_fewer=True" in caplog.text
