"""Commands at servers that enforce TLS: options, environment and profiles, and the words for who comes without."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import pyromq
from pyromq.cli.main import cli
from pyromq.cli.terminal.options import cluster_options
from pyromq.cli.terminal.profiles import chosen_reach
from pyromq.client.connect.tls_choice import TlsChoice, from_environment
from pyromq.mqadmin.main import run as mqadmin
from pyromq.transport.connection import security
from pyromq.transport.tls import TlsMode, Verify
from tests.cli.standing import Standing, standing
from tests.cli.test_tree import LEAVES
from tests.transport.certificates import Authority, Pair


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"), "ca")


@pytest.fixture(scope="module")
def pair(authority: Authority) -> Pair:
    return authority.issue("server")


@pytest.fixture(scope="module")
def secret(tmp_path_factory: pytest.TempPathFactory, authority: Authority, pair: Pair) -> Iterator[Standing]:
    """A name server and a broker that take TLS alone."""
    settings = {
        "tls_server_mode": TlsMode.ENFORCING,
        "tls_server_cert_path": pair.certificate,
        "tls_server_key_path": pair.key,
        "tls_enable": True,
        "tls_client_auth_server": True,
        "tls_client_trust_cert_path": authority.file,
    }
    with standing(tmp_path_factory.mktemp("secret"), trace_topic_enable=True, **settings) as stands:
        ca = ("--tls-ca", str(authority.file))
        stands.shown("topic", "create", "orders", *ca)
        stands.shown("topic", "create", "load", *ca)
        stands.shown("pub", "orders", "hello", "--key", "order-1", *ca)
        stands.shown("group", "create", "billing", *ca)
        yield stands


@pytest.fixture(autouse=True)
def nothing_around(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith(("PYROMQ_TLS", "PYROMQ_NAMESRV", "PYROMQ_PROFILE", "NAMESRV_ADDR")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PYROMQ_CONFIG", str(tmp_path / "profiles.toml"))


def pyromq_command(*words: str) -> Result:
    return CliRunner().invoke(cli, words)


# --- the ways to say it -----------------------------------------------------------------------------------------------


WITH_TLS = [
    ("sub orders --from first --count 1", "hello"),
    ("topic list", "orders"),
    ("topic stats orders", "orders"),
    ("msg query orders --key order-1", "order-1"),
    ("msg export orders", "hello"),
    ("group list", "billing"),
    ("dlq list", ""),
    ("cluster list", "DefaultCluster"),
    ("broker stats", "broker-a"),
    ("kv set places key value --yes", "value"),
    ("export", "orders"),
    ("top --once", "orders"),
    ("inspect -b broker-a", "ready"),
    ("inspect -b BROKER --json", '"kernel"'),
    ("doctor", "broker-a answers at"),
    ("bench producer -t load -w 2 -s 16 -q 10", "Send Total: 10"),
]


@pytest.mark.parametrize(("words", "said"), WITH_TLS, ids=[words for words, _ in WITH_TLS])
def test_every_kind_of_command_talks_by_tls(secret: Standing, authority: Authority, words: str, said: str) -> None:
    words = words.replace("BROKER", secret.world.brokers["broker-a"].address)
    done = secret.run(*words.split(), "--tls-ca", str(authority.file))
    assert done.exit_code == 0, (done.output, done.exception)
    assert said in done.stdout


def test_every_command_with_a_name_server_has_the_options() -> None:
    @cluster_options
    def plain() -> None: ...

    wanted = {one.opts[0] for one in plain.__click_params__ if one.opts[0].startswith("--tls")}  # type: ignore[attr-defined]
    assert wanted == {"--tls", "--tls-ca", "--tls-cert", "--tls-key", "--tls-verify"}
    # options of the source; or settings (of `cdc` with TLS of the environment)
    without = {"pipeline", "spark", "broker", "namesrv", "proxy", "up", "dev", "cdc"}
    for path, command in LEAVES.items():
        spellings = {spelling for one in command.params for spelling in one.opts}
        if "--namesrv" in spellings and (path[0] not in without or path[0:2] == ("broker", "config")):
            assert wanted <= spellings, path


def test_options_stand_before_the_command_too(secret: Standing, authority: Authority) -> None:
    ca = str(authority.file)
    assert secret.run("--tls-ca", ca, "topic", "list").exit_code == 0
    assert secret.run("--tls-ca", ca, "topic", "--tls", "list").exit_code == 0
    assert secret.run("--tls", "--tls-verify", "none", "topic", "list").exit_code == 0
    assert secret.run("--tls-ca", ca, "--no-tls", "topic", "list").exit_code == 64
    assert "--no-tls leaves no use for --tls-ca" in secret.run("topic", "list", "--no-tls", "--tls-ca", ca).stderr


def test_environment(secret: Standing, authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYROMQ_TLS_CA", str(authority.file))
    assert secret.run("cluster", "list").exit_code == 0
    assert secret.run("cluster", "list", "--no-tls").exit_code == 2
    monkeypatch.setenv("PYROMQ_TLS", "false")
    assert secret.run("cluster", "list").exit_code == 2
    assert secret.run("cluster", "list", "--tls").exit_code == 0
    monkeypatch.setenv("PYROMQ_TLS", "perhaps")
    assert "PYROMQ_TLS = 'perhaps': true or false is needed" in secret.refused("cluster", "list", code=78)


def test_profile(secret: Standing, authority: Authority) -> None:
    made = pyromq_command("profile", "set", "secret", secret.names, "--tls-ca", os.path.relpath(authority.file))
    assert f"tls true, tlsCa {authority.file}" in made.stdout
    assert pyromq_command("--profile", "secret", "cluster", "list").exit_code == 0
    assert pyromq_command("--profile", "secret", "cluster", "list", "--no-tls").exit_code == 2
    pyromq_command("profile", "use", "secret")
    assert pyromq_command("doctor").exit_code == 0
    assert json.loads(pyromq_command("profile", "list", "--json").stdout)["tlsCa"] == str(authority.file)
    # its TLS is for its own name servers
    assert secret.run("cluster", "list").exit_code == 2


def test_a_named_profile_stands_before_the_environment_and_the_default_one_behind_it(tmp_path: Path) -> None:
    file = tmp_path / "profiles.toml"
    file.write_text('default = "far"\n[profiles.far]\nnamesrv = "far:1"\ntls = true\ntlsVerify = "ca"\n')
    around = {"PYROMQ_CONFIG": str(file), "PYROMQ_TLS_VERIFY": "none"}
    named = chosen_reach(None, "far", TlsChoice(), around)
    assert (named.namesrv, named.tls.verify) == ("far:1", Verify.CA)
    default = chosen_reach(None, None, TlsChoice(), around)
    assert (default.namesrv, default.tls.verify, default.tls.enabled) == ("far:1", Verify.NONE, True)
    assert chosen_reach("near:1", None, TlsChoice(), {"PYROMQ_CONFIG": str(file)}).tls.settings() is None


def test_columns_are_exported_by_tls(secret: Standing, authority: Authority, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    ca = ("--tls-ca", str(authority.file))
    secret.shown("topic", "create", "columns", *ca)
    secret.shown("pub", "columns", "one", *ca)
    secret.shown("msg", "export", "columns", str(tmp_path / "columns.parquet"), *ca)
    assert parquet.read_table(tmp_path / "columns.parquet").num_rows == 1


def test_the_sdk_and_mqadmin_read_the_same_variables(
    secret: Standing, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    out: list[str] = []
    assert mqadmin(["clusterList", "-n", secret.names], out.append, out.append) == 2
    assert security.SILENT in "".join(out)
    monkeypatch.setenv("PYROMQ_TLS", "true")
    monkeypatch.setenv("PYROMQ_TLS_CA", str(authority.file))
    assert mqadmin(["clusterList", "-n", secret.names], out.append, out.append) == 0
    assert "broker-a" in "".join(out)
    assert pyromq.connect(secret.names).session.config.tls == pyromq.ClientTls(ca=authority.file)
    assert pyromq.connect(secret.names, tls=None).session.config.tls is None


def test_a_service_gets_it_by_the_environment(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYROMQ_TLS", "PYROMQ_TLS_CA", "PYROMQ_NAMESRV"):  # so that they are as before afterwards
        monkeypatch.setenv(name, "")
    done = pyromq_command("run", "no_such_module:app", "-n", "127.0.0.1:1", "--tls-ca", str(authority.file))
    assert "no_such_module" in done.stderr
    assert pyromq.connect().session.config.tls == pyromq.ClientTls(ca=authority.file)
    whole = TlsChoice(
        enabled=True, ca=Path("a"), certificate=Path("b"), key=Path("c"), key_password="d", verify=Verify.CA
    )
    assert from_environment(whole.to_environment()) == whole


# --- words for who comes otherwise ------------------------------------------------------------------------------------


def test_plain_commands_are_told_that_tls_may_be_enforced(secret: Standing) -> None:
    for words in (["topic", "list"], ["inspect", "-b", secret.world.brokers["broker-a"].address]):
        done = pyromq_command(*words) if words[0] == "inspect" else secret.run(*words)
        assert done.exit_code == 2
        assert security.SILENT in done.stderr
        assert "Is one running" not in done.stderr
        assert "brokerIP1" not in done.stderr


def test_doctor_advises_tls(secret: Standing) -> None:
    found = [json.loads(line) for line in secret.run("doctor", "--json").stdout.splitlines()]
    assert [one["cure"] for one in found] == [security.SILENT, "See above"]


def test_certificate_faults_say_so(secret: Standing, authority: Authority) -> None:
    untrusted = secret.refused("topic", "list", "--tls", code=2)
    assert "certificate verify failed" in untrusted
    assert untrusted.count("\n") == 1
    assert security.UNTRUSTED in untrusted
    port = secret.names.rpartition(":")[2]
    ca = ["--tls-ca", str(authority.file)]
    other = pyromq_command("-n", f"localhost:{port}", "topic", "list", *ca)
    assert other.exit_code == 2
    assert security.OTHER_NAME in other.stderr
    assert pyromq_command("-n", f"localhost:{port}", "topic", "list", *ca, "--tls-verify", "ca").exit_code == 0
    assert "TLS files cannot be used" in secret.refused("topic", "list", "--tls-ca", "/none.pem", code=78)
