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
from ..failures import shown_in_a_sentence
from ..options import ReadOptions
from ..schema import arrow_of
from .batch_read import QueuePart, parts_of, read_part
from .made_anew import to_read, with_times
from .offsets import LATEST, Bounds, DataLoss, Offsets, Queue, from_json, limited, to_json, waiting
from .starting import starting, with_retries

log = logs.get("pyromq.spark")

_FRESH_S = 0.2  # an idle query asks about seventy times a second


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Copied into tasks for `read` alone; the rest lives in one process of the driver."""

    def __init__(self, options: ReadOptions, schema: StructType, clock: Clock | None = None) -> None:
        self._options = options
        self._schema = schema
        arrow_of(schema)
        self._clock = clock or SystemClock()
        self._connected: Cluster | None = None
        self._initial: Offsets | None = None
        self._refreshed_at = -1.0
        self._answered_at = self._clock.monotonic()
        self._queues: dict[Queue, str] = {}
        self._bounds: dict[Queue, Bounds] = {}
        self._target: Offsets | None = None  # of AvailableNow
        self._triggered_at: float | None = None
        self._is_planned = False  # `latestOffset` was asked: this is no repeat of a batch that failed

    def __getstate__(self) -> dict[str, Any]:
        """Leave out connections and clocks: a task needs options and schema."""
        return {"_options": self._options, "_schema": self._schema}

    # --- offsets --------------------------------------------------------------------------------------------------

    @shown_in_a_sentence()
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's names, here and below
        if self._initial is None:
            self._refresh()
            self._initial = starting(self._cluster(), self._options, self._bounds, LATEST)
        return to_json(self._initial)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        most = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    @shown_in_a_sentence()
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._refresh(now=True)
        self._target = self._latest({})

    @shown_in_a_sentence()
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        self._refresh()
        begin = self._complete(from_json(start))
        self._publish_start(begin)
        latest = self._latest(begin) if self._target is None else {**begin, **self._target}
        if self._target is None and self._waits_for_more(begin, latest):
            return start
        self._triggered_at = self._clock.monotonic()
        if isinstance(limit, ReadMaxRows):
            latest = limited(begin, latest, limit.max_rows)
        if latest == from_json(start):
            return start  # any other text would be a batch
        return with_times(latest, self._cluster().last_stored(self._queues), start)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        return to_json(self._latest({})) if self._bounds else None

    @shown_in_a_sentence()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[QueuePart]:
        begin, until = from_json(start), from_json(end)
        if not self._queues:
            self._refresh()
        if not self._is_planned and self._initial is not None and begin == self._initial:
            begin = self._first_start(begin, until)
        bounds = self._bounds_for(until)
        planned_end = None if self._is_planned else end
        found = to_read(self._cluster(), self._options, begin, until, bounds, start, planned_end)
        return parts_of(found, self._queues, self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_part(partition, self._options, self._schema)

    @shown_in_a_sentence()
    def commit(self, end: dict[str, Any]) -> None:
        """Publish the offsets of the batch before; `OffsetPublisher` is in time."""
        if self._options.consumer_group:
            self._cluster().commit(self._options.consumer_group, from_json(end))

    def stop(self) -> None:
        if self._connected is not None:
            self._connected.close()
            self._connected = None

    # --- the cluster ----------------------------------------------------------------------------------------------

    def _cluster(self) -> Cluster:
        if self._connected is None:
            self._connected = Cluster(self._options, clock=self._clock)
        return self._connected

    def _refresh(self, *, now: bool = False) -> None:
        """Read queues and bounds anew, five times a second at most. While the cluster is away, old ones count."""
        time = self._clock.monotonic()
        if not now and time - self._refreshed_at < _FRESH_S:
            return
        try:
            self._queues, self._bounds = with_retries(self._cluster(), self._options)
        except Error as fault:
            if not self._bounds or time - self._answered_at > self._options.pull_timeout_ms / 1000:
                raise
            log.warning("no offsets for now", fault=str(fault))
        else:
            self._answered_at = time
        self._refreshed_at = self._clock.monotonic()

    def _latest(self, begin: Offsets) -> Offsets:
        """Return the ends of all queues. A queue whose broker is away stays where it is."""
        return {**begin, **{queue: bounds.high for queue, bounds in self._bounds.items()}}

    def _complete(self, start: Offsets) -> Offsets:
        """Add the queues that came since the stream began: those are read from their first message."""
        return {**{queue: bounds.low for queue, bounds in self._bounds.items()}, **start}

    def _bounds_for(self, until: Offsets) -> dict[Queue, Bounds]:
        """Return the bounds of these queues, none of which ends before the batch does: older ones are read anew."""
        if any(until[queue] > bounds.high for queue, bounds in self._bounds.items() if queue in until):
            self._refresh(now=True)
        return {queue: self._bounds[queue] for queue in until if queue in self._bounds}

    def _waits_for_more(self, begin: Offsets, latest: Offsets) -> bool:
        """Return whether too few messages are there (minOffsetsPerTrigger) and the wait for them is not over."""
        least = self._options.min_offsets_per_trigger
        if least is None or waiting(begin, latest) >= least:
            return False
        now = self._clock.monotonic()
        if self._triggered_at is None:
            self._triggered_at = now
        return now - self._triggered_at < self._options.max_trigger_delay_s

    # --- the first batch ------------------------------------------------------------------------------------------

    def _publish_start(self, begin: Offsets) -> None:
        """Commit where the first batch begins, which no checkpoint has: a repeat of it needs to know."""
        if not self._is_planned and begin == self._initial and self._options.consumer_group:
            self._cluster().commit(self._options.consumer_group, begin)
        self._is_planned = True

    def _first_start(self, begin: Offsets, until: Offsets) -> Offsets:
        """Return where the first batch began, now that it is repeated: `latest` has moved on, the group has not."""
        options = self._options
        is_time = options.starting_times is not None or options.starting_timestamp is not None
        if is_time or (options.starting_offsets is not None and options.starting_offsets.word != LATEST):
            return begin  # the same whenever it is asked for
        if options.consumer_group:
            return {**begin, **self._cluster().committed(options.consumer_group, until)}
        if options.fail_on_data_loss and any(begin.get(queue, 0) > offset for queue, offset in until.items()):
            raise DataLoss(
                "the first batch is repeated, and where it began is not known any more: startingOffsets=latest has "
                "moved on. Give consumerGroup, which keeps it, or begin by offsets or a time; failOnDataLoss=false "
                "goes on from the end of that batch"
            )
        return {queue: min(offset, until.get(queue, offset)) for queue, offset in begin.items()}
