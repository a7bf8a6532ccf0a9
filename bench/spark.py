"""The data source in rows a second: scan of files, pull, stream and write, beside reading row by row.

One broker with its store on this machine, local[2], warm. Medians of three; the ratio is to the same rows made one by
one in Python (protocol.messages), the way a plain consumer makes them.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from pyromq.ambient import SystemClock
from pyromq.protocol.messages import decode_messages
from pyromq.spark.options import Use, read_options
from pyromq.spark.planner import Range
from pyromq.spark.pulling import QueuePull
from pyromq.spark.session import new_session
from tests.spark.servers import Servers

ROWS = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
FIELDS = (
    "topic string, queueId int, queueOffset bigint, keys string, tags string, body binary, "
    "properties map<string,string>"
)
CLOCK = SystemClock()


def rate(run: Callable[[], object], times: int = 3) -> float:
    """Rows a second, the first run left out."""
    run()
    seconds = []
    for _ in range(times):
        began = CLOCK.monotonic()
        run()
        seconds.append(CLOCK.monotonic() - began)
    return ROWS / statistics.median(seconds)


def one_by_one(servers: Servers, topic: str) -> float:
    """The per-row path: pulled by the same connection, decoded by the plain decoder, without Spark."""
    from pyromq.spark.cluster import Cluster

    options = read_options({"nameServer": servers.namesrv, "topic": topic}, Use.BATCH)
    with Cluster(options) as cluster:
        queues = cluster.queues([topic])
        bounds = cluster.bounds(queues)

    def run() -> None:
        for queue, (low, high) in bounds.items():
            for body, _ in QueuePull(Range(queue, low, high), queues[queue], options, CLOCK).bodies():
                decode_messages(body)

    return rate(run)


def main() -> None:
    table = Table(title=f"{ROWS:,} rows, rows a second (ratio to row by row)")
    for name in ("body", "row by row", "scan of files", "pull", "pull, 2 columns", "stream", "write"):
        table.add_column(name, justify="right")
    with tempfile.TemporaryDirectory() as folder:
        servers = Servers(Path(folder))
        spark = new_session("bench", master="local[2]", memory="2g")
        try:
            servers.start(mappedFileSizeCommitLog=256 << 20)
            for size in (100, 1000):
                topic = f"bench-{size}"
                to = {"nameServer": servers.namesrv, "topic": topic}
                rows = spark.range(0, ROWS, 1, 4).selectExpr(
                    f"rpad(string(id), {size}, '.') AS body",
                    "concat('k', id) AS keys",
                    "concat('t', id % 16) AS tags",
                    "map('region', concat('r', id % 4)) AS properties",
                )
                began = CLOCK.monotonic()
                rows.write.format("rocketmq").mode("append").options(**to).save()
                written = ROWS / (CLOCK.monotonic() - began)
                plain = one_by_one(servers, topic)

                def counted(schema: str, options: dict[str, str]) -> Callable[[], object]:
                    frame = spark.read.format("rocketmq").schema(schema).options(**options).load()
                    return lambda: frame.write.format("noop").mode("overwrite").save()

                def streamed(number: list[int] = [0], to: dict[str, str] = to) -> None:  # noqa: B006 - counts runs
                    number[0] += 1
                    frame = (
                        spark.readStream.format("rocketmq")
                        .schema(FIELDS)
                        .options(**to, startingOffsets="earliest")
                        .load()
                    )
                    sink = frame.writeStream.format("noop").option(
                        "checkpointLocation", f"{folder}/{to['topic']}-{number[0]}"
                    )
                    sink.trigger(availableNow=True).start().awaitTermination()

                figures = [
                    rate(counted(FIELDS, {"store": str(servers.store()), "topic": topic, "minPartitions": "4"})),
                    rate(counted(FIELDS, to)),
                    rate(counted("queueId int, queueOffset bigint", to)),
                    rate(streamed),
                    written,
                ]
                table.add_row(f"{size} B", f"{plain:,.0f}", *(f"{each:,.0f} ({each / plain:.1f}x)" for each in figures))
        finally:
            spark.stop()
            servers.close()
    Console().print(table)


if __name__ == "__main__":
    main()
