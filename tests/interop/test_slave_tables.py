"""Our slave's tables and a real Java 5.5.0 master's: all of them arrive, equal; and again after changes."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pyromq.ambient import SystemClock
from pyromq.broker.replication.metadata_pull import JAVA_PERIOD_S, MetadataPull
from pyromq.protocol.requests import RequestCode as Code
from pyromq.transport.client import RemotingClient
from tests.broker.running import Running, running_broker

from . import wire
from .conftest import CLUSTER, registered
from .peers import java, ours
from .waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.slow]  # Java brokers: make interop

NAME = "broker-m"
GROUP = "GID_tables"


@pytest.fixture(scope="module")
def master(java_peers: None, name_server: ours.NameServer, home: Callable[[str], Path]) -> Iterator[java.Broker]:
    settings = {"timerWheelEnable": "true", "flushConsumerOffsetInterval": "200"}
    broker = java.Broker("5.5.0", home("java-master"), [name_server.address], settings, name=NAME, cluster=CLUSTER)
    registered(name_server.address, broker)
    yield broker
    broker.kill()


@pytest.fixture(scope="module")
def topic(
    master: java.Broker, name_server: ours.NameServer, admin: java.Admin, java_client: Callable[..., java.Client]
) -> str:
    """A topic that was sent to by every way that leaves traces in tables, and consumed."""
    servers, address = name_server.address, master.address
    for number in range(30):  # several, so that their order matters
        wire.create_topic(address, f"Tables{number}", 2, "+message.type=NORMAL" if number % 3 == 0 else "")
    topic = "Tables1"
    eventually(lambda: wire.ask(servers, wire.GET_ROUTE, {"topic": topic}).code == 0, "the topic has a route")
    admin.run("updateSubGroup", "-n", servers, "-b", address, "-g", GROUP, "-r", "5")
    admin.run("setConsumeMode", "-n", servers, "-b", address, "-t", "Tables2", "-g", GROUP, "-m", "POP", "-q", "2")
    client = java_client("5.5.0")
    client.send(servers, topic, 20, "m")
    with client.consuming("push", servers, topic, GROUP, start="first") as consumer:
        eventually(lambda: len(consumer.bodies()) >= 20, "all arrive")
        eventually(lambda: sum(offsets_of(address).get(f"{topic}@{GROUP}", {}).values()) == 20, "and are committed")
    send(address, topic, "DELAY\x011\x02")
    send(address, topic, "DELAY\x0118\x02")
    send(address, topic, "TIMER_DELAY_SEC\x013600\x02")
    eventually(lambda: table_of(address, Code.GET_ALL_DELAY_OFFSET)["offsetTable"].get("1"), "level 1 has left")
    eventually(lambda: table_of(address, Code.GET_TIMER_METRICS)["timingCount"], "the timer counts")
    return topic


def send(address: str, topic: str, properties: str) -> None:
    fields = {
        "producerGroup": "P", "topic": topic, "defaultTopic": "TBW102", "defaultTopicQueueNums": "4", "queueId": "0",
        "sysFlag": "0", "bornTimestamp": "1700000000000", "flag": "0", "properties": properties,
    }  # fmt: skip
    answer = wire.ask(address, Code.SEND_MESSAGE.code, fields, body=b"later")
    assert answer.code == 0, answer.remark


def table_of(address: str, code: int) -> Any:
    answer = wire.ask(address, int(code))
    assert answer.code == 0, answer.remark
    return wire.json_with_bare_keys(answer.body)


def offsets_of(address: str) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = table_of(address, Code.GET_ALL_CONSUMER_OFFSET)["offsetTable"]
    return found


@asynccontextmanager
async def slave_of(master: java.Broker, folder: Path) -> AsyncIterator[tuple[Running, MetadataPull]]:
    """A broker of ours that pulls. No stream: its log counts as complete."""
    settings: dict[str, Any] = {"broker_name": NAME, "broker_cluster_name": CLUSTER, "trace_topic_enable": False}
    async with (
        running_broker(folder, **settings) as slave,
        RemotingClient(clock=SystemClock(), rng=random.Random(2)) as client,
    ):
        tables = replace(slave.broker.slave_tables.tables, log_end=lambda: 1 << 60)
        yield slave, MetadataPull(client, SystemClock(), lambda: master.address, tables)


# What of each answer is the table; the rest tells of the broker itself.
TABLES: dict[int, tuple[str, ...]] = {
    Code.GET_ALL_TOPIC_CONFIG: ("dataVersion", "topicConfigTable"),
    Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: ("dataVersion", "subscriptionGroupTable", "forbiddenTable"),
    Code.GET_ALL_MESSAGE_REQUEST_MODE: ("messageRequestModeMap",),
    Code.GET_ALL_CONSUMER_OFFSET: ("dataVersion", "offsetTable"),
    Code.GET_ALL_DELAY_OFFSET: ("offsetTable",),
    Code.GET_TIMER_METRICS: ("timingCount",),
}


async def compare(slave: Running, master: java.Broker) -> None:
    own_topics = set(slave.broker.topics.system_names())
    for code, members in TABLES.items():
        theirs = table_of(master.address, code)
        mine = wire.json_with_bare_keys(bytes((await slave.call(code)).body))
        if code == Code.GET_ALL_TOPIC_CONFIG:  # what ours has from birth and Java's makes when it is needed
            kept = mine["topicConfigTable"].keys() - theirs["topicConfigTable"].keys()
            assert kept <= own_topics
            for name in kept:
                del mine["topicConfigTable"][name]
        for member in members:
            assert mine[member] == theirs[member], (code, member)


async def test_all_tables_of_a_java_master_arrive_equal(master: java.Broker, topic: str, tmp_path: Path) -> None:
    async with slave_of(master, tmp_path) as (slave, pull):
        assert await pull.round(master.address) == JAVA_PERIOD_S
        await compare(slave, master)
        assert slave.broker.offsets.queues(topic, GROUP) == {
            int(queue): offset for queue, offset in offsets_of(master.address)[f"{topic}@{GROUP}"].items()
        }


async def test_pages_and_changes_arrive_too(
    master: java.Broker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyromq.broker.replication.asking.PAGE", 7)
    async with slave_of(master, tmp_path) as (slave, pull):
        await pull.round(master.address)
        await compare(slave, master)
        wire.create_topic(master.address, "TablesLate", 3, "")
        assert wire.ask(master.address, int(Code.DELETE_TOPIC_IN_BROKER), {"topic": "Tables29"}).code == 0
        fields = {"consumerGroup": GROUP, "topic": topic, "queueId": "0", "commitOffset": "1"}
        assert wire.ask(master.address, int(Code.UPDATE_CONSUMER_OFFSET), fields).code == 0
        await pull.round(master.address)
        await compare(slave, master)
        assert "TablesLate" in slave.broker.topics
        assert "Tables29" not in slave.broker.topics
        assert slave.broker.offsets.find(topic, GROUP, 0) == 1


async def test_they_are_there_after_a_restart(master: java.Broker, topic: str, tmp_path: Path) -> None:
    async with slave_of(master, tmp_path) as (slave, pull):
        await pull.round(master.address)
    async with slave_of(master, tmp_path) as (slave, pull):
        assert slave.broker.groups.find(GROUP) is not None
        assert slave.broker.offsets.queues(topic, GROUP)
        await pull.round(master.address)
        await compare(slave, master)
