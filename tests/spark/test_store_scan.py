"""Scans of commit logs without a broker, against the plain walk: whole and damaged stores, cut anywhere."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import pytest

from pyromq.kernel.python import scan as python
from pyromq.kernel.records import Placed, walk_log
from pyromq.protocol.record import Record, encode_record, locate
from pyromq.spark.codec.records import PHYSICAL_OFFSET, Records
from pyromq.spark.store.store_scan import Damage, RangeScan, plan
from pyromq.store.config import StoreConfig
from pyromq.store.files.disk import DiskError
from pyromq.store.files.file_sequence import FileSequence
from pyromq.store.files.open_files import OpenFiles
from pyromq.store.files.read_only import read_only
from pyromq.store.files.real_disk import RealDisk
from pyromq.store.layout import COMMIT_LOG
from pyromq.store.log.log_walk import Gap, LogWalk
from pyromq.store.recovery.sizes import inferred_config
from tests.store.golden_store import apply_variant, manifest, unpack

VARIANTS = ["", *manifest("crashed")["variants"]]


def walked(store: Path) -> tuple[list[int], list[tuple[int, int]]]:
    disk = read_only(RealDisk(store))
    config = inferred_config(disk, StoreConfig(index_enabled=False))
    files = OpenFiles(disk, 4)
    log = FileSequence(disk, files, COMMIT_LOG, config.commit_log_file_bytes)
    log.load()
    steps = list(LogWalk(log, {}))
    files.close()
    return (
        [step.position for step in steps if isinstance(step, Placed)],
        [(step.position, step.end) for step in steps if isinstance(step, Gap)],
    )


def scanned(
    store: Path, *, pieces: int = 1, window: int = 8 << 20, verify: bool = True
) -> tuple[list[int], list[Damage]]:
    positions: list[int] = []
    damage: list[Damage] = []
    for part in plan(str(store), pieces, 1 << 20):
        for found in RangeScan(part, window=window, verify=verify):
            if isinstance(found, Records):
                positions += found.int64(found.at + PHYSICAL_OFFSET).tolist()
            else:
                damage.append(found)
    return positions, damage


@pytest.mark.parametrize("window", [8 << 20, 700])
def test_a_store_of_javas_is_read_whole(tmp_path: Path, window: int) -> None:
    store = unpack("clean", tmp_path)
    positions, damage = scanned(store, window=window)
    assert (positions, damage) == (walked(store)[0], [])
    assert len(positions) > 100


@pytest.mark.parametrize("variant", VARIANTS)
def test_damage_is_stepped_over_and_told(tmp_path: Path, variant: str) -> None:
    store = unpack("crashed", tmp_path)
    if variant:
        apply_variant(store, variant)
    positions, gaps = walked(store)
    found, damage = scanned(store)
    assert found == positions
    assert set(gaps) <= {(each.position, each.end) for each in damage}


@pytest.mark.parametrize("piece", [1000, 4096, 50_000])
def test_a_range_may_begin_at_any_byte(tmp_path: Path, piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    store = unpack("clean", tmp_path)
    [whole] = [part for part in plan(str(store), 1) if part.begin == 0][:1]
    positions = walked(store)[0]
    first = [position for position in positions if position < whole.file_bytes]
    end = first[-1] + 1
    found: list[int] = []
    for begin in range(0, end, piece):
        for step in RangeScan(whole._replace(begin=begin, end=min(begin + piece, end))):
            assert isinstance(step, Records)
            found += step.int64(step.at + PHYSICAL_OFFSET).tolist()
    assert found == first


def test_a_changed_byte_of_a_body_is_found_by_its_crc(tmp_path: Path) -> None:
    store = unpack("clean", tmp_path)
    positions = walked(store)[0]
    file = next((store / "commitlog").iterdir())
    with sorted((store / "commitlog").iterdir())[0].open("r+b") as log:
        log.seek(positions[3] - positions[0] + 90)
        byte = log.read(1)
        log.seek(-1, 1)
        log.write(bytes([byte[0] ^ 0xFF]))
    found, [damage] = scanned(store)
    assert file.exists()
    assert found == positions[:3] + positions[4:]
    assert (damage.position, damage.end) == (positions[3], positions[4])
    assert "CRC" in damage.reason
    assert scanned(store, verify=False) == (positions, [])
    with patch("pyromq.spark.store.store_scan.walk_log", python.walk_log):  # as without the native kernel
        assert scanned(store) == (found, [damage])
        assert scanned(store, verify=False) == (positions, [])


def test_a_topic_that_is_no_text_is_damage(tmp_path: Path) -> None:
    """Java's CRC covers the body alone."""
    store = unpack("clean", tmp_path)
    positions = walked(store)[0]
    with sorted((store / "commitlog").iterdir())[0].open("r+b") as log:
        raw = log.read(1 << 20)
        place = locate(raw, positions[5] - positions[0])
        log.seek(place.topic_at)
        log.write(b"\xff")
    for kernel in (walk_log, python.walk_log):
        with patch("pyromq.spark.store.store_scan.walk_log", kernel):
            found, [damage] = scanned(store)
            assert found == positions[:5] + positions[6:]
            assert (damage.position, damage.end) == (positions[5], positions[6])


def test_tasks_are_made_for_what_was_written_alone(tmp_path: Path) -> None:
    """Log files are allocated whole, and the next one is made ahead."""
    log = tmp_path / "commitlog"
    log.mkdir()
    size = 64 << 20
    for base in (0, size):
        with (log / f"{base:020d}").open("wb") as file:
            file.truncate(size)
    record = encode_record(Record(topic="T", queue_id=0, body=b"x" * 100_000))
    with (log / f"{0:020d}").open("r+b") as file:
        file.write(record)
        file.seek(30 << 20)
        file.write(encode_record(Record(topic="T", queue_id=0, body=b"y", physical_offset=30 << 20)))
    parts = plan(str(tmp_path), 4)
    assert sum(part.end - part.begin for part in parts) < 32 << 20
    assert len(parts) >= 4
    positions, [damage] = scanned(tmp_path, pieces=4)
    assert positions == [0, 30 << 20]
    assert (damage.position, damage.end) == (len(record), 30 << 20)


def test_what_is_no_store_is_told(tmp_path: Path) -> None:
    with pytest.raises(DiskError, match="is not a store"):
        plan(str(tmp_path), 1)
