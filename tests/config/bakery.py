"""A small daemon's settings, made up for these tests."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from pyromq.config import IgnoredKeys, JavaKeys, RefusedKeys, check_ranges, setting
from pyromq.errors import ConfigError


class Flush(Enum):
    SYNC = "SYNC_FLUSH"
    ASYNC = "ASYNC_FLUSH"


@dataclass(frozen=True, slots=True, kw_only=True)
class BakeryConfig:
    listen_port: int = setting(9876, java="listenPort", low=0, high=65535, flag=True, help="Port; 0 takes a free one.")
    scan_interval_ms: int = setting(5000, java="scanNotActiveBrokerInterval", low=1, live=True, flag=True, help="Rest.")
    load_ratio: float = setting(0.5, low=0, high=1, flag=True, help="Share.")
    flush: Flush = setting(Flush.ASYNC, java="flushDiskType", flag=True, help="When.")
    data_dir: Path = setting(factory=lambda: Path("/var/bakery"), java="storePathRootDir", flag=True, help="Where.")
    bind_address: str | None = setting(None, java="bindAddress", flag=True, help="Which.")
    black_list: tuple[str, ...] = setting(("a", "b"), java="configBlackList", help="Not these.")
    allow_unauthenticated: bool = setting(False, live=True, flag=True, help="Anybody.")

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.bind_address == "0.0.0.0" and not self.allow_unauthenticated:
            raise ConfigError("bindAddress = 0.0.0.0 needs allowUnauthenticated=true")


BAKERY_KEYS = JavaKeys(
    IgnoredKeys("one event loop takes the place of thread pools", "serverWorkerThreads=8 serverSelectorThreads=3"),
    RefusedKeys("there is no controller here", "run one apart", "enableControllerInNamesrv=false controllerPeers="),
)
