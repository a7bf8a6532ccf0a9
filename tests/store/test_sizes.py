"""File sizes read off a store: also of an index with another proportion of slots to entries than RocketMQ's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pyromq.errors import ConfigError
from pyromq.store.config import StoreConfig
from pyromq.store.recovery.sizes import inferred_config
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.store.small import SMALL, by_key, message, opened

OTHER = replace(SMALL, index_slots=30, index_entries=50)  # 1160 bytes a file


def written(config: StoreConfig, messages: int) -> SimulatedDisk:
    """As Java leaves it after a clean stop: without our marks."""
    disk = SimulatedDisk()
    store = opened(disk, config, ManualClock())
    for number in range(messages):
        store.put([message("x", keys=f"key{number}")])
    store.close()
    for name in disk.list("pyromq"):
        disk.remove(f"pyromq/{name}")
    disk.remove_folder("pyromq")
    return disk


def index_content(disk: SimulatedDisk) -> dict[str, bytes]:
    return {name: bytes(disk.open(f"index/{name}").pread(0, 1 << 20)) for name in disk.list("index")}


def test_the_usual_proportion() -> None:
    usual = replace(SMALL, index_slots=25, index_entries=100)
    found = inferred_config(written(usual, 30))
    assert (found.index_slots, found.index_entries) == (25, 100)


def test_a_full_file_shows_another_proportion() -> None:
    found = inferred_config(written(OTHER, 60))
    assert (found.index_slots, found.index_entries) == (30, 50)


@pytest.mark.parametrize("messages", [0, 1, 20, 60])
def test_with_the_right_keys_it_opens(messages: int) -> None:
    store = opened(written(OTHER, messages), OTHER)
    for number in range(messages):
        assert len(by_key(store, "T", f"key{number}")) == 1


@pytest.mark.parametrize("config", [SMALL, replace(SMALL, index_slots=4, index_entries=16)], ids=["larger", "smaller"])
def test_one_that_cannot_be_told_is_refused_with_its_keys_and_not_touched(config: StoreConfig) -> None:
    disk = written(OTHER, 20)
    before = index_content(disk)
    with pytest.raises(ConfigError, match=r"maxHashSlotNum = .*, maxIndexNum = .* have 1160 bytes"):
        opened(disk, config)
    assert index_content(disk) == before
    for name in disk.list("index"):
        disk.remove(f"index/{name}")
    assert len(by_key(opened(disk, config), "T", "key7")) == 1  # as the refusal says


def test_one_that_can_be_told_is_refused_with_its_own_value() -> None:
    with pytest.raises(ConfigError, match="was written with"):
        opened(written(OTHER, 60), SMALL)
