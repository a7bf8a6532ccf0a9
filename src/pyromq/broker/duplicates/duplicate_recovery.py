"""The duplicate window after a start: made again from the end of the log. Blocking, before the broker serves anyone.

Called once by the composition root where the window is on. The log is read from the first record that is young enough
beside its last one, which is searched by halving, since a file may be far larger than what was sent within the window.
Some of its end is read whatever the times say: a broker whose clock was wrong may have written the last ones.
"""

from __future__ import annotations

from ... import logs
from ...kernel.records import DelayLevels, Placed
from ...store.log.commit_log import CommitLog
from ...store.log.log_walk import LogWalk
from .duplicate_window import DuplicateTable, is_sent_on, read_send_id

log = logs.get("pyromq.broker")

_NEAR = 4 << 20  # bytes that are rather read than halved again
_ALWAYS = 8 << 20  # bytes at the log's end that are read at least


def rebuild_window(table: DuplicateTable, commit_log: CommitLog, delays: DelayLevels, now_ms: int) -> None:
    """Fill the table. `now_ms` is of the clock that the table goes by."""
    start = min(
        find_start(commit_log, delays, commit_log.tail.last_time - table.window_ms),
        _start_of_end(commit_log, delays),
    )
    records = 0
    for found in LogWalk(commit_log.sequence, delays, start, lambda fault: fault.position >= commit_log.end):
        if not isinstance(found, Placed) or is_sent_on(found.topic):
            continue
        records += 1
        try:
            send_id = read_send_id(found.properties)
            if send_id is not None:
                table.rebuild(*send_id, found, now_ms)
        except ValueError:
            continue  # stored while the window was off, when nobody looked
        except Exception:
            log.exception("a record is left out of the duplicate window", position=found.position)
    log.info("duplicate window made from the log", start=start, records=records, sends=len(table))


def find_start(commit_log: CommitLog, delays: DelayLevels, since_ms: int) -> int:
    """Return a position before which everything is older. Not always the last such position, never too late."""
    low = commit_log.start
    for base in commit_log.sequence.bases:
        first = commit_log.store_time_at(base) if base < commit_log.end else None
        if first is not None and first < since_ms:
            low = base
    high = min(low + commit_log.file_bytes, commit_log.end)
    while high - low > _NEAR:
        middle = (low + high) // 2
        found = _first_from(commit_log, delays, middle, high)
        if found is None or found.store_time >= since_ms:
            high = middle
        else:
            low = found.position
    return low


def _start_of_end(commit_log: CommitLog, delays: DelayLevels) -> int:
    """Return where a record begins, with about so many bytes behind it as are always read."""
    if commit_log.end - commit_log.start <= _ALWAYS:
        return commit_log.start
    found = _first_from(commit_log, delays, commit_log.end - _ALWAYS, commit_log.end)
    return commit_log.start if found is None else found.position


def _first_from(commit_log: CommitLog, delays: DelayLevels, start: int, end: int) -> Placed | None:
    """Return the first whole record at or behind a position that need not be the start of one."""
    for found in LogWalk(commit_log.sequence, delays, start, lambda fault: fault.position >= end):
        if isinstance(found, Placed):
            return found if found.position < end else None
    return None
