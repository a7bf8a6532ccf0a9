"""What a broker refuses for a quota's sake comes again when it says, no sooner, and costs no attempt."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from pyromq.client.core.retry import announced_pause_s
from pyromq.client.errors import Refused, refused
from pyromq.client.produce.sending import SendPolicy, SendStatus
from pyromq.model.codes import ResponseCode
from pyromq.protocol.requests import RequestCode
from pyromq.transport.dispatch import Answer, Reply, Request
from tests.client.cluster import Cluster, FakeBroker
from tests.client.test_push_timing import PULL, Handler, broker_with, consume, pulls
from tests.client.world import World

SEND = RequestCode.SEND_MESSAGE_V2
BUSY = ResponseCode.SYSTEM_BUSY


def beyond_quota(ms: int) -> Reply:
    return Reply(BUSY, f"the quota is 1 message: try again in {ms} ms", fields={"retryAfterMs": str(ms)})


def refuse(broker: FakeBroker, times: int, ms: int) -> None:
    """The next sends are answered so, then as usual."""
    left = [times]

    def answer(request: Request) -> Answer:
        if left[0] == 0:
            return broker._on_310(request)
        left[0] -= 1
        return beyond_quota(ms)

    broker.script[SEND] = answer


async def test_a_send_waits_as_long_as_it_is_told(cluster: Cluster) -> None:
    broker = cluster.broker("a", T=1)
    refuse(broker, 4, 500)
    client = await cluster.client()
    async with client.producer(policy=SendPolicy(retries=1, timeout_s=10)) as producer:
        sending = asyncio.create_task(producer.send("T", b"x"))
        await cluster.clock.settle()
        await cluster.clock.advance(0.49)
        assert len(broker.requests(SEND)) == 1
        await cluster.clock.advance(0.06)  # a tenth later at most
        assert len(broker.requests(SEND)) == 2
        await cluster.clock.advance(2)
        assert sending.result().status is SendStatus.OK
    assert len(broker.requests(SEND)) == 5  # more than its attempts


async def test_the_time_of_a_send_is_its_bound(cluster: Cluster) -> None:
    broker = cluster.broker("a", T=1)
    refuse(broker, 9, 60_000)
    client = await cluster.client()
    async with client.producer(policy=SendPolicy(timeout_s=3)) as producer:
        sending = asyncio.create_task(producer.send("T", b"x"))
        await cluster.clock.settle()
        await cluster.clock.advance(3)
        with pytest.raises(Refused, match="try again in 60000 ms") as fault:
            await sending
    assert (fault.value.code, fault.value.retry_after_s) == (BUSY, 60)
    assert "more work than it can take" not in str(fault.value)
    assert len(broker.requests(SEND)) == 1


async def test_another_broker_is_tried_before_the_wait(cluster: Cluster) -> None:
    first, second = (cluster.broker(name, T=1) for name in "ab")
    for broker in (first, second):
        refuse(broker, 1, 2_000)
    client = await cluster.client()
    async with client.producer(policy=SendPolicy(timeout_s=5)) as producer:
        sending = asyncio.create_task(producer.send("T", b"x"))
        await cluster.clock.settle(200)
        await cluster.clock.advance(0.05)
        assert [len(broker.requests(SEND)) for broker in (first, second)] == [1, 1]
        await cluster.clock.advance(1.9)
        assert [len(broker.requests(SEND)) for broker in (first, second)] == [1, 1]
        await cluster.clock.advance(0.5)
        assert sending.result().status is SendStatus.OK


async def test_a_consumer_pulls_when_it_is_told(cluster: Cluster) -> None:
    broker = broker_with(cluster)
    broker.script[PULL] = lambda request: beyond_quota(5_000)
    await consume(cluster, Handler())
    count = len(pulls(broker))
    await cluster.clock.advance(4.9)
    assert len(pulls(broker)) == count
    await cluster.clock.advance(0.7)
    assert len(pulls(broker)) == count + 1


@pytest.mark.parametrize(
    ("remark", "field", "wait_s"),
    [
        ("[QUOTA]broker busy: try again in 1500 ms", "", 1.5),
        ("[QUOTA]broker busy: try again in 1500 ms", "200", 0.2),
        ("until it is changed nothing is taken", "", None),
        ("try again in ² ms", "²", None),
        ("try again in 99999999999999999999 ms", "-5", None),
        ("", "", None),
    ],
)
def test_when_to_come_again_is_read(remark: str, field: str, wait_s: float | None) -> None:
    fault = refused(BUSY, remark, "a:1")
    fault.retry_after_ms = field
    assert fault.retry_after_s == wait_s


async def test_no_time_at_all_is_a_short_pause(cluster: Cluster) -> None:
    fault = refused(BUSY, "try again in 0 ms", "a:1")
    assert 0.01 <= announced_pause_s(fault, 5.0, random.Random(3)) <= 0.011
    broker = cluster.broker("a", T=1)
    broker.script[RequestCode.POP_MESSAGE] = lambda request: beyond_quota(0)
    client = await cluster.client()
    async with client.simple_consumer("T", group="G") as consumer:
        receiving = asyncio.create_task(consumer.receive(1, wait=1))
        await cluster.clock.settle()
        assert len(broker.requests(RequestCode.POP_MESSAGE)) == 1
        await cluster.clock.advance(0.011)
        assert len(broker.requests(RequestCode.POP_MESSAGE)) == 2
        receiving.cancel()


async def test_sends_and_receives_beyond_a_quota_of_a_broker_all_arrive(tmp_path: Path) -> None:
    quotas = ("topic:T sendMessages=20 readMessages=20",)
    world = World(tmp_path, quotas=quotas)
    try:
        await world.start_name_server()
        await world.start_broker()
        async with world.client() as client, client.producer(policy=SendPolicy(timeout_s=20)) as producer:
            sent = await asyncio.gather(*(producer.send("T", b"%d" % number) for number in range(30)))
            assert {each.status for each in sent} == {SendStatus.OK}
            bodies: set[bytes] = set()
            async with client.simple_consumer("T", group="G", begin="first") as consumer:
                while len(bodies) < 30:
                    for message in await consumer.receive(10, wait=15):
                        bodies.add(message.body)
                        await message.ack()
    finally:
        await world.close()
