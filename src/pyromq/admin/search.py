"""Messages of a topic by time, and one by its id, over all its brokers; and the lives of messages on Apache's brokers.

Those keep no account of a message: they tell where it is stored, and which groups are past it. Retries, dead letters,
transactions and timers of it are not among that. `messages.life` asks ours for all.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..model.ids import parse_offset_message_id, unpack_host
from ..model.message import KEY_SEPARATOR, Property, StoredMessage
from ..transport.address import format_address
from . import groups, messages, offsets, topics
from .calls import Calls
from .cluster import BrokerPlace


@dataclass(frozen=True, slots=True)
class Found:
    place: BrokerPlace
    message: StoredMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What is wanted of a topic: times in ms since 1970, `end_ms` not included."""

    begin_ms: int = 0
    end_ms: int | None = None
    queue_id: int | None = None
    tags: str = "*"


async def by_time(calls: Calls, places: Sequence[BrokerPlace], topic: str, wanted: Window) -> AsyncIterator[Found]:
    """Yield the messages queue by queue, in the order of each."""
    for queue in await topics.queues(calls, places, topic):
        if wanted.queue_id in (None, queue.queue_id):
            async for message in _of_queue(calls, topic, queue, wanted):
                yield Found(queue.place, message)


async def _of_queue(calls: Calls, topic: str, queue: topics.QueueRange, wanted: Window) -> AsyncIterator[StoredMessage]:
    at = (calls, queue.place.address, topic, queue.queue_id)
    first = queue.first
    if wanted.begin_ms:
        first = max(first, await offsets.at_time(*at, wanted.begin_ms))
    async for page in messages.pages(*at, first, queue.end, tags=wanted.tags):
        for message in page.messages:
            if wanted.end_ms is not None and message.store_timestamp >= wanted.end_ms:
                return
            if message.store_timestamp >= wanted.begin_ms:
                yield message


async def by_id(calls: Calls, places: Sequence[BrokerPlace], topic: str, word: str) -> Found | None:
    """Return the message with the producer's id, or with the offset id, which names broker and place itself."""
    for place in places:
        for message in await messages.by_key(calls, place.address, topic, word, most=32, is_id=True):
            if message.unique_id == word:
                return Found(place, message)
    try:
        at = parse_offset_message_id(word)
    except ValueError:
        return None
    address = format_address(*unpack_host(at.host))
    for place in places:  # no other: a producer's id looks the same, and names no broker
        if place.address == address:
            found = await messages.at_position(calls, address, at.physical_offset, topic)
            return None if found is None else Found(place, found)
    return None


async def lives(calls: Calls, place: BrokerPlace, topic: str, word: str) -> list[dict[str, Any]]:
    """Return the lives of the messages with this id, offset id or key; their shape is that of `messages.life`."""
    one = await by_id(calls, [place], topic, word)
    found = [one.message] if one is not None else await _with_key(calls, place, topic, word)
    readers = await topics.groups(calls, place.address, topic) if found else []
    own = [name for name in readers if not groups.is_internal(name)]
    return [await _life(calls, place, message, own) for message in found]


async def _with_key(calls: Calls, place: BrokerPlace, topic: str, key: str) -> list[StoredMessage]:
    """Return the messages that really have the key: the index finds by hash."""
    return [
        message
        for message in await messages.by_key(calls, place.address, topic, key)
        if key in message.properties.get(Property.KEYS, "").split(KEY_SEPARATOR)
    ]


async def _life(calls: Calls, place: BrokerPlace, message: StoredMessage, readers: list[str]) -> dict[str, Any]:
    done = {
        name: await offsets.committed(calls, place.address, name, message.topic, message.queue_id) or 0
        for name in readers
    }
    stored = {
        "atMs": message.store_timestamp,
        "what": "stored",
        "topic": message.topic,
        "queue": message.queue_id,
        "offset": message.queue_offset,
        "offsetId": message.offset_id,
    }
    return {
        "id": message.message_id,
        "topic": message.topic,
        "state": "ready",
        "keys": message.properties.get(Property.KEYS, ""),
        "tags": message.properties.get(Property.TAGS, ""),
        "bornMs": message.born_timestamp,
        "bytes": len(message.body),
        "groups": [
            {"group": name, "state": "consumed" if message.queue_offset < offset else "ready"}
            for name, offset in sorted(done.items())
        ],
        "history": [stored],
    }
