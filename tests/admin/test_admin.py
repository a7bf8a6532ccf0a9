"""Typed operations against real servers of ours: what the command lines do not show by themselves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pyromq.admin import cluster, groups, messages, offsets, settings, topics
from pyromq.admin.calls import Calls
from pyromq.admin.copies import CannotCopy, CopyRange, forward, message_id, own_properties, ranges_to_copy
from pyromq.admin.search import Window, by_id, by_time
from pyromq.client.errors import NoBroker, Refused
from pyromq.model.message import Property, StoredMessage
from pyromq.protocol.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupList
from pyromq.protocol.bodies.topics import CreateTopicListRequestBody, TopicConfig
from pyromq.protocol.headers.header import RpcHeader
from pyromq.protocol.requests import RequestCode
from tests.client.world import World


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    world = World(tmp_path)
    await world.start_name_server()
    await world.start_broker()
    yield world
    await world.close()


@pytest.fixture
async def calls(world: World) -> AsyncIterator[Calls]:
    async with world.client() as client:
        yield Calls(client.session, timeout_s=20)


async def test_topics_and_groups_that_are_not_there(world: World, calls: Calls) -> None:
    (place,) = await cluster.masters(calls)
    assert await topics.config(calls, place.address, "nowhere") is None
    assert await topics.route(calls, "nowhere") is None
    assert await groups.config(calls, place.address, "nobody") is None
    assert await groups.connections(calls, place.address, "nobody") is None
    assert await offsets.committed(calls, place.address, "nobody", "T", 0) is None
    with pytest.raises(Refused):
        await topics.stats(calls, place.address, "nowhere")
    with pytest.raises(NoBroker, match="cluster 'nowhere' has no master"):
        await cluster.masters(calls, "nowhere")
    assert "nobody" not in await groups.configs(calls, place.address)  # looking makes nothing


async def test_many_topics_come_in_pages(world: World, calls: Calls) -> None:
    (place,) = await cluster.masters(calls)
    before = await topics.configs(calls, place.address)
    fresh = [TopicConfig(topic_name=f"t{number}", read_queue_nums=1, write_queue_nums=1) for number in range(30)]
    body = CreateTopicListRequestBody(topic_config_list=fresh)
    await calls.ask(place.address, RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, RpcHeader(), body)
    assert (await topics.configs(calls, place.address)).keys() - before.keys() == {f"t{number}" for number in range(30)}
    many = [SubscriptionGroupConfig(group_name=f"g{number}") for number in range(30)]
    listed = SubscriptionGroupList(group_config_list=many)
    await calls.ask(place.address, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, body=listed)
    assert {f"g{number}" for number in range(30)} <= (await groups.configs(calls, place.address)).keys()


async def test_reading_searching_and_finding(world: World, calls: Calls) -> None:
    await world.create_topic("T", 1)
    async with world.client() as client, client.producer() as producer:
        sent = [await producer.send("T", f"m{number}", tag="ab"[number % 2]) for number in range(40)]
    places = await cluster.masters(calls)
    address = places[0].address
    page = await messages.read_queue(calls, address, "T", 0, 35)
    assert ([one.body for one in page.messages], page.next_offset, page.end) == (
        [b"m35", b"m36", b"m37", b"m38", b"m39"],
        40,
        40,
    )
    beyond = await messages.read_queue(calls, address, "T", 0, 99)
    assert (beyond.messages, beyond.end) == ([], 40)
    found = [one.message.body async for one in by_time(calls, places, "T", Window(tags="b"))]
    assert found == [f"m{number}".encode() for number in range(1, 40, 2)]
    middle = page.messages[0].store_timestamp
    late = [one.message async for one in by_time(calls, places, "T", Window(begin_ms=middle))]
    assert late[-1].body == b"m39"
    assert all(one.store_timestamp >= middle for one in late)
    assert [one async for one in by_time(calls, places, "T", Window(end_ms=1))] == []
    for word in (sent[7].message_id, sent[7].offset_message_id):
        one = await by_id(calls, places, "T", word)
        assert one is not None
        assert one.message.body == b"m7"
    assert await by_id(calls, places, "T", "0" * 32) is None
    assert await messages.at_position(calls, address, 1) is None


async def test_a_message_that_cannot_be_read_is_found_and_shown_as_it_is_stored(
    world: World, calls: Calls, caplog: pytest.LogCaptureFixture
) -> None:
    await world.create_topic("T", 1)
    (place,) = await cluster.masters(calls)
    fields = {"a": "p", "b": "T", "c": "TBW102", "d": "4", "e": "0", "f": "769", "g": "0", "h": "0", "j": "0"}
    fields |= {"i": "UNIQ_KEY\x01U1\x02KEYS\x01k\x02"}  # 769: compressed by zlib, which it is not
    async with world.client() as client, client.producer() as producer:
        await producer.send("T", "before")
        await client.session.call(place.address, RequestCode.SEND_MESSAGE_V2, fields, b"no zlib")
        await producer.send("T", "after")
    page = await messages.read_queue(calls, place.address, "T", 0, 0)
    assert ([one.body for one in page.messages], page.next_offset) == ([b"before", b"no zlib", b"after"], 3)
    found = await messages.by_key(calls, place.address, "T", "k")
    assert [one.body for one in found] == [b"no zlib"]
    one = await messages.at_position(calls, place.address, found[0].physical_offset)
    assert one is not None
    assert one.message_id == "U1"
    lines = [each for each in caplog.messages if "shown as it is stored" in each]
    assert len(lines) == 3
    assert "id=U1" in lines[0]


async def test_the_key_value_table_is_written_on_every_name_server(world: World) -> None:
    await world.start_name_server()
    async with world.client() as client:
        calls = Calls(client.session, timeout_s=20)
        await settings.kv_put(calls, "N", "k", "v")
        for server in world.name_servers:
            async with world.client(name_servers=(server,)) as one:
                assert await settings.kv_get(Calls(one.session), "N", "k") == "v"


async def test_forwarding_that_is_stopped_goes_on_behind_its_last_page(world: World, calls: Calls) -> None:
    await world.create_topic("narrow", 1)
    await world.create_topic("wide", 8)
    async with world.client() as client, client.producer() as producer:
        await producer.send_many("narrow", [str(number) for number in range(200)], order_key="k")
    places = await cluster.masters(calls)
    (work,) = await ranges_to_copy(calls, places, "narrow", "wide")
    assert (work.first, work.end, work.is_resumed) == (0, 200, False)

    skipped: list[CannotCopy] = []

    def stop(count: int) -> None:
        raise InterruptedError(f"stopped after {count}")

    with pytest.raises(InterruptedError, match="stopped after 32"):
        await forward(calls, "narrow", "wide", [work], stop, skipped.append)
    (rest,) = await ranges_to_copy(calls, places, "narrow", "wide")
    assert (rest.first, rest.end, rest.is_resumed) == (32, 200, True)
    counts: list[int] = []
    await forward(calls, "narrow", "wide", [rest], counts.append, skipped.append)
    assert (sum(counts), skipped) == (168, [])
    copied = [one.message.body.decode() async for one in by_time(calls, places, "wide", Window())]
    assert copied == [str(number) for number in range(200)]  # one key, one queue, its order
    assert await ranges_to_copy(calls, places, "narrow", "wide") == [CopyRange(places[0], 0, 200, 200, True)]


def test_a_copy_keeps_what_is_the_applications() -> None:
    stored = StoredMessage(
        topic="%DLQ%g",
        body=b"x",
        properties={"region": "eu", "TAGS": "a", "KEYS": "k", "DELAY": "3", "UNIQ_KEY": "U", "TRAN_MSG": "true"}
        | {Property.DLQ_ORIGIN_MESSAGE_ID: "O"},
        queue_id=0,
        queue_offset=0,
        physical_offset=0,
        store_size=1,
        sys_flag=0,
        body_crc=0,
        born_timestamp=0,
        born_host=bytes(8),
        store_timestamp=0,
        store_host=bytes(8),
    )
    assert own_properties(stored) == {"region": "eu", "TAGS": "a", "KEYS": "k"}
    assert message_id(stored) == "O"
