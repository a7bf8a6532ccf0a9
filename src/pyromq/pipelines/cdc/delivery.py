"""Changes from topics to a sink, as a stream with a checkpoint: folded by row in each task, applied in pieces.

All changes of a row are in one task, in their order. A task waits for a sink that is away, and names what a sink will
never take. Spark repeats a batch that was not finished; sinks then find their rows up to date.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, functions

from ... import logs
from ...ambient import Clock, SystemClock, pause
from ...errors import PyroError
from ..lake.files import read_texts, write_text
from ..report.summary import Metrics, Summary, Table
from ..run import checkpoint
from ..run.messages import Source, stream
from ..run.plan import plan_of
from ..run.streaming import run_stream
from .rows import BadRow, ChangeMessage, RowWrite, fold
from .sinks import Applied, OpenSink, Sink, SinkAway, SinkRefused

log = logs.get("pyromq.pipelines")

COLUMNS = ("topic", "brokerName", "queueId", "queueOffset", "body", "properties")
_OUTCOME = "topic string, queueId int, queueOffset bigint, cause string, events bigint, written bigint, "
_OUTCOME += "deleted bigint, repeats bigint"
_PIECE = 5_000  # rows that a sink takes at once
_AGAIN_S = 1.0
_MOST_NAMED = 1_000  # bad messages of one task, by name


@dataclass(frozen=True)
class SinkTask:
    """How a task works. It travels there, with the sink's address in it."""

    sink: Sink
    wait_s: float
    piece: int = _PIECE

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Apply the messages of one task; yield what became of them."""
        events, done = 0, Applied()
        bad: list[BadRow] = []
        with self.sink.opened() as sink:
            for batch in batches:
                found = fold(_messages(batch))
                events += batch.num_rows
                done = done.plus(Applied(repeats=found.repeats))
                bad += found.bad
                writes = list(found.writes.items())
                for begin in range(0, len(writes), self.piece):
                    part = [write for _, write in writes[begin : begin + self.piece]]
                    applied, refused = self._apply(sink, part)
                    done = done.plus(applied)
                    for write, why in refused:
                        last = found.last[write.table, write.key_text]
                        bad.append(BadRow(last.topic, last.queue_id, last.offset, why))
        rows: list[dict[str, Any]] = [{**dict(zip(_OF_BAD, each, strict=True))} for each in bad[:_MOST_NAMED]]
        rows.append({"events": events, **done._asdict()})
        yield pa.RecordBatch.from_pylist(rows, _ARROW)

    def _apply(self, sink: OpenSink, writes: list[RowWrite]) -> tuple[Applied, list[tuple[RowWrite, str]]]:
        """Apply all; where the sink refuses some, one half and the other, down to those alone."""
        try:
            return self._waiting(sink, writes), []
        except SinkRefused as fault:
            if len(writes) == 1:
                return Applied(), [(writes[0], str(fault))]
        middle = len(writes) // 2
        done, refused = self._apply(sink, writes[:middle])
        more, others = self._apply(sink, writes[middle:])
        return done.plus(more), refused + others

    def _waiting(self, sink: OpenSink, writes: list[RowWrite], clock: Clock | None = None) -> Applied:
        clock = clock or SystemClock()
        until = clock.monotonic() + self.wait_s
        while True:
            try:
                return sink.apply(writes)
            except SinkAway as fault:
                if clock.monotonic() >= until:
                    raise PyroError(
                        f"the sink was away for {self.wait_s:g} s: {fault}. Start the pipeline again when it is back: "
                        "it goes on where it was"
                    ) from None
                log.warning("the sink is away, delivery waits", fault=str(fault))
                pause(_AGAIN_S)


_OF_BAD = ("topic", "queueId", "queueOffset", "cause")
_NUMBERS = ("events", "written", "deleted", "repeats")
_ARROW = pa.schema(
    [("topic", pa.string()), ("queueId", pa.int32()), ("queueOffset", pa.int64()), ("cause", pa.string())]
    + [(name, pa.int64()) for name in _NUMBERS]
)


def deliver(
    spark: SparkSession,
    source: Source,
    sink: Sink,
    folder: str,
    name: str,
    *,
    tasks: int = 4,
    wait_s: float = 3600.0,
    every: str = "",
    dry_run: bool = False,
) -> Summary:
    """Deliver the changes of topics to the sink, up to their present end or, with `every`, until stopped.

    `folder` has the checkpoint, and for each batch what was delivered and what was not, with its cause.
    """
    settings = {"source": checkpoint.which(source), "sink": sink.place}
    sink.check(dry_run=dry_run)
    if dry_run:
        checkpoint.check(spark, folder, settings)
        return plan_of(spark, source, name, checkpoint.standing(spark, folder))
    checkpoint.begin(spark, folder, settings)
    before = {number for number, _ in read_texts(spark, f"{folder}/delivered")}
    delivery = SinkTask(sink, wait_s)

    def keep(batch: DataFrame, number: int) -> None:
        outcome = in_lanes(batch, tasks).mapInArrow(delivery.run, _OUTCOME).collect()
        write_text(spark, f"{folder}/delivered/{number}.json", json.dumps([row.asDict() for row in outcome]))

    run_stream(stream(spark, source, COLUMNS).writeStream.queryName(f"pyromq-{name}"), keep, folder, every)
    return _summary(spark, folder, name, sink, before)


def in_lanes(batch: DataFrame, tasks: int) -> DataFrame:
    """Return the messages with all of one row in one partition, in their order."""
    lane = functions.coalesce(functions.col("properties")["cdcKey"], functions.lit(""))
    lanes = batch.repartition(tasks, functions.col("topic"), lane)
    return lanes.sortWithinPartitions("topic", "brokerName", "queueId", "queueOffset")


def _messages(batch: pa.RecordBatch) -> Iterator[ChangeMessage]:
    columns = [batch.column(name).to_pylist() for name in ("topic", "queueId", "queueOffset", "body", "properties")]
    for topic, queue_id, offset, body, properties in zip(*columns, strict=True):
        yield ChangeMessage(topic, queue_id, offset, body or b"", dict(properties or ()))


def _summary(spark: SparkSession, folder: str, name: str, sink: Sink, before: set[str]) -> Summary:
    files = [(number, text) for number, text in read_texts(spark, f"{folder}/delivered") if number not in before]
    rows = [row for _, text in files for row in json.loads(text)]
    sums = {each: sum(row[each] or 0 for row in rows) for each in _NUMBERS}
    bad = [{each: row[each] for each in _OF_BAD} for row in rows if row["cause"]]
    facts = {**sums, "notDelivered": len(bad), "to": sink.place}
    return Summary(name, facts, [Table("notDelivered messages", bad)] if bad else [], metrics=Metrics(sums["events"]))
