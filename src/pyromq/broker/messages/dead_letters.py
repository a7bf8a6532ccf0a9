"""Dead letters, listed (request 30005, ours): how many each group has, how long they stay, and a word of warning.

They go with the log, or after `deadLetterReservedTime`. Read-only. `pyromq dlq list` shows the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...config import Live
from ...errors import RequestRefused
from ...model import names
from ...model.codes import ResponseCode
from ...model.ids import offset_message_id
from ...model.message import Property
from ...model.pop_names import first_topic
from ...protocol.bodies.own import DeadGroup, DeadLetterLine, DeadLettersAnswer
from ...protocol.headers.admin import DeadLettersRequest
from ...protocol.properties import decode_properties
from ...protocol.record import Record
from ...store.files.file_age import LogFile
from ...store.message_store import MessageStore
from ...store.queues.queue import StoredQueue
from ...transport.dispatch import Reply, RequestOf
from ..config import BrokerConfig
from ..retries.dead_letters import DeadLetters, died_ms
from .life_states import deliveries_of

MOST = 1_000
SOON_MS = 24 * 3_600_000  # less than this is worth a warning


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DeadLetterAdmin:
    """Event loop only."""

    live: Live[BrokerConfig]
    store: MessageStore
    dead_letters: DeadLetters
    now_ms: Callable[[], int]

    async def __call__(self, request: RequestOf[DeadLettersRequest, None]) -> Reply:
        header = request.header
        files = self.store.log_files()
        found = DeadLettersAnswer(lost_for_want_of_space=self.dead_letters.lost, warnings=[])
        lines: list[DeadGroup] | list[DeadLetterLine]
        if header.group is None:
            lines = found.groups = [
                await self._summary(queue, files) for queue in self.dead_letters.queues() if _count(queue)
            ]
        else:
            lines = found.messages = await self._messages(header, files)
            found.group = header.group
        found.warnings = self._warnings(min((one.leaves_ms for one in lines), default=None))
        return Reply(body=found)

    async def _summary(self, queue: StoredQueue, files: Sequence[LogFile]) -> DeadGroup:
        group, count = queue.topic.removeprefix(names.DLQ_PREFIX), _count(queue)
        async for oldest in self.dead_letters.read(queue):
            leaves, seconds = self._expiry(oldest, files)
            died = died_ms(oldest)
            return DeadGroup(group=group, messages=count, oldest_ms=died, leaves_ms=leaves, seconds_left=seconds)
        return DeadGroup(group=group, messages=count, leaves_ms=self.now_ms(), seconds_left=0)  # damaged, all of them

    async def _messages(self, header: DeadLettersRequest, files: Sequence[LogFile]) -> list[DeadLetterLine]:
        topic = names.dlq_topic(header.group or "")
        queues = self.store.queues.of_topic(topic)
        if not queues:
            raise RequestRefused(f"group {header.group} has no dead letters here", ResponseCode.TOPIC_NOT_EXIST)
        found: list[DeadLetterLine] = []
        for queue in queues:
            async for record in self.dead_letters.read(queue):
                if len(found) >= min(max(header.max_num, 0), MOST):
                    break
                found.append(_line(record, *self._expiry(record, files)))
        return found

    def _expiry(self, record: Record, files: Sequence[LogFile]) -> tuple[int, int]:
        leaves = self.dead_letters.leaves_ms(record, files)
        return leaves, max(0, leaves - self.now_ms()) // 1000

    def _warnings(self, soonest_ms: int | None) -> list[str]:
        if soonest_ms is None:
            return []
        found = []
        if soonest_ms - self.now_ms() < SOON_MS:
            ahead = max(0, soonest_ms - self.now_ms()) // 60_000
            found.append(
                f"the oldest may go in {ahead // 60} h {ahead % 60} min: send them again or copy them, "
                "or keep them longer (deadLetterReservedTime)"
            )
        if self.dead_letters.is_short():
            found.append("the disk or the log is too full: the oldest files go whatever their age")
        return found


def _count(queue: StoredQueue) -> int:
    return queue.readable_end - queue.min_offset


def _line(record: Record, leaves_ms: int, seconds_left: int) -> DeadLetterLine:
    pairs = decode_properties(record.properties)
    offset_id = offset_message_id(record.store_host, record.physical_offset)
    reason = pairs.get(Property.OWN_REASON)
    return DeadLetterLine(
        id=pairs.get(Property.UNIQ_KEY) or offset_id,
        offset_id=offset_id,
        topic=first_topic(record.topic, pairs.get(Property.RETRY_TOPIC)),
        keys=pairs.get(Property.KEYS),
        attempts=deliveries_of(record, reason),
        reason=reason,
        died_ms=died_ms(record),
        offset=record.queue_offset,
        leaves_ms=leaves_ms,
        seconds_left=seconds_left,
    )
