"""The data source in rows a second: scan of files, pull, stream and write; beside Python rows and Kafka's connector.

`bench/spark.py [--rows N] [--sizes 100,1000] [--only pull,stream] [--kafka]`. One broker with its store on this
machine, local[2], the first run of each left out. CPU is that of the whole process tree (driver, JVM, workers, broker)
for a million rows. `--only java` pulls from Apache's broker (with the jars of tests/interop); `--kafka` runs Spark's
Kafka connector on the same rows (see bench/measure/kafka.py).
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from bench.measure.tree import Tree, worker_peak
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader
from rich.console import Console
from rich.table import Table

from pyromq.ambient import SystemClock
from pyromq.protocol.messages import decode_messages
from pyromq.spark.batch_read import BatchReader, QueuePart
from pyromq.spark.options import Use, read_options, write_options
from pyromq.spark.pulling import QueuePull
from pyromq.spark.sending import BatchSender
from pyromq.spark.session import new_session
from pyromq.spark.writing import RowWriter
from tests.spark.servers import Servers, until_registered

# What Kafka's connector gives too: topic, partition, offset, timestamp, key, value, headers; and tags and ids.
FIELDS = (
    "topic string, queueId int, queueOffset bigint, storeTimestamp timestamp, msgId string, keys string, tags string, "
    "body binary, properties map<string,string>"
)
PRUNED = "queueId int, queueOffset bigint"
CLOCK = SystemClock()
TIMES = 3
Run = Callable[[], object]


class Figure(dict[str, float]):
    """rows a second; CPU seconds of a million rows, in all and by kind; MB of the largest Python worker."""


def measured(run: Run, rows: int) -> Figure:
    run()
    seconds, tree = [], Tree()
    for _ in range(TIMES):
        began = CLOCK.monotonic()
        run()
        seconds.append(CLOCK.monotonic() - began)
    cpu = {kind: spent / TIMES / rows * 1e6 for kind, spent in tree.parts().items()}
    return Figure(rate=rows / statistics.median(seconds), cpu=sum(cpu.values()), worker_mb=worker_peak() / 1e6, **cpu)


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
            for each in decode_messages(body):
                named = each.properties
                yield (
                    *(each.topic, each.queue_id, each.queue_offset, _time(each.store_timestamp), each.message_id),
                    *(named.get("KEYS"), named.get("TAGS"), each.body, named),
                )


def _time(milliseconds: int) -> Any:
    from datetime import UTC, datetime

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

    def stream() -> None:
        source = spark.readStream.format("rocketmq").schema(FIELDS)
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
        "offline-pruned": load(PRUNED, **files),
        "pull": load(FIELDS, **to),
        "pull-pruned": load(PRUNED, **to),
        "stream": stream,
        "write": write,
        "generate": drained(made_rows(spark, rows, size)),
    }


@contextmanager
def java_cluster(folder: Path) -> Iterator[str]:
    """Address of Apache's own name server, which knows Apache's own broker."""
    from tests.interop.peers import java

    names = java.NameServer("5.5.0", folder / "java-names")
    try:
        broker = java.Broker("5.5.0", folder / "java-broker", [names.address])
        try:
            until_registered(names.address, broker.name)
            yield names.address
        finally:
            broker.kill()
    finally:
        names.kill()


def from_java(spark: SparkSession, folder: Path, topic: str, rows: int, size: int) -> Figure:
    """Pulls at the limits of Java's broker, 32 messages each."""
    with java_cluster(folder) as namesrv:
        fill(namesrv, topic, rows, size)
        source = spark.read.format("rocketmq").schema(FIELDS).options(nameServer=namesrv, topic=topic)
        return measured(drained(source.load()), rows)


NAMES = ("rows", "offline", "offline-pruned", "pull", "pull-pruned", "stream", "write", "generate", "java")


def ours(sizes: list[int], rows: int, only: list[str]) -> dict[int, dict[str, Figure]]:
    found: dict[int, dict[str, Figure]] = {}
    with tempfile.TemporaryDirectory() as folder:
        servers = Servers(Path(folder))
        spark = new_session("bench", master="local[2]", memory="2g")
        try:
            spark.dataSource.register(PythonRows)
            # As brokers come, without a duplicate window: what is measured is at least once, as Kafka's sink is.
            servers.start(
                mappedFileSizeCommitLog=1 << 30, mappedFileSizeConsumeQueue=20 * 300_000, duplicateWindowEnable="false"
            )
            for size in sizes:
                topic = f"bench-{size}"
                fill(servers.namesrv, topic, rows, size)
                each = runs(spark, servers, folder, topic, rows, size)
                found[size] = {}
                for name in only:
                    if name == "java":
                        found[size][name] = from_java(spark, Path(folder), topic, rows, size)
                    else:
                        found[size][name] = measured(each[name], rows)
                    print(size, name, json.dumps(found[size][name]), file=sys.stderr, flush=True)
        finally:
            spark.stop()
            servers.close()
    return found


def kafkas(sizes: list[int], rows: int, only: list[str]) -> dict[int, dict[str, Figure]]:
    """In a Python of its own, since the connector's newest jars are of an older Spark."""
    command = [sys.executable, "-m", "bench.measure.kafka", "--rows", str(rows), "--sizes", ",".join(map(str, sizes))]
    done = subprocess.run([*command, "--only", ",".join(only)], stdout=subprocess.PIPE, check=True, text=True)
    return {int(size): {k: Figure(v) for k, v in named.items()} for size, named in json.loads(done.stdout).items()}


def show(found: dict[int, dict[str, Figure]], kafka: dict[int, dict[str, Figure]], rows: int) -> None:
    table = Table(title=f"{rows:,} rows, local[2]: rows a second, CPU seconds of a million rows, ratio to Kafka's")
    heads = (
        "body",
        "what",
        "rows/s",
        "CPU s/M",
        "JVM, workers, broker",
        "worker MB",
        "Kafka rows/s",
        "CPU s/M",
        "ratio",
    )
    for name in heads:
        table.add_column(name, justify="right")
    alike = {"offline": "pull", "offline-pruned": "pull-pruned"}
    for size, named in found.items():
        for name, figure in named.items():
            parts = ", ".join(f"{figure.get(kind, 0):.1f}" for kind in ("jvm", "workers", "broker"))
            cells = [f"{size} B", name, f"{figure['rate']:,.0f}", f"{figure['cpu']:.2f}", parts]
            cells.append(f"{figure['worker_mb']:.0f}")
            other = kafka.get(size, {}).get(alike.get(name, name))
            if other is not None:
                cells += [f"{other['rate']:,.0f}", f"{other['cpu']:.2f}", f"{figure['rate'] / other['rate']:.2f}x"]
            table.add_row(*cells)
    Console(width=130).print(table)


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--rows", type=int, default=400_000)
    words.add_argument("--sizes", default="100,1000")
    words.add_argument("--only", default=",".join(NAMES[:-1]), help=", ".join(NAMES))
    words.add_argument("--kafka", action="store_true")
    asked = words.parse_args()
    sizes, only = [int(size) for size in asked.sizes.split(",")], asked.only.split(",")
    kafka = kafkas(sizes, asked.rows, only) if asked.kafka else {}
    show(ours(sizes, asked.rows, only), kafka, asked.rows)


if __name__ == "__main__":
    main()
