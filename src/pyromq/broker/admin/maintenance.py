"""Clean-up by hand (requests 306, 316, 329)."""

from __future__ import annotations

from ... import logs
from ...model import names
from ...store.message_store import MessageStore
from ...store.retention import Retention
from ...transport.dispatch import Reply, Request
from ..metadata.topics import Topics

log = logs.get("pyromq.broker")


class Maintenance:
    """Event loop only."""

    def __init__(self, topics: Topics, store: MessageStore, retention: Retention) -> None:
        self._topics = topics
        self._store = store
        self._retention = retention

    def clean_expired_queues(self, request: Request) -> Reply:
        """306: queue files that lie wholly below the log's start."""
        start = self._store.commit_log.start
        gone = sum(queue.raise_minimum(start) for queue in self._store.queues)
        log.info("expired queue files removed", queues=gone, peer=request.peer.address)
        return Reply()

    def clean_unused_topics(self, request: Request) -> Reply:
        """316: queues of topics that no longer exist."""
        kept = set(self._topics.all())
        doomed = [name for name in self._store.queues.topics() if name not in kept and not names.is_system_topic(name)]
        for name in doomed:
            self._store.queues.remove_topic(name)
        log.info("queues of deleted topics removed", topics=len(doomed), peer=request.peer.address)
        return Reply()

    def delete_expired_log(self, request: Request) -> Reply:
        """329: the next rounds of retention take expired files at any hour."""
        self._retention.delete_by_hand()
        log.info("expired log files are deleted by hand", peer=request.peer.address)
        return Reply()
