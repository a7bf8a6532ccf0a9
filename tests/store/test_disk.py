"""What both disks promise to the store, and what the real one does when the system says no."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from pyromq.store.files.disk import (
    NO_STAMP,
    Disk,
    DiskError,
    DiskFull,
    FileMissing,
    StoreLocked,
    SyncFailed,
    make_folder_durably,
    read_whole,
    replace_durably,
)
from pyromq.store.files.read_only import read_only
from pyromq.store.files.real_disk import RealDisk
from pyromq.testing.simulated_disk import SimulatedDisk


@pytest.fixture(params=["real", "simulated"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    return RealDisk(tmp_path) if request.param == "real" else SimulatedDisk()


def test_what_was_written_is_read(disk: Disk) -> None:
    file = disk.open("a", create=True)
    file.pwrite(3, b"defg")
    file.pwritev(0, [b"a", memoryview(b"bc")])
    assert file.pread(0, 100) == b"abcdefg"
    assert file.pread(5, 2) == b"fg"
    assert file.pread(7, 2) == b""
    assert file.size() == disk.size("a") == 7
    file.sync()
    file.close()


def test_more_buffers_than_the_system_takes_at_once(disk: Disk) -> None:
    file = disk.open("a", create=True)
    buffers = [bytes([number % 251]) * 3 for number in range(2500)]
    file.pwritev(10, buffers)
    assert file.pread(10, 10_000) == b"".join(buffers)
    file.close()


def test_resident_bytes_come_at_once_and_short_ranges_do_not(disk: Disk) -> None:
    file = disk.open("a", create=True)
    file.pwrite(0, b"x" * 8192)
    assert file.pread_resident(4000, 200) in (b"x" * 200, None)  # None where the file system cannot tell
    assert file.pread_resident(8000, 4000) is None
    file.close()


def test_allocate_keeps_content_and_grows(disk: Disk) -> None:
    file = disk.open("a", create=True)
    file.pwrite(0, b"abc")
    file.allocate(0, 5000)
    assert file.pread(0, 5) == b"abc\0\0"
    assert file.size() == 5000
    file.truncate(2)
    file.truncate(4)
    assert file.pread(0, 10) == b"ab\0\0"
    file.close()


def test_names(disk: Disk) -> None:
    assert disk.list("folder") == []
    disk.make_folder("folder/inner")
    disk.open("folder/b", create=True).close()
    disk.open("folder/a", create=True).close()
    assert disk.list("folder") == ["a", "b", "inner"]
    assert disk.list() == ["folder"]
    assert disk.is_folder("folder/inner")
    assert not disk.is_folder("folder/a")
    disk.rename("folder/a", "folder/b")
    disk.sync_folder("folder")
    assert disk.list("folder") == ["b", "inner"]
    disk.remove("folder/b")
    disk.remove_folder("folder/inner")
    assert not disk.exists("folder/inner")
    assert disk.list("folder") == []


def test_a_second_name_keeps_the_old_content(disk: Disk) -> None:
    replace_durably(disk, "a", b"old")
    disk.link("a", "b")
    replace_durably(disk, "a", b"new")
    assert (read_whole(disk, "a"), read_whole(disk, "b")) == (b"new", b"old")
    with pytest.raises(DiskError, match="exists"):
        disk.link("a", "b")


def test_a_stamp_changes_with_the_file_and_with_the_names_in_the_folder(disk: Disk) -> None:
    disk.make_folder("f")
    file = disk.open("f/a", create=True)
    file.pwrite(0, b"abc")
    names = ["f", "f/a", "f/b", "gone"]
    before = disk.stamps(names)
    assert before[1][0] == 3
    assert before[2:] == [NO_STAMP, NO_STAMP]
    assert file.pread(0, 3) == b"abc"
    assert disk.stamps(names) == before
    if isinstance(disk, RealDisk):  # its clock goes on in steps
        for number, name in enumerate(names[:2]):
            os.utime(disk.path(name), ns=(before[number][1], before[number][1] - 1))
        before = disk.stamps(names)
    file.pwrite(0, b"abd")
    written = disk.stamps(names)
    assert written[0] == before[0]
    assert written[1] != before[1]
    disk.open("f/b", create=True).close()
    made = disk.stamps(names)
    assert made[0] != before[0]
    assert made[1] == written[1]
    assert made[2] != NO_STAMP
    file.close()


def test_missing_things_are_named(disk: Disk) -> None:
    with pytest.raises(FileMissing, match="nowhere"):
        disk.open("nowhere")
    with pytest.raises(FileMissing, match="nowhere"):
        disk.remove("nowhere")
    with pytest.raises(FileMissing):
        disk.open("no/folder", create=True)
    with pytest.raises(FileMissing):
        disk.size("nowhere")


@pytest.mark.parametrize("name", ["../a", "/etc/passwd", "a//b", "a/../b", "./a", "a\0b", ""])
def test_names_cannot_leave_the_root(disk: Disk, name: str) -> None:
    with pytest.raises(DiskError):
        disk.open(name, create=True)


def test_a_removed_file_stays_readable_where_it_is_open(disk: Disk) -> None:
    file = disk.open("a", create=True)
    file.pwrite(0, b"abc")
    disk.remove("a")
    assert file.pread(0, 3) == b"abc"
    file.close()


def test_sync_many_takes_open_closed_and_vanished_files(disk: Disk) -> None:
    names = [f"f{number}" for number in range(40)]
    for name in names:
        file = disk.open(name, create=True)
        file.pwrite(0, b"x")
        file.close()
    disk.sync_many(names[:3])
    disk.sync_many([*names, "vanished"])
    disk.sync_many(["vanished"])


def test_a_sync_loads_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Peers may have taken all memory by then: a flush that cannot load a library is a flush that fails."""
    disk = RealDisk(tmp_path)
    monkeypatch.setitem(sys.modules, "ctypes", None)
    disk.open("a", create=True).close()
    disk.sync_all()
    disk.sync_many(["a"] * 100)


def test_sync_all_takes_whatever_is_there(disk: Disk) -> None:
    disk.make_folder("deep")
    disk.open("deep/log", create=True).pwrite(0, b"x")
    disk.sync_all()
    assert read_whole(disk, "deep/log") == b"x"


def test_a_read_only_disk_answers_and_changes_nothing(disk: Disk) -> None:
    replace_durably(disk, "a", b"x")
    reader = read_only(disk)
    assert reader.list() == ["a"]
    assert (reader.size("a"), reader.exists("a"), reader.is_folder("a")) == (1, True, False)
    assert read_whole(reader, "a") == b"x"
    with pytest.raises(DiskError):
        reader.open("a").pwrite(0, b"y")
    with pytest.raises(FileMissing):
        reader.open("b", create=True)
    for change in (
        lambda: reader.make_folder("f"),
        lambda: reader.rename("a", "b"),
        lambda: reader.link("a", "b"),
        lambda: reader.remove("a"),
        lambda: reader.remove_folder("f"),
        lambda: reader.sync_folder(),
        lambda: reader.sync_many(["a"]),
        lambda: reader.sync_all(),
        lambda: reader.lock("lock"),
    ):
        with pytest.raises(DiskError, match="reading only"):
            change()
    assert disk.list() == ["a"]


def test_replace_durably(disk: Disk) -> None:
    make_folder_durably(disk, "config/deep")
    replace_durably(disk, "config/deep/t.json", b"one")
    replace_durably(disk, "config/deep/t.json", b"2")
    assert read_whole(disk, "config/deep/t.json") == b"2"
    assert disk.list("config/deep") == ["t.json"]


def test_a_lock_is_taken_once(disk: Disk) -> None:
    lock = disk.lock("lock")
    with pytest.raises(StoreLocked):
        disk.lock("lock")
    lock.release()
    disk.lock("lock").release()


def test_usage_is_plausible(disk: Disk) -> None:
    usage = disk.usage()
    assert 0 <= usage.used <= usage.total
    assert 0 <= usage.ratio <= 1


def test_the_lock_keeps_another_process_out(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    lock = disk.lock("lock")
    program = (
        "import sys; from pyromq.store.files.real_disk import RealDisk\n"
        "from pyromq.store.files.disk import StoreLocked\n"
        "try: RealDisk(sys.argv[1]).lock('lock')\n"
        "except StoreLocked as fault: print('refused:', fault)\n"
        "else: print('taken')\n"
    )

    def other_process() -> str:
        return subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True).stdout

    assert "refused" in other_process()
    assert "another process" in other_process()
    assert (tmp_path / "lock").read_bytes() == b"lock"
    lock.release()
    assert other_process() == "taken\n"


def test_a_missing_root_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileMissing, match="nothing-here"):
        RealDisk(tmp_path / "nothing-here")
    assert RealDisk(tmp_path / "made", create=True).list() == []


def test_a_full_real_disk_names_path_use_and_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_space(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", no_space)
    file = RealDisk(tmp_path).open("log", create=True)
    with pytest.raises(DiskFull, match=r"log at 0: No space left on device; \d+ of \d+ bytes"):
        file.allocate(0, 4096)
    file.close()


def test_a_failed_real_sync_is_its_own_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: int) -> None:
        raise OSError(5, "Input/output error")

    file = RealDisk(tmp_path).open("log", create=True)
    monkeypatch.setattr(os, "fdatasync", fails)
    with pytest.raises(SyncFailed, match="log failed: Input/output error"):
        file.sync()
    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(SyncFailed):
        RealDisk(tmp_path).sync_folder()
    file.close()


def test_short_writes_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda descriptor, data, offset: whole(descriptor, data[:3], offset))
    monkeypatch.setattr(os, "pwritev", lambda descriptor, parts, offset: whole(descriptor, b"".join(parts)[:2], offset))
    file = RealDisk(tmp_path).open("log", create=True)
    file.pwrite(0, b"0123456789")
    file.pwritev(10, [b"abc", b"defgh"])
    assert file.pread(0, 100) == b"0123456789abcdefgh"
    file.close()


def test_room_that_cannot_be_there_is_not_tried_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A try that fails takes all that there is from everybody meanwhile. What the file has already is not asked for."""
    tried: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "posix_fallocate", lambda descriptor, offset, length: tried.append((offset, length)))
    free = SimpleNamespace(f_blocks=10, f_bfree=2, f_bavail=1, f_frsize=4096)
    monkeypatch.setattr(os, "statvfs", lambda path: free)
    file = RealDisk(tmp_path).open("log", create=True)
    with pytest.raises(DiskFull, match=r"cannot allocate 8193 bytes for .*log at 0: No space left"):
        file.allocate(0, 8193)
    assert tried == []
    file.truncate(8193)
    file.allocate(0, 8193 + 8192)
    assert tried == [(0, 8193 + 8192)]
    file.close()
