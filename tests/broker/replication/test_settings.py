"""Roles and their keys: what fits together, and what a wrong combination is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyromq.broker.config import BrokerConfig
from pyromq.broker.java_keys import BROKER_KEYS
from pyromq.broker.replication.settings import BrokerRole, ReplicationSettings
from pyromq.config import load
from pyromq.errors import ConfigError


def loaded(tmp_path: Path, text: str) -> BrokerConfig:
    file = tmp_path / "broker.conf"
    file.write_text(text)
    return load(BrokerConfig, BROKER_KEYS, daemon="broker", file=file).config


def test_without_role_keys_a_broker_is_a_lone_master() -> None:
    settings = BrokerConfig().part(ReplicationSettings)
    assert (settings.broker_role, settings.broker_id, settings.is_slave) == (BrokerRole.ASYNC_MASTER, 0, False)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("brokerRole=SLAVE", "brokerRole = SLAVE: a slave has a number of its own; set brokerId=1"),
        (
            "brokerRole=ASYNC_MASTER\nbrokerId=1",
            "brokerId = 1: a master has the number 0; set brokerId=0, or brokerRole",
        ),
        ("brokerRole=MASTER", "must be one of ASYNC_MASTER, SYNC_MASTER, SLAVE"),
        ("haMasterAddress=10.0.0.1", "haMasterAddress = 10.0.0.1: .* write host:port"),
        ("haAllow=10.0.0.7;ten", "haAllow = ten: no address and no network; write 10.0.0.7 or 10.0.0.0/24"),
        ("inSyncReplicas=2\nminInSyncReplicas=3", "minInSyncReplicas = 3: more than inSyncReplicas, which is 2"),
        ("minInSyncReplicas=3", "minInSyncReplicas = 3: more than inSyncReplicas, which is 2"),
        ("totalReplicas=2\ninSyncReplicas=3", "inSyncReplicas = 3: more than totalReplicas, which is 2"),
        ("totalReplicas=1\nminInSyncReplicas=2", "minInSyncReplicas = 2: more than totalReplicas, which is 1"),
        ("haTransferBatchSize=4194304", "must be from 1 to 4194292"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_to_do(tmp_path: Path, lines: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        loaded(tmp_path, lines)


def test_a_sync_master_waits_for_one_slave_unless_told_otherwise(tmp_path: Path) -> None:
    """Java's inSyncReplicas is 1, which waits for nobody."""
    assert loaded(tmp_path, "brokerRole=SYNC_MASTER").part(ReplicationSettings).needed_copies == 2
    told = loaded(tmp_path, "brokerRole=SYNC_MASTER\ninSyncReplicas=1").part(ReplicationSettings)
    assert told.needed_copies == 1
    usual = loaded(tmp_path, "brokerRole=SYNC_MASTER\ntotalReplicas=3\ninSyncReplicas=2\nminInSyncReplicas=1")
    assert usual.part(ReplicationSettings).needed_copies == 2


def test_lists_of_addresses_and_networks_are_taken(tmp_path: Path) -> None:
    config = loaded(tmp_path, "haAllow=10.0.0.7;10.1.0.0/16;fd00::/8\nhaMasterAddress=[::1]:10912")
    assert config.part(ReplicationSettings).ha_allow == ("10.0.0.7", "10.1.0.0/16", "fd00::/8")
