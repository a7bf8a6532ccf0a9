"""`store verify` says clean of clean stores and finds each fault that is put into one, with its place."""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pyromq.protocol.record import Record
from pyromq.store.config import StoreConfig
from pyromq.store.files.file_sequence import FileSequence
from pyromq.store.files.real_disk import RealDisk
from pyromq.store.message_store import MessageStore
from pyromq.store.recovery.checkpoint import SyncedFile
from pyromq.store.recovery.claim import UnknownStoreKind
from pyromq.store.recovery.sizes import inferred_config
from pyromq.store.tools.dump import DumpFilter, dump_records
from pyromq.store.tools.findings import Level, Report
from pyromq.store.tools.info import store_info
from pyromq.store.tools.verify import verify_store
from pyromq.testing.clock import ManualClock
from tests.store.conftest import GOLDEN_CONFIG
from tests.store.golden_store import apply_variant, manifest, unpack

FIRST_LOG = "commitlog/00000000000000000000"
SECOND_LOG = "commitlog/00000000000001048576"


def verify(store: Path) -> Report:
    disk = RealDisk(store)
    return verify_store(disk, inferred_config(disk))


def poke(store: Path, name: str, offset: int, data: bytes) -> None:
    with (store / name).open("r+b") as file:
        file.seek(offset)
        file.write(data)


@pytest.fixture
def clean(tmp_path: Path) -> Path:
    return unpack("clean", tmp_path)


SCHEDULED = "consumequeue/SCHEDULE_TOPIC_XXXX"


def test_times_of_other_delay_levels_are_no_damage(clean: Path) -> None:
    disk = RealDisk(clean)
    levels = "2s 5s 7m"  # not those that Java's broker had; nothing in its files says which
    report = verify_store(disk, replace(inferred_config(disk), message_delay_level=levels))
    assert report.exit_code == 0
    assert report.findings != []
    for finding in report.findings:
        assert (finding.level, finding.file.startswith(SCHEDULED)) == (Level.NOTE, True)
        assert f"delayed messages are due by other levels than {levels!r}" in finding.what
        assert "-c" in finding.remedy
        assert "rebuild" not in finding.remedy


@pytest.mark.parametrize("bit", [0, 10, 31, 63])
def test_a_flipped_bit_in_the_time_of_a_delayed_message_is_damage(clean: Path, bit: int) -> None:
    (file, *_) = sorted((clean / SCHEDULED).rglob("0000*"))
    position, size, due_ms = struct.unpack(">qiq", file.read_bytes()[:20])
    flipped = due_ms.to_bytes(8, "big", signed=True)
    flipped = (int.from_bytes(flipped, "big") ^ 1 << bit).to_bytes(8, "big")
    poke(clean, str(file.relative_to(clean)), 0, struct.pack(">qi", position, size) + flipped)
    assert [finding.level for finding in verify(clean).findings] == [Level.DAMAGE]


def test_the_clean_golden_store_is_clean(clean: Path) -> None:
    before = {path: path.read_bytes() for path in sorted(clean.rglob("*")) if path.is_file()}
    report = verify(clean)
    assert report.findings == []
    assert report.exit_code == 0
    found = manifest("clean")["store"]
    assert report.records == len(found["messages"])
    assert report.log_end == found["endOffset"]
    assert report.queues == len(found["consumeQueues"])
    assert report.queue_entries == sum(queue["count"] for queue in found["consumeQueues"])
    assert {path: path.read_bytes() for path in sorted(clean.rglob("*")) if path.is_file()} == before


def test_the_killed_golden_store_shows_what_java_lost(tmp_path: Path) -> None:
    """Four records that were not dispatched, and keys between the last full index file and the recovered one."""
    report = verify(unpack("crashed", tmp_path))
    assert report.exit_code == 2
    missing = [finding for finding in report.findings if "has no entry" in finding.what]
    assert len(missing) == manifest("crashed")["notDispatchedAtCrash"] == 4
    assert all(finding.level == Level.REPAIRABLE for finding in missing)
    lost_keys = [finding for finding in report.findings if finding.level == Level.DAMAGE]
    assert [finding.file for finding in lost_keys] == ["index"]
    assert "136 records from 678946" in lost_keys[0].what


def test_a_torn_tail_is_repairable(tmp_path: Path) -> None:
    store = unpack("crashed", tmp_path)
    apply_variant(store, "torn40")
    report = verify(store)
    record = manifest("crashed")["variants"]["torn40"]["record"]
    assert report.log_end == record
    torn = [finding for finding in report.findings if finding.file == "commitlog/00000000000002097152"]
    assert [(finding.level, finding.offset) for finding in torn] == [(Level.REPAIRABLE, record - 2097152)]


def test_a_bad_record_that_queues_know_is_damage_and_the_rest_counts(tmp_path: Path) -> None:
    store = unpack("crashed", tmp_path)
    apply_variant(store, "badcrc")
    report = verify(store)
    assert report.records == 4187
    assert report.log_end == manifest("crashed")["store"]["endOffset"]
    record = manifest("crashed")["variants"]["badcrc"]["record"]
    bad = [finding for finding in report.findings if finding.file.startswith("commitlog")]
    assert [(finding.level, finding.offset) for finding in bad] == [(Level.DAMAGE, record - 2097152)]
    assert "CRC" in bad[0].what


def test_leftovers_behind_the_end_are_repairable(clean: Path) -> None:
    end = manifest("clean")["store"]["endOffset"]
    poke(clean, "commitlog/00000000000005242880", end - 5242880 + 5000, b"stale")
    report = verify(clean)
    assert report.exit_code == 1
    assert report.findings[0].offset == end - 5242880


def flip_queue_entry(store: Path) -> str:
    name = "consumequeue/GoldenRoll/0/00000000000000020000"
    poke(store, name, 20 * 17 + 7, b"\x01")
    return name


def zero_queue_entry(store: Path) -> str:
    name = "consumequeue/GoldenRoll/0/00000000000000000000"
    poke(store, name, 20 * 5, bytes(20))
    return name


def wrong_tag(store: Path) -> str:
    name = "consumequeue/GoldenPlain/0/00000000000000000000"
    poke(store, name, 12, b"\x7f")
    return name


def wrong_batch_entry(store: Path) -> str:
    name = "batchconsumequeue/GoldenBcq/0/00000000000000000000"
    poke(store, name, 46 + 35, b"\x09")
    return name


def entry_for_nothing(store: Path) -> str:
    name = "consumequeue/GoldenFifo/0/00000000000000000000"
    entries = next(
        queue
        for queue in manifest("clean")["store"]["consumeQueues"]
        if (queue["topic"], queue["queueId"]) == ("GoldenFifo", 0)
    )
    poke(store, name, entries["count"] * 20, struct.pack(">qiq", 12, 100, 0))
    return name


def wrong_index_hash(store: Path) -> str:
    poke(store, "index/20261115185838089", 40 + 4000 + 20 * 7, b"\x11\x22\x33\x44")
    return "index"


def wrong_index_chain(store: Path) -> str:
    poke(store, "index/20261115185838089", 40 + 4000 + 20 * 3000 + 16, b"\x00\x00\x0b\xb7")
    return "index/20261115185838089"


def wrong_slot(store: Path) -> str:
    poke(store, "index/20261115185852381", 40, b"\x00\x00\x0f\x9e")
    return "index/20261115185852381"


def missing_middle(store: Path) -> str:
    (store / SECOND_LOG).unlink()
    return "commitlog/00000000000002097152"


def wrecked_tables(store: Path) -> str:
    for name in ("config/topics.json", "config/topics.json.bak"):
        (store / name).write_bytes(b'{"dataVersion":')
    return "config/topics.json"


@pytest.mark.parametrize(
    "harm",
    [
        flip_queue_entry,
        zero_queue_entry,
        wrong_tag,
        wrong_batch_entry,
        entry_for_nothing,
        wrong_index_hash,
        wrong_index_chain,
        wrong_slot,
        missing_middle,
        wrecked_tables,
    ],
)
def test_damage_is_found_where_it_is(clean: Path, harm: Callable[[Path], str]) -> None:
    name = harm(clean)
    report = verify(clean)
    assert report.exit_code == 2
    assert name in {finding.file for finding in report.findings if finding.level == Level.DAMAGE}
    assert all(finding.remedy for finding in report.findings)


def beyond_the_end(store: Path) -> str:
    name = "consumequeue/GoldenFifo/0/00000000000000000000"
    entries = next(
        queue
        for queue in manifest("clean")["store"]["consumeQueues"]
        if (queue["topic"], queue["queueId"]) == ("GoldenFifo", 0)
    )
    poke(store, name, entries["count"] * 20, struct.pack(">qiq", 10_000_000, 100, 0))
    return name


def not_stopped(store: Path) -> str:
    (store / "abort").write_bytes(b"1")
    return "abort"


def torn_table(store: Path) -> str:
    (store / "config/consumerOffset.json").write_bytes(b"")
    return "config/consumerOffset.json"


def checkpoint_ahead(store: Path) -> str:
    poke(store, "checkpoint", 40, struct.pack(">q", 1 << 40))
    return "checkpoint"


def short_last_file(store: Path) -> str:
    name = "commitlog/00000000000005242880"
    with (store / name).open("r+b") as file:
        file.truncate(900_000)
    return name


@pytest.mark.parametrize("harm", [beyond_the_end, not_stopped, torn_table, checkpoint_ahead, short_last_file])
def test_what_opening_repairs_is_told_apart(clean: Path, harm: Callable[[Path], str]) -> None:
    name = harm(clean)
    report = verify(clean)
    assert report.exit_code == 1
    assert name in {finding.file for finding in report.findings}


def test_a_synced_mark_beyond_the_records_is_a_loss(clean: Path) -> None:
    MessageStore(RealDisk(clean), GOLDEN_CONFIG, ManualClock(), is_batch_topic=lambda topic: "Batch" in topic).close()
    assert verify(clean).exit_code == 0
    mark = SyncedFile(RealDisk(clean))
    mark.save(manifest("clean")["store"]["endOffset"] + 1)
    mark.close()
    assert verify(clean).exit_code == 2


def test_a_deleted_topic_is_only_a_note(clean: Path) -> None:
    topics = (clean / "config/topics.json").read_text()
    (clean / "config/topics.json").write_text(topics.replace("GoldenFifo", "GoldenGone"))
    for queue in (clean / "consumequeue/GoldenFifo").iterdir():
        for file in queue.iterdir():
            file.unlink()
        queue.rmdir()
    report = verify(clean)
    assert report.exit_code == 0
    assert report.findings
    assert {finding.level for finding in report.findings} == {Level.NOTE}


def test_a_store_that_we_do_not_read_is_refused(clean: Path) -> None:
    (clean / "dledger-n0").mkdir()
    with pytest.raises(UnknownStoreKind):
        verify(clean)


@pytest.mark.parametrize("name", ["clean", "crashed"])
def test_dump_gives_the_records_of_the_manifest(name: str, tmp_path: Path) -> None:
    disk = RealDisk(unpack(name, tmp_path))
    expected = manifest(name)["store"]["messages"]
    undispatched = 0
    for ours, java in zip(dump_records(disk, inferred_config(disk), DumpFilter()), expected, strict=True):
        if java["tagsCode"] is None and ours["tagsCode"] is not None:
            undispatched += 1  # the manifest has it from the queue entry
            ours["tagsCode"] = None
        assert ours == java
        assert list(ours) == list(java)
    assert undispatched == (4 if name == "crashed" else 0)


def test_dump_filters(clean: Path) -> None:
    disk = RealDisk(clean)
    messages = manifest("clean")["store"]["messages"]

    def dumped(**wanted: object) -> list[int]:
        found = dump_records(disk, inferred_config(disk), DumpFilter(**wanted))  # type: ignore[arg-type]
        return [record["physicalOffset"] for record in found]

    def expected(condition: Callable[[dict[str, object]], bool]) -> list[int]:
        found = [message["physicalOffset"] for message in messages if condition(message)]
        assert found
        return found

    assert dumped(topic="GoldenFifo") == expected(lambda m: m["topic"] == "GoldenFifo")
    assert dumped(topic="GoldenPlain", queue_id=2) == expected(
        lambda m: (m["topic"], m["queueId"]) == ("GoldenPlain", 2)
    )
    assert dumped(key="shared-key") == expected(lambda m: "shared-key" in str(m["properties"].get("KEYS", "")).split())  # type: ignore[attr-defined]
    middle = messages[2000]["storeTimestamp"]
    assert dumped(since_ms=middle) == expected(lambda m: m["storeTimestamp"] >= middle)
    assert dumped(until_ms=middle) == expected(lambda m: m["storeTimestamp"] < middle)


def test_dump_shows_damaged_ranges(tmp_path: Path) -> None:
    store = unpack("crashed", tmp_path)
    apply_variant(store, "badcrc")
    disk = RealDisk(store)
    damaged = [r for r in dump_records(disk, inferred_config(disk), DumpFilter()) if "damaged" in r]
    assert [one["physicalOffset"] for one in damaged] == [manifest("crashed")["variants"]["badcrc"]["record"]]


def test_info_tells_the_ends_of_all_queues(clean: Path) -> None:
    disk = RealDisk(clean)
    info = store_info(disk, inferred_config(disk))
    ends = {(queue["topic"], queue["queueId"]): queue["end"] for queue in info["queues"]}
    expected = {
        (queue["topic"], queue["queueId"]): queue["maxOffset"] for queue in manifest("clean")["store"]["consumeQueues"]
    }
    assert ends == expected
    assert info["stoppedCleanly"]
    assert not info["inUse"]
    assert info["commitLogFiles"] == 6


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the lengths of all reads of logs and queues from now on."""
    found: list[int] = []
    whole = FileSequence.read

    def counted(log: FileSequence, position: int, length: int) -> bytes:
        found.append(length)
        return whole(log, position, length)

    monkeypatch.setattr(FileSequence, "read", counted)
    return found


def test_a_fresh_log_file_is_not_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads: list[int]
) -> None:
    """A broker reserves a gigabyte before the first message; what was never written holds nothing."""
    config = StoreConfig(commit_log_file_bytes=64 << 20)
    disk = RealDisk(tmp_path)
    store = MessageStore(disk, config, ManualClock())
    store.put([Record(topic="T", queue_id=0, body=b"one", properties=b"")])
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(RealDisk, "is_locked", lambda *given: True)  # as for another process while a broker runs
        verify_store(disk, config)
    store.close()
    assert verify_store(disk, config).exit_code == 0
    assert sum(reads) < 8 << 20


@pytest.mark.parametrize("is_ours", [True, False])
def test_of_a_killed_store_only_what_was_written_is_read(tmp_path: Path, reads: list[int], is_ours: bool) -> None:
    config = StoreConfig(commit_log_file_bytes=64 << 20)
    disk, log = RealDisk(tmp_path), tmp_path / "commitlog" / f"{0:020}"
    store = MessageStore(disk, config, ManualClock())
    store.put([Record(topic="T", queue_id=0, body=b"one", properties=b"")])
    store.close()
    has_holes = knows_holes(log)  # asked now: what was read once counts as written
    if not is_ours:
        shutil.rmtree(tmp_path / "pyromq")
    (tmp_path / "abort").touch()
    assert [finding.what for finding in verify_store(disk, config).findings] == ["the broker was not stopped cleanly"]
    poke(tmp_path, FIRST_LOG, 40 << 20, b"x")  # behind 40 MiB that nobody wrote
    (torn,) = [one for one in verify_store(disk, config).findings if one.file == FIRST_LOG]
    assert "bytes that are no whole record" in torn.what
    assert sum(reads) < 16 << 20 or not has_holes


def test_a_record_behind_a_long_hole_is_found(tmp_path: Path, reads: list[int]) -> None:
    config = StoreConfig(commit_log_file_bytes=64 << 20)
    disk, log = RealDisk(tmp_path), tmp_path / "commitlog" / f"{0:020}"
    store = MessageStore(disk, config, ManualClock())
    store.put([Record(topic="T", queue_id=0, body=body, properties=b"") for body in (b"one", *[bytes(3 << 20)] * 10)])
    (last,) = store.put([Record(topic="T", queue_id=0, body=b"last", properties=b"")])
    store.close()
    content = log.read_bytes()
    log.write_bytes(b"")
    with log.open("r+b") as file:  # the large ones were never written
        file.truncate(len(content))
        file.write(content[:64])
        file.seek(last.position)
        file.write(content[last.position : last.position + 4096])
    has_holes = knows_holes(log)
    (tmp_path / "abort").touch()
    report = verify_store(disk, config)
    assert (report.records, report.log_end) == (1, last.position + last.size)
    assert any(one.level is Level.DAMAGE and one.offset == 0 for one in report.findings if one.file == FIRST_LOG)
    assert sum(reads) < 16 << 20 or not has_holes


def knows_holes(file: Path) -> bool:
    with file.open("rb") as opened:
        return os.lseek(opened.fileno(), 0, os.SEEK_HOLE) < file.stat().st_size
