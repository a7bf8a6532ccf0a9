"""The life of one message, asked for at every step of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pyromq.model.codes import ResponseCode
from pyromq.model.ids import UniqueIds, offset_message_id
from pyromq.model.recall_handle import RecallHandle
from pyromq.protocol.requests import RequestCode
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.broker.transactions.test_transactions import register
from tests.broker.virtual import START_MS, Virtual, virtual_broker

HALF = "RMQ_SYS_TRANS_HALF_TOPIC"
ANY_HOUR = ";".join(f"{hour:02d}" for hour in range(24))


async def life_of(life: Virtual, id_: str = "U", topic: str = "T") -> dict[str, Any]:
    answer = await life.call(RequestCode.MESSAGE_LIFE, topic=topic, id=id_)
    assert answer.code == 0, answer.remark
    found: dict[str, Any] = json.loads(bytes(answer.body))
    return found


def groups(found: dict[str, Any]) -> dict[str, Any]:
    """By name, without the time at which it may go."""
    return {
        one["group"]: {name: value for name, value in one.items() if name not in ("group", "leavesMs")}
        for one in found["groups"]
    }


def steps(found: dict[str, Any]) -> list[str]:
    return [one["what"] for one in found["history"]]


async def commit(life: Virtual, topic: str, group: str, offset: int) -> None:
    fields: dict[str, Any] = {"topic": topic, "consumerGroup": group, "queueId": 0, "commitOffset": offset}
    assert (await life.call(RequestCode.UPDATE_CONSUMER_OFFSET, **fields)).code == 0


async def give_back(life: Virtual, topic: str, group: str = "G", level: int = 0) -> None:
    newest = life.stored(topic)[-1]
    fields: dict[str, Any] = {"offset": newest.physical_offset, "group": group, "delayLevel": level}
    assert (await life.call(RequestCode.CONSUMER_SEND_MSG_BACK, **fields)).code == 0


async def test_ready_in_flight_consumed_in_retry_and_dead(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        await life.send(properties={"UNIQ_KEY": "U", "KEYS": "order-1", "TAGS": "paid"})
        found = await life_of(life)
        assert (found["state"], found["keys"], found["tags"], found["groups"]) == ("ready", "order-1", "paid", [])
        assert steps(found) == ["stored"]
        (record,) = life.stored("T")
        place = offset_message_id(record.store_host, record.physical_offset)
        assert found["history"][0]["offsetId"] == place
        assert await life_of(life, place) == found
        assert await life_of(life, "order-1") == found

        await life.pull(group="G")
        await commit(life, "T", "G", 0)
        assert groups(await life_of(life)) == {"G": {"state": "ready"}}
        await life.pull(group="G", offset=1)
        assert groups(await life_of(life)) == {"G": {"state": "in flight"}}
        await commit(life, "T", "G", 1)
        assert groups(await life_of(life)) == {"G": {"state": "consumed"}}

        await give_back(life, "T")
        waiting = {"state": "in retry", "retry": 1, "untilMs": START_MS + 10_000}
        assert groups(await life_of(life)) == {"G": waiting}
        await life.advance(10)
        found = await life_of(life)
        assert groups(found) == {"G": {"state": "ready", "retry": 1}}
        assert steps(found) == ["stored", "waits for a retry", "on the retry topic"]
        await life.pull("%RETRY%G", group="G", offset=1)
        assert groups(await life_of(life)) == {"G": {"state": "in flight", "retry": 1}}
        await give_back(life, "%RETRY%G", level=-1)
        await life.pull(group="H")
        await commit(life, "T", "H", 1)
        found = await life_of(life)
        dead = {"state": "dead", "retry": 2, "atMs": START_MS + 10_000}
        assert groups(found) == {"G": dead, "H": {"state": "consumed"}}
        assert steps(found)[-1] == "dead"
        assert found["groups"][0]["leavesMs"] == START_MS + 10_000 + 72 * 3_600_000


async def test_timed_until_it_is_due(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        await life.send(properties={"UNIQ_KEY": "U", "DELAY": "3"})
        found = await life_of(life)
        assert (found["state"], found["untilMs"], found["overdue"]) == ("timed", START_MS + 10_000, False)
        await life.advance(10)
        found = await life_of(life)
        assert (found["state"], steps(found)) == ("ready", ["timed", "stored"])


async def test_timers_and_what_was_recalled(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path, recall_message_enable=True) as life:
        for unique in ("A", "B"):
            await life.send(properties={"UNIQ_KEY": unique, "TIMER_DELAY_SEC": "10"})
        found = await life_of(life, "A")
        assert (found["state"], found["untilMs"], steps(found)) == ("timed", START_MS + 10_000, ["timed"])
        await life.advance(2)
        handle = RecallHandle("T", "broker-a", START_MS + 9_001, "A").encode()
        fields: dict[str, Any] = {"producerGroup": "P", "topic": "T", "recallHandle": handle}
        assert (await life.call(RequestCode.RECALL_MESSAGE, **fields)).code == 0
        found = await life_of(life, "A")
        assert (found["state"], found["atMs"]) == ("recalled", START_MS + 2_000)
        await life.advance(10)
        assert (await life_of(life, "A"))["state"] == "recalled"
        found = await life_of(life, "B")
        assert (found["state"], steps(found)) == ("ready", ["timed", "stored"])


async def half(life: Virtual, unique: str) -> None:
    pairs = {"UNIQ_KEY": unique, "TRAN_MSG": "true", "PGROUP": "P"}
    answer = await life.send(properties=pairs, sysFlag=4, bornTimestamp=life.clock.now_ms())
    assert answer.code == 0, answer.remark


async def end(life: Virtual, unique: str, how: int) -> None:
    found = [one for one in life.stored(HALF) if f"UNIQ_KEY\x01{unique}\x02" in one.properties.decode() + "\x02"][-1]
    fields: dict[str, Any] = {
        "producerGroup": "P",
        "tranStateTableOffset": found.queue_offset,
        "commitLogOffset": found.physical_offset,
        "commitOrRollback": how,
        "msgId": unique,
    }
    assert (await life.call(RequestCode.END_TRANSACTION, **fields)).code == 0


async def test_half_with_its_checks_then_committed_rolled_back_or_given_up(tmp_path: Path) -> None:
    clock = ManualClock(START_MS)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    async with virtual_broker(tmp_path, disk, clock, transaction_check_max=2) as life:
        register(life)
        for unique in ("A", "B", "C"):
            await half(life, unique)
        found = await life_of(life, "A")
        assert (found["state"], found["checks"], steps(found)) == ("half", 0, ["half"])
        await life.advance(31)
        assert (await life_of(life, "A"))["checks"] == 1
        await end(life, "A", 8)
        await end(life, "B", 12)
        assert steps(await life_of(life, "A")) == ["half", "stored"]
        found = await life_of(life, "B")
        assert (found["state"], "checks" in found) == ("rolled back", False)  # it was asked once: not "0 checks"
        await life.advance(90)
        found = await life_of(life, "C")
        assert (found["state"], steps(found)) == ("given up", ["half", "given up"])
    async with virtual_broker(tmp_path, disk, clock) as life:
        states = [(await life_of(life, unique))["state"] for unique in ("A", "B", "C")]
        assert states == ["ready", "rolled back", "given up"]


async def test_expired_and_never_there(tmp_path: Path) -> None:
    clock = ManualClock(START_MS)
    ids = UniqueIds("127.0.0.1", 1, 2, clock.now_ms)
    first, never = ids.next(), UniqueIds("127.0.0.1", 1, 2, lambda: START_MS + 9_000_000_000).next()
    settings: dict[str, Any] = {
        "file_reserved_hours": 1,
        "delete_when": ANY_HOUR,
        "commit_log_file_bytes": 1 << 16,
        "dead_letter_reserved_hours": 24,
    }
    disk = SimulatedDisk(now_ms=clock.now_ms)
    async with virtual_broker(tmp_path, disk, clock, **settings) as life:
        await life.send(properties={"UNIQ_KEY": first})
        (record,) = life.stored("T")
        place = offset_message_id(record.store_host, record.physical_offset)
        await life.send(properties={"UNIQ_KEY": "D"})
        await give_back(life, "T", level=-1)
        leaves = (await life_of(life, first))["leavesMs"]
        assert leaves == START_MS + 3_600_000
        await life.advance(1)
        for _ in range(40):
            await life.send(topic="Fill", body=bytes(4000))
        await life.advance(2 * 3600)
        assert life.bodies("T") == []
        gone_at = (await life_of(life, first))["atMs"]
        assert leaves <= gone_at <= leaves + 20_000
        dead = await life_of(life, "D")
        assert (dead["state"], dead["atMs"], groups(dead)["G"]["state"]) == ("expired", gone_at, "dead")
    async with virtual_broker(tmp_path, disk, clock, **settings) as life:
        for wanted in (first, place):
            gone = await life_of(life, wanted)
            assert (gone["state"], gone["atMs"]) == ("expired", gone_at)
        for wanted in (never, "nothing-like-an-id"):
            answer = await life.call(RequestCode.MESSAGE_LIFE, topic="T", id=wanted)
            assert answer.code == ResponseCode.QUERY_NOT_FOUND
            assert wanted in str(answer.remark)


async def test_a_key_of_several_messages_is_refused_with_their_ids(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        for unique in ("A", "B"):
            await life.send(properties={"UNIQ_KEY": unique, "KEYS": "k"})
        answer = await life.call(RequestCode.MESSAGE_LIFE, topic="T", id="k")
        assert answer.code != 0
        assert str(answer.remark) == "2 messages of T have the key k: ask for one of A, B"


async def test_another_topics_copies_are_not_its_own(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        await life.send(topic="T", properties={"UNIQ_KEY": "U"})
        await life.send(topic="Other", properties={"UNIQ_KEY": "U", "DELAY": "3"})
        newest = life.stored("T")[-1]
        await life.call(RequestCode.CONSUMER_SEND_MSG_BACK, offset=newest.physical_offset, group="G", delayLevel=0)
        assert steps(await life_of(life, topic="Other")) == ["timed"]
        assert steps(await life_of(life, topic="T")) == ["stored", "waits for a retry"]


@pytest.mark.parametrize("level", [0, 3])
async def test_after_a_kill_the_answer_is_the_same(tmp_path: Path, level: int) -> None:
    clock = ManualClock(START_MS)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    async with virtual_broker(tmp_path, disk, clock, killed=True) as life:
        await life.send(properties={"UNIQ_KEY": "U", "DELAY": str(level)})
        before = await life_of(life)
    async with virtual_broker(tmp_path, disk.kill(), clock) as life:
        after = await life_of(life)
        assert (after["state"], steps(after)) == (before["state"], steps(before))
