"""Changes over the wire: all or nothing, kept in the overlay, back after a restart."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyromq.config import Live, Loaded, load
from pyromq.errors import ConfigError
from tests.config.bakery import BAKERY_KEYS, BakeryConfig


def start(file: Path, overlay: Path) -> Live[BakeryConfig]:
    loaded = load(BakeryConfig, BAKERY_KEYS, daemon="bakery", file=file, overlay=lambda config: overlay)
    return Live(loaded, BAKERY_KEYS, overlay)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "bakery.conf"
    path.write_text("scanNotActiveBrokerInterval=10\nserverWorkerThreads=9\n")
    return path


def test_a_change_takes_effect_and_survives_a_restart(file: Path, tmp_path: Path) -> None:
    overlay = tmp_path / "state" / "overlay.properties"
    live = start(file, overlay)
    before = file.read_bytes()
    assert live.change("scanNotActiveBrokerInterval=20\n") == {"scanNotActiveBrokerInterval": "20"}
    assert live.config.scan_interval_ms == 20
    live.change("allowUnauthenticated=true")
    restarted = start(file, overlay)
    assert (restarted.config.scan_interval_ms, restarted.config.allow_unauthenticated) == (20, True)
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("scanNotActiveBrokerInterval=0", "must be at least 1"),
        ("scanNotActiveBrokerInterval=99999999999999999999", "must be from 1 to 2147483647"),
        ("scanNotActiveBrokerIntervl=5", "did you mean 'scanNotActiveBrokerInterval'"),
        ("listenPort=5", "listenPort cannot be changed while running: set it in the configuration file and start"),
        ("serverWorkerThreads=5", "serverWorkerThreads cannot be changed while running"),
        ("scanNotActiveBrokerInterval=7\nlistenPort=5", "listenPort cannot be changed"),
    ],
)
def test_a_change_that_is_refused_changes_nothing(file: Path, tmp_path: Path, text: str, why: str) -> None:
    overlay = tmp_path / "overlay.properties"
    live = start(file, overlay)
    with pytest.raises(ConfigError, match=why):
        live.change(text)
    assert live.config.scan_interval_ms == 10
    assert not overlay.exists()


def test_a_change_that_contradicts_other_settings_is_not_kept(tmp_path: Path) -> None:
    overlay = tmp_path / "overlay.properties"
    open_to_all = BakeryConfig(bind_address="0.0.0.0", allow_unauthenticated=True)
    live = Live(Loaded(open_to_all), BAKERY_KEYS, overlay)
    with pytest.raises(ConfigError, match="needs allowUnauthenticated"):
        live.change("allowUnauthenticated=false")
    assert live.config == open_to_all
    assert not overlay.exists()


def test_a_change_that_cannot_be_kept_does_not_take_effect(file: Path, tmp_path: Path) -> None:
    live = start(file, tmp_path / "bakery.conf" / "a file is no folder")
    with pytest.raises(OSError, match="bakery"):
        live.change("scanNotActiveBrokerInterval=20")
    assert live.config.scan_interval_ms == 10


def test_everything_is_shown_under_java_keys(file: Path, tmp_path: Path) -> None:
    shown = start(file, tmp_path / "none").shown()
    assert shown == {
        "serverWorkerThreads": "9",
        "serverSelectorThreads": "3",
        "enableControllerInNamesrv": "false",
        "controllerPeers": "",
        "listenPort": "9876",
        "scanNotActiveBrokerInterval": "10",
        "loadRatio": "0.5",
        "flushDiskType": "ASYNC_FLUSH",
        "storePathRootDir": "/var/bakery",
        "bindAddress": "",
        "configBlackList": "a;b",
        "allowUnauthenticated": "false",
    }


def test_watchers_see_each_change_and_none_that_was_refused(file: Path, tmp_path: Path) -> None:
    live = start(file, tmp_path / "overlay.properties")
    seen: list[int] = []
    live.watch(lambda config: seen.append(config.scan_interval_ms))
    live.change("scanNotActiveBrokerInterval=20")
    with pytest.raises(ConfigError):
        live.change("scanNotActiveBrokerInterval=0")
    assert seen == [20]
