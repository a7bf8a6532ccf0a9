"""Copies of messages that were not acked in time: as Java writes them, where they go, and what may go wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pyromq.broker.loop_quarantine import LoopQuarantine
from pyromq.broker.pop.stored.retry_copies import Hidden, RetryCopies
from pyromq.protocol.properties import decode_properties
from pyromq.protocol.record import Record
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.broker.pop.stored.golden_records import records_of
from tests.broker.virtual import START_MS, Virtual, virtual_broker
from tests.store.golden_store import unpack

GROUP, TOPIC, RETRY = "G", "T", "%RETRY%G_T"
PAIRS = {"UNIQ_KEY": "id", "TAGS": "tag"}


def copies(life: Virtual) -> RetryCopies:
    base = life.broker.base
    quarantine = LoopQuarantine(base.storage.quarantine, "revive")
    return RetryCopies(base.live, base.topics, base.groups, base.offsets, life.broker.sends.access, quarantine)


def hidden(*offsets: int, topic: str = TOPIC, suspend: bool = False) -> Hidden:
    return Hidden(GROUP, topic, 0, START_MS - 1000, START_MS, offsets, suspend)


async def sent(life: Virtual, *bodies: str) -> None:
    life.broker.groups.ensure(GROUP, life.broker.live.config)
    for body in bodies:
        answer = await life.send(TOPIC, body.encode(), properties=PAIRS | {"UNIQ_KEY": f"id-{body[:9]}"})
        assert answer.code == 0, answer.remark


def pairs_of(record: Record) -> dict[str, str]:
    return {name: value for name, value in decode_properties(record.properties).items() if name != "__CRC32#"}


async def test_a_copy_is_that_of_java(tmp_path: Path) -> None:
    """All copies of the golden store, made again from their originals."""
    records = list(records_of(unpack("clean", tmp_path)))
    originals = {
        pairs_of(one).get("UNIQ_KEY"): one for one in records if "Golden" in one.topic and "%" not in one.topic
    }
    javas = [one for one in records if one.topic.startswith("%RETRY%") and "1ST_POP_TIME" in pairs_of(one)]
    assert len(javas) == 7
    async with virtual_broker(tmp_path / "ours") as life:
        maker = copies(life)
        maker.access = replace(maker.access, store_host=javas[0].store_host)
        for expected in javas:
            original = originals[pairs_of(expected)["UNIQ_KEY"]]
            pairs = pairs_of(expected)
            group, pop_time = pairs["ORIGIN_GROUP"], int(pairs["1ST_POP_TIME"])
            made = maker.copy_of(Hidden(group, original.topic, original.queue_id, pop_time, 0, ()), original)
            assert pairs_of(made) == pairs
            for field in ("topic", "queue_id", "body", "flag", "sys_flag", "born_timestamp", "born_host", "store_host"):
                assert getattr(made, field) == getattr(expected, field), field
            assert made.reconsume_times == expected.reconsume_times == 1


async def test_the_retry_topic_is_made_and_read_from_its_start(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        await sent(life, "a", "b", "c")
        result = await copies(life).put_again(hidden(0, 2))
        assert (life.bodies(RETRY), result.failed) == (["a", "c"], [])
        assert result.end == life.broker.store.appended.value
        topic = life.broker.topics.find(RETRY)
        assert topic is not None
        assert (topic.read_queue_nums, topic.write_queue_nums, topic.perm) == (1, 1, 6)
        assert life.broker.offsets.find(RETRY, GROUP, 0) == 0


async def test_attempts_count_and_the_first_pop_time_stays(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        await sent(life, "a")
        maker = copies(life)
        await maker.put_again(hidden(0))
        await maker.put_again(Hidden(GROUP, RETRY, 0, START_MS + 5000, START_MS, (0,)))
        await maker.put_again(Hidden(GROUP, RETRY, 0, START_MS + 9000, START_MS, (1,), suspend=True))
        stored = life.stored(RETRY)
        assert [one.reconsume_times for one in stored] == [1, 2, 2]
        assert {pairs_of(one)["1ST_POP_TIME"] for one in stored} == {str(START_MS - 1000)}
        assert {pairs_of(one)["ORIGIN_GROUP"] for one in stored} == {GROUP}


async def test_the_second_form_of_names_and_queues_of_the_same_number(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path, enable_retry_topic_v2=True, use_separate_retry_queue=True) as life:
        await sent(life)
        await life.send(TOPIC, b"x", queue=3)
        await copies(life).put_again(Hidden(GROUP, TOPIC, 3, START_MS, START_MS, (0,)))
        assert life.bodies("%RETRY%G+T", 3) == ["x"]
        topic = life.broker.topics.find("%RETRY%G+T")
        assert topic is not None
        assert topic.read_queue_nums == 4


async def test_messages_that_are_not_there_are_counted(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        await sent(life, "a", "b")
        maker = copies(life)
        result = await maker.put_again(hidden(1, 2, 7))
        assert (life.bodies(RETRY), result.failed, maker.gone) == (["b"], [], 2)
        assert (await maker.put_again(Hidden(GROUP, TOPIC, 9, 0, 0, (0, 1)))).failed == []
        assert maker.gone == 4


async def test_topics_and_groups_that_were_deleted_are_passed_over(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        await sent(life, "a")
        maker = copies(life)
        await maker.put_again(Hidden("Nobody", TOPIC, 0, 0, 0, (0,)))
        await maker.put_again(Hidden(GROUP, "%RETRY%G_Gone", 0, 0, 0, (0, 1)))
        assert maker.skipped == 3
        assert life.broker.topics.find("%RETRY%Nobody_T") is None


async def test_a_copy_of_before_a_kill_is_found(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        await sent(life, "a", "b")
        maker = copies(life)
        await maker.put_again(hidden(0))
        await maker.put_again(hidden(0, 1), doubtful=True)
        assert life.bodies(RETRY) == ["a", "b"]
        await maker.put_again(hidden(0), doubtful=False)
        assert life.bodies(RETRY) == ["a", "b", "a"]


async def test_large_messages_are_read_in_shares(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path, commit_log_file_bytes=64 << 20) as life:
        await sent(life, *(str(number) * 3_000_000 for number in range(3)))
        await copies(life).put_again(hidden(0, 1, 2))
        assert [body[0] for body in life.bodies(RETRY)] == ["0", "1", "2"]


async def test_a_full_disk_says_which_must_be_tried_again(tmp_path: Path) -> None:
    clock = ManualClock(START_MS)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    async with virtual_broker(tmp_path, disk, clock) as life:
        await sent(life, "a" * 30_000, "b")
        maker = copies(life)
        disk.capacity = disk.usage().used
        for _ in range(200):
            result = await maker.put_again(hidden(0))
            if result.failed:
                break
        assert result.failed == [0]
        assert "disk is full" in result.why
        disk.capacity *= 2
        assert (await maker.put_again(hidden(1))).failed == []
        assert life.bodies(RETRY)[-1] == "b"
