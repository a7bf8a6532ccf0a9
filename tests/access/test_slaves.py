"""A slave that serves reads judges by the users of its master, over real sockets; and clients with a namespace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest

import pyromq
from pyromq.protocol.requests import RequestCode as Code
from tests.access.matrix import is_refused
from tests.access.over_sockets import SECURED, SHOP, ask
from tests.interop import wire
from tests.interop.peers import ours
from tests.interop.waiting import eventually

NS = "MQ_INST_1"
SETTINGS = SECURED | {"slaveReadEnable": "true"}
READS = {"Topic:T": ["Sub"], "Group:G": ["Sub"]}


@dataclass
class Pair:
    """A master and its slave, with a name server, all of them with users."""

    names: ours.NameServer
    master: ours.Broker
    slave: ours.Broker


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    home = tmp_path_factory.mktemp("pair")
    with ExitStack() as stack:
        names = ours.NameServer(home / "names", SECURED)
        stack.callback(names.kill)
        master = ours.Broker(home / "master", [names.address], SETTINGS)
        stack.callback(master.kill)
        role = {"brokerRole": "SLAVE", "brokerId": "1"}
        slave = ours.Broker(home / "slave", [names.address], SETTINGS | role)
        stack.callback(slave.kill)
        yield Pair(names, master, slave)


def make(at: str, name: str, rights: dict[str, list[str]]) -> None:
    assert ask(at, Code.AUTH_CREATE_USER, {"password": SHOP}, username=name).code == 0
    entries = [{"resource": each, "actions": actions, "decision": "Allow"} for each, actions in rights.items()]
    assert ask(at, Code.AUTH_CREATE_ACL, {"policies": [{"entries": entries}]}, subject=f"User:{name}").code == 0


def pulls(at: str, name: str) -> wire.Answer:
    fields = {"consumerGroup": "G", "topic": "T", "queueId": "0", "queueOffset": "0", "maxMsgNums": "1"}
    fields |= {"sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0"}
    return ask(at, Code.PULL_MESSAGE, b"", name, SHOP, **fields)


def test_a_slave_reads_for_whom_the_master_lets_read_and_for_nobody_else(pair: Pair) -> None:
    slave, master = pair.slave.address, pair.master.address
    eventually(lambda: ask(slave, Code.GET_BROKER_HA_STATUS).code == 0, "the slave lets servers in", 30.0)
    make(master, "reader", READS)
    eventually(lambda: not is_refused(pulls(slave, "reader")), "the slave knows the reader", 30.0)
    assert is_refused(pulls(slave, "stranger"))
    assert ask(master, Code.AUTH_DELETE_ACL, subject="User:reader").code == 0
    eventually(lambda: is_refused(pulls(slave, "reader")), "the slave knows that he may not any more", 10.0)
    make(slave, "late", READS)  # as `mqadmin -c` does, which asks slaves too
    eventually(lambda: not is_refused(pulls(master, "late")), "the master knows whom the slave was told of", 30.0)


async def test_a_client_with_a_namespace_needs_rights_in_it_alone(pair: Pair) -> None:
    make(pair.master.address, "tenant", {f"Topic:{NS}%*": ["Pub", "Sub"], f"Group:{NS}%*": ["Sub"]})
    keys: Any = {"access_key": "tenant", "secret_key": SHOP}
    async with pyromq.connect(pair.names.address, namespace=NS, **keys) as client:
        async with client.producer() as producer:
            await producer.send("orders", b"mine")
        async with client.pull_consumer("readers", begin="first") as consumer:
            await consumer.assign(await consumer.queues("orders"))
            found = [message.body for message in await consumer.poll(timeout=20)]
        assert found == [b"mine"]
    for other in ("", "MQ_INST_2"):
        async with pyromq.connect(pair.names.address, namespace=other, **keys) as client, client.producer() as producer:
            with pytest.raises(pyromq.errors.PyroError, match="permission"):
                await producer.send("orders", b"theirs")
