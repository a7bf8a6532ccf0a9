"""Answers of our name server against those of Java's to the same request, down to the bytes where the form is fixed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from . import wire
from .conftest import CLUSTER
from .peers import java, ours

pytestmark = [pytest.mark.interop, pytest.mark.slow]  # Java brokers: make interop


@pytest.fixture(scope="module")
def addresses(
    name_server: ours.NameServer, java_name_server: java.NameServer, brokers: dict[str, java.Broker]
) -> tuple[str, str]:
    """Ours and Java's, with the same brokers."""
    return name_server.address, java_name_server.address


def ask_both(
    addresses: tuple[str, str], code: int, fields: dict[str, str] | None = None, version: int = wire.V5_5_0
) -> tuple[wire.Answer, wire.Answer]:
    own, other = (wire.ask(address, code, fields, version) for address in addresses)
    return own, other


@pytest.mark.parametrize(
    ("version", "asked", "start"),
    [
        (0, {}, b'{"brokerDatas":[{"brokerAddrs":{0:"'),  # ali-ons and C++ send versions below 401
        (399, {}, b'{"brokerDatas":[{"brokerAddrs":{0:"'),
        (400, {}, b'{"brokerDatas":[{"brokerAddrs":{0:"'),
        (401, {}, b'{"brokerDatas":[{"brokerAddrs":{"0":"'),
        (wire.V5_5_0, {}, b'{"brokerDatas":[{"brokerAddrs":{"0":"'),
        (0, {"acceptStandardJsonOnly": "true"}, b'{"brokerDatas":[{"brokerAddrs":{"0":"'),
        (0, {"acceptStandardJsonOnly": "false"}, b'{"brokerDatas":[{"brokerAddrs":{0:"'),
    ],
    ids=["0", "399", "400", "401", "513", "standard JSON", "not standard JSON"],
)
@pytest.mark.parametrize("broker", ["broker-a", "broker-b"])
def test_a_route_has_the_form_that_the_version_understands(
    addresses: tuple[str, str], broker: str, version: int, asked: dict[str, str], start: bytes
) -> None:
    """A broker's own name is a topic on it alone, so that nothing depends on an order."""
    own, other = ask_both(addresses, wire.GET_ROUTE, {"topic": broker, **asked}, version)
    assert (own.code, own.body) == (other.code, other.body)
    assert own.body.startswith(start)


def test_a_route_over_two_brokers_is_the_same_value(addresses: tuple[str, str]) -> None:
    routes: list[Any] = [json.loads(one.body) for one in ask_both(addresses, wire.GET_ROUTE, {"topic": "TBW102"})]
    for route in routes:
        for part in ("brokerDatas", "queueDatas"):
            route[part].sort(key=lambda one: str(one["brokerName"]))
    assert routes[0] == routes[1]
    assert [one["brokerName"] for one in routes[0]["queueDatas"]] == ["broker-a", "broker-b"]


def test_an_unknown_topic_is_refused_in_the_same_words(addresses: tuple[str, str]) -> None:
    own, other = ask_both(addresses, wire.GET_ROUTE, {"topic": "NoSuchTopic"})
    assert (own.code, own.remark) == (other.code, other.remark)
    assert own.code == 17


def test_cluster_information(addresses: tuple[str, str]) -> None:
    own, other = ask_both(addresses, wire.GET_CLUSTER_INFO)
    assert b'{0:"127.0.0.1:' in own.body, "ids are bare numbers here for every version"
    assert canonical(wire.json_with_bare_keys(own.body)) == canonical(wire.json_with_bare_keys(other.body))


@pytest.mark.parametrize("broker", ["broker-a", "no-such-broker"])
def test_members_of_a_broker_name(addresses: tuple[str, str], broker: str) -> None:
    own, other = ask_both(addresses, wire.BROKER_MEMBERS, {"clusterName": CLUSTER, "brokerName": broker})
    assert own.code == other.code
    assert wire.json_with_bare_keys(own.body) == wire.json_with_bare_keys(other.body)


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        (wire.GET_ALL_TOPICS, {}),
        (wire.TOPICS_OF_CLUSTER, {"cluster": CLUSTER}),
        (wire.TOPICS_OF_CLUSTER, {"cluster": "NoSuchCluster"}),
        (wire.SYSTEM_TOPICS, {}),
        *((code, {}) for code in wire.UNIT_TOPICS),
    ],
    ids=["all", "cluster", "unknown cluster", "system", "unit", "unit subscribed", "unit subscribed elsewhere"],
)
def test_lists_of_topics(
    addresses: tuple[str, str], brokers: dict[str, java.Broker], code: int, fields: dict[str, str]
) -> None:
    own, other = ask_both(addresses, code, fields)
    assert own.code == other.code
    own_list, other_list = json.loads(own.body), json.loads(other.body)
    # The address that stands beside the system topics is that of any broker.
    own_address, other_address = own_list.pop("brokerAddr", None), other_list.pop("brokerAddr", None)
    assert (own_address is None) == (other_address is None)
    assert own_address in (None, *(broker.address for broker in brokers.values()))
    assert canonical(own_list) == canonical(other_list)


def canonical(value: Any) -> Any:
    """Lists sorted at every level: their order is that of hash tables in Java."""
    if isinstance(value, dict):
        return {key: canonical(one) for key, one in value.items()}
    if isinstance(value, list):
        return sorted((canonical(one) for one in value), key=str)
    return value
