"""One message: what became of it, where it is, its properties, its body."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ....admin import search
from ....admin.cluster import BrokerPlace
from ....admin.finding import keyed
from ....admin.finding.bodies import decoded
from ....admin.finding.lives import KnownLives, on_broker
from ....admin.search import Found
from ....model.ids import host_text
from ....model.message import StoredMessage
from ...acting.visitor import Visitor
from ...watch.figures import Unknown
from ..asking import ask_one
from ..missing import NotThere
from .listed import having, missing_of, topic_of

if TYPE_CHECKING:
    from ...watch.watched import ClusterWatch


class MessageQuery(msgspec.Struct, frozen=True, kw_only=True):
    """`body`: how it is shown; without it as the first of the three that fits."""

    body: Literal["", "json", "text", "hex"] = ""


class LifeShown(msgspec.Struct, frozen=True, kw_only=True):
    """Where a message is, by itself (`group` is empty) or with a group, in the words of `pyromq msg get`. `retry`: how
    many attempts there were, `until_ms`: when it goes on, `leaves_ms`: when it is deleted."""

    group: str
    state: str
    reason: str
    retry: int | None
    checks: int | None
    at_ms: int | None
    until_ms: int | None
    leaves_ms: int | None
    overdue: bool


class LifeEvent(msgspec.Struct, frozen=True, kw_only=True):
    at_ms: int
    what: str
    group: str
    retry: int | None
    until_ms: int | None
    broker: str
    topic: str
    queue: int
    offset: int
    offset_id: str


class BodyShown(msgspec.Struct, frozen=True, kw_only=True):
    """`kind`: json, text, hex or empty. `shown` of `size` bytes are in `text`. `kinds`: how else it can be shown."""

    kind: str
    text: str
    shown: int
    size: int
    kinds: list[str]


class MessagePlace(msgspec.Struct, frozen=True, kw_only=True):
    broker: str
    topic: str
    queue: int
    offset: int
    offset_id: str
    position: int
    stored_ms: int
    born_ms: int
    born_host: str
    store_host: str
    reconsumed: int


class MessagePage(msgspec.Struct, frozen=True, kw_only=True):
    """`is_whole`: False of Apache's brokers, which tell neither retries nor dead letters, transactions and timers.
    `place`: of the copy whose properties and body these are; None if no copy is left. `body` is None where it is
    hidden, too. `missing`: brokers that did not answer, and why: the message may be there."""

    id: str
    topic: str
    keys: str
    tags: str
    bytes: int
    life: LifeShown | None
    groups: list[LifeShown]
    history: list[LifeEvent]
    is_whole: bool
    place: MessagePlace | None
    properties: dict[str, str]
    body: BodyShown | None
    is_body_hidden: bool
    missing: list[str]


class MessageNotThere(NotThere):
    """No broker that answered knows it. The text names them, and those that did not answer."""

    def __init__(self, topic: str, word: str, answered: Sequence[str], missing: Sequence[str]) -> None:
        super().__init__("message", word, ())
        known = ", ".join(answered) or "no broker: none answered"
        may_be = "".join(f". {text}: the message may be there" for text in missing)
        self.args = (f"there is no message {word!r} of the topic {topic} on {known}{may_be}",)


async def message(
    cluster: ClusterWatch, topic: str, word: str, wanted: MessageQuery, *, visitor: Visitor
) -> MessagePage:
    """Return a message by its id or offset id. NotThere: no such topic, or no broker that answered knows it."""
    places, faults = having(cluster, topic_of(cluster, topic))
    answers = await asyncio.gather(*(ask_one(one.name, on_broker(cluster.calls, one, topic, word)) for one in places))
    known = [each for each in answers if isinstance(each, KnownLives)]
    missing = missing_of(faults) + [each.unknown for each in answers if isinstance(each, Unknown)]
    lives = [(one, life) for one in known for life in one.lives]
    found = await find(cluster, places, topic, word, [life for _, life in lives])
    if not lives and found is None:
        raise MessageNotThere(topic, word, [one.place.name for one in known], missing)
    return _page(topic, word, lives, found, missing, visitor, wanted.body)


async def find(
    cluster: ClusterWatch, places: Sequence[BrokerPlace], topic: str, word: str, lives: Sequence[Mapping[str, Any]]
) -> Found | None:
    """Return a stored copy: the one in its topic, else the newest that its life knows of."""
    hits = await asyncio.gather(*(ask_one(one.name, search.by_id(cluster.calls, [one], topic, word)) for one in places))
    found = next((each for each in hits if isinstance(each, Found)), None)
    if found is not None:
        return found
    places_of_copies = [step["offsetId"] for life in lives for step in life.get("history", ())]
    for offset_id in reversed(places_of_copies):
        copy = await ask_one("", keyed.at_offset_id(cluster.calls, cluster.places, offset_id))
        if isinstance(copy, Found):
            return copy
    return None


def _page(
    topic: str,
    word: str,
    lives: Sequence[tuple[KnownLives, Mapping[str, Any]]],
    found: Found | None,
    missing: list[str],
    visitor: Visitor,
    kind: str,
) -> MessagePage:
    """Put brokers with a copy first: one that never had the message may know from its id that it is too old."""
    with_copies = [pair for pair in lives if pair[1].get("history")]
    own = next((life for _, life in with_copies or lives), {})
    stored = None if found is None else found.message
    return MessagePage(
        id=str(own.get("id") or word),
        topic=topic,
        keys=str(own.get("keys") or ""),
        tags=str(own.get("tags") or ""),
        bytes=own.get("bytes") or (0 if stored is None else len(stored.body)),
        life=_life(own) if own else None,
        groups=[_life(each) for _, life in with_copies for each in life.get("groups", ())],
        history=sorted(
            (_event(known.place.name, each) for known, life in with_copies for each in life["history"]),
            key=lambda event: event.at_ms,
        ),
        is_whole=all(known.is_whole for known, _ in lives) and bool(lives),
        place=None if found is None else _place(found),
        properties={} if stored is None else dict(sorted(stored.properties.items())),
        body=_body(stored, kind) if stored is not None and visitor.sees_bodies else None,
        is_body_hidden=not visitor.sees_bodies,
        missing=missing,
    )


def _life(one: Mapping[str, Any]) -> LifeShown:
    return LifeShown(
        group=str(one.get("group") or ""),
        state=str(one["state"]),
        reason=str(one.get("reason") or ""),
        retry=one.get("retry"),
        checks=one.get("checks"),
        at_ms=one.get("atMs"),
        until_ms=one.get("untilMs"),
        leaves_ms=one.get("leavesMs"),
        overdue=bool(one.get("overdue")),
    )


def _event(broker: str, one: Mapping[str, Any]) -> LifeEvent:
    return LifeEvent(
        at_ms=one["atMs"],
        what=one["what"],
        group=str(one.get("group") or ""),
        retry=one.get("retry"),
        until_ms=one.get("untilMs"),
        broker=broker,
        topic=one["topic"],
        queue=one["queue"],
        offset=one["offset"],
        offset_id=one["offsetId"],
    )


def _place(found: Found) -> MessagePlace:
    stored = found.message
    return MessagePlace(
        broker=found.place.name,
        topic=stored.topic,
        queue=stored.queue_id,
        offset=stored.queue_offset,
        offset_id=stored.offset_id,
        position=stored.physical_offset,
        stored_ms=stored.store_timestamp,
        born_ms=stored.born_timestamp,
        born_host=host_text(stored.born_host),
        store_host=host_text(stored.store_host),
        reconsumed=stored.reconsume_times,
    )


def _body(stored: StoredMessage, kind: str) -> BodyShown:
    found = decoded(stored.body, kind)
    return BodyShown(kind=found.kind, text=found.text, shown=found.shown, size=found.size, kinds=list(found.kinds))
