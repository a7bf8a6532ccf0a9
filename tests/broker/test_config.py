"""The broker's settings: what Java's keys mean here, and what does not start."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pyromq.broker.config import BrokerConfig
from pyromq.broker.java_keys import BROKER_KEYS
from pyromq.config import load, settings_of
from pyromq.errors import ConfigError
from pyromq.store.config import FlushMode
from pyromq.store.log.retention import RetentionConfig


def loaded(tmp_path: Path, text: str) -> BrokerConfig:
    file = tmp_path / "broker.conf"
    file.write_text(text)
    return load(BrokerConfig, BROKER_KEYS, daemon="broker", file=file).config


def test_a_java_broker_conf_sets_broker_and_store(tmp_path: Path) -> None:
    config = loaded(
        tmp_path,
        "brokerClusterName=C\nbrokerName=broker-b\nnamesrvAddr=10.0.0.1:9876;10.0.0.2:9876\nlistenPort=20911\n"
        "flushDiskType=SYNC_FLUSH\nstorePathRootDir=/data/store\nbrokerRole=ASYNC_MASTER\nbrokerId=0\n",
    )
    assert config.namesrv_addr == ("10.0.0.1:9876", "10.0.0.2:9876")
    assert (config.broker_cluster_name, config.broker_name, config.listen_port) == ("C", "broker-b", 20911)
    assert config.flush_mode is FlushMode.SYNC
    assert config.store_path_root_dir == Path("/data/store")
    assert config.fast_port == 20909


def test_a_log_in_another_folder_is_refused_unless_it_is_linked(tmp_path: Path) -> None:
    """It was without effect: the broker began with an empty log beside the one that was meant."""
    root, other = tmp_path / "store", tmp_path / "disk-2"
    lines = f"storePathRootDir={root}\nstorePathCommitLog="
    assert loaded(tmp_path, f"{lines}{root}/commitlog").store_path_commit_log == root / "commitlog"
    with pytest.raises(ConfigError, match=f"storePathCommitLog = {other}: .* ln -s {other} {root}/commitlog"):
        loaded(tmp_path, f"{lines}{other}")
    root.mkdir()
    (root / "commitlog").symlink_to(other)
    assert loaded(tmp_path, f"{lines}{other}").store_path_commit_log == other


def hint(root: Path, other: Path) -> str:
    with pytest.raises(ConfigError) as raised:
        BrokerConfig(store_path_root_dir=root, store_path_commit_log=other)
    return str(raised.value)


@pytest.mark.parametrize("inside", [None, [], ["00000000000000000000"]])
def test_the_commands_that_move_a_log_do_it(tmp_path: Path, inside: list[str] | None) -> None:
    """The `ln -s` alone would have made a link inside of a folder that is there."""
    root, other = tmp_path / "a store", tmp_path / "disk 2" / "commitlog"
    if inside is not None:
        (root / "commitlog").mkdir(parents=True)
        for name in inside:
            (root / "commitlog" / name).write_text("records")
    subprocess.run(["sh", "-ec", "mkdir -p" + hint(root, other).partition("mkdir -p")[2]], check=True)
    assert BrokerConfig(store_path_root_dir=root, store_path_commit_log=other).store_path_commit_log == other
    assert (root / "commitlog").is_symlink()
    assert [one.name for one in other.iterdir()] == (inside or [])


def test_a_log_in_two_places_or_linked_elsewhere_is_no_command_away(tmp_path: Path) -> None:
    root, other, third = tmp_path / "store", tmp_path / "disk-2", tmp_path / "disk-3"
    for folder in (root / "commitlog", other):
        folder.mkdir(parents=True)
        (folder / "00000000000000000000").write_text("records")
    assert "both have files" in hint(root, other)
    assert "ln -s" not in hint(root, other)
    root = tmp_path / "linked"
    root.mkdir()
    (root / "commitlog").symlink_to(third)
    assert f"is a link to {third} already" in hint(root, other)


def test_no_setting_of_the_broker_also_stands_among_the_keys_that_are_none() -> None:
    assert {one.java for one in settings_of(BrokerConfig).values()}.isdisjoint(BROKER_KEYS.names())


def test_beyond_loopback_needs_a_word_of_consent() -> None:
    with pytest.raises(ConfigError, match=r"bindAddress = 0.0.0.0: .* --insecure"):
        BrokerConfig(bind_address="0.0.0.0")
    assert BrokerConfig(bind_address="0.0.0.0", allow_unauthenticated=True, broker_ip1="10.1.1.1")


def test_an_address_that_the_listener_does_not_serve_is_not_advertised() -> None:
    with pytest.raises(ConfigError, match=r"brokerIP1 = 10.1.1.1: .*listens on 127.0.0.1 alone"):
        BrokerConfig(broker_ip1="10.1.1.1")
    with pytest.raises(ConfigError, match=r"set brokerIP1 .* to one of this machine's"):
        _ = BrokerConfig(bind_address="0.0.0.0", allow_unauthenticated=True).advertised_host
    assert BrokerConfig(bind_address="127.0.0.2").advertised_host == "127.0.0.2"


@pytest.mark.parametrize(
    ("line", "range_"),
    [
        ("fileReservedTime=99999999999999999999", "from 0 to 2147483647"),
        ("deleteCommitLogFilesInterval=2147483648", "from 0 to 2147483647"),
        ("transactionTimeOut=9223372036854775808", "from 0 to 9223372036854775807"),
        ("diskSpaceWarningLevelRatio=nan", "at least 0"),
    ],
)
def test_numbers_that_java_s_type_cannot_hold_are_refused(tmp_path: Path, line: str, range_: str) -> None:
    with pytest.raises(ConfigError, match=f"line 1: {line.replace('=', ' = ')}: must be {range_}$"):
        loaded(tmp_path, line)


def test_what_java_s_long_holds_is_taken(tmp_path: Path) -> None:
    config = loaded(
        tmp_path, "transactionTimeOut=9223372036854775807\nmaxLogBytes=8796093022208\nfileReservedTime=2147483647"
    )
    retention = config.part(RetentionConfig)
    assert (config.transaction_time_out, retention.max_log_bytes) == ((1 << 63) - 1, 8 << 40)
    assert retention.file_reserved_hours == (1 << 31) - 1


def test_names_that_no_topic_could_have_are_refused() -> None:
    with pytest.raises(ConfigError, match="brokerName = a b: a topic has this name, but"):
        BrokerConfig(broker_name="a b")


@pytest.mark.parametrize("address", ["foo", "foo:", "foo:99999", ":9876"])
def test_a_name_server_that_is_no_address_is_refused_at_start(address: str) -> None:
    with pytest.raises(ConfigError, match=f"namesrvAddr = {address}: .* is no address: write host:port"):
        BrokerConfig(namesrv_addr=("127.0.0.1:9876", address))


def test_the_store_s_own_checks_still_run() -> None:
    with pytest.raises(ConfigError, match="multiple of 20"):
        BrokerConfig(queue_file_bytes=30)


def test_a_free_port_has_a_free_fast_port_beside_it() -> None:
    assert BrokerConfig(listen_port=0).fast_port == 0
    assert BrokerConfig(listen_port=0, fast_listen_port=1234).fast_port == 1234
