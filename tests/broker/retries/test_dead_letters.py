"""Dead letters and the log: listed with the time they have left, kept longer than their file, and gone in the end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pyromq.broker.retries.dead_letters import DIED, DeadLetters, file_leaves_ms
from pyromq.model.codes import ResponseCode
from pyromq.protocol.record import Record
from pyromq.protocol.requests import RequestCode
from pyromq.store.files.file_age import LogFile
from pyromq.store.log.retention import Retention
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.broker.virtual import START_MS, Virtual, properties, virtual_broker

HOUR_S = 3600
ANY_HOUR = ";".join(f"{hour:02d}" for hour in range(24))
SETTINGS: dict[str, Any] = {"file_reserved_hours": 2, "delete_when": ANY_HOUR, "commit_log_file_bytes": 1 << 16}


async def die(life: Virtual, *keys: str, group: str = "G") -> None:
    for key in keys:
        await life.send(body=key.encode(), properties={"KEYS": key, "UNIQ_KEY": f"id-{key}"})
        newest = life.stored("T")[-1]
        answer = await life.call(
            RequestCode.CONSUMER_SEND_MSG_BACK, offset=newest.physical_offset, group=group, delayLevel=-1
        )
        assert answer.code == 0, answer.remark


async def fill(life: Virtual, count: int = 40) -> None:
    """More than two files of other messages."""
    for _ in range(count):
        await life.send(topic="Fill", body=bytes(4000))


async def listed(life: Virtual, **fields: Any) -> dict[str, Any]:
    answer = await life.call(RequestCode.DEAD_LETTERS, **fields)
    assert answer.code == 0, answer.remark
    found: dict[str, Any] = json.loads(bytes(answer.body))
    return found


def test_a_file_leaves_its_time_after_it_was_last_written() -> None:
    files, hour = [LogFile(0, 100, 5_000), LogFile(100, 200, 9_000)], 3_600_000
    full, written_to = (
        Record(topic="T", queue_id=0, body=b"", properties=b"", physical_offset=at, store_timestamp=4_000)
        for at in (50, 150)
    )
    assert file_leaves_ms(files, full, 1, 10_000) == 5_000 + hour
    for now_ms in (4_000, 10_000, 4_000 + hour - 1):
        assert file_leaves_ms(files, written_to, 1, now_ms) == 4_000 + hour  # it does not move from call to call
        assert file_leaves_ms([], written_to, 1, now_ms) == 4_000 + hour
    assert file_leaves_ms(files, written_to, 1, 4_000 + hour) == 4_000 + 2 * hour  # reached, and still written to
    assert file_leaves_ms(files, written_to, 0, 10_000) == 10_000


async def test_listings_show_the_time_left_and_warn(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path, **SETTINGS | {"file_reserved_hours": 30}) as life:
        assert await listed(life) == {"groups": [], "lostForWantOfSpace": 0, "warnings": []}
        await die(life, "a", "b")
        await die(life, "c", group="H")
        await fill(life)
        written = life.broker.store.log_files()[0].modified_ms
        found = await listed(life)
        assert [(one["group"], one["messages"]) for one in found["groups"]] == [("G", 2), ("H", 1)]
        assert found["groups"][0]["leavesMs"] == written + 30 * 3_600_000
        assert found["warnings"] == []
        await life.advance(8 * HOUR_S)
        found = await listed(life, group="G")
        assert [(one["id"], one["topic"], one["attempts"]) for one in found["messages"]] == [
            ("id-a", "T", 1),
            ("id-b", "T", 1),
        ]
        assert found["messages"][0]["secondsLeft"] == (written - START_MS) // 1000 + 22 * HOUR_S
        assert found["warnings"] == [
            "the oldest may go in 22 h 0 min: send them again or copy them, "
            "or keep them longer (deadLetterReservedTime)"
        ]
        assert len((await listed(life, group="G", maxNum=1))["messages"]) == 1
        assert (await life.call(RequestCode.DEAD_LETTERS, group="nobody")).code == ResponseCode.TOPIC_NOT_EXIST


async def test_without_the_setting_they_go_with_the_log(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path, **SETTINGS) as life:
        await die(life, "a")
        await fill(life)
        await life.advance(3 * HOUR_S)
        assert life.bodies("%DLQ%G") == []
        assert (await listed(life))["groups"] == []


@pytest.mark.parametrize("killed", [False, True], ids=["stop", "kill"])
async def test_they_outlive_their_file_until_their_own_time(tmp_path: Path, killed: bool) -> None:
    """Two hours for the log, seven for the dead: carried three times, over restarts, then they really go."""
    settings = SETTINGS | {"dead_letter_reserved_hours": 7}
    clock = ManualClock(START_MS)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    originals: list[dict[str, str]] = []
    for hour in (0, 2, 4, 6):
        async with virtual_broker(tmp_path, disk, clock, killed=killed, **settings) as life:
            if hour == 0:
                await die(life, "a", "b")
                originals = [properties(record) for record in life.stored("%DLQ%G")]
            await fill(life)
            first = life.broker.store.commit_log.start
            await life.advance(2 * HOUR_S - 1)
            assert life.bodies("%DLQ%G") == ["a", "b"]
            (message, _) = (await listed(life, group="G"))["messages"]
            assert message["diedMs"] == START_MS
            assert message["leavesMs"] == max(START_MS + 7 * 3_600_000, message["leavesMs"])
            await life.advance(1)
            await fill(life, 1)
            assert life.broker.store.commit_log.start > first or hour == 0
        if killed:
            disk = disk.kill()
    async with virtual_broker(tmp_path, disk, clock, **settings) as life:
        kept = life.stored("%DLQ%G")
        assert [properties(record) for record in kept] == [one | {DIED: str(START_MS)} for one in originals]
        assert [record.reconsume_times for record in kept] == [1, 1]
        await fill(life)
        await life.advance(3 * HOUR_S)
        assert life.bodies("%DLQ%G") == []


async def test_a_kill_between_copy_and_deletion_leaves_one(tmp_path: Path) -> None:
    settings = SETTINGS | {"dead_letter_reserved_hours": 24}
    async with virtual_broker(tmp_path, **settings) as life:
        await die(life, "a")
        await fill(life)
        file = life.broker.store.log_files()[0]
        carrier = life.broker.retention.carriers[-3]
        await carrier(file.start, file.end)
        await carrier(file.start, file.end)
        assert life.bodies("%DLQ%G") == ["a", "a"]  # the old one, which goes, and one copy


async def test_for_want_of_space_half_a_file_may_be_lost_loudly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with virtual_broker(tmp_path, **SETTINGS | {"dead_letter_reserved_hours": 24}) as life:
        await life.send(body=bytes(6000), properties={"UNIQ_KEY": "U"})
        fields: dict[str, Any] = {"offset": life.stored("T")[0].physical_offset, "delayLevel": -1}
        for group in "ABCDEFGH":
            await life.call(RequestCode.CONSUMER_SEND_MSG_BACK, group=group, **fields)
        await fill(life)
        monkeypatch.setattr(Retention, "is_short", property(lambda self: True))
        await life.advance(3 * HOUR_S)
        left = [group for group in "ABCDEFGH" if life.stored(f"%DLQ%{group}")]
        found = await listed(life)
        assert len(left) == 5
        assert found["lostForWantOfSpace"] == 3
        assert "DEAD LETTERS ARE LOST" in caplog.text
        assert any("whatever their age" in one for one in found["warnings"])


async def test_a_refused_copy_keeps_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with virtual_broker(tmp_path, **SETTINGS | {"dead_letter_reserved_hours": 24}) as life:
        await die(life, "a")
        await fill(life)
        original = DeadLetters._put_again

        def refuse(self: DeadLetters, record: Any, refusals: list[Any]) -> None:
            refusals.append(RuntimeError("no room"))

        monkeypatch.setattr(DeadLetters, "_put_again", refuse)
        await life.advance(3 * HOUR_S)
        assert life.broker.store.commit_log.start == 0
        monkeypatch.setattr(DeadLetters, "_put_again", original)
        await life.advance(60)
        assert life.broker.store.commit_log.start > 0
        assert life.bodies("%DLQ%G") == ["a"]
