"""A million rows counted by tag in SQL, on one core: from a broker by pulls, from its files, and what push-down saves.

`PYTHONPATH=. python bench/sql.py [--rows 1000000] [--size 100]`. Beside each query stands DuckDB's own time for the
same count over the same rows in a Parquet file. One core is ours, the broker runs on the others.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from pathlib import Path

from bench.measure.timing import timed
from bench.spark import fill, progress

from pyromq.query.connecting import open_tables
from pyromq.query.front import source_of
from pyromq.query.tables import Scans
from pyromq.spark.codec.files import topic_to_file
from tests.spark.servers import Servers

QUERIES = {
    "count by tag": "SELECT tag, count(*) FROM {} GROUP BY tag ORDER BY tag",
    "one tag of 16": "SELECT count(*) FROM {} WHERE tag = 't3'",
    "a tenth of one queue": "SELECT count(*), max(tag) FROM {} WHERE queueId = 0 AND queueOffset < {tenth}",
    "the last stored": "SELECT count(*) FROM {} WHERE storeTimestamp >= TIMESTAMPTZ '{late}'",
}


def run(folder: Path, rows: int, size: int) -> None:
    servers = Servers(folder)
    try:
        servers.start(
            mappedFileSizeCommitLog=1 << 30, mappedFileSizeConsumeQueue=20 * 300_000, duplicateWindowEnable="false",
            maxHashSlotNum=5_000_000, maxIndexNum=20_000_000,
        )  # fmt: skip
        took_s = timed(lambda: fill(servers.namesrv, "orders", rows, size))
        progress(f"{rows:,} rows of {size} B are written in {took_s:.1f} s")
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        whole = folder / "orders.parquet"
        topic_to_file(whole, nameServer=servers.namesrv, topic="orders")
        (late,) = asked(servers, whole, "SELECT quantile_disc(storeTimestamp, 0.99) FROM parquet")[1]
        print(f"| {rows:,} rows of {size} B | broker s | files s | Parquet s | rows that came from the broker |")
        print("|---|---|---|---|---|")
        for name, query in QUERIES.items():
            text = query.replace("{tenth}", str(rows // 40)).replace("{late}", str(late[0]))
            cells, came = [], 0
            for table in ("orders", "files", "parquet"):
                words = text.format(table)
                words = words.replace("tag", "tags") if table == "parquet" else words
                took: list[float] = []
                for _ in range(4):
                    seconds, found, seen = asked(
                        servers, whole, words.replace("files", "orders"), files=table == "files"
                    )
                    took.append(seconds)
                came = seen if table == "orders" else came
                cells.append(f"{statistics.median(took[1:]):.2f}")
                progress(f"{name}, {table}: {cells[-1]} s, {found[:2]}")
            print(f"| {name} | {' | '.join(cells)} | {came:,} |", flush=True)
    finally:
        servers.close()


def asked(
    servers: Servers, whole: Path, query: str, *, files: bool = False
) -> tuple[float, list[tuple[object, ...]], int]:
    """Return seconds, the rows, and how many rows the source gave."""
    scans = Scans()
    source = source_of(servers.namesrv, servers.store() if files else None)
    found: list[tuple[object, ...]] = []
    with open_tables(source, ["orders"], {"parquet": whole}, scans, locked=True) as connection:
        connection.execute("SELECT 1")
        seconds = timed(lambda: found.extend(connection.execute(query).fetchall()))
    return seconds, found, sum(each.rows for each in scans.scans)


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--rows", type=int, default=1_000_000)
    words.add_argument("--size", type=int, default=100)
    given = words.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run(Path(folder), given.rows, given.size)


if __name__ == "__main__":
    main()
