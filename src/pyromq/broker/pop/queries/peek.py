"""Request 200052: the next messages of a group, without taking them. There is no filter, no wait and no limit of 32."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ....model.codes import ResponseCode
from ....protocol.bodies.topics import TopicConfig
from ....protocol.headers.pop import PeekMessage, PopMessageAnswer
from ....store.log.reader import GetStatus
from ....transport.dispatch import Answer, Reply, RequestOf
from ...reading.queue_reads import within_disk_limits
from ..tickets import FOUND, NOTHING
from .glances import Glances

CHANCES = 100
ONE_IN = 5  # looks into the retry topic first
NO_FIELDS = {"popTime": "0", "invisibleTime": "0", "reviveQid": "0", "restNum": "0"}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PeekHandler:
    """Event loop only. `pick` chooses one of n."""

    glances: Glances
    pick: Callable[[int], int]

    def __call__(self, request: RequestOf[PeekMessage, None]) -> Answer:
        header = request.header
        topic = self.glances.check(header, request.peer, NO_FIELDS)
        return self._peek(header, topic)

    async def _peek(self, header: PeekMessage, topic: TopicConfig) -> Reply:
        chance, rest = self.pick(CHANCES), 0
        records: list[bytes] = []
        for name, queue_id in self._places(header, topic, chance, records):
            rest += self.glances.rest(name, header.consumer_group, queue_id)
            room = header.max_msg_nums - len(records)
            if room > 0:
                records += await self._read(header.consumer_group, name, queue_id, room)
        answered = PopMessageAnswer(pop_time=0, invisible_time=0, revive_qid=0, rest_num=rest)
        if not records:
            return Reply(ResponseCode.PULL_NOT_FOUND, NOTHING, answered)
        return Reply(remark=FOUND, header=answered, body=b"".join(records))

    def _places(
        self, header: PeekMessage, topic: TopicConfig, chance: int, records: list[bytes]
    ) -> Iterator[tuple[str, int]]:
        """Return the queues to look into: the retry topic first in a fifth of the cases, else last."""
        is_first = chance % ONE_IN == 0
        retries = list(self.glances.retry_topics(header.topic, header.consumer_group))[:1]
        if is_first:
            yield from (place for one in retries for place in _queues(one, -1, chance))
        yield from _queues(topic, header.queue_id, chance)
        if not is_first and len(records) < header.max_msg_nums:
            yield from (place for one in retries for place in _queues(one, -1, chance))

    async def _read(self, group: str, topic: str, queue_id: int, room: int) -> list[bytes]:
        config, store = self.glances.live.config, self.glances.store
        offset = self.glances.position(topic, group, queue_id)
        size = config.max_transfer_bytes_on_message_in_memory
        count = min(room, config.max_transfer_count_on_message_in_memory)
        selection = await store.select(topic, queue_id, offset, max_count=count, max_bytes=size)
        if selection.status in (GetStatus.OFFSET_TOO_SMALL, GetStatus.OFFSET_OVERFLOW_BADLY):
            selection = await store.select(topic, queue_id, selection.next_offset, max_count=count, max_bytes=size)
        records = store.reader.read_resident(selection.ranges)
        if records is None:
            records = await store.read(within_disk_limits(selection, config))
        return list(records)


def _queues(topic: TopicConfig, queue_id: int, chance: int) -> Iterator[tuple[str, int]]:
    count = topic.read_queue_nums
    numbers = (queue_id,) if queue_id >= 0 else [(chance + at) % count for at in range(count)]
    for number in numbers:
        yield topic.topic_name, number
