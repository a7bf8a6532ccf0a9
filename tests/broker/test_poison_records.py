"""Records and sends that once ended the broker: each is refused, delivered or left out, and all others go on.

Named after what happens. Every case is sent, or lies in the store already as an older version or Java left it there,
comes due on virtual time, and is met again by a second life of the broker.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyromq.broker.intake.parking import MAX_PARKED_BYTES
from pyromq.model.codes import ResponseCode
from pyromq.model.names import DLQ_PREFIX, HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from pyromq.protocol.batch import BatchEntry, encode_batch
from pyromq.protocol.command import Command
from pyromq.protocol.properties import MAX_PROPERTIES_BYTES
from pyromq.protocol.record import Record
from pyromq.protocol.requests import RequestCode
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.broker.peers import FakePeer
from tests.broker.virtual import START_MS, Virtual, properties, virtual_broker

NO_NUMBERS = ["²", "٣", "9" * 5000, "abc", "-1", "1_0", " 1", "1e3", "\x01", "../../x", "😀", "99999999999999999999"]
INT_MAX = (1 << 31) - 1
HOUR_S = 3600
HALF = {"TRAN_MSG": "true", "PGROUP": "P", "UNIQ_KEY": "H"}


def text(pairs: dict[str, str]) -> str:
    """As a hostile client writes them, who is kept from nothing."""
    return "".join(f"{name}\x01{value}\x02" for name, value in pairs.items())


def put(life: Virtual, topic: str, pairs: dict[str, str], queue: int = 0, body: bytes = b"poison") -> None:
    """Into the store as it is, past the door."""
    raw = text(pairs).encode()
    now = life.clock.now_ms()
    life.broker.store.put([Record(topic=topic, queue_id=queue, body=body, properties=raw, born_timestamp=now)])


def bodies(life: Virtual, topic: str = "T") -> list[str]:
    return sorted(body for queue in range(4) for body in life.bodies(topic, queue))


async def commit(life: Virtual, sent: Command, unique: str) -> Command:
    position = int(sent.fields["msgId"][16:], 16)
    return await life.call(
        RequestCode.END_TRANSACTION,
        producerGroup="P",
        tranStateTableOffset=sent.fields["queueOffset"],
        commitLogOffset=position,
        commitOrRollback=8,
        fromTransactionCheck=True,
        msgId=unique,
        transactionId=unique,
    )


# --- numbers that are none -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["CHECK_IMMUNITY_TIME_IN_SECONDS", "TRANSACTION_CHECK_TIMES"])
async def test_a_half_message_with_a_number_that_is_none_is_checked_as_any_other(tmp_path: Path, name: str) -> None:
    clock = ManualClock(START_MS)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    async with virtual_broker(tmp_path, disk, clock) as life:
        sent = {}
        life.broker.producers.register(FakePeer(), "c", "P", clock.monotonic(), clock.now_ms())
        for value in NO_NUMBERS:
            sent[value] = await life.send(body=value.encode(), properties=text(HALF | {"UNIQ_KEY": value, name: value}))
            assert sent[value].code == ResponseCode.SUCCESS, sent[value].remark
            put(life, HALF_TOPIC, HALF | {"REAL_TOPIC": "T", "REAL_QID": "0", "UNIQ_KEY": "stored", name: value})
        await life.advance(90)
        undecided = life.broker.transactions.halves.undecided.all()
        assert {half.unique for half in undecided} == {*NO_NUMBERS, "stored"}
        assert {half.checks for half in undecided} == {3}
    async with virtual_broker(tmp_path, disk, clock) as life:
        await life.advance(120)
        for value, answer in sent.items():
            assert (await commit(life, answer, value)).code == ResponseCode.SUCCESS
        assert life.bodies("T") == NO_NUMBERS


async def test_a_timed_message_with_a_number_of_rolls_that_is_none_rolls_and_is_delivered(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        for value in NO_NUMBERS:
            wait = {"TIMER_DELAY_SEC": "86400", "UNIQ_KEY": value, "TIMER_ROLL_TIMES": value}
            assert (await life.send(body=b"sent", properties=text(wait))).code == ResponseCode.SUCCESS
            own = {"TIMER_OUT_MS": str(START_MS + 86_399_000), "REAL_TOPIC": "T", "REAL_QID": "0"}
            put(life, TIMER_TOPIC, own | {"UNIQ_KEY": f"stored {value}", "TIMER_ROLL_TIMES": value}, body=b"stored")
        for _ in range(25):
            await life.advance(HOUR_S)
        rolls = [int(properties(record)["TIMER_ROLL_TIMES"]) for record in life.stored("T")]
        assert min(rolls) > 0
        assert bodies(life) == ["sent"] * len(NO_NUMBERS) + ["stored"] * len(NO_NUMBERS)


async def test_a_dead_letter_with_a_time_of_death_that_is_none_does_not_keep_its_file(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path, dead_letter_reserved_hours=200, file_reserved_hours=1) as life:
        topic = DLQ_PREFIX + "G"
        for value in NO_NUMBERS:
            put(life, topic, {"UNIQ_KEY": value, "PYRO_DEAD_MS": value}, body=b"dead")
        for number in range(80):  # more than one file of the log
            await life.send(topic="T", body=bytes(20_000), properties={"UNIQ_KEY": f"N{number}"})
        for _ in range(60):
            await life.advance(HOUR_S)
        assert life.broker.store.commit_log.start > 0
        times = [properties(record)["PYRO_DEAD_MS"] for record in life.stored(topic)]
        assert times == [str(START_MS)] * len(NO_NUMBERS)


@pytest.mark.parametrize("name", ["PYRO_DUE_MS", "PYRO_DELAY", "DELAY"])
async def test_a_delayed_message_with_a_number_that_is_none_leaves_when_its_entry_says(
    tmp_path: Path, name: str
) -> None:
    async with virtual_broker(tmp_path) as life:
        own = {"REAL_TOPIC": "T", "REAL_QID": "0", "DELAY": "3"}
        for value in NO_NUMBERS:
            put(life, SCHEDULE_TOPIC, own | {"UNIQ_KEY": value, name: value}, queue=2, body=b"stored")
        assert (await life.send(body=b"after", properties={"DELAY": "3"})).code == ResponseCode.SUCCESS
        await life.advance(30)
        assert bodies(life) == ["after"] + ["stored"] * len(NO_NUMBERS)


async def test_a_queue_that_is_no_number_leaves_that_message_out_alone(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        for value in NO_NUMBERS:
            for topic in (SCHEDULE_TOPIC, TIMER_TOPIC):
                own = {"REAL_TOPIC": "T", "REAL_QID": value, "DELAY": "1", "TIMER_OUT_MS": str(START_MS + 1000)}
                put(life, topic, own)
        await life.send(body=b"level", properties={"DELAY": "1"})
        await life.send(body=b"timer", properties={"TIMER_DELAY_SEC": "1"})
        await life.advance(30)
        assert bodies(life) == ["level", "timer"]


# --- what a send is told ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["DELAY", "TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"])
async def test_a_wait_that_is_no_number_is_refused_by_its_name(tmp_path: Path, name: str) -> None:
    async with virtual_broker(tmp_path) as life:
        for value in set(NO_NUMBERS) - {"-1"}:
            refused = await life.send(properties=text({name: value}))
            assert refused.code in (ResponseCode.MESSAGE_ILLEGAL, ResponseCode.SYSTEM_ERROR)
            assert name in str(refused.remark)
            assert "internal error" not in str(refused.remark)
            assert len(str(refused.remark)) < 500


async def test_a_priority_that_is_no_number_counts_as_none(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        for value in NO_NUMBERS:
            sent = await life.send(queue=1, properties=text({"_SYS_MSG_PRIORITY_": value}))
            assert (sent.code, sent.fields["queueId"]) == (ResponseCode.SUCCESS, "1")
        assert not any("_SYS_MSG_PRIORITY_" in properties(stored) for stored in life.stored("T", 1))


@pytest.mark.parametrize(
    "wait",
    [{}, {"DELAY": "1"}, {"TIMER_DELAY_SEC": "1"}, {"POP_CK": "x"}, {"_SYS_MSG_PRIORITY_": "0"}, {"TRAN_MSG": "true"}],
)
async def test_a_separator_in_a_value_stays_in_it_as_in_java(tmp_path: Path, wait: dict[str, str]) -> None:
    async with virtual_broker(tmp_path) as life:
        sent = await life.send(properties=text({"PGROUP": "P", "UNIQ_KEY": "H", "x": "a\x01b"} | wait))
        assert sent.code == ResponseCode.SUCCESS, sent.remark
        if "TRAN_MSG" in wait:
            assert (await commit(life, sent, "H")).code == ResponseCode.SUCCESS
        await life.advance(10)
        (stored,) = life.stored("T")
        assert properties(stored)["x"] == "a\x01b"
        back = await life.call(
            RequestCode.CONSUMER_SEND_MSG_BACK, offset=stored.physical_offset, group="G", delayLevel=1, originTopic="T"
        )
        assert back.code == ResponseCode.SUCCESS, back.remark
        await life.advance(10)
        (again,) = life.stored("%RETRY%G")
        assert properties(again)["x"] == "a\x01b"


# --- no room ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("crc", [True, False])
@pytest.mark.parametrize(
    "wait", [{"TIMER_DELAY_SEC": "90000"}, {"DELAY": "1"}, HALF, HALF | {"DELAY": "2"}, {"DELAY": "18"}]
)
async def test_whatever_is_accepted_has_room_for_its_delivery(tmp_path: Path, wait: dict[str, str], crc: bool) -> None:
    async with virtual_broker(tmp_path, timer_wheel_slots=20_000, whole_record_crc=crc) as life:
        accepted = []
        for size in range(32_300, 32_760, 7):
            body = str(size).encode()
            sent = await life.send(body=body, properties=text(wait | {"x": "y" * size, "UNIQ_KEY": str(size)}))
            assert sent.code in (ResponseCode.SUCCESS, ResponseCode.MESSAGE_ILLEGAL), sent.remark
            if sent.code == ResponseCode.SUCCESS:
                accepted.append(str(size))
                if "TRAN_MSG" in wait:
                    for half in life.broker.transactions.halves.undecided.all():
                        half.checks = INT_MAX
                    assert (await commit(life, sent, str(size))).code == ResponseCode.SUCCESS
            else:
                assert "bytes, the limit is" in str(sent.remark)
        assert accepted
        for _ in range(26):
            await life.advance(HOUR_S)
        assert bodies(life) == accepted


@pytest.mark.parametrize("crc", [True, False])
@pytest.mark.parametrize("free", [0, 10, 60, 120])
async def test_a_record_that_is_too_full_gives_up_what_only_tells_of_its_way(
    tmp_path: Path, free: int, crc: bool
) -> None:
    """As a version before this one accepted it, which kept no room."""
    async with virtual_broker(tmp_path, timer_wheel_slots=20_000, whole_record_crc=crc) as life:
        for topic, queue in ((TIMER_TOPIC, 0), (SCHEDULE_TOPIC, 17)):
            own = {"CLUSTER": "DefaultCluster", "TRACE_ON": "true", "MSG_REGION": "DefaultRegion", "DELAY": "18"}
            own |= {"REAL_TOPIC": "T", "REAL_QID": "0", "TIMER_OUT_MS": str(START_MS + 7_199_000), "x": ""}
            taken = sum(len(name) + len(value) + 2 for name, value in own.items())
            filled = own | {"x": "y" * ((MAX_PARKED_BYTES if crc else MAX_PROPERTIES_BYTES) - free - taken)}
            put(life, topic, filled, queue, topic.encode())
        for _ in range(3):
            await life.advance(HOUR_S)
        assert bodies(life) == sorted([TIMER_TOPIC, SCHEDULE_TOPIC])


async def test_a_plain_message_up_to_the_limit_is_accepted_and_its_retry_refused_with_the_size(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        codes = set()
        for size in range(32_400, 32_800, 9):
            sent = await life.send(properties=text({"x": "y" * size, "UNIQ_KEY": "U"}))
            if sent.code != ResponseCode.SUCCESS:
                assert size > 32_600
                continue
            back = await life.call(
                RequestCode.CONSUMER_SEND_MSG_BACK,
                offset=int(sent.fields["msgId"][16:], 16),
                group="G",
                delayLevel=1,
                originTopic="T",
            )
            codes.add(back.code)
            if back.code != ResponseCode.SUCCESS:
                assert back.code == ResponseCode.MESSAGE_ILLEGAL
                assert "bytes, the limit is" in str(back.remark)
        assert codes == {ResponseCode.SUCCESS, ResponseCode.MESSAGE_ILLEGAL}


# --- tried too often -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [1, -1])
async def test_a_message_that_was_tried_as_often_as_can_be_counted_is_given_back_once_more(
    tmp_path: Path, level: int
) -> None:
    async with virtual_broker(tmp_path) as life:
        life.peer.version = 0
        sent = await life.send(reconsumeTimes=INT_MAX, properties={"UNIQ_KEY": "U"})
        assert sent.code == ResponseCode.SUCCESS
        life.peer.version = 400
        back = await life.call(
            RequestCode.CONSUMER_SEND_MSG_BACK,
            offset=int(sent.fields["msgId"][16:], 16),
            group="G",
            delayLevel=level,
            originTopic="T",
            maxReconsumeTimes=INT_MAX,
        )
        assert back.code == ResponseCode.SUCCESS, back.remark
        await life.advance(10)
        stored = life.stored("%RETRY%G") + life.stored("%DLQ%G")
        assert [record.reconsume_times for record in stored] == [INT_MAX]


# --- a seal that is none ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("crc", [True, False])
async def test_a_seal_that_a_sender_made_up_does_not_make_a_record_unreadable(tmp_path: Path, crc: bool) -> None:
    """Recovery after a kill would end the log there."""
    clock = ManualClock(START_MS)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    false = "TAGS\x01a\x02__CRC32#\x010123456789\x02"
    async with virtual_broker(tmp_path, disk, clock, killed=True, whole_record_crc=crc) as life:
        assert (await life.send(body=b"single", properties=false)).code == ResponseCode.SUCCESS
        fields: dict[str, Any] = {
            "a": "P",
            "b": "T",
            "c": "TBW102",
            "d": 4,
            "e": 0,
            "f": 0,
            "g": 1,
            "h": 0,
            "i": "",
            "m": True,
        }
        body = encode_batch([BatchEntry(b"batch", 0, false.encode())])
        assert (await life.call(RequestCode.SEND_BATCH_MESSAGE, body, **fields)).code == ResponseCode.SUCCESS
        await life.send(body=b"after")
        await life.broker.store.flush_all()
    disk = disk.kill()
    async with virtual_broker(tmp_path, disk, clock, whole_record_crc=crc) as life:
        assert [message.body for message in await life.pulled("T")] == [b"single", b"batch", b"after"]
