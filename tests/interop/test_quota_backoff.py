"""Apache's clients beyond a quota of sends: either they come again by themselves, or the application is told which
quota it is and comes again. In both cases everything arrives in the end, and once."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from . import wire
from .conftest import needed
from .grpc_endpoint import Endpoint, grpc_endpoint
from .peers import cpp, go, node
from .peers.grpc_clients import CLIENTS
from .peers.process import ProgramFailed

pytestmark = pytest.mark.interop

SET, MAX_OFFSET = 30010, 30
QUEUES = 2
SOON, LATE = 8, 2  # messages a second: they come again well before, or after, most clients have given up


@dataclass(frozen=True)
class Kind:
    """One client library. `patient`: it sends again by itself where the next message may be sent soon."""

    send: Callable[[Endpoint, str, Sequence[str], Path], Any]
    read: Callable[[Endpoint, str, int, Path], list[dict[str, Any]]]
    patient: bool
    names_the_quota: bool = True  # in what the application is told


def small(client: Any, *, patient: bool, names_the_quota: bool = True) -> Kind:
    return Kind(
        lambda cluster, topic, bodies, home: client.send(cluster.servers, topic, "TagA", bodies, home=home),
        lambda cluster, topic, count, home: client.consume(
            cluster.servers, topic, f"GID_{topic}", "*", count, home=home
        ),
        patient,
        names_the_quota,
    )


def grpc(name: str, *, patient: bool) -> Kind:
    client = CLIENTS[name]
    return Kind(
        lambda cluster, topic, bodies, home: client.send(cluster.endpoint, topic, "TagA", bodies, home=home),
        lambda cluster, topic, count, home: client.simple(
            cluster.endpoint, topic, f"GID_{topic}", "*", count, home=home
        ),
        patient,
    )


KINDS = {
    "go": small(go.client, patient=False),
    "node": small(node.client, patient=False),
    "cpp": small(cpp.client, patient=True, names_the_quota=False),
    "grpc-java-5.2.0": grpc("java-5.2.0", patient=True),
    "grpc-go": grpc("go", patient=True),
    "grpc-node": grpc("node", patient=True),
    "grpc-python": grpc("python", patient=False),
}
QUICK = ("go", "grpc-node")
NAMES = [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in KINDS]


@pytest.fixture(scope="module")
def cluster(home: Callable[[str], Path]) -> Iterator[Endpoint]:
    with grpc_endpoint(home, {}) as made:
        yield made


@pytest.fixture(params=NAMES)
def kind(request: pytest.FixtureRequest) -> Kind:
    name = request.param
    if name in ("go", "node", "cpp"):
        request.getfixturevalue(f"{name}_peer")
    else:
        needed(CLIENTS[name.removeprefix("grpc-")].start)
    return KINDS[name]


def limited_topic(cluster: Endpoint, **limits: int) -> str:
    topic = cluster.new_topic(queues=QUEUES, kind="NORMAL")
    body = {"kind": "topic", "name": topic, "limits": limits}
    assert wire.ask(cluster.broker.address, SET, body=json.dumps(body).encode()).code == 0
    return topic


def stored(cluster: Endpoint, topic: str) -> int:
    asked = [{"topic": topic, "queueId": str(queue)} for queue in range(QUEUES)]
    return sum(int(wire.ask(cluster.broker.address, MAX_OFFSET, one).fields["offset"]) for one in asked)


def fault_of(kind: Kind, cluster: Endpoint, topic: str, bodies: Sequence[str], home: Path) -> str:
    """Return what the application has been told, with what its library said; empty: all was acknowledged."""
    try:
        kind.send(cluster, topic, bodies, home)
    except ProgramFailed as fault:
        return str(fault)
    return ""


def test_everything_arrives_once_in_the_end(kind: Kind, cluster: Endpoint, home: Callable[[str], Path]) -> None:
    """Who gives up at the first refusal has sent all before it and nothing of the one refused."""
    count, rate = (24, SOON) if kind.patient else (8, LATE)
    topic, refusals, sent = limited_topic(cluster, sendMessages=rate), 0, 0
    wanted = [f"{number:02d}" for number in range(count)]
    while sent < count:
        fault = fault_of(kind, cluster, topic, wanted[sent:], home("sender"))
        sent = stored(cluster, topic)
        if fault:
            refusals += 1
            assert f"the quota of topic:{topic} is {rate} messages sent a second" in fault
        else:
            assert sent == count
    assert (refusals == 0) == kind.patient
    received = kind.read(cluster, topic, count, home("reader"))
    assert sorted(one["body"] for one in received) == wanted


def test_an_application_is_told_when_its_client_gives_up(
    kind: Kind, cluster: Endpoint, home: Callable[[str], Path]
) -> None:
    """A second's worth is four bytes, and the first message leaves a debt of many seconds."""
    topic = limited_topic(cluster, sendBytes=4)
    told = fault_of(kind, cluster, topic, ["m" * 400, "too soon"], home("sender"))
    assert told
    assert stored(cluster, topic) == 1
    words = rf"\[QUOTA\].*the quota of topic:{topic} is 4 bytes sent a second \(sendBytes\), \d+ is used: try again in"
    assert kind.names_the_quota == bool(re.search(words, told))
