"""Repeated sends to a broker with the duplicate window: answered with the first one's place, also after a kill."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pyromq.ambient import SystemClock
from pyromq.broker.duplicates.duplicate_recovery import find_start
from pyromq.model.codes import ResponseCode
from pyromq.protocol.batch import BatchEntry, encode_batch
from pyromq.protocol.command import Command
from pyromq.protocol.requests import RequestCode
from pyromq.store.config import FlushMode
from pyromq.transport.client import RemotingClient
from tests.broker.running import Running, running_broker
from tests.broker.test_restart import JAVA_SIZES, process
from tests.wire import decode_messages

WHERE = ("queueId", "queueOffset", "msgId")


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Running]:
    async with running_broker(tmp_path, duplicate_window_enable=True) as running:
        yield running


def identity(sequence: int, epoch: int = 1, producer: str = "p") -> str:
    return f"__SEND_ID\x01{producer}/{epoch}/{sequence}\x02"


def where(answer: Command) -> tuple[str, ...]:
    assert answer.code == 0, answer.remark
    return tuple(answer.fields[name] for name in WHERE)


async def bodies(broker: Running, topic: str = "T", queue: int = 0) -> list[bytes]:
    return [message.body for message in decode_messages((await broker.pull(topic, queue)).body)]


async def test_a_repeat_is_answered_with_the_first_ones_place_wherever_it_goes(broker: Running) -> None:
    await broker.send(body=b"another", queue=2)
    first = await broker.send(body=b"once", queue=2, properties=identity(1))
    repeat = await broker.send(body=b"once", queue=3, properties=identity(1))
    assert where(repeat) == where(first)
    assert where(first)[:2] == ("2", "1")
    assert await bodies(broker, queue=2) == [b"another", b"once"]
    assert await bodies(broker, queue=3) == []
    assert broker.broker.counters.put_total == 2


async def test_without_identity_every_send_is_a_message(broker: Running) -> None:
    assert where(await broker.send()) != where(await broker.send())


async def test_off_it_is_a_property_like_any_other(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as plain:
        assert plain.broker.sends.duplicates is None
        await plain.send(properties=identity(1))
        await plain.send(properties=identity(1))
        assert await bodies(plain) == [b"hello", b"hello"]


async def test_repeats_while_the_first_is_under_way_share_its_answer(tmp_path: Path) -> None:
    async with running_broker(tmp_path, duplicate_window_enable=True, flush_mode=FlushMode.SYNC) as broker:
        answers = await asyncio.gather(*(broker.send(properties=identity(1)) for _ in range(20)))
        assert len({where(answer) for answer in answers}) == 1
        assert await bodies(broker) == [b"hello"]
        assert where(await broker.send(properties=identity(1))) == where(answers[0])


async def test_a_batch_is_one_send(broker: Running) -> None:
    extra = {"i": identity(1) + "UNIQ_KEY\x01U1\x02"}
    first = await broker.send_batch([b"a", b"b", b"c"], **extra)
    assert where(await broker.send_batch([b"a", b"b", b"c"], **extra)) == where(first)
    assert first.fields["msgId"].count(",") == 2
    assert await bodies(broker) == [b"a", b"b", b"c"]
    answer = await broker.send_batch([b"a", b"b"], **extra)
    assert (answer.code, "was a batch of 3 messages before, now of 2" in str(answer.remark)) == (13, True)


async def test_batches_behind_each_other_are_known_by_their_names_after_a_start_too(tmp_path: Path) -> None:
    """The first one makes the queue, so it is put message by message; the others are put whole where a kernel can."""
    batches = [[b"%d.%d" % (number, part) for part in range(5)] for number in range(4)]
    asked = [{"i": identity(number) + f"UNIQ_KEY\x01U{number}\x02"} for number in range(4)]
    async with running_broker(tmp_path, duplicate_window_enable=True) as broker:
        first = [where(await broker.send_batch(bodies, **extra)) for bodies, extra in zip(batches, asked, strict=True)]
    assert [offset for _, offset, _ in first] == ["0", "5", "10", "15"]
    async with running_broker(tmp_path, duplicate_window_enable=True) as broker:
        for number in (3, 0, 2, 1):
            queue, offset, ids = where(await broker.send_batch(batches[number], **asked[number]))
            assert (queue, offset, ids[-16:]) == (*first[number][:2], first[number][2][-16:])  # ids name the port, too
        stored = decode_messages((await broker.pull()).body)
    assert [message.body for message in stored] == [body for bodies in batches for body in bodies]
    assert [message.properties["__SEND_ID"] for message in stored] == [
        f"p/1/{number}/{part}" for number in range(4) for part in range(5)
    ]


async def test_a_batch_that_is_kept_as_one_record_is_one_send(broker: Running) -> None:
    await broker.call(
        RequestCode.UPDATE_AND_CREATE_TOPIC,
        topic="B",
        defaultTopic="TBW102",
        readQueueNums=1,
        writeQueueNums=1,
        perm=6,
        topicFilterType="SINGLE_TAG",
        attributes="+queue.type=BatchCQ",
    )
    extra = {"i": identity(1) + "UNIQ_KEY\x01U1\x02"}
    first = await broker.send_batch([b"a", b"b", b"c"], "B", **extra)
    assert where(await broker.send_batch([b"a", b"b", b"c"], "B", **extra)) == where(first)
    assert (await broker.call(RequestCode.GET_MAX_OFFSET, topic="B", queueId=0)).fields == {"offset": "3"}


async def test_the_end_of_a_torn_batch_is_added(tmp_path: Path) -> None:
    """As after a power cut: two of three messages are in the log, and their sender knows nothing."""
    parts = [BatchEntry(b"%d" % number, 0, b"__SEND_ID\x01p/1/1/%d\x02" % number) for number in range(2)]
    async with running_broker(tmp_path) as plain:
        await plain.call(
            RequestCode.SEND_BATCH_MESSAGE,
            encode_batch(parts),
            a="P",
            b="T",
            c="TBW102",
            d=4,
            e=1,
            f=0,
            g=1,
            h=0,
            i="",
            m=True,
        )
    async with running_broker(tmp_path, duplicate_window_enable=True) as broker:
        for _ in range(2):
            answer = await broker.send_batch([b"0", b"1", b"2"], i=identity(1))
            assert where(answer)[:2] == ("1", "0")
            assert answer.fields["msgId"].count(",") == 2
        assert await bodies(broker, queue=1) == [b"0", b"1", b"2"]
        assert await bodies(broker) == []


async def test_who_was_succeeded_is_refused(broker: Running) -> None:
    await broker.send(properties=identity(1, epoch=2))
    answer = await broker.send(properties=identity(2, epoch=1))
    assert answer.code == ResponseCode.ILLEGAL_OPERATION
    assert str(answer.remark).startswith("producer p is fenced")
    assert "MSG_REGION" in answer.fields


@pytest.mark.parametrize("value", ["p/1", "p/1/2/3", "p/1/x"])
async def test_a_malformed_identity_is_refused(broker: Running, value: str) -> None:
    answer = await broker.send(properties={"__SEND_ID": value})
    assert (answer.code, "it is PRODUCER/EPOCH/SEQUENCE" in str(answer.remark)) == (13, True)


async def test_what_a_consumer_gives_back_is_no_repeat(broker: Running) -> None:
    await broker.send(properties=identity(1))
    given_back = await broker.send("%RETRY%G", properties=identity(1))
    assert given_back.code == 0
    assert await bodies(broker, "%RETRY%G") == [b"hello"]


async def test_a_delayed_message_is_delivered_once(broker: Running) -> None:
    """What is delivered carries the identity of what was sent, and is no repeat of it."""
    delayed = {"DELAY": "1"} | {"__SEND_ID": "p/1/1"}
    for _ in range(2):
        assert (await broker.send(properties=delayed)).code == 0
    held = await broker.pull(sysFlag=6, suspendTimeoutMillis=15_000)
    assert [message.body for message in decode_messages(held.body)] == [b"hello"]
    assert (await broker.call(RequestCode.GET_MAX_OFFSET, topic="T", queueId=0)).fields == {"offset": "1"}


async def test_a_half_message_is_kept_once(broker: Running) -> None:
    half = {"TRAN_MSG": "true", "PGROUP": "P", "UNIQ_KEY": "U1", "__SEND_ID": "p/1/1"}
    first = await broker.send(properties=half, sysFlag=4)
    repeat = await broker.send(properties=half, sysFlag=4)
    assert where(repeat) == where(first)
    assert repeat.fields == first.fields
    halves = await broker.call(RequestCode.GET_MAX_OFFSET, topic="RMQ_SYS_TRANS_HALF_TOPIC", queueId=0)
    assert halves.fields == {"offset": "1"}


async def test_what_was_refused_may_be_sent_again(broker: Running) -> None:
    too_large = bytes(2 << 20)  # more than a log file of this test
    assert (await broker.send(body=too_large, properties=identity(1))).code == 13
    assert where(await broker.send(properties=identity(1)))[1] == "0"


async def test_a_stop_and_start_remembers_and_age_forgets(tmp_path: Path) -> None:
    async with running_broker(tmp_path, duplicate_window_enable=True) as broker:
        first = where(await broker.send(properties=identity(1)))[:2]
        for number in range(1500):  # several log files
            await broker.send(body=bytes(2500), properties=identity(2 + number))
    async with running_broker(tmp_path, duplicate_window_enable=True) as broker:
        assert where(await broker.send(properties=identity(1)))[:2] == first
        config = broker.broker.environment.config
        store = broker.broker.store
        assert find_start(store.commit_log, config.delay_levels, 0) == 0
        last = store.commit_log.tail.last_time
        assert find_start(store.commit_log, config.delay_levels, last + 1) > 2 << 20
    async with running_broker(tmp_path, duplicate_window_enable=True, duplicate_window_messages=10) as broker:
        assert broker.broker.sends.duplicates is not None
        assert len(broker.broker.sends.duplicates) == 10
        assert where(await broker.send(properties=identity(1501)))[1] == "1500"
        assert (await broker.send(properties=identity(7))).code == 13


async def test_a_kill_in_between_makes_no_second_message(tmp_path: Path) -> None:
    """Singles and batches are sent, the broker is killed at some moment, and everything is sent once more."""
    options = ("-c", str(tmp_path / "broker.conf"))
    (tmp_path / "broker.conf").write_text("duplicateWindowEnable=true\n")
    acked: dict[int, str] = {}
    enough = asyncio.Event()

    def request(number: int) -> Command:
        fields = {"a": "P", "b": "T", "c": "TBW102", "d": "1", "e": "0", "f": "0", "g": "1", "h": "0"}
        fields["i"] = identity(number)
        if number % 3:
            return Command(code=RequestCode.SEND_MESSAGE_V2, fields=fields, body=b"%d" % number)
        fields["m"] = "true"
        body = encode_batch(BatchEntry(b"%d.%d" % (number, part)) for part in range(4))
        return Command(code=RequestCode.SEND_BATCH_MESSAGE, fields=fields, body=body)

    async def produce(client: RemotingClient, address: str, share: int) -> None:
        for number in range(share, 2000, 4):
            answer = await client.call(address, request(number), 20)
            acked[number] = answer.fields["queueOffset"]
            if len(acked) == 200:
                enough.set()

    async with (
        RemotingClient(clock=SystemClock(), rng=random.Random(1)) as client,
        process(tmp_path / "s", *options) as (at, one),
    ):
        producing = [asyncio.create_task(produce(client, at, share)) for share in range(4)]
        await enough.wait()
        one.send_signal(signal.SIGKILL)
        await asyncio.gather(*producing, return_exceptions=True)
    sent = max(acked) + 8
    async with running_broker(tmp_path / "s", duplicate_window_enable=True, **JAVA_SIZES) as broker:
        assert not broker.broker.store.recovery.clean_stop
        for number in range(sent):
            answer = await broker.client.call(broker.address, request(number), 20)
            assert answer.fields["queueOffset"] == acked.get(number, answer.fields["queueOffset"])
        found: list[bytes] = []
        while part := decode_messages((await broker.pull(offset=len(found))).body):
            found += [message.body for message in part]
    expected = [
        b"%d" % number if part is None else b"%d.%d" % (number, part)
        for number in range(sent)
        for part in ((None,) if number % 3 else range(4))
    ]
    assert sorted(found) == sorted(expected)
