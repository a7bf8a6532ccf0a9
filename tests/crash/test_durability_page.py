"""docs/durability.md and the regression catalogue speak of tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pyromq.broker.config import BrokerConfig
from pyromq.broker.java_keys import BROKER_KEYS
from pyromq.config import load
from pyromq.store.config import FlushMode
from pyromq.store.message_store import MessageStore
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.crash.lives import small_config

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "durability.md").read_text("utf-8")
NAMED = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", PAGE)

# Issues of apache/rocketmq that concern a store (alibaba 331 is of the older repository).
CATALOGUE = (
    *("7437", "9121", "10017", "10018", "10666", "10816", "467", "501", "1434", "405", "678", "7355", "7599"),
    *("2706", "3129", "3349", "5235", "9713", "8239", "8240", "2830", "alibaba_331", "3401", "6096", "7948"),
)


@pytest.mark.parametrize(("path", "name"), NAMED)
def test_a_named_test_exists(path: str, name: str) -> None:
    assert re.search(rf"^(async )?def {name}\(", (ROOT / path).read_text("utf-8"), re.MULTILINE)


def test_every_cell_is_proven_and_every_proof_is_used() -> None:
    letters = re.findall(r"^- ([A-Z]+): ", PAGE, re.MULTILINE)
    assert len(letters) == len(NAMED) == len(set(letters))
    assert set(re.findall(r"\[([A-Z]+)\]", PAGE)) == set(letters)
    lines = PAGE.split("## Tables")[0].splitlines()
    rows = [line for line in lines if line.startswith("| ") and not line.startswith("| fault |")]
    for row in rows:
        cells = [cell.strip() for cell in row.strip("|").split("|")][1:]
        assert all(re.search(r"\[[A-Z]+\]", cell) or cell == "the same" for cell in cells), row


@pytest.mark.parametrize("issue", CATALOGUE)
def test_each_issue_of_the_catalogue_has_a_test_named_after_it(issue: str) -> None:
    pattern = re.compile(rf"def test_\w*_{issue}(_\w+)?\(")
    assert any(pattern.search(path.read_text("utf-8")) for path in (ROOT / "tests").rglob("test_*.py"))


@pytest.mark.parametrize("mode", list(FlushMode))
def test_the_transient_pool_changes_nothing(mode: FlushMode, tmp_path: Path) -> None:
    """Every put is in the page cache when it returns; the settings are the same with the key in the file or without."""
    from pyromq.protocol.record import Record

    files = [tmp_path / "without.conf", tmp_path / "with.conf"]
    for file, more in zip(files, ("", "transientStorePoolEnable=true\n"), strict=True):
        file.write_text(f"flushDiskType={mode.value}\n{more}")
    without, pooled = (load(BrokerConfig, BROKER_KEYS, daemon="broker", file=file) for file in files)
    assert pooled.config == without.config
    (notice,) = pooled.notices
    assert "transientStorePoolEnable has no effect: " in notice
    disk, clock = SimulatedDisk(), ManualClock()
    store = MessageStore(disk, small_config(mode), clock)
    store.put([Record(topic="orders", queue_id=0, body=b"x")])
    after = MessageStore(disk.kill(), small_config(mode), clock)
    assert after.commit_log.end == store.commit_log.end > 0
