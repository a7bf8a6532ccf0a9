"""The receipt of a popped message: what a client gives back to acknowledge it, or to hide it for longer. Pure.

`start popTime invisibleTime reviveQueue retry broker queue offset`, eight fields with a space between them. It is the
property POP_CK of a popped message and `extraInfo` of requests; receipts of gRPC clients have the message's place in
the commit log as a ninth field. A receipt without the offset (seven fields) names all messages of one answer and queue.
"""

from __future__ import annotations

from typing import NamedTuple

from .wire_text import INT_MAX, LONG_MAX, whole_number

ORDER_REVIVE_QUEUE = 999  # stands in receipts of messages that were popped in order: they have no check point
NORMAL, RETRY_V1, RETRY_V2 = "0", "1", "2"  # the topic that a message was popped from

_LOW = -LONG_MAX - 1


class BadReceipt(ValueError):
    """It is none: it has too few fields, or one that is no number."""


class Receipt(NamedTuple):
    """One popped message. `start` is where the read that found it began; with `pop_time` it names the check point."""

    start: int
    pop_time: int
    invisible_ms: int
    revive_queue: int
    retry: str
    broker: str
    queue_id: int
    offset: int
    position: int = -1  # in the commit log; only gRPC receipts have it

    @property
    def is_ordered(self) -> bool:
        return self.revive_queue == ORDER_REVIVE_QUEUE

    def encode(self) -> str:
        """Return the eight fields: what remoting clients and stored records have."""
        return " ".join(
            (
                f"{self.start} {self.pop_time} {self.invisible_ms} {self.revive_queue}",
                f"{self.retry} {self.broker} {self.queue_id} {self.offset}",
            )
        )

    def encode_with_position(self) -> str:
        """Return the nine fields of a gRPC receipt."""
        return f"{self.encode()} {self.position}"


def decode_receipt(text: str, offset: int = -1) -> Receipt:
    """Decode a receipt of seven to nine fields; `offset` stands for the eighth where it is missing. BadReceipt."""
    fields = text.split(" ")
    if len(fields) < 7:
        raise BadReceipt(f"a receipt has 8 fields, this one has {len(fields)}: {text[:200]!r}")
    numbers = [_number(fields, at, INT_MAX if at in (3, 6) else LONG_MAX) for at in (0, 1, 2, 3, 6)]
    start, pop_time, invisible_ms, revive_queue, queue_id = numbers
    its_offset = _number(fields, 7, LONG_MAX) if len(fields) > 7 else offset
    position = whole_number(fields[8]) if len(fields) > 8 else None
    return Receipt(
        start,
        pop_time,
        invisible_ms,
        revive_queue,
        fields[4],
        fields[5],
        queue_id,
        its_offset,
        -1 if position is None else position,
    )


def _number(fields: list[str], at: int, high: int) -> int:
    found = whole_number(fields[at], _LOW, high)
    if found is None:
        raise BadReceipt(f"field {at + 1} of the receipt is no number: {fields[at][:40]!r}")
    return found
