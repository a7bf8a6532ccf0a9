"""Java 5.5.0 brokers in controller mode, led by our controller over a real etcd: ids, the first master, a second
replica in sync, failover when the master is killed, controllers that restart or die; and mqadmin, Java's and ours."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pyromq.cli.main import cli
from pyromq.protocol.requests import RequestCode as Code
from tests.coordination.etcd_peer import EtcdCluster, require_etcd
from tests.mqadmin.conftest import call

from . import wire
from .peers import java, ours
from .waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.slow]  # Java brokers: make interop

CLUSTER = "DefaultCluster"
NAME = "led"
GOLDEN = Path(__file__).parents[1] / "golden" / "ha"


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    require_etcd()
    with EtcdCluster(tmp_path_factory.mktemp("etcd")) as running:
        yield running


class LedSet:
    """Brokers of one name, their controllers and a name server."""

    def __init__(
        self, name: str, name_server: str, home: Callable[[str], Path], controllers: list[ours.Controller]
    ) -> None:
        self.name = name
        self.name_server = name_server
        self.controllers = controllers
        self._home = home
        self.brokers: dict[int, java.Broker] = {}

    @property
    def controller_addresses(self) -> str:
        return ";".join(each.address for each in self.controllers)

    def start(self, replica: int) -> java.Broker:
        settings = {
            "enableControllerMode": "true",
            "controllerAddr": self.controller_addresses,
            "brokerIP2": "127.0.0.1",
            "allAckInSyncStateSet": "true",
            "syncControllerMetadataPeriod": "1000",
            "syncBrokerMetadataPeriod": "1000",
        }
        home = self._home(f"{self.name}-{replica}")
        self.brokers[replica] = java.Broker("5.5.0", home, [self.name_server], settings, name=self.name)
        return self.brokers[replica]

    def restart(self, replica: int) -> None:
        broker = self.brokers[replica]
        broker.restart(int(broker.address.rsplit(":", 1)[1]))

    def state(self) -> dict[str, Any]:
        """What the leading controller says of the set (1006)."""
        for controller in self.controllers:
            answer = wire.ask(
                controller.address, Code.CONTROLLER_GET_SYNC_STATE_DATA.code, body=f'["{self.name}"]'.encode()
            )
            if answer.code == 0:
                table: dict[str, Any] = wire.json_with_bare_keys(answer.body)["replicasInfoTable"]
                found: dict[str, Any] = table.get(self.name, {})
                return found
        return {}

    def master(self) -> int | None:
        return self.state().get("masterBrokerId")

    def in_sync(self) -> list[int]:
        return [each["brokerId"] for each in self.state().get("inSyncReplicas", [])]

    def send(self, replica: int) -> int:
        fields = {
            "producerGroup": "P", "topic": f"T-{self.name}", "defaultTopic": "TBW102", "defaultTopicQueueNums": "4",
            "queueId": "0", "sysFlag": "0", "bornTimestamp": "1700000000000", "flag": "0", "properties": "",
        }  # fmt: skip
        return wire.ask(self.brokers[replica].address, Code.SEND_MESSAGE.code, fields, body=b"x").code

    def close(self) -> None:
        for broker in self.brokers.values():
            broker.kill()


@pytest.fixture(scope="module")
def controllers(etcd: EtcdCluster, home: Callable[[str], Path]) -> Iterator[list[ours.Controller]]:
    """Two of one group; the first one leads."""
    running = [
        ours.Controller(home(f"controller-{name}"), etcd.endpoints, {"controllerDLegerSelfId": name})
        for name in ("n0", "n1")
    ]
    yield running
    for each in running:
        each.kill()


@pytest.fixture(scope="module")
def led(
    java_peers: None, name_server: ours.NameServer, controllers: list[ours.Controller], home: Callable[[str], Path]
) -> Iterator[LedSet]:
    made = LedSet(NAME, name_server.address, home, controllers)
    yield made
    made.close()


def test_the_first_broker_gets_an_id_and_becomes_master(led: LedSet) -> None:
    led.start(1)
    eventually(lambda: led.master() == 1, "the first broker is master", 60.0)
    assert led.in_sync() == [1]
    assert led.state()["masterEpoch"] == 1
    eventually(lambda: led.send(1) == 0, "it takes sends", 60.0)


def test_a_second_broker_joins_and_gets_in_sync(led: LedSet) -> None:
    led.start(2)
    eventually(lambda: led.in_sync() == [1, 2], "both are in sync", 90.0)
    assert led.master() == 1
    assert led.send(1) == 0


def test_a_killed_master_is_replaced(led: LedSet) -> None:
    led.brokers[1].kill()
    eventually(lambda: led.master() == 2, "the second one is master", 60.0)
    assert led.state()["masterEpoch"] == 2
    eventually(lambda: led.send(2) == 0, "it takes sends", 60.0)
    led.restart(1)
    eventually(lambda: led.in_sync() == [1, 2], "the old master has joined again", 90.0)
    assert led.master() == 2


def test_mqadmin_java_s_and_ours_print_the_same(led: LedSet, admin: java.Admin) -> None:
    at = led.controllers[0].address
    for words in (
        ["getControllerMetaData", "-a", at],
        ["getSyncStateSet", "-a", at, "-b", NAME],
        ["getBrokerEpoch", "-n", led.name_server, "-b", NAME],
        ["updateControllerConfig", "-a", at, "-k", "electMasterMaxRetryCount", "-v", "4"],
        ["getControllerConfig", "-a", at],
    ):
        shown = call(*words)
        assert shown.code == 0, shown.err
        assert lines_of(shown.out) == lines_of(admin.run(*words)), words[0]
    assert "electMasterMaxRetryCount = 4" in re.sub(r" +", " ", call("getControllerConfig", "-a", at).out)
    recorded = (GOLDEN / "getSyncStateSet.txt").read_text()
    assert shape(call("getSyncStateSet", "-a", at, "-b", NAME).out) == shape(recorded)


def lines_of(printed: str) -> list[str]:
    """Without what Java's tool says of itself, and in an order of our own where Java's is that of a hash table."""
    return sorted(line.rstrip() for line in printed.splitlines() if line.strip())


def shape(printed: str) -> str:
    """Without names, numbers and addresses."""
    return re.sub(r"\d+(\.\d+)*(:\d+)?|broker-a|\bled\b", "X", printed.strip())


def test_an_administrator_switches_masters(led: LedSet, admin: java.Admin) -> None:
    words = ["electMaster", "-a", led.controllers[0].address, "-bn", NAME, "-c", CLUSTER, "-b"]
    still = call(*words, "2")
    assert still.code == 1
    assert "CODE: 2011  DESC: The old master 2 is still alive, not need to elect new master for broker led" in still.err
    assert "The old master 2 is still alive" in admin.run(*words, "2")
    switched = call(*words, "1")
    assert switched.code == 0, switched.err
    assert f"#BrokerMasterAddr\t{led.brokers[1].address}" in switched.out
    eventually(lambda: led.in_sync() == [1, 2], "both are in sync again", 90.0)
    eventually(lambda: led.send(1) == 0, "the new master takes sends", 60.0)
    back = admin.run(*words, "2")
    assert f"#BrokerMasterAddr\t{led.brokers[2].address}" in back
    assert f"#MasterEpoch\t{led.state()['masterEpoch']}" in back
    eventually(lambda: led.in_sync() == [1, 2], "both are in sync once more", 90.0)
    assert led.master() == 2


def test_pyromq_cluster_shows_and_switches(led: LedSet) -> None:
    def run(*words: str) -> Result:
        return CliRunner().invoke(cli, ["cluster", *words, "-n", led.name_server])

    def status() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(run("status", NAME, "--json").stdout)
        return found

    eventually(lambda: status()["inSync"] == [1, 2] and "troubles" not in status(), "all is well", 60.0)
    found = status()
    assert (found["mastersAreChosenBy"], found["master"]) == ("controller", 2)
    assert found["controller"] in led.controller_addresses
    assert found["lastSwitchWhy"] == "an administrator asked for it"
    assert {one["epoch"] for one in found["replicas"]} == {found["epoch"]}
    preview = run("switch", NAME, "--to", "1", "--dry-run")
    assert "would make replica 1" in preview.stdout
    assert led.master() == 2
    assert "is the master of led already" in " ".join(run("switch", NAME, "--to", "2", "--yes").stderr.split())
    done = run("switch", NAME, "--yes", "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["master"] == 1
    assert led.master() == 1
    eventually(lambda: led.in_sync() == [1, 2], "both are in sync again", 90.0)
    assert run("switch", NAME, "--to", "2", "--yes").exit_code == 0
    eventually(lambda: led.in_sync() == [1, 2], "and once more", 90.0)
    checks = CliRunner().invoke(cli, ["doctor", "--json", "-n", led.name_server]).stdout
    said = {row["check"]: row["state"] for row in map(json.loads, checks.splitlines()) if row["check"] == "controller"}
    assert said == {"controller": "good"}


def test_a_restarted_controller_knows_the_set(led: LedSet) -> None:
    before = led.state()
    controller = led.controllers[0]
    controller.kill()
    controller.restart()
    eventually(lambda: led.in_sync() == [1, 2], "a controller leads again", 30.0)
    eventually(lambda: all(each["alive"] for each in led.state()["inSyncReplicas"]), "both brokers were heard", 30.0)
    assert (led.master(), led.state()["masterEpoch"]) == (before["masterBrokerId"], before["masterEpoch"])


def test_when_the_leading_controller_dies_the_other_replaces_masters(led: LedSet) -> None:
    leading = next(each for each in led.controllers if leads(each))
    leading.kill()
    led.controllers.remove(leading)
    eventually(lambda: leads(led.controllers[0]), "the other one leads", 30.0)
    eventually(lambda: all(each["alive"] for each in led.state()["inSyncReplicas"]), "both brokers were heard", 60.0)
    led.brokers[2].kill()
    eventually(lambda: led.master() == 1, "the other broker is master", 60.0)
    eventually(lambda: led.send(1) == 0, "it takes sends", 60.0)


def leads(controller: ours.Controller) -> bool:
    return wire.ask(controller.address, Code.CONTROLLER_GET_METADATA_INFO.code).fields.get("isLeader") == "true"


def test_a_dead_replica_is_forgotten_by_mqadmin(led: LedSet, admin: java.Admin) -> None:
    words = ["cleanBrokerMetadata", "-a", led.controllers[0].address, "-bn", NAME, "-c", CLUSTER, "-b"]
    living = call(*words, "1")
    assert living.code == 1
    assert "CODE: 2009  DESC: Broker [led,  1] is still alive, clean up failure" in living.err
    assert "clear broker led metadata from controller success" in admin.run(*words, "2")
    assert [each["brokerId"] for each in led.state()["inSyncReplicas"]] == [1]
    assert led.state()["notInSyncReplicas"] == []
