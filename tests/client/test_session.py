"""Connections, routes, heartbeats and errors: on virtual time where timing matters, else on real sockets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import pytest

from pyromq.client.client import connect
from pyromq.client.config import ClientConfig, name_servers
from pyromq.client.errors import Closed, NoBroker, NoNameServer, TopicNotFound, Unreachable
from pyromq.client.received import Received
from pyromq.errors import ConfigError
from pyromq.model.codes import ResponseCode
from pyromq.protocol.bodies.body import decode_body
from pyromq.protocol.bodies.heartbeat import HeartbeatData
from pyromq.protocol.requests import RequestCode
from pyromq.transport.dispatch import Reply, Request
from tests.client.cluster import Cluster
from tests.client.world import Servers


def test_the_argument_wins_over_the_environment_over_the_default() -> None:
    environment = {"NAMESRV_ADDR": "java:1", "PYROMQ_NAMESRV": "ours:1;ours:2"}
    assert name_servers("a:1; b:2,c:3", environment) == ("a:1", "b:2", "c:3")
    assert name_servers(["a:1"], environment) == ("a:1",)
    assert name_servers(None, environment) == ("ours:1", "ours:2")
    assert name_servers(None, {"NAMESRV_ADDR": "java:1"}) == ("java:1",)
    assert name_servers(None, {}) == ("127.0.0.1:9876",)


def test_nonsense_is_refused_before_anything_opens() -> None:
    with pytest.raises(ConfigError, match="no address"):
        connect("nonsense")
    with pytest.raises(ConfigError, match="no name server"):
        ClientConfig(name_servers=())
    with pytest.raises(ConfigError, match="call_timeout_s = 0"):
        connect("a:1", call_timeout_s=0)


async def test_no_name_server_unknown_topic_and_no_broker_are_different_errors(empty_world: Servers) -> None:
    address = await empty_world.start_name_server()
    await empty_world.start_broker()
    await empty_world.create_topic("orders")
    async with empty_world.client() as client:
        with pytest.raises(TopicNotFound) as unknown:
            await client.session.route("ordres")
        assert unknown.value.address == address
        assert unknown.value.code == 17
        assert "Closest: 'orders'" in unknown.value.hint
        assert f"pyromq topic create ordres -n {address}" in str(unknown.value)
        route = await client.session.route("orders")
        await empty_world.stop_broker()
        with pytest.raises(Unreachable) as gone:
            await client.session.call(route.master("broker-a") or "", RequestCode.HEART_BEAT)
        assert gone.value.address == route.master("broker-a")
    await empty_world.stop_name_server(address)
    async with connect(address) as client:
        with pytest.raises(NoNameServer) as silent:
            await client.session.route("orders")
        assert silent.value.address == address
        assert "pyromq up" in silent.value.hint


async def test_a_topic_without_a_writable_queue_has_no_broker(cluster: Cluster) -> None:
    cluster.broker("a", T=0)
    client = await cluster.client()
    with pytest.raises(NoBroker, match="no queue that can be written"):
        await client.session.route_to_write("T")


async def test_a_closed_client_says_so() -> None:
    async with connect("127.0.0.1:1") as client:
        pass
    with pytest.raises(Closed):
        await client.session.route("T")


@pytest.fixture
def hung() -> Iterator[str]:
    """An address that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


async def test_a_hung_and_a_dead_name_server_are_left_for_one_that_answers(world: Servers, hung: str) -> None:
    (alive,) = world.name_servers
    async with world.client(name_servers=(hung, "127.0.0.1:1", alive), name_server_patience_s=0.05) as client:
        assert (await client.session.route("TBW102")).writable
        assert client.session.name_servers._addresses[0] == alive


async def test_all_producers_and_consumers_of_a_client_share_one_connection_per_broker(cluster: Cluster) -> None:
    for name in "ab":
        cluster.broker(name, T=1)
    cluster.topics["%RETRY%g"] = {"a": 1, "b": 1}
    dialled: list[str] = []
    connect = cluster.network.connect

    async def noted(address: str, protocol: asyncio.BaseProtocol) -> None:
        dialled.append(address)
        await connect(address, protocol)

    cluster.network.connect = noted  # type: ignore[method-assign]
    client = await cluster.client()

    async def handle(msg: Received) -> None: ...

    async with (
        client.producer("one") as one,
        client.producer("two") as two,
        client.push_consumer("T", handle, group="g"),
        client.pull_consumer("p") as pulling,
    ):
        for producer in (one, two, one, two):
            await producer.send("T", b"x")
        await pulling.assign(await pulling.queues("T"))
        await cluster.clock.advance(6)
    assert sorted(dialled) == ["a:10911", "b:10911", "names:9876"]


async def test_routes_are_shared_by_all_who_ask_at_once(cluster: Cluster) -> None:
    cluster.broker("a", T=2)
    client = await cluster.client()
    routes = await asyncio.gather(*(client.session.route("T") for _ in range(5)))
    assert all(route is routes[0] for route in routes)


async def test_routes_are_read_again_every_30_s_and_at_once_after_a_failure(cluster: Cluster) -> None:
    cluster.broker("a", T=2)
    client = await cluster.client()
    await client.session.route("T")
    cluster.topics["T"]["a"] = 3
    await cluster.clock.advance(26)  # up to a tenth early, so that clients that began together part
    assert len((await client.session.route("T")).readable) == 2
    await cluster.clock.advance(4)
    assert len((await client.session.route("T")).readable) == 3
    cluster.topics["T"]["a"] = 4
    with pytest.raises(Unreachable):
        await client.session.call("nobody:1", RequestCode.HEART_BEAT)
    await cluster.clock.settle()
    assert len((await client.session.route("T")).readable) == 4


async def test_an_old_route_stays_while_the_name_server_has_none(cluster: Cluster) -> None:
    """A broker that restarts is unknown for a while; who forgot it then would fail sends for nothing."""
    cluster.broker("a", T=2)
    client = await cluster.client()
    await client.session.route("T")
    del cluster.topics["T"]
    await cluster.clock.advance(60)
    assert (await client.session.route("T")).readable


async def test_heartbeats_every_30_s_and_at_once_when_a_connection_ended(cluster: Cluster) -> None:
    broker = cluster.broker("a", T=1)
    client = await cluster.client()
    async with client.producer("makers") as producer:
        await producer.send("T", b"x")
        await cluster.clock.settle()
        beats = broker.requests(RequestCode.HEART_BEAT)
        assert len(beats) == 1
        beat = decode_body(HeartbeatData, beats[0].body)
        assert (beat.client_id, beat.producer_data_set[0].group_name) == (client.client_id, "makers")
        await cluster.clock.advance(30)
        assert len(broker.requests(RequestCode.HEART_BEAT)) == 2
        broker.cut()
        await cluster.clock.settle()
        assert len(broker.requests(RequestCode.HEART_BEAT)) == 3
    assert broker.requests(RequestCode.UNREGISTER_CLIENT)[0].fields["producerGroup"] == "makers"


async def test_a_heartbeat_that_a_broker_refuses_is_a_warning_once_and_again_when_its_words_change(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    words = "the subscription to topic T has 3 tags, the limit (maxTagsPerSubscription) is 2"
    broker = cluster.broker("a", T=1)
    broker.script[RequestCode.HEART_BEAT] = lambda request: Reply(ResponseCode.SUBSCRIPTION_PARSE_FAILED, words)
    client = await cluster.client()

    def warnings() -> list[str]:
        return [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]

    async with client.producer("makers") as producer:
        await producer.send("T", b"x")
        await cluster.clock.advance(90)
        assert len(broker.requests(RequestCode.HEART_BEAT)) > 3
        (line,) = warnings()
        assert "a:10911" in line
        assert "code=23" in line
        assert words in line
        words = "another limit"
        await cluster.clock.advance(90)
        assert ["another limit" in one for one in warnings()] == [False, True]
        refuse = broker.script.pop(RequestCode.HEART_BEAT)
        await cluster.clock.advance(90)
        broker.script[RequestCode.HEART_BEAT] = refuse
        await cluster.clock.advance(90)
        assert len(warnings()) == 3  # it was taken in between


async def test_who_leaves_says_so_after_its_last_heartbeat_was_heard(cluster: Cluster) -> None:
    """A broker that serves requests side by side would hear the heartbeat last, and count a member that is gone."""
    broker = cluster.broker("a", T=1)
    client = await cluster.client()
    heard = asyncio.Event()

    async def hear(request: Request) -> Reply:
        await heard.wait()
        return broker._on_34(request)

    async with client.pull_consumer("g") as consumer:
        await consumer.assign(await consumer.queues("T"))
        broker.script[RequestCode.HEART_BEAT] = hear
        beating = asyncio.create_task(client.session.heartbeats.send())
        await cluster.clock.settle()
        leaving = asyncio.create_task(consumer.stop())
        await cluster.clock.settle()
        assert not broker.requests(RequestCode.UNREGISTER_CLIENT)
        heard.set()
        await asyncio.gather(leaving, beating)
    assert broker.requests(RequestCode.UNREGISTER_CLIENT)[0].fields["consumerGroup"] == "g"


@pytest.mark.fresh_broker
async def test_a_broker_that_comes_back_is_told_who_we_are(world: Servers) -> None:
    async with world.client() as client, client.producer("makers") as producer:
        await producer.send("T", b"x")
        await world.restart_broker()
        while not await world.has_producer("makers"):
            continue


async def test_a_known_topic_whose_broker_is_away_is_no_unknown_topic(cluster: Cluster) -> None:
    cluster.topics["T"] = None  # type: ignore[assignment] # in the list, and without a route
    client = await cluster.client()
    with pytest.raises(NoBroker, match="knows topic 'T', but no broker that has it is registered"):
        await client.session.route("T")
    with pytest.raises(TopicNotFound, match=r"topic 'T2' does not exist .*Closest: 'T'"):
        await client.session.route("T2")


async def test_a_topic_that_is_made_while_we_ask_has_a_route(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """By another sender: between our question for its route and the one for the names of all topics."""
    cluster.broker("a", Other=1)
    client = await cluster.client()
    asked = client.session.name_servers.topics

    async def make_it_first() -> list[str]:
        cluster.broker("b", T=1)
        return await asked()

    monkeypatch.setattr(client.session.name_servers, "topics", make_it_first)
    assert list((await client.session.route("T")).addresses) == ["b"]
