"""What a cut of the log does to files that remember places of it: offsets of groups and delay levels, timers, notes.

`cutting.py` calls `cut_tables` once the queues are cut. Done twice, it changes nothing the second time. Without it a
group that had read what was cut off would not be given what is written there next, and a timer that waits would deliver
another record than its own.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ..model.names import SCHEDULE_TOPIC, TIMER_TOPIC
from ..model.wire_text import whole_number
from .files.disk import Disk, remove_durably
from .queues.queue_table import QueueTable
from .store_files import StoreFiles
from .tables.json_tables import JsonTable
from .tables.quarantine import SECTION as QUARANTINED
from .tables.quarantine import TABLE as QUARANTINE
from .timer.timer_state import read_state, write_state
from .timer.timer_wheel import NAME as WHEEL_FILE

GROUP_OFFSETS = "config/consumerOffset.json"
DELAY_OFFSETS = "config/delayOffset.json"
_OFFSETS = "offsetTable"


def cut_tables(files: StoreFiles, position: int) -> None:
    """Lower every offset to the end of its queue, and forget what speaks of the log from this position on."""
    disk, queues = files.disk, files.queues
    _lower_group_offsets(disk, queues)
    _lower_delay_offsets(disk, queues)
    _forget_quarantined(disk, position)
    _forget_timers(disk, _end(queues, TIMER_TOPIC, 0))


def _end(queues: QueueTable, topic: str, queue_id: int) -> int:
    queue = queues.get(topic, queue_id)
    return 0 if queue is None else queue.next_offset


def _lower_group_offsets(disk: Disk, queues: QueueTable) -> None:
    """Lower what groups have committed. A queue that is not there at all says nothing: its topic may be on the way."""
    if not disk.exists(GROUP_OFFSETS) and not disk.exists(GROUP_OFFSETS + ".bak"):
        return
    table = JsonTable(disk, GROUP_OFFSETS)
    found: Any = table.load().get(_OFFSETS)
    for key, offsets in (found if isinstance(found, dict) else {}).items():
        topic = key.partition("@")[0]
        if not isinstance(offsets, dict):
            continue
        lowered = {number: _lowered(queues, topic, whole_number(str(number)), at) for number, at in offsets.items()}
        if lowered != offsets:
            table.put(_OFFSETS, key, lowered)
    if table.changes:
        table.save()


def _lower_delay_offsets(disk: Disk, queues: QueueTable) -> None:
    if not disk.exists(DELAY_OFFSETS) and not disk.exists(DELAY_OFFSETS + ".bak"):
        return
    table = JsonTable(disk, DELAY_OFFSETS)
    found: Any = table.load().get(_OFFSETS)
    for level, offset in (found if isinstance(found, dict) else {}).items():
        number = whole_number(str(level))
        lowered = _lowered(queues, SCHEDULE_TOPIC, None if number is None else number - 1, offset)
        if lowered != offset:
            table.put(_OFFSETS, level, lowered)
    if table.changes:
        table.save()


def _lowered(queues: QueueTable, topic: str, queue_id: int | None, offset: Any) -> Any:
    queue = None if queue_id is None else queues.get(topic, queue_id)
    return min(offset, queue.next_offset) if queue is not None and isinstance(offset, int) else offset


def _forget_quarantined(disk: Disk, position: int) -> None:
    if not disk.exists(QUARANTINE) and not disk.exists(QUARANTINE + ".bak"):
        return
    table = JsonTable(disk, QUARANTINE)
    for place in table.load().get(QUARANTINED, {}):
        if (whole_number(place) or 0) >= position:
            table.drop(QUARANTINED, place)
    if table.changes:
        table.save()


def _forget_timers(disk: Disk, queue_end: int) -> None:
    """Let the timer's files be made anew from its topic, if they have units of records that are cut off."""
    state = read_state(disk)
    if state is None or state.queue_offset <= queue_end:
        return
    changes = {"queue_offset": 0, "log_end": 0, "wheel_end": 0, "wheel_checksum": None, "waiting": None}
    write_state(disk, msgspec.structs.replace(state, known_before=queue_end, **changes))
    remove_durably(disk, WHEEL_FILE)
