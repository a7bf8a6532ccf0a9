"""What commands on a store's files share: its disk and sizes, and half of a copy that is removed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from ..store.config import StoreConfig
from ..store.files.real_disk import RealDisk
from ..store.recovery.sizes import inferred_config


@contextmanager
def removed_unless_done(target: Path, is_new: bool) -> Iterator[None]:
    """Remove half a backup: its folder would be in the way of the next try."""
    was_empty = is_new or not any(target.iterdir())
    try:
        yield
    except BaseException:
        if was_empty:
            for inside in target.iterdir():
                shutil.rmtree(inside) if inside.is_dir() else inside.unlink()
            if is_new:
                target.rmdir()
        raise


def opened(path: Path, config_file: Path | None) -> tuple[RealDisk, StoreConfig]:
    if not (path / "commitlog").is_dir():
        raise ConfigError(f"{path} is not a store: it has no folder commitlog. Name the broker's storePathRootDir")
    disk = RealDisk(path)
    given = {} if config_file is None else _settings_of(config_file)
    # What the file does not say is read off the files; what it says counts.
    return disk, replace(inferred_config(disk, replace(StoreConfig(), **given), given), **given)


def _settings_of(config_file: Path) -> dict[str, Any]:
    """Return the store's settings out of a broker's file. An unknown key is an error, as it is for the broker.

    What else the broker would refuse does not matter here.
    """
    from ..broker.config import BrokerConfig
    from ..broker.java_keys import BROKER_KEYS
    from ..config import examine_file, settings_of

    ours = settings_of(StoreConfig)
    names = {name for one in ours.values() for name in (one.name, one.java)}
    found = examine_file(config_file, BrokerConfig, BROKER_KEYS)
    for one in found:
        if one.error and (one.effect == "unknown" or one.key in names):
            raise ConfigError(str(one))
    return {one.setting.name: one.parsed for one in found if one.setting is not None and one.setting.name in ours}
