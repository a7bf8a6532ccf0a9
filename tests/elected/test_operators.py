"""What operators ask of a set that elects its master: mqadmin by our controller, and a replica that is forgotten."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from pathlib import Path

from click.testing import CliRunner, Result

from pyromq.cli.main import cli
from pyromq.model.codes import ResponseCode
from pyromq.protocol.requests import RequestCode as Code
from tests.elected.elected_set import CLUSTER, NAME, ElectedSet, elected_set
from tests.elected.test_failover import eventually
from tests.interop import wire
from tests.interop.peers import ours
from tests.mqadmin.conftest import call


def run(members: ElectedSet, *words: str) -> Result:
    return CliRunner().invoke(cli, [*words, "-n", members.name_server.address])


async def in_sync_is(members: ElectedSet, size: int) -> bool:
    state, _ = await members.known()
    return state is not None and len(state.in_sync) == size


def master_of(members: ElectedSet) -> int:
    state, _ = asyncio.run(members.known())
    assert state is not None
    return state.master


def test_mqadmin_shows_and_switches_it_and_a_replica_that_is_gone_is_forgotten(tmp_path: Path) -> None:
    with elected_set(tmp_path) as members:
        controller = ours.Controller(tmp_path / "controller", members.etcd.endpoints)
        try:
            asyncio.run(eventually(members.is_whole))
            _mqadmin(members, controller.address)
            asyncio.run(eventually(members.is_whole))
            _second_set_is_refused(controller.address)
            _forget(members, controller.address)
            _another_takes_its_number(members, tmp_path / "another")
        finally:
            controller.kill()


def _mqadmin(members: ElectedSet, at: str) -> None:
    shown = call("getSyncStateSet", "-a", at, "-b", NAME).out
    assert (shown.count("\nInSyncReplica"), shown.count("\nNotInSyncReplica")) == (3, 0)
    old = master_of(members)
    wanted = next(replica for replica in (1, 2, 3) if replica != old)
    named = ("-bn", NAME, "-c", CLUSTER, "-b")
    elected = call("electMaster", "-a", at, *named, str(wanted))
    _, places = asyncio.run(members.known())
    assert f"#BrokerMasterAddr\t{places[wanted]}" in elected.out, elected
    assert master_of(members) == wanted
    refused = call("electMaster", "-a", at, *named, "9")
    assert "replica 9 of broker-e cannot be master: it is none of its replicas" in refused.out + refused.err
    info = wire.ask(at, Code.CONTROLLER_GET_REPLICA_INFO, {"brokerName": NAME})
    assert (info.code, info.fields["masterBrokerId"]) == (0, str(wanted))
    epochs = call("getBrokerEpoch", "-b", NAME, "-n", members.name_server.address).out
    assert "#Epoch: EpochEntry{epoch=1, startOffset=0" in epochs


def _second_set_is_refused(at: str) -> None:
    fields = {"brokerName": NAME, "clusterName": CLUSTER, "brokerId": "1", "brokerAddress": "127.0.0.1:1"}
    refused = wire.ask(at, Code.CONTROLLER_REGISTER_BROKER, fields)
    assert refused.code == ResponseCode.CONTROLLER_INVALID_REQUEST
    assert "elects its master over etcd" in (refused.remark or "")


def _forget(members: ElectedSet, at: str) -> None:
    state, places = asyncio.run(members.known())
    assert state is not None
    gone = next(replica for replica in (1, 2, 3) if replica != state.master)
    runs = run(members, "cluster", "forget", NAME, str(gone), "--yes")
    assert "stop it first" in runs.stderr
    assert "stop it first" in call("cleanBrokerMetadata", "-a", at, "-bn", NAME, "-c", CLUSTER, "-b", str(gone)).err
    next(one for one in members.brokers if one.address == places[gone]).kill()
    asyncio.run(eventually(partial(in_sync_is, members, 2)))
    asyncio.run(eventually(partial(_doctor_says_away, members, gone)))
    shown = run(members, "cluster", "forget", NAME, str(gone), "--dry-run")
    assert (shown.exit_code, "nothing was changed" in shown.stderr + shown.stdout) == (0, True)
    done = run(members, "cluster", "forget", NAME, str(gone), "--yes", "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["forgotten"] == gone
    _, places = asyncio.run(members.known())
    assert sorted(places) == [one for one in (1, 2, 3) if one != gone]
    again = run(members, "cluster", "forget", NAME, str(gone), "--yes")
    assert f"there is no replica '{gone}'" in " ".join(again.stderr.split())


def _another_takes_its_number(members: ElectedSet, home: Path) -> None:
    """Start a replica with an empty folder, and with another size of log files configured: it gets the set's."""
    home.mkdir()
    settings = {"etcdEndpoints": ";".join(members.etcd.endpoints), "mappedFileSizeCommitLog": str(3 << 20)}
    another = ours.Broker(home, [members.name_server.address], settings, name=NAME, cluster=CLUSTER)
    try:
        asyncio.run(eventually(partial(in_sync_is, members, 3)))
        sizes = {file.stat().st_size for file in (home / "store" / "commitlog").iterdir()}
        others = {file.stat().st_size for file in (members.brokers[0].home / "store" / "commitlog").iterdir()}
        assert sizes == others
    finally:
        another.kill()


async def _doctor_says_away(members: ElectedSet, gone: int) -> bool:
    shown = await asyncio.to_thread(run, members, "doctor", "--json", "--timeout", "1")
    rows = [json.loads(line) for line in shown.stdout.splitlines()]
    return any(f"cluster forget {NAME} {gone} --dry-run" in row["command"] for row in rows)
