"""Messages of a topic: the newest of all its queues, those with a key or an id, the one at a place."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from ....admin import messages as stored
from ....admin import search
from ....admin.cluster import BrokerPlace
from ....admin.finding import bodies, keyed, newest
from ....admin.search import Found, Window
from ....admin.topics import QueueRange
from ....model.message import Property
from ...acting.visitor import Visitor
from ...watch.figures import Unknown
from ..asking import ask_one
from ..missing import NotThere
from ..rows import TopicRow, topic_rows
from .wanted import MessagesQuery, cursor_text, from_cursor, window_of

if TYPE_CHECKING:
    from ...watch.watched import ClusterWatch

MOST_TOPICS = 200  # that are searched for a word of no topic, the busiest first
WITHIN_S = 4.0  # for all of them
OFFERED = 200  # topics to choose from
PREVIEW = 80  # characters of a body


class MessageRow(msgspec.Struct, frozen=True, kw_only=True):
    """`body` is the beginning of its text; None where bodies are hidden."""

    id: str
    topic: str
    broker: str
    queue: int
    offset: int
    offset_id: str
    stored_ms: int
    born_ms: int
    tags: str
    keys: str
    bytes: int
    body: str | None


class MessagesPage(msgspec.Struct, frozen=True, kw_only=True):
    """`by`: time, key or place; empty if nothing was wanted yet. `from_ms` and `to_ms`: how times were understood.
    `examined`: messages that were read for it, `in_range`: that are left from here on, both by time alone. `brokers`:
    who answered; `missing`: who did not, and why. `unqueried`: questions that the time did not suffice for."""

    topic: str
    topics: list[str]
    by: str
    from_ms: int | None
    to_ms: int | None
    zone: str
    rows: list[MessageRow]
    cursor: str = ""
    examined: int | None = None
    in_range: int | None = None
    first: int | None = None
    end: int | None = None
    brokers: list[str] = []
    missing: list[str] = []
    unqueried: int = 0


async def messages(cluster: ClusterWatch, wanted: MessagesQuery, *, visitor: Visitor) -> MessagesPage:
    """Return the messages that are wanted. NotThere: no broker of the snapshot has the topic."""
    window = window_of(wanted, cluster.now_ms())
    known = sorted(topic_rows(cluster.snapshot, system=False), key=_busy)
    row = None if not wanted.topic else topic_of(cluster, wanted.topic)
    if wanted.word:
        found = await _by_word(cluster, wanted, window, [row] if row else known, visitor)
    elif row is None:
        found = _page(wanted, "", window, [])
    elif wanted.offset is not None:
        found = await _by_place(cluster, wanted, window, row, visitor)
    else:
        found = await _by_time(cluster, wanted, window, row, visitor)
    zone = datetime.fromtimestamp(cluster.now_ms() / 1000).astimezone()
    return msgspec.structs.replace(found, topics=[one.name for one in known[:OFFERED]], zone=f"{zone:%Z}")


def topic_of(cluster: ClusterWatch, name: str) -> TopicRow:
    """Return a topic as the snapshot has it, system topics too. NotThere."""
    row = next((one for one in topic_rows(cluster.snapshot, system=True) if one.name == name), None)
    if row is None:
        raise NotThere("topic", name, [one.name for one in topic_rows(cluster.snapshot, system=False)])
    return row


def having(cluster: ClusterWatch, row: TopicRow) -> tuple[list[BrokerPlace], dict[str, str]]:
    """Return the brokers of a topic that answer, and why the others do not."""
    silent = {one.name: one.fault for one in cluster.snapshot.silent if one.name in row.brokers}
    return [place for place in cluster.places if place.name in row.brokers], silent


def missing_of(faults: dict[str, str]) -> list[str]:
    return [f"{name}: {fault}" for name, fault in sorted(faults.items())]


async def _by_time(
    cluster: ClusterWatch, wanted: MessagesQuery, window: Window, row: TopicRow, visitor: Visitor
) -> MessagesPage:
    places, faults = having(cluster, row)
    places = [place for place in places if wanted.broker in ("", place.name)]
    if wanted.cursor:
        window, positions = from_cursor(wanted.cursor, row.name)
        rest, late = _gone_on(cluster, row, positions)
        faults |= late
    else:
        rest, silent = await newest.ranges(cluster.calls, places, row.name, window)
        faults |= silent
    page = await newest.page(cluster.calls, row.name, rest, window, wanted.most)
    found = _page(wanted, "time", window, _rows(page.found, visitor))
    return msgspec.structs.replace(
        found,
        cursor=cursor_text(row.name, window, page.rest),
        examined=page.examined,
        in_range=sum(one.count for one in rest),
        brokers=[place.name for place in places if place.name not in faults | page.faults],
        missing=missing_of(faults | page.faults),
    )


def _gone_on(
    cluster: ClusterWatch, row: TopicRow, positions: dict[tuple[str, int], tuple[int, int]]
) -> tuple[list[QueueRange], dict[str, str]]:
    """Return what the page before has left, also of brokers that are away now. One that was away then has no position
    here: its newest messages would come too late."""
    masters = [one for one in cluster.snapshot.masters if one.name in row.brokers]
    by_name = {one.name: BrokerPlace(one.cluster, one.name, one.id, one.address) for one in masters}
    rest = [
        QueueRange(by_name[broker], queue, first, end)
        for (broker, queue), (first, end) in positions.items()
        if broker in by_name
    ]
    late = by_name.keys() - {broker for broker, _ in positions}
    return rest, dict.fromkeys(late, "it did not answer when this list began: begin anew")


async def _by_word(
    cluster: ClusterWatch, wanted: MessagesQuery, window: Window, rows: Sequence[TopicRow], visitor: Visitor
) -> MessagesPage:
    """Find a key or an id in a topic, or in all of them. An offset id names its broker and place itself."""
    faults = {one.name: one.fault for one in cluster.snapshot.silent}
    at_place = await ask_one("", keyed.at_offset_id(cluster.calls, cluster.places, wanted.word, wanted.topic or None))
    if isinstance(at_place, Found) and wanted.topic in ("", at_place.message.topic):
        found = [at_place]
        hits = keyed.WordHits(found, {}, 0)
    else:
        asked_for = {row.name: having(cluster, row)[0] for row in rows[:MOST_TOPICS]}
        hits = await keyed.everywhere(
            cluster.calls, asked_for, wanted.word, window, cluster.watcher.clock.sleep(WITHIN_S)
        )
    left_out = sum(len(row.brokers) for row in rows[MOST_TOPICS:])
    names = {name for row in rows for name in row.brokers}
    faults = {name: fault for name, fault in (faults | hits.faults).items() if name in names}
    return msgspec.structs.replace(
        _page(wanted, "key", window, _rows(hits.found[: wanted.most], visitor)),
        brokers=sorted(names - faults.keys()),
        missing=missing_of(faults),
        unqueried=hits.unqueried + left_out,
    )


async def _by_place(
    cluster: ClusterWatch, wanted: MessagesQuery, window: Window, row: TopicRow, visitor: Visitor
) -> MessagesPage:
    """Read one offset of a queue, on the named broker or on each that has the queue."""
    places, faults = having(cluster, row)
    if wanted.broker and wanted.broker not in row.brokers:
        raise NotThere("broker of this topic called", wanted.broker, row.brokers)
    places = [place for place in places if wanted.broker in ("", place.name)]
    queue, offset = wanted.queue or 0, wanted.offset or 0
    answers = await asyncio.gather(*(ask_one(one.name, _at(cluster, one, row.name, queue, offset)) for one in places))
    read = [(place, each) for place, each in zip(places, answers, strict=True) if not isinstance(each, Unknown)]
    found = [Found(place, one) for place, page in read for one in page.messages if one.queue_offset == offset]
    return msgspec.structs.replace(
        _page(wanted, "place", window, _rows(found, visitor)),
        first=min((page.first for _, page in read), default=None),
        end=max((page.end for _, page in read), default=None),
        brokers=[place.name for place, _ in read],
        missing=missing_of(faults) + [each.unknown for each in answers if isinstance(each, Unknown)],
    )


async def _at(cluster: ClusterWatch, place: BrokerPlace, topic: str, queue: int, offset: int) -> stored.Page:
    return await stored.read_queue(cluster.calls, place.address, topic, queue, offset, most=1)


def _page(wanted: MessagesQuery, by: str, window: Window, rows: list[MessageRow]) -> MessagesPage:
    return MessagesPage(
        topic=wanted.topic,
        topics=[],
        by=by,
        from_ms=window.begin_ms or None,
        to_ms=window.end_ms,
        zone="",
        rows=rows,
    )


def _rows(found: Sequence[Found], visitor: Visitor) -> list[MessageRow]:
    return [message_row(one, sees_bodies=visitor.sees_bodies) for one in found]


def message_row(found: search.Found, *, sees_bodies: bool) -> MessageRow:
    message = found.message
    return MessageRow(
        id=message.message_id,
        topic=message.topic,
        broker=found.place.name,
        queue=message.queue_id,
        offset=message.queue_offset,
        offset_id=message.offset_id,
        stored_ms=message.store_timestamp,
        born_ms=message.born_timestamp,
        tags=message.tags,
        keys=message.properties.get(Property.KEYS, ""),
        bytes=len(message.body),
        body=bodies.preview(message.body, PREVIEW) if sees_bodies else None,
    )


def _busy(row: TopicRow) -> tuple[bool, float, str]:
    rate = row.in_per_second.value
    return isinstance(rate, Unknown), 0.0 if isinstance(rate, Unknown) else -rate, row.name
