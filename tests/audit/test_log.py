"""The audit log: its chain over restarts, kills and full disks, and that whatever is done to its files is seen."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from pyromq.audit import log as audit_module
from pyromq.audit.folder import AuditFolder
from pyromq.audit.lines import FIRST, Link, decode, encode
from pyromq.audit.log import AuditLog
from pyromq.audit.verify import entries, verify
from pyromq.audit.writer import ChainWriter, Noted
from pyromq.errors import ConfigError
from pyromq.store.message_store import run_at_once
from pyromq.testing.clock import ManualClock

SMALL = 4096
T = TypeVar("T")


def written(folder: Path, count: int, *, file_bytes: int = SMALL, files: int = 100) -> None:
    """One life of a daemon that notes `count` events, and ends as `kill -9` leaves it."""
    writer = ChainWriter.open(folder, file_bytes, files)
    events = [Noted(1_700_000_000_000 + n, "call", {"number": n, "user": "alice"}) for n in range(count)]
    for begin in range(0, count, 12):
        writer.append(events[begin : begin + 12])
    os.close(writer._lock)
    os.close(writer._descriptor)


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("audit-*.jsonl"))


def test_lives_of_a_daemon_make_one_chain(tmp_path: Path) -> None:
    for count in (30, 0, 1, 50):
        written(tmp_path, count)
    verdict = verify(tmp_path)
    assert (verdict.alarms, verdict.notes) == ([], [])
    assert verdict.files == len(files(tmp_path)) > 2
    assert [one["number"] for one in entries(tmp_path) if one["kind"] == "call"] == [*range(30), 0, *range(50)]
    assert [one["seq"] for one in entries(tmp_path)] == list(range(1, verdict.lines + 1))
    assert {path.stat().st_mode & 0o777 for path in files(tmp_path)} == {0o600}


def test_the_oldest_files_go_and_are_not_missed(tmp_path: Path) -> None:
    written(tmp_path, 200, files=3)
    assert len(files(tmp_path)) == 3
    assert verify(tmp_path).alarms == []


@pytest.mark.parametrize("cut", [1, 40, 120])
def test_a_torn_last_line_is_said_and_no_alarm(tmp_path: Path, cut: int) -> None:
    written(tmp_path, 2)
    last = files(tmp_path)[-1]
    with open(last, "ab") as file:
        file.write(b'{"seq":4,"time":"2026-11-18T20:03:34.123Z","kind":"call","user":"x"' * 2)
        file.truncate(last.stat().st_size + cut)
    assert verify(tmp_path).alarms == []
    assert "is not whole" in verify(tmp_path).notes[0]
    written(tmp_path, 2)
    verdict = verify(tmp_path)
    assert verdict.alarms == []
    assert "torn, as a kill leaves it" in verdict.notes[0]


def test_a_kill_between_two_files_is_no_alarm(tmp_path: Path) -> None:
    written(tmp_path, 30)
    AuditFolder(tmp_path).file(len(files(tmp_path)) + 1).touch(0o600)
    assert verify(tmp_path).alarms == []
    written(tmp_path, 3)
    assert verify(tmp_path).alarms == []


def edited(path: Path, change: Callable[[list[bytes]], list[bytes]]) -> None:
    path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))


def remade(lines: list[bytes]) -> list[bytes]:
    """What somebody makes of a file who knows how hashes are made: without its last line, all hashes right."""
    made, before = [], FIRST
    for raw in lines[:-1]:
        entry = json.loads(raw)
        fields = {name: value for name, value in entry.items() if name not in ("seq", "time", "kind", "hash")}
        line, before = encode(before, 1, entry["kind"], {**fields, "user": "bob"})
        made.append(line)
    return made


def without_head(folder: Path) -> None:
    (folder / "head.json").unlink()


def with_another_head(folder: Path) -> None:
    (folder / "head.json").write_text("nothing")


def without_files(folder: Path) -> None:
    for path in files(folder):
        path.unlink()


def made_anew(folder: Path) -> None:
    for path in files(folder):
        edited(path, remade)


HARM: dict[str, Callable[[Path], None]] = {
    "a value changed": lambda at: edited(files(at)[1], lambda all: [one.replace(b"alice", b"carol") for one in all]),
    "a line cut out": lambda at: edited(files(at)[0], lambda all: all[:3] + all[4:]),
    "a line doubled": lambda at: edited(files(at)[0], lambda all: all[:3] + all[2:]),
    "lines in another order": lambda at: edited(files(at)[1], lambda all: [all[0], all[2], all[1], *all[3:]]),
    "a line made unreadable": lambda at: edited(files(at)[0], lambda all: [*all[:3], b"x\n", *all[4:]]),
    "the first line gone": lambda at: edited(files(at)[1], lambda all: all[1:]),
    "the end cut off": lambda at: edited(files(at)[-1], lambda all: all[:-1]),
    "the last file emptied": lambda at: edited(files(at)[-1], lambda all: []),
    "the last file removed": lambda at: files(at)[-1].unlink(),
    "a file in the middle removed": lambda at: files(at)[1].unlink(),
    "the oldest file removed": lambda at: files(at)[0].unlink(),
    "all files removed": without_files,
    "the head removed": without_head,
    "the head no JSON": with_another_head,
    "the last file made anew": lambda at: edited(files(at)[-1], remade),
    "all made anew but the head": made_anew,
}


@pytest.mark.parametrize("harm", HARM)
def test_what_is_done_to_the_files_is_seen(tmp_path: Path, harm: str) -> None:
    written(tmp_path, 60)
    assert verify(tmp_path).alarms == []
    HARM[harm](tmp_path)
    assert verify(tmp_path).alarms


@pytest.mark.parametrize("harm", HARM)
def test_it_is_seen_after_the_daemon_has_gone_on(tmp_path: Path, harm: str) -> None:
    written(tmp_path, 60)
    HARM[harm](tmp_path)
    written(tmp_path, 3)
    assert verify(tmp_path).alarms


def test_only_a_line_kept_elsewhere_shows_that_everything_was_made_anew(tmp_path: Path) -> None:
    written(tmp_path / "true", 10)
    kept = verify(tmp_path / "true").last
    assert kept is not None
    shutil.copytree(tmp_path / "true", tmp_path / "false")
    shutil.rmtree(tmp_path / "true")
    written(tmp_path / "true", 20)
    assert verify(tmp_path / "true").alarms == [] == verify(tmp_path / "false", kept).alarms
    edited(files(tmp_path / "true")[0], lambda all: all)
    assert verify(tmp_path / "true", Link(kept.seq, "0" * 64)).alarms
    assert verify(tmp_path / "true", Link(10_000, kept.hash)).alarms


def test_texts_cannot_forge_lines_and_are_cut() -> None:
    name = 'a\n{"seq":2,"hash":"b"}\x1b[2J\u202e' + "x" * 100_000
    line, link = encode(FIRST, 0, "call", {"topic": name, "with": {"k": [name] * 100}})
    assert line.count(b"\n") == 1
    assert line.isascii()
    assert b"\x1b" not in line
    assert len(line) < 200_000
    read = decode(line[:-1])
    assert read is not None
    assert read.link == link
    assert read.follows(FIRST)
    assert read.entry["topic"].endswith("more")


def test_processes_with_one_folder_get_one_each(tmp_path: Path) -> None:
    first, second = (ChainWriter.open(tmp_path / "audit", SMALL, 3) for _ in range(2))
    assert [first.folder.path.name, second.folder.path.name] == ["audit", "audit.2"]
    first.close()
    again = ChainWriter.open(tmp_path / "audit", SMALL, 3)
    assert again.folder.path.name == "audit"
    again.close()
    second.close()


def test_a_folder_that_cannot_be_had_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="auditEnable=false"):
        ChainWriter.open(tmp_path / "file" / "audit", SMALL, 3)


class Disk(ChainWriter):
    """A writer whose disk may be full."""

    is_full = False

    def append(self, events: object) -> None:
        if Disk.is_full:
            raise OSError(errno.ENOSPC, "no space left on device")
        super().append(events)  # type: ignore[arg-type]


async def test_what_repeats_itself_is_a_number(tmp_path: Path) -> None:
    clock = ManualClock()
    audit = AuditLog(ChainWriter.open(tmp_path, SMALL, 3), clock, run_at_once, 60.0)
    for _ in range(1000):
        audit.note_seldom(("refused", "alice"), "refusal", user="alice")
    audit.note_seldom(("refused", "bob"), "refusal", user="bob")
    await clock.advance(seconds=61)
    audit.note_seldom(("refused", "alice"), "refusal", user="alice")
    await audit.close()
    told = [(one["user"], one.get("moreTimes")) for one in entries(tmp_path) if one["kind"] == "refusal"]
    assert told == [("alice", None), ("bob", None), ("alice", 999), ("alice", 1)]
    assert verify(tmp_path).alarms == []


async def test_very_many_different_ones_count_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_module, "MOST_KEYS", 3)
    clock = ManualClock()
    audit = AuditLog(ChainWriter.open(tmp_path, SMALL, 3), clock, run_at_once, 60.0)
    for number in range(10):
        audit.note_seldom((str(number),), "refusal", user=str(number))
    await audit.close()
    told = [one for one in entries(tmp_path) if one["kind"] == "refusal"]
    assert [one.get("user") for one in told] == ["0", "1", "2", None, None]
    assert told[-1]["moreTimes"] == 6


async def test_a_full_disk_loses_nothing_that_fits_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_module, "MOST_WAITING", 5)
    clock = ManualClock()
    audit = AuditLog(Disk.open(tmp_path, SMALL, 3), clock, run_at_once, 60.0)
    monkeypatch.setattr(Disk, "is_full", True)
    for number in range(8):
        audit.note("call", number=number)
    await asyncio.sleep(0)
    monkeypatch.setattr(Disk, "is_full", False)
    await clock.advance(seconds=6)
    audit.note("call", number=8)
    await audit.close()
    told = [(one["number"], one.get("lostBefore")) for one in entries(tmp_path) if one["kind"] == "call"]
    assert told == [(0, None), (1, None), (2, None), (3, None), (4, None), (8, 3)]


async def test_a_disk_that_stays_full_does_not_hold_up_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    audit = AuditLog(Disk.open(tmp_path, SMALL, 3), ManualClock(), run_at_once, 60.0)
    monkeypatch.setattr(Disk, "is_full", True)
    audit.note("call")
    await asyncio.sleep(0)
    await audit.close()
    assert files(tmp_path) == []


async def test_who_waits_when_its_line_is_written_already_is_told(tmp_path: Path) -> None:
    """A handler's answer may begin to wait a turn later than its line was noted."""
    under_way, may_go_on = asyncio.Event(), asyncio.Event()

    async def slowly(call: Callable[[], T]) -> T:
        under_way.set()
        await may_go_on.wait()
        return call()

    log = AuditLog(ChainWriter.open(tmp_path, SMALL, 3), ManualClock(), slowly, 60.0)
    log.note("call", number=1)
    await under_way.wait()
    waiting = asyncio.ensure_future(log.written())
    await asyncio.sleep(0)
    assert not waiting.done()
    may_go_on.set()
    await asyncio.wait_for(waiting, 5)
    await log.close()
