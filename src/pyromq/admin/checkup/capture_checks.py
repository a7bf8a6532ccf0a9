"""A check of `pyromq doctor` that concerns captures of databases: whether they still send their heartbeats.

It goes by what is in the topics, so it knows of captures with heartbeats alone (docs/cdc.md). What a database keeps for
them, its own log above all, `pyromq cdc check` looks at: that takes a user of the database.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from ...model.foreign_text import bounded_line
from ...model.message import Property, StoredMessage
from ...model.wire_text import whole_number
from ...text.values import plural
from .. import messages, offsets
from .checked import GOOD, WARNING, CheckedCluster, CheckResult

_TOPIC_END = "-heartbeat"
_TAG = "heartbeat"
_EVERY_PROPERTY = "cdcEveryS"  # as `cdc/outgoing/heartbeats.py` writes it
_MISSED = 3  # heartbeats that may be late: the machine is busy, or a large transaction is sent
_LATE_S = 30
_END_MESSAGES = 32


async def captures(checked: CheckedCluster) -> AsyncIterator[CheckResult]:
    newest: dict[str, StoredMessage] = {}
    for place in checked.masters:
        for name, config in checked.configs.get(place.name, {}).items():
            if not name.endswith(_TOPIC_END) or checked.topic not in (None, name):
                continue
            for queue_id in range(config.read_queue_nums):
                end = await offsets.end(checked.calls, place.address, name, queue_id)
                first = max(0, end - _END_MESSAGES)
                async for page in messages.pages(checked.calls, place.address, name, queue_id, first, end, tags=_TAG):
                    for each in page.messages:
                        source = each.properties.get(Property.KEYS, "")
                        if source not in newest or newest[source].store_timestamp < each.store_timestamp:
                            newest[source] = each
    late = [each for each in newest.items() if _late_s(checked, each[1])]
    for source, beat in sorted(late):
        shown = bounded_line(source, 60)
        text = f"capture {shown} of a database has sent no heartbeat for {_late_s(checked, beat)} s: it stands still"
        cure = (
            "Look at its log, and at pyromq cdc status on its machine; while it is away, PostgreSQL keeps log for it "
            "until the disk is full"
        )
        yield CheckResult("captures", WARNING, text, cure)
    if newest and not late:
        yield CheckResult("captures", GOOD, f"{plural(len(newest), 'capture')} of databases sent heartbeats in time")


def _late_s(checked: CheckedCluster, beat: StoredMessage) -> int:
    """Return for how many seconds there was no heartbeat, if that is too long; else 0."""
    every = whole_number(beat.properties.get(_EVERY_PROPERTY), 1)
    age_s = (checked.calls.session.clock.now_ms() - beat.store_timestamp) // 1000
    return age_s if every is not None and age_s > _MISSED * every + _LATE_S else 0
