"""What a group's subscription makes of queue entries, for whoever looks at a queue (request 321)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ...protocol.bodies.heartbeat import SubscriptionData
from ...protocol.properties import decode_properties
from ...store.layout import QueueEntry
from ...store.message_store import MessageStore
from ...transport.turns.slices import Slices
from ..filters.filters import RecordFilter, codes_of, is_by_tags


async def entry_matches(
    store: MessageStore,
    entries: Sequence[QueueEntry],
    wanted: SubscriptionData | None,
    record_filter: RecordFilter | None,
    slices: Slices,
) -> list[bool]:
    """Return which entries match, as a pull would pick them.

    Nothing matches for a group that is not online, or whose expression is not known.
    """
    if wanted is None:
        return [False] * len(entries)
    if is_by_tags(wanted.expression_type):
        codes = codes_of(wanted)
        return [codes is None or one.tag_code in codes for one in entries]
    if record_filter is None:
        return [False] * len(entries)
    found = []
    async for one in slices.each(entries):
        record = await store.ask(partial(store.reader.record_at, one.position))
        found.append(record is not None and record_filter.accepts_properties(decode_properties(record.properties)))
    return found
