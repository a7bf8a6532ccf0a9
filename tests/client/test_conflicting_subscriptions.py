"""Members of one group that subscribe to different things: by default messages go to nobody, as with Apache's broker;
where the broker refuses it, whoever comes second is told so, and nothing is lost."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

import pyromq
from pyromq.client.errors import Refused, SubscriptionConflict
from pyromq.model.group import ConsumeFromWhere
from pyromq.protocol.requests import RequestCode
from tests.client.conftest import NewWorld
from tests.client.world import Servers, turns_until

FIRST = ConsumeFromWhere.FIRST_OFFSET
OWN = pytest.mark.own_broker("refuseConflictingSubscriptions is a setting of ours")
TAG_A, TAG_B = pyromq.tag("a"), pyromq.tag("b")


class Inbox:
    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    async def handle(self, msg: pyromq.Received) -> None:
        self.bodies.append(msg.body)


async def send_thirty(world: Servers) -> None:
    async with world.client(instance="sender") as client, client.producer() as producer:
        for number in range(30):
            await producer.send("T", b"%d" % number, tag="ab"[number % 2])


async def refusing(world_with: NewWorld) -> Servers:
    world = await world_with(refuse_conflicting_subscriptions=True)
    await world.create_topic("T", 4)
    return world


async def set_refusing(world: Servers, value: str) -> None:
    body = f"refuseConflictingSubscriptions={value}\n".encode()
    answer = await world.ask(world.brokers["broker-a"].address, RequestCode.UPDATE_BROKER_CONFIG, body)
    assert answer.code == 0, answer.remark


@OWN
async def test_by_default_both_run_some_messages_go_to_nobody_and_the_broker_says_so(
    world: Any, caplog: pytest.LogCaptureFixture
) -> None:
    await world.create_topic("T", 4)
    inbox = Inbox()
    conflicts = world.brokers["broker-a"].broker.clients.consumers.conflicts
    async with (
        world.client(instance="one") as one,
        world.client(instance="two") as two,
        one.push_consumer("T", inbox.handle, group="g", filter=TAG_A) as first,
    ):
        async with two.push_consumer("T", inbox.handle, group="g", filter=TAG_B) as second:
            await turns_until(lambda: len(first.assigned) < 5 and len(second.assigned) < 5)
            assert len(conflicts.open) == 1
            assert "subscriptions of a group differ, messages are lost to it" in caplog.text
            await send_thirty(world)
            both = (first, second)
            queues = [each for one in both for queue, each in one.assigned.items() if queue.topic == "T"]
            await turns_until(lambda: sum(each.next_offset for each in queues) == 30)
            await turns_until(lambda: first.running + second.running == 0)
            assert 0 < len(inbox.bodies) < 30
        await turns_until(lambda: not conflicts.open)
        assert "subscriptions of a group agree again" in caplog.text


@OWN
async def test_who_comes_second_does_not_start_and_nothing_is_lost(world_with: NewWorld) -> None:
    world = await refusing(world_with)
    inbox = Inbox()
    async with (
        world.client(instance="one") as one,
        world.client(instance="two") as two,
        one.push_consumer("T", inbox.handle, group="g", filter=TAG_A) as first,
    ):
        second = two.push_consumer("T", inbox.handle, group="g", filter=TAG_B)
        with pytest.raises(SubscriptionConflict) as caught:
            await second.start()
        text = str(caught.value)
        assert f"group g: {two.client_id} (127.0.0.1:" in text
        assert "subscribes to T: b" in text
        assert f"{one.client_id} (127.0.0.1:" in text
        assert "which was there first, to T: a" in text
        assert "a group of their own" in caught.value.hint
        assert isinstance(caught.value, Refused)
        assert not second.is_open
        await send_thirty(world)
        await turns_until(lambda: len(inbox.bodies) == 15)
        assert len(first.assigned) == 5
        # The same client may try again, with what the group subscribes to.
        async with two.push_consumer("T", inbox.handle, group="g", filter=TAG_A) as third:
            await turns_until(lambda: 0 < len(third.assigned) < 5)
    broker: Any = world.brokers["broker-a"]
    assert broker.broker.clients.consumers.conflicts.refused == {}
    assert broker.broker.clients.consumers.conflicts.refusals == 1


@OWN
async def test_another_topic_of_the_same_group_is_refused_too(world_with: NewWorld) -> None:
    world = await refusing(world_with)
    await world.create_topic("U", 4)
    async with (
        world.client(instance="one") as one,
        world.client(instance="two") as two,
        one.push_consumer("T", Inbox().handle, group="g"),
    ):
        with pytest.raises(SubscriptionConflict, match=r"T: nothing, U: \*.*T: \*, U: nothing"):
            await two.push_consumer("U", Inbox().handle, group="g").start()


@OWN
@pytest.mark.parametrize("first_one", [True, False])
async def test_a_member_that_broadcasts_and_one_that_shares_are_no_group(
    world_with: NewWorld, tmp_path: Path, first_one: bool
) -> None:
    world = await refusing(world_with)
    given: dict[str, Any] = {"group": "g", "offsets_folder": tmp_path}
    async with (
        world.client(instance="one") as one,
        world.client(instance="two") as two,
        one.push_consumer("T", Inbox().handle, broadcast=first_one, **given),
    ):
        with pytest.raises(SubscriptionConflict, match=r"\(broadcast\) \*.*all or none"):
            await two.push_consumer("T", Inbox().handle, broadcast=not first_one, **given).start()
        async with two.push_consumer("T", Inbox().handle, broadcast=first_one, **given) as like:
            await turns_until(lambda: bool(like.assigned))


@OWN
async def test_differences_that_are_none(world_with: NewWorld) -> None:
    world = await refusing(world_with)
    one_way, other_way = pyromq.tag("a", "b"), pyromq.tag(" b ", "a")
    async with (
        world.client(instance="one") as one,
        world.client(instance="two") as two,
        world.client(instance="three") as three,
        one.push_consumer("T", Inbox().handle, group="g", filter=one_way),
        two.push_consumer("T", Inbox().handle, group="g", filter=other_way) as second,
        three.pull_consumer("g", filter=one_way) as third,
    ):
        await third.subscribe("T")
        await turns_until(lambda: bool(second.assigned))


@OWN
async def test_apps_and_decorators_and_the_blocking_client_raise_it(world_with: NewWorld) -> None:
    world = await refusing(world_with)
    address = next(iter(world.name_servers))
    app = pyromq.App(address)
    app.subscriber("T", group="g", filter=TAG_B)(Inbox().handle)
    declared = pyromq.connect(address)
    declared.subscribe("T", group="g", filter=TAG_B)(Inbox().handle)

    def block() -> None:
        with pyromq.sync.connect(address) as client, client.push_consumer("T", print, group="g", filter=TAG_B):
            raise AssertionError("it must not start")

    async with world.client() as one, one.push_consumer("T", Inbox().handle, group="g", filter=TAG_A):
        with pytest.raises(SubscriptionConflict, match="T: b"):
            await app.start()
        with pytest.raises(SubscriptionConflict, match="T: b"):
            await declared.start()
        with pytest.raises(SubscriptionConflict, match="T: b"):
            await asyncio.to_thread(block)


@OWN
async def test_other_groups_of_a_refused_client_go_on(world_with: NewWorld) -> None:
    world = await refusing(world_with)
    inbox = Inbox()
    async with (
        world.client(instance="one") as one,
        world.client(instance="two") as two,
        one.push_consumer("T", Inbox().handle, group="g", filter=TAG_A),
        two.push_consumer("T", inbox.handle, group="h", filter=TAG_B) as other,
    ):
        with pytest.raises(SubscriptionConflict):
            await two.push_consumer("T", Inbox().handle, group="g", filter=TAG_B).start()
        await send_thirty(world)
        await turns_until(lambda: len(inbox.bodies) == 15)
        assert len(other.assigned) == 5


@OWN
async def test_a_consumer_that_is_refused_later_says_so_and_goes_on_when_the_group_agrees(
    world_with: NewWorld, caplog: pytest.LogCaptureFixture
) -> None:
    world = await world_with()
    await world.create_topic("T", 4)
    inbox = Inbox()
    async with world.client(instance="two", heartbeat_s=0.1) as two:
        async with (
            world.client(instance="one") as one,
            one.push_consumer("T", inbox.handle, group="g", filter=TAG_A) as first,
        ):
            second = two.push_consumer("T", inbox.handle, group="g", filter=TAG_B)
            await second.start()
            await turns_until(lambda: bool(second.assigned))
            await set_refusing(world, "true")
            with pytest.raises(SubscriptionConflict, match=r"two.*subscribes to T: b.*one.*to T: a"):
                await second.wait()
            await turns_until(lambda: not second.assigned and len(first.assigned) == 5)
            errors = [one.getMessage() for one in caplog.records if one.levelno == logging.ERROR]
            assert [text.count("refused by the group") for text in errors] == [1]
        await turns_until(lambda: len(second.assigned) == 5)  # the other has left: it asked again
        waiting = asyncio.create_task(second.wait())
        await send_thirty(world)
        await turns_until(lambda: len(inbox.bodies) == 15)
        assert not waiting.done()
        await second.stop()
        await waiting


@OWN
async def test_a_topic_that_does_not_exist_yet_hides_no_conflict(world_with: NewWorld) -> None:
    world = await world_with(refuse_conflicting_subscriptions=True)
    async with (
        world.client(instance="one") as one,
        world.client(instance="two") as two,
        one.push_consumer("T", Inbox().handle, group="g", filter=TAG_A),
    ):
        with pytest.raises(SubscriptionConflict, match=r"two.*subscribes to T: b.*one.*to T: a"):
            await two.push_consumer("T", Inbox().handle, group="g", filter=TAG_B).start()


@OWN
async def test_where_no_broker_makes_topics_the_conflict_shows_when_the_topic_appears(world_with: NewWorld) -> None:
    world = await world_with(refuse_conflicting_subscriptions=True, auto_create_topic_enable=False)
    async with (
        world.client(instance="one", route_refresh_s=0.1) as one,
        world.client(instance="two", route_refresh_s=0.1) as two,
        one.push_consumer("T", Inbox().handle, group="g", filter=TAG_A) as first,
        two.push_consumer("T", Inbox().handle, group="g", filter=TAG_B) as second,
    ):
        await world.create_topic("T", 4)
        waiting = [asyncio.create_task(first.wait()), asyncio.create_task(second.wait())]
        (refused,), others = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        with pytest.raises(SubscriptionConflict, match="which was there first"):
            await refused
        for other in others:
            other.cancel()


@OWN
async def test_pulling_members_are_refused_by_subscribe_and_later_by_poll(world_with: NewWorld) -> None:
    world = await world_with()
    await world.create_topic("T", 4)
    async with (
        world.client(instance="two", heartbeat_s=0.1) as two,
        two.pull_consumer("g", filter=TAG_B, begin=FIRST) as second,
    ):
        async with (
            world.client(instance="one") as one,
            one.pull_consumer("g", filter=TAG_A, begin=FIRST) as first,
        ):
            await first.subscribe("T")
            await second.subscribe("T")
            await set_refusing(world, "true")

            async def poll_on() -> None:
                while True:
                    await second.poll(timeout=0.05)

            with pytest.raises(SubscriptionConflict, match="T: b"):
                await poll_on()
            await turns_until(lambda: len(first._queues) == 4 and not second._queues)
            async with world.client(instance="three") as three, three.pull_consumer("g", filter=TAG_B) as third:
                with pytest.raises(SubscriptionConflict, match=r"three.*T: b"):
                    await third.subscribe("T")
                # Queues that are assigned are shared with nobody: any filter will do.
                await third.assign(await third.queues("T"))
                assert await third.poll(timeout=0.01) == []
        await turns_until(lambda: len(second._queues) == 4)
        assert await second.poll(timeout=0.01) == []


@OWN
@pytest.mark.parametrize("kind", ["simple", "push"])
async def test_over_grpc_who_comes_second_is_told_by_start(world_with: NewWorld, kind: str) -> None:
    world = await refusing(world_with)
    endpoint = world.brokers["broker-a"].address
    async with (
        pyromq.connect(endpoints=endpoint) as one,
        pyromq.connect(endpoints=endpoint) as two,
        one.simple_consumer("T", group="g", filter=TAG_A),
    ):
        if kind == "simple":
            second: Any = two.simple_consumer("T", group="g", filter=TAG_B)
        else:
            second = two.push_consumer("T", Inbox().handle, group="g", filter=TAG_B)
        with pytest.raises(SubscriptionConflict, match=r"must subscribe alike.*subscribes to T: b.*to T: a"):
            await second.start()


@OWN
async def test_over_grpc_a_consumer_goes_on_once_its_group_takes_it(world_with: NewWorld) -> None:
    world = await refusing(world_with)
    endpoint = world.brokers["broker-a"].address

    async def receive_on(consumer: pyromq.SimpleConsumer) -> None:
        while True:
            try:
                await consumer.receive(wait=1)
            except pyromq.Unreachable:
                await asyncio.sleep(0.05)

    async with (
        pyromq.connect(endpoints=endpoint) as one,
        pyromq.connect(endpoints=endpoint) as two,
        one.simple_consumer("T", group="g", filter=TAG_A) as first,
    ):
        await set_refusing(world, "false")
        second = two.simple_consumer("T", group="g", filter=TAG_B)
        await second.start()
        await world.restart_broker()  # whichever comes back first is the group's member
        tasks = {asyncio.create_task(receive_on(one)): one for one in (first, second)}
        (refused,), _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        with pytest.raises(SubscriptionConflict, match="must subscribe alike"):
            await refused
        (other,) = tasks.keys() - {refused}
        other.cancel()
        await asyncio.wait([other])
        await tasks[other].stop()
        await turns_until(lambda: tasks[refused]._refusal is None)
        await send_thirty(world)
        held: list[bytes] = []
        while len(held) < 15:
            held += [each.body for each in await tasks[refused].receive(wait=1)]
        assert {int(body) % 2 for body in held} == {0 if tasks[refused] is first else 1}
