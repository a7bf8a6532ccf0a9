"""Java's mqadmin gives on our name server what it gives on Java's: each command is put to both, with the same brokers.

What is compared is what was printed, after the address of the name server and what changes from second to second
(rates, times) were replaced. The order of brokers and topics is that of a hash table in Java, so lists are sorted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from . import wire
from .conftest import CLUSTER
from .peers import java, ours
from .waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.slow]  # Java brokers: make interop


class Both:
    """Two name servers with the same brokers, and an mqadmin for each, so that both are asked at the same time."""

    def __init__(self, servers: list[tuple[java.Admin, str]]) -> None:
        self._servers = servers
        self._pool = ThreadPoolExecutor(len(servers))

    @property
    def own_address(self) -> str:
        return self._servers[0][1]

    @property
    def admin(self) -> java.Admin:
        """The one that talks to ours."""
        return self._servers[0][0]

    def run(self, *words: str) -> tuple[str, str]:
        """What was printed on ours and on Java's, with the address taken out."""
        own, other = self._pool.map(lambda server: self._run_one(server[0], server[1], words), self._servers)
        return own, other

    def ask(self, code: int, fields: dict[str, str]) -> list[wire.Answer]:
        return [wire.ask(address, code, fields) for _, address in self._servers]

    def close(self) -> None:
        self._pool.shutdown()

    @staticmethod
    def _run_one(admin: java.Admin, address: str, words: tuple[str, ...]) -> str:
        return admin.run(words[0], "-n", address, *words[1:]).replace(address, "NAMESRV")


@pytest.fixture(scope="module")
def both(
    admin: java.Admin,
    name_server: ours.NameServer,
    java_name_server: java.NameServer,
    brokers: dict[str, java.Broker],
    home: Callable[[str], Path],
) -> Iterator[Both]:
    other_admin = java.Admin("5.5.0", home("mqadmin"))
    both = Both([(admin, name_server.address), (other_admin, java_name_server.address)])
    yield both
    both.close()
    other_admin.kill()


@pytest.fixture(scope="module")
def topic(new_topic: Callable[..., str]) -> str:
    return new_topic(queues=3)


def sorted_lines(printed: str) -> list[str]:
    return sorted(printed.splitlines())


def steady_columns(printed: str) -> list[list[str]]:
    """Rows of clusterList without rates, loads and times: cluster, broker, id, address, version and the last one."""
    header, *rows = [line for line in printed.splitlines() if line.strip()]
    return [header.split(), *sorted(row.split()[:5] + row.split()[-1:] for row in rows)]


def route_of(printed: str) -> object:
    """The printed route as a value; broker ids are bare numbers there, brokers in the order of a hash table."""
    route = json.loads(re.sub(r"(?m)^(\s*)(\d+):", r'\1"\2":', printed))
    for part in ("brokerDatas", "queueDatas"):
        route[part].sort(key=lambda one: str(one["brokerName"]))
    return route


# --- what is there ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [(), ("-c", CLUSTER)], ids=["all", "one cluster"])
def test_cluster_list(both: Both, options: tuple[str, ...]) -> None:
    own, other = both.run("clusterList", *options)
    assert steady_columns(own) == steady_columns(other)
    rows = steady_columns(own)[1:]
    assert [row[:3] + row[4:] for row in rows] == [
        [CLUSTER, "broker-a", "0", "V5_5_0", "true"],
        [CLUSTER, "broker-b", "0", "V5_3_3", "true"],
    ]


def test_cluster_list_with_more_statistics(both: Both) -> None:
    own, other = both.run("clusterList", "-m")
    assert [line.split()[:2] for line in sorted_lines(own)] == [line.split()[:2] for line in sorted_lines(other)]
    assert "broker-b" in own


def test_topic_list(both: Both, topic: str) -> None:
    own, other = both.run("topicList")
    assert sorted_lines(own) == sorted_lines(other)
    assert topic in own.splitlines()
    assert "broker-a" in own.splitlines(), "a broker's own name is a topic too"


def test_topic_list_by_cluster(both: Both, topic: str) -> None:
    """The third column is what one broker of the topic, chosen by chance, says of its groups: it is not compared."""
    own, other = ({tuple(line.split()[:2]) for line in printed.splitlines()} for printed in both.run("topicList", "-c"))
    assert own == other
    assert (CLUSTER, topic) in own


def test_topic_route(both: Both, topic: str) -> None:
    own, other = both.run("topicRoute", "-t", topic)
    assert route_of(own) == route_of(other)
    assert own.count('"writeQueueNums":3') == 2
    assert own.splitlines()[0] == "{", "printed with Java's indentation, so parsed by it"


def test_topic_route_as_list(both: Both, topic: str) -> None:
    own, other = both.run("topicRoute", "-t", topic, "-l")
    assert sorted_lines(own) == sorted_lines(other)
    assert "Total:" in own


def test_topic_route_of_an_unknown_topic(both: Both) -> None:
    own, other = both.run("topicRoute", "-t", "NoSuchTopic")
    assert own == other
    assert "CODE: 17  DESC: No topic route info in name server for the topic: NoSuchTopic" in own


@pytest.mark.parametrize("name", [None, "TBW102", "NoSuchTopic"], ids=["a topic", "TBW102", "unknown"])
def test_topic_cluster_list(both: Both, topic: str, name: str | None) -> None:
    own, other = both.run("topicClusterList", "-t", name or topic)
    assert own == other
    assert (CLUSTER in own.splitlines()) == (name != "NoSuchTopic")


def test_static_topics(both: Both) -> None:
    """The mapping of a static topic's queues passes through registration into the route."""
    both.admin.run("updateStaticTopic", "-n", both.own_address, "-b", "broker-a", "-t", "Static", "-qn", "4")

    def known() -> bool:
        return all(answer.code == 0 for answer in both.ask(wire.GET_ROUTE, {"topic": "Static"}))

    eventually(known, "the static topic is known to both")
    own, other = both.run("topicRoute", "-t", "Static")
    assert route_of(own) == route_of(other)
    assert '"totalQueues":4' in own


def test_mqadmin_4_9(both: Both, topic: str, java_name_server: java.NameServer, home: Callable[[str], Path]) -> None:
    old = java.Admin("4.9.8", home("mqadmin-4.9.8"))
    try:
        for command in (["topicRoute", "-t", topic], ["topicList"], ["clusterList"], ["topicClusterList", "-t", topic]):
            own, other = (
                old.run(command[0], "-n", address, *command[1:])
                for address in (both.own_address, java_name_server.address)
            )
            assert without_rates(own) == without_rates(other), command
            assert topic in own or "broker-a" in own or CLUSTER in own
    finally:
        old.kill()


def without_rates(printed: str) -> list[str]:
    return sorted(re.sub(r"\d+\.\d+\b(?!\.)(\(.*)?", "", line) for line in printed.splitlines())


# --- key-value configuration ------------------------------------------------------------------------------------------


def test_kv_config_is_updated_and_deleted(both: Both) -> None:
    pair = ("-s", "INTEROP_SPACE", "-k", "interop-key")
    fields = {"namespace": "INTEROP_SPACE", "key": "interop-key"}
    for value in ("first", "zweiter Wert: ünïcode = ;"):
        own, other = both.run("updateKvConfig", *pair, "-v", value)
        assert own == other
        assert own.strip() == "create or update kv config to namespace success."
        own_answer, other_answer = both.ask(wire.GET_KV_CONFIG, fields)
        assert (own_answer.code, own_answer.fields) == (other_answer.code, other_answer.fields)
        assert own_answer.fields["value"] == value
    assert [json.loads(answer.body) for answer in both.ask(wire.GET_KV_LIST, fields)] == [
        {"table": {"interop-key": value}}
    ] * 2

    own, other = both.run("deleteKvConfig", *pair)
    assert own == other
    assert own.strip() == "delete kv config from namespace success."
    assert [answer.code for answer in both.ask(wire.GET_KV_CONFIG, fields)] == [22, 22]


def test_deleting_a_key_that_never_was(both: Both) -> None:
    own, other = both.run("deleteKvConfig", "-s", "NoSuchSpace", "-k", "nothing")
    assert own == other


def test_order_configuration(both: Both, topic: str) -> None:
    """updateOrderConf writes to the key-value space ORDER_TOPIC_CONFIG."""
    for method in (("put", "-v", "broker-a:3;broker-b:3"), ("get",), ("delete",)):
        own, other = both.run("updateOrderConf", "-t", topic, "-m", *method)
        assert own == other, method


# --- write permission -------------------------------------------------------------------------------------------------


def test_write_permission_is_wiped_and_restored(both: Both, topic: str) -> None:
    own, other = both.run("wipeWritePerm", "-b", "broker-a")
    assert own == other
    assert re.search(r"wipe write perm of broker\[broker-a\] in name server\[NAMESRV\] OK, [1-9]\d*", own)
    own, other = both.run("topicRoute", "-t", topic)
    assert route_of(own) == route_of(other)
    assert own.count('"perm":4') == 1
    assert own.count('"perm":6') == 1

    own, other = both.run("addWritePerm", "-b", "broker-a")
    assert own == other
    assert re.search(r"add write perm of broker\[broker-a\] in name server\[NAMESRV\] OK, [1-9]\d*", own)
    own, other = both.run("topicRoute", "-t", topic)
    assert route_of(own) == route_of(other)
    assert own.count('"perm":6') == 2


@pytest.mark.parametrize("command", ["wipeWritePerm", "addWritePerm"])
def test_write_permission_of_an_unknown_broker(both: Both, command: str) -> None:
    own, other = both.run(command, "-b", "no-such-broker")
    assert own == other
    assert own.rstrip().endswith("OK, 0")


def test_a_producer_avoids_a_broker_without_write_permission(
    both: Both, topic: str, java_client: Callable[..., java.Client]
) -> None:
    both.run("wipeWritePerm", "-b", "broker-b")
    try:
        queues = java_client("5.5.0").queues(both.own_address, topic)
        assert queues == [f"broker-a:{number}" for number in range(3)]
    finally:
        both.run("addWritePerm", "-b", "broker-b")


# --- the name server's own configuration ------------------------------------------------------------------------------


def settings_of(printed: str) -> dict[str, str]:
    """`key = value` lines of getNamesrvConfig."""
    return {key.strip(): value.strip() for key, _, value in (line.partition(" =  ") for line in printed.splitlines())}


def test_name_server_configuration_is_shown(both: Both) -> None:
    printed = both.run("getNamesrvConfig")
    own, other = (settings_of(text) for text in printed)
    assert printed[0].splitlines()[0] == printed[1].splitlines()[0]
    del other["rocketmqHome"]  # the folder where Java is installed
    assert set(other) <= set(own), "every other key of Java's is there"
    for key in ("kvConfigPath", "configStorePath", "listenPort"):
        del own[key], other[key]  # each has its own
    assert {key: own[key] for key in other} == other | {"orderMessageEnable": "true"}, "on from the start in ours"


def test_name_server_configuration_is_changed(both: Both) -> None:
    for value in ("true", "false"):
        own, other = both.run("updateNamesrvConfig", "-k", "orderMessageEnable", "-v", value)
        assert own == other
        assert own.splitlines()[0] == "update name server config success![NAMESRV]"
        assert [settings_of(text)["orderMessageEnable"] for text in both.run("getNamesrvConfig")] == [value, value]


@pytest.mark.parametrize("key", ["kvConfigPath", "configStorePath", "configBlackList", "rocketmqHome"])
def test_keys_of_the_black_list_are_refused_as_by_java(both: Both, key: str) -> None:
    own, other = both.run("updateNamesrvConfig", "-k", key, "-v", "/tmp/elsewhere")
    assert own == other
    assert "CODE: 16  DESC: Can not update config in black list." in own


@pytest.mark.parametrize(
    ("key", "value"),
    [("listenPort", "1"), ("serverWorkerThreads", "4"), ("noSuchKey", "x"), ("scanNotActiveBrokerInterval", "soon")],
)
def test_what_cannot_take_effect_is_refused_where_java_says_success(both: Both, key: str, value: str) -> None:
    """A deliberate difference: Java answers success and changes nothing, or something that nobody reads."""
    own, other = both.run("updateNamesrvConfig", "-k", key, "-v", value)
    assert other.splitlines()[0] == "update name server config success![NAMESRV]"
    assert "update name server config success" not in own
    assert key in own, "the refusal names the key"
