"""The Java broker's stores as fixtures, with the configuration that they were written with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pyromq.store.config import StoreConfig
from tests.store.golden_store import manifest, unpack

GOLDEN_CONFIG = StoreConfig(
    commit_log_file_bytes=1 << 20,
    queue_file_bytes=20_000,
    batch_queue_file_bytes=46_000,
    index_slots=1000,
    index_entries=4000,
    whole_record_crc=False,
)


@dataclass(frozen=True)
class GoldenStore:
    """One of Java's store folders, a fresh copy, and what is in it."""

    root: Path
    manifest: dict[str, Any]
    config: StoreConfig = GOLDEN_CONFIG


@pytest.fixture
def golden_store(tmp_path: Path) -> Callable[[str], GoldenStore]:
    """`golden_store("clean")` or `("crashed")`: a copy to open and change."""
    return lambda name: GoldenStore(unpack(name, tmp_path / name), manifest(name))
