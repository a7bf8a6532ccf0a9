"""Rows of a job to a topic, step by step, each once however often the job is killed and started again.

Each message carries the name of its row in the property PIPELINE_ID. A step that is begun a second time looks in the
target for what the first try left there and sends the rest: that needs no window and no time limit. Within a try the
requests have names that a repeated task shares, and brokers with a duplicate window store them once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING

from ...ambient import Clock, SystemClock
from ...client.errors import TopicNotFound
from ...spark.connect.cluster import Cluster
from ...spark.options import NetOptions, declared, write_options
from ...spark.write.sending import SendTotals
from ...spark.write.writing import check_columns
from ..lake.files import read_text, remove, write_text

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

MARK = "PIPELINE_ID"
_MARGIN_MS = 300_000  # clocks of brokers and drivers differ
_PLACE = ("topic", "brokerName", "queueId", "queueOffset")
_RESULT = "rows bigint, bytes bigint, repeatable string"
OWN = (
    "REPLAY_TOPIC",
    "REPLAY_OFFSET",
    "REPLAY_ID",
    "REDRIVE_GROUP",
    "REDRIVE_ID",
    MARK,
)  # properties that pipelines write


def delivery(sent: SendTotals) -> str:
    """Say in words how often each message was delivered."""
    return sent.promise if sent.rows else "nothing to send"


def send(frame: DataFrame, target: Mapping[str, str], origin: str) -> SendTotals:
    """Send columns as of a write; `origin` names it in the requests. Ends when every request was answered."""
    options = write_options(target)
    check_columns(frame.columns, options)

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        from pyspark import TaskContext

        from pyromq.spark.write.batch_write import write_rows

        context = TaskContext.get()
        assert context is not None
        some = iter(batches)
        first = next(some, None)
        if first is not None:  # nothing to send, nothing to connect for
            done = write_rows(options, origin, context.partitionId(), chain([first], some)).totals
            totals = [[done.rows], [done.bytes], [",".join(sorted(done.repeatable))]]
            yield pa.RecordBatch.from_arrays([pa.array(each) for each in totals], ["rows", "bytes", "repeatable"])

    total = SendTotals()
    for row in frame.mapInArrow(task, _RESULT).collect():
        total += SendTotals(row.rows, row.bytes, 0, frozenset(name for name in row.repeatable.split(",") if name))
    return total


class StepSender:
    """The steps of one run. `folder` is its checkpoint, `run` its name, the same after a restart."""

    def __init__(
        self, spark: SparkSession, folder: str, target: Mapping[str, str], run: str, clock: Clock | None = None
    ) -> None:
        self._spark = spark
        self._folder = folder
        self._target = target
        self._run = run
        self._clock = clock or SystemClock()
        self.sent = SendTotals()
        self.rows: list[dict[str, int]] = []

    def send(self, rows: DataFrame, number: int, shape: Callable[[], Sequence[Column]]) -> SendTotals:
        """Send rows, which have the columns of a read.

        `shape` makes the columns of a write of them, `properties` among them.
        """
        from pyspark.sql import functions

        name = functions.concat_ws("/", functions.lit(f"{self._run}/{number}"), *_PLACE)
        out = rows.select(name.alias(MARK), *shape())
        begun, now_ms = read_text(self._spark, f"{self._folder}/begun/{number}"), self._clock.now_ms()
        if begun is None:
            write_text(self._spark, f"{self._folder}/begun/{number}", str(now_ms))
        else:
            out = self._rest(out, number, int(begun))
        marked = functions.map_concat("properties", functions.create_map(functions.lit(MARK), functions.col(MARK)))
        # Ids of messages are made of the origin and the row's number: fewer rows must not get those of the first try.
        sent = send(out.withColumn("properties", marked).drop(MARK), self._target, f"{self._run}/{number}/{now_ms}")
        remove(self._spark, f"{self._folder}/begun/{number - 2}")  # Spark never goes further back than one batch
        self.sent += sent
        self.rows.append({"step": number, "messages": sent.rows, "bytes": sent.bytes})
        return sent

    def _rest(self, out: DataFrame, number: int, begun_ms: int) -> DataFrame:
        """Return the rows that an earlier try of this step has not stored."""
        from pyspark.sql import functions

        topics = self._topics(out)
        if not topics:
            return out
        known = declared(NetOptions)
        source = {name: value for name, value in self._target.items() if name.lower() in known}
        source |= {"topic": ",".join(topics), "startingTimestamp": str(begun_ms - _MARGIN_MS)}
        source |= {"startingOffsetsByTimestampStrategy": "latest"}
        there = self._spark.read.format("rocketmq").schema("properties map<string,string>").options(**source).load()
        names = there.select(functions.element_at("properties", MARK).alias(MARK))
        own = names.where(functions.col(MARK).startswith(f"{self._run}/{number}/"))
        return out.join(functions.broadcast(own), MARK, "left_anti")  # broadcast: rows keep their tasks and order

    def _topics(self, out: DataFrame) -> list[str]:
        """Return the rows' topics, without those that do not exist: these have none of the rows yet."""
        named = [self._target["topic"]] if self._target.get("topic") else []
        if "topic" in out.columns:
            named = sorted(row.topic for row in out.select("topic").distinct().collect())
        found = []
        options = write_options(self._target)
        with Cluster(options) as cluster:
            for topic in named:
                with suppress(TopicNotFound):
                    cluster.route(topic)
                    found.append(topic)
        return found


def passed_on(origin: Mapping[str, Column | str]) -> list[Column]:
    """Return the columns of a write that passes messages on, with properties that say where each came from.

    `origin` has these by name; those that an earlier pipeline wrote are dropped.
    """
    from pyspark.sql import functions

    own = functions.map_filter("properties", lambda name, _: ~name.isin(*OWN))
    pairs = [each for name, value in origin.items() for each in (functions.lit(name), value)]
    kept = [functions.col(name) for name in ("body", "keys", "tags", "flag")]
    return [*kept, functions.map_concat(own, functions.create_map(*pairs)).alias("properties")]


def in_order(frame: DataFrame, tasks: int) -> DataFrame:
    """Return the rows in the same partitions and order whatever files they came from.

    A queue stays in its order.
    """
    places = ["topic", "brokerName", "queueId"]
    return frame.repartition(tasks, *places).sortWithinPartitions(*places, "queueOffset")
