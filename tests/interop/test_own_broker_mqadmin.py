"""Java's mqadmin gives on our broker what it gives on Java's: each command is put to two clusters of the same state.

One has Java's name server and broker, the other ours; the same topics, groups, messages and consumers are on both.
What is compared is what was printed, line by line and sorted, after addresses, times, ids and rates were replaced.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest

from . import wire
from .conftest import registered
from .peers import java, ours
from .waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.slow]  # Java brokers: make interop

T = TypeVar("T")
NAME = "twin"  # of both brokers
COUNT = 20
REPLACED = {
    r"\d{4}-\d\d-\d\d[ -]\d\d[:-]\d\d[:-]\d\d([,.:]\d+)?": "TIME",
    r"\b1[789]\d{11}\b": "MS",
    r"\b[0-9A-F]{32}\b": "PLACE",
    r"\b[0-9A-F]{56}\b": "UNIQ",
    r"I\d+_(\d+_)?127_0_0_1_\d+": "CLIENT",
    r"127\.0\.0\.1:\d+": "PEER",
    r"\b\d+\.\d\d\b": "RATE",
    r"(CLUSTERING\s+)\d+": r"\1RATE",
    r"[ \t]+": " ",
}


@dataclass
class Side:
    """One of the two clusters, and an mqadmin that talks to it alone."""

    admin: java.Admin
    servers: str
    broker: str

    def run(self, *words: str) -> str:
        """NAMESRV and BROKER among the words stand for this side's own addresses."""
        own = [word.replace("BROKER", self.broker) for word in words]
        printed = self.admin.run(own[0], "-n", self.servers, *own[1:])
        printed = printed.replace(self.servers, "NAMESRV").replace(self.broker, "BROKER")
        for pattern, word in REPLACED.items():
            printed = re.sub(pattern, word, printed)
        return printed


class Twins:
    def __init__(self, own: Side, other: Side) -> None:
        self.sides = [own, other]
        self._pool = ThreadPoolExecutor(2)

    def each(self, act: Callable[[Side], T]) -> list[T]:
        return list(self._pool.map(act, self.sides))

    def same(self, *words: str) -> str:
        """What both printed alike."""
        own, other = self.each(lambda side: side.run(*words))
        assert sorted(own.splitlines()) == sorted(other.splitlines()), " ".join(words)
        return own

    def close(self) -> None:
        self._pool.shutdown()


@pytest.fixture(scope="module")
def twins(
    java_peers: None,
    admin: java.Admin,
    java_client: Callable[..., java.Client],
    home: Callable[[str], Path],
) -> Iterator[Twins]:
    with ExitStack() as stack:
        # Clusters and name servers of their own: nothing of other tests shows.
        servers = ours.NameServer(home("twin-namesrv"))
        stack.callback(servers.kill)
        java_servers = java.NameServer("5.5.0", home("twin-namesrv"))
        stack.callback(java_servers.kill)
        # Without its timer wheel Java's broker cannot delete a topic; on a busy machine it would refuse to send.
        java_settings = {"timerWheelEnable": "true", "waitTimeMillsInSendQueue": "20000"}
        java_broker = java.Broker("5.5.0", home("twin-java"), [java_servers.address], java_settings, name=NAME)
        stack.callback(java_broker.kill)
        settings = {"enabledAppendPropCRC": "false"}  # sizes are then Java's to the byte
        broker = ours.Broker(home("twin-ours"), [servers.address], settings, name=NAME)
        stack.callback(broker.kill)
        registered(java_servers.address, java_broker)
        other_admin = java.Admin("5.5.0", home("mqadmin"))
        stack.callback(other_admin.kill)
        both = Twins(
            Side(admin, servers.address, broker.address),
            Side(other_admin, java_servers.address, java_broker.address),
        )
        stack.callback(both.close)
        client = java_client("5.5.0")
        for side in both.sides:
            stack.enter_context(populate(side, client))
        yield both


def populate(side: Side, client: java.Client) -> java.Consuming:
    """A topic with messages, a group that has consumed them and stays, and one that never came."""
    wire.create_topic(side.broker, "Twin", 2)
    eventually(lambda: wire.ask(side.servers, wire.GET_ROUTE, {"topic": "Twin"}).code == 0, "Twin has a route")
    client.send_by("selector", side.servers, "Twin", [f"k{number}" for number in range(COUNT)])
    consumer = client.consuming("push", side.servers, "Twin", "GID_live")
    eventually(lambda: len(consumer.bodies()) == COUNT, "all have arrived")
    return consumer


READING = [
    "topicStatus -t Twin",
    "topicRoute -t Twin",
    "topicClusterList -t Twin",
    "consumerProgress",
    "consumerProgress -g GID_live",
    "consumerProgress -g GID_none",
    "consumerConnection -g GID_live",
    "consumerStatus -g GID_live",
    "producerConnection -g KEEPER -t Twin",
    "producerConnection -g NONE -t Twin",
    "producer -b BROKER",
    "brokerConsumeStats -b BROKER",
    "statsAll -t Twin",
    "clusterList -m",
    "queryMsgByKey -t Twin -k k3",
    "queryMsgByOffset -t Twin -b twin -i 0 -o 1",
    "queryCq -t Twin -q 0 -i 0 -c 5 -b BROKER",
    "printMsg -t Twin",
    "consumeMessage -t Twin -b twin -i 0 -o 2 -c 3",
    "allocateMQ -t Twin -i 127.0.0.1,127.0.0.2",
]


@pytest.fixture(scope="module")
def settled(twins: Twins) -> Twins:
    """The last commits of the consumers have arrived."""

    def caught_up() -> bool:
        return all("Diff Total: 0" in printed for printed in twins.each(lambda side: side.run(*progress)))

    progress = ("consumerProgress", "-g", "GID_live")
    eventually(caught_up, "nothing is left to consume")
    return twins


@pytest.mark.parametrize("command", READING)
def test_what_is_shown(settled: Twins, command: str) -> None:
    printed = settled.same(*command.split())
    assert printed.strip()


def test_what_is_shown_of_the_broker(twins: Twins) -> None:
    own, other = (
        {line.split(":")[0].strip() for line in printed.splitlines()}
        for printed in twins.each(lambda side: side.run("brokerStatus", "-b", "BROKER"))
    )
    assert {"bootTimestamp", "brokerVersionDesc", "msgPutTotalTodayNow", "putTps", "getTotalTps"} <= own & other


def test_topics_are_made_changed_and_deleted(twins: Twins) -> None:
    twins.same("updateTopic", "-c", "DefaultCluster", "-t", "Made", "-r", "3", "-w", "3")
    twins.same("updateTopic", "-b", "BROKER", "-t", "Ordered", "-a", "+message.type=FIFO", "-o", "true")
    twins.same("updateTopicPerm", "-b", "BROKER", "-t", "Made", "-p", "4")
    assert '"perm":4' in twins.same("topicRoute", "-t", "Made")
    assert "success" in twins.same("deleteTopic", "-c", "DefaultCluster", "-t", "Made")
    assert "CODE: 17" in twins.same("topicRoute", "-t", "Made")


def test_groups_are_made_shown_and_deleted(twins: Twins, tmp_path: Path) -> None:
    twins.same("updateSubGroup", "-c", "DefaultCluster", "-g", "GID_adm", "-r", "3")
    (tmp_path / "groups.json").write_text(json.dumps([{"groupName": "GID_listed", "consumeEnable": False}]))
    twins.same("updateSubGroupList", "-c", "DefaultCluster", "-f", str(tmp_path / "groups.json"))
    shown = twins.same("getConsumerConfig", "-g", "GID_adm")
    assert re.search(r"retryMaxTimes = 3", shown)
    assert re.search(r"consumeEnable = false", twins.same("getConsumerConfig", "-g", "GID_listed"))
    twins.same("deleteSubGroup", "-c", "DefaultCluster", "-g", "GID_adm", "-r", "true")


def test_offsets_are_reset_skipped_and_cloned(settled: Twins) -> None:
    """Of the group that is online, and then it receives everything again."""
    settled.same("resetOffsetByTime", "-g", "GID_live", "-t", "Twin", "-s", "0")
    settled.same("skipAccumulatedMessage", "-g", "GID_live", "-t", "Twin")
    assert "CODE: 26" in settled.same("resetOffsetByTime", "-g", "GID_none", "-t", "Twin", "-s", "0")
    settled.same("updateSubGroup", "-c", "DefaultCluster", "-g", "GID_clone")
    settled.same("cloneGroupOffset", "-s", "GID_live", "-d", "GID_clone", "-t", "Twin")


def test_settings_are_changed_and_shown(twins: Twins) -> None:
    change = ("-k", "maxTransferCountOnMessageInMemory", "-v", "16")
    assert "success" in twins.same("updateBrokerConfig", "-b", "BROKER", *change)
    for shown in twins.each(lambda side: side.run("getBrokerConfig", "-b", "BROKER")):
        assert re.search(r"maxTransferCountOnMessageInMemory = 16\b", shown)
        assert re.search(r"brokerName = twin\b", shown)


@pytest.mark.parametrize("command", ["cleanExpiredCQ -b BROKER", "cleanUnusedTopic -b BROKER"])
def test_maintenance(twins: Twins, command: str) -> None:
    assert twins.same(*command.split()).strip() == "success"


def test_a_message_is_sent(twins: Twins) -> None:
    twins.same("updateTopic", "-c", "DefaultCluster", "-t", "Sent", "-r", "1", "-w", "1")
    for side in twins.sides:
        eventually(partial(has_route, side, "Sent"), "Sent has a route")
    words = ("-t", "Sent", "-p", "hello", "-k", "kk", "-c", "TagZ", "-b", NAME, "-i", "0")
    assert "SEND_OK" in twins.same("sendMessage", *words)
    assert "hello" in twins.same("printMsg", "-t", "Sent")


def has_route(side: Side, topic: str) -> bool:
    return wire.ask(side.servers, wire.GET_ROUTE, {"topic": topic}).code == 0
