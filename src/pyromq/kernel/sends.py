"""What a feed of sends and the broker say to each other: settings in, verdicts asked for; records go by the `Appender`.

The kernel decides nothing; the broker (`broker/send/verdicts.py`) implements `SendHost`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from .state import QueueTail


class Way(NamedTuple):
    """Where a message waits whose property has one value."""

    queue_id: int
    wait_ms: int | None = None  # its queue entry says when it is due, this long after it was stored; None: its tag


class Detour(NamedTuple):
    """Where messages with one property wait before they reach their topic, and what is noted of where that is.

    It covers the usual case. A message that is not of that shape is left to the handlers, which have the whole rule.
    """

    name: bytes  # of the property
    topic: str  # where they wait
    ways: Mapping[bytes, Way]  # by the property's value; any other value is left to the handlers
    topic_name: bytes  # under which names topic, queue and, unless it is empty, unique id are noted
    queue_name: bytes
    id_name: bytes
    without: Sequence[bytes]  # a message with one of these anywhere in its properties is left to the handlers
    cleared_bits: int  # of the system flag: these are no obstacle, and are not stored
    property_bytes: int  # at most, with what is noted

    def noted(self, topic: str, queue_id: int, unique: str) -> dict[str, str]:
        """Return the properties that say where the message belongs."""
        notes = {self.topic_name.decode(): topic, self.queue_name.decode(): str(queue_id)}
        return notes | {self.id_name.decode(): unique} if self.id_name and unique else notes


class SendSettings(NamedTuple):
    """What every plain send shares. A feed is given new ones at once when a setting changes."""

    json: Sequence[bytes]  # an answer in JSON, cut where message id, queue, offset, unique id and opaque stand
    binary: Sequence[bytes]  # fixed part of a binary answer, its region fields, the names of the other four
    special: Sequence[bytes]  # properties that make a message more than plain
    detours: Sequence[Detour]  # that messages with some of these may take
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
    takes_plain: bool = True  # else only messages that take one of the detours
    detours: Collection[bytes] = frozenset()  # by the names of their properties
    tails: dict[int, QueueTail] = field(default_factory=dict, init=False)


class SendHost(Protocol):
    """What a feed asks of the broker, on the event loop, within one call of `feed`."""

    def born_host(self, address: str) -> bytes:
        """Return a peer's address as records hold it."""
        ...

    def judge(self, topic: bytes) -> Grant | None:
        """Return the grant for a topic whose plain sends, or those with a detour, need no check by Python. None: leave
        all of them to Python.

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


class EndRules(NamedTuple):
    """How a half message becomes the one that consumers get: what a kernel must know of it."""

    topic: str  # of half messages
    topic_mark: bytes  # how the properties begin that say where it belongs, and which group sent it
    queue_mark: bytes
    group_mark: bytes
    dropped: Sequence[bytes]  # how those begin that a commit leaves out
    without: Sequence[bytes]  # one with any of these in its properties is left to the handlers
    json: tuple[bytes, bytes]  # the answer to a commit, before and behind the opaque
    binary: bytes  # the same in the other encoding


class EndHost(Protocol):
    """What a feed tells the broker of the ends of transactions."""

    def note_committed(self, offsets: Sequence[int], topics: Sequence[str], born_ms: Sequence[int]) -> None:
        """Note half messages whose commits were stored, by their offsets."""
        ...
