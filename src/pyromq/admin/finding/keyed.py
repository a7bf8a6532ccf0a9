"""Messages by a word that people have: a key, the producer's id, or the broker's offset id; and where else it is known.

The index finds by hash, so each hit is compared; and it knows keys by topic, so a word without one means a question for
each topic.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass

from ...model.ids import parse_offset_message_id, unpack_host
from ...model.message import KEY_SEPARATOR, Property, StoredMessage
from ...transport.address import format_address
from .. import messages
from ..calls import Calls
from ..cluster import BrokerPlace
from ..search import Found, Window
from .newest import AT_ONCE, FAULTS

MOST_HITS = 64  # of the index on one broker


@dataclass(frozen=True, slots=True)
class WordHits:
    """`faults`: by broker, why it did not answer. `unqueried`: pairs of topic and broker not reached in time."""

    found: list[Found]
    faults: dict[str, str]
    unqueried: int = 0


async def with_key(
    calls: Calls, place: BrokerPlace, topic: str, key: str, wanted: Window, most: int = MOST_HITS
) -> list[StoredMessage]:
    """Return the messages on one broker that really have the key, or have it as their id."""
    until = messages.FOR_EVER_MS if wanted.end_ms is None else wanted.end_ms
    at = (calls, place.address, topic, key)
    hits = await messages.by_key(*at, begin_ms=wanted.begin_ms, end_ms=until, most=most)
    return [one for one in hits if has_word(one, key)]


def has_word(message: StoredMessage, word: str) -> bool:
    return word in message.properties.get(Property.KEYS, "").split(KEY_SEPARATOR) or message.unique_id == word


async def at_offset_id(
    calls: Calls, places: Sequence[BrokerPlace], word: str, topic: str | None = None
) -> Found | None:
    """Return the message whose place the word names, if it is an offset id of one of these brokers."""
    try:
        at = parse_offset_message_id(word)
        address = format_address(*unpack_host(at.host))
    except ValueError:
        return None
    for place in places:
        if place.address == address:
            message = await messages.at_position(calls, address, at.physical_offset, topic)
            return None if message is None else Found(place, message)
    return None


async def everywhere(
    calls: Calls, topics: Mapping[str, Sequence[BrokerPlace]], word: str, wanted: Window, enough: Awaitable[None]
) -> WordHits:
    """Return the messages with this key or id in any of these topics, each with the brokers that have it.

    Topics stand in the order in which they are asked; those that are left when `enough` ends are counted.
    """
    found, faults = list[Found](), dict[str, str]()
    waiting = [(topic, place) for topic, places in topics.items() for place in places]
    waiting.reverse()
    left = len(waiting)

    async def ask() -> None:
        nonlocal left
        while waiting:
            topic, place = waiting.pop()
            if place.name not in faults:
                try:
                    found.extend(Found(place, one) for one in await with_key(calls, place, topic, word, wanted))
                except FAULTS as fault:
                    faults[place.name] = str(fault)
            left -= 1

    asking = asyncio.gather(*(ask() for _ in range(AT_ONCE)))
    timer = asyncio.ensure_future(enough)
    try:
        await asyncio.wait((asking, timer), return_when=asyncio.FIRST_COMPLETED)
        if asking.done():
            asking.result()
    finally:
        asking.cancel()
        timer.cancel()
        await asyncio.gather(asking, timer, return_exceptions=True)
    return WordHits(newest_first(found), faults, left)


def newest_first(found: Sequence[Found]) -> list[Found]:
    """Return each stored message once, the newest first."""
    once = {(one.place.name, one.message.topic, one.message.queue_id, one.message.queue_offset): one for one in found}
    return sorted(
        once.values(),
        key=lambda one: (one.message.store_timestamp, one.place.name, one.message.queue_id, one.message.queue_offset),
        reverse=True,
    )
