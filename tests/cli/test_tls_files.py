"""`pyromq tls`: what openssl, OpenSSL's clients of Python and running servers make of its files."""

from __future__ import annotations

import json
import shutil
import ssl
import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import pyromq
from pyromq.cli.main import cli
from pyromq.errors import ConfigError
from pyromq.transport.address import parse_address
from pyromq.transport.certificates.authority import Authority, CertificateFor
from pyromq.transport.certificates.reading import read_certificate
from tests.interop.peers import ours
from tests.support import require

NOW = datetime(2026, 11, 18, tzinfo=UTC)
Tls = Callable[..., Result]


@pytest.fixture
def tls(tmp_path: Path) -> Tls:
    """`pyromq tls COMMAND --dir FOLDER ...`, which must end with `code`."""

    def run(name: str, *words: str, code: int = 0) -> Result:
        done = CliRunner().invoke(cli, ["tls", name, "--dir", str(tmp_path / "tls"), *words])
        assert done.exit_code == code, (done.output, done.exception)
        return done

    return run


def openssl(*words: str) -> str:
    require(shutil.which("openssl") is not None, "openssl")
    return subprocess.run(["openssl", *words], check=True, capture_output=True, text=True).stdout


def test_openssl_trusts_what_was_made_and_keys_are_for_the_owner_alone(tls: Tls, tmp_path: Path) -> None:
    tls("init", "--host", "10.0.0.5", "--host", "mq.example.com")
    folder = tmp_path / "tls"
    members = {"broker", "namesrv", "proxy", "controller", "dashboard", "client"}
    assert {file.name for file in folder.iterdir()} == {"ca.crt", "ca.key", *(f"{name}.pem" for name in members)}
    for name in members:
        file, purpose = str(folder / f"{name}.pem"), "sslclient" if name == "client" else "sslserver"
        openssl("verify", "-x509_strict", "-purpose", purpose, "-CAfile", str(folder / "ca.crt"), file)
        assert stat.S_IMODE((folder / f"{name}.pem").stat().st_mode) == 0o600
    assert stat.S_IMODE((folder / "ca.key").stat().st_mode) == 0o600
    for host in ("-verify_ip 10.0.0.5", "-verify_hostname mq.example.com", "-verify_ip ::1"):
        openssl("verify", *host.split(), "-CAfile", str(folder / "ca.crt"), str(folder / "broker.pem"))
    with pytest.raises(subprocess.CalledProcessError):
        openssl("verify", "-verify_ip", "10.0.0.6", "-CAfile", str(folder / "ca.crt"), str(folder / "broker.pem"))
    with pytest.raises(subprocess.CalledProcessError):  # a client serves nobody
        openssl("verify", "-purpose", "sslserver", "-CAfile", str(folder / "ca.crt"), str(folder / "client.pem"))


def test_nothing_is_replaced_unless_asked(tls: Tls, tmp_path: Path) -> None:
    tls("init", "broker")
    before = (tmp_path / "tls" / "broker.pem").read_bytes()
    assert "pyromq tls renew broker" in tls("init", "broker", code=78).stderr
    assert "nothing was done" in tls("renew").stdout
    tls("init", "--client", "alice")
    assert (tmp_path / "tls" / "broker.pem").read_bytes() == before
    tls("renew", "broker", "--host", "10.0.0.9")
    renewed = read_certificate(tmp_path / "tls" / "broker.pem")
    assert "10.0.0.9" in renewed.hosts
    assert "localhost" in renewed.hosts


@pytest.mark.parametrize("name", ["ca", "../broker", ".hidden", "a b", "", "x" * 65])
def test_names_that_are_no_files_are_refused(tls: Tls, tmp_path: Path, name: str) -> None:
    tls("init", "broker")
    tls("init", "--", name, code=78)
    assert {file.name for file in tmp_path.iterdir()} == {"tls"}


def test_hosts_are_checked(tls: Tls) -> None:
    assert "neither an address nor a name" in tls("init", "broker", "--host", "a b", code=78).stderr


def test_a_password_keeps_the_authority_s_key(tls: Tls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYROMQ_TLS_CA_PASSWORD", "open sesame")
    tls("init", "broker")
    assert b"ENCRYPTED" in (tmp_path / "tls" / "ca.key").read_bytes()
    tls("renew", "--all")
    monkeypatch.delenv("PYROMQ_TLS_CA_PASSWORD")
    assert "PYROMQ_TLS_CA_PASSWORD" in tls("renew", "--all", code=78).stderr
    monkeypatch.setenv("PYROMQ_TLS_CA_PASSWORD", "wrong")
    assert "nothing can be signed" in tls("renew", "--all", code=78).stderr


def test_a_renewed_authority_is_trusted_by_who_has_the_old_one(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "tls")
    authority.found(NOW, days=100)
    authority.issue(CertificateFor("broker", ("127.0.0.1",)), NOW, days=397)
    assert read_certificate(authority.file("broker")).until == NOW + timedelta(days=100)  # not longer than who signed
    old = tmp_path / "old.crt"
    old.write_bytes(authority.certificate.read_bytes())
    later = NOW + timedelta(days=90)
    authority.renew_own(later, days=3650)
    authority.renew("broker", later, days=397)
    at = str(int((NOW + timedelta(days=95)).timestamp()))
    for trusted in (old, authority.certificate):
        openssl("verify", "-x509_strict", "-attime", at, "-CAfile", str(trusted), str(authority.file("broker")))
    with pytest.raises(ConfigError, match="past its time"):
        authority.issue(CertificateFor("late"), NOW + timedelta(days=5000), days=1)
    with pytest.raises(ConfigError, match="has an authority already"):
        authority.found(NOW, days=1)


@pytest.fixture
def cluster(tls: Tls, tmp_path: Path) -> Iterator[tuple[ours.NameServer, ours.Broker]]:
    """Name server and broker as processes, each with a file of its own: nobody without a certificate gets in."""
    tls("init")

    def settings(name: str) -> dict[str, str]:
        file, ca = str(tmp_path / "tls" / f"{name}.pem"), str(tmp_path / "tls" / "ca.crt")
        sides = {f"tls.{side}.{what}": file for side in ("server", "client") for what in ("certPath", "keyPath")}
        trust = {"tls.server.trustCertPath": ca, "tls.client.trustCertPath": ca, "tls.client.authServer": "true"}
        how = {"tls.server.mode": "enforcing", "tls.server.need.client.auth": "require", "tls.enable": "true"}
        return {**sides, **trust, **how}

    with ExitStack() as stack:
        names = ours.NameServer(tmp_path / "names", settings("namesrv"))
        stack.callback(names.kill)
        broker = ours.Broker(tmp_path / "broker", [names.address], settings("broker"))
        stack.callback(lambda: broker.kill())
        yield names, broker


def test_a_cluster_with_certificates_of_both_sides_is_renewed_while_it_runs(
    tls: Tls, cluster: tuple[ours.NameServer, ours.Broker], tmp_path: Path
) -> None:
    names, broker = cluster
    own = tmp_path / "tls" / "client.pem"
    how = pyromq.ClientTls(ca=tmp_path / "tls" / "ca.crt", certificate=own, key=own)

    def send(how: pyromq.ClientTls | None = how) -> None:
        with pyromq.sync.connect(names.address, tls=how) as client, client.producer() as producer:
            assert producer.send("Mixed", b"x").queue.broker_name == "broker-p"

    send()
    for stranger in (None, pyromq.ClientTls(ca=how.ca)):
        with pytest.raises(pyromq.Error, match=r"ended|closed"):
            send(stranger)
    before = shown_by(broker.address)
    tls("renew", "--all", "--days", "20")
    assert shown_by(broker.address) != before
    assert shown_by(broker.address) in (tmp_path / "tls" / "broker.pem").read_text()
    send()
    assert json.loads(tls("show", broker.address, "--json", code=1).stdout)["state"] == "ends soon"
    options = ["--tls-ca", str(how.ca), "--tls-cert", str(own), "--tls-key", str(own)]
    found = CliRunner().invoke(cli, ["doctor", "-n", names.address, "--json", *options])
    states = [one["state"] for line in found.stdout.splitlines() if (one := json.loads(line))["check"] == "certificate"]
    assert states == ["warning", "warning"]


def shown_by(address: str) -> str:
    return ssl.get_server_certificate(parse_address(address), timeout=30)
