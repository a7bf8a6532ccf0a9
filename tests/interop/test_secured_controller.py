"""Java 5.5.0 brokers with users, led by our controller with users: they take part by their inner credentials."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pyromq.protocol.requests import RequestCode as Code
from tests.access.matrix import is_refused
from tests.coordination.etcd_peer import EtcdCluster, require_etcd

from . import wire
from .peers import java, ours
from .secured import ADMIN, JAVA_SETTINGS, SECRET, SETTINGS
from .signing import signed
from .waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.slow]  # Java brokers: make interop

NAME = "secured-set"


@pytest.fixture
def controller(java_peers: None, tmp_path: Path, home: Callable[[str], Path]) -> Iterator[ours.Controller]:
    require_etcd()
    with EtcdCluster(tmp_path / "etcd") as etcd:
        running = ours.Controller(home("secured-controller"), etcd.endpoints, SETTINGS)
        yield running
        running.kill()


def state(at: str) -> dict[str, Any]:
    """What the controller says of the set (1006), asked as the administrator."""
    body = json.dumps([NAME]).encode()
    answer = wire.ask(at, Code.CONTROLLER_GET_SYNC_STATE_DATA.code, signed({}, body, ADMIN, SECRET), body=body)
    if answer.code != 0:
        return {}
    found: dict[str, Any] = wire.json_with_bare_keys(answer.body)["replicasInfoTable"].get(NAME, {})
    return found


def in_sync(at: str) -> list[int]:
    return [each["brokerId"] for each in state(at).get("inSyncReplicas", [])]


def test_javas_brokers_take_part_by_their_inner_credentials_and_a_master_is_replaced(
    controller: ours.Controller, name_server: ours.NameServer, home: Callable[[str], Path]
) -> None:
    at = controller.address
    led = {"enableControllerMode": "true", "controllerAddr": at, "brokerIP2": "127.0.0.1"}
    led |= {"syncControllerMetadataPeriod": "1000", "syncBrokerMetadataPeriod": "1000"}
    brokers: list[java.Broker] = []

    def start(**settings: str) -> java.Broker:
        folder = home(f"{NAME}-{len(brokers)}")
        brokers.append(java.Broker("5.5.0", folder, [name_server.address], JAVA_SETTINGS | led | settings, name=NAME))
        return brokers[-1]

    try:
        first = start()
        eventually(lambda: state(at).get("masterBrokerId") == 1, "the first broker is master", 90.0)
        start()
        eventually(lambda: in_sync(at) == [1, 2], "both are in sync", 90.0)
        stranger = wire.ask(at, Code.CONTROLLER_GET_REPLICA_INFO.code, {"brokerName": NAME})
        assert is_refused(stranger)
        first.kill()
        eventually(lambda: state(at).get("masterBrokerId") == 2, "the second one is master", 60.0)
        wrong = {"accessKey": "inner", "secretKey": "guessed"}
        start(innerClientAuthenticationCredentials=json.dumps(wrong))
        why = "check signature failed."
        logs = list((controller.home / "controller" / "audit").glob("audit-*.jsonl"))
        eventually(lambda: any(why in log.read_text("utf-8") for log in logs), "the third one is refused", 60.0)
        assert {each["brokerId"] for each in _replicas(at)} == {1, 2}
    finally:
        for broker in brokers:
            broker.kill()


def _replicas(at: str) -> list[dict[str, Any]]:
    found = state(at)
    return [*found.get("inSyncReplicas", []), *found.get("notInSyncReplicas", [])]
