"""Order on our broker with Java's clients: the four cells, rebalance, death, restart, and order topics."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import pyromq
from pyromq.cli.main import cli

from . import wire
from .conftest import OwnCluster, is_known
from .peers import java, ours
from .peers.process import ProgramFailed
from .waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.slow]  # long waits: make interop

GetClient = Callable[..., java.Client]
HEADERS = {"5.5.0": False, "4.9.8": True}
KEYS = 4  # message groups
UPDATE_BROKER_CONFIG = 25


@pytest.fixture(params=HEADERS)
def client(request: pytest.FixtureRequest, java_client: GetClient) -> java.Client:
    return java_client(request.param, binary_headers=HEADERS[request.param])


@pytest.fixture(scope="module")
def cluster(home: Callable[[str], Path]) -> Iterator[OwnCluster]:
    """Its locks live 5 s instead of a minute without renewal."""
    with ExitStack() as stack:
        name_server = ours.NameServer(home("order-namesrv"))
        stack.callback(name_server.kill)
        settings = {"rebalanceLockMaxLiveTime": "5000", "flushConsumerOffsetInterval": "200"}
        broker = ours.Broker(home("order-broker"), [name_server.address], settings)
        stack.callback(lambda: broker.kill())
        yield OwnCluster(name_server, broker)


# --- the four cells: a message group at the producer or not, orderly or concurrent at the consumer --------------------


def send(client: java.Client, cluster: OwnCluster, topic: str, *, by_group: bool) -> list[str]:
    """Twenty of each group, `group:number`; body i of the selector goes to queue i modulo the queues."""
    bodies = [f"{number % KEYS}:{number // KEYS}" for number in range(20 * KEYS)]
    client.send_by("selector" if by_group else "sync", cluster.servers, topic, bodies)
    return bodies


def received(client: java.Client, cluster: OwnCluster, topic: str, kind: str, count: int) -> list[dict[str, Any]]:
    with client.consuming(kind, cluster.servers, topic, f"GID_{kind}_{topic}") as consumer:
        eventually(lambda: len(consumer.bodies()) >= count, "all have come")
    return consumer.received()


def in_order_by_group(messages: Sequence[dict[str, Any]]) -> bool:
    of_group = [[one["body"] for one in messages if one["body"].startswith(f"{key}:")] for key in range(KEYS)]
    return of_group == [[f"{key}:{number}" for number in range(20)] for key in range(KEYS)]


def offsets_by_queue(messages: Sequence[dict[str, Any]]) -> dict[int, list[int]]:
    """Each first delivery, in the order of deliveries."""
    found: dict[int, list[int]] = {}
    for one in sorted(messages, key=lambda one: int(one["at"])):
        offsets = found.setdefault(one["queue"], [])
        if one["offset"] not in offsets:
            offsets.append(one["offset"])
    return found


def test_group_and_orderly_each_group_in_the_order_it_was_sent(client: java.Client, cluster: OwnCluster) -> None:
    topic = cluster.new_topic(queues=KEYS)
    bodies = send(client, cluster, topic, by_group=True)
    got = received(client, cluster, topic, "orderly", len(bodies))
    assert len(got) == len(bodies)
    assert in_order_by_group(got)


def test_group_and_concurrent_each_group_is_stored_in_order_and_all_come(
    client: java.Client, cluster: OwnCluster
) -> None:
    topic = cluster.new_topic(queues=KEYS)
    bodies = send(client, cluster, topic, by_group=True)
    got = received(client, cluster, topic, "push", len(bodies))
    assert sorted(one["body"] for one in got) == sorted(bodies)
    assert in_order_by_group(sorted(got, key=lambda one: (one["queue"], one["offset"])))


def test_no_group_and_orderly_each_queue_in_the_order_it_was_stored(client: java.Client, cluster: OwnCluster) -> None:
    topic = cluster.new_topic(queues=3)
    bodies = send(client, cluster, topic, by_group=False)
    got = received(client, cluster, topic, "orderly", len(bodies))
    assert sorted(one["body"] for one in got) == sorted(bodies)
    assert all(offsets == sorted(offsets) for offsets in offsets_by_queue(got).values())


def test_no_group_and_concurrent_all_come(client: java.Client, cluster: OwnCluster) -> None:
    topic = cluster.new_topic(queues=3)
    bodies = send(client, cluster, topic, by_group=False)
    got = received(client, cluster, topic, "push", len(bodies))
    assert sorted(one["body"] for one in got) == sorted(bodies)


# --- FIFO by sharding key ---------------------------------------------------------------------------------------------


def send_sharded(client: java.Client, cluster: OwnCluster, topic: str, bodies: Sequence[str]) -> list[int]:
    queues: list[int] = client.do("send by sharding key", servers=cluster.servers, topic=topic, bodies=list(bodies))
    return queues


def test_each_sharding_key_comes_in_the_order_it_was_sent(client: java.Client, cluster: OwnCluster) -> None:
    topic = cluster.new_topic(queues=KEYS, kind="FIFO")
    bodies = [f"{number % KEYS}:{number // KEYS}" for number in range(20 * KEYS)]
    queues = send_sharded(client, cluster, topic, bodies)
    assert len({(body[0], queue) for body, queue in zip(bodies, queues, strict=True)}) == KEYS, "a queue for each key"
    got = received(client, cluster, topic, "orderly", len(bodies))
    assert len(got) == len(bodies)
    assert in_order_by_group(got)


def test_a_topic_of_another_type_refuses_a_sharding_key_where_types_are_enforced(
    client: java.Client, cluster: OwnCluster
) -> None:
    topic = cluster.new_topic(queues=1, kind="NORMAL")
    send_sharded(client, cluster, topic, ["0:0"])  # as Java's broker does
    with wire.Client(cluster.broker.address) as admin:
        assert admin.call(UPDATE_BROKER_CONFIG, body=b"enforceMessageType=true").code == 0
        with pytest.raises(ProgramFailed, match="takes NORMAL messages only"):
            send_sharded(client, cluster, topic, ["0:0"])
        client.send_by("sync", cluster.servers, topic, ["plain"])
        assert admin.call(UPDATE_BROKER_CONFIG, body=b"enforceMessageType=false").code == 0


# --- members come, die, and the broker restarts -----------------------------------------------------------------------


def test_no_queue_is_reordered_through_rebalance_death_and_restart(
    java_client: GetClient, cluster: OwnCluster, home: Callable[[str], Path]
) -> None:
    """Three members in two processes; one process is killed, then the broker, while a producer never stops."""
    client, doomed = java_client("5.5.0"), java.Client("5.5.0", home("doomed"))
    topic = cluster.new_topic(queues=4)
    group = f"GID_{topic}"
    sending = client.sending(cluster.servers, topic, "m")
    first = client.consuming("orderly", cluster.servers, topic, group, pause=2)
    eventually(first.received, "the first receives")
    second = client.consuming("orderly", cluster.servers, topic, group, pause=2)
    third = doomed.consuming("orderly", cluster.servers, topic, group, pause=2)
    eventually(third.received, "the third receives")
    eventually(second.received, "the second receives")
    lost = third.received()
    doomed.kill()
    eventually(lambda: len(first.owned()) + len(second.owned()) == 4, "the others take over")
    cluster.broker.kill()
    cluster.restart_broker()
    before = len(sending.acknowledged())
    eventually(lambda: len(sending.acknowledged()) > before + 50, "the producer goes on")
    sent = set(sending.stop())

    def all_messages() -> list[dict[str, Any]]:
        return [*first.received(), *second.received(), *lost]

    # What the killed one got after it was asked, nobody knows: those may be missing here, but not come out of order.
    last = sorted(sent, key=lambda body: int(body[1:]))[-1]
    eventually(lambda: any(one["body"] == last for one in all_messages()), "the last has come", limit_s=90)
    eventually(lambda: len({one["body"] for one in all_messages()}) >= len(sent) - 200, "nearly all are seen")
    for consumer in (first, second):
        consumer.stop()
    by_queue = offsets_by_queue(all_messages())
    assert len(by_queue) == 4
    for queue, offsets in by_queue.items():
        assert offsets == sorted(offsets), f"queue {queue} came out of order"


# --- order topics -----------------------------------------------------------------------------------------------------


def test_an_order_topic_keeps_its_queues_while_a_broker_is_away(
    java_client: GetClient, home: Callable[[str], Path]
) -> None:
    """Java's client sees the same queues, and our keyed send waits for its own broker instead of moving."""
    client = java_client("5.5.0")
    with ExitStack() as stack:
        name_server = ours.NameServer(home("ot-namesrv"))
        stack.callback(name_server.kill)
        brokers = [ours.Broker(home(f"ot-{name}"), [name_server.address], name=name) for name in ("east", "west")]
        for broker in brokers:
            stack.callback(broker.kill)
            eventually(partial(is_known, name_server.address, broker.name), f"{broker.name} is known")
        words = ["topic", "create", "Ordered", "--queues", "2", "--order"]
        done = CliRunner().invoke(cli, ["-n", name_server.address, *words])
        assert done.exit_code == 0, done.output
        every = ["east:0", "east:1", "west:0", "west:1"]
        eventually(lambda: client.queues(name_server.address, "Ordered") == every, "all queues are there")
        keys = asyncio.run(sent_to(name_server.address, [f"key {number}" for number in range(12)]))
        assert {broker for broker, _ in keys.values()} == {"east", "west"}
        brokers[1].stop()
        stack.callback(lambda: brokers[1].kill())
        assert client.queues(name_server.address, "Ordered") == every, "none is missing while west is away"
        again = asyncio.run(sent_to(name_server.address, list(keys), meanwhile=brokers[1].restart))
        assert again == keys


async def sent_to(
    servers: str, keys: Sequence[str], meanwhile: Callable[[], None] | None = None
) -> dict[str, tuple[str, int]]:
    """Where our producer puts each key. `meanwhile` happens while the sends wait."""
    policy = pyromq.SendPolicy(timeout_s=60)
    async with pyromq.connect(servers) as client, client.producer(policy=policy) as producer:
        sends = [asyncio.create_task(producer.send("Ordered", key, order_key=key)) for key in keys]
        if meanwhile is not None:
            done, waiting = await asyncio.wait(sends, timeout=2)
            assert done, "those of the broker that is there go"
            assert waiting, "the others wait"
            await asyncio.to_thread(meanwhile)
        results = await asyncio.gather(*sends)
    return {key: (one.queue.broker_name, one.queue.queue_id) for key, one in zip(keys, results, strict=True)}
