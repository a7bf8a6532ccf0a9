"""Apache's broker 5.5.0 and ours in one cluster with authentication and authorization on and the same inner
credentials, at our name server and at Apache's: users are copied between them, clients use both, each is the other's
slave."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from . import wire
from .conftest import CLUSTER, needed
from .peers import java, ours
from .peers.process import answer_of
from .secured import ADMIN, JAVA_SETTINGS, SECRET, SETTINGS
from .signing import GET_ACL, Administrator, signed
from .test_java_slave import log_of
from .waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.slow]  # Java brokers: make interop

VERSION = "5.5.0"
JAVAS, OURS = "broker-j", "broker-p"
BODIES = [f"signed{number}" for number in range(5)]
SEND, MAX_OFFSET, CLUSTER_INFO, GET_USER = 10, 30, 106, 3004


def topic_fields(topic: str, queues: int) -> dict[str, str]:
    fields = {"topic": topic, "defaultTopic": "TBW102", "perm": "6", "topicFilterType": "SINGLE_TAG"}
    return fields | {"readQueueNums": str(queues), "writeQueueNums": str(queues), "topicSysFlag": "0"}


def send_fields(topic: str) -> dict[str, str]:
    fields = {"producerGroup": "P", "topic": topic, "defaultTopic": "TBW102", "defaultTopicQueueNums": "1"}
    return fields | {"queueId": "0", "sysFlag": "0", "bornTimestamp": "1700000000000", "flag": "0", "properties": ""}


class Mixed:
    """Both name servers, and a broker of each kind at both."""

    def __init__(self, stack: ExitStack, home: Callable[[str], Path]) -> None:
        self._home, self._stack = home, stack
        self.our_names = ours.NameServer(home("names"), SETTINGS)
        stack.callback(self.our_names.kill)
        self.java_names = java.NameServer(VERSION, home("java-names"))
        stack.callback(self.java_names.kill)
        self.java_broker = self.start_java(JAVAS)
        self.our_broker = self.start_ours(OURS)
        self.at_java = Administrator(self.java_broker.address, ADMIN, SECRET)
        self.at_ours = Administrator(self.our_broker.address, ADMIN, SECRET)

    @property
    def names(self) -> list[str]:
        return [self.our_names.address, self.java_names.address]

    def start_java(self, name: str, **settings: str) -> java.Broker:
        more = JAVA_SETTINGS | {"brokerIP2": "127.0.0.1"} | settings
        broker = java.Broker(VERSION, self._home("java"), self.names, more, name=name, cluster=CLUSTER)
        self._stack.callback(lambda: broker.kill())
        return broker

    def start_ours(self, name: str, **settings: str) -> ours.Broker:
        broker = ours.Broker(self._home("ours"), self.names, SETTINGS | settings, name=name, cluster=CLUSTER)
        self._stack.callback(lambda: broker.kill())
        return broker

    def ask(self, server: str, code: int, **fields: str) -> Any:
        answer = wire.ask(server, code, signed(fields, b"", ADMIN, SECRET))
        return wire.json_with_bare_keys(answer.body) if answer.code == 0 else {}

    def addresses(self, server: str) -> dict[str, dict[str, str]]:
        """Return the addresses of each broker, by its id, as a name server tells them."""
        table = self.ask(server, CLUSTER_INFO).get("brokerAddrTable", {})
        return {name: one["brokerAddrs"] for name, one in table.items()}

    def new_topic(self, topic: str) -> str:
        for server in (self.at_java, self.at_ours):
            server.must(wire.UPDATE_AND_CREATE_TOPIC, topic_fields(topic, 2))
        for names in self.names:
            eventually(partial(self.is_on_both, names, topic), f"{topic} on both at {names}")
        return topic

    def is_on_both(self, names: str, topic: str) -> bool:
        route = self.ask(names, wire.GET_ROUTE, topic=topic)
        return {one["brokerName"] for one in route.get("queueDatas", ())} == {JAVAS, OURS}

    def until(self, names: str, what: str, is_so: Callable[[dict[str, dict[str, str]]], bool]) -> None:
        """Wait until a name server's addresses of brokers are so."""
        eventually(lambda: is_so(self.addresses(names)), f"{what} at {names}")

    def client(self, names: str, topic: str, group: str, user: str, secret: str) -> Any:
        """Return what Java's client consumed of its five messages, or what went wrong."""
        words = (names, topic, group, str(len(BODIES)), "60000", user, secret)
        with java.start(VERSION, "Signed", words, home=self._home("client"), programs=True) as program:
            return answer_of(program, timeout_s=120)


@pytest.fixture(scope="module")
def mixed(home: Callable[[str], Path]) -> Iterator[Mixed]:
    needed(java.runtime)
    needed(partial(java.classes, VERSION))
    with ExitStack() as stack:
        made = Mixed(stack, home)
        for names in made.names:
            made.until(names, "both are registered", lambda found: found.keys() >= {JAVAS, OURS})
        yield made


Tool = Callable[..., str]
Start = Callable[..., java.Broker | ours.Broker]


@pytest.fixture(scope="module", params=["Java's mqadmin", "our mqadmin"])
def mqadmin(request: pytest.FixtureRequest, home: Callable[[str], Path]) -> Iterator[Tool]:
    """Run a command as the administrator, whose keys stand in tools.yml."""
    place = home("tool")
    (place / "conf").mkdir()
    (place / "conf" / "tools.yml").write_text(f'accessKey: {ADMIN}\nsecretKey: "{SECRET}"\n')
    if request.param.startswith("Java"):
        needed(java.runtime)
        admin = java.Admin(VERSION, place)
        yield admin.run
        admin.kill()
        return

    def run(*words: str) -> str:
        command = [sys.executable, "-c", "from pyromq.mqadmin.main import main; main()", *words]
        done = subprocess.run(
            command, env={**os.environ, "ROCKETMQ_HOME": str(place)}, capture_output=True, text=True, timeout=60
        )
        return done.stdout + done.stderr

    yield run


def shown(server: Administrator, name: str) -> tuple[Any, Any]:
    """Return a user and his policies, as a server tells them."""
    user = server.must(GET_USER, {"username": name}).body
    acl = server.must(GET_ACL, {"subject": f"User:{name}"}).body
    return json.loads(user or b"null"), json.loads(acl or b"null")


def test_both_tools_see_the_whole_cluster_at_both_name_servers(mqadmin: Tool, mixed: Mixed) -> None:
    for names in mixed.names:
        listed = mqadmin("clusterList", "-n", names)
        rows = {tuple(line.split()[1:4]) for line in listed.splitlines() if line.startswith(CLUSTER)}
        assert rows >= {(JAVAS, "0", mixed.java_broker.address), (OURS, "0", mixed.our_broker.address)}, listed


@pytest.mark.parametrize("way", ["to ours", "to Java's"])
def test_copied_users_use_both_brokers(way: str, mqadmin: Tool, request: pytest.FixtureRequest, mixed: Mixed) -> None:
    """One that Apache's broker has is copied to ours, or the other way; then his client works at both."""
    is_java_tool = "Java" in request.node.callspec.params["mqadmin"]
    name = f"copied-{'java' if is_java_tool else 'ours'}-{'there' if way == 'to ours' else 'back'}"
    secret, topic = f"secret of {name}", mixed.new_topic(f"orders-{name}")
    source, target = (mixed.at_java, mixed.at_ours) if way == "to ours" else (mixed.at_ours, mixed.at_java)
    source.make_user(name, secret)
    custom = [
        {"resource": "Topic:orders*", "actions": ["Pub", "Sub"], "decision": "Allow", "sourceIps": ["127.0.0.0/8"]},
        {"resource": "Topic:orders-secret", "actions": ["All"], "decision": "Deny"},
    ]
    default = [{"resource": "Group:*", "actions": ["Sub"], "decision": "Allow"}]
    source.give(name, [{"policyType": "Custom", "entries": custom}, {"policyType": "Default", "entries": default}])
    at, to = (f"{server.host}:{server.port}" for server in (source, target))
    himself = Administrator(to, name, secret)
    assert himself.ask(MAX_OFFSET, {"topic": topic, "queueId": "0"}).remark == f"User:{name} is not found."
    copied = mqadmin("copyUser", "-n", mixed.our_names.address, "-f", at, "-t", to, "-u", name)
    assert copied.strip() == f"copy user of {name} from {at} to {to} success."
    copied = mqadmin("copyAcl", "-n", mixed.our_names.address, "-f", at, "-t", to, "-s", f"User:{name}")
    assert copied.strip() == f"copy acl of User:{name} from {at} to {to} success."
    assert shown(source, name) == shown(target, name)
    for broker in (at, to):
        Administrator(broker, name, secret).must(SEND, send_fields(topic), "direct")
    for number, names in enumerate(mixed.names):
        again = mixed.new_topic(f"{topic}-{number}")
        assert sorted(mixed.client(names, again, f"g-{number}-{name}", name, secret)) == BODIES
        assert "MQ" in str(mixed.client(names, "others", f"g-{number}-{name}", name, secret))


@pytest.mark.parametrize("master_is", ["Java's", "ours"])
def test_each_is_the_others_slave(master_is: str, mixed: Mixed) -> None:
    name = f"pair-{'java' if master_is == 'ours' else 'ours'}"
    starts: list[Start] = [mixed.start_java, mixed.start_ours]
    start_master, start_slave = starts if master_is == "Java's" else starts[::-1]
    master = start_master(name, haStartFromFirst="true")
    slave = start_slave(name, brokerRole="SLAVE", brokerId="1", slaveReadEnable="true")
    both = {"0": master.address, "1": slave.address}
    for names in mixed.names:
        mixed.until(names, f"{name} has a slave", lambda found: found.get(name) == both)
    at_master, at_slave = (Administrator(one.address, ADMIN, SECRET) for one in (master, slave))
    topic = f"orders-{name}"
    at_master.must(wire.UPDATE_AND_CREATE_TOPIC, topic_fields(topic, 1))
    for number in range(50):
        at_master.must(SEND, send_fields(topic), number)
    eventually(lambda: has_all_of(master.home, slave.home), "the slave has the master's log")
    ends = {"topic": topic, "queueId": "0"}
    eventually(lambda: at_slave.ask(MAX_OFFSET, ends).fields.get("offset") == "50", "the slave knows the topic")
    assert at_slave.call(MAX_OFFSET, ends, b"").remark == "username cannot be null."  # it asks who it is, too


def has_all_of(master: Path, slave: Path) -> bool:
    mine, theirs = log_of(master), log_of(slave)
    return bool(mine) and all(theirs.get(name) == content for name, content in mine.items())
