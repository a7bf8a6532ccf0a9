"""One batch read of very many rows by pulls: none lost, none twice, and Python workers that stay small.

`PYTHONPATH=. python bench/many_rows.py [--rows 10000000]`. Messages of 16 B, written as tasks write; then each
queue's rows, sum of offsets, first and last are compared with what its broker says it has. Ends with 1 where they
differ, or where a worker had more than 300 MB. By hand: two minutes and 3 GB of disk.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.measure.timing import timed
from bench.measure.tree import Tree, forget_peaks, worker_peak
from bench.spark import PRUNED, fill, progress
from pyspark.sql import SparkSession, functions

from pyromq.spark.connect.cluster import Cluster
from pyromq.spark.options import Use, read_options
from pyromq.spark.session import new_session
from tests.spark.servers import Servers

TOPIC = "many"
MOST_MB = 300.0
Queues = dict[int, tuple[int, int, int, int]]  # rows, sum of offsets, first, last


def expected(namesrv: str) -> Queues:
    with Cluster(read_options({"nameServer": namesrv, "topic": TOPIC}, Use.BATCH)) as cluster:
        bounds = cluster.bounds(cluster.queues([TOPIC]))
    return {
        queue.queue_id: (high - low, (low + high - 1) * (high - low) // 2, low, high - 1)
        for queue, (low, high) in bounds.items()
        if high > low
    }


def read(spark: SparkSession, namesrv: str) -> Queues:
    frame = spark.read.format("rocketmq").schema(f"{PRUNED}, body binary").options(nameServer=namesrv, topic=TOPIC)
    offset = functions.col("queueOffset")
    # The bodies are counted too, so that they have to come.
    counts = (functions.count("body"), functions.sum(offset), functions.min(offset), functions.max(offset))
    return {row[0]: tuple(row[1:]) for row in frame.load().groupBy("queueId").agg(*counts).collect()}


def run(folder: Path, rows: int) -> dict[str, Any]:
    servers = Servers(folder)
    spark = new_session("many rows", master="local[2]", memory="1g")
    try:
        servers.start(
            mappedFileSizeCommitLog=1 << 30, mappedFileSizeConsumeQueue=20 * 300_000, duplicateWindowEnable="false",
            maxHashSlotNum=5_000_000, maxIndexNum=20_000_000,
        )  # fmt: skip
        wrote = timed(lambda: fill(servers.namesrv, TOPIC, rows, 16))
        progress(f"{rows:,} messages written in {wrote:.0f} s")
        found: list[Queues] = []
        forget_peaks()
        tree = Tree()
        took = timed(lambda: found.append(read(spark, servers.namesrv)))
        wanted = expected(servers.namesrv)
        return {
            "rows": sum(queue[0] for queue in found[0].values()),
            "queues": len(found[0]),
            "as the broker has them": found[0] == wanted and sum(queue[0] for queue in wanted.values()) == rows,
            "rows/s": round(rows / took),
            "cpu s": {kind: round(spent, 1) for kind, spent in tree.parts().items()},
            "worker MB": round(worker_peak() / 1e6, 1),
        }
    finally:
        spark.stop()
        servers.close()


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--rows", type=int, default=10_000_000)
    asked = words.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # `timeout` ends it so: what it started and wrote goes too
    with tempfile.TemporaryDirectory() as folder:
        told = run(Path(folder), asked.rows)
    print(told)
    sys.exit(0 if told["as the broker has them"] and 0 < told["worker MB"] < MOST_MB else 1)


if __name__ == "__main__":
    main()
