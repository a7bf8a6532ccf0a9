"""Publishes a stream's offsets as those of a consumer group, so that lag shows in `mqadmin` and our tools.

The source itself does it one batch late (Spark commits a batch when the next one begins); a listener hears of every
batch when it is done, the last one too:    spark.streams.addListener(OffsetPublisher({"nameServer": ...}, "archive"))
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from threading import Condition

from pyspark.sql.streaming import listener as events

from ... import logs
from ...errors import PyroError
from ..connect.cluster import Cluster
from ..options import Use, connection_options
from .offsets import Offsets, from_json

log = logs.get("pyromq.spark")


class OffsetPublisher(events.StreamingQueryListener):
    """For queries whose sources are all `rocketmq`, or for those named. A broker that is away gets the next offsets."""

    def __init__(self, connection: Mapping[str, str], group: str, names: frozenset[str] = frozenset()) -> None:
        self._cluster = Cluster(connection_options(connection, Use.STREAM))
        self._group = group
        self._names = names
        self._ended: set[str] = set()
        self._event = Condition()
        self.published: Offsets = {}

    def onQueryStarted(self, event: events.QueryStartedEvent) -> None:  # noqa: N802 - Spark's names, here and below
        pass

    def onQueryProgress(self, event: events.QueryProgressEvent) -> None:  # noqa: N802
        progress = event.progress
        if self._names and progress.name not in self._names:
            return
        try:
            for source in progress.sources:
                self._publish(source.endOffset)
        except (PyroError, ValueError, AttributeError) as fault:  # a query does not end for want of a published offset
            log.warning("offsets not published", group=self._group, fault=str(fault))

    def onQueryTerminated(self, event: events.QueryTerminatedEvent) -> None:  # noqa: N802
        with self._event:
            self._ended.add(str(event.id))
            self._event.notify_all()

    def wait_for(self, query_id: str, timeout_s: float = 60.0) -> bool:
        """Wait for the last event of a query, which comes a little after its end. False: it did not come in time."""
        with self._event:
            return self._event.wait_for(lambda: query_id in self._ended, timeout_s)

    def close(self) -> None:
        self._cluster.close()

    def _publish(self, text: str | None) -> None:
        offsets = from_json(json.loads(text)) if text else {}
        news = {queue: offset for queue, offset in offsets.items() if self.published.get(queue) != offset}
        if news:
            self.published |= self._cluster.commit(self._group, news)
