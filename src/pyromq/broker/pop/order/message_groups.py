"""Order by message group instead of by queue (`popOrderByGroup`): a pop holds the groups of what it was given. Pure.

A message's group is its sharding key; messages of a queue without one are a group together. Others may have messages
of other groups meanwhile, so acks leave holes: `settled` are offsets ahead of the consumer group's position that are
done with, acked or not wanted by its filter.
"""

from __future__ import annotations

from collections.abc import Iterable

from .block import Block, Holder

AHEAD = 256  # offsets that a pop looks at, from the position on: nothing further is given before that moves


class Choice:
    """What a pop takes of a queue: it is offered one message after the other, in their order."""

    def __init__(self, old: Block | None, position: int, attempt_id: str | None, now_ms: int) -> None:
        """`old`: the block before, if that was by message group."""
        self._old, self._attempt_id = old, attempt_id
        self._position = position
        self._settled = set() if old is None else {offset for offset in old.settled if offset >= position}
        self._held = set() if old is None else held_groups(old, attempt_id, now_ms)
        self._given: dict[int, str] = {}  # offset -> message group

    @property
    def given(self) -> list[int]:
        return list(self._given)

    @property
    def end(self) -> int:
        """Return the first offset that lies too far ahead."""
        return self._position + AHEAD

    def begin_at(self, offset: int) -> None:
        """Go past what no filter wants, while nobody has anything: it need not be noted one by one."""
        if not self._given and (self._old is None or not self._old.groups):
            self._position = max(self._position, offset)

    def offer(self, offset: int, key: str) -> bool:
        """Return whether the pop gets this message."""
        if offset in self._settled or key in self._held or offset >= self.end:
            return False
        self._given[offset] = key
        return True

    def pass_over(self, offsets: Iterable[int]) -> None:
        """Note offsets that no filter wants, or where nothing is: the group goes past them."""
        held = set() if self._old is None else self._old.groups.keys()
        self._settled.update(at for at in offsets if self._position <= at < self.end and at not in held)

    def block(self, pop_time: int, invisible_ms: int, now_ms: int) -> Block:
        """Return the block after this pop: what was open before, and what is given now."""
        old = self._old
        if old is not None:  # acks may have come while records were read
            self._settled.update(offset for offset in old.settled if offset >= self._position)
        groups = {} if old is None else {at: holder for at, holder in old.groups.items() if at >= self._position}
        visible = {} if old is None else {at: when for at, when in old.visible.items() if at in groups}
        counts = {} if old is None else {at: count for at, count in (old.counts or {}).items() if at in groups}
        for offset, key in self._given.items():
            if offset in self._settled:
                continue
            before = groups.get(offset)
            if before is not None and (self._attempt_id is None or before.attempt_id != self._attempt_id):
                counts[offset] = counts.get(offset, 0) + 1
            groups[offset] = Holder(key, pop_time, self._attempt_id)
            visible[offset] = pop_time + invisible_ms
        block = Block(pop_time, invisible_ms, (), now_ms, self._attempt_id, counts=counts, visible=visible)
        block.groups, block.settled, block.position = groups, sorted(self._settled), self._position
        _advance(block)
        return block

    def pass_on(self, block: Block) -> None:
        """Note in the block before, of a pop that gets nothing, what no filter wants."""
        block.settled = sorted(self._settled.union(block.settled))
        block.position = max(block.position, self._position)
        _advance(block)

    def counts(self, block: Block) -> dict[int, int]:
        """Return how often each message of this pop was given before: those above 0."""
        return {offset: count for offset, count in (block.counts or {}).items() if offset in self._given}


def held_groups(block: Block, attempt_id: str | None, now_ms: int) -> set[str]:
    """Return the message groups that somebody else has."""
    return {
        holder.key
        for offset, holder in block.groups.items()
        if now_ms < block.visible_at(offset) and (attempt_id is None or holder.attempt_id != attempt_id)
    }


def ack_one(block: Block, pop_time: int, offset: int) -> bool:
    """Note an ack. False: the message is not that pop's any more."""
    holder = block.groups.get(offset)
    if holder is None or holder.pop_time != pop_time:
        return False
    del block.groups[offset]
    block.visible.pop(offset, None)
    (block.counts or {}).pop(offset, None)
    block.settled = sorted({*block.settled, offset})
    _advance(block)
    return True


def change_one(block: Block, pop_time: int, offset: int, visible_at: int) -> bool:
    """Set when a message may be given again. False: it is not that pop's any more."""
    holder = block.groups.get(offset)
    if holder is None or holder.pop_time != pop_time:
        return False
    block.visible[offset] = visible_at
    return True


def _advance(block: Block) -> None:
    """Move the position past what is settled, and forget that."""
    settled = set(block.settled)
    while block.position in settled:
        block.position += 1
    block.settled = [offset for offset in block.settled if offset > block.position]
    block.offsets = tuple(sorted(block.groups))
