"""The data source in rows a second: scan of files, pull, stream and write; beside Python rows and Kafka's connector.

`bench/spark.py [--kafka] [--rows N] [--sizes 100,1000] [--only pull,stream] [--to FILE]`. One broker with its store on
this machine, local[2], the first runs of each left out. CPU is that of the whole process tree (driver, JVM, workers,
broker) for a million rows. `java` pulls from Apache's broker (with the jars of tests/interop); `--kafka` runs Spark's
Kafka connector on the same rows (see bench/measure/kafka.py). The table is Markdown; a row that fails says so in it.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from bench.measure.spark_table import Found, markdown, save
from bench.measure.timing import Figure, Run, measured
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader

from pyromq.ambient import SystemClock, pause
from pyromq.errors import PyroError
from pyromq.protocol.messages import read_messages
from pyromq.spark.options import Use, read_options, write_options
from pyromq.spark.read.batch_read import BatchReader, QueuePart
from pyromq.spark.read.pulling import QueuePull
from pyromq.spark.read.starting import planned
from pyromq.spark.session import new_session
from pyromq.spark.write.sending import BatchSender
from pyromq.spark.write.writing import RowWriter
from tests.spark.servers import Servers, until_registered

# What Kafka's connector gives too: topic, partition, offset, timestamp, key, value, headers; and tags and ids.
FIELDS = (
    "topic string, queueId int, queueOffset bigint, storeTimestamp timestamp, msgId string, keys string, tags string, "
    "body binary, properties map<string,string>"
)
BINARY_FIELDS = FIELDS.replace("properties map<string,string>", "properties binary")
PRUNED = "queueId int, queueOffset bigint"
ROOT = Path(__file__).resolve().parent.parent
LIMIT_S = 240.0  # of one row, with its warming up
NAMES = (
    *("rows", "offline", "offline-binary", "offline-pruned", "pull", "pull-binary", "pull-pruned"),
    *("stream", "stream-binary", "stream-pruned", "write", "generate", "java"),
)


def progress(text: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S} {text}", file=sys.stderr, flush=True)


class PythonRows(DataSource):
    """The same pulls, decoded and handed to Spark message by message."""

    @classmethod
    def name(cls) -> str:
        return "rocketmq-rows"

    def reader(self, schema: Any) -> DataSourceReader:
        return _RowReader(read_options(dict(self.options), Use.BATCH), schema)


class _RowReader(BatchReader):
    def read(self, partition: Any) -> Iterator[Any]:
        if not isinstance(partition, QueuePart):
            return
        pull = QueuePull(partition.part, partition.address, self._options, SystemClock())
        for body, _ in pull.bodies():
            for each in read_messages(body).messages:
                named = each.properties
                yield (
                    *(each.topic, each.queue_id, each.queue_offset, _time(each.store_timestamp), each.message_id),
                    *(named.get("KEYS"), named.get("TAGS"), each.body, named),
                )


def _time(milliseconds: int) -> Any:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def fill(namesrv: str, topic: str, rows: int, size: int) -> None:
    """Written as tasks write, without Spark."""
    options = write_options({"nameServer": namesrv, "topic": topic})

    def chunks() -> Iterator[pa.RecordBatch]:
        for begin in range(0, rows, 20_000):
            numbers = np.arange(begin, min(rows, begin + 20_000)).tolist()
            yield pa.RecordBatch.from_pydict(
                {
                    "body": [f"{number}".ljust(size, ".").encode() for number in numbers],
                    "keys": [f"k{number}" for number in numbers],
                    "tags": [f"t{number % 16}" for number in numbers],
                    "properties": pa.array([[("region", f"r{number % 4}")] for number in numbers], _MAP),
                }
            )

    RowWriter(options, f"fill-{topic}", 0, BatchSender(options)).write(chunks())


_MAP = pa.map_(pa.string(), pa.string())


def made_rows(spark: SparkSession, rows: int, size: int) -> DataFrame:
    """Made in Spark: what a write has to take."""
    return spark.range(0, rows, 1, 4).selectExpr(
        f"rpad(string(id), {size}, '.') AS body",
        "concat('k', id) AS keys",
        "concat('t', id % 16) AS tags",
        "map('region', concat('r', id % 4)) AS properties",
    )


def drained(frame: DataFrame) -> Run:
    return lambda: frame.write.format("noop").mode("overwrite").save()


def runs(spark: SparkSession, servers: Servers, folder: str, topic: str, rows: int, size: int) -> dict[str, Run]:
    to = {"nameServer": servers.namesrv, "topic": topic}
    files = {"store": str(servers.store()), "topic": topic, "minPartitions": "4"}

    def load(schema: str, kind: str = "rocketmq", **options: str) -> Run:
        return drained(spark.read.format(kind).schema(schema).options(**options).load())

    def stream(schema: str = FIELDS) -> None:
        source = spark.readStream.format("rocketmq").schema(schema)
        sink = source.options(**to, startingOffsets="earliest").load().writeStream.format("noop")
        with tempfile.TemporaryDirectory(dir=folder) as checkpoint:
            sink = sink.option("checkpointLocation", checkpoint)
            sink.trigger(availableNow=True).start().awaitTermination()

    def write() -> None:
        target = {"nameServer": servers.namesrv, "topic": f"{topic}-written"}
        made_rows(spark, rows, size).write.format("rocketmq").mode("append").options(**target).save()

    return {
        "rows": load(FIELDS, "rocketmq-rows", **to),
        "offline": load(FIELDS, **files),
        "offline-binary": load(BINARY_FIELDS, **files),
        "offline-pruned": load(PRUNED, **files),
        "pull": load(FIELDS, **to),
        "pull-binary": load(BINARY_FIELDS, **to),
        "pull-pruned": load(PRUNED, **to),
        "stream": stream,
        "stream-binary": lambda: stream(BINARY_FIELDS),
        "stream-pruned": lambda: stream(PRUNED),
        "write": write,
        "generate": drained(made_rows(spark, rows, size)),
    }


@contextmanager
def java_cluster(folder: Path) -> Iterator[str]:
    """Address of Apache's own name server, which knows Apache's own broker, as that comes but for its heap."""
    from tests.interop.peers import java

    heap = ("-Xms1g", "-Xmx1g")
    files = {"mappedFileSizeCommitLog": str(1 << 30), "mappedFileSizeConsumeQueue": str(20 * 300_000)}
    names = java.NameServer("5.5.0", folder / "java-names")
    try:
        broker = java.Broker("5.5.0", folder / "java-broker", [names.address], files, jvm=heap)
        try:
            until_registered(names.address, broker.name)
            yield names.address
        finally:
            broker.kill()
    finally:
        names.kill()


def until_readable(namesrv: str, topic: str, rows: int) -> None:
    """Java's broker answers sends before its queues have them: a read that is planned too soon has fewer rows."""
    options = read_options({"nameServer": namesrv, "topic": topic}, Use.BATCH)
    while sum(part.size for part, _ in planned(options)) < rows:
        pause(0.2)


def from_java(spark: SparkSession, folder: Path, topic: str, rows: int, size: int) -> Figure:
    """Pulls at the limits of Java's broker, 32 messages each."""
    with tempfile.TemporaryDirectory(dir=folder) as own, java_cluster(Path(own)) as namesrv:
        fill(namesrv, topic, rows, size)
        until_readable(namesrv, topic, rows)
        source = spark.read.format("rocketmq").schema(FIELDS).options(nameServer=namesrv, topic=topic)
        return measured(drained(source.load()), rows)


def tried(spark: SparkSession, name: str, measure: Callable[[], Figure]) -> Figure | str:
    """A figure, or why there is none. What takes too long is stopped: its jobs fail, and it with them."""
    stop = threading.Timer(LIMIT_S, spark.sparkContext.cancelAllJobs)
    stop.start()
    try:
        return measure()
    except Exception as fault:  # the next row may work
        text = str(fault).strip() or type(fault).__name__
        progress(f"{name} failed: {text[-2000:]}")
        return f"failed: {type(fault).__name__}: {text.splitlines()[0][:120]}".replace("|", "/")
    finally:
        stop.cancel()


def ours(sizes: list[tuple[int, int]], only: list[str], found: Found, told: Callable[[], None]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        spark = new_session("bench", master="local[2]", memory="2g")
        try:
            spark.dataSource.register(PythonRows)
            for size, rows in sizes:
                _of_one_size(spark, Path(folder) / f"{size}", size, rows, only, found.setdefault(size, {}), told)
        finally:
            spark.stop()


def _of_one_size(
    spark: SparkSession,
    folder: Path,
    size: int,
    rows: int,
    only: list[str],
    named: dict[str, Any],
    told: Callable[[], None],
) -> None:
    """With a broker and a store of its own: a scan of files passes all that is in them, whatever topic is asked for."""
    folder.mkdir()
    servers, topic = Servers(folder), f"bench-{size}"
    try:
        # As brokers come, without a duplicate window: what is measured is at least once, as Kafka's sink is.
        servers.start(
            mappedFileSizeCommitLog=1 << 30, mappedFileSizeConsumeQueue=20 * 300_000, duplicateWindowEnable="false"
        )
        progress(f"{size} B: {rows:,} messages are written")
        try:
            fill(servers.namesrv, topic, rows, size)
        except PyroError as fault:
            named["fill"] = f"failed: {fault}"
            return
        each = runs(spark, servers, str(folder), topic, rows, size)
        for name in only:
            progress(f"{size} B: {name}")
            if name == "java":
                measure = lambda: from_java(spark, folder, topic, rows, size)  # noqa: E731
            else:
                measure = lambda: measured(each[name], rows)  # noqa: B023, E731
            named[name] = tried(spark, name, measure)
            told()
    finally:
        servers.close()


def kafkas(sizes: list[tuple[int, int]], only: list[str], found: Found, told: Callable[[], None]) -> None:
    """In a Python of its own, since the connector's newest jars are of an older Spark."""
    pairs = ",".join(f"{size}:{rows}" for size, rows in sizes)
    command = [sys.executable, "-m", "bench.measure.kafka", "--sizes", pairs, "--only", ",".join(only)]
    progress("Kafka's connector")
    running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True)
    assert running.stdout is not None
    stop = threading.Timer(4 * LIMIT_S, lambda: end(running.pid))  # all of it; its rows have no limit of their own
    stop.start()
    try:
        for line in running.stdout:
            size, name, figure = json.loads(line)
            progress(f"{size} B: Kafka's {name}")
            found.setdefault(size, {})[name] = figure
            told()
        if running.wait():
            found.setdefault(sizes[0][0], {})["connector"] = f"failed: it ended with {running.returncode}"
    finally:
        stop.cancel()
        end(running.pid)


def end(group: int) -> None:
    """With Kafka's broker and Spark's JVM, should they still run."""
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--rows", type=int, default=1_600_000, help="of 200 B and less; of larger ones two fifths")
    words.add_argument("--sizes", default="100,1000")
    words.add_argument("--only", default=",".join(NAMES), help=", ".join(NAMES))
    words.add_argument("--kafka", action="store_true")
    words.add_argument("--to", type=Path, default=ROOT / "build" / "spark.md", help="the table goes here too")
    asked = words.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # `timeout` ends it so: what it started and wrote goes too
    only = asked.only.split(",")
    if unknown := sorted({*only} - {*NAMES}):
        words.error(f"--only: there is no {', '.join(unknown)}; there are {', '.join(NAMES)}")
    sizes = [(size, asked.rows if size <= 200 else asked.rows * 2 // 5) for size in map(int, asked.sizes.split(","))]
    counts = ", ".join(f"{rows:,} rows of {size} B" for size, rows in sizes)
    title = f"{counts}; local[2]; {datetime.now(UTC):%Y-%m-%d}. A ratio above 1 is in our favour."
    own: Found = {}
    kafka: Found = {}

    def told() -> None:
        save(asked.to, markdown(own, kafka, title))

    if asked.kafka:
        kafkas(sizes, only, kafka, told)
    ours(sizes, only, own, told)
    print(markdown(own, kafka, title))
    progress(f"written to {asked.to}")


if __name__ == "__main__":
    main()
