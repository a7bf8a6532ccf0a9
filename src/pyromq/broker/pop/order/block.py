"""What one pop in order was given of a queue: which messages are acked, and until when the others block the queue.

Pure: time is an argument. `table.py` keeps one block for each queue of a group, `order_pops.py` decides by them.
While a block holds, nobody else gets anything of its queue; once it has ended, the next pop begins at the first message
that was not acked. That one also gets the messages behind it again, acked or not, as from Java's broker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from ....model.wire_text import LONG_MAX

MOST_MESSAGES = 63  # of a block: Java keeps one bit for each in a signed number of 64
NORMAL = 0  # stands in the answer's text for the topic itself: there are no retries of messages in order


class Holder(msgspec.Struct, array_like=True, frozen=True):
    """Who has a message, where order is by message group (`message_groups.py`)."""

    key: str  # the message group
    pop_time: int
    attempt_id: str | None


class Block(msgspec.Struct, array_like=True):
    """Event loop only. `offsets` ascend. Times are ms since 1970. The last three are of order by message group."""

    pop_time: int
    invisible_ms: int
    offsets: tuple[int, ...]
    last_pop_ms: int
    attempt_id: str | None = None
    acked: int = 0  # bit i: offsets[i] is acked
    counts: dict[int, int] | None = None  # by offset: how often it was given before; None: this is the first pop
    visible: dict[int, int] = {}  # by offset: when it may be given again, where that was changed
    groups: dict[int, Holder] = {}  # by offset: who has it
    settled: list[int] = []  # offsets behind the position that are done with
    position: int = -1  # where the group goes on; -1: order is by queue

    @property
    def is_by_group(self) -> bool:
        return self.position >= 0

    def open_offsets(self) -> list[int]:
        """Return the offsets that are not acked."""
        return [offset for bit, offset in enumerate(self.offsets) if not self.acked >> bit & 1]

    @property
    def first_open(self) -> int:
        """Return where the group goes on: the first offset that is not acked, else the one behind the last."""
        if self.is_by_group:
            return self.position
        return next(iter(self.open_offsets()), self.offsets[-1] + 1)

    def visible_at(self, offset: int) -> int:
        return self.visible.get(offset, min(self.pop_time + self.invisible_ms, LONG_MAX))

    @property
    def ends_at(self) -> int:
        """Return when nothing of it blocks any more; 0: everything is acked."""
        return max(map(self.visible_at, self.open_offsets()), default=0)

    def next_end(self, now_ms: int) -> int:
        """Return when something of it may be had next by others; 0: now."""
        if not self.is_by_group:
            return self.ends_at
        return min((self.visible_at(offset) for offset in self.offsets if self.visible_at(offset) > now_ms), default=0)

    def is_blocking(self, attempt_id: str | None, now_ms: int) -> bool:
        """Return whether a pop gets nothing. The attempt that was given this block asks again: it gets the same."""
        if self.attempt_id is not None and self.attempt_id == attempt_id:
            return False
        return now_ms < self.ends_at

    def ack(self, offset: int) -> bool:
        """Note an ack. False: the block does not have that offset."""
        if offset not in self.offsets:
            return False
        self.acked |= 1 << self.offsets.index(offset)
        return True

    def is_passed_by(self, pop_time: int, offset: int) -> bool:
        """Return whether that pop had more than this, which is all acked: a reset has forgotten the rest."""
        return not self.is_by_group and self.pop_time == pop_time and self.offsets[-1] < offset and not self.ends_at

    def change(self, offset: int, visible_at: int) -> None:
        """Set when a message may be given again; what the block does not have changes nothing."""
        if offset in self.offsets:
            self.visible = self.visible | {offset: visible_at}

    def counts_after(self, attempt_id: str | None, offsets: Sequence[int]) -> dict[int, int]:
        """Return how often each of these was given before, if a pop gets them after this block: those above 0."""
        before = self.counts or {}
        if self.attempt_id is not None and self.attempt_id == attempt_id:
            return before
        return {offset: before.get(offset, 0) + 1 for offset in offsets if offset in self.offsets}


def next_block(
    old: Block | None, attempt_id: str | None, offsets: Sequence[int], pop_time: int, invisible_ms: int, now_ms: int
) -> Block:
    """Return the block of a pop that gets these messages."""
    counts = None if old is None else old.counts_after(attempt_id, offsets)
    return Block(pop_time, invisible_ms, tuple(offsets), now_ms, attempt_id, counts=counts)


def count_text(counts: Mapping[int, int], given: int, queue_id: int) -> str:
    """Return what the answer says of a queue: each message that was given before, then the least count of all.

    Old clients read the latter, by the queue's number, for every message of it. `given`: how many there are.
    """
    least = min(counts.values(), default=0) if len(counts) == given else 0
    each = [f"{NORMAL} qo{queue_id}%{offset} {counts[offset]}" for offset in sorted(counts)]
    return ";".join([*each, f"{NORMAL} {queue_id} {least}"])
