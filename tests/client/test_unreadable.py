"""Records that nobody can read: everything around them is delivered, and they go the way that the consumer chose."""

from __future__ import annotations

import logging
import zlib
from typing import Any

import pytest

from pyromq.client.consume.send_back import MOST_REFUSALS
from pyromq.client.core.process_queue import FlowLimits
from pyromq.client.errors import Error, Unreadable
from pyromq.client.received import Received
from pyromq.model.codes import ResponseCode
from pyromq.model.group import ConsumeFromWhere
from pyromq.model.message import WRAPPED_BATCH, SysFlag
from pyromq.protocol import compression
from pyromq.protocol.bodies.keyed import MessageQueue
from pyromq.protocol.compression import Compression, compressed_flag
from pyromq.protocol.requests import RequestCode
from pyromq.transport.dispatch import Reply, Request
from tests.client.cluster import Cluster, FakeBroker, pull_fields, record_of
from tests.client.test_push_timing import Handler, consume
from tests.client.world import Servers, turns_until

FIRST = ConsumeFromWhere.FIRST_OFFSET
PULL, BACK, SEND = RequestCode.PULL_MESSAGE, RequestCode.CONSUMER_SEND_MSG_BACK, RequestCode.SEND_MESSAGE_V2
ZLIB = compressed_flag(Compression.ZLIB)
TOO_LARGE = zlib.compress(bytes((64 << 20) + 1), 1)

BAD = {
    "a bad body": (b"no zlib", ZLIB),
    "a cut body": (zlib.compress(b"x" * 100)[:-5], ZLIB),
    "above 64 MB": (TOO_LARGE, ZLIB),
    "an unknown type": (b"x", SysFlag.COMPRESSED | 7 << SysFlag.COMPRESSION_SHIFT),
    "a bad inner batch": (b"no batch", WRAPPED_BATCH),
}


def broker_with_a_bad_one(cluster: Cluster, body: bytes, sys_flag: int) -> FakeBroker:
    """Offsets 0 and 1 are good, 2 is not, 3 and 4 are good."""
    broker = cluster.broker("a", T=1)
    cluster.topics["%RETRY%g"] = {"a": 1}
    broker.put("T", 0, b"0", b"1")
    broker.put("T", 0, body, sys_flag=sys_flag)
    broker.put("T", 0, b"3", b"4")
    broker.script[BACK] = lambda request: Reply()
    return broker


def handled(handler: Handler) -> list[bytes]:
    return [body for body, _ in handler.calls]


@pytest.mark.parametrize("orderly", [False, True])
@pytest.mark.parametrize("kind", BAD)
async def test_the_good_ones_are_handled_and_the_bad_one_goes_to_the_dead_letters(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, kind: str, orderly: bool
) -> None:
    broker = broker_with_a_bad_one(cluster, *BAD[kind])
    handler = Handler()
    _, consumer = await consume(cluster, handler, orderly=orderly)
    await cluster.clock.advance(6)
    assert handled(handler) == [b"0", b"1", b"3", b"4"]
    (back,) = broker.requests(BACK)
    assert (back.fields["offset"], back.fields["delayLevel"]) == ("200", "-1")
    assert broker.offsets["T", 0] == 5
    assert consumer.unreadable == 1
    (line,) = [each for each in caplog.messages if "cannot be read" in each]
    assert "offset=2 position=200 id=" in line
    assert "fault=" in line


async def test_a_batch_handler_gets_the_readable_ones_of_a_batch(cluster: Cluster) -> None:
    broker = broker_with_a_bad_one(cluster, *BAD["a bad body"])
    batches: list[list[bytes]] = []

    async def handle(messages: list[Received]) -> None:
        batches.append([each.body for each in messages])

    await consume(cluster, handle, max_batch=5)
    await cluster.clock.advance(6)
    assert batches == [[b"0", b"1", b"3", b"4"]]
    assert len(broker.requests(BACK)) == 1
    assert broker.offsets["T", 0] == 5


async def test_on_unreadable_skip_gives_nothing_back(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    broker = broker_with_a_bad_one(cluster, *BAD["a bad body"])
    handler = Handler()
    await consume(cluster, handler, on_unreadable="skip")
    await cluster.clock.advance(6)
    assert handled(handler) == [b"0", b"1", b"3", b"4"]
    assert broker.requests(BACK) == []
    assert broker.offsets["T", 0] == 5
    assert any("cannot be read" in each and "way=skip" in each for each in caplog.messages)


async def test_a_broadcast_consumer_skips_it_by_itself(cluster: Cluster, tmp_path: Any) -> None:
    broker = broker_with_a_bad_one(cluster, *BAD["a bad body"])
    handler = Handler()
    _, consumer = await consume(cluster, handler, broadcast=True, offsets_folder=tmp_path)
    assert handled(handler) == [b"0", b"1", b"3", b"4"]
    assert consumer.unreadable == 1
    assert broker.requests(BACK) == []


async def test_words_that_are_no_way_are_refused(cluster: Cluster) -> None:
    client = await cluster.client()
    with pytest.raises(Error, match=r'on_unreadable=.drop. is no way .* Give "dead-letter" or "skip"'):
        client.push_consumer("T", Handler(), group="g", on_unreadable="drop")  # type: ignore[arg-type]
    with pytest.raises(Error, match=r'on_unreadable=.dead-letter. .* Give "skip"'):
        client.push_consumer("T", Handler(), group="g", broadcast=True, on_unreadable="dead-letter")
    with pytest.raises(Error, match='Give "raise" or "skip"'):
        client.pull_consumer("g", on_unreadable="dead-letter")  # type: ignore[arg-type]


@pytest.mark.parametrize("orderly", [False, True])
async def test_where_a_package_is_missing_the_message_is_retried_later(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, orderly: bool
) -> None:
    def missing(module: str, package: str) -> Any:
        raise compression.CompressionMissing(f"pip install {package}")

    monkeypatch.setattr(compression, "_package", missing)
    broker = broker_with_a_bad_one(cluster, b"x", compressed_flag(Compression.LZ4))
    handler = Handler()
    await consume(cluster, handler, orderly=orderly)
    await cluster.clock.advance(6)
    assert handled(handler) == [b"0", b"1", b"3", b"4"]
    assert [back.fields["delayLevel"] for back in broker.requests(BACK)] == ["0"]
    assert broker.offsets["T", 0] == 5


@pytest.mark.parametrize(("kind", "sys_flag"), [("a bad body", ZLIB), ("a bad inner batch", 0)])
async def test_one_that_cannot_be_given_back_by_position_is_sent_as_it_is_stored(
    cluster: Cluster, kind: str, sys_flag: int
) -> None:
    broker = broker_with_a_bad_one(cluster, *BAD[kind])
    broker.script[BACK] = lambda request: Reply(ResponseCode.SYSTEM_ERROR, "look message by offset failed")
    await consume(cluster, Handler())
    await cluster.clock.advance(6)
    (sent,) = broker.requests(SEND)
    assert bytes(sent.body) == BAD[kind][0]
    assert sent.fields["f"] == str(sys_flag)
    assert sent.fields["j"] == "1"  # one attempt and none allowed: brokers keep it among the dead letters
    assert sent.fields["l"] == "0"
    assert broker.offsets["T", 0] == 5


async def test_one_that_no_broker_takes_is_skipped_in_the_end(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    broker = broker_with_a_bad_one(cluster, *BAD["a bad body"])
    broker.script[BACK] = broker.script[SEND] = lambda request: Reply(ResponseCode.MESSAGE_ILLEGAL, "no")
    await consume(cluster, Handler())
    await cluster.clock.advance(10)
    assert broker.offsets["T", 0] == 2
    for _ in range(MOST_REFUSALS):
        await cluster.clock.advance(6)
    assert broker.offsets["T", 0] == 5
    assert len(broker.requests(BACK)) == MOST_REFUSALS
    assert any("is skipped" in each and "position=200" in each for each in caplog.messages)


# --- answers whose framing is broken ----------------------------------------------------------------------------------


def break_record(broker: FakeBroker, offset: int, size: int = 1 << 30) -> None:
    """Pulls of T get the record at this offset with another size, as a broker with a damaged log would send it."""

    def pulled(request: Request) -> Any:
        answer = broker._on_11(request)
        fields = request.command.fields
        begin = int(fields["queueOffset"])
        if fields["topic"] != "T" or not isinstance(answer, Reply) or answer.code != ResponseCode.SUCCESS:
            return answer
        found = broker.queues["T", 0][begin : begin + int(fields["maxMsgNums"])]
        records = [record_of(message) for message in found]
        parts = [
            size.to_bytes(4, "big") + record[4:] if message.queue_offset == offset else record
            for message, record in zip(found, records, strict=True)
        ]
        return Reply(fields=answer.fields, body=b"".join(parts))

    broker.script[PULL] = pulled


@pytest.mark.parametrize("size", [1 << 30, 0, 90])
async def test_a_record_of_a_wrong_size_is_skipped_and_the_others_are_handled(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, size: int
) -> None:
    broker = broker_with_a_bad_one(cluster, b"2", 0)
    break_record(broker, 2, size)
    handler = Handler()
    _, consumer = await consume(cluster, handler)
    await cluster.clock.advance(6)
    assert handled(handler) == [b"0", b"1", b"3", b"4"]
    assert broker.offsets["T", 0] == 5
    assert consumer.unreadable == 1
    lines = caplog.messages
    assert any("breaks off" in line and "goes_on_at=2" in line for line in lines)
    assert any("cannot be read" in line and "offset=2 position=-1" in line for line in lines)
    asked = [(each.fields["queueOffset"], each.fields["maxMsgNums"]) for each in broker.requests(PULL)]
    assert [each for each in asked if each != ("0", "32") and each[0] < "5"] == [("2", "32"), ("2", "1"), ("3", "32")]


async def test_an_answer_that_never_goes_on_is_asked_for_with_pauses_and_told(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    broker = broker_with_a_bad_one(cluster, b"2", 0)
    broker.script[PULL] = lambda request: Reply(fields=pull_fields(0, 5), body=b"nonsense")
    await consume(cluster, Handler())
    await cluster.clock.advance(30)
    pulls = [each for each in broker.requests(PULL) if each.fields["topic"] == "T"]
    assert 2 <= len(pulls) <= 30
    assert any("pull failed" in each and "whole record" in each for each in caplog.messages)


# --- pull consumers ---------------------------------------------------------------------------------------------------


async def test_poll_raises_with_the_place_and_seek_goes_on_behind_it(cluster: Cluster) -> None:
    broker = broker_with_a_bad_one(cluster, *BAD["a bad body"])
    queue = MessageQueue(broker_name="a", queue_id=0, topic="T")
    client = await cluster.client()
    async with client.pull_consumer("g", begin=FIRST) as consumer:
        await consumer.assign([queue])
        assert [each.body for each in await consumer.poll()] == [b"0", b"1"]
        for _ in range(2):
            with pytest.raises(Unreadable, match=r"offset 2 of .* position 200, .* on_unreadable=.skip.") as raised:
                await consumer.poll()
        fault = raised.value
        assert (fault.queue, fault.offset, fault.position, fault.next_offset) == (queue, 2, 200, 3)
        assert "cannot be decompressed" in fault.cause
        await consumer.commit()
        assert broker.offsets["T", 0] == 2
        await consumer.seek(fault.queue, fault.next_offset)
        assert [each.body for each in await consumer.poll()] == [b"3", b"4"]


async def test_a_pull_consumer_told_to_skip_names_it_in_the_log(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    broker_with_a_bad_one(cluster, *BAD["an unknown type"])
    client = await cluster.client()
    async with client.pull_consumer("g", begin=FIRST, on_unreadable="skip") as consumer:
        await consumer.assign([MessageQueue(broker_name="a", queue_id=0, topic="T")])
        assert [each.body for each in await consumer.poll()] == [b"0", b"1", b"3", b"4"]
        assert consumer.unreadable == 1
    assert any("cannot be read" in each and "position=200" in each for each in caplog.messages)


# --- memory -----------------------------------------------------------------------------------------------------------


async def test_bombs_of_a_pull_are_decompressed_within_the_limit_of_bytes(cluster: Cluster) -> None:
    broker = cluster.broker("a", T=1)
    cluster.topics["%RETRY%g"] = {"a": 1}
    broker.put("T", 0, *[zlib.compress(bytes([number]) * (1 << 20)) for number in range(32)], sys_flag=ZLIB)
    most = 0
    firsts: list[int] = []

    async def handle(msg: Received) -> None:
        nonlocal most
        most = max(most, sum(each.process.bytes for each in consumer.assigned.values()))
        firsts.append(msg.body[0])
        await cluster.clock.sleep(0.1)

    client = await cluster.client()
    consumer = client.push_consumer(
        "T", handle, group="g", begin=FIRST, concurrency=1, limits=FlowLimits(bytes=4 << 20)
    )
    async with consumer:
        for _ in range(60):
            await cluster.clock.advance(0.1)
        assert firsts == list(range(32))
        assert most <= 6 << 20  # the limit, an eighth of it, and one message more


async def test_bombs_are_given_to_a_pull_consumer_a_few_at_a_time(cluster: Cluster) -> None:
    broker = cluster.broker("a", T=1)
    broker.put("T", 0, *[zlib.compress(bytes([number]) * (1 << 20)) for number in range(8)], sys_flag=ZLIB)
    client = await cluster.client()
    async with client.pull_consumer("g", begin=FIRST, plain_bytes=3 << 20) as consumer:
        await consumer.assign([MessageQueue(broker_name="a", queue_id=0, topic="T")])
        batches = [[each.body[0] for each in await consumer.poll()] for _ in range(3)]
    assert batches == [[0, 1, 2], [3, 4, 5], [6, 7]]


# --- on a broker ------------------------------------------------------------------------------------------------------


async def test_it_is_found_among_the_dead_letters_as_it_was_sent(
    world: Servers, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    seen: list[bytes] = []

    async def handle(msg: Received) -> None:
        seen.append(msg.body)

    async with world.client() as client, client.producer() as producer:
        for number in range(10):
            await producer.send("T", str(number))
        (queue, *_) = (await client.session.route("T")).writable
        address = await client.session.master(queue)
        bad = {"a": "p", "b": "T", "c": "TBW102", "d": "4", "e": "0", "f": str(ZLIB), "g": "0", "h": "0", "j": "0"}
        await client.session.call(address, SEND, bad, b"no zlib")
        await producer.send("T", "after", queue=lambda queues: queues[0])
        async with client.push_consumer("T", handle, group="g", begin=FIRST):
            await turns_until(lambda: len(seen) >= 11)
            assert sorted(seen) == sorted([*(str(number).encode() for number in range(10)), b"after"])
        async with client.pull_consumer("look", begin=FIRST) as looking:
            await looking.assign(await looking.queues("%DLQ%g"))
            with pytest.raises(Unreadable, match="cannot be decompressed"):
                await looking.poll(10)
