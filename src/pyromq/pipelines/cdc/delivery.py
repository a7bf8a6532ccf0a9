"""Changes from topics to a sink, as a stream with a checkpoint. `task.py` has what a task does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from pyspark.sql import DataFrame, SparkSession, functions

from ... import logs
from ..lake.files import read_text, read_texts, write_text
from ..report.summary import Metrics, Summary, Table
from ..run import checkpoint
from ..run.messages import Source, stream
from ..run.plan import plan_of
from ..run.streaming import run_stream
from . import dead_letters
from .dead_letters import RefusedMessages, target_of
from .sinks import Sink
from .task import COLUMNS, COUNTS, OUTCOME, SinkTask

log = logs.get("pyromq.pipelines")


def deliver(
    spark: SparkSession,
    source: Source,
    sink: Sink,
    folder: str,
    name: str,
    *,
    tasks: int = 4,
    wait_s: float = 3600.0,
    dead: str = "",
    sweep: Mapping[str, int] = MappingProxyType({}),
    every: str = "",
    dry_run: bool = False,
) -> Summary:
    """Deliver the changes of topics to the sink, up to their present end or, with `every`, until stopped.

    `folder` has the checkpoint, for each batch how many were delivered, and all that were not; `dead` is a topic that
    gets these, too. `sweep` has tables and numbers: at the end rows that are older are deleted.
    """
    settings = {"source": checkpoint.which(source), "sink": sink.place}
    target = target_of(source, dead)
    sink.check(dry_run=dry_run)
    if dry_run:
        checkpoint.check(spark, folder, settings)
        return plan_of(spark, source, name, checkpoint.standing(spark, folder))
    run = checkpoint.begin(spark, folder, settings)["run"]
    before = {number for number, _ in read_texts(spark, f"{folder}/delivered")}
    letters, floors = RefusedMessages(spark, folder, run, target), Floors(spark, folder)
    delivery = BatchDelivery(spark, folder, SinkTask(sink, wait_s), letters, floors, tasks)
    query = stream(spark, source, COLUMNS).writeStream.queryName(f"pyromq-{name}")
    run_stream(query, delivery.deliver, folder, every)
    swept = {table: delivery.sweep(table, below) for table, below in sweep.items()}
    return delivery.summary(name, sink, before, swept)


@dataclass(frozen=True)
class Floors:
    """The tables that were emptied, and the number of that event, in FOLDER/floors.json: what is older is late."""

    spark: SparkSession
    folder: str

    def all(self) -> dict[str, int]:
        found: dict[str, int] = json.loads(read_text(self.spark, f"{self.folder}/floors.json") or "{}")
        return found

    def set(self, table: str, number: int) -> None:
        known = self.all()
        if known.get(table, -1) < number:
            write_text(self.spark, f"{self.folder}/floors.json", json.dumps({**known, table: number}))


@dataclass(frozen=True)
class BatchDelivery:
    """The batches of one run. `named` are the first messages that this start did not deliver."""

    spark: SparkSession
    folder: str
    task: SinkTask
    letters: RefusedMessages
    floors: Floors
    tasks: int
    named: list[dict[str, Any]] = field(default_factory=list)

    def deliver(self, batch: DataFrame, number: int) -> None:
        """Deliver a batch; keep first what was refused, then note how many were."""
        task = replace(self.task, floors=self.floors.all())
        outcome = in_lanes(batch, self.tasks).mapInArrow(task.run, OUTCOME).persist()  # the sink works once
        try:
            done = [row.asDict() for row in outcome.where("cause IS NULL").select(*COUNTS, "truncated").collect()]
            counts = _added(done)
            if counts["refused"]:
                log.warning("messages were not delivered", batch=number, messages=counts["refused"])
                named = self.letters.keep(outcome, number)
                self.named.extend(named[: dead_letters.MOST_NAMED - len(self.named)])
        finally:
            outcome.unpersist()
        for table, number in sorted(pair for row in done for pair in row["truncated"].items()):
            counts["deleted"] += self.sweep(table, number)
        write_text(self.spark, f"{self.folder}/delivered/{number}.json", json.dumps(counts))

    def sweep(self, table: str, below: int) -> int:
        """Delete the rows that are older than the event of this number, and keep late events of such rows away."""
        self.floors.set(table, below)  # first, and again if it is killed here: the batch is repeated
        return self.task.sweep(table, below)

    def summary(self, name: str, sink: Sink, before: set[str], swept: Mapping[str, int]) -> Summary:
        """Return what this start has done; batches of `before` are of earlier ones."""
        texts = [text for number, text in read_texts(self.spark, f"{self.folder}/delivered") if number not in before]
        sums = _added([json.loads(text) for text in texts])
        refused = sums.pop("refused")
        facts: dict[str, Any] = {**sums, "notDelivered": refused, "to": sink.place}
        if swept:
            facts["swept"] = sum(swept.values())
        if not refused:
            return Summary(name, facts, metrics=Metrics(sums["events"]))
        facts["keptIn"] = self.letters.place
        if topic := self.letters.target.get("topic"):
            facts["sentTo"] = topic
        return Summary(name, facts, [Table("deadLetters", self.named)], metrics=Metrics(sums["events"]))


def in_lanes(batch: DataFrame, tasks: int) -> DataFrame:
    """Return the messages with all of one row in one partition, in their order."""
    lane = functions.coalesce(functions.col("properties")["cdcKey"], functions.lit(""))
    lanes = batch.repartition(tasks, functions.col("topic"), lane)
    return lanes.sortWithinPartitions("topic", "brokerName", "queueId", "queueOffset")


def _added(rows: list[dict[str, Any]]) -> dict[str, int]:
    return {name: sum(row[name] for row in rows) for name in COUNTS}
