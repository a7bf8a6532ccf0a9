"""What a feed of sends and the broker say to each other: settings in, verdicts asked for; records go by the `Appender`.

The kernel decides nothing; the broker (`broker/send/verdicts.py`) implements `SendHost`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from .state import QueueTail


class SendSettings(NamedTuple):
    """What every plain send shares. A feed is given new ones at once when a setting changes."""

    json: Sequence[bytes]  # an answer in JSON, cut where message id, queue, offset, unique id and opaque stand
    binary: Sequence[bytes]  # fixed part of a binary answer, its region fields, the names of the other four
    special: Sequence[bytes]  # properties that make a message more than plain
    typed_special: Sequence[bytes]  # in topics with attributes, these too, and within a batch
    batch_special: Sequence[bytes]  # within a batch, in topics without attributes
    tail: bytes  # properties that the broker adds
    store_host: bytes
    frame_bytes: int
    header_bytes: int
    body_bytes: int
    property_bytes: int  # as they came
    stored_property_bytes: int  # as they are stored, without the whole-record CRC
    batch_messages: int  # of a batch, whose ids stand in one answer
    with_crc: bool
    waits: bool  # answers wait until the log is readable up to them
    index_keys: bool
    index_tags: bool


@dataclass(slots=True, eq=False, repr=False)
class Grant:
    """A verdict: plain messages for the queues of this topic go straight into the log. The native kernel has a class of
    its own with the same arguments."""

    topic: str
    queues: int
    is_typed: bool = False  # a message with one of `SendSettings.typed_special` is not plain here
    tails: dict[int, QueueTail] = field(default_factory=dict, init=False)


class SendHost(Protocol):
    """What a feed asks of the broker, on the event loop, within one call of `feed`."""

    def born_host(self, address: str) -> bytes:
        """Return a peer's address as records hold it."""
        ...

    def judge(self, topic: bytes) -> Grant | None:
        """Return the grant for a topic whose plain sends need no check by Python; None: leave them to Python.

        It holds until it is revoked (`SendFeed.revoke`).
        """
        ...

    def admit(self) -> bool:
        """Return whether anything may be appended now. Asked where the gate is not open."""
        ...

    def queue(self, topic: str, queue_id: int) -> QueueTail | None:
        """Return the store's queue; None if it has to be made first, or is of another kind."""
        ...

    def note_slow(self, seconds: float, messages: int) -> None:
        """Count messages whose append took a millisecond or more, for the statistics."""
        ...
