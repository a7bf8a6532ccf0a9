"""Push consumers on our own broker: real sockets, restarts, two members, order, broadcast, dead letters, operators."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pyromq.client.client import connect
from pyromq.client.core.retry import Reject, Retry, RetryLater
from pyromq.client.errors import Error, Refused
from pyromq.client.received import Received
from pyromq.client.subscription import sql, tag
from pyromq.model.group import ConsumeFromWhere
from pyromq.protocol.bodies.body import decode_body
from pyromq.protocol.bodies.connections import ConsumeMessageDirectlyResult, ConsumerRunningInfo
from pyromq.protocol.bodies.keyed import MessageQueue
from pyromq.protocol.bodies.offsets import GetConsumerStatusBody
from pyromq.protocol.headers.clients import ConsumeMessageDirectly, GetConsumerRunningInfo
from pyromq.protocol.headers.offsets import GetConsumerStatus
from pyromq.protocol.requests import RequestCode
from tests.client.conftest import NewWorld
from tests.client.world import ON_JAVA, Servers, turns_until

FIRST = ConsumeFromWhere.FIRST_OFFSET


@dataclass
class Order:
    id: int


class Seen:
    """A handler that remembers, and lets a test wait for so many."""

    def __init__(self) -> None:
        self.messages: list[Received] = []

    async def __call__(self, msg: Received) -> None:
        self.messages.append(msg)

    @property
    def bodies(self) -> list[str]:
        return [message.body.decode() for message in self.messages]

    async def count(self, wanted: int) -> None:
        await turns_until(lambda: len(self.messages) >= wanted)


async def send(world: Servers, count: int, topic: str = "T", start: int = 0, **arguments: object) -> None:
    async with world.client() as client, client.producer() as producer:
        for number in range(start, start + count):
            await producer.send(topic, str(number), **arguments)  # type: ignore[arg-type]


async def test_everything_sent_is_handled_and_committed_at_the_stop(world: Servers) -> None:
    await send(world, 50)
    seen = Seen()
    async with world.client() as client, client.push_consumer("T", seen, group="g", begin=FIRST):
        await seen.count(50)
    assert sorted(map(int, seen.bodies)) == list(range(50))
    assert await world.committed("g") == 50


async def test_the_next_consumer_of_the_group_goes_on_where_the_last_stopped(world: Servers) -> None:
    await send(world, 10)
    for start in (0, 10, 20):
        seen = Seen()
        async with world.client() as client, client.push_consumer("T", seen, group="g", begin=FIRST):
            await seen.count(10)
        assert sorted(map(int, seen.bodies)) == list(range(start, start + 10))
        await send(world, 10, start=start + 10)


async def test_a_new_group_begins_at_the_end_unless_told_otherwise(world: Servers) -> None:
    await send(world, 5)
    seen = Seen()
    async with world.client() as client, client.push_consumer("T", seen, group="late") as consumer:
        await turns_until(lambda: all(each.next_offset >= 0 for each in consumer.assigned.values()))
        await send(world, 3, start=5)
        await seen.count(3)
    assert sorted(seen.bodies) == ["5", "6", "7"]


@pytest.mark.fresh_broker
async def test_a_broker_that_restarts_loses_and_repeats_nothing_that_was_committed(world: Servers) -> None:
    await send(world, 20)
    seen = Seen()
    async with world.client() as client, client.push_consumer("T", seen, group="g", begin=FIRST) as consumer:
        await seen.count(20)
        await consumer.commit()
        await world.restart_broker()
        await send(world, 20, start=20)
        await seen.count(40)
    assert sorted(map(int, seen.bodies)) == list(range(40))


async def test_values_tags_and_keys_reach_the_handler(world: Servers) -> None:
    await world.create_topic("T")
    got: list[tuple[Order, Received]] = []

    async def on_order(order: Order, msg: Received) -> None:
        got.append((order, msg))

    async with world.client() as client, client.producer() as producer:
        for number, name in enumerate(("created", "paid", "lost", "BB", "Aa")):  # the last two have one hash code
            await producer.send("T", Order(number), tag=name, keys=[f"k{number}"], props={"region": "eu"})
        async with client.push_consumer("T", on_order, group="g", filter=tag("created", "paid", "Aa"), begin=FIRST):
            await turns_until(lambda: len(got) == 3)
    assert {(order.id, msg.tag, *msg.keys) for order, msg in got} == {
        (0, "created", "k0"),
        (1, "paid", "k1"),
        (4, "Aa", "k4"),
    }
    _, msg = got[0]
    assert (msg.topic, msg.attempt, msg.properties["region"]) == ("T", 1, "eu")


async def test_a_blocking_handler_runs_in_a_thread(world: Servers) -> None:
    await send(world, 3)
    got: list[str] = []

    def on_text(text: str) -> None:
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()
        got.append(text)

    async with world.client() as client, client.push_consumer("T", on_text, group="g", begin=FIRST):
        await turns_until(lambda: len(got) == 3)
    assert sorted(got) == ["0", "1", "2"]


async def test_two_members_share_the_queues_and_one_that_leaves_hands_over(world: Servers) -> None:
    await world.create_topic("T", queues=4)
    one, two = Seen(), Seen()
    async with world.client() as first, world.client(instance="two") as second:
        consumer = first.push_consumer("T", one, group="g", begin=FIRST)
        await consumer.start()
        assert len([queue for queue in consumer.assigned if queue.topic == "T"]) == 4
        async with second.push_consumer("T", two, group="g", begin=FIRST) as other:

            def shared() -> bool:
                parts = [{queue for queue in each.assigned if queue.topic == "T"} for each in (consumer, other)]
                return len(parts[0]) == len(parts[1]) == 2 and not parts[0] & parts[1]

            await turns_until(shared)
            await send(world, 40)
            await turns_until(lambda: len(one.messages) + len(two.messages) >= 40)
        await turns_until(lambda: sum(queue.topic == "T" for queue in consumer.assigned) == 4)
        await send(world, 8, start=40)
        await turns_until(lambda: len(one.messages) + len(two.messages) >= 48)
        await consumer.stop()
    times = Counter(one.bodies + two.bodies)
    assert set(times) == {str(number) for number in range(48)}
    assert one.bodies
    assert two.bodies


async def test_order_is_kept_in_each_queue_under_failures(world: Servers) -> None:
    await world.create_topic("T", queues=4)
    async with world.client() as client, client.producer() as producer:
        for number in range(60):
            await producer.send("T", str(number), order_key=f"user-{number % 3}")
    seen: dict[str, list[int]] = {}
    running: set[MessageQueue] = set()
    failed: set[str] = set()

    async def handle(text: str, msg: Received) -> None:
        assert msg.queue not in running, "two at once in one queue"
        running.add(msg.queue)
        await asyncio.sleep(0)
        running.remove(msg.queue)
        if int(text) % 20 == 7 and text not in failed:
            failed.add(text)
            raise ValueError("not yet")
        seen.setdefault(msg.order_key or "", []).append(int(text))

    async with world.client() as client, client.push_consumer("T", handle, group="g", orderly=True, begin=FIRST):
        await turns_until(lambda: sum(map(len, seen.values())) == 60)
    assert failed == {"7", "27", "47"}
    assert all(seen[f"user-{user}"] == list(range(user, 60, 3)) for user in range(3))
    assert await world.committed("g") == 60


async def test_a_topic_with_one_queue_is_consumed_in_the_order_it_was_sent(world: Servers) -> None:
    await world.create_topic("T", queues=1)
    await send(world, 40)
    seen = Seen()
    async with world.client() as client, client.push_consumer("T", seen, group="g", orderly=True, begin=FIRST):
        await seen.count(40)
    assert seen.bodies == [str(number) for number in range(40)]


async def test_keys_find_a_message_and_do_not_choose_its_queue(world: Servers) -> None:
    await world.create_topic("T", queues=4)
    async with world.client() as client, client.producer() as producer:
        by_key = [await producer.send("T", b"x", keys=["same"]) for _ in range(4)]
        by_order = [await producer.send("T", b"x", order_key="same") for _ in range(4)]
    assert len({result.queue for result in by_key}) == 4
    assert len({result.queue for result in by_order}) == 1


async def test_a_handler_knows_how_many_wait_behind_its_message(world: Servers) -> None:
    await world.create_topic("T", queues=1)
    await send(world, 5)
    behind: list[int] = []

    async def handle(msg: Received) -> None:
        behind.append(msg.backlog)

    async with world.client() as client, client.push_consumer("T", handle, group="g", orderly=True, begin=FIRST):
        await turns_until(lambda: len(behind) == 5)
    async with world.client() as client, client.pull_consumer("p", begin=FIRST) as consumer:
        await consumer.assign(await consumer.queues("T"))
        polled = [msg.backlog for msg in await consumer.poll(10)]
    assert behind == polled == [4, 3, 2, 1, 0]


async def test_a_failed_message_comes_again_after_its_delay(world: Servers) -> None:
    """Whichever way the broker takes it back: request 36, or a delayed send to the retry topic."""
    await send(world, 2)
    attempts: list[tuple[str, int, str]] = []
    ids: set[str] = set()

    async def handle(text: str, msg: Received) -> None:
        attempts.append((text, msg.attempt, msg.topic))
        if text == "1":
            ids.add(msg.id)
            if msg.attempt < 3:
                raise RetryLater(1)

    async with world.client() as client, client.push_consumer("T", handle, group="g", begin=FIRST):
        await turns_until(lambda: len(attempts) == 4)
    assert sorted(attempts) == [("0", 1, "T"), ("1", 1, "T"), ("1", 2, "T"), ("1", 3, "T")]
    assert len(ids) == 1
    assert await world.committed("g") == 2
    assert await world.committed("g", "%RETRY%g") == 2


@pytest.mark.parametrize("orderly", [False, True])
async def test_a_rejected_message_is_a_dead_letter_with_its_reason(world: Servers, orderly: bool) -> None:
    await send(world, 2)

    async def handle(text: str) -> None:
        if text == "1":
            raise Reject("no\x01credit\n" + "ü" * 600)

    options: dict[str, Any] = {"group": "g", "begin": FIRST, "orderly": orderly}
    async with world.client() as client, client.push_consumer("T", handle, **options) as consumer:
        await turns_until(lambda: consumer.runner.done == 1 and consumer.runner.failed == 1)
    seen = Seen()
    async with world.client() as client, client.push_consumer("%DLQ%g", seen, group="undertaker", begin=FIRST):
        await seen.count(1)
    assert seen.bodies == ["1"]
    assert seen.messages[0].topic == "T"
    assert await world.committed("g") == 2
    reason = seen.messages[0].properties.get("PYRO_REASON")
    if orderly or not ON_JAVA:  # Apache's broker ignores the field of ours that gives a message back
        assert reason is not None
        assert reason.startswith(r"no\x01credit\nüüü")
        assert len(reason.encode()) <= 512
    else:
        assert reason is None


async def test_a_message_comes_again_so_many_times_and_is_then_a_dead_letter(world: Servers) -> None:
    """The first delivery is not counted: `times=1` is two attempts."""
    await send(world, 1)
    attempts: list[int] = []

    async def handle(msg: Received) -> None:
        attempts.append(msg.attempt)
        raise RetryLater(1)

    seen = Seen()
    options: dict[str, Any] = {"group": "g", "begin": FIRST, "retry": Retry(times=1)}
    async with world.client() as client, client.push_consumer("T", handle, **options):
        await turns_until(lambda: len(attempts) == 2)
        async with world.client() as other, other.push_consumer("%DLQ%g", seen, group="undertaker", begin=FIRST):
            await seen.count(1)
    assert attempts == [1, 2]
    assert seen.bodies == ["0"]


@pytest.mark.parametrize("orderly", [False, True])
async def test_operators_may_set_the_bound_of_a_group_at_the_broker(world: Servers, orderly: bool) -> None:
    await world.create_group("g", retryMaxTimes=0)
    await send(world, 1)

    async def handle(text: str) -> None:
        raise ValueError(text)

    options: dict[str, Any] = {"group": "g", "begin": FIRST, "orderly": orderly, "retry": Retry(of_group=True)}
    async with world.client() as client, client.push_consumer("T", handle, **options):
        seen = Seen()
        async with world.client() as other, other.push_consumer("%DLQ%g", seen, group="undertaker", begin=FIRST):
            await seen.count(1)
    assert seen.bodies == ["0"]
    if orderly or not ON_JAVA:
        assert seen.messages[0].properties["PYRO_REASON"] == "ValueError: 0"


async def test_broadcast_gives_everything_to_everybody_and_remembers_in_a_file(world: Servers, tmp_path: Path) -> None:
    await send(world, 6)
    folder = tmp_path / "offsets"
    one, two, again = Seen(), Seen(), Seen()
    options: dict[str, Any] = {"group": "g", "broadcast": True, "begin": FIRST, "offsets_folder": folder}
    async with (
        world.client(instance="one") as first,
        world.client(instance="two") as second,
        first.push_consumer("T", one, **options),
        second.push_consumer("T", two, **options),
    ):
        await one.count(6)
        await two.count(6)
    await send(world, 2, start=6)
    async with world.client(instance="one") as client, client.push_consumer("T", again, **options):
        await again.count(2)
    assert sorted(one.bodies) == sorted(two.bodies) == [str(number) for number in range(6)]
    assert sorted(again.bodies) == ["6", "7"]
    assert await world.committed("g") == 0


async def test_a_broadcast_member_without_a_name_goes_on_after_a_restart(world: Servers, tmp_path: Path) -> None:
    """Its client id has process and chance in it; its offsets must not."""
    options: dict[str, Any] = {"group": "g", "broadcast": True, "begin": FIRST, "offsets_folder": tmp_path / "offsets"}
    await send(world, 3)
    (names,) = world.name_servers
    for start in (0, 3):
        seen = Seen()
        async with connect(names) as client, client.push_consumer("T", seen, **options):
            await seen.count(3)
        assert sorted(seen.bodies) == [str(number) for number in range(start, start + 3)]
        await send(world, 3, start=start + 3)


async def test_a_stop_finishes_the_handlers_that_run(world: Servers) -> None:
    await send(world, 1)
    began, may_end, ended = asyncio.Event(), asyncio.Event(), []

    async def handle(msg: Received) -> None:
        began.set()
        await may_end.wait()
        ended.append(msg.body)

    async with world.client() as client:
        consumer = client.push_consumer("T", handle, group="g", begin=FIRST)
        await consumer.start()
        await began.wait()
        stopping = asyncio.create_task(consumer.stop())
        for _ in range(50):
            await asyncio.sleep(0)
        assert not stopping.done()
        may_end.set()
        await stopping
    assert ended == [b"0"]
    assert await world.committed("g") == 1


async def test_subscribe_declares_before_the_start_and_wait_ends_with_the_stop(world: Servers) -> None:
    await send(world, 3)
    seen = Seen()
    (address,) = world.name_servers
    client = connect(address)

    @client.subscribe("T", group="g", begin=FIRST)
    async def handle(msg: Received) -> None:
        await seen(msg)

    async with client:
        await seen.count(3)
        waiting = asyncio.create_task(client.wait())
        with pytest.raises(Error, match="runs already"):
            client.subscribe("T", group="other")
    await waiting
    assert sorted(seen.bodies) == ["0", "1", "2"]


async def test_operators_see_and_try_a_python_consumer(world: Servers) -> None:
    """307, 309 and a reset, by way of the broker, as mqadmin asks for them."""
    await send(world, 4)
    seen = Seen()
    address = world.brokers["broker-a"].address
    async with world.client() as client, client.push_consumer("T", seen, group="g", begin=FIRST):
        await seen.count(4)
        ask = client.session.call
        header = GetConsumerRunningInfo(consumer_group="g", client_id=client.client_id)
        answer = await ask(address, RequestCode.GET_CONSUMER_RUNNING_INFO, header)
        assert b'"mqTable":{{"brokerName":"broker-a","queueId":' in bytes(answer.body)  # Java reads no other keys
        info = decode_body(ConsumerRunningInfo, answer.body)
        assert sum(each.commit_offset for queue, each in info.mq_table.items() if queue.topic == "T") == 4
        assert {each.topic for each in info.subscription_set} == {"T", "%RETRY%g"}
        trial = ConsumeMessageDirectly(
            consumer_group="g", client_id=client.client_id, msg_id=seen.messages[0].message.offset_id, topic="T"
        )
        answer = await ask(address, RequestCode.CONSUME_MESSAGE_DIRECTLY, trial)
        result = decode_body(ConsumeMessageDirectlyResult, answer.body)
        assert result.consume_result == "CR_SUCCESS"
        assert seen.bodies[4] == seen.bodies[0]


async def test_operators_ask_for_the_offsets_that_a_python_consumer_holds(world: Servers) -> None:
    """221, by way of the broker's 223."""
    await send(world, 4)
    seen = Seen()
    address = world.brokers["broker-a"].address
    async with world.client() as client, client.push_consumer("T", seen, group="g", begin=FIRST):
        await seen.count(4)
        header = GetConsumerStatus(topic="T", group="g")
        answer = await client.session.call(address, RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, header)
        held = decode_body(GetConsumerStatusBody, answer.body).consumer_table[client.client_id]
        assert sum(held.values()) == 4


async def test_an_sql_filter_over_the_properties(world_with: NewWorld) -> None:
    world = await world_with(enable_property_filter=True)
    seen = Seen()
    pulled: list[bytes] = []
    wanted = sql("region = 'eu' AND total > 10")
    async with world.client() as client, client.producer() as producer:
        for total in (5, 15, 25):
            for region in ("eu", "us"):
                await producer.send("T", f"{region}{total}", props={"region": region, "total": str(total)})
        async with client.push_consumer("T", seen, group="g", filter=wanted, begin=FIRST):
            await seen.count(2)
        with pytest.raises(Refused, match=r"line 1, column [89]"):
            await client.push_consumer("T", Seen(), group="h", filter=sql("region =")).start()
        async with client.pull_consumer("q", filter=sql("a >")) as consumer:
            with pytest.raises(Refused, match="line 1, column"):
                await consumer.assign(await consumer.queues("T"))
            with pytest.raises(Refused, match="line 1, column"):
                await consumer.subscribe("T")
        async with client.pull_consumer("p", filter=wanted, begin=FIRST) as consumer:
            await consumer.assign(await consumer.queues("T"))
            while len(pulled) < 2:
                pulled += [msg.body for msg in await consumer.poll(timeout=1)]
    assert sorted(seen.bodies) == ["eu15", "eu25"]
    assert sorted(pulled) == [b"eu15", b"eu25"]


async def test_a_group_may_take_several_topics_each_with_a_filter_of_its_own(world: Servers) -> None:
    seen = Seen()
    async with world.client() as client, client.producer() as producer:
        for topic in ("orders", "payments"):
            for name in ("a", "b"):
                await producer.send(topic, f"{topic} {name}", tag=name)
        wanted = {"orders": tag("*"), "payments": tag("b")}
        async with client.push_consumer(wanted, seen, group="g", begin=FIRST):
            await seen.count(3)
    assert sorted(seen.bodies) == ["orders a", "orders b", "payments b"]


async def test_a_broker_without_sql_says_so_at_the_start(world: Servers) -> None:
    await send(world, 1)
    async with world.client() as client:
        with pytest.raises(Refused, match="does not support"):
            await client.push_consumer("T", Seen(), group="g", filter=sql("a > 1")).start()
        async with client.pull_consumer("p", filter=sql("a > 1")) as consumer:
            with pytest.raises(Refused, match="does not support"):
                await consumer.subscribe("T")


async def test_what_cannot_be_is_refused_with_a_word_of_advice(world: Servers) -> None:
    async with world.client() as client:
        with pytest.raises(Error, match="do not go together"):
            client.push_consumer("T", Seen(), group="g", orderly=True, broadcast=True)
        with pytest.raises(Error, match="may hold only"):
            client.push_consumer("T", Seen(), group="bad group")
        with pytest.raises(Error, match="takes 0 arguments"):
            client.push_consumer("T", lambda: None, group="g")
        with pytest.raises(Error, match="expression is empty"):
            sql(" ")
        with pytest.raises(Error, match="tag is empty"):
            tag("a", "")
        async with client.push_consumer("T", Seen(), group="g"):
            with pytest.raises(Error, match="has a consumer in this client already"):
                await client.push_consumer("T", Seen(), group="g").start()


async def test_a_group_that_operators_set_orderly_is_serial_without_a_word_in_the_consumers_code(
    world: Servers,
) -> None:
    await world.create_topic("T", queues=1)
    await world.create_group("g", consumeMessageOrderly=True)
    await send(world, 12)
    at_work, most, seen = 0, 0, []

    async def handle(text: str) -> None:
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        for _ in range(20):
            await asyncio.sleep(0)
        at_work -= 1
        seen.append(text)

    async with world.client() as client, client.push_consumer("T", handle, group="g", begin=FIRST):
        await turns_until(lambda: len(seen) == 12)
    assert (most, seen) == (1, [str(number) for number in range(12)])
