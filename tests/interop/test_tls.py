"""Java clients with tls.enable=true against our name server and broker, and plain ones beside them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from pyromq.cli.main import cli

from . import wire
from .conftest import is_known
from .peers import java, ours
from .peers.process import ProgramFailed
from .waiting import eventually

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def certificate(home: Callable[[str], Path]) -> dict[str, str]:
    """The settings that name a certificate of `pyromq tls init`: key and certificate in one file."""
    folder = home("certificate")
    made = CliRunner().invoke(cli, ["tls", "init", "--dir", str(folder), "broker"])
    assert made.exit_code == 0, made.output
    return dict.fromkeys(("tls.server.certPath", "tls.server.keyPath"), str(folder / "broker.pem"))


@pytest.fixture(scope="module", params=["permissive", "enforcing"])
def tls_name_server(
    request: pytest.FixtureRequest, certificate: dict[str, str], home: Callable[[str], Path]
) -> Iterator[tuple[str, str]]:
    """Mode and address of a name server of ours with one topic that a broker keeps registered."""
    server = ours.NameServer(home("tls"), {**certificate, "tls.server.mode": request.param})
    with contextlib.ExitStack() as stack:
        stack.callback(server.kill)
        broker = stack.enter_context(wire.Client(server.address, tls=True))
        assert wire.register_broker(broker, "broker-t", ["SecretTopic", "Other"]).code == 0
        yield request.param, server.address


@pytest.mark.parametrize("version", ["5.5.0", "4.9.8"])
def test_a_java_client_with_tls_fetches_its_route(
    java_client: Callable[..., java.Client], tls_name_server: tuple[str, str], version: str
) -> None:
    _, address = tls_name_server
    queues = java_client(version, tls=True).queues(address, "SecretTopic")
    assert queues == [f"broker-t:{number}" for number in range(4)]


def test_a_plain_java_client_is_served_unless_tls_is_enforced(
    java_client: Callable[..., java.Client], tls_name_server: tuple[str, str]
) -> None:
    mode, address = tls_name_server
    client = java_client("5.5.0")
    if mode == "permissive":
        assert client.queues(address, "SecretTopic") == [f"broker-t:{number}" for number in range(4)]
    else:
        with pytest.raises(ProgramFailed, match=r"Can not find Message Queue|RemotingConnectException|closed"):
            client.queues(address, "SecretTopic")


@pytest.fixture(scope="module")
def tls_broker(certificate: dict[str, str], home: Callable[[str], Path]) -> Iterator[str]:
    """The name server of a broker of ours that takes TLS alone; the broker itself registers in plain."""
    with contextlib.ExitStack() as stack:
        server = ours.NameServer(home("tls"), {**certificate, "tls.server.mode": "permissive"})
        stack.callback(server.kill)
        settings = {**certificate, "tls.server.mode": "enforcing"}
        broker = ours.Broker(home("tls-broker"), [server.address], settings)
        stack.callback(broker.kill)
        eventually(lambda: is_known(server.address, broker.name), "the broker has registered")
        yield server.address


@pytest.mark.parametrize("version", ["5.5.0", "4.9.8"])
def test_a_java_client_with_tls_sends_and_consumes_through_our_broker(
    tls_broker: str, java_client: Callable[..., java.Client], version: str
) -> None:
    client = java_client(version, tls=True)
    topic = f"Secret{version.replace('.', '_')}"
    sent = client.send_by("sync", tls_broker, topic, ["m0", "m1", "m2", "m3"])
    assert {one["status"] for one in sent} == {"SEND_OK"}
    assert sorted(client.consume(tls_broker, topic, f"GID_{topic}", 4)) == ["m0", "m1", "m2", "m3"]


@pytest.mark.slow
def test_our_enforcing_broker_turns_a_plain_client_away(
    tls_broker: str, java_client: Callable[..., java.Client]
) -> None:
    with pytest.raises(ProgramFailed, match=r"Send \[3\] times, still failed|sendDefaultImpl call timeout"):
        java_client("5.5.0").send_by("sync", tls_broker, "Plain", ["m"])


@pytest.fixture(scope="module")
def unconfigured(home: Callable[[str], Path]) -> Iterator[str]:
    """The name server of a broker of ours; neither has been given a certificate."""
    with contextlib.ExitStack() as stack:
        server = ours.NameServer(home("tls-names"))
        stack.callback(server.kill)
        broker = ours.Broker(home("tls-unconfigured"), [server.address])
        stack.callback(broker.kill)
        eventually(lambda: is_known(server.address, broker.name), "the broker has registered")
        yield server.address


@pytest.mark.parametrize(
    ("version", "sends_by_tls", "consumes_by_tls"),
    [("5.5.0", True, True), ("5.5.0", False, True), ("5.5.0", True, False), ("4.9.8", True, True)],
    ids=["TlsIT", "TlsMixIT", "TlsMix2IT", "an old client"],
)
def test_tls_clients_just_connect_as_in_apaches_own_tests(
    unconfigured: str,
    java_client: Callable[..., java.Client],
    version: str,
    sends_by_tls: bool,
    consumes_by_tls: bool,
) -> None:
    topic = f"OutOfTheBox-{version.replace('.', '_')}-{sends_by_tls}-{consumes_by_tls}"
    bodies = [f"m{number:02}" for number in range(16)]
    sent = java_client(version, tls=sends_by_tls).send_by("sync", unconfigured, topic, bodies)
    assert {one["status"] for one in sent} == {"SEND_OK"}
    consumer = java_client(version, tls=consumes_by_tls)
    assert sorted(consumer.consume(unconfigured, topic, f"GID_{topic}", 16)) == bodies
