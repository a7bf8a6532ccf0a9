"""The answer to a pop, read: which receipt each of its messages has, and how often an ordered one came before. Pure.

An answer names its queues in three texts, entries with `;` between them and blanks inside: `0 3 120` in
startOffsetInfo (the read of queue 3 began at 120), `0 3 120,121` in msgOffsetInfo, `0 qo3%121 2` or `0 3 0` in
orderCountInfo. The first field says which topic: the one that was asked for, or a retry topic of the group.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from ...errors import Malformed
from ...model.message import Property, StoredMessage
from ...model.receipt import NORMAL, BadReceipt, Receipt, decode_receipt
from ...model.wire_text import LONG_MAX, whole_number
from ...protocol.headers.pop import PopMessageAnswer

_Queue = tuple[str, int]  # the topic's mark, and the queue's number


def receipts_of(header: PopMessageAnswer, messages: Sequence[StoredMessage], broker: str) -> list[Receipt]:
    """Return the receipt of each message. Malformed says what is wrong with the answer."""
    starts = {queue: _number(value) for queue, value in _entries(header.start_offset_info)}
    marks: dict[tuple[int, int], list[str]] = defaultdict(list)  # by queue and offset
    for (mark, queue_id), value in _entries(header.msg_offset_info):
        for offset in value.split(","):
            marks[queue_id, _number(offset)].append(mark)
    found = []
    for message in messages:
        place = message.queue_id, message.queue_offset
        mark = _mark_of(message, marks.get(place, []))
        start = starts.get((mark, message.queue_id), message.queue_offset)
        found.append(Receipt(start, header.pop_time, header.invisible_time, header.revive_qid, mark, broker, *place))
    return found


def _mark_of(message: StoredMessage, marks: list[str]) -> str:
    """Return which topic a message was popped from. Where both have this queue and offset, its own property says it."""
    if len(marks) == 1:
        return marks[0]
    stamped = message.properties.get(Property.POP_CK)
    if stamped is None:
        return NORMAL
    try:
        return decode_receipt(stamped).retry
    except BadReceipt as fault:
        raise Malformed(str(fault)) from None


def count_repeats(header: PopMessageAnswer, messages: Sequence[StoredMessage]) -> None:
    """Set how often each message of an ordered pop came before: stored records do not know it."""
    counts: dict[str, int] = {}
    for part in (header.order_count_info or "").split(";"):
        fields = part.split(" ")
        if len(fields) == 3:
            counts[fields[1]] = _number(fields[2])
    for message in messages:
        queue_id = message.queue_id
        by_queue = counts.get(str(queue_id), 0)
        message.reconsume_times = counts.get(f"qo{queue_id}%{message.queue_offset}", by_queue)


def _entries(text: str | None) -> Iterator[tuple[_Queue, str]]:
    for part in (text or "").split(";"):
        fields = part.split(" ")
        if len(fields) == 3:
            yield (fields[0], _number(fields[1])), fields[2]
        elif part:
            raise Malformed(f"an entry of an answer to a pop has {len(fields)} fields in place of 3: {part[:100]!r}")


def _number(text: str) -> int:
    found = whole_number(text, -LONG_MAX - 1)
    if found is None:
        raise Malformed(f"an answer to a pop has {text[:40]!r} where a number is needed")
    return found
