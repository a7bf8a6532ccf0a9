"""`pyromq controller` as a process, with a real etcd: it says where it listens, leads, asks who is there, and stops in
order."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyromq.protocol.requests import RequestCode as Code
from tests.access.over_sockets import SECURED, SHOP, ask
from tests.coordination.etcd_peer import EtcdCluster, require_etcd
from tests.interop import wire
from tests.interop.peers import ours
from tests.interop.peers.process import Program
from tests.interop.waiting import eventually
from tests.support import free_ports


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    require_etcd()
    with EtcdCluster(tmp_path_factory.mktemp("etcd")) as running:
        yield running


def test_two_of_a_group_one_leads_and_the_other_takes_over_at_a_stop(etcd: EtcdCluster, tmp_path: Path) -> None:
    first, second = (
        ours.Controller(tmp_path / name, etcd.endpoints, {"controllerDLegerSelfId": name}, port=port)
        for name, port in zip(("n0", "n1"), free_ports(2), strict=True)
    )
    try:
        assert leader(second) == first.address
        first.stop()
        eventually(lambda: leader(second) == second.address, "the other one leads", 20.0)
        first.restart()
        assert leader(first) == second.address
    finally:
        first.kill()
        second.kill()


def leader(controller: ours.Controller) -> str | None:
    return wire.ask(controller.address, Code.CONTROLLER_GET_METADATA_INFO.code).fields.get("controllerLeaderAddress")


def test_without_etcd_it_does_not_start_and_says_why(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    command: list[str | Path] = [sys.executable, "-m", "pyromq.cli.main", "controller", "--listen", "127.0.0.1:0"]
    command += ["--etcd-endpoints", f"http://127.0.0.1:{port}"]
    with Program(command, name="pyromq controller", env={"HOME": str(tmp_path)}, cwd=tmp_path) as program:
        assert program.wait() == 2
        assert "no member of etcd answered" in program.tail()


def test_it_ends_by_sigterm_in_order(etcd: EtcdCluster, tmp_path: Path) -> None:
    controller = ours.Controller(tmp_path, etcd.endpoints)
    controller.program.signal(signal.SIGTERM)
    assert controller.program.wait() == 0
    assert "controller stopped" in controller.program.tail()


def test_brokers_take_part_by_their_credentials_and_users_of_theirs_are_its_users(
    etcd: EtcdCluster, tmp_path: Path
) -> None:
    name_server = ours.NameServer(tmp_path / "namesrv", SECURED)
    own = {"controllerDLegerGroup": "secured", "etcdPrefix": "/secured"}
    controller = ours.Controller(tmp_path / "controller", etcd.endpoints, SECURED | own)
    led = {"enableControllerMode": "true", "controllerAddr": controller.address}
    master = ours.Broker(tmp_path / "broker", [name_server.address], SECURED | led)
    try:
        info = {"brokerName": master.name}

        def is_master() -> bool:
            answer = ask(controller.address, Code.CONTROLLER_GET_REPLICA_INFO, **info)
            return answer.fields.get("masterAddress") == master.address

        eventually(is_master, "the broker is named as master", 20.0)
        assert wire.ask(controller.address, Code.CONTROLLER_GET_REPLICA_INFO.code, info).code == 16
        body = {"password": SHOP, "userType": "Super"}
        made = ask(master.address, Code.AUTH_CREATE_USER, body, username="shop")
        assert made.code == 0, made

        def is_known() -> bool:
            return ask(controller.address, Code.CONTROLLER_GET_REPLICA_INFO, b"", "shop", SHOP, **info).code == 0

        eventually(is_known, "the controller knows the user", 20.0)
    finally:
        for each in (master, controller, name_server):
            each.kill()
