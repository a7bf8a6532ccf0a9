"""Rows of a job to a topic, step by step, each once however often the job is killed and started again.

Each message carries the name of its row in the property PIPELINE_ID. A step that is begun a second time looks in the
target for what the first try left there and sends the rest: that needs no window and no time limit. Within a try the
requests have names that a repeated task shares, and brokers with a duplicate window store them once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, functions

from ...ambient import Clock, SystemClock
from ...client.errors import TopicNotFound
from ...spark.connect.cluster import Cluster
from ...spark.options import net_part, write_options
from ...spark.write.sending import SendTotals
from ...spark.write.writers import write_rows
from ...spark.write.writing import check_columns
from ..lake.files import read_text, remove, write_text

MARK = "PIPELINE_ID"
_MARGIN_MS = 300_000  # clocks of brokers and drivers differ
_PLACE = ("topic", "brokerName", "queueId", "queueOffset")
_RESULT = "rows bigint, bytes bigint, repeatable string"
# Properties that pipelines write.
OWN = ("REPLAY_TOPIC", "REPLAY_OFFSET", "REPLAY_ID", "REDRIVE_GROUP", "REDRIVE_ID", MARK)


def delivery(sent: SendTotals) -> str:
    """Say in words how often each message was delivered."""
    return sent.promise if sent.rows else "nothing to send"


def send(frame: DataFrame, target: Mapping[str, str], origin: str) -> SendTotals:
    """Send columns as of a write; `origin` names it in the requests. Ends when every request was answered."""
    options = write_options(target)
    check_columns(dict(frame.dtypes), options)

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        some = iter(batches)
        first = next(some, None)
        if first is not None:  # nothing to send, nothing to connect for
            done = write_rows(options, origin, chain([first], some)).totals
            totals = [[done.rows], [done.bytes], [",".join(sorted(done.repeatable))]]
            yield pa.RecordBatch.from_arrays([pa.array(each) for each in totals], ["rows", "bytes", "repeatable"])

    total = SendTotals()
    for row in frame.mapInArrow(task, _RESULT).collect():
        total += SendTotals(row.rows, row.bytes, 0, frozenset(name for name in row.repeatable.split(",") if name))
    return total


@dataclass(slots=True, eq=False, repr=False)
class StepSender:
    """The steps of one run. `folder` is its checkpoint, `run` its name, the same after a restart."""

    spark: SparkSession
    folder: str
    target: Mapping[str, str]
    run: str
    clock: Clock = field(default_factory=SystemClock)
    sent: SendTotals = field(default_factory=SendTotals)
    rows: list[dict[str, int]] = field(default_factory=list)

    def send(self, rows: DataFrame, number: int, shape: Callable[[], Sequence[Column]]) -> SendTotals:
        """Send rows, which have the columns of a read; `shape` makes those of a write, `properties` among them."""
        name = functions.concat_ws("/", functions.lit(f"{self.run}/{number}"), *_PLACE)
        out = rows.select(name.alias(MARK), *shape())
        begun, now_ms = read_text(self.spark, f"{self.folder}/begun/{number}"), self.clock.now_ms()
        if begun is None:
            write_text(self.spark, f"{self.folder}/begun/{number}", str(now_ms))
        else:
            out = self._rest(out, number, int(begun))
        marked = functions.map_concat("properties", functions.create_map(functions.lit(MARK), functions.col(MARK)))
        # Ids of messages are made of the origin and the row's number: fewer rows must not get those of the first try.
        sent = send(out.withColumn("properties", marked).drop(MARK), self.target, f"{self.run}/{number}/{now_ms}")
        remove(self.spark, f"{self.folder}/begun/{number - 2}")  # Spark never goes further back than one batch
        self.sent += sent
        self.rows.append({"step": number, "messages": sent.rows, "bytes": sent.bytes})
        return sent

    def _rest(self, out: DataFrame, number: int, begun_ms: int) -> DataFrame:
        """Return the rows that an earlier try of this step has not stored."""
        topics = self._topics(out)
        if not topics:
            return out
        source = net_part(self.target) | {"topic": ",".join(topics), "startingTimestamp": str(begun_ms - _MARGIN_MS)}
        source["startingOffsetsByTimestampStrategy"] = "latest"
        there = self.spark.read.format("rocketmq").schema("properties map<string,string>").options(**source).load()
        names = there.select(functions.element_at("properties", MARK).alias(MARK))
        own = names.where(functions.col(MARK).startswith(f"{self.run}/{number}/"))
        return out.join(functions.broadcast(own), MARK, "left_anti")  # broadcast: rows keep their tasks and order

    def _topics(self, out: DataFrame) -> list[str]:
        """Return the rows' topics, without those that do not exist: these have none of the rows yet."""
        named = [self.target["topic"]] if self.target.get("topic") else []
        if "topic" in out.columns:
            named = sorted(row.topic for row in out.select("topic").distinct().collect())
        found = []
        with Cluster(write_options(self.target)) as cluster:
            for topic in named:
                with suppress(TopicNotFound):
                    cluster.route(topic)
                    found.append(topic)
        return found


def passed_on(origin: Mapping[str, Column | str]) -> list[Column]:
    """Return the columns of a write that passes messages on; `origin` has properties that say where each came from."""
    # Those that an earlier pipeline wrote are dropped.
    own = functions.map_filter("properties", lambda name, _: ~name.isin(*OWN))
    pairs = [each for name, value in origin.items() for each in (functions.lit(name), value)]
    kept = [functions.col(name) for name in ("body", "keys", "tags", "flag")]
    return [*kept, functions.map_concat(own, functions.create_map(*pairs)).alias("properties")]


def in_order(frame: DataFrame, tasks: int) -> DataFrame:
    """Return the rows in the same partitions and order whatever files they came from; a queue stays in its order."""
    places = ["topic", "brokerName", "queueId"]
    return frame.repartition(tasks, *places).sortWithinPartitions(*places, "queueOffset")
