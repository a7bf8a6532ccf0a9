"""Queues that appear while groups exist: those groups read them from their first message.

A client that finds no offset of a queue begins where its settings say, by default at the end, and so would miss what
was sent before it noticed the queue. Watches the table of topics: each group gets its offset of a new queue before
anything can be sent there, whether the topic was made larger or made anew while consumers already subscribe to it.

Groups that had consumed a topic of that name when it was deleted read the new one too, although their offsets are gone.
Their consumers that were online still pull from where they were in it, and commit that. The broker sends them to the
first message of the new one. A restart in between changes nothing: whoever pushes to handlers, and so never seeks, is
sent there if it pulls from anywhere else.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ... import logs
from ...model import names
from ...model.group import ConsumeType, MessageModel
from ...store.message_store import MessageStore
from ..metadata.offsets import Offsets
from ..metadata.topics import Topics
from .consumers import Consumers

log = logs.get("pyromq.broker")


@dataclass(slots=True, eq=False, repr=False)
class NewQueues:
    """Event loop only. Topics that were loaded at the start are known: they give nobody an offset."""

    topics: Topics
    offsets: Offsets
    consumers: Consumers
    store: MessageStore
    _readable: dict[str, int] = field(init=False)  # by topic: the number of queues that consumers could read

    def __post_init__(self) -> None:
        self._readable = {name: topic.read_queue_nums for name, topic in self.topics.all().items()}

    def note(self, name: str) -> None:
        """Commit the first offset of each queue that could not be read before, for all groups of this topic.

        Retry topics are left out: every client reads those from the first message anyway.
        """
        topic = self.topics.find(name)
        is_made = name not in self._readable
        before = self._readable.pop(name, 0)
        if topic is None:
            return
        self._readable[name] = topic.read_queue_nums
        new = range(before, max(topic.read_queue_nums, topic.write_queue_nums))
        if not new or names.is_retry(name):
            return
        first = {queue_id: self._first(name, queue_id) for queue_id in new}
        former = self.offsets.take_former_groups(name) if is_made else []
        groups = [
            group
            for group in self._groups(name, former)
            if self.offsets.commit_missing(name, group, first, send=is_made and self._is_pushing(group))
        ]
        if groups:
            log.info("groups read new queues from their first message", topic=name, queues=len(new), groups=len(groups))

    def _groups(self, topic: str, former: list[str]) -> set[str]:
        """Return the groups with an offset of the topic or a consumer of it. Broadcast ones keep their own offsets."""
        found = {*former, *self.offsets.groups_of(topic), *self.consumers.groups_on(topic)}
        return {group for group in found if not self._is_broadcast(group)}

    def _is_broadcast(self, group: str) -> bool:
        online = self.consumers.find(group)
        return online is not None and online.message_model is MessageModel.BROADCASTING

    def _is_pushing(self, group: str) -> bool:
        online = self.consumers.find(group)
        return online is not None and online.consume_type is ConsumeType.PASSIVELY

    def _first(self, topic: str, queue_id: int) -> int:
        """Return the lowest offset: above 0 only for a queue that the topic had before it was made smaller."""
        queue = self.store.queues.get(topic, queue_id)
        return 0 if queue is None else queue.min_offset
