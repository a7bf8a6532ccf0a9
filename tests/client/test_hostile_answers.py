"""Answers and requests of name servers and brokers that make no sense: no task of the client ends by one, and what is
good again later works."""

from __future__ import annotations

from typing import Any

import pytest

from pyromq.client.core.allocation import Average, MachineRoomNearby
from pyromq.client.core.routing import MOST_QUEUES, route_of
from pyromq.client.errors import BadAnswer
from pyromq.client.produce.requests import AwaitedReplies
from pyromq.model.codes import ResponseCode
from pyromq.model.group import ConsumeFromWhere
from pyromq.protocol.bodies.body import encode_body
from pyromq.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from pyromq.protocol.command import ONEWAY_FLAG, Command
from pyromq.protocol.compression import Compression, compressed_flag
from pyromq.protocol.headers.send import PushReplyMessage
from pyromq.protocol.requests import RequestCode
from pyromq.transport.dispatch import Reply, Request
from tests.client.cluster import Cluster, FakeBroker, record_of
from tests.client.messages import stored
from tests.client.test_push_timing import Handler, broker_with, consume

ZLIB = compressed_flag(Compression.ZLIB)
JUNK = b"\xff{[[[no json"


def route(queues: int, order: str | None = None) -> TopicRouteData:
    return TopicRouteData(
        broker_datas=[BrokerData(broker_name="a", broker_addrs={0: "a:10911"})],
        queue_datas=[QueueData(broker_name="a", perm=6, read_queue_nums=queues, write_queue_nums=queues)],
        order_topic_conf=order,
    )


@pytest.mark.parametrize("order", [f"a:{10**9}", "a:99999;b:99999", "a:" + "9" * 5000])
def test_an_order_setting_with_a_billion_queues_lets_nothing_be_written(order: str) -> None:
    found = route_of("T", route(4, order))
    assert (found.writable, len(found.readable)) == ((), 4)
    said = f"more than {MOST_QUEUES} queues" if len(order) < 100 else "is not BROKER:QUEUES"  # that is no number at all
    assert said in found.write_fault
    assert len(found.write_fault) < 500


@pytest.mark.parametrize("queues", [10**9, 2**31 - 1, MOST_QUEUES + 1])
def test_a_route_with_a_billion_queues_is_refused_before_any_is_made(queues: int) -> None:
    with pytest.raises(ValueError, match=f"gives the topic {queues} queues"):
        route_of("T", route(queues))


@pytest.mark.parametrize("queues", [0, -1, -(2**31)])
def test_a_route_with_a_negative_number_of_queues_has_none(queues: int) -> None:
    assert route_of("T", route(queues)).readable == ()


@pytest.mark.parametrize("body", [JUNK, b"", b"[]", b'{"queueDatas":[{"brokerName":7}]}', encode_body(route(10**9))])
async def test_a_client_outlives_routes_that_make_no_sense(cluster: Cluster, body: bytes) -> None:
    broker = broker_with(cluster, b"0")
    handler = Handler()
    client, consumer = await consume(cluster, handler)
    cluster.names_script = lambda request: Reply(body=body)
    await cluster.clock.advance(65)  # two refreshes
    with pytest.raises(BadAnswer, match="cannot be read"):
        await client.session.route("Other")
    cluster.names_script = None
    broker.put("T", 0, b"1")
    await cluster.clock.advance(31)
    assert [body for body, _ in handler.calls] == [b"0", b"1"]
    assert consumer._fault is None
    client.session.check_open()


def junk_for_a_while(cluster: Cluster, broker: FakeBroker, code: int, reply: Reply) -> None:
    """Until 30 s have passed."""
    builtin = getattr(broker, f"_on_{code}")
    until = cluster.clock.monotonic() + 30

    def answer(request: Request) -> Any:
        return reply if cluster.clock.monotonic() < until else builtin(request)

    broker.script[code] = answer


BAD_HEADER = Reply(fields={"nextBeginOffset": "²", "minOffset": "x", "maxOffset": "9" * 5000, "offset": "²"})


@pytest.mark.parametrize(
    ("code", "reply"),
    [
        (RequestCode.GET_CONSUMER_LIST_BY_GROUP, Reply(body=JUNK)),
        (RequestCode.LOCK_BATCH_MQ, Reply(body=JUNK)),
        (RequestCode.QUERY_CONSUMER_OFFSET, BAD_HEADER),
        (RequestCode.GET_MIN_OFFSET, BAD_HEADER),
        (RequestCode.PULL_MESSAGE, BAD_HEADER),
        (RequestCode.PULL_MESSAGE, Reply(ResponseCode.PULL_OFFSET_MOVED, fields={"nextBeginOffset": "-1e9"})),
        (RequestCode.PULL_MESSAGE, Reply(body=JUNK * 100)),
        (RequestCode.PULL_MESSAGE, Reply(99999)),
    ],
)
@pytest.mark.parametrize("orderly", [False, True])
async def test_a_consumer_outlives_answers_that_make_no_sense(
    cluster: Cluster, code: int, reply: Reply, orderly: bool
) -> None:
    broker = broker_with(cluster, b"0", b"1")
    junk_for_a_while(cluster, broker, code, reply)
    handler = Handler()
    _, consumer = await consume(cluster, handler, orderly=orderly)
    await cluster.clock.advance(70)
    assert sorted(body for body, _ in handler.calls) == [b"0", b"1"]
    assert consumer._fault is None


async def test_a_member_whose_id_a_strategy_cannot_read_ends_no_consumer(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Anybody can join a group, under any id."""
    broker = broker_with(cluster, b"0")

    def room(member: str) -> str:
        return member.split("@")[1]

    nearby = MachineRoomNearby(Average(), lambda queue: "me0", room)
    handler = Handler()
    _, consumer = await consume(cluster, handler, strategy=nearby)
    broker.members.append("evil")
    await cluster.clock.advance(25)
    broker.put("T", 0, b"1")
    await cluster.clock.advance(1)
    assert [body for body, _ in handler.calls] == [b"0", b"1"]
    assert any("queues not shared out, they stay" in each for each in caplog.messages)
    broker.members.remove("evil")
    await cluster.clock.advance(25)
    assert consumer._fault is None
    assert len(consumer.assigned) == 2


async def test_a_message_whose_keys_no_trace_can_hold_takes_no_other_traces_with_it(cluster: Cluster) -> None:
    broker = cluster.broker("a", T=1, RMQ_SYS_TRACE_TOPIC=1)
    cluster.topics["%RETRY%g"] = {"a": 1}
    good = {"KEYS": "good"}
    broker.put("T", 0, b"0", properties=good)
    broker.put("T", 0, b"1", properties={"KEYS": "MARK"})
    broker.put("T", 0, b"2", properties=good)

    def pulled(request: Request) -> Any:
        answer = broker._on_11(request)
        if isinstance(answer, Reply):  # a second 0x01 is a part of the value
            answer.body = bytes(answer.body).replace(b"MARK", b"M\x01RK")
        return answer

    broker.script[RequestCode.PULL_MESSAGE] = pulled
    client = await cluster.client(trace=True)
    handler = Handler()
    async with client.push_consumer("T", handler, group="g", begin=ConsumeFromWhere.FIRST_OFFSET):
        await cluster.clock.advance(2)
    tracer: Any = client._tracer
    assert len(handler.calls) == 3
    assert (tracer.lost, tracer.written) == (2, 4)


async def test_an_answer_to_a_send_that_makes_no_sense_is_told_to_the_sender(cluster: Cluster) -> None:
    broker = cluster.broker("a", T=1)
    client = await cluster.client()
    async with client.producer() as producer:
        broker.script[RequestCode.SEND_MESSAGE_V2] = lambda request: Reply(fields={"queueId": "²", "queueOffset": "x"})
        with pytest.raises(BadAnswer, match=r"the answer of \S+ cannot be read: bad header fields"):
            await producer.send("T", "x")
        del broker.script[RequestCode.SEND_MESSAGE_V2]
        assert (await producer.send("T", "x")).queue_offset == 0


# --- what brokers ask -------------------------------------------------------------------------------------------------


def push_reply(body: bytes, sys_flag: int, **other: str) -> tuple[PushReplyMessage, bytes]:
    fields = {
        "producerGroup": "P",
        "topic": "T",
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "4",
        "queueId": "0",
        "sysFlag": str(sys_flag),
        "bornTimestamp": "0",
        "flag": "0",
        "properties": "CORRELATION_ID\x01c1\x02",
        "bornHost": "/127.0.0.1:1",
        "storeHost": "/127.0.0.1:1",
        "storeTimestamp": "0",
    } | other
    return PushReplyMessage.from_fields(fields), body


@pytest.mark.parametrize("sys_flag", [ZLIB, 0x701])
async def test_a_reply_that_cannot_be_read_fails_who_waits_for_it(sys_flag: int) -> None:
    replies = AwaitedReplies()
    with replies.expect("c1") as waiting:
        replies.deliver(*push_reply(b"no zlib", sys_flag))
        with pytest.raises(BadAnswer, match="the reply to 'c1' cannot be read"):
            await waiting


@pytest.mark.parametrize("host", ["", "nonsense", "/x:99999999", "/²:²", "\x1b[2J:1"])
async def test_a_reply_from_a_host_that_is_none_is_a_reply(host: str) -> None:
    replies = AwaitedReplies()
    with replies.expect("c1") as waiting:
        replies.deliver(*push_reply(b"yes", 0, bornHost=host, storeHost=host))
        assert (await waiting).body == b"yes"


@pytest.mark.parametrize("code", [RequestCode.CHECK_TRANSACTION_STATE, RequestCode.CONSUME_MESSAGE_DIRECTLY])
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"nonsense",
        record_of(stored(0, b"no zlib", sys_flag=ZLIB, properties={"PGROUP": "P"})),
        record_of(stored(0, properties={"PGROUP": "P"})) * 2,
    ],
)
async def test_a_request_of_a_broker_with_a_message_that_cannot_be_read_leaves_the_connection(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, code: int, body: bytes
) -> None:
    broker = broker_with(cluster, b"0")
    handler = Handler()
    client, _ = await consume(cluster, handler)
    fields = {"tranStateTableOffset": "0", "commitLogOffset": "0", "consumerGroup": "g", "clientId": "me"}
    async with client.producer("P"):
        await cluster.clock.advance(1)
        (peer,) = broker.server.peers()
        peer.send(Command(code=code, flag=ONEWAY_FLAG, fields=fields, body=body))
        await cluster.clock.advance(1)
        assert tuple(broker.server.peers()) == (peer,)
        broker.put("T", 0, b"1")
        await cluster.clock.advance(1)
    assert [body for body, _ in handler.calls] == [b"0", b"1"]
    assert any("a broker's request cannot be read" in each for each in caplog.messages)
