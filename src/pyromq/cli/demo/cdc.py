"""`pyromq demo cdc`: a database's changes into Redis and a Delta table, while everything is killed in turn.

Real processes: the database, its capture, name server and broker, two Spark jobs, Redis. At the end `cdc-verify`
compares both sinks with the database, and the demo fails if a single row differs.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from ...ambient import seeded_random
from ...errors import PyroError
from ...spark.session import check_machine
from ...text.extras import install_command
from .changes import OrderChanges
from .databases import Database, choose_database, find_program, until_it_answers
from .run import DemoRun, kill_and_start, start

SINKS = {"redis": "cdc-redis", "delta": "cdc-lake"}
KILLS = ("capture", "broker", "database", "spark", "redis")
_SEED = 22
_BETWEEN_S = 2.0  # of changes after each kill
_LONG_S = 300.0  # for a Spark job to start, on a busy machine
_SPARK = ("--memory", "1g", "--master", "local[2]", "--progress", "off", "--conf", "spark.sql.shuffle.partitions=2")
_MOST_RESTARTS = 6
_END = 1_000_000  # key of the row that is written last


@dataclass
class CdcDemo:
    """What the steps share. `processes` are by the names of `KILLS`, and two of Spark's."""

    run: DemoRun
    database: Database
    redis: str
    chosen: Sequence[str]  # of SINKS
    processes: dict[str, asyncio.subprocess.Process] = field(default_factory=dict)
    restarts: int = 0  # of Spark jobs that nobody killed

    @property
    def socket(self) -> str:
        return str(self.run.folder / "redis" / "socket")

    @property
    def source(self) -> list[str]:
        return ["--database-url", self.database.url, *self.database.settings]

    @property
    def sinks(self) -> dict[str, list[str]]:
        """Return the options that name each sink, for the job that delivers and for the comparison."""
        options = {"redis": f"unix://{self.socket}", "delta": str(self.run.folder / "lake")}
        return {SINKS[name]: [f"--{name}", options[name]] for name in self.chosen}

    async def begin(self, name: str, words: Sequence[str]) -> None:
        """Start a process under this name; it is ended with the demo."""
        self.processes[name] = await self.run.closing.enter_async_context(_running(self.run, name, words))

    async def kill(self, name: str) -> None:
        process = self.processes[name]
        process.kill()
        await process.wait()

    def log(self, name: str) -> str:
        """Return the last that a process said."""
        file = self.run.folder / f"{name}.log"
        return file.read_text("utf-8", "replace")[-1500:] if file.exists() else ""


async def show_capture(run: DemoRun, kind: str, kills: Sequence[str], sinks: Sequence[str]) -> None:
    """Show a capture from the database to these sinks, with these kills."""
    demo = CdcDemo(run, choose_database(kind, run.folder), _redis(), sinks)
    _check_packages(demo.database)
    check_machine()
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYROMQ_BROKER_DUPLICATE_WINDOW_ENABLE"] = "true"  # which makes once of at least once
    await _database(demo, is_new=True)
    writer = OrderChanges(demo.database, seeded_random(_SEED), run.clock)
    writer.fill()
    await start(run)
    await _capture(demo)
    await _redis_server(demo)
    for name in demo.sinks:
        await _job(demo, name)
    stop = asyncio.Event()
    writing = asyncio.create_task(writer.go_on(stop))
    try:
        for name in sinks:
            await _until(demo, f"rows in {name}", partial(_HAS[name], demo, None))
        run.say(f"rows arrive; the table goes on changing while this is killed: {', '.join(kills)}")
        for each in kills:
            await run.clock.sleep(_BETWEEN_S)
            await _KILL[each](demo)
            await _start_what_ended(demo)
    finally:
        stop.set()
        await writing
    run.say(f"{writer.transactions} transactions were made meanwhile, {writer.tries} found no database")
    await _wait_for_the_end(demo)
    await _compare(demo)


async def _database(demo: CdcDemo, *, is_new: bool = False) -> None:
    run, database = demo.run, demo.database
    if is_new:
        await asyncio.to_thread(database.make)
    await demo.begin("database", database.words)
    async with run.patience(f"{database.kind} to answer"):
        await until_it_answers(lambda: database.connect("" if is_new else "shop").close(), run.clock)
    if is_new:
        await asyncio.to_thread(database.prepare)
        run.say(f"{database.kind} in process {demo.processes['database'].pid}, with the table {database.table}")


async def _capture(demo: CdcDemo) -> None:
    words = ["--name", "cdc", "--namesrv", demo.run.namesrv, "--state-dir", str(demo.run.folder / "capture")]
    await demo.begin("capture", _pyromq("cdc", "run", *demo.source, *words))
    demo.run.say(f"pyromq cdc run: the capture in process {demo.processes['capture'].pid}")


async def _redis_server(demo: CdcDemo) -> None:
    import redis

    folder = Path(demo.socket).parent
    folder.mkdir(exist_ok=True)
    words = [demo.redis, "--port", "0", "--unixsocket", demo.socket, "--dir", str(folder)]
    await demo.begin("redis", [*words, "--appendonly", "yes", "--appendfsync", "always", "--save", ""])

    def ping() -> None:
        with redis.Redis(unix_socket_path=demo.socket) as client:
            client.ping()

    async with demo.run.patience("Redis to answer"):
        await until_it_answers(ping, demo.run.clock)
    demo.run.say(f"redis-server in process {demo.processes['redis'].pid}")


async def _job(demo: CdcDemo, name: str) -> None:
    words = ["--topic-pattern", "cdc-shop-.*", "-n", demo.run.namesrv, "--every", "2s", *_SPARK]
    folder = str(demo.run.folder / name)
    await demo.begin(name, _pyromq("pipeline", name, folder, *demo.sinks[name], *words))
    demo.run.say(f"pyromq pipeline {name}: Spark in process {demo.processes[name].pid}")


async def _until(demo: CdcDemo, what: str, is_so: Callable[[], bool]) -> None:
    """Wait until something is so. PyroError if it is not within a time, or if the capture has ended."""
    until = demo.run.clock.monotonic() + _LONG_S
    with demo.run.busy(what):
        while not await asyncio.to_thread(is_so):
            await _start_what_ended(demo)
            if (code := demo.processes["capture"].returncode) is not None:
                raise PyroError(f"the capture ended with {code} while {what} was waited for: {demo.log('capture')}")
            if demo.run.clock.monotonic() > until:
                raise PyroError(f"waited {_LONG_S:g} s in vain for {what}: {''.join(map(demo.log, demo.sinks))}")
            await demo.run.clock.sleep(0.3)


async def _start_what_ended(demo: CdcDemo) -> None:
    """Start a Spark job that ended by itself, as a supervisor does: it ends if it finds no name server for a while."""
    for name in demo.sinks:
        if (code := demo.processes[name].returncode) is None:
            continue
        if demo.restarts == _MOST_RESTARTS:
            raise PyroError(f"{name} ended again and again, the last time with {code}: {demo.log(name)}")
        demo.restarts += 1
        demo.run.say(f"pyromq pipeline {name} ended with {code}, as it found no broker: it is started again")
        await _job(demo, name)


async def _wait_for_the_end(demo: CdcDemo) -> None:
    """Write one more row, wait until the sinks have it, and end the jobs."""
    await asyncio.to_thread(demo.database.run, f"INSERT INTO orders VALUES ({_END}, 'the last', 0, NULL)")
    for name in demo.chosen:
        await _until(demo, f"the last row in {name}", partial(_HAS[name], demo, _END))
    for name in demo.sinks:
        demo.processes[name].send_signal(signal.SIGTERM)
        async with demo.run.patience(f"{name} to end"):
            if code := await demo.processes[name].wait():
                raise PyroError(f"{name} was to end with 0 after SIGTERM, not with {code}: {demo.log(name)}")


def _in_redis(demo: CdcDemo, at: int | None) -> bool:
    """Return whether Redis has this row; without one, whether it has any."""
    import redis

    with redis.Redis(unix_socket_path=demo.socket) as client:
        return bool(client.dbsize() if at is None else client.exists(f"{demo.database.table}:{at}"))


def _in_lake(demo: CdcDemo, at: int | None) -> bool:
    """Return whether the Delta table has this row; without one, whether it has any."""
    from deltalake import DeltaTable

    place = str(demo.run.folder / "lake" / demo.database.table)
    if not DeltaTable.is_deltatable(place):
        return False
    rows = DeltaTable(place).to_pyarrow_table(columns=["id"], filters=None if at is None else [("id", "=", at)])
    return len(rows) > 0


_HAS: dict[str, Callable[[CdcDemo, int | None], bool]] = {"redis": _in_redis, "delta": _in_lake}


async def _compare(demo: CdcDemo) -> None:
    """Compare the sinks with the database. PyroError if a row differs: then the command does not end with 0."""
    for name, sink in demo.sinks.items():
        words = ["pipeline", "cdc-verify", *demo.source, *sink, "--settle", "2s", "--chunk", "100"]
        demo.run.say(f"pyromq {' '.join(words[:2])} {sink[0]} ...: the sink of {name} against {demo.database.kind}")
        with demo.run.busy("Spark"):
            printed = await demo.run.command(*words, *_SPARK)
        if "agree yes" not in printed:
            raise PyroError(f"the comparison was to say that both sides agree: {printed}")
        demo.run.show(printed)


async def _kill_capture(demo: CdcDemo) -> None:
    await demo.kill("capture")
    demo.run.say("kill -9 of the capture")
    await _capture(demo)


async def _kill_broker(demo: CdcDemo) -> None:
    await kill_and_start(demo.run)


async def _kill_database(demo: CdcDemo) -> None:
    await demo.kill("database")
    demo.run.say(f"kill -9 of {demo.database.kind}, and up again")
    await _database(demo)


async def _kill_spark(demo: CdcDemo) -> None:
    for name in demo.sinks:
        await demo.kill(name)
    demo.run.say("kill -9 of Spark")
    for name in demo.sinks:
        await _job(demo, name)


async def _kill_redis(demo: CdcDemo) -> None:
    await demo.kill("redis")
    demo.run.say("kill -9 of Redis, and up again")
    await _redis_server(demo)


_KILL: dict[str, Callable[[CdcDemo], Awaitable[None]]] = {
    "capture": _kill_capture,
    "broker": _kill_broker,
    "database": _kill_database,
    "spark": _kill_spark,
    "redis": _kill_redis,
}


def _pyromq(*words: str) -> list[str]:
    return [sys.executable, "-m", "pyromq", *words]


def _check_packages(database: Database) -> None:
    """Raise PyroError if a package is missing that the demo's processes need."""
    driver = "pymysql" if database.kind == "mariadb" else "psycopg2"
    if missing := [name for name in (driver, "redis", "deltalake", "pyspark") if find_spec(name) is None]:
        raise PyroError(f"the demo needs the package {missing[0]}: {install_command('cdc,sinks,lake,spark')}")


def _redis() -> str:
    if not (found := find_program("redis-server")):
        raise PyroError("Redis is not installed. On Debian: apt-get install redis-server")
    return found


@asynccontextmanager
async def _running(run: DemoRun, name: str, words: Sequence[str]) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a process until the end of the demo; what it says goes to a file of the demo's folder."""
    with (run.folder / f"{name}.log").open("ab") as said:
        process = await asyncio.create_subprocess_exec(
            *words, stdin=asyncio.subprocess.DEVNULL, stdout=said, stderr=said, cwd="/"
        )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
            try:
                async with run.clock.timeout(10):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()
