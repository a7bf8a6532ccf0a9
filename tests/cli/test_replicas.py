"""`pyromq cluster status`, `cluster switch` and what doctor says of replicas, of a real pair of ours and of reports."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pyromq.admin.checkup.replica_checks import _controller, _in_sync, _lags
from pyromq.admin.replicas import CONTROLLED, ELECTED, ReplicaStatus, SetReport, take_sync_state
from pyromq.cli.cluster.replicas import _chosen
from pyromq.cli.cluster.set_reports import troubles
from pyromq.cli.main import cli
from pyromq.errors import PyroError
from pyromq.protocol.bodies.replication import ReplicaIdentity, ReplicasInfo
from tests.interop.peers import ours
from tests.interop.waiting import eventually
from tests.transport.certificates import Authority


class Pair:
    """A name server, a master and its slave."""

    def __init__(self, folder: Any) -> None:
        self.name_server = ours.NameServer(folder / "namesrv")
        servers = [self.name_server.address]
        self.master = ours.Broker(folder / "master", servers, {"brokerRole": "SYNC_MASTER"}, name="pair")
        self.slave = ours.Broker(folder / "slave", servers, {"brokerRole": "SLAVE", "brokerId": "1"}, name="pair")

    def run(self, *words: str) -> Result:
        return CliRunner().invoke(cli, [*words, "-n", self.name_server.address])

    def status(self) -> dict[str, Any]:
        (line,) = self.run("cluster", "status", "pair", "--json").stdout.splitlines()
        row: dict[str, Any] = json.loads(line)
        return row

    def close(self) -> None:
        for server in (self.slave, self.master, self.name_server):
            server.kill()


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    made = Pair(tmp_path_factory.mktemp("pair"))
    try:
        eventually(lambda: made.status()["inSync"] == [0, 1], "the slave is in sync", 60.0)
        yield made
    finally:
        made.close()


def test_a_pair_is_shown_with_roles_ends_and_lag(pair: Pair) -> None:
    found = pair.status()
    assert (found["broker"], found["master"], found["mastersAreChosenBy"]) == ("pair", 0, "configuration")
    master, slave = found["replicas"]
    assert (master["role"], slave["role"], slave["address"]) == ("master", "slave", pair.slave.address)
    assert (slave["lagBytes"], slave["inSync"], slave["answers"]) == (0, True, True)
    assert "troubles" not in found
    shown = pair.run("cluster", "status")
    assert shown.exit_code == 0
    assert "minInSyncReplicas" in shown.stdout or "min in sync replicas" in shown.stdout


def test_doctor_looks_at_replicas(pair: Pair) -> None:
    shown = pair.run("doctor", "--json").stdout
    rows = [json.loads(line) for line in shown.splitlines()]
    found = {row["check"]: row for row in rows if row["check"] in ("replica", "in sync")}
    assert {row["state"] for row in found.values()} == {"good"}
    assert any("pair, replica 1 and this machine agree" in row["text"] for row in rows if row["check"] == "clock")


def test_doctor_says_why_a_slave_does_not_follow(pair: Pair, tmp_path: Path) -> None:
    checks = {"tls.client.authServer": "true", "tls.client.trustCertPath": str(Authority(tmp_path, "other").file)}
    settings = {"brokerRole": "SLAVE", "brokerId": "2", "haTls": "on"} | checks
    other = ours.Broker(tmp_path / "other", [pair.name_server.address], settings, name="pair")
    try:
        eventually(lambda: "tls.client.trustCertPath" in pair.run("inspect", "-b", other.address).stdout, "it tried")
        shown = pair.run("doctor", "--json").stdout
    finally:
        other.stop()
    broken = [row for row in map(json.loads, shown.splitlines()) if row["state"] == "broken"]
    (found,) = [row["text"] for row in broken if row["check"] == "replica"]
    assert f"replica 2 of pair at {other.address} does not follow: " in found
    assert "name who did, tls.client.trustCertPath" in found


def test_a_pair_of_configured_roles_is_not_switched_by_a_command(pair: Pair) -> None:
    refused = pair.run("cluster", "switch", "pair", "--yes")
    assert refused.exit_code != 0
    assert "the master that configuration files name" in refused.stderr.replace("\n", " ").replace("  ", " ")


def test_a_slave_that_hangs_is_a_trouble_and_the_exit_code_is_1(pair: Pair) -> None:
    pair.slave.program.signal(signal.SIGSTOP)
    try:
        shown = pair.run("cluster", "status", "pair", "--json", "--timeout", "1")
    finally:
        pair.slave.program.signal(signal.SIGCONT)
    assert shown.exit_code == 1
    assert json.loads(shown.stdout)["troubles"] == "replica 1 does not answer"


# --- reports, made by hand --------------------------------------------------------------------------------------------


def led(**other: Any) -> SetReport:
    replicas = [
        ReplicaStatus(1, "a:1", "master", answers=True, end=100, lag=0, in_sync=True),
        ReplicaStatus(2, "b:1", "slave", answers=True, end=90, lag=10, in_sync=True),
        ReplicaStatus(3, "c:1", "slave", answers=True, end=95, lag=5, in_sync=True),
        ReplicaStatus(4, "d:1", "slave", answers=True, end=99, lag=1, in_sync=False),
        ReplicaStatus(5, "e:1", "slave", answers=False, in_sync=True),
    ]
    return SetReport("c", "a", replicas, CONTROLLED, **other)


def test_who_has_the_most_of_those_in_sync_is_chosen() -> None:
    assert _chosen(led(), None).id == 3
    assert _chosen(led(), 2).id == 2
    own = led()
    own.kind = ELECTED
    assert _chosen(own, None).id == 2, "it loses nothing, and what runs on changes who has the most"
    own.replicas[1].lag = 1 << 30
    assert _chosen(own, None).id == 3


@pytest.mark.parametrize(
    ("to", "why"),
    [(4, "is not in sync"), (5, "does not answer"), (1, "is the master of a already"), (9, "there is no replica '9'")],
)
def test_what_would_lose_messages_is_refused(to: int, why: str) -> None:
    with pytest.raises(Exception, match=why):
        _chosen(led(), to)


def test_sets_that_no_controller_leads_are_refused_with_what_to_do() -> None:
    with pytest.raises(PyroError, match="cannot be asked: nobody leads"):
        _chosen(led(trouble="nobody leads"), None)
    alone = led()
    alone.replicas = alone.replicas[:1]
    with pytest.raises(PyroError, match="no other replica of a is in sync"):
        _chosen(alone, None)


def test_a_controllers_word_has_its_ids_and_replicas_that_no_name_server_knows() -> None:
    found = SetReport("c", "a", [ReplicaStatus(0, "b:1", "master", answers=True)], CONTROLLED)
    members = [
        ReplicaIdentity(alive=True, broker_address=f"{host}:1", broker_id=number, broker_name="a")
        for number, host in ((1, "a"), (2, "b"))
    ]
    info = ReplicasInfo(
        in_sync_replicas=members[1:], not_in_sync_replicas=members[:1], master_broker_id=2, master_epoch=7,
        switched_ms=5, switched_why="w", sync_state_set_epoch=9,
    )  # fmt: skip
    take_sync_state(found, info)
    assert [(one.id, one.role, one.in_sync, one.answers) for one in found.replicas] == [
        (1, "slave", False, False),
        (2, "master", True, True),
    ]
    assert (found.epoch, found.switched_ms, found.switched_why, found.in_sync) == (7, 5, "w", [2])
    assert troubles(found) == ["replica 1 does not answer"]


def test_the_minimum_is_known_while_etcd_is_away() -> None:
    assert SetReport("c", "a", [], ELECTED).minimum == 2
    assert SetReport("c", "a", [], ELECTED, settings={"minInSyncReplicas": "3"}).minimum == 3
    assert SetReport("c", "a", [], CONTROLLED).minimum == 1


def test_several_that_are_away_are_named_together() -> None:
    away = [ReplicaStatus(number, f"{number}:1", "slave") for number in (2, 5)]
    assert troubles(SetReport("c", "a", away))[1:] == ["replicas 2, 5 do not answer"]


def test_too_few_in_sync_and_far_behind_are_said() -> None:
    short = led(settings={"minInSyncReplicas": "5"})
    assert _in_sync(short).state == "broken"
    assert "4 in sync, and minInSyncReplicas is 5: sends are refused" in troubles(short)
    assert _in_sync(led(settings={"minInSyncReplicas": "4"})).state == "warning"
    assert _in_sync(led()).state == "good"
    behind = led(settings={"haMaxGapNotInSync": "8"})
    assert [one.state for one in _lags(behind)] == ["warning", "good", "good"]
    assert _controller(led(trouble="x")).state == "broken"
    assert _controller(led(leader="c:1")).state == "good"
    nobody = led(trouble="no controller")
    for one in nobody.replicas:
        one.in_sync = None
    assert _in_sync(nobody).state == "warning"


def test_how_long_catching_up_takes() -> None:
    one = ReplicaStatus(2, "b:1", "slave", lag=1000, bytes_per_second=100)
    assert one.caught_up_in_s == 10.0
    assert ReplicaStatus(2, "b:1", "slave", lag=0).caught_up_in_s == 0.0
    assert ReplicaStatus(2, "b:1", "slave", lag=10, bytes_per_second=0).caught_up_in_s is None
