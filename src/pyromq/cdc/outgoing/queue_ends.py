"""Ends of queues: what the newest messages there tell of a source. They forget nothing, unlike windows and files.

A capture asks them where nobody knows whether a batch was stored, and how far it was when its state is lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ... import admin
from ...admin.calls import Calls
from ...client.connect.session import Session
from ...model.message import Property, StoredMessage
from ...model.wire_text import whole_number
from ...protocol.bodies.keyed import MessageQueue
from ..events import NUMBER_PROPERTY

_END_MESSAGES = 32  # messages of a queue's end, where others write to it too
_SEARCHED = 3200  # messages of a queue that are searched for one of ours
_ALL = 1 << 30
_OURS = re.compile(r"(?P<producer>.+?)(?::(?P<part>\d+))?/(?P<epoch>\d+)/(?P<number>\d+)(?:/(?P<place>\d+))?")


class Furthest(NamedTuple):
    """How far a source was, as far as queues show it."""

    behind: int = 0  # the highest number that is still there
    epoch: int = 0
    stored: int = 0  # messages that there were ever, those of others too

    @property
    def number(self) -> int:
        """Return a number that no event has. Those of messages that have expired are below their count."""
        return max(self.behind, self.stored)

    def and_also(self, other: Furthest) -> Furthest:
        return Furthest(
            max(self.behind, other.behind), max(self.epoch, other.epoch), self.stored + other.stored
        )  # fmt: skip


async def end_of(session: Session, queue: MessageQueue) -> list[StoredMessage]:
    """Return the newest messages of a queue."""
    calls, address = Calls(session), await session.master(queue)
    end = await admin.offsets.end(calls, address, queue.topic, queue.queue_id)
    return await _read(calls, address, queue, max(0, end - _END_MESSAGES), end)


async def _read(calls: Calls, address: str, queue: MessageQueue, first: int, end: int) -> list[StoredMessage]:
    """Return the messages between two offsets. A broker gives only so many bytes at a time, so it may take several."""
    pages = admin.messages.pages(calls, address, queue.topic, queue.queue_id, first, end)
    return [message async for page in pages for message in page.messages]


async def furthest_in(session: Session, topic: str, producer: str) -> Furthest:
    """Return how far a source was, by the last message of it in each queue of a topic."""
    calls, found = Calls(session), Furthest()
    for queue in (await session.route(topic)).readable:
        address = await session.master(queue)
        end = await admin.offsets.end(calls, address, topic, queue.queue_id)
        found = found.and_also(Furthest(stored=end))
        for first in _backwards(end):
            messages = await _read(calls, address, queue, first, min(end, first + _END_MESSAGES))
            if ours := [each for each in messages if _matched(each, producer) is not None]:
                found = found.and_also(_furthest_by(ours[-1], producer))
                break
    return found


def _backwards(end: int) -> Iterator[int]:
    """Yield where to read from: the end first, then what is before it."""
    return (max(0, first) for first in range(end - _END_MESSAGES, max(-_END_MESSAGES, end - _SEARCHED), -_END_MESSAGES))


def _matched(message: StoredMessage, producer: str) -> re.Match[str] | None:
    found = _OURS.fullmatch(message.properties.get(Property.SEND_ID, ""))
    return found if found is not None and found["producer"] == producer else None


def _furthest_by(message: StoredMessage, producer: str) -> Furthest:
    found = _matched(message, producer)
    number = whole_number(message.properties.get(NUMBER_PROPERTY, ""), 0) or 0
    return Furthest(number + 1, 0 if found is None else whole_number(found["epoch"]) or 0)


def stored_of(messages: Sequence[StoredMessage], producer: str, epoch: int, sequence: int) -> int:
    """Return how many messages of a batch are among those at the end of its queue.

    Something newer of the same producer means that the whole batch is there: batches of a queue follow one another.
    """
    for message in reversed(messages):
        if (found := _matched(message, producer)) is None:
            continue
        other_epoch, number = whole_number(found["epoch"]) or 0, whole_number(found["number"]) or 0
        of = number if found["part"] is None else whole_number(found["part"]) or 0
        if (other_epoch, of) > (epoch, sequence):
            return _ALL
        if (other_epoch, of) == (epoch, sequence):
            return 1 + (number if found["part"] is not None else whole_number(found["place"] or "0") or 0)
        return 0
    return 0
