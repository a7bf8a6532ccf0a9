"""`pyromq config`: each key of a file, its effect, an exit code for scripts; and the list of settings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pyromq.broker.config import BrokerConfig
from pyromq.broker.java_keys import BROKER_KEYS
from pyromq.cli.main import cli
from pyromq.config import Live, load, settings_of
from pyromq.namesrv.config import NamesrvConfig
from tests.transport.certificates import Authority

BROKER_CONF = """\
brokerClusterName = DefaultCluster
duplicationEnable=true
sendMessageThreadPoolNums=16
flushDiskTyp=SYNC_FLUSH
storeType=default
"""


def check(path: Path, *options: str) -> Result:
    return CliRunner().invoke(cli, ["config", "check", str(path), *options], env={"COLUMNS": "200"})


def in_one_line(result: Result) -> str:
    """What was printed, wherever the terminal's width broke it."""
    return " ".join(result.output.split())


def test_each_key_of_a_broker_file_is_told_with_its_effect(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text(BROKER_CONF)
    result = check(file, "--daemon", "broker", "--json")
    assert result.exit_code == 1
    told = {entry["key"]: entry for entry in map(json.loads, result.output.splitlines())}
    assert told["brokerClusterName"]["error"] is None
    assert told["duplicationEnable"]["error"].startswith("duplicationEnable = true is refused: elected sets go by etcd")
    assert told["sendMessageThreadPoolNums"]["effect"].startswith("has no effect: ")
    assert told["flushDiskTyp"]["error"] == "unknown key 'flushDiskTyp': did you mean 'flushDiskType'?"
    assert told["flushDiskTyp"]["where"] == f"{file} line 4"
    assert told["storeType"]["error"] is None


@pytest.mark.parametrize("daemon", ["broker", "namesrv", "proxy"])
def test_tls_files_are_loaded_as_by_the_start(tmp_path: Path, daemon: str) -> None:
    authority = Authority(tmp_path, "ca")
    one, other = authority.issue("one"), authority.issue("other")
    file, missing = tmp_path / f"{daemon}.conf", tmp_path / "missing.key"
    for key, said in (
        (missing, "TLS files cannot be used"),
        (other.key, "belong together"),
        (None, "needs both files"),
    ):
        file.write_text(f"tls.server.certPath={one.certificate}\n" + (f"tls.server.keyPath={key}\n" if key else ""))
        result = check(file, "--daemon", daemon)
        assert (result.exit_code, said in result.output) == (1, True), result.output
    file.write_text(f"tls.enable=true\ntls.client.trustCertPath={missing}\n")
    assert check(file, "--daemon", daemon).exit_code == 1
    for text in (
        f"tls.server.certPath={one.certificate}\ntls.server.keyPath={one.key}\n",
        "tls.server.mode=enforcing\n",
    ):
        file.write_text(text)
        assert check(file, "--daemon", daemon).exit_code == 0


NO_EFFECT = """\
transientStorePoolEnable=true
useReentrantLockWhenPutMessage=true
transferMsgByHeap=false
warmMapedFileEnable=true
maxTopicLength=100
putMessageTimeout=8000
sendMessageThreadPoolNums=16
"""
EFFECT = "brokerFastFailureEnable=false\nwaitTimeMillsInSendQueue=900\n"
AS_IT_IS = "enableLmq=false\nduplicationEnable=false\n"


def test_a_start_says_the_same_of_each_key(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text(NO_EFFECT + EFFECT + AS_IT_IS)
    result = check(file, "--json")
    assert result.exit_code == 0
    told = {entry["key"]: entry for entry in map(json.loads, result.output.splitlines())}
    loaded = load(BrokerConfig, BROKER_KEYS, daemon="broker", file=file)
    without = [line.partition("=")[0] for line in NO_EFFECT.splitlines()]
    assert loaded.notices == [f"{told[key]['where']}: {key} {told[key]['effect']}" for key in without]
    assert all(told[key]["effect"].startswith("has no effect") for key in without)
    assert told["brokerFastFailureEnable"]["effect"] == "sets broker_fast_failure_enable"
    assert not loaded.config.broker_fast_failure_enable
    for key in ("enableLmq", "duplicationEnable"):
        assert told[key]["effect"] == "changes nothing: it runs so in any case, and any other value is refused"


def test_no_setting_is_without_effect() -> None:
    for config_class in (BrokerConfig, NamesrvConfig):
        assert [one.name for one in settings_of(config_class).values() if "no effect" in one.help] == []


def test_the_table_shows_the_same(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text(BROKER_CONF)
    result = check(file, "--daemon", "broker")
    assert result.exit_code == 1
    assert "did you mean 'flushDiskType'?" in result.output
    assert result.output.endswith("5 keys, 2 errors\n")


def test_a_good_file_ends_with_0(tmp_path: Path) -> None:
    file = tmp_path / "namesrv.conf"
    file.write_text("listenPort=19876\nserverWorkerThreads=8\n")
    result = check(file, "--daemon", "namesrv", "--json")
    assert result.exit_code == 0
    assert [json.loads(line)["effect"].split()[0] for line in result.output.splitlines()] == ["sets", "has"]


def test_a_password_is_shown_by_nobody(tmp_path: Path) -> None:
    """Neither where it counts, nor where it is misspelt, refused, replaced by another, or of a capability to come."""
    file = tmp_path / "broker.conf"
    file.write_text(
        "tls.server.keyPassword=open-sesame\ntls.server.keyPasword=open-sesame\nbrokerName=a\n"
        'initAuthenticationUser={"username":"root","password":"open-sesame"}\n'
        'innerClientAuthenticationCredentials={"secretKey":"open-sesame"}\n'
    )
    for options in ((), ("--json",)):
        result = check(file, *options)
        assert "open-sesame" not in result.output
        assert "********" in result.output
        assert "brokerName" in result.output
    (tmp_path / "good.conf").write_text("tls.server.keyPassword=open-sesame\n")
    given = {"PYROMQ_BROKER_TLS_SERVER_KEY_PASSWORD": "open-barley"}
    loaded = load(BrokerConfig, BROKER_KEYS, daemon="broker", file=tmp_path / "good.conf", environment=given)
    (notice,) = loaded.notices
    assert notice.endswith("KEY_PASSWORD = ******** replaces ******** of " + str(tmp_path / "good.conf") + " line 1")
    assert "open-barley" in [one.parsed for one in loaded.findings]
    assert "open-barley" not in Live(loaded, BROKER_KEYS).shown().values()  # what getBrokerConfig answers


def test_settings_that_contradict_each_other_are_told_too(tmp_path: Path) -> None:
    file = tmp_path / "namesrv.conf"
    file.write_text("bindAddress=0.0.0.0\n")
    result = check(file, "--daemon", "namesrv")
    assert result.exit_code == 1
    assert "bindAddress = 0.0.0.0: other machines might reach it" in result.output
    assert result.output.endswith("1 keys, 1 errors\n")


WRONG_AS_A_WHOLE = ("deleteWhen=99", "messageDelayLevel=1s 5x", "brokerIP1=999.1.1.1", "namesrvAddr=localhost")


def test_the_row_of_a_key_has_its_error_and_all_are_named(tmp_path: Path) -> None:
    """Errors that only the settings as a whole show, beside one of a key alone."""
    file = tmp_path / "broker.conf"
    file.write_text("\n".join(("flushDiskTyp=SYNC_FLUSH", "brokerName=a", *WRONG_AS_A_WHOLE)))
    result = check(file, "--json")
    assert result.exit_code == 1
    told = {entry["key"]: entry["error"] for entry in map(json.loads, result.output.splitlines())}
    wrong = [line.partition("=")[0] for line in WRONG_AS_A_WHOLE]
    assert [key for key, error in told.items() if error] == ["flushDiskTyp", *wrong]
    assert all(told[key].startswith(key) for key in wrong)
    assert check(file).output.endswith("6 keys, 5 errors\n")


def test_an_error_that_comes_from_another_is_not_named(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text("bindAddress=0.0.0.0\nbrokerIP1=192.0.2.7\n")
    told = {entry["key"]: entry["error"] for entry in map(json.loads, check(file, "--json").output.splitlines())}
    assert told["bindAddress"].startswith("bindAddress = 0.0.0.0: other machines")
    assert told["brokerIP1"] is None


def test_flags_of_the_daemon_count_where_they_are_named(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text("bindAddress=0.0.0.0\nbrokerIP1=192.0.2.7\n")
    assert "start it with --insecure, or set" in in_one_line(check(file))
    assert check(file, "--insecure").exit_code == 0
    file.write_text("bindAddress=0.0.0.0\n")
    assert "start it with --insecure, or set" in in_one_line(check(file, "--daemon", "namesrv"))
    assert check(file, "--daemon", "namesrv", "--insecure").exit_code == 0
    assert "set brokerIP1" in check(file, "--insecure").output  # the flag permits, it does not name an address
    file.write_text(f"storePathCommitLog={tmp_path}/store/commitlog\n")
    assert check(file).exit_code == 1
    assert check(file, "--store-path-root-dir", f"{tmp_path}/store").exit_code == 0
    assert check(file, "--store-path-root-dir", "", "--daemon", "namesrv").exit_code == 64


def test_a_key_that_is_given_twice_is_named_as_the_start_does(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text("listenPort=10911\nlistenPort=10921\n")
    result = check(file, "--json")
    assert result.exit_code == 0
    first, second = (json.loads(line)["effect"] for line in result.output.splitlines())
    assert (first, second) == ("sets listen_port", f"sets listen_port, replaces 10911 of {file} line 1")
    (notice,) = load(BrokerConfig, BROKER_KEYS, daemon="broker", file=file).notices
    assert notice.endswith(second.partition(", ")[2])


def test_text_in_brackets_is_printed_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text("brokerName=[red]a[/red]\n")
    assert "[red]a[/red]" in check(file, "--daemon", "broker").output


def test_every_setting_is_listed() -> None:
    result = CliRunner().invoke(cli, ["config", "list", "--daemon", "namesrv", "--json"])
    listed = {entry["setting"]: entry for entry in map(json.loads, result.output.splitlines())}
    assert listed.keys() == settings_of(NamesrvConfig).keys()
    assert listed["listen_port"]["java key"] == "listenPort"
    assert listed["listen_port"]["default"] == "9876"
    table = CliRunner().invoke(cli, ["config", "list", "--daemon", "namesrv"], env={"COLUMNS": "200"})
    assert "listenPort" in table.output


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("rmq-proxy.json", '{"remotingListenPort": 8090, "proxyMode": "LOCAL", "grpcBossLoopNum": 1, "nams": 1}'),
        ("proxy.conf", "remotingListenPort=8090\nproxyMode=LOCAL\ngrpcBossLoopNum=1\nnams=1\n"),
    ],
)
def test_a_proxy_s_file_with_java_s_keys(tmp_path: Path, name: str, text: str) -> None:
    file = tmp_path / name
    file.write_text(text)
    result = check(file, "--daemon", "proxy", "--json")
    assert result.exit_code == 1
    told = {entry["key"]: entry for entry in map(json.loads, result.output.splitlines())}
    assert told["remotingListenPort"]["effect"] == "sets remoting_listen_port"
    assert told["proxyMode"]["error"].startswith("proxyMode = LOCAL is refused: this is the gateway of a cluster")
    assert told["grpcBossLoopNum"]["effect"] == "has no effect: there are no thread pools here"
    assert told["nams"]["error"].startswith("unknown key 'nams'")


def test_a_proxy_s_file_of_our_own(tmp_path: Path) -> None:
    file = tmp_path / "proxy.toml"
    file.write_text('namesrv_addr = ["10.0.0.1:9876"]\nshares_its_port = true\n')
    assert check(file, "--daemon", "proxy").exit_code == 0
    assert (
        "--store-path-root-dir: a proxy has no store"
        in check(file, "--daemon", "proxy", "--store-path-root-dir", "x").output
    )


def test_a_controller_s_file_with_users(tmp_path: Path) -> None:
    file = tmp_path / "controller.conf"
    file.write_text("etcdEndpoints=http://a:2379\nbindAddress=10.0.0.1\n")
    assert "set authenticationEnabled=true" in " ".join(check(file, "--daemon", "controller").output.split())
    secret = 'innerClientAuthenticationCredentials={"accessKey":"inner","secretKey":"hush hush"}'
    file.write_text(f"{file.read_text()}authenticationEnabled=true\nauthenticationWhitelist=1005\n{secret}\n")
    result = check(file, "--daemon", "controller", "--json")
    assert result.exit_code == 0, result.output
    assert "sets authentication_whitelist" in result.output
    assert "hush" not in result.output


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ("brokerRole=SLAVE\nbrokerId=1\netcdEndpoints=http://a:2379", "leave them out"),
        ("brokerRole=SLAVE\nbrokerId=1\nenableControllerMode=true\ncontrollerAddr=a:9878", "leave them out"),
        ("enableControllerMode=true\ncontrollerAddr=a:9878\netcdEndpoints=http://a:2379", "leave one of them out"),
        ("haTls=required\ntls.server.mode=disabled", "there is no certificate for it"),
        ("authenticationEnabled=true\netcdEndpoints=http://a:2379", "users in its log are sealed"),
    ],
)
def test_roles_that_no_replica_can_have_are_refused_as_at_the_start(tmp_path: Path, lines: str, why: str) -> None:
    file = tmp_path / "broker.conf"
    file.write_text(f"brokerName=a\n{lines}\n")
    result = check(file)
    assert result.exit_code == 1
    assert why in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("endpoints", "why"),
    [("127.0.0.1:2379", "write each address of etcd as"), ("http://a:1,http://b:1", "is no address")],
)
def test_addresses_of_etcd_are_checked_with_their_line(tmp_path: Path, endpoints: str, why: str) -> None:
    file = tmp_path / "broker.conf"
    file.write_text(f"brokerName=a\netcdEndpoints={endpoints}\n")
    result = check(file, "--daemon", "broker", "--json")
    assert result.exit_code == 1
    told = {entry["key"]: entry for entry in map(json.loads, result.output.splitlines())}
    assert told["etcdEndpoints"]["error"].startswith(f"etcdEndpoints = {endpoints}: ")
    assert why in told["etcdEndpoints"]["error"]


def test_a_proxy_s_file_with_users(tmp_path: Path) -> None:
    file = tmp_path / "rmq-proxy.json"
    hush = '{"accessKey":"inner","secretKey":"hush hush"}'
    settings: dict[str, object] = {"bindAddress": "0.0.0.0", "authorizationEnabled": True, "userCacheMaxNum": 100}
    settings |= {"innerClientAuthenticationCredentials": hush, "enableAclRpcHookForClusterMode": True}
    file.write_text(json.dumps(settings))
    result = check(file, "--daemon", "proxy", "--json")
    assert result.exit_code == 1
    assert "set authenticationEnabled = true too" in result.output
    provider = "org.apache.rocketmq.proxy.auth.ProxyAuthenticationMetadataProvider"
    file.write_text(json.dumps(settings | {"authenticationEnabled": True, "authenticationMetadataProvider": provider}))
    result = check(file, "--daemon", "proxy", "--json")
    assert result.exit_code == 0, result.output
    told = {entry["key"]: entry["effect"] for entry in map(json.loads, result.output.splitlines())}
    assert told["authenticationEnabled"] == "sets authentication_enabled"
    assert told["authenticationMetadataProvider"].startswith("has no effect: users are those of the cluster's servers")
    assert "hush" not in result.output
