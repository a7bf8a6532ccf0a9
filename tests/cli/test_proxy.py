"""`pyromq proxy` as a process: it says where it listens, takes Java's settings file, and stops in order."""

from __future__ import annotations

import json
import signal
import socket
import ssl
import sys
from contextlib import ExitStack
from pathlib import Path

import grpc
from click.testing import CliRunner
from cryptography import x509

from pyromq.cli.main import cli
from pyromq.protocol.grpc import v2
from pyromq.proxy.methods import PATH
from tests.access.matrix import SECRET, SUPER
from tests.access.test_grpc_calls import credentials
from tests.interop import wire
from tests.interop.peers import ours
from tests.interop.peers.process import Program
from tests.proxy.calling import METADATA


def test_it_serves_with_java_s_settings_file(tmp_path: Path) -> None:
    names = ours.NameServer(tmp_path / "names")
    file = tmp_path / "rmq-proxy.json"
    settings = {"namesrvAddr": names.address, "grpcServerPort": 0, "remotingListenPort": 0, "proxyMode": "cluster"}
    file.write_text(json.dumps(settings | {"maxInvisibleTimeMills": 60_000}))
    command: list[str | Path] = [sys.executable, "-m", "pyromq.cli.main", "proxy", "-c", file]
    command += ["--certificate-folder", tmp_path / "own"]
    try:
        with Program(command, name="pyromq proxy", env={"HOME": str(tmp_path)}, cwd=tmp_path) as program:
            address = program.wait_for(r"pyromq proxy ready on (127\.0\.0\.1:[1-9]\d*)")[1]
            with grpc.insecure_channel(address) as channel:
                assert _asked_for_a_route(channel) == v2.Code.TOPIC_NOT_FOUND
            program.signal(signal.SIGTERM)
            assert program.wait() == 0
            assert (tmp_path / "own" / "self-signed.crt").exists()
            assert not (tmp_path / "proxy").exists()
    finally:
        names.kill()


def test_it_is_ready_once_its_name_server_is_there(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    command: list[str | Path] = [sys.executable, "-m", "pyromq.cli.main", "proxy", "-n", f"127.0.0.1:{port}"]
    command += ["--listen", "127.0.0.1:0", "--remoting-listen-port", "0"]
    with Program(command, name="pyromq proxy", env={"HOME": str(tmp_path)}, cwd=tmp_path) as program:
        program.wait_for(r"not ready: calls are refused until a name server answers.*no name server answers")
        assert "ready on" not in program.tail(1000)
        names = ours.NameServer(tmp_path / "names", port=port)
        try:
            program.wait_for(r"no broker is registered yet")
            address = program.wait_for(r"pyromq proxy ready on (127\.0\.0\.1:[1-9]\d*)")[1]
            assert "PyroMQ self-signed" in _certificate_of(address)
            trusted = (tmp_path / "proxy" / "tls" / "self-signed.crt").read_bytes()
            with grpc.secure_channel(address, grpc.ssl_channel_credentials(trusted)) as channel:
                assert _asked_for_a_route(channel) == v2.Code.TOPIC_NOT_FOUND
            remoting = program.wait_for(r"remoting clients on (127\.0\.0\.1:[1-9]\d*)")[1]
            for tls in (False, True):
                with wire.Client(remoting, tls=tls) as asking:
                    assert asking.call(wire.GET_ROUTE, {"topic": "Nowhere"}).code == 17
            with wire.connect(remoting) as through:  # a load balancer, which says for whom it comes
                through.sendall(b"PROXY TCP4 10.1.2.3 10.1.2.4 5000 8080\r\n")
                through.sendall(wire.request_frame(105, {"topic": "Nowhere"}))
                assert wire.read_answer(through.makefile("rb")).code == 17
        finally:
            names.kill()


def test_it_stops_though_no_name_server_came(tmp_path: Path) -> None:
    command: list[str | Path] = [sys.executable, "-m", "pyromq.cli.main", "proxy", "-n", "127.0.0.1:1"]
    command += ["--listen", "127.0.0.1:0", "--remoting-listen-port", "-1"]
    with Program(command, name="pyromq proxy", env={"HOME": str(tmp_path)}, cwd=tmp_path) as program:
        program.wait_for(r"not ready: calls are refused")
        program.signal(signal.SIGTERM)
        assert program.wait() == 0


def test_before_a_secured_cluster_it_listens_anywhere_and_knows_its_users_after_a_kill(tmp_path: Path) -> None:
    settings = {
        "authenticationEnabled": "true",
        "authorizationEnabled": "true",
        "initAuthenticationUser": json.dumps({"username": SUPER, "password": SECRET}),
        "innerClientAuthenticationCredentials": json.dumps({"accessKey": "inner", "secretKey": "of servers"}),
    }
    with ExitStack() as stack:
        names = ours.NameServer(tmp_path / "names", settings)
        stack.callback(names.kill)
        broker = ours.Broker(tmp_path / "broker", [names.address], settings)
        stack.callback(broker.kill)
        del settings["initAuthenticationUser"]  # he is the brokers'
        file = tmp_path / "proxy.conf"
        own = settings | {"namesrvAddr": names.address, "bindAddress": "0.0.0.0", "grpcServerPort": "0"}
        file.write_text("".join(f"{key}={value}\n" for key, value in (own | {"remotingListenPort": "0"}).items()))
        command: list[str | Path] = [sys.executable, "-m", "pyromq.cli.main", "proxy", "-c", file]
        for _ in range(2):
            program = Program(command, name="pyromq proxy", env={"HOME": str(tmp_path)}, cwd=tmp_path)
            stack.callback(program.kill)
            port = program.wait_for(r"pyromq proxy ready on 0\.0\.0\.0:([1-9]\d*)")[1]
            with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
                assert _asked_for_a_route(channel) == v2.Code.UNAUTHORIZED
                assert _asked_for_a_route(channel, *credentials(SUPER, "guessed")) == v2.Code.UNAUTHORIZED
                assert _asked_for_a_route(channel, *credentials(SUPER)) == v2.Code.TOPIC_NOT_FOUND
            said = program.tail(1000)
            assert SECRET not in said
            assert "of servers" not in said
            program.kill()


def _asked_for_a_route(channel: grpc.Channel, *metadata: tuple[str, str]) -> int:
    request = v2.QueryRouteRequest(topic=v2.Resource(name="Nowhere"))
    call = channel.unary_unary(PATH + "QueryRoute")
    data = call(request.SerializeToString(), metadata=[*METADATA.items(), *metadata], timeout=20)
    return int(v2.QueryRouteResponse.FromString(data).status.code)


def _certificate_of(address: str) -> str:
    """The issuer of what a TLS client is shown, as text."""
    host, port = address.split(":")
    pem = ssl.get_server_certificate((host, int(port)))
    return x509.load_pem_x509_certificate(pem.encode()).issuer.rfc4514_string()


def test_settings_that_cannot_be(tmp_path: Path) -> None:
    file = tmp_path / "rmq-proxy.json"

    def said(text: str) -> str:
        file.write_text(text)
        done = CliRunner().invoke(cli, ["proxy", "-c", str(file)])
        assert done.exit_code == 78, done.output
        return done.output

    assert "proxyMode = local is refused" in said('{"proxyMode": "local"}')
    assert "line 2: unknown key 'grpcServerPorts'" in said('{\n"grpcServerPorts": 1}')
    assert "a text, a number, true or false is needed" in said('{"grpcServerPort": [1]}')
    assert "not valid JSON" in said("{")
    assert "start it with --insecure" in said('{"bindAddress": "0.0.0.0"}')
