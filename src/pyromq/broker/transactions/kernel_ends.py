"""The broker's side of commits that a native kernel stores: the state of a half message, and its op message, are ours.

The kernel takes the usual commit alone: of an undecided half message that nobody was asked about, by its own group, to
a topic with a verdict on sends. Everything else is `end.py`'s. Event loop only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...protocol.command import Command, Encoding, encode_header
from ...protocol.requests import RequestCode
from ...store.message_store import MessageStore
from ...transport.dispatch import Reply
from ..stats.events import Events
from .half_records import end_rules
from .halves import Halves
from .states import Event

_OPAQUE = 1_999_999_999  # stands for the request's own in a template


class KernelEnds:
    """One listener's. Implements `kernel.sends.EndHost`; `feed` is the kernel's feed of sends."""

    def __init__(self, halves: Halves, store: MessageStore, events: Events, module: Any, feed: Any) -> None:
        self._halves, self._events, self._now_ms = halves, events, halves.access.clock.now_ms
        before, _, behind = _answer(Encoding.JSON).partition(b"%d" % _OPAQUE)
        rules = end_rules((before, behind), _answer(Encoding.ROCKETMQ))
        log = store.commit_log
        feed.commit_halves(module.HalfEnds(self, halves.ledger.states, log.tail, log.sequence.resident(), rules))

    def note_committed(self, offsets: Sequence[int], topics: Sequence[str], born_ms: Sequence[int]) -> None:
        now_ms = self._now_ms()
        for offset, topic, born in zip(offsets, topics, born_ms, strict=True):
            self._events.committed[topic] += 1
            self._events.finishes[topic].note(max(0, now_ms - born) / 1000)
            self._halves.ledger.move(offset, Event.COMMIT)
            self._halves.carried_out(offset)


def _answer(encoding: Encoding) -> bytes:
    request = Command(code=RequestCode.END_TRANSACTION, opaque=_OPAQUE, encoding=encoding)
    return encode_header(Reply().to_command(request))
