"""The broker's side of a kernel's copies: where those of a lane go, and what follows from what it copied.

The kernel puts copies of messages that are in memory, whole and usual. All others are `revive.py`'s: those of a retry
topic or queue that is not made yet, those of a topic or group that is gone, what is not in memory, what is damaged.
"""

from __future__ import annotations

from ....config import Live
from ....kernel import state
from ....kernel.pops import CopiedDue, CopySettings, CopyTarget
from ....model import names, pop_names
from ....protocol.record import MAX_TOPIC_V1
from ....store.queues.consume_queue import ConsumeQueue
from ...config import BrokerConfig
from ...intake.intake import LogAccess
from ...metadata.groups import Groups
from ...metadata.topics import Topics
from .lanes import Lanes


class KernelCopies:
    """Implements `kernel.pops.CopyHost`. Event loop only."""

    def __init__(
        self, live: Live[BrokerConfig], access: LogAccess, lanes: Lanes, topics: Topics, groups: Groups
    ) -> None:
        self._live, self._access, self._lanes, self._topics, self._groups = live, access, lanes, topics, groups
        store = access.store
        records, time = store.commit_log.sequence.resident(), state.time_source(access.clock)
        self.kernel = state.RetryCopier(self, lanes.table, store.appender, records, time)
        self._use(live.config)
        live.watch(self._use)

    def copy_due(self, now_ms: int, most: int) -> CopiedDue:
        """Let the kernel put copies of about `most` messages, and commit and count what it did."""
        self._access.intake.flush()  # what came before stays before
        copied: CopiedDue = self.kernel.copy_due(now_ms, most)
        for topic, queue_id, messages, size, requests, *_ in copied.counts:
            self._access.count(topic, queue_id, messages, size, requests)
        if copied.quick:
            self._access.intake.times.note(0.0, copied.quick)
        for lane, _ in copied.lanes:
            self._lanes.settle(lane)
        if copied.lanes:
            self._lanes.journal.changed()
        return copied

    # --- what the kernel asks -------------------------------------------------------------------------------------

    def target(self, lane: int) -> CopyTarget | None:
        group, topic, queue_id = self._lanes.table.names(lane)
        if self._topics.find(pop_names.normal_topic(topic, group)) is None or self._groups.find(group) is None:
            return None
        name, to_queue = retry_place(topic, group, queue_id, self._live.config)
        if self._topics.find(name) is None or len(name) > MAX_TOPIC_V1 or not name.isascii():
            return None
        queues = self._access.store.queues
        queue, retry = queues.get(topic, queue_id), queues.get(name, to_queue)
        if not isinstance(queue, ConsumeQueue) or not isinstance(retry, ConsumeQueue):
            return None
        return CopyTarget(queue.tail, queue.entries.sequence.resident(), name, to_queue, retry.tail)

    def note_slow(self, seconds: float, messages: int) -> None:
        self._access.intake.times.note(seconds, messages)

    def _use(self, config: BrokerConfig) -> None:
        self.kernel.use(
            CopySettings(
                self._access.store_host,
                config.max_message_bytes,
                config.whole_record_crc,
                config.index_enabled,
                config.index_tags,
            )
        )


def retry_place(topic: str, group: str, queue_id: int, config: BrokerConfig) -> tuple[str, int]:
    """Return where copies of a queue's messages go; a retry topic is its own."""
    name = topic if names.is_retry(topic) else pop_names.retry_topic(topic, group, config.enable_retry_topic_v2)
    return name, queue_id if config.use_separate_retry_queue else 0
