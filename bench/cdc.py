"""Changes a second from a database's log: decoded, captured into a broker, in a snapshot; CPU, lag and memory of each.

    make bench B=bench/cdc.py       needs mariadb-server or postgresql; --rows N changes (default 100000),
                                    --database mariadb or postgresql, --peer-python P, --debezium FOLDER,
                                    --parts log paced captured snapshot: some of them

`raw` (MariaDB) reads the events and throws them away: what the server and the socket allow. `decoded` makes rows of
them. `mysql-replication` is that library doing so, where P is a Python that has it, and `Debezium` the engine whose
jars are in the folder (bench/DebeziumLoad.java), making JSON of them: its second half, since Java is slow at first.
`captured` is the whole way:
envelopes, state on disk, batches into the broker with its duplicate window; `snapshot` the same of rows that were there
before. `paced` offers 5000 changes a second: its lag is from the moment at which the row's statement began to the one
at which the broker stored the event.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from pyromq import admin
from pyromq.admin.calls import Calls
from pyromq.cdc.binlog.source import BinlogSource
from pyromq.cdc.changes import Position, ReadBounds
from pyromq.cdc.events import decode_event
from pyromq.client.client import connect
from tests.cdc.mariadb import MariaDb
from tests.cdc.postgres import Postgres
from tests.cdc.world import CaptureWorld
from tests.interop.peers.process import Program

COLUMNS = "id INT PRIMARY KEY, name VARCHAR(40), price DECIMAL(12,2), note TEXT, begun BIGINT"
PIECES = 10  # transactions of the whole: memory is looked at behind each
OFFERED, TICK_S, PACED_S = 5000, 0.25, 20
PARTS = ("log", "paced", "captured", "snapshot")
PEER = """
import sys, time
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import WriteRowsEvent
port, rows = int(sys.argv[1]), int(sys.argv[2])
settings = {"host": "127.0.0.1", "port": port, "user": "cdc", "passwd": "secret"}
began, cpu, seen = time.perf_counter(), time.process_time(), 0
for event in BinLogStreamReader(settings, server_id=78, only_events=[WriteRowsEvent], is_mariadb=True,
                                log_file=sys.argv[3], log_pos=4, resume_stream=True):
    seen += len(event.rows)
    if seen >= rows:
        break
print(time.perf_counter() - began, time.process_time() - cpu)
"""


def show(what: str, rows: int, seconds: float, cpu: float, more: str = "") -> None:
    load = os.getloadavg()[0]
    print(
        f"{what:18}{rows / seconds:10,.0f} changes/s {cpu / rows * 1e6:7.1f} us CPU a change  load {load:.0f}  {more}",
        flush=True,
    )


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def mb(size: int) -> int:
    return size // 1_000_000


def fill(server: MariaDb | Postgres, first: int, rows: int) -> None:
    """Insert rows of about 100 bytes, all in one transaction."""
    numbers = f"generate_series({first}, {first + rows - 1}) seq" if isinstance(server, Postgres) else (
        f"seq_{first}_to_{first + rows - 1}"
    )  # fmt: skip
    begun = int(time.time() * 1000)
    with server.session("shop") as cursor:
        cursor.execute(
            f"INSERT INTO t SELECT seq, CONCAT('customer ', seq), seq / 7, REPEAT('x', 60), {begun} FROM {numbers}"
        )


def empty(server: MariaDb | Postgres) -> None:
    with server.session("shop") as cursor:
        cursor.execute("DROP TABLE IF EXISTS t")
        cursor.execute(f"CREATE TABLE t ({COLUMNS})")


# --- the log alone ----------------------------------------------------------------------------------------------------


def read_binlog(server: MariaDb, rows: int, peer: str) -> None:
    """Print how fast this process reads the log, and how fast the peer does."""
    start = Position(done=server.rows("SELECT @@gtid_binlog_pos")[0][0])
    server.run("FLUSH BINARY LOGS")
    fill(server, 1, rows)
    for what, is_wanted, wanted in (("raw", lambda _: False, 0), ("decoded", lambda name: name == "shop.t", rows)):
        _read(server, start, what, is_wanted, wanted, rows)
    if peer:
        file = server.rows("SHOW MASTER STATUS")[0][0]
        words = [peer, "-c", PEER, str(server.port), str(rows), file]
        seconds, cpu = subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()
        show("mysql-replication", rows, float(seconds), float(cpu))


def _read(
    server: MariaDb, start: Position, what: str, is_wanted: Callable[[str], bool], wanted: int, rows: int
) -> None:
    end = server.rows("SELECT @@gtid_binlog_pos")[0][0]
    began, cpu, seen = time.perf_counter(), time.process_time(), 0
    with closing(BinlogSource(server.address, "bench", start, is_wanted, 77)) as source:
        while True:
            part = source.read(ReadBounds())
            seen += len(part.changes)
            if part.end.done == end and not part.end.inside:
                break
    assert seen == wanted
    show(what, rows, time.perf_counter() - began, time.process_time() - cpu)


def read_by_debezium(server: MariaDb | Postgres, jars: str, rows: int) -> None:
    """Print how fast Debezium's engine makes events of the log."""
    empty(server)
    kind, user, password = "mariadb", "cdc", "secret"
    if isinstance(server, Postgres):
        kind, user, password = "postgresql", "admin", "admin secret"
    words = ["java", "-cp", f"{jars}/*", "bench/DebeziumLoad.java", kind, str(server.port), user, password]
    with Program(words, name="debezium") as program:
        program.wait_for("Starting streaming|Keepalive thread is running")
        fill(server, 1, rows)
        before = program.wait_for(f"@@ {rows} (.*)", timeout_s=300.0)
        began = time.perf_counter()
        fill(server, rows + 1, rows)
        after = program.wait_for(f"@@ {2 * rows} (.*)", timeout_s=300.0)
        memory = f"peak {mb(program.peak_bytes())} MB"
        show("Debezium", rows, time.perf_counter() - began, float(after[1]) - float(before[1]), memory)


# --- the whole way ----------------------------------------------------------------------------------------------------


@contextmanager
def capturing(server: MariaDb | Postgres, folder: Path) -> Iterator[tuple[CaptureWorld, str]]:
    """A world without a capture, and the name of the topic."""
    folder.mkdir()
    is_postgres = isinstance(server, Postgres)
    include = "shop.public.t" if is_postgres else "shop.t"
    world = CaptureWorld(folder, server.url, include=(include,))
    try:
        yield world, "cdc-" + include.replace(".", "-")
    finally:
        world.close()
        if isinstance(server, Postgres):
            server.run("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active")
            server.run("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active")


async def stored(world: CaptureWorld, topic: str, wanted: int, program: Program) -> None:
    """Wait until so many events are in the topic."""
    async with connect(world.namesrv_address) as client:
        calls, there = Calls(client.session), 0
        while there < wanted:
            assert program.process.poll() is None, program.tail()
            await asyncio.sleep(0.1)
            try:
                queues = (await client.session.route(topic)).readable
            except Exception:  # nothing was sent to it yet
                continue
            there = 0
            for queue in queues:
                there += await admin.offsets.end(
                    calls, await client.session.master(queue), topic, queue.queue_id
                )  # fmt: skip


def captured(server: MariaDb | Postgres, folder: Path, rows: int) -> None:
    """Print the same of a capture: begun before the rows are there, so that its snapshot is of an empty table."""
    empty(server)
    with capturing(server, folder) as (world, topic):
        program = world.start_capture()
        program.wait_for("ready")
        before, began, sizes = cpu_s(program.pid), time.perf_counter(), []
        for piece in range(PIECES):
            fill(server, 1 + piece * (rows // PIECES), rows // PIECES)
            asyncio.run(stored(world, topic, (piece + 1) * (rows // PIECES), program))
            sizes.append(mb(program.resident_bytes()))
        memory = f"MB behind each tenth {sizes}, peak {mb(program.peak_bytes())}"
        show("captured", rows, time.perf_counter() - began, cpu_s(program.pid) - before, memory)


def snapshot(server: MariaDb | Postgres, folder: Path, rows: int) -> None:
    empty(server)
    fill(server, 1, rows)
    with capturing(server, folder) as (world, topic):
        program = world.start_capture()
        program.wait_for("ready")
        first, before, began = mb(program.resident_bytes()), cpu_s(program.pid), time.perf_counter()
        asyncio.run(stored(world, topic, rows, program))
        memory = f"MB at its beginning {first}, peak {mb(program.peak_bytes())}"
        show("snapshot", rows, time.perf_counter() - began, cpu_s(program.pid) - before, memory)


def paced(server: MariaDb | Postgres, folder: Path) -> None:
    empty(server)
    with capturing(server, folder) as (world, topic):
        program = world.start_capture()
        program.wait_for("ready")
        before, began = cpu_s(program.pid), time.perf_counter()
        filling = threading.Thread(target=_offer, args=(server, began))
        filling.start()
        rows = OFFERED * PACED_S
        asyncio.run(stored(world, topic, rows, program))
        filling.join()
        seconds, used = time.perf_counter() - began, cpu_s(program.pid) - before
        lags = sorted(asyncio.run(_lags(world, topic)))
        text = f"lag in ms: p50 {lags[len(lags) // 2]}, p99 {lags[len(lags) * 99 // 100]}, most {lags[-1]}"
        show("paced", rows, seconds, used, text)


def _offer(server: MariaDb | Postgres, began: float) -> None:
    each = round(OFFERED * TICK_S)
    for tick in range(round(PACED_S / TICK_S)):
        time.sleep(max(0.0, began + tick * TICK_S - time.perf_counter()))
        fill(server, 1 + tick * each, each)
    seconds = time.perf_counter() - began
    print(f"{'':18}{OFFERED * PACED_S / seconds:10,.0f} changes/s were offered, {OFFERED} wanted")


async def _lags(world: CaptureWorld, topic: str) -> list[int]:
    found = []
    async with connect(world.namesrv_address) as client:
        calls = Calls(client.session)
        for queue in (await client.session.route(topic)).readable:
            address = await client.session.master(queue)
            end = await admin.offsets.end(calls, address, topic, queue.queue_id)
            async for page in admin.messages.pages(calls, address, topic, queue.queue_id, 0, end):
                for message in page.messages:
                    event = decode_event(topic, message.body, message.properties)
                    assert event.after is not None
                    found.append(message.store_timestamp - event.after["begun"])
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--database", choices=["mariadb", "postgresql"], default="mariadb")
    parser.add_argument("--peer-python", default="")
    parser.add_argument("--debezium", default="")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pyromq-bench-cdc") as name:
        folder = Path(name)
        server: MariaDb | Postgres = Postgres() if asked.database == "postgresql" else MariaDb(folder)
        try:
            if "log" in asked.parts and isinstance(server, MariaDb):
                empty(server)
                read_binlog(server, min(asked.rows, 100_000), asked.peer_python)
            if "log" in asked.parts and asked.debezium:
                read_by_debezium(server, asked.debezium, min(asked.rows, 100_000))
            if "paced" in asked.parts:
                paced(server, folder / "paced")
            if "captured" in asked.parts:
                captured(server, folder / "captured", asked.rows)
            if "snapshot" in asked.parts:
                snapshot(server, folder / "snapshot", asked.rows)
        finally:
            server.kill()
            if isinstance(server, Postgres):
                server.close()


if __name__ == "__main__":
    main()
