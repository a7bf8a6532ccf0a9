"""TLS without a word of configuration, as Java's servers have it: name server, broker and `pyromq up` as processes."""

from __future__ import annotations

import ssl
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import pyromq
from pyromq.transport.address import parse_address
from tests.interop.peers import ours
from tests.interop.peers.process import Program, ProgramFailed

Started = tuple[ours.NameServer, ours.Broker]
OFF = {"tls.test.mode.enable": "false"}


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Started]]:
    """A name server, and a broker that has registered with it; with these settings of both."""
    with ExitStack() as stack:

        def started(**settings: str) -> Started:
            names = ours.NameServer(tmp_path / "names", settings)
            stack.callback(names.kill)
            broker = ours.Broker(tmp_path / "broker", [names.address], settings)
            stack.callback(lambda: broker.kill())
            return names, broker

        yield started


def shown_by(address: str) -> str:
    """The certificate that is shown at an address, as PEM."""
    return ssl.get_server_certificate(parse_address(address), timeout=30)


def send(names: str, tls: pyromq.ClientTls | None) -> None:
    with pyromq.sync.connect(names, tls=tls) as client, client.producer() as producer:
        assert producer.send("Mixed", b"x").queue.broker_name == "broker-p"


def test_tls_clients_just_connect_and_find_the_same_certificate_after_a_restart(
    start: Callable[..., Started], tmp_path: Path
) -> None:
    names, broker = start()
    of_names = tmp_path / "names" / "namesrv" / "tls" / "self-signed.crt"
    of_broker = tmp_path / "broker" / "store" / "pyromq" / "tls" / "self-signed.crt"
    both = tmp_path / "both.pem"
    both.write_text(of_names.read_text() + of_broker.read_text())
    host, port = parse_address(broker.address)
    assert shown_by(names.address) == of_names.read_text()
    for tls in (None, pyromq.ClientTls(verify=pyromq.Verify.NONE), pyromq.ClientTls(ca=both)):
        send(names.address, tls)
    broker.stop()
    broker.restart()
    assert [shown_by(each) for each in (broker.address, f"{host}:{port - 2}")] == [of_broker.read_text()] * 2
    send(names.address, pyromq.ClientTls(ca=both))


def test_a_name_server_takes_the_broker_s_as_the_documents_say(start: Callable[..., Started], tmp_path: Path) -> None:
    start()
    made = tmp_path / "broker" / "store" / "pyromq" / "tls" / "self-signed.pem"
    paths = {"tls.server.certPath": str(made), "tls.server.keyPath": str(made)}
    other = ours.NameServer(tmp_path / "other", paths)
    try:
        assert shown_by(other.address) == made.with_suffix(".crt").read_text()
    finally:
        other.kill()


def test_switched_off_tls_clients_are_refused_and_nothing_is_made(
    start: Callable[..., Started], tmp_path: Path
) -> None:
    names, broker = start(**OFF)
    for address in (names.address, broker.address):
        with pytest.raises(OSError):  # noqa: PT011 - the connection ends, by whatever name
            shown_by(address)
    send(names.address, None)
    assert list(tmp_path.rglob("self-signed*")) == []


def test_a_broker_whose_certificate_is_damaged_says_which_file_and_what_to_do(
    start: Callable[..., Started], tmp_path: Path
) -> None:
    _, broker = start()
    broker.stop()
    file = tmp_path / "broker" / "store" / "pyromq" / "tls" / "self-signed.pem"
    file.write_text("no certificate")
    with pytest.raises(ProgramFailed, match=r"self-signed\.pem cannot be used .*: remove the file"):
        broker.restart()
    file.unlink()
    broker.restart()
    assert "BEGIN CERTIFICATE" in shown_by(broker.address)


def test_up_has_one_certificate_for_both(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pyromq.cli.main", "up", "--data", str(tmp_path / "data")]
    ports = ["--namesrv-port", "0", "--broker-port", "0"]
    certificate = tmp_path / "data" / "tls" / "self-signed.crt"
    found = []
    for _ in range(2):
        with Program([*command, *ports], name="pyromq up", env={"HOME": str(tmp_path)}, cwd=tmp_path) as program:
            address = program.wait_for(r"Name server (\S+), broker (\S+) ")
            found += [shown_by(address[1]), shown_by(address[2])]
            with pyromq.sync.connect(address[1], tls=pyromq.ClientTls(ca=certificate)) as client:
                client.producer().start()
    assert found == [certificate.read_text()] * 4
    assert list((tmp_path / "data" / "store").rglob("self-signed*")) == []
