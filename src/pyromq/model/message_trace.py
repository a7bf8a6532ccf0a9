"""What clients reported of messages in the trace topic, and one message's trace put together from it. Pure.

`protocol/trace.py` reads and writes the events; whoever asks for a trace queries the trace topic by message id or key,
decodes what comes and calls `assemble`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum


class MessageKind(Enum):
    NORMAL = 0
    HALF = 1
    COMMITTED = 2
    DELAYED = 3
    ORDERED = 4


class ConsumeOutcome(Enum):
    """How a listener ended."""

    SUCCESS = 0
    TIME_OUT = 1
    EXCEPTION = 2
    RETURNED_NULL = 3
    FAILED = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """`time_ms` is 0 where a client did not say."""

    message_id: str
    time_ms: int = 0
    region: str = ""
    group: str = ""
    keys: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent(Traced):
    topic: str
    tags: str = ""
    store_host: str = ""
    body_length: int = 0
    cost_ms: int = 0
    kind: MessageKind = MessageKind.NORMAL
    offset_id: str = ""
    success: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionEnded(Traced):
    topic: str
    tags: str = ""
    store_host: str = ""
    kind: MessageKind = MessageKind.COMMITTED
    transaction_id: str = ""
    state: str = ""
    from_check: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeStarted(Traced):
    request_id: str
    retries: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumed(Traced):
    request_id: str
    cost_ms: int = 0
    success: bool = True
    outcome: ConsumeOutcome = ConsumeOutcome.SUCCESS


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled(Traced):
    topic: str
    success: bool = True


@dataclass(frozen=True, slots=True)
class Delivery:
    """One delivery to a group. `after` is None while the listener is at work, or its client died in it."""

    group: str
    before: ConsumeStarted | None
    after: Consumed | None

    @property
    def time_ms(self) -> int:
        return self.before.time_ms if self.before is not None else self.after.time_ms if self.after is not None else 0


@dataclass(frozen=True, slots=True)
class MessageTrace:
    """All that is known of one message, in order of time."""

    message_id: str
    sent: tuple[Sent, ...]
    ends: tuple[TransactionEnded, ...]
    recalls: tuple[Recalled, ...]
    deliveries: tuple[Delivery, ...]


def assemble(events: Iterable[Traced], message_id: str) -> MessageTrace:
    """Return the trace of one message; events of others, which share trace messages with it, are left out."""
    own = sorted((event for event in events if is_about(event, message_id)), key=lambda event: event.time_ms)
    return MessageTrace(
        message_id,
        tuple(event for event in own if isinstance(event, Sent)),
        tuple(event for event in own if isinstance(event, TransactionEnded)),
        tuple(event for event in own if isinstance(event, Recalled)),
        _deliveries(own),
    )


def stories(events: Iterable[Traced], word: str) -> list[MessageTrace]:
    """Return the trace of the message with this id, or else of those with this key; empty if nobody traced it."""
    known = list(events)
    ids = [word] if any(is_about(event, word) for event in known) else message_ids(known, word)
    return [assemble(known, one) for one in ids]


def message_ids(events: Iterable[Traced], key: str) -> list[str]:
    """Return ids of the messages with a key, in order of their first event: a query by key finds these first."""
    found = [event for event in events if key in event.keys.split()]
    return list(dict.fromkeys(event.message_id for event in sorted(found, key=lambda event: event.time_ms)))


def is_about(event: Traced, message_id: str) -> bool:
    """Return whether the event is about this message, by the client's id or by the offset id."""
    return message_id == event.message_id or (isinstance(event, Sent) and message_id == event.offset_id != "")


def _deliveries(events: Iterable[Traced]) -> tuple[Delivery, ...]:
    """Return the deliveries. Both halves of one carry the same request id; clients may have lost either."""
    befores: dict[str, ConsumeStarted] = {}
    afters: dict[str, Consumed] = {}
    for event in events:
        if isinstance(event, ConsumeStarted):
            befores[event.request_id] = event
        elif isinstance(event, Consumed):
            afters[event.request_id] = event
    joined = [_delivery(befores.get(one), afters.get(one)) for one in dict.fromkeys((*befores, *afters))]
    return tuple(sorted(joined, key=lambda delivery: delivery.time_ms))


def _delivery(before: ConsumeStarted | None, after: Consumed | None) -> Delivery:
    group = before.group if before is not None else after.group if after is not None else ""
    return Delivery(group, before, after)
