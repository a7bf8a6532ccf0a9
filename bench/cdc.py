"""Changes a second from MariaDB's binlog: raw, decoded, and captured into a broker; CPU of each, memory.

    make bench B=bench/cdc.py          needs mariadb-server; --rows N changes (default 100000)

`raw` reads the events and throws them away: what the server and the socket allow. `decoded` makes rows of them.
`captured` is the whole way: envelopes, state on disk, batches into the broker with its duplicate window.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import tempfile
import time
from contextlib import closing
from pathlib import Path

from pyromq.cdc.binlog.source import BinlogSource
from pyromq.cdc.changes import Position, ReadBounds
from tests.cdc.mariadb import MariaDb
from tests.cdc.world import CaptureWorld


def in_shop(table: str) -> bool:
    return table.startswith("shop.")


def read(server: MariaDb, start: Position, rows: int, *, decode: bool) -> None:
    """Print how fast this process reads the log behind a position."""
    end = server.rows("SELECT @@gtid_binlog_pos")[0][0]
    began, cpu = time.perf_counter(), time.process_time()
    with closing(
        BinlogSource(server.address, "bench", start, in_shop if decode else lambda table: False, 77)
    ) as source:
        seen = 0
        while True:
            part = source.read(ReadBounds())
            seen += len(part.changes)
            if part.end.done == end and not part.end.inside:
                break
    seconds, used = time.perf_counter() - began, time.process_time() - cpu
    assert seen == (rows if decode else 0)
    show("decoded" if decode else "raw", rows, seconds, used)


def show(what: str, rows: int, seconds: float, cpu: float, memory: str = "") -> None:
    print(f"{what:10} {rows / seconds:10,.0f} changes/s  {cpu / rows * 1e6:7.1f} us CPU a change  {memory}", flush=True)


def peak_mb(pid: int) -> int:
    (line,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) // 1024


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def captured(server: MariaDb, folder: Path, rows: int) -> None:
    """Print the same of a capture: begun before the rows are there, so that its snapshot is of an empty table."""
    server.run("TRUNCATE TABLE shop.t")
    world = CaptureWorld(folder, server.url)
    try:
        program = world.start_capture()
        program.wait_for("snapshot")
        before = cpu_s(program.pid)
        began = time.perf_counter()
        fill(server, rows)
        await world.status_once(lambda found: found["messages"] >= rows)
        seconds = time.perf_counter() - began
        show("captured", rows, seconds, cpu_s(program.pid) - before, f"peak {peak_mb(program.pid)} MB")
    finally:
        world.close()


def fill(server: MariaDb, rows: int) -> None:
    """Insert rows of about 100 bytes, all in one transaction."""
    with server.session() as cursor:
        cursor.execute(
            f"INSERT INTO t SELECT seq, CONCAT('customer ', seq), seq / 7, REPEAT('x', 60), NOW() FROM seq_1_to_{rows}"
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=100_000)
    rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory(prefix="pyromq-bench-cdc") as name:
        server = MariaDb(Path(name))
        try:
            server.run(
                "CREATE TABLE shop.t (id INT PRIMARY KEY, name VARCHAR(40), price DECIMAL(12,2), note TEXT, t DATETIME)"
            )
            start = Position(done=server.rows("SELECT @@gtid_binlog_pos")[0][0])
            fill(server, rows)
            read(server, start, rows, decode=False)
            read(server, start, rows, decode=True)
            print(f"peak of this process {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MB")
            (Path(name) / "world").mkdir()
            asyncio.run(captured(server, Path(name) / "world", rows))
        finally:
            server.kill()


if __name__ == "__main__":
    main()
