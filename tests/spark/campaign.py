"""Random kills of driver, worker and broker under a stream into files: each offset once in the end.

`python -m tests.spark.campaign --kills 50 [--seed 7]`, by hand; tests/spark/test_campaign.py runs a few. After SIGINT
none is killed any more, and what came is checked; a second one ends it. The driver is this file too (`--drive`), a
process of its own: Spark with a JVM and workers, killed with all of them.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyromq
from pyromq.ambient import pause
from pyromq.errors import PyroError
from pyromq.spark.connect.cluster import Cluster
from pyromq.spark.options import Use, read_options
from tests.spark.servers import Servers

TOPIC = "campaign"
KINDS = ("driver", "worker", "broker")
_LIMIT_S = 300  # a loaded machine takes long to start a driver


class Sender:
    """Messages all the time, whatever happens to the broker."""

    def __init__(self, namesrv: str) -> None:
        self._namesrv = namesrv
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        with pyromq.sync.connect(self._namesrv) as client, client.producer() as producer:
            while not self._stopped.is_set():
                with suppress(PyroError):  # away for now
                    producer.send_many(TOPIC, [f"m{number + each}".encode() for each in range(20)])
                    number += 20
                self._stopped.wait(0.05)

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(60)


class Driver:
    """A Spark driver in its own process group, which says what it has done after every batch."""

    def __init__(self, folder: Path, namesrv: str, mode: str) -> None:
        command = [sys.executable, "-m", "tests.spark.campaign", "--drive", mode, "--folder", str(folder)]
        self.process = subprocess.Popen(
            [*command, "--namesrv", namesrv], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            start_new_session=True,
        )  # fmt: skip
        self.batches = 0
        self.result: dict[str, Any] = {}
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("batch"):
                self.batches += 1
            elif line.startswith("{"):
                self.result = json.loads(line)

    def progress(self) -> None:
        """Until a batch or two more are done."""
        wanted = self.batches + 2
        for _ in range(_LIMIT_S * 20):
            if self.batches >= wanted:
                return
            if self.process.poll() is not None:
                raise AssertionError(f"the driver ended by itself with {self.process.returncode}")
            pause(0.05)
        raise AssertionError(f"no batch within {_LIMIT_S} s")

    def workers(self) -> list[int]:
        """Python processes that run tasks: children of Spark's daemon."""
        found = []
        for each in Path("/proc").iterdir():
            if each.name.isdigit():
                with suppress(OSError):
                    is_daemon = b"pyspark.daemon\0pyspark.worker" in (each / "cmdline").read_bytes()
                    fields = (each / "stat").read_text("latin-1").rpartition(")")[2].split()
                    if is_daemon and int(fields[3]) == self.process.pid and int(fields[1]) != self._jvm():
                        found.append(int(each.name))
        return found

    def some_workers(self) -> list[int]:
        """At least one: a kill that hits nobody is none."""
        for _ in range(_LIMIT_S * 20):
            if found := self.workers():
                return found
            pause(0.05)
        raise AssertionError(f"no worker within {_LIMIT_S} s")

    def _jvm(self) -> int:
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(children[0]) if children else 0

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.finish()

    def finish(self) -> dict[str, Any]:
        self.process.wait(_LIMIT_S)
        self._reader.join(_LIMIT_S)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return self.result


def run(folder: Path, kills: int, seed: int, enough: threading.Event | None = None) -> dict[str, Any]:
    """What came of it. AssertionError if an offset is missing or there twice."""
    chance = random.Random(seed)
    enough = enough or threading.Event()
    servers = Servers(folder, apart=True)  # SIGINT ends the kills, not what is compared with
    done: Counter[str] = Counter()
    driver = sender = None
    try:
        servers.start()
        servers.send(TOPIC, 20)
        sender = Sender(servers.namesrv)
        driver = Driver(folder, servers.namesrv, "stream")
        for _ in range(kills):
            driver.progress()
            if enough.is_set():
                break
            kind = chance.choice(KINDS)
            pause(chance.uniform(0, 0.5))
            driver = strike(kind, driver, servers, folder, chance)
            done[kind] += 1
            print(f"killed {dict(done)}", file=sys.stderr, flush=True)
        driver.progress()
        driver.kill()
        sender.stop()
        driver = Driver(folder, servers.namesrv, "rest")
        return check(servers, driver.finish()) | {"kills": dict(done)}
    finally:
        if sender is not None:
            sender.stop()
        if driver is not None:
            driver.kill()
        servers.close()


def strike(kind: str, driver: Driver, servers: Servers, folder: Path, chance: random.Random) -> Driver:
    if kind == "broker":
        servers.kill()
        servers.start()
    elif kind == "worker":
        os.kill(chance.choice(sorted(driver.some_workers())), signal.SIGKILL)
    else:
        driver.kill()
        return Driver(folder, servers.namesrv, "stream")
    return driver


def check(servers: Servers, result: dict[str, Any]) -> dict[str, Any]:
    with Cluster(read_options({"nameServer": servers.namesrv, "topic": TOPIC}, Use.BATCH)) as cluster:
        bounds = cluster.bounds(cluster.queues([TOPIC]))
    expected = {str(queue.queue_id): [high, high, high - 1] for queue, (_, high) in bounds.items() if high}
    assert result.get("queues") == expected, f"rows, different offsets, last: {result}; the broker has {expected}"
    return {"rows": sum(high for high, _, _ in expected.values())}


def drive(folder: Path, namesrv: str, mode: str) -> None:
    """In the driver's process: stream until killed, or take the rest and count."""
    from pyromq.spark.session import new_session

    spark = new_session("campaign", master="local[2,8]", memory="1g")  # a task may fail eight times
    source = spark.readStream.format("rocketmq").schema("queueId int, queueOffset bigint, body binary")
    frame = source.options(nameServer=namesrv, topic=TOPIC, startingOffsets="earliest", pullBatchSize="100").load()
    sink = frame.writeStream.format("parquet").option("path", str(folder / "out"))
    sink = sink.option("checkpointLocation", str(folder / "checkpoint"))
    if mode == "rest":
        sink.trigger(availableNow=True).start().awaitTermination()
        rows = spark.read.parquet(str(folder / "out")).groupBy("queueId")
        found = rows.agg({"*": "count", "queueOffset": "max"}).collect()
        each = spark.read.parquet(str(folder / "out")).select("queueId", "queueOffset").distinct()
        different = {row.queueId: row["count"] for row in each.groupBy("queueId").count().collect()}
        queues = {row.queueId: [row["count(1)"], different[row.queueId], row["max(queueOffset)"]] for row in found}
        print(json.dumps({"queues": queues}), flush=True)
        spark.stop()
        return
    query = sink.trigger(processingTime="100 milliseconds").start()
    last = -1
    while query.isActive:
        pause(0.05)
        progress = query.lastProgress
        if progress is not None and progress.numInputRows and progress.batchId != last:
            last = progress.batchId
            print(f"batch {last}", flush=True)
    raise SystemExit(str(query.exception()))


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--kills", type=int, default=50)
    words.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    words.add_argument("--drive", choices=("stream", "rest"))
    words.add_argument("--folder", type=Path)
    words.add_argument("--namesrv")
    asked = words.parse_args()
    if asked.drive:
        drive(asked.folder, asked.namesrv, asked.drive)
        return
    enough = threading.Event()

    def interrupted(*_: object) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        enough.set()

    signal.signal(signal.SIGINT, interrupted)
    with tempfile.TemporaryDirectory() as folder:
        print(f"seed {asked.seed}:", run(Path(folder), asked.kills, asked.seed, enough))


if __name__ == "__main__":
    main()
