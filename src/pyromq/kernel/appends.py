"""What a native feed and the broker say to each other: settings in, verdicts asked for, one burst out.

The kernel makes records in memory and decides nothing; the broker (`broker/send/send_verdicts.py`) implements
`AppendHost`, and the store's one writer takes a `Burst` as it takes records: all of it, or none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

KEY_BYTES = 12  # of a hashed key: hash 4, position 8
PAGE_SLOTS = 1024  # slots of an index file that are noted as changed together


class Terms(NamedTuple):
    """Settings that every plain send shares. A feed is given new ones before the next buffer when one changes."""

    json: Sequence[bytes]  # an answer in JSON, cut where message id, queue, offset, unique id and opaque stand
    binary: Sequence[bytes]  # fixed part of a binary answer, its region fields, the names of the other four
    special: Sequence[bytes]  # properties that make a message more than plain
    typed_special: Sequence[bytes]  # in topics that name a type, these besides
    batch_special: Sequence[bytes]  # the same within a batch
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
    lag_ms: float  # an event loop that is later than this has to be asked about
    unflushed_bytes: int  # and so has more than this


class Sights(NamedTuple):
    """The broker's own objects that a feed with `Steps` looks at for each buffer, as they are then.

    If all of them are at ease it need not ask (`AppendHost.open`, `grant`): the answer would be yes. Else it does.
    """

    live: Any  # `config`: the settings, one object until one changes
    find: Callable[[str], Any]  # the topic of a name, one object until it changes
    monotonic: Callable[[], float]
    now_ms: Callable[[], int]
    lag: Any  # `last_ms` and `due` of the event loop
    gate: Any  # `refusal`: why there is no room on disk, or None
    flushed: Any  # the watermark
    intake: Any  # `gathered`: what Python has not put yet


class Burst(NamedTuple):
    """Everything that one received buffer adds to the store."""

    records: memoryview  # one after another from the log's end on; good during the call alone
    last_position: int
    store_time: int
    queues: Sequence[tuple[Any, bytes]]  # a queue, and its new entries
    keys: bytes  # for the index: KEY_BYTES each, in order of position
    messages: int
    counts: Sequence[tuple[str, int, int, int, int]]  # topic, queue, messages, bytes, requests


class AppendHost(Protocol):
    """What a feed asks of the broker, on the event loop, within one call of `feed`."""

    def born_host(self, address: str) -> bytes:
        """A peer's address as records hold it."""
        ...

    def grant(self, topic: bytes) -> Any:
        """The `Grant` for a topic, if plain sends to it need no look; None: leave it to Python."""
        ...

    def open(self) -> tuple[int, int, int] | None:
        """End of the log, bytes that fit into its file, store time. None: nothing may be appended now."""
        ...

    def queue(self, topic: str, queue_id: int) -> Any:
        """The store's queue, with `next_offset`; None if it has to be made first, or is of another kind."""
        ...

    def put(self, burst: Burst) -> bool:
        """Hand it to the writer. False: nothing was stored, Python shall try and say why."""
        ...

    def slow(self, seconds: float, messages: int) -> None:
        """A put by the kernel itself took a millisecond or more: for the statistics."""
        ...
