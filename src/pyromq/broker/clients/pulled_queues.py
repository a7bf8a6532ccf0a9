"""Which queues members of a group pull: nobody pops those meanwhile, so that each queue changes hands once.

Members hear one after another that their group is to pop, or to pull again, and some may go on as they are. A queue is
a member's from the moment that it asks where to begin there, or pulls it, until it pops the topic itself, leaves the
group, or another member takes the queue. What a member gave up without a word is free after a minute of silence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...ambient import Clock
from ...model.pop_names import retry_topic_v1, retry_topic_v2
from ...transport.peer import Peer
from ..metadata.config_table import Watched
from ..metadata.offsets import SEPARATOR, Offsets
from .consumers import Consumers

SILENT_S = 60.0  # a member that pulls asks again each 20 s, unless its handlers are slow

# Called with a connection, topic and queue: whether a pull of it waits there for messages.
IsWaiting = Callable[[Peer, str, int], bool]


@dataclass(slots=True)
class _Owner:
    peer: Peer
    seen: tuple[int | None, int | None]  # the group's pulled and committed offset when it was heard last
    heard: float


class PulledQueues(Watched):
    """Event loop only. Watchers are called with `topic@group` when a queue is taken or becomes free."""

    def __init__(self, consumers: Consumers, offsets: Offsets, clock: Clock, is_waiting: IsWaiting) -> None:
        super().__init__()
        self._consumers, self._offsets, self._clock = consumers, offsets, clock
        self._is_waiting = is_waiting
        self._owners: dict[str, dict[str, dict[int, _Owner]]] = {}  # by group, topic and queue
        consumers.watch_departures(self._members_left)

    def take(self, peer: Peer, topic: str, group: str, queue_id: int) -> None:
        """Note that a member pulls the queue, or is about to. Others who ask change nothing."""
        if not self._consumers.has_member(group, peer):
            return
        queues = self._owners.setdefault(group, {}).setdefault(topic, {})
        known = queues.get(queue_id)
        if known is not None and known.peer is peer:
            known.heard = self._clock.monotonic()
            return
        queues[queue_id] = _Owner(peer, self._progress(topic, group, queue_id), self._clock.monotonic())
        if known is None:
            self._notify(f"{topic}{SEPARATOR}{group}")

    def is_pulled(self, topic: str, group: str, queue_id: int) -> bool:
        """Return whether a member pulls the queue, so that pops pass it over."""
        topics = self._owners.get(group)
        owner = None if topics is None else topics.get(topic, {}).get(queue_id)
        if owner is None:
            return False
        now, progress = self._clock.monotonic(), self._progress(topic, group, queue_id)
        if progress != owner.seen:
            owner.seen, owner.heard = progress, now
        elif now - owner.heard > SILENT_S:
            if not self._is_waiting(owner.peer, topic, queue_id):
                self._free(group, topic, lambda _, one: one is owner)
                return False
            owner.heard = now
        return True

    def has_any(self, topic: str, group: str) -> bool:
        """Return whether members pull any queue of the topic or of its retry topics."""
        topics = self._owners.get(group)
        return topics is not None and not topics.keys().isdisjoint(_with_retries(topic, group))

    def note_pop(self, peer: Peer, topic: str, group: str) -> None:
        """Free what this member pulled of the topic and its retry topics: it pops now."""
        for name in _with_retries(topic, group) if group in self._owners else ():
            self._free(group, name, lambda _, owner: owner.peer is peer)

    def _members_left(self, group: str) -> None:
        for topic in [*self._owners.get(group, ())]:
            self._free(group, topic, lambda _, owner: not self._consumers.has_member(group, owner.peer))

    def _free(self, group: str, topic: str, is_meant: Callable[[int, _Owner], bool]) -> None:
        topics = self._owners.get(group, {})
        queues = topics.get(topic, {})
        left = {queue_id: owner for queue_id, owner in queues.items() if not is_meant(queue_id, owner)}
        if len(left) == len(queues):
            return
        topics[topic] = left
        if not left:
            del topics[topic]
        if not topics:
            del self._owners[group]
        self._notify(f"{topic}{SEPARATOR}{group}")

    def _progress(self, topic: str, group: str, queue_id: int) -> tuple[int | None, int | None]:
        return self._offsets.pulled(topic, group, queue_id), self._offsets.find(topic, group, queue_id)


def _with_retries(topic: str, group: str) -> tuple[str, str, str]:
    return topic, retry_topic_v1(topic, group), retry_topic_v2(topic, group)
