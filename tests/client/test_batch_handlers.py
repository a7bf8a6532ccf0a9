"""Batch handlers, time-outs that a handler renews, and one message never handled twice at once in a process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from pyromq.client.consume.consume_service import InFlight
from pyromq.client.core.retry import Reject, RetryLater
from pyromq.client.errors import Error
from pyromq.client.handle.handlers import outcomes_of, worker
from pyromq.client.received import Received
from pyromq.model.group import ConsumeFromWhere
from pyromq.protocol.bodies.keyed import MessageQueue
from pyromq.protocol.requests import RequestCode
from pyromq.transport.dispatch import Reply
from tests.client.cluster import Cluster, FakeBroker
from tests.client.messages import stored

BACK = RequestCode.CONSUMER_SEND_MSG_BACK
QUEUE = MessageQueue(broker_name="a", queue_id=0, topic="T")


def broker_with(cluster: Cluster, *bodies: bytes) -> FakeBroker:
    broker = cluster.broker("a", T=1)
    cluster.topics["%RETRY%g"] = {"a": 1}
    broker.script[BACK] = lambda _: Reply()
    broker.put("T", 0, *bodies)
    return broker


async def consume(cluster: Cluster, handler: Any, **options: Any) -> Any:
    client = await cluster.client()
    given: dict[str, Any] = {"group": "g", "begin": ConsumeFromWhere.FIRST_OFFSET} | options
    consumer = client.push_consumer("T", handler, **given)
    await consumer.start()
    await cluster.clock.settle(100)
    return consumer


def given_back(broker: FakeBroker) -> list[tuple[int, int]]:
    """Offset and level of what came back."""
    return [(int(each.fields["offset"]) // 100, int(each.fields["delayLevel"])) for each in broker.requests(BACK)]


async def test_a_batch_handler_gets_what_was_pulled_together_and_a_return_acks_it_all(cluster: Cluster) -> None:
    broker = broker_with(cluster, *(b"%d" % number for number in range(10)))
    batches: list[list[bytes]] = []

    async def handle(messages: list[Received]) -> None:
        batches.append([each.body for each in messages])

    consumer = await consume(cluster, handle, max_batch=4)
    assert batches == [[b"0", b"1", b"2", b"3"], [b"4", b"5", b"6", b"7"], [b"8", b"9"]]
    await consumer.stop()
    assert broker.offsets["T", 0] == 10
    assert given_back(broker) == []


async def test_what_a_batch_handler_returns_comes_again_and_the_rest_is_acked(cluster: Cluster) -> None:
    broker = broker_with(cluster, *(b"%d" % number for number in range(6)))

    async def handle(messages: list[Received]) -> list[Received]:
        return [each for each in messages if int(each.body) % 2]

    consumer = await consume(cluster, handle, max_batch=32)
    assert given_back(broker) == [(1, 0), (3, 0), (5, 0)]
    await consumer.stop()
    assert broker.offsets["T", 0] == 6


async def test_each_message_of_a_batch_may_have_an_end_of_its_own(cluster: Cluster) -> None:
    broker = broker_with(cluster, b"done", b"later", b"never", b"broken")
    ends = {b"later": RetryLater(60), b"never": Reject(), b"broken": ValueError("no")}

    async def handle(messages: list[Received]) -> dict[Received, Exception]:
        return {each: ends[each.body] for each in messages if each.body in ends}

    await consume(cluster, handle, max_batch=32)
    assert sorted(given_back(broker)) == [(1, 5), (2, -1), (3, 0)]


async def test_an_exception_fails_the_whole_batch(cluster: Cluster) -> None:
    broker = broker_with(cluster, b"0", b"1", b"2")

    async def handle(messages: list[Received]) -> None:
        raise RuntimeError("database away")

    await consume(cluster, handle, max_batch=32)
    assert given_back(broker) == [(0, 0), (1, 0), (2, 0)]


async def test_nothing_of_a_batch_is_acked_before_its_handler_ends(cluster: Cluster) -> None:
    broker = broker_with(cluster, b"0", b"1", b"2")
    may_end = asyncio.Event()

    async def handle(messages: list[Received]) -> None:
        await may_end.wait()

    consumer = await consume(cluster, handle, max_batch=2)
    await cluster.clock.advance(6)
    assert broker.offsets.get(("T", 0), 0) == 0
    may_end.set()
    await cluster.clock.advance(6)
    assert broker.offsets["T", 0] == 3
    await consumer.stop()


async def test_of_an_ordered_batch_those_that_failed_come_again_before_what_is_behind(cluster: Cluster) -> None:
    broker = broker_with(cluster, *(b"%d" % number for number in range(5)))
    calls: list[list[tuple[bytes, int]]] = []

    async def handle(messages: list[Received]) -> list[Received]:
        calls.append([(each.body, each.attempt) for each in messages])
        return [each for each in messages if each.body in (b"1", b"2") and each.attempt == 1]

    consumer = await consume(cluster, handle, max_batch=3, orderly=True)
    assert calls == [[(b"0", 1), (b"1", 1), (b"2", 1)]]
    await cluster.clock.advance(1)
    assert calls[1:] == [[(b"1", 2), (b"2", 2)], [(b"3", 1), (b"4", 1)]]
    await consumer.stop()
    assert broker.offsets["T", 0] == 5


# --- shapes ---------------------------------------------------------------------------------------------------------


def received(*bodies: bytes) -> list[Received]:
    return [Received(stored(offset, body), QUEUE) for offset, body in enumerate(bodies)]


async def test_values_by_type_hint_and_one_that_cannot_be_read_fails_alone() -> None:
    seen: list[Any] = []

    async def handle(numbers: list[int], messages: Sequence[Received]) -> list[Received]:
        seen.append((numbers, [each.offset for each in messages]))
        return [messages[0]]

    outcomes = await worker(handle, 1, True).run(received(b"1", b"x", b"3"))
    assert seen == [([1, 3], [0, 2])]
    assert [type(each).__name__ for each in outcomes] == ["ComeAgain", "ValueError", "NoneType"]


async def test_a_plain_batch_function_runs_in_a_thread() -> None:
    threads: list[str] = []

    def handle(values: list[str]) -> None:
        threads.append(threading.current_thread().name)
        assert values == ["a", "b"]

    handling = worker(handle, 1, True)
    assert await handling.run(received(b"a", b"b")) == [None, None]
    assert threads[0].startswith("pyromq-handler")
    handling.close()


def test_what_says_nothing_of_the_messages_is_refused() -> None:
    mine, (stranger,) = received(b"1", b"2"), received(b"3")
    for wrong in (True, "x", [stranger], {stranger: ValueError()}):
        with pytest.raises(TypeError, match="batch handler"):
            outcomes_of(mine, wrong)


async def test_a_batch_handler_takes_lists_and_a_batch_has_bounds(cluster: Cluster) -> None:
    client = await cluster.client()

    async def handle(order: int) -> None: ...

    with pytest.raises(Error, match=r"is a batch handler .* and no list"):
        client.push_consumer("T", handle, group="g", max_batch=3)
    with pytest.raises(Error, match="max_batch=0"):
        client.push_consumer("T", handle, group="g", max_batch=0)


# --- time-outs ------------------------------------------------------------------------------------------------------


async def test_a_handler_that_renews_itself_is_not_cancelled(cluster: Cluster) -> None:
    broker = broker_with(cluster, b"long")
    ended = asyncio.Event()

    async def handle(msg: Received) -> None:
        for _ in range(5):
            await cluster.clock.sleep(8)
            msg.renew()
        ended.set()

    consumer = await consume(cluster, handle, timeout_s=10)
    await cluster.clock.advance(41)
    assert ended.is_set()
    await consumer.stop()
    assert given_back(broker) == []


async def test_a_renewal_may_name_its_time_and_runs_out_too(cluster: Cluster) -> None:
    broker = broker_with(cluster, b"long")
    cancelled_at: list[float] = []

    async def handle(msg: Received) -> None:
        msg.renew(100)
        try:
            await cluster.clock.sleep(1000)
        finally:
            cancelled_at.append(cluster.clock.monotonic())

    await consume(cluster, handle, timeout_s=10)
    began = cluster.clock.monotonic()
    await cluster.clock.advance(99)
    assert given_back(broker) == []
    await cluster.clock.advance(2)
    assert [round(each - began) for each in cancelled_at] == [100]
    assert given_back(broker) == [(0, 0)]


async def test_a_batch_shares_one_time_out(cluster: Cluster) -> None:
    broker = broker_with(cluster, b"0", b"1")

    async def handle(messages: list[Received]) -> None:
        await cluster.clock.sleep(1000)

    await consume(cluster, handle, timeout_s=10, max_batch=2)
    await cluster.clock.advance(11)
    assert given_back(broker) == [(0, 0), (1, 0)]


def test_outside_a_handler_a_renewal_does_nothing() -> None:
    received(b"x")[0].renew()


# --- never twice at once --------------------------------------------------------------------------------------------


async def test_two_clients_of_one_process_never_handle_a_message_at_once(cluster: Cluster) -> None:
    """The queue goes from one client to the other while its message is in work."""
    broker = broker_with(cluster, b"slow")
    at_once, most, calls = 0, 0, 0
    may_end = asyncio.Event()

    async def handle(msg: Received) -> None:
        nonlocal at_once, most, calls
        at_once, calls = at_once + 1, calls + 1
        most = max(most, at_once)
        await may_end.wait()
        at_once -= 1

    first = await consume(cluster, handle)
    assert calls == 1
    broker.members.clear()  # the broker forgets it: the other one will own all
    second_client = await cluster.client()
    second = second_client.push_consumer("T", handle, group="g", begin=ConsumeFromWhere.FIRST_OFFSET)
    await second.start()
    broker.members[:] = [second_client.client_id]
    first.members_changed()
    await cluster.clock.advance(21)
    assert first.assigned.keys() != second.assigned.keys()
    assert (calls, most) == (1, 1)
    may_end.set()
    await cluster.clock.settle(100)
    assert (calls, most) == (2, 1)  # the first one's result came after its queue had left: it does not count


async def test_who_waits_for_a_message_in_work_may_be_on_another_loop() -> None:
    table, order = InFlight(), []
    await table.enter(["a", "b"])

    def other() -> None:
        async def work() -> None:
            await table.enter(["b", "c"])
            order.append("other")
            table.leave(["b", "c"])

        asyncio.run(work())

    thread = threading.Thread(target=other)
    thread.start()
    waiting = asyncio.create_task(table.enter(["a"]))
    await asyncio.sleep(0)
    waiting.cancel()  # gives up: nobody is stuck because of it
    await asyncio.gather(waiting, return_exceptions=True)
    order.append("mine")
    table.leave(["a", "b"])
    await asyncio.to_thread(thread.join)
    assert order == ["mine", "other"]
    await table.enter(["a", "b", "c"])
