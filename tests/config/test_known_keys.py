"""Every key that Java shows is known here, and the promises that hang on some of them are kept or refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pyromq.broker.config import BrokerConfig
from pyromq.broker.java_keys import BROKER_KEYS
from pyromq.config import (
    IgnoredKeys,
    JavaKeys,
    PlannedKeys,
    RefusedKeys,
    examine_file,
    examine_properties,
    properties,
    render_all,
    settings_of,
)
from pyromq.gateway.config import GatewayConfig
from pyromq.gateway.java_keys import GATEWAY_KEYS
from pyromq.namesrv.config import NAMESRV_KEYS, NamesrvConfig

RECORDED = Path(__file__).parents[1] / "golden" / "mqadmin"
PROXY = Path(__file__).parents[1] / "golden" / "rmq-proxy.json"  # all of Java's ProxyConfig with its defaults
DAEMONS = [(NamesrvConfig, NAMESRV_KEYS), (BrokerConfig, BROKER_KEYS), (GatewayConfig, GATEWAY_KEYS)]
# The recorded servers ran on small files, another port and with more switched on; these are Java's own defaults.
CHANGED_FOR_THE_RECORDING = {
    "mappedFileSizeCommitLog": str(1 << 30),
    "mappedFileSizeConsumeQueue": str(300_000 * 20),
    "mapperFileSizeBatchConsumeQueue": str(300_000 * 46),
    "maxHashSlotNum": "5000000",
    "maxIndexNum": "20000000",
    "mappedFileSizeTimerLog": str(100 << 20),
    "namesrvAddr": "",
    "listenPort": "10911",
    "haListenPort": "0",  # the one above listenPort
    "traceTopicEnable": "false",
    "enablePropertyFilter": "false",
    "recallMessageEnable": "false",
    "useServerSideResetOffset": "true",
    "transactionCheckInterval": "30000",
    "transactionTimeOut": "6000",
    "diskMaxUsedSpaceRatio": "75",
    "diskSpaceCleanForciblyRatio": "0.85",
    "diskSpaceWarningLevelRatio": "0.9",
}
OTHER_ON_PURPOSE = {
    "bindAddress",  # loopback
    "brokerIP1",  # what the listener serves
    "storePathRootDir",  # of the user who starts it, as Java's, but for the recording
    "storePathCommitLog",  # in that folder
    "kvConfigPath",
    "rocketmqHome",  # where ACL 1.0 has its files; nothing else is there
    "enabledAppendPropCRC",  # a CRC over the whole record
    "maxFilterMessageSize",  # rare tags are found in one pull
    "shutdownWaitTimeSeconds",
    "inSyncReplicas",  # a SYNC_MASTER that waits for nobody keeps no promise
    "minInSyncReplicas",  # not given means 2 in an elected set, and Java's 1 elsewhere
    "totalReplicas",  # not given: nothing is checked against it, where Java takes 1 and refuses inSyncReplicas = 2
    "orderMessageEnable",  # keys of order topics never move
}


def recorded(command: str) -> dict[str, str]:
    text = (RECORDED / f"{command}.txt").read_text("utf-8")
    return dict(re.findall(r"^(\w+) +=  (.*)$", text, re.MULTILINE))


def test_every_key_of_the_java_broker_is_known_and_its_recorded_values_are_accepted() -> None:
    java = recorded("getBrokerConfig")
    assert len(java) == 491
    findings = examine_properties(properties.render(java), "broker.conf", BrokerConfig, BROKER_KEYS)
    assert [str(one) for one in findings if one.error] == []


def test_every_key_of_the_java_name_server_is_known_and_its_recorded_values_are_accepted() -> None:
    java = recorded("getNamesrvConfig")
    assert len(java) == 40
    findings = examine_properties(properties.render(java), "namesrv.conf", NamesrvConfig, NAMESRV_KEYS)
    assert [str(one) for one in findings if one.error] == []


def test_every_key_of_the_java_proxy_is_known_and_its_defaults_are_accepted() -> None:
    findings = examine_file(PROXY, GatewayConfig, GATEWAY_KEYS)
    assert len(findings) == 155
    assert [str(one) for one in findings if one.error] == []
    java = {one.key: one for one in findings if one.setting is not None}
    unlike = {key for key, one in java.items() if one.setting is not None and one.parsed != one.setting.default}
    assert unlike == {"grpcServerPort", "tlsKeyPath", "tlsCertPath"}  # 8081 by listenPort; Java's files of its home


def test_defaults_are_java_s_but_for_those_that_differ_on_purpose() -> None:
    broker, name_server = render_all(BrokerConfig(broker_name="broker-a")), render_all(NamesrvConfig())
    java = recorded("getBrokerConfig") | CHANGED_FOR_THE_RECORDING
    assert {key for key in broker.keys() & java if broker[key] != java[key]} <= OTHER_ON_PURPOSE
    java = recorded("getNamesrvConfig") | {"listenPort": "9876"}
    assert {key for key in name_server.keys() & java if name_server[key] != java[key]} <= OTHER_ON_PURPOSE


@pytest.mark.parametrize(("config_class", "keys"), DAEMONS)
def test_no_setting_also_stands_among_the_keys_without_one(config_class: type, keys: JavaKeys) -> None:
    assert not {key for one in settings_of(config_class).values() for key in (one.java, *one.also)} & {*keys.names()}


@pytest.mark.parametrize(("config_class", "keys"), DAEMONS)
def test_each_setting_has_a_key_of_its_own(config_class: type, keys: JavaKeys) -> None:
    given = [key for one in settings_of(config_class).values() for key in (one.java, *one.also)]
    assert len(set(given)) == len(given)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("enableSlaveActingMaster", "true"),
        ("enableDLegerCommitLog", "true"),
        ("storeType", "defaultRocksDB"),
        ("configManagerVersion", "v2"),
        ("timerRocksDBEnable", "true"),
        ("transRocksDBEnable", "true"),
        ("indexRocksDBEnable", "true"),
        ("readOnlyCommitLogStorePaths", "/other"),
        ("messageStorePlugIn", "org.example.Plug"),
        ("enableLmq", "true"),
        ("enableMultiDispatch", "true"),
        ("isBrokerContainer", "true"),
        ("fetchNamesrvAddrByAddressServer", "true"),
        ("duplicationEnable", "true"),
    ],
)
def test_a_broker_key_whose_promise_cannot_be_kept_is_refused_with_key_value_and_remedy(key: str, value: str) -> None:
    (finding,) = examine_properties(f"{key}={value}", "broker.conf", BrokerConfig, BROKER_KEYS)
    assert finding.error is not None
    assert finding.error.startswith(f"{key} = {value} is refused: ")
    assert f"set {key}=" in finding.error or "remove the line" in finding.error


@pytest.mark.parametrize(("key", "value"), [("enableControllerInNamesrv", "true"), ("clusterTest", "true")])
def test_a_name_server_key_whose_promise_cannot_be_kept_is_refused(key: str, value: str) -> None:
    (finding,) = examine_properties(f"{key}={value}", "namesrv.conf", NamesrvConfig, NAMESRV_KEYS)
    assert finding.error is not None
    assert finding.error.startswith(f"{key} = {value} is refused: ")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("proxyMode", "local"),
        ("migrateAuthFromV1Enabled", "true"),
        ("namesrvDomain", "n.example"),
        ("useDelayLevel", "true"),
    ],
)
def test_a_proxy_key_whose_promise_cannot_be_kept_is_refused(key: str, value: str) -> None:
    (finding,) = examine_properties(f"{key}={value}", "proxy.conf", GatewayConfig, GATEWAY_KEYS)
    assert finding.error is not None
    assert finding.error.startswith(f"{key} = {value} is refused: ")


def test_a_key_stands_in_a_table_once() -> None:
    with pytest.raises(ValueError, match="a stands in the table twice"):
        JavaKeys(IgnoredKeys("why", "a=1"), RefusedKeys("why", "what", "b=2 a=1"))


def test_keys_to_come_are_not_shown_as_settings() -> None:
    assert JavaKeys(PlannedKeys("a room", "x"), IgnoredKeys("why", "y=1")).shown({}) == {"y": "1"}
