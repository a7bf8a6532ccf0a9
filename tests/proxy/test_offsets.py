"""PullMessage and the offsets of queues and groups: what Java's proxy leaves unimplemented works here."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from pyromq.protocol.grpc import v2
from pyromq.protocol.grpc.v2 import Code, QueryOffsetPolicy
from tests.proxy.calling import Endpoint, TestCall, endpoint


def queue(topic: str = "T", number: int = 0, broker: str = "broker-a") -> v2.MessageQueue:
    return v2.MessageQueue(topic=v2.Resource(name=topic), id=number, broker=v2.Broker(name=broker))


def elements(call: TestCall) -> list[v2.PullMessageResponse]:
    found = []
    while not call.answered.empty():
        found.append(v2.PullMessageResponse.FromString(call.answered.get_nowait()))
    return found


async def pull(grpc: Endpoint, offset: int, **more: Any) -> list[v2.PullMessageResponse]:
    shape: dict[str, Any] = {"group": v2.Resource(name="g"), "message_queue": queue(), "batch_size": 32} | more
    call, task = grpc.begin(v2.PullMessageRequest(offset=offset, **shape), method="PullMessage")
    await task
    return elements(call)


async def test_messages_from_an_offset_on(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as grpc:
        grpc.topic("T", queues=1)
        grpc.group("g")
        for body in (b"0", b"1", b"2"):
            await grpc.send("T", body, tag=body.decode())
        answer = await pull(grpc, 1)
        assert answer[0].status.code == Code.OK
        assert [one.message.body for one in answer[1:-1]] == [b"1", b"2"]
        assert answer[-1].next_offset == 3
        some = await pull(grpc, 0, filter_expression=v2.FilterExpression(type=v2.FilterType.TAG, expression="2"))
        assert [one.message.body for one in some if one.HasField("message")] == [b"2"]
        nothing = await pull(grpc, 3)
        assert nothing[0].status.code == Code.MESSAGE_NOT_FOUND
        assert nothing[-1].next_offset == 3


async def test_a_pull_waits_for_a_message(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as grpc:
        grpc.topic("T", queues=1)
        grpc.group("g")
        request = v2.PullMessageRequest(group=v2.Resource(name="g"), message_queue=queue(), batch_size=1)
        request.long_polling_timeout.FromSeconds(10)
        call, task = grpc.begin(request, method="PullMessage")
        await asyncio.sleep(0)
        assert not task.done()
        await grpc.send("T", b"new")
        await task
        assert [one.message.body for one in elements(call)][1] == b"new"


async def test_offsets_of_a_group(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as grpc:
        grpc.topic("T", queues=1)
        grpc.group("g")
        await grpc.send("T")
        group = v2.Resource(name="g")
        asked = v2.GetOffsetRequest(group=group, message_queue=queue())
        assert (await grpc.ask("GetOffset", asked)).status.code == Code.OFFSET_NOT_FOUND
        update = v2.UpdateOffsetRequest(group=group, message_queue=queue(), offset=1)
        assert (await grpc.ask("UpdateOffset", update)).status.code == Code.OK
        assert (await grpc.ask("GetOffset", asked)).offset == 1


async def test_offsets_of_a_queue(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as grpc:
        grpc.topic("T", queues=1)
        for _ in range(3):
            await grpc.send("T")
            await grpc.clock.advance(10)

        async def offset(policy: int, **more: Any) -> int:
            request = v2.QueryOffsetRequest(message_queue=queue(), query_offset_policy=policy)
            for name, milliseconds in more.items():
                getattr(request, name).FromMilliseconds(milliseconds)
            answer = await grpc.ask("QueryOffset", request)
            assert answer.status.code == Code.OK, answer.status.message
            return int(answer.offset)

        assert await offset(QueryOffsetPolicy.BEGINNING) == 0
        assert await offset(QueryOffsetPolicy.END) == 3
        assert await offset(QueryOffsetPolicy.TIMESTAMP, timestamp=grpc.clock.now_ms() - 15_000) == 2
        missing = v2.QueryOffsetRequest(message_queue=queue(), query_offset_policy=QueryOffsetPolicy.TIMESTAMP)
        assert (await grpc.ask("QueryOffset", missing)).status.code == Code.BAD_REQUEST


async def test_what_cannot_be_asked(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as grpc:
        grpc.topic("T", queues=1)
        negative = await pull(grpc, -1)
        assert negative[0].status.code == Code.ILLEGAL_OFFSET
        assert (await pull(grpc, 0, batch_size=0))[0].status.code == Code.BAD_REQUEST
        elsewhere = await pull(grpc, 0, message_queue=queue(broker="broker-x"))
        assert elsewhere[0].status.message == "cannot find broker broker-x"
