"""`spark.readStream.format("rocketmq")`: offsets for each micro-batch, within the limits of the options.

Spark's order of calls has traps (docs/spark.md lists them): `initialOffset` comes twice and again after a failed first
batch, `commit` is one batch late, `stop` may never come. Nothing here relies on the better order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from ... import logs
from ...ambient import Clock, SystemClock
from ...client.errors import Error
from ..connect.cluster import Cluster
from ..options import ReadOptions
from ..spark_schema import arrow_of
from .batch_read import QueuePart, parts_of, read_part
from .offsets import LATEST, Offsets, Queue, from_json, to_json
from .planner import Bounds, DataLoss, Loss, limited, ranges, waiting
from .starting import report, starting, with_retries

log = logs.get("pyromq.spark")

_FRESH_S = 0.2  # an idle query asks about seventy times a second


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Copied into tasks for `read` alone; the rest lives in one process of the driver."""

    def __init__(self, options: ReadOptions, schema: StructType, clock: Clock | None = None) -> None:
        self._options = options
        self._schema = schema
        arrow_of(schema)
        self._clock = clock or SystemClock()
        self._cluster: Cluster | None = None
        self._initial: Offsets | None = None
        self._looked_at = -1.0
        self._answered_at = self._clock.monotonic()
        self._queues: dict[Queue, str] = {}
        self._bounds: dict[Queue, Bounds] = {}
        self._target: Offsets | None = None  # of AvailableNow
        self._triggered_at = -1.0
        self._is_planned = False  # `latestOffset` was asked: this is no repeat of a batch that failed

    def __getstate__(self) -> dict[str, Any]:
        """A task needs options and schema; connections and clocks stay here."""
        return {"_options": self._options, "_schema": self._schema}

    # --- offsets --------------------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's names, here and below
        if self._initial is None:
            self._look()
            self._initial = starting(self._asked(), self._options, self._bounds, LATEST)
        return to_json(self._initial)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        most = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._look(again=True)
        self._target = self._latest({})

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        self._look()
        begin = self._complete(from_json(start))
        self._publish_start(begin)
        latest = self._latest(begin) if self._target is None else {**begin, **self._target}
        if self._target is None and self._waits_for_more(begin, latest):
            return start
        self._triggered_at = self._clock.monotonic()
        if isinstance(limit, ReadMaxRows):
            latest = limited(begin, latest, limit.max_rows)
        return to_json(latest)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        return to_json(self._latest({})) if self._bounds else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[QueuePart]:
        begin, until = from_json(start), from_json(end)
        if not self._queues:
            self._look()
        if not self._is_planned and self._initial is not None and begin == self._initial:
            begin = self._first_start(begin, until)
        found, lost = ranges(begin, until, self._bounds_for(until))
        report(lost, self._options)
        return parts_of(found, self._queues, self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_part(partition, self._options, self._schema)

    def commit(self, end: dict[str, Any]) -> None:
        """One batch late; `OffsetPublisher` is in time."""
        if self._options.consumer_group:
            self._asked().commit(self._options.consumer_group, from_json(end))

    def stop(self) -> None:
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None

    # --- the cluster ----------------------------------------------------------------------------------------------

    def _asked(self) -> Cluster:
        if self._cluster is None:
            self._cluster = Cluster(self._options, clock=self._clock)
        return self._cluster

    def _look(self, *, again: bool = False) -> None:
        """Queues and their bounds, at most five times a second. A cluster that is away for a while stops nothing."""
        now = self._clock.monotonic()
        if not again and now - self._looked_at < _FRESH_S:
            return
        try:
            self._queues, self._bounds = with_retries(self._asked(), self._options)
        except Error as fault:
            if not self._bounds or now - self._answered_at > self._options.pull_timeout_ms / 1000:
                raise
            log.warning("no offsets for now", fault=str(fault))
        else:
            self._answered_at = now
        self._looked_at = self._clock.monotonic()

    def _latest(self, begin: Offsets) -> Offsets:
        """The ends of all queues; one whose broker is away stays where it is."""
        return {**begin, **{queue: bounds.high for queue, bounds in self._bounds.items()}}

    def _complete(self, start: Offsets) -> Offsets:
        """With the queues that came since the stream began: those are read from their first message."""
        return {**{queue: bounds.low for queue, bounds in self._bounds.items()}, **start}

    def _bounds_for(self, until: Offsets) -> dict[Queue, Bounds]:
        """Return the bounds.

        What was seen may be older than the batch's end: a queue reaches at least as far as that said it does.
        """
        known = {queue: self._bounds[queue] for queue in until if queue in self._bounds}
        if any(until[queue] > bounds.high for queue, bounds in known.items()):
            self._look(again=True)
            known = {queue: self._bounds[queue] for queue in until if queue in self._bounds}
        return known

    def _waits_for_more(self, begin: Offsets, latest: Offsets) -> bool:
        """minOffsetsPerTrigger: too little is there, and the wait is not over."""
        least = self._options.min_offsets_per_trigger
        if least is None or waiting(begin, latest) >= least:
            return False
        if self._triggered_at < 0:
            self._triggered_at = self._clock.monotonic()
        return self._clock.monotonic() - self._triggered_at < self._options.max_trigger_delay_s

    # --- the first batch ------------------------------------------------------------------------------------------

    def _publish_start(self, begin: Offsets) -> None:
        """Where the first batch begins is in no checkpoint: the group keeps it, if that batch is to be repeated."""
        if not self._is_planned and begin == self._initial and self._options.consumer_group:
            self._asked().commit(self._options.consumer_group, begin)
        self._is_planned = True

    def _first_start(self, begin: Offsets, until: Offsets) -> Offsets:
        """The first batch is repeated after a failure. `latest` has moved on since; the group knows where it began."""
        if self._starts_fixed():
            return begin
        if self._options.consumer_group:
            return {**begin, **self._asked().committed(self._options.consumer_group, until)}
        passed = [Loss(queue, until[queue], begin[queue], "") for queue in until if begin.get(queue, 0) > until[queue]]
        if passed and self._options.fail_on_data_loss:
            raise DataLoss(
                "the first batch is repeated, and where it began is not known any more: startingOffsets=latest has "
                "moved on. Give consumerGroup, which keeps it, or begin by offsets or a time; failOnDataLoss=false "
                "goes on from the end of that batch"
            )
        return {queue: min(offset, until.get(queue, offset)) for queue, offset in begin.items()}

    def _starts_fixed(self) -> bool:
        """Earliest, offsets and times are the same whenever they are asked for."""
        options = self._options
        named = options.starting_times is not None or options.starting_timestamp is not None
        return named or (options.starting_offsets is not None and options.starting_offsets.word != LATEST)
