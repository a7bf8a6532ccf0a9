"""What a group would get without taking it: checks and positions for peeks, notifications and counts of those who wait.

Nothing here changes anything, but that a group may be made by asking, as by a pop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ....config import Live
from ....errors import RequestRefused
from ....model import pop_names
from ....model.codes import ResponseCode
from ....model.topic import Perm
from ....protocol.bodies.topics import TopicConfig
from ....store.message_store import MessageStore
from ....transport.peer import Peer
from ...clients.pulled_queues import PulledQueues
from ...config import BrokerConfig
from ...metadata.offsets import Offsets
from ...metadata.topics import Topics
from ..checks import PopChecks, QueueHeader
from ..young.lanes import Lanes


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Glances:
    """Event loop only."""

    live: Live[BrokerConfig]
    topics: Topics
    checks: PopChecks
    store: MessageStore
    lanes: Lanes
    offsets: Offsets
    pulled: PulledQueues

    def check(self, asked: QueueHeader, peer: Peer, fields: Mapping[str, str]) -> TopicConfig:
        """Return the topic. RequestRefused has the code and words of Java's broker, and these fields."""
        config = self.live.config
        try:
            if not config.broker_permission & Perm.READ:
                raise RequestRefused(
                    f"the broker[{config.advertised_host}] peeking message is forbidden", ResponseCode.NO_PERMISSION
                )
            topic = self.checks.topic(asked, peer)
            self.checks.group(asked, config)
        except RequestRefused as refusal:
            raise RequestRefused(str(refusal), refusal.code, dict(fields)) from None
        return topic

    def retry_topics(self, topic: str, group: str) -> Iterator[TopicConfig]:
        """Return the group's retry topics of a topic that are there, the form in use first."""
        config = self.live.config
        forms = [config.enable_retry_topic_v2]
        if config.enable_retry_topic_v2 and config.retrieve_message_from_pop_retry_topic_v1:
            forms.append(False)
        for v2 in forms:
            found = self.topics.find(pop_names.retry_topic(topic, group, v2=v2))
            if found is not None:
                yield found

    def position(self, topic: str, group: str, queue_id: int) -> int:
        """Return where the group's next pop would read; the first message for a group that never popped there."""
        lane = self.lanes.find(group, topic, queue_id)
        if lane is not None:
            offset: int = self.lanes.table.next_offset(lane)
            return offset
        committed = self.offsets.find(topic, group, queue_id)
        return self._low(topic, queue_id) if committed is None else committed

    def _low(self, topic: str, queue_id: int) -> int:
        queue = self.store.queues.get(topic, queue_id)
        return 0 if queue is None else queue.min_offset

    def rest(self, topic: str, group: str, queue_id: int) -> int:
        """Return how many messages of a queue pops of the group have ahead, whatever it filters by."""
        if self.pulled.is_pulled(topic, group, queue_id):
            return 0
        queue = self.store.queues.get(topic, queue_id)
        return 0 if queue is None else queue.readable_end - self.position(topic, group, queue_id)
