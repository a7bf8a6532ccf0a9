"""Transactions on virtual time: halves as Java stores them, ended once, asked about, given up, through kills."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from pyromq.broker.transactions.half_records import op_offsets
from pyromq.model.codes import ResponseCode
from pyromq.model.ids import offset_message_id
from pyromq.protocol.bodies.own import members
from pyromq.protocol.command import Command
from pyromq.protocol.record import Record, decode_record
from pyromq.protocol.requests import RequestCode
from pyromq.store.files.disk import DiskFull
from pyromq.store.files.real_disk import RealDisk
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.broker.peers import FakePeer
from tests.broker.virtual import START_MS, Virtual, properties, virtual_broker
from tests.support import golden_store

HALF, OP, GONE = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC"
GROUP = "CID_RMQ_SYS_TRANS"
COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0


async def send_half(life: Virtual, key: str = "k", queue: int = 0, **more: str) -> Record:
    pairs = {"TRAN_MSG": "true", "PGROUP": "P", "KEYS": key, "UNIQ_KEY": f"id-{key}"} | more
    born = life.clock.now_ms()
    answer = await life.send(body=key.encode(), queue=queue, properties=pairs, sysFlag=4, bornTimestamp=born)
    assert answer.code == 0, answer.remark
    half = life.stored(HALF)[-1]
    assert answer.fields["queueId"] == str(queue)
    assert answer.fields["queueOffset"] == str(half.queue_offset)
    return half


async def end(life: Virtual, half: Record, how: int, **more: object) -> Command:
    fields: dict[str, Any] = {
        "producerGroup": "P",
        "tranStateTableOffset": half.queue_offset,
        "commitLogOffset": half.physical_offset,
        "commitOrRollback": how,
        "msgId": "id",
    }
    return await life.call(RequestCode.END_TRANSACTION, **(fields | more))


def register(life: Virtual, group: str = "P", address: str = "127.0.0.1:7001") -> FakePeer:
    peer = FakePeer(address)
    life.broker.producers.register(peer, address, group, life.clock.monotonic(), life.clock.now_ms())
    return peer


def ops(life: Virtual) -> list[int]:
    return [offset for record in life.stored(OP) for offset in op_offsets(record.body)]


# --- stored as Java stores it -----------------------------------------------------------------------------------------


async def test_commit(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        half = await send_half(life, queue=2, TAGS="t")
        assert life.bodies("T", 2) == []
        common = {"CLUSTER": "DefaultCluster", "MSG_REGION": "DefaultRegion", "TRACE_ON": "true", "TAGS": "t"}
        common |= {"KEYS": "k", "PGROUP": "P", "TRAN_MSG": "true", "UNIQ_KEY": "id-k", "__transactionId__": "id-k"}
        assert properties(half) == common | {"REAL_QID": "2", "REAL_TOPIC": "T"}
        assert (half.sys_flag, half.queue_id) == (0, 0)
        assert (await end(life, half, COMMIT)).code == 0
        (message,) = life.stored("T", 2)
        assert properties(message) == common
        assert (message.sys_flag, message.prepared_transaction_offset) == (8, half.physical_offset)
        assert (message.born_timestamp, message.born_host) == (half.born_timestamp, half.born_host)
        await life.clock.settle()
        (note,) = life.stored(OP)
        assert (note.body, properties(note)) == (b"0,", {"TAGS": "d", "WAIT": "true"})
        assert note.born_host == note.store_host


async def test_rollback_is_an_op_alone(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        half = await send_half(life)
        assert (await end(life, half, ROLLBACK)).code == 0
        assert (life.bodies("T"), ops(life)) == ([], [0])


async def test_ends_told_twice_and_contradictions(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        first, second = await send_half(life, "a"), await send_half(life, "b")
        for _ in range(3):
            assert (await end(life, first, COMMIT)).code == 0
            assert (await end(life, second, ROLLBACK)).code == 0
        refused = await end(life, first, ROLLBACK)
        assert refused.code == ResponseCode.SYSTEM_ERROR
        assert "committed before" in str(refused.remark)
        assert (await end(life, second, COMMIT)).code == ResponseCode.SYSTEM_ERROR
        await life.clock.settle()
        assert (life.bodies("T"), sorted(ops(life))) == (["a"], [0, 1])


async def test_two_ends_in_one_turn_commit_once(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        half = await send_half(life)
        answers = await asyncio.gather(end(life, half, COMMIT), end(life, half, COMMIT))
        assert [answer.code for answer in answers] == [0, 0]
        assert life.bodies("T") == ["k"]


async def test_what_is_refused(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        half = await send_half(life)
        await life.send(body=b"plain")
        plain = life.stored("T")[0]
        for record, more, word in (
            (half, {"producerGroup": "Other"}, "producer group"),
            (half, {"tranStateTableOffset": 5}, "no half message"),
            (half, {"commitLogOffset": 7}, "no half message"),
            (plain, {}, "no half message"),
            (half, {"commitOrRollback": 3}, "8 commits"),
        ):
            refused = await end(life, record, COMMIT, **more) if "commitOrRollback" not in more else None
            refused = refused or await end(life, record, 3)
            assert refused.code == ResponseCode.SYSTEM_ERROR
            assert word in str(refused.remark)
        timer = {"TRAN_MSG": "true", "PGROUP": "P", "TIMER_DELAY_SEC": "5"}
        illegal = await life.send(properties=timer, sysFlag=4)
        assert illegal.code == ResponseCode.MESSAGE_ILLEGAL
        assert life.bodies("T") == ["plain"]
        assert ops(life) == []


async def test_a_late_end_of_an_immune_message_is_left_to_the_check(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        half = await send_half(life, CHECK_IMMUNITY_TIME_IN_SECONDS="5")
        await life.advance(6)
        assert (await end(life, half, COMMIT)).code == ResponseCode.ILLEGAL_OPERATION
        assert (await end(life, half, COMMIT, fromTransactionCheck=True)).code == 0


async def test_a_delay_counts_from_the_commit_on(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        half = await send_half(life, DELAY="3")
        await life.advance(20)
        assert (await end(life, half, COMMIT)).code == 0
        await life.advance(9.999)
        assert life.bodies("T") == []
        await life.advance(0.001)
        (message,) = life.stored("T")
        assert (message.sys_flag, properties(message)["DELAY"]) == (8, "3")


# --- checks -----------------------------------------------------------------------------------------------------------


async def test_a_producer_is_asked_and_its_answer_counts(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        producer = register(life)
        await life.advance(27)
        half = await send_half(life)
        await life.advance(3)
        assert producer.sent == [], "it is younger than transactionTimeOut"
        await life.advance(30)
        (asked,) = producer.sent
        assert (asked.code, asked.is_oneway) == (RequestCode.CHECK_TRANSACTION_STATE, True)
        assert asked.fields["tranStateTableOffset"] == "0"
        assert asked.fields["commitLogOffset"] == str(half.physical_offset)
        assert (asked.fields["msgId"], asked.fields["transactionId"]) == ("id-k", "id-k")
        assert (asked.fields["topic"], asked.fields["bname"]) == (HALF, "broker-a")
        body = decode_record(bytes(asked.body))
        assert (body.topic, body.queue_id, body.body) == ("T", 0, b"k")
        assert (await end(life, half, COMMIT, fromTransactionCheck=True)).code == 0
        (message,) = life.stored("T")
        assert properties(message)["TRANSACTION_CHECK_TIMES"] == "1"
        await life.advance(60)
        assert len(producer.sent) == 1
        assert len(life.stored(HALF)) == 1, "asking writes nothing"


async def test_producers_take_turns_and_closed_ones_are_passed_over(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        first, second = register(life), register(life, address="127.0.0.1:7002")
        stranger = register(life, "Other", "127.0.0.1:7003")
        await send_half(life)
        await life.advance(120)
        assert (len(first.sent), len(second.sent), len(stranger.sent)) == (2, 2, 0)
        first.is_open = False
        await life.advance(60)
        assert (len(first.sent), len(second.sent)) == (2, 4)


async def test_fifteen_checks_then_it_is_given_up(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with virtual_broker(tmp_path) as life:
        producer = register(life)
        half = await send_half(life)
        await life.advance(15 * 30)
        assert (len(producer.sent), life.stored(GONE)) == (15, [])
        await life.advance(30)
        (gone,) = life.stored(GONE)
        assert properties(gone) == properties(half) | {"TRANSACTION_CHECK_TIMES": "15"}
        assert (len(producer.sent), ops(life)) == (15, [0])
        (line,) = [line for line in caplog.messages if "GIVEN UP" in line]
        assert "pyromq msg recheck id-k" in line
        assert (await end(life, half, COMMIT)).code == ResponseCode.SYSTEM_ERROR
        again = await life.call(RequestCode.RESUME_CHECK_HALF_MESSAGE, msgId=_id(gone))
        assert again.code == 0
        await life.advance(30)
        assert len(producer.sent) == 16
        assert (await end(life, life.stored(HALF)[1], COMMIT)).code == 0
        assert life.bodies("T") == ["k"]


async def test_rounds_with_nobody_to_ask_do_not_count(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A service that was down for a day answers when it is back; Java's broker gives up after 15 rounds."""
    async with virtual_broker(tmp_path) as life:
        producer = register(life)
        half = await send_half(life)
        await life.advance(30)
        producer.is_open = False
        await life.advance(24 * 3600)
        lines = [line for line in caplog.messages if "can be asked" in line]
        assert len(lines) == 1, "once, and not in every round"
        assert life.broker.transactions.listing.undecided(9)[0].checks == 1
        back = register(life, address="127.0.0.1:7002")
        await life.advance(60)
        assert len(back.sent) == 2
        assert (await end(life, half, COMMIT)).code == 0
        assert (life.bodies("T"), life.stored(GONE)) == (["k"], [])


async def test_nobody_is_waited_for_longer_than_messages_are_kept(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path, file_reserved_hours=2) as life:
        await send_half(life)
        await life.advance(2 * 3600)
        assert life.stored(GONE) == []
        await life.advance(60)
        assert len(life.stored(GONE)) == 1


@pytest.mark.parametrize("limit", ["MOST_WAITING", "MOST_BEHIND"])
async def test_too_many_that_wait_are_counted_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(f"pyromq.broker.transactions.halves.{limit}", 0 if limit == "MOST_BEHIND" else 1)
    async with virtual_broker(tmp_path) as life:
        for key in ("a", "b"):
            await send_half(life, key)
        await life.advance(17 * 30)
        assert life.bodies(GONE) == ["a", "b"]


async def test_resume_counts_anew_and_refuses_the_rest(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        register(life)
        half = await send_half(life)
        await life.advance(90)
        assert life.broker.transactions.listing.undecided(9)[0].checks == 3
        assert (await life.call(RequestCode.RESUME_CHECK_HALF_MESSAGE, msgId=_id(half))).code == 0
        assert members(life.broker.transactions.listing.undecided(9)[0]) | {"position": 0, "offsetMsgId": ""} == {
            "topic": "T",
            "producerGroup": "P",
            "id": "id-k",
            "ageSeconds": 90,
            "checks": 0,
            "position": 0,
            "offsetMsgId": "",
        }
        for wrong in ("", "xyz", _id(half)[:-4] + "FFFF"):
            answer = await life.call(RequestCode.RESUME_CHECK_HALF_MESSAGE, msgId=wrong)
            assert answer.code == ResponseCode.SYSTEM_ERROR


async def test_the_inspection_lists_what_is_undecided(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        register(life)
        half = await send_half(life)
        await life.advance(60)
        found = json.loads(bytes((await life.call(RequestCode.INSPECT)).body))["halfMessages"]
        assert [(one["id"], one["ageSeconds"], one["checks"]) for one in found] == [("id-k", 60, 2)]
        await end(life, half, COMMIT)
        assert json.loads(bytes((await life.call(RequestCode.INSPECT)).body))["halfMessages"] == []


async def test_many_undecided_are_asked_about_in_portions(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path, commit_log_file_bytes=4 << 20) as life:
        producer = register(life)
        for number in range(250):
            await send_half(life, str(number))
        await life.advance(30)
        assert len(producer.sent) == 100
        await life.advance(1)
        assert len(producer.sent) == 250


async def test_metrics_and_offsets_are_written(tmp_path: Path) -> None:
    clock = ManualClock(START_MS)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    async with virtual_broker(tmp_path, disk, clock) as life:
        halves = [await send_half(life, str(number)) for number in range(4)]
        for number in (0, 2):
            await end(life, halves[number], COMMIT)
        await life.advance(30)
        assert life.broker.offsets.find(HALF, GROUP, 0) == 1
        assert life.broker.offsets.find(OP, GROUP, 0) == 1, "the op of 2 is needed while 1 is undecided"
        text = disk.open("config/transactionMetrics", writable=False).pread(0, 1000).decode()
        assert text.startswith('{"dataVersion":')
        assert '"transactionCount":{"T":{"count":2,' in text
        await end(life, halves[1], ROLLBACK)
        await end(life, halves[3], ROLLBACK)
        await life.advance(30)
        assert life.broker.offsets.find(HALF, GROUP, 0) == 4
        assert life.broker.offsets.find(OP, GROUP, 0) == 4


# --- stops, kills, full disks, retention ------------------------------------------------------------------------------


@pytest.mark.parametrize("between", ["stop", "kill"])
async def test_checks_are_counted_through_restarts(tmp_path: Path, between: str) -> None:
    clock = ManualClock(START_MS)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    killed = between == "kill"
    async with virtual_broker(tmp_path, disk, clock, killed=killed) as life:
        half = await send_half(life)
    for _ in range(16):
        disk = disk.kill() if killed else disk
        async with virtual_broker(tmp_path, disk, clock, killed=killed) as life:
            register(life)
            assert life.stored(GONE) == []
            await life.advance(30)
    (gone,) = life.stored(GONE)
    assert properties(gone) == properties(half) | {"TRANSACTION_CHECK_TIMES": "15"}


@pytest.mark.parametrize("turns", range(6))
@pytest.mark.parametrize("how", [COMMIT, ROLLBACK])
async def test_a_kill_around_an_end(tmp_path: Path, turns: int, how: int) -> None:
    """However far it got: the producer ends it again (as it does when it is asked), and it counts once."""
    clock = ManualClock(START_MS)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    async with virtual_broker(tmp_path, disk, clock, killed=True) as life:
        half = await send_half(life)
        request = asyncio.create_task(end(life, half, how))
        await life.clock.settle(turns)
        request.cancel()
        await asyncio.gather(request, return_exceptions=True)
    async with virtual_broker(tmp_path, disk.kill(), clock) as life:
        assert (await end(life, half, how, fromTransactionCheck=True)).code == 0
        await life.advance(600)
        assert life.bodies("T") == (["k"] if how == COMMIT else [])
        assert life.stored(GONE) == []


async def test_a_kill_between_commit_and_op(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock(START_MS)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    async with virtual_broker(tmp_path, disk, clock, killed=True) as life:
        halves = [await send_half(life, "plain"), await send_half(life, "later", DELAY="5")]
        monkeypatch.setattr("pyromq.broker.transactions.ops.OpMessages.gather", lambda self, offset: None)
        for half in halves:
            assert (await end(life, half, COMMIT)).code == 0
        monkeypatch.undo()
        assert ops(life) == []
    async with virtual_broker(tmp_path, disk.kill(), clock) as life:
        producer = register(life)
        for half in halves:
            assert (await end(life, half, COMMIT, fromTransactionCheck=True)).code == 0
        await life.advance(600)
        assert life.bodies("T") == ["plain", "later"]
        assert (producer.sent, sorted(ops(life))) == ([], [0, 1])


async def test_a_full_disk_leaves_it_undecided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with virtual_broker(tmp_path) as life:
        half = await send_half(life)

        def full(records: Any) -> Any:
            raise DiskFull("no room: a test took it")

        for how in (COMMIT, ROLLBACK):
            monkeypatch.setattr(life.broker.store, "put", full)
            assert (await end(life, half, how)).code == ResponseCode.SERVICE_NOT_AVAILABLE
            monkeypatch.undo()
            assert ops(life) == []
        assert (await end(life, half, COMMIT)).code == 0
        assert life.bodies("T") == ["k"]


async def test_an_undecided_message_outlives_its_file(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"max_log_bytes": 1 << 17, "commit_log_file_bytes": 1 << 16}
    async with virtual_broker(tmp_path, **settings, transaction_check_max=1000) as life:
        producer = register(life)
        half = await send_half(life)
        for _ in range(60):
            await life.send(topic="Fill", body=bytes(4000))
        await life.advance(60)
        assert life.broker.store.commit_log.start > half.physical_offset
        assert producer.sent
        assert (await end(life, half, COMMIT)).code == 0, "the old place still means it"
        (message,) = life.stored("T")
        assert message.body == b"k"
        await life.advance(120)
        assert life.bodies("T") == ["k"]
        assert life.broker.transactions.listing.undecided(9) == []


async def test_javas_store(tmp_path: Path) -> None:
    """Nothing is undecided in it, and nothing of what was decided is asked about or done again."""
    golden_store(tmp_path)
    root = tmp_path / "store"
    async with virtual_broker(root, RealDisk(root), ManualClock(1_794_769_300_000)) as life:
        producer = register(life, "PID_tx")
        before = [life.bodies("GoldenTx", queue) for queue in (0, 1)]
        for half in life.stored(HALF)[:3]:
            assert (await end(life, half, COMMIT, producerGroup="PID_tx")).code == 0
        await life.advance(60)
        assert [life.bodies("GoldenTx", queue) for queue in (0, 1)] == before
        assert producer.sent == []
        fresh = await send_half(life)
        assert fresh.queue_offset == 25
        assert (await end(life, fresh, COMMIT)).code == 0


async def test_javas_undecided_messages_are_asked_about(tmp_path: Path) -> None:
    """The same store as if its broker had been killed with older progress: ops decide, of copies the last one counts.

    0 to 4 were ended; 5 was copied to 8 and committed there, 6 was copied to 9 and rolled back; 7 was copied 15 times.
    """
    golden_store(tmp_path)
    root = tmp_path / "store"
    (root / "abort").touch()
    table = root / "config" / "consumerOffset.json"
    text = table.read_text()
    for topic, done in ((HALF, 25), (OP, 3)):
        text = text.replace(f'"{topic}@{GROUP}":{{\n\t\t\t0:{done}', f'"{topic}@{GROUP}":{{\n\t\t\t0:0')
    table.write_text(text)
    async with virtual_broker(root, RealDisk(root), ManualClock(1_794_769_300_000)) as life:
        producer = register(life, "PID_tx")
        before = [life.bodies("GoldenTx", queue) for queue in (0, 1)]
        await life.advance(30)
        (asked,) = producer.sent
        assert asked.fields["tranStateTableOffset"] == "6", "that it was rolled back is written of its copy alone"
        assert len(life.stored(GONE)) == 1, "and the one that was given up is not given up again"
        assert (await end(life, life.stored(HALF)[6], ROLLBACK, producerGroup="PID_tx")).code == 0
        await life.advance(600)
        assert [life.bodies("GoldenTx", queue) for queue in (0, 1)] == before
        assert len(producer.sent) == 1


def _id(record: Record) -> str:
    return offset_message_id(record.store_host, record.physical_offset)
