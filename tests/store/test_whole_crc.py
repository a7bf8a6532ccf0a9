"""A record that lost its own CRC, and nothing else, is noticed wherever we wrote with CRC."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from pyromq.protocol.record import CRC_NAME, CRC_PROPERTY_BYTES
from pyromq.store.config import StoreConfig
from pyromq.store.files.disk import replace_durably
from pyromq.store.log.whole_crc import WHOLE_CRC_FILE, CrcRange, CrcRanges, read_ranges
from pyromq.store.recovery.checkpoint import ABORT_FILE, SYNCED_FILE, Checkpoint, CheckpointFile, read_checkpoint
from pyromq.store.tools.backup import backup_store
from pyromq.store.tools.dump import DumpFilter, dump_records
from pyromq.store.tools.findings import Level
from pyromq.store.tools.rebuild import rebuild_store
from pyromq.store.tools.verify import verify_store
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.store.small import SMALL, bodies, by_key, flip, log_file, message, opened

WITHOUT = replace(SMALL, whole_record_crc=False)


def put_many(
    disk: SimulatedDisk, count: int, config: StoreConfig = SMALL, word: bytes = b"a", stop: bool = True
) -> list[tuple[int, int]]:
    """Positions and ends."""
    store = opened(disk, config)
    places = [store.put([message(word + b"%03d" % number, keys=f"{word!r}{number}")])[0] for number in range(count)]
    if stop:
        store.close()
    else:
        store.flush_now()
    return [(placed.position, placed.end) for placed in places]


def zero(disk: SimulatedDisk, start: int, end: int) -> None:
    file = disk.open(log_file(start))
    file.pwrite(start % SMALL.commit_log_file_bytes, bytes(end - start))
    file.sync()


def lose_last_bytes(disk: SimulatedDisk, place: tuple[int, int]) -> None:
    zero(disk, place[1] - CRC_PROPERTY_BYTES, place[1])


def lose_crc_name(disk: SimulatedDisk, place: tuple[int, int]) -> None:
    """One bit in the property's name, one in other properties."""
    flip(disk, place[1] - CRC_PROPERTY_BYTES + 3)
    flip(disk, place[1] - CRC_PROPERTY_BYTES - 3)


def lose_crc_digit(disk: SimulatedDisk, place: tuple[int, int]) -> None:
    """A digit becomes a letter: the property says nothing any more."""
    at = place[1] - CRC_PROPERTY_BYTES + len(CRC_NAME) + 3
    disk.flip_bit(log_file(at), at % SMALL.commit_log_file_bytes, 6)


HARMS = [lose_last_bytes, lose_crc_name, lose_crc_digit]


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("stop", [True, False])
def test_it_is_damage_below_the_synced_mark_7437(
    harm: Callable[[SimulatedDisk, tuple[int, int]], None], stop: bool
) -> None:
    disk = SimulatedDisk()
    places = put_many(disk, 20, stop=stop)
    if not stop:
        disk = disk.kill()
    harm(disk, places[7])
    report = verify_store(disk, SMALL)
    assert [finding.offset for finding in report.findings if finding.level is Level.DAMAGE] == [places[7][0]]
    store = opened(disk)
    expected = [b"a%03d" % number for number in range(20) if number != 7]
    assert bodies(store) == expected
    assert by_key(store, "T", "b'a'7") == []
    assert store.reader.record_at(places[7][0]) is None
    store.close()
    assert [one["physicalOffset"] for one in dump_records(disk, SMALL, DumpFilter()) if "damaged" in one] == [
        places[7][0]
    ]


@pytest.mark.parametrize("harm", HARMS)
def test_it_is_a_torn_tail_above_the_synced_mark(harm: Callable[[SimulatedDisk, tuple[int, int]], None]) -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    places = [store.put([message(b"a%03d" % number)])[0] for number in range(20)]
    disk = disk.kill()
    disk.remove(SYNCED_FILE)  # as a new user did by hand: nothing is known to be synced
    harm(disk, (places[-1].position, places[-1].end))
    store = opened(disk)
    assert store.commit_log.end == places[-1].position
    assert len(bodies(store)) == 19


def test_it_is_not_handed_out_while_the_store_is_open() -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    places = [store.put([message(b"a%03d" % number)])[0] for number in range(5)]
    lose_last_bytes(disk, (places[2].position, places[2].end))
    assert len(bodies(store)) == 4


def test_ranges_follow_the_setting() -> None:
    disk = SimulatedDisk()
    first = put_many(disk, 5)
    plain = put_many(disk, 5, WITHOUT)
    second = put_many(disk, 5)
    assert read_ranges(disk) == CrcRanges(
        (CrcRange(0, first[-1][1], first[-1][0]), CrcRange(second[0][0], second[-1][1], second[-1][0]))
    )
    assert verify_store(disk, SMALL).exit_code == 0
    for places, seen in ((first, True), (plain, False), (second, True)):
        harmed = disk.crash(0)
        if seen:
            lose_last_bytes(harmed, places[3])
            assert verify_store(harmed, SMALL).exit_code == 2
        assert len(bodies(opened(harmed))) == 15 - seen


def test_several_lives_are_one_range() -> None:
    disk = SimulatedDisk()
    for _ in range(6):  # across files
        places = put_many(disk, 15)
    assert read_ranges(disk) == CrcRanges((CrcRange(0, places[-1][1], places[-1][0]),))
    assert places[-1][1] > SMALL.commit_log_file_bytes


def as_java_would(disk: SimulatedDisk, count: int = 5) -> None:
    """Another broker that knows nothing of ours opens the store, appends without CRC, and stops cleanly."""
    kept = {name: read(disk, f"pyromq/{name}") for name in disk.list("pyromq") if not disk.is_folder(f"pyromq/{name}")}
    put_many(disk, count, WITHOUT, b"j")
    for name in disk.list("pyromq"):
        if name not in kept and not disk.is_folder(f"pyromq/{name}"):
            disk.remove(f"pyromq/{name}")
    for name, content in kept.items():
        replace_durably(disk, f"pyromq/{name}", content)


def read(disk: SimulatedDisk, name: str) -> bytes:
    return disk.open(name, writable=False).pread(0, disk.size(name))


def test_what_another_broker_appends_is_taken_as_it_is_and_ours_stays_watched() -> None:
    disk = SimulatedDisk()
    ours = put_many(disk, 10)
    as_java_would(disk)
    assert verify_store(disk, SMALL).exit_code == 0
    later = put_many(disk, 10, word=b"b")
    store = opened(disk)
    assert len(bodies(store)) == 25
    store.close()
    for place in (ours[4], later[4]):
        harmed = disk.crash(0)
        lose_last_bytes(harmed, place)
        assert verify_store(harmed, SMALL).exit_code == 2
        assert len(bodies(opened(harmed))) == 24


def test_after_a_kill_of_ours_another_broker_s_records_are_no_damage() -> None:
    disk = SimulatedDisk()
    put_many(disk, 10, stop=False)
    disk = disk.kill()
    assert read_ranges(disk).open_from == 0
    as_java_would(disk)
    assert verify_store(disk, SMALL).exit_code == 0
    copy = SimulatedDisk()
    backup_store(disk, copy, SMALL, ManualClock(), 1)
    assert len(bodies(opened(copy))) == 15
    rebuild_store(disk, SMALL, ManualClock(), 1)
    store = opened(disk)
    assert len(bodies(store)) == 15
    assert store.recovery.damage == []


def test_another_broker_that_cut_our_log_and_wrote_over_it_is_believed() -> None:
    """Java cuts at the first record that it cannot read. Then ours do not tell what must be there any more."""
    disk = SimulatedDisk()
    ours = put_many(disk, 10)
    kept = {name: read(disk, f"pyromq/{name}") for name in ("whole-crc", "synced", "catalogue")}
    zero(disk, ours[6][0], ours[-1][1])
    for name in kept:
        disk.remove(f"pyromq/{name}")
    put_many(disk, 10, WITHOUT, b"j")
    for name, content in kept.items():
        replace_durably(disk, f"pyromq/{name}", content)
    checkpoint = CheckpointFile(disk)
    checkpoint.save(read_checkpoint(disk)._replace(confirmed=1))  # not as we left it
    checkpoint.close()
    store = opened(disk)
    assert len(bodies(store)) == 16
    assert store.recovery.damage == []


def test_a_mark_that_cannot_be_read_says_nothing() -> None:
    disk = SimulatedDisk()
    places = put_many(disk, 5)
    disk.flip_bit(WHOLE_CRC_FILE, 20)
    assert read_ranges(disk) == CrcRanges()
    assert [finding.file for finding in verify_store(disk, SMALL).findings] == [WHOLE_CRC_FILE]
    lose_last_bytes(disk, places[2])
    assert len(bodies(opened(disk))) == 5


def test_marks_of_a_store_of_java_s_are_not_needed() -> None:
    disk = SimulatedDisk()
    put_many(disk, 5, WITHOUT)
    for name in ("whole-crc", "synced", "catalogue", "derived"):
        if disk.exists(f"pyromq/{name}"):
            disk.remove(f"pyromq/{name}")
    assert not disk.exists(ABORT_FILE)
    assert read_checkpoint(disk) != Checkpoint()
    places = put_many(disk, 5, word=b"b")
    assert read_ranges(disk).closed[0].start == places[0][0]
    assert len(bodies(opened(disk))) == 10
