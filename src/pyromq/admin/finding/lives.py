"""The life of a message as each broker knows it: ours by their own account, Apache's by what can be had of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...client.errors import Refused
from ...model.codes import ResponseCode
from .. import messages, search
from ..calls import Calls
from ..cluster import BrokerPlace


@dataclass(frozen=True, slots=True)
class KnownLives:
    """`lives`: in the form of `messages.life`, one for each message that the word leads to. `is_whole`: False of
    Apache's brokers, which keep no account of retries, dead letters, transactions and timers."""

    place: BrokerPlace
    lives: list[dict[str, Any]]
    is_whole: bool


async def on_broker(calls: Calls, place: BrokerPlace, topic: str, word: str) -> KnownLives:
    """Ask one broker for the message with this id, offset id, or key that it alone has. Refused if several have it."""
    try:
        found = await messages.life(calls, place.address, topic, word)
    except Refused as fault:
        if fault.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            raise
        return KnownLives(place, await search.lives(calls, place, topic, word), is_whole=False)
    return KnownLives(place, [] if found is None else [found], is_whole=True)
