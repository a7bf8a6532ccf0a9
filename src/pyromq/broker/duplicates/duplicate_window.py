"""The duplicate window: which sends of whom were stored, and where. Pure; `send_once.py` asks it before a put.

A send is known by (producer, epoch, sequence). The table is derived: what it holds stands in the log as a property of
each message, and `duplicate_recovery.py` makes it again from there. Memory is bounded by messages and by age.

Times are of a monotonic clock: with the wall clock an hour ahead, here or at the broker that led before, everything
would be forgotten at once, and a repeat be stored.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from ...errors import RequestRefused
from ...kernel.records import Placed
from ...model.codes import ResponseCode
from ...model.message import Property
from ...model.names import DLQ_PREFIX, RETRY_PREFIX
from ...protocol.properties import find_property

SEND_ID = Property.SEND_ID.encode()

# producer / epoch / sequence, and in the log of a batch: / number within it
_SEND_ID = re.compile(rb"([A-Za-z0-9_.:@%|-]{1,128})/(\d{1,18})/(\d{1,18})(?:/(\d{1,6}))?")


class SendId(NamedTuple):
    """One send of one producer. Who takes over a producer's name takes the next epoch."""

    producer: bytes
    epoch: int
    sequence: int

    def text(self, number: int | None = None) -> bytes:
        """Return the property's value; `number` is a message's place in its batch."""
        value = b"%s/%d/%d" % self
        return value if number is None else b"%s/%d" % (value, number)


def read_send_id(properties: bytes) -> tuple[SendId, int | None] | None:
    """Return the identity in a property string and the place in the batch. ValueError if it is malformed."""
    value = find_property(properties, SEND_ID)
    if value is None:
        return None
    found = _SEND_ID.fullmatch(value)
    if found is None:
        raise ValueError(value.decode("utf-8", "replace"))
    producer, epoch, sequence, number = found.groups()
    return SendId(producer, int(epoch), int(sequence)), None if number is None else int(number)


def is_sent_on(topic: str) -> bool:
    """Return whether it is of retries or dead letters: they carry the properties of a message, and are no repeats."""
    return topic.startswith((RETRY_PREFIX, DLQ_PREFIX))


@dataclass(slots=True, eq=False, repr=False)
class Known:
    """A send that was seen. `waiting` is a list exactly while its outcome is not known yet."""

    topic: str
    time_ms: int
    places: tuple[Placed, ...] = ()
    waiting: list[Callable[..., None]] | None = None


@dataclass(slots=True)
class _Producer:
    epoch: int
    known: int = 0  # sends of it in the table
    floor: int = -1  # highest sequence of this epoch that the table had to forget


@dataclass(slots=True)
class DuplicateTable:
    """Event loop only. Sends are kept in the order in which they came; the oldest go first."""

    most_messages: int
    window_ms: int
    messages: int = 0
    _sends: OrderedDict[SendId, Known] = field(default_factory=OrderedDict)
    _producers: dict[bytes, _Producer] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._sends)

    @property
    def producers(self) -> int:
        return len(self._producers)

    def find(self, identity: SendId, topic: str, now_ms: int) -> Known | None:
        """Return the first send of this identity; None if it is new. RequestRefused if it must be neither."""
        self._forget_old(now_ms)
        producer = self._producers.get(identity.producer)
        if producer is None or identity.epoch > producer.epoch:
            return None
        name = identity.producer.decode()
        if identity.epoch < producer.epoch:
            raise RequestRefused(
                f"producer {name} is fenced: it sends with epoch {identity.epoch}, and another took over its name with "
                f"epoch {producer.epoch}",
                ResponseCode.ILLEGAL_OPERATION,
            )
        known = self._sends.get(identity)
        if known is None and identity.sequence <= producer.floor:
            raise RequestRefused(
                f"sequence {identity.sequence} of producer {name} is older than what the duplicate window remembers: "
                "whether it was stored before cannot be told; ask for it by its key, or raise duplicateWindowMessages",
                ResponseCode.MESSAGE_ILLEGAL,
            )
        if known is not None and known.topic != topic:
            raise RequestRefused(
                f"sequence {identity.sequence} of producer {name} was sent to topic {known.topic} before, now to "
                f"{topic}: a repeat goes where the first one went, and a new message has a new sequence",
                ResponseCode.MESSAGE_ILLEGAL,
            )
        return known

    def begin(self, identity: SendId, topic: str, now_ms: int) -> Known:
        """Note that a new send is under way. `stored` or `failed` follows."""
        producer = self._producers.get(identity.producer)
        if producer is None:
            producer = self._producers[identity.producer] = _Producer(identity.epoch)
        elif identity.epoch > producer.epoch:
            producer.epoch, producer.floor = identity.epoch, -1
        producer.known += 1
        known = self._sends[identity] = Known(topic, now_ms, waiting=[])
        return known

    def stored(self, known: Known, places: tuple[Placed, ...]) -> None:
        """Note that its messages are in the log, behind those that were there already."""
        known.places += tuple([_lean(placed) for placed in places])
        known.waiting = None
        self.messages += len(places)
        self._evict()

    def failed(self, identity: SendId, known: Known) -> None:
        """Note that nothing was stored now. What was stored before, a part of a batch, is remembered."""
        known.waiting = None
        if not known.places and self._sends.get(identity) is known:
            self._remove(identity, known)

    def rebuild(self, identity: SendId, number: int | None, placed: Placed, now_ms: int) -> None:
        """Note a record, in the order of the log. The first with an identity counts, others are copies of it.

        It is remembered as long as if it had come now: how old it is nobody can tell for sure."""
        known = self._sends.get(identity)
        if known is None:
            if number or self._is_past(identity):
                return
            known = self.begin(identity, placed.topic, now_ms)
        elif known.topic != placed.topic or number != len(known.places):
            return
        self.stored(known, (placed,))

    def _is_past(self, identity: SendId) -> bool:
        producer = self._producers.get(identity.producer)
        return producer is not None and (identity.epoch, identity.sequence) <= (producer.epoch, producer.floor)

    def _forget_old(self, now_ms: int) -> None:
        while self._sends:
            known = next(iter(self._sends.values()))
            if known.waiting is not None or known.time_ms > now_ms - self.window_ms:
                return
            self._forget_first()

    def _evict(self) -> None:
        while self.messages > self.most_messages and len(self._sends) > 1:
            if next(iter(self._sends.values())).waiting is not None:
                return  # soon it will not, and the next send comes here again
            self._forget_first()

    def _forget_first(self) -> None:
        identity = next(iter(self._sends))
        producer = self._producers[identity.producer]
        if identity.epoch == producer.epoch:
            producer.floor = max(producer.floor, identity.sequence)
        self._remove(identity, self._sends[identity])

    def _remove(self, identity: SendId, known: Known) -> None:
        del self._sends[identity]
        self.messages -= len(known.places)
        producer = self._producers[identity.producer]
        producer.known -= 1
        if not producer.known:
            del self._producers[identity.producer]


def _lean(placed: Placed) -> Placed:
    """Return what an answer needs: the properties of a hundred thousand messages need not stay in memory."""
    return Placed(*placed[:8], b"", placed[9])
