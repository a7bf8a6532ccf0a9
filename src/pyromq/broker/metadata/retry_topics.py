"""Retry topics that a kill took out of the table: the broker makes them by itself, and goes on before they are saved.

Topics that sends make are saved before the first answer. Those of retries are not waited for: what lies in them was
acknowledged to nobody, but it must be given again, so a start makes each of them anew that has messages.
"""

from __future__ import annotations

from ... import logs
from ...model import names
from ...store.queues.queue_table import QueueTable
from .topics import Topics

log = logs.get("pyromq.broker")


def restore_retry_topics(topics: Topics, queues: QueueTable) -> None:
    """Make retry topics that have messages and are not in the table. Those of deleted topics have no queues."""
    for name in queues.topics():
        if names.is_retry(name) and name not in topics:
            numbers = [queue.queue_id for queue in queues.of_topic(name) if queue.next_offset > queue.min_offset]
            if numbers:
                topics.ensure(name, max(numbers) + 1)
                log.info("a retry topic with messages was not in the table of topics: made again", topic=name)
