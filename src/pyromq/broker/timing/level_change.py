"""Which table of delay levels this store was last run with, so that a change is noticed. Called once, at a start."""

from __future__ import annotations

from ... import logs
from ...store.tables.json_tables import JsonTable

log = logs.get("pyromq.broker")

KEY = "messageDelayLevel"


def note_levels(table: JsonTable, levels: str) -> bool:
    """Remember the levels; True if they were others before. Blocking: one small file, when it is new or changed."""
    wanted = " ".join(levels.split())
    before = table.load().get(KEY)
    if before == wanted:
        return False
    table.replace(KEY, wanted)
    table.save()
    if before is None:
        return False
    log.warning(
        "messageDelayLevel has changed: messages that wait keep their time, new ones get the new delays, and so do "
        "retries of consumers (levels 3 and up)",
        before=before,
        now=wanted,
    )
    return True
