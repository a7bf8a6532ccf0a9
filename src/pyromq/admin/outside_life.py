"""What Apache's brokers, which keep no account of a message, tell of its life: where it is stored, and which groups are
past it. Retries, dead letters, transactions and timers of it are not among that. `messages.life` asks ours for all."""

from __future__ import annotations

from typing import Any

from ..model.message import KEY_SEPARATOR, Property, StoredMessage
from . import groups, messages, offsets, search, topics
from .calls import Calls
from .cluster import BrokerPlace


async def lives(calls: Calls, place: BrokerPlace, topic: str, word: str) -> list[dict[str, Any]]:
    """Return the lives of the messages with this id, offset id or key; their shape is that of `messages.life`."""
    one = await search.by_id(calls, [place], topic, word)
    found = [one.message] if one is not None else await _with_key(calls, place, topic, word)
    readers = await _readers(calls, place, topic) if found else []
    return [await _life(calls, place, message, readers) for message in found]


async def _with_key(calls: Calls, place: BrokerPlace, topic: str, key: str) -> list[StoredMessage]:
    """Return the messages that really have the key: the index finds by hash."""
    return [
        message
        for message in await messages.by_key(calls, place.address, topic, key)
        if key in message.properties.get(Property.KEYS, "").split(KEY_SEPARATOR)
    ]


async def _readers(calls: Calls, place: BrokerPlace, topic: str) -> list[str]:
    return [name for name in await topics.groups(calls, place.address, topic) if not groups.is_internal(name)]


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
