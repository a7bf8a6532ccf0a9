"""The seam: what stands around sends and handlers, in which order, and what its faults do."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from pyromq.client.errors import Error
from pyromq.client.handle.handlers import Outcomes
from pyromq.client.middleware import Draft, HandleNext, Middleware, SendNext, around_handling
from pyromq.client.produce.sending import SendResult
from pyromq.client.received import Received
from pyromq.protocol.bodies.keyed import MessageQueue
from pyromq.testing.broker import RmqBroker
from tests.client.messages import stored

QUEUE = MessageQueue(broker_name="a", queue_id=0, topic="T")


class Noting(Middleware):
    def __init__(self, name: str, notes: list[str]) -> None:
        self.name = name
        self.notes = notes

    async def send(self, drafts: list[Draft], call_next: SendNext) -> list[SendResult]:
        self.notes.append(f"{self.name} sends {len(drafts)}")
        for each in drafts:
            each.properties[self.name] = "was here"
        results = await call_next(drafts)
        self.notes.append(f"{self.name} sent {len(results)}")
        return results

    async def handle(self, messages: list[Received], call_next: HandleNext) -> Outcomes:
        self.notes.append(f"{self.name} handles {len(messages)}")
        outcomes = await call_next(messages)
        self.notes.append(f"{self.name} has {outcomes}")
        return outcomes


async def test_the_first_is_the_outermost_around_sends_and_handlers(rmq_broker: RmqBroker) -> None:
    await rmq_broker.create_topic("T")
    notes: list[str] = []
    client = await rmq_broker.client(middleware=[Noting("outer", notes), Noting("inner", notes)])
    got: list[Received] = []

    async def handle(msg: Received) -> None:
        got.append(msg)
        notes.append("handled")

    async with client.producer() as producer, client.push_consumer("T", handle, group="g"):
        await rmq_broker.settle()
        await producer.send("T", b"x")
        await rmq_broker.settle()
    assert notes[:4] == ["outer sends 1", "inner sends 1", "inner sent 1", "outer sent 1"]
    assert notes[4:] == ["outer handles 1", "inner handles 1", "handled", "inner has [None]", "outer has [None]"]
    assert (got[0].properties["outer"], got[0].properties["inner"]) == ("was here", "was here")


async def test_every_kind_of_send_passes_through(rmq_broker: RmqBroker) -> None:
    await rmq_broker.create_topic("T")
    notes: list[str] = []
    client = await rmq_broker.client(middleware=[Noting("m", notes)])

    async def slowly() -> AsyncIterator[bytes]:
        yield b"1"

    async with client.producer("shop") as producer:
        await producer.send_many("T", [b"1", b"2", b"3"])
        await producer.send_many("T", slowly())
        await producer.send_oneway("T", b"4")
        async with producer.transaction("T", b"5"):
            pass
        await rmq_broker.settle()
    sends = ["m sends 3", "m sent 3", "m sends 1", "m sent 1", "m sends 1", "m sent 0", "m sends 1", "m sent 1"]
    assert notes == sends
    assert all(each.properties["m"] == "was here" for each in rmq_broker.messages("T"))


async def test_a_request_and_its_reply_pass_through(rmq_broker: RmqBroker) -> None:
    await rmq_broker.create_topic("T")
    notes: list[str] = []
    client = await rmq_broker.client(middleware=[Noting("m", notes)])
    async with client.producer() as producer:

        async def answer(msg: Received) -> None:
            await producer.reply(msg, b"42")

        async with client.push_consumer("T", answer, group="g"):
            await rmq_broker.settle()
            reply = await producer.request("T", b"?")
    assert reply.body == b"42"
    assert notes.count("m sent 1") == 2


async def test_a_fault_of_the_middleware_fails_the_messages_and_nothing_else() -> None:
    class Broken(Middleware):
        async def handle(self, messages: list[Received], call_next: HandleNext) -> Outcomes:
            raise KeyError("mine")

    class Forgetful(Middleware):
        async def handle(self, messages: list[Received], call_next: HandleNext) -> Outcomes:
            return []

    async def attempt(messages: Any) -> Outcomes:
        return [None] * len(messages)

    two = [Received(stored(number), QUEUE) for number in range(2)]
    assert [type(each) for each in await around_handling(attempt, [Broken()])(two)] == [KeyError, KeyError]
    assert [type(each) for each in await around_handling(attempt, [Forgetful()])(two)] == [TypeError, TypeError]


async def test_a_fault_of_the_middleware_around_a_send_is_the_sender_s(rmq_broker: RmqBroker) -> None:
    class Refusing(Middleware):
        async def send(self, drafts: list[Draft], call_next: SendNext) -> list[SendResult]:
            raise Error("not today")

    client = await rmq_broker.client(middleware=[Refusing()])
    async with client.producer() as producer:
        with pytest.raises(Error, match="not today"):
            await producer.send("T", b"x")
