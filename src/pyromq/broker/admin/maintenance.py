"""Clean-up by hand (requests 306, 316, 329)."""

from __future__ import annotations

from dataclasses import dataclass

from ... import logs
from ...model import names
from ...store.log.retention import Retention
from ...transport.dispatch import Reply, Request
from .view import BrokerView

log = logs.get("pyromq.broker")


@dataclass(slots=True, eq=False, repr=False)
class Maintenance(BrokerView):
    """Event loop only."""

    retention: Retention

    async def clean_expired_queues(self, request: Request) -> Reply:
        """Answer 306: queue files that lie wholly below the log's start."""
        start, gone = self.store.commit_log.start, 0
        async for topic in self.slices.each(self.store.queues.topics()):
            async for queue in self.slices.each(self.store.queues.of_topic(topic)):
                gone += queue.raise_minimum(start)
        log.info("expired queue files removed", queues=gone, peer=request.peer.address)
        return Reply()

    async def clean_unused_topics(self, request: Request) -> Reply:
        """Answer 316: queues of topics that no longer exist."""
        removed = 0
        async for name in self.slices.each(self.store.queues.topics()):
            if name not in self.topics and not names.is_system_topic(name):
                self.store.queues.remove_topic(name)
                removed += 1
        log.info("queues of deleted topics removed", topics=removed, peer=request.peer.address)
        return Reply()

    def delete_expired_log(self, request: Request) -> Reply:
        """Answer 329: the next rounds of retention take expired files at any hour."""
        self.retention.delete_by_hand()
        log.info("expired log files are deleted by hand", peer=request.peer.address)
        return Reply()
