"""Apache's gRPC clients where things go wrong or are out of the ordinary: kills while a consumer holds messages, TLS,
bodies as large as may be, filters by SQL, dead letters, recall and priorities."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import pyromq

from . import wire
from .conftest import needed
from .grpc_endpoint import Endpoint, grpc_endpoint
from .peers.grpc_clients import CLIENTS, GrpcClient
from .peers.process import answer_of
from .waiting import eventually

pytestmark = pytest.mark.interop

GET_MAX_OFFSET = 30
MIB = 1 << 20
DASHES = b"-" * (16 << 10)  # what is padded has dots
HANDLED = 300  # milliseconds that a slow consumer takes for a message


def names(*of: str) -> list[object]:
    """Go alone in CI: the others walk the same way, `make interop`."""
    return [pytest.param(name, marks=() if name == "go" else pytest.mark.slow) for name in of]


@pytest.fixture(scope="module")
def own_endpoint(home: Callable[[str], Path]) -> Iterator[Endpoint]:
    settings = {
        "enablePropertyFilter": "true",
        "refuseConflictingSubscriptions": "true",
        "recallMessageEnable": "true",
        "messageDelayLevel": "1s 2s",
    }
    with grpc_endpoint(home, settings) as cluster:
        yield cluster


@pytest.fixture
def client(request: pytest.FixtureRequest) -> GrpcClient:
    found = CLIENTS[request.param]
    needed(found.start)
    return found


@pytest.fixture
def folder(home: Callable[[str], Path]) -> Path:
    return home("grpc")


def bodies_of(received: list[dict[str, Any]]) -> list[str]:
    return [str(one["body"]) for one in received]


def consumed_over_kills(
    client: GrpcClient, own: Endpoint, topic: str, group: str, bodies: set[str], kills: int, folder: Path
) -> list[str]:
    """Consume by a slow push consumer whose broker is killed after its next message; what came, in its order."""
    words = ["slow", own.endpoint, topic, group, "*", str(len(bodies)), str(HANDLED)]
    with client.starting(words, folder) as program:
        for _ in range(kills):
            program.wait_for("^got ", after=len(program.lines))
            own.kill_and_restart()
        received = bodies_of(answer_of(program, timeout_s=120))
    while bodies - {*received}:  # what came twice was counted too
        rest = client.simple(own.endpoint, topic, group, "*", len(bodies - {*received}), home=folder)
        assert rest, f"lost: {bodies - {*received}}"
        received += bodies_of(rest)
    return received


@pytest.mark.parametrize("client", names("java-5.2.0", "go", "node", "python"), indirect=True)
def test_what_a_push_consumer_holds_outlives_a_kill_of_the_broker(
    client: GrpcClient, own_endpoint: Endpoint, folder: Path
) -> None:
    topic = own_endpoint.new_topic(queues=2, kind="NORMAL")
    bodies = [f"body {number}" for number in range(20)]
    client.send(own_endpoint.endpoint, topic, "TagA", bodies, home=folder)
    received = consumed_over_kills(client, own_endpoint, topic, f"H_{topic}", {*bodies}, 1, folder)
    assert {*received} == {*bodies}


@pytest.mark.parametrize("client", names("java-5.2.0", "go", "node"), indirect=True)
def test_message_groups_keep_their_order_over_three_kills(
    client: GrpcClient, own_endpoint: Endpoint, folder: Path
) -> None:
    topic = own_endpoint.new_topic(queues=2, kind="FIFO")
    wire.create_group(own_endpoint.broker.address, f"F_{topic}", in_order=True)
    wanted = {name: [f"{name} {number:02}" for number in range(8)] for name in ("red", "green", "blue")}
    for name, bodies in wanted.items():
        client.fifo(own_endpoint.endpoint, topic, name, bodies, home=folder)
    all_ = {body for bodies in wanted.values() for body in bodies}
    received = consumed_over_kills(client, own_endpoint, topic, f"F_{topic}", all_, 3, folder)
    first = list(dict.fromkeys(received))  # a message that was held by a kill comes twice
    assert {name: [body for body in first if body.startswith(name)] for name in wanted} == wanted


@pytest.mark.parametrize("client", names("java-5.0.0", "java-5.2.0", "go", "node", "python"), indirect=True)
def test_clients_speak_tls_to_the_same_port(client: GrpcClient, own_endpoint: Endpoint, folder: Path) -> None:
    trusted = str(own_endpoint.certificate)  # Java's and Go's take any
    trusting = client.told(WALK_TLS="1", NODE_EXTRA_CA_CERTS=trusted, GRPC_DEFAULT_SSL_ROOTS_FILE_PATH=trusted)
    topic, bodies = own_endpoint.new_topic(queues=2, kind="NORMAL"), ["one", "two"]
    trusting.send(own_endpoint.endpoint, topic, "TagA", bodies, home=folder)
    for way, group in ((trusting.simple, f"S_{topic}"), (trusting.push, f"P_{topic}")):
        received = way(own_endpoint.endpoint, topic, group, "*", 2, home=folder)
        assert sorted(bodies_of(received)) == bodies


@pytest.mark.parametrize("client", names("java-5.2.0", "go", "node"), indirect=True)
def test_bodies_may_have_four_mebibytes(client: GrpcClient, own_endpoint: Endpoint, folder: Path) -> None:
    # Go's and Node's clients take no more in one answer, with all that stands around the body.
    size = 4_000_000 if client in (CLIENTS["go"], CLIENTS["node"]) else 4 * MIB
    topic = own_endpoint.new_topic(queues=1, kind="NORMAL")
    padding = client.told(WALK_PAD=str(size))
    padding.send(own_endpoint.endpoint, topic, "TagA", ["big", "large"], home=folder)
    for way, group in ((client.simple, f"S_{topic}"), (client.push, f"P_{topic}")):
        received = way(own_endpoint.endpoint, topic, group, "*", 2, home=folder)
        assert sorted((one["body"], one["size"]) for one in received) == [("big", size), ("large", size)]


@pytest.mark.parametrize("client", names("java-5.2.0", "go", "node"), indirect=True)
async def test_what_a_remoting_client_has_compressed_is_read(
    client: GrpcClient, own_endpoint: Endpoint, folder: Path
) -> None:
    topic = own_endpoint.new_topic(queues=1, kind="NORMAL")
    async with pyromq.connect(own_endpoint.servers) as session, session.producer("P") as producer:
        await producer.send(topic, b"squeezed" + DASHES)
    assert not any(DASHES in log.read_bytes() for log in (own_endpoint.broker.home / "store" / "commitlog").iterdir())
    (received,) = client.simple(own_endpoint.endpoint, topic, f"Z_{topic}", "*", 1, home=folder)
    assert received["body"].encode() == b"squeezed" + DASHES


@pytest.mark.parametrize("client", names("java-5.2.0", "go", "node"), indirect=True)
def test_messages_are_chosen_by_sql(client: GrpcClient, own_endpoint: Endpoint, folder: Path) -> None:
    topic, expression = own_endpoint.new_topic(queues=2, kind="NORMAL"), "sql:TAGS = 'TagB' AND colour = 'blue'"
    for tag in ("TagA", "TagB"):
        client.send(own_endpoint.endpoint, topic, tag, [f"{tag} {number}" for number in range(3)], home=folder)
    for way, group in ((client.simple, f"S_{topic}"), (client.push, f"P_{topic}")):
        received = way(own_endpoint.endpoint, topic, group, expression, 3, home=folder)
        assert sorted(bodies_of(received)) == ["TagB 0", "TagB 1", "TagB 2"]


@pytest.mark.parametrize("client", names("java-5.2.0", "go", "node"), indirect=True)
def test_a_message_becomes_a_dead_letter_after_its_last_attempt(
    client: GrpcClient, own_endpoint: Endpoint, folder: Path
) -> None:
    topic, broker = own_endpoint.new_topic(queues=1, kind="NORMAL"), own_endpoint.broker.address
    wire.create_group(broker, f"D_{topic}", retries=1)
    client.send(own_endpoint.endpoint, topic, "TagA", ["bad"], home=folder)
    received = client.fail(own_endpoint.endpoint, topic, f"D_{topic}", "*", 2, home=folder)
    assert [(one["body"], one["attempt"]) for one in received] == [("bad", 1), ("bad", 2)]

    def dead_letters() -> int:
        fields = {"topic": f"%DLQ%D_{topic}", "queueId": "0"}
        return int(wire.ask(broker, GET_MAX_OFFSET, fields).fields.get("offset", "0"))

    if dead_letters() == 0:  # its client ended before it said so: the next one that receives it does
        with client.starting(["fail", own_endpoint.endpoint, topic, f"D_{topic}", "*", "1"], folder):
            eventually(lambda: dead_letters() == 1, "it is a dead letter", seen=dead_letters)
    assert dead_letters() == 1


@pytest.mark.parametrize("client", names("java-5.2.0", "node"), indirect=True)
def test_what_is_recalled_never_arrives(client: GrpcClient, own_endpoint: Endpoint, folder: Path) -> None:
    topic, endpoint = own_endpoint.new_topic(queues=1, kind="DELAY"), own_endpoint.endpoint
    client.walk("recall", endpoint, topic, "2500", "gone", "gone too", home=folder)
    client.delay(endpoint, topic, 5_000, ["kept"], home=folder)  # due after the others
    assert bodies_of(client.simple(endpoint, topic, f"R_{topic}", "*", 1, home=folder)) == ["kept"]


@pytest.mark.parametrize("client", names("java-5.2.0", "node"), indirect=True)
def test_a_higher_priority_comes_first(client: GrpcClient, own_endpoint: Endpoint, folder: Path) -> None:
    topic, endpoint = own_endpoint.new_topic(queues=4, kind="PRIORITY"), own_endpoint.endpoint
    for priority in ("1", "3", "2"):  # Node's client takes 0 for none
        client.walk("priority", endpoint, topic, priority, f"priority {priority}", home=folder)
    received = client.simple(endpoint, topic, f"Q_{topic}", "*", 3, home=folder)
    assert bodies_of(received) == ["priority 3", "priority 2", "priority 1"]


@pytest.mark.parametrize("client", names("java-5.2.0", "go", "node", "python"), indirect=True)
def test_who_subscribes_otherwise_than_its_group_is_told_why(
    client: GrpcClient, own_endpoint: Endpoint, folder: Path
) -> None:
    topic, endpoint = own_endpoint.new_topic(queues=2, kind="NORMAL"), own_endpoint.endpoint
    simple = ["simple", endpoint, topic, f"C_{topic}"]
    client.send(endpoint, topic, "TagA", ["one"], home=folder)
    with client.starting([*simple, "TagA", "2"], folder) as first:
        first.wait_for("^got one")
        with client.starting([*simple, "TagB", "1"], folder) as second:  # prints why a receive failed
            second.wait_for(r"all members of a group must subscribe alike: .*TagB.*TagA")
