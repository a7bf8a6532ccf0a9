"""What an elected set's store shows when it is opened: what its set had confirmed, as the checkpoint says.

The log may go on behind that: records which this replica has and others may lack. Nobody reads them before they are
confirmed, or cut off.
"""

from __future__ import annotations

from ...kernel.records import DelayLevels, Placed
from ..epochs import load_epochs
from ..files.disk import Disk
from ..queues.queue_table import QueueTable
from ..recovery.checkpoint import read_checkpoint
from .commit_log import CommitLog
from .log_walk import LogWalk
from .watermarks import Watermarks


def confirmed_at_start(disk: Disk, log: CommitLog) -> int:
    """Return up to where the log was confirmed; all of it in a store that no elected set has had."""
    if not load_epochs(disk).entries:
        return log.end
    return max(log.start, min(read_checkpoint(disk).confirmed, log.end))


def hide_unconfirmed(log: CommitLog, queues: QueueTable, watermarks: Watermarks, delays: DelayLevels) -> None:
    """Let queues end before the first record that is not confirmed; they follow when it is. Reads that part of the log.

    `watermarks`: those of this log, which begin with what is confirmed."""
    arrivals = watermarks.arrivals
    for found in LogWalk(log.sequence, delays, watermarks.readable.value):
        if not isinstance(found, Placed):
            continue
        if found.position >= log.end:
            break
        queue = queues.get(found.topic, found.queue_id) if found.in_queue else None
        if queue is not None:
            hidden = max(queue.min_offset, found.queue_offset)
            queue.tail.readable_end = min(queue.tail.readable_end, hidden)
            arrivals.waiting.append((found.end, queue.tail, found.queue_offset + found.messages))
