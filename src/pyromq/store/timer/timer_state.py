"""How far the timer is: our own state file, and Java's `config/timercheck` beside it for a broker that comes after us.

Ours is replaced whole once everything that it speaks of is on the medium. Java's is rewritten in place after it; the
time in it tells whether a Java broker has run since.
"""

from __future__ import annotations

import struct
from contextlib import closing
from typing import NamedTuple

import msgspec

from ... import logs
from ..files.disk import Disk, FileMissing, folder_of, make_folder_durably, read_if_there, read_whole, replace_durably

log = logs.get("pyromq.store")

STATE_FILE = "pyromq/timers"
CHECK_FILE = "config/timercheck"
_CHECK_FILE_BYTES = 4096

# | read up to 8, ms | timer log synced up to 8 | queue offset 8 | queue offset of the master 8 |
# | state version 8 | time 8, ms | counter 8 |
_CHECK = struct.Struct(">qqqqqqq")


class TimerCheck(NamedTuple):
    """What Java's broker knows. `read_ms` is the first slot that was not delivered."""

    read_ms: int = 0
    log_end: int = 0
    queue_offset: int = 0
    master_queue_offset: int = 0
    state_version: int = 0
    written_ms: int = 0
    counter: int = 0

    def pack(self) -> bytes:
        return _CHECK.pack(*self)


class TimerState(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """What we know. Units from `wheel_end` to `log_end` are on the medium, their slots may not be."""

    precision_ms: int
    read_ms: int
    queue_offset: int  # of the timer topic: everything below it is in the timer log
    log_end: int
    wheel_end: int
    carried_to: int  # records below this place of the commit log were put again, if they waited
    known_before: int  # offsets below this one were in the log before it was made anew
    written_ms: int
    counter: int
    left_until_ms: int = 0  # what is due before this may have left already: the clock was ahead, and was set back
    wheel_checksum: int | None = None  # of what waits from `read_ms` on, once the units up to `log_end` are in it
    waiting: int | None = None  # messages, after a stop alone: a kill may leave counts of before in the wheel


def read_state(disk: Disk) -> TimerState | None:
    """Return our state; None if there never was one or it cannot be read: then the wheel is rebuilt from the log."""
    try:
        return msgspec.json.decode(read_whole(disk, STATE_FILE), type=TimerState)
    except FileMissing:
        return None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as fault:
        log.error("the state of the timer cannot be read", file=STATE_FILE, why=str(fault))
        return None


def write_state(disk: Disk, state: TimerState) -> None:
    replace_durably(disk, STATE_FILE, msgspec.json.encode(state))


def read_check(disk: Disk) -> TimerCheck | None:
    return read_packed(read_if_there(disk, CHECK_FILE) or b"")


def read_packed(raw: bytes) -> TimerCheck | None:
    """Return what `pack` made, from a file or a master's answer; None: it is too short."""
    return TimerCheck(*_CHECK.unpack_from(raw)) if len(raw) >= _CHECK.size else None


def write_check(disk: Disk, check: TimerCheck, *, durably: bool) -> None:
    """Write Java's file in place, within one sector. Synced at the end only: a stale one costs Java repeated work."""
    make_folder_durably(disk, folder_of(CHECK_FILE))
    is_new = not disk.exists(CHECK_FILE)
    with closing(disk.open(CHECK_FILE, create=True)) as file:
        if file.size() < _CHECK_FILE_BYTES:
            file.truncate(_CHECK_FILE_BYTES)
        file.pwrite(0, check.pack())
        if durably:
            file.sync()
    if durably or is_new:
        disk.sync_folder(folder_of(CHECK_FILE))
