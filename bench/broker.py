"""The broker under load, as ratios against a peer in the same run: `python bench/broker.py [--no-java] [--seconds 5]`.

Runs bench/mqload.c against our broker, against a bare echo on our own transport (what this Python can do at best) and,
where Maven is present, against the Java broker 5.5.0. CPU is the server's own, from /proc. Behind the load come
start-up, idle CPU, and memory idle and after many messages (`--messages`).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from pyromq.kernel.choice import is_built

ROOT = Path(__file__).resolve().parent.parent
TICKS = os.sysconf("SC_CLK_TCK")

ECHO = """
import asyncio
from pyromq.ambient import SystemClock
from pyromq.transport import loop
from pyromq.transport.dispatch import Reply
from pyromq.transport.server import Server

FIELDS = {"msgId": "7F0000010000" + "0" * 20, "queueId": "0", "queueOffset": "0", "MSG_REGION": "DefaultRegion"}

async def main():
    server = Server(lambda request: Reply(fields=dict(FIELDS)), clock=SystemClock())
    print("echo ready on", await server.start("127.0.0.1", 0), flush=True)
    await asyncio.Event().wait()

loop.run(main())
"""


class Case(NamedTuple):
    name: str
    options: str
    echo: bool = True
    sync: bool = False  # on a broker that answers after the sync


WARM_UP = Case("warm-up", "send -t Warm -c 4 -w 16 -s 128 -q 4")
MANY = Case("many", "send -t Many -c 4 -w 4 -B 32 -s 128 -q 4")
FIRST = Case("first", "send -t Ends -c 1 -w 1 -s 128 -q 4")  # who reads from a topic that is not there is refused
CASES = [
    Case("send 128 B, 1 in flight", "send -t Bench -c 1 -w 1 -s 128 -q 4"),
    Case("send 128 B, 4 x 16", "send -t Bench -c 4 -w 16 -s 128 -q 4"),
    Case("send 128 B, 4 x 256", "send -t Bench -c 4 -w 256 -s 128 -q 4"),
    Case("1 KB sync flush, 1", "send -t Bench -c 1 -w 1 -s 1024 -q 4", echo=False, sync=True),
    Case("1 KB sync flush, 4 x 16", "send -t Bench -c 4 -w 16 -s 1024 -q 4", echo=False, sync=True),
    Case("batch of 32, 4 x 4", "send -t Bench -c 4 -w 4 -B 32 -s 128 -q 4"),
    Case("drain by pulls of 32", "drain -t Bench -g bench -q 4", echo=False),
    Case("end to end at 1,000/s", "e2e -t Ends -g bench -q 4 -c 4 -r 1000 -s 128", echo=False),
]
IDLE_S = 10


class Server(NamedTuple):
    name: str
    address: str
    pid: int
    start_s: float
    idle_mb: float
    sync: bool = False

    def cpu_s(self) -> float:
        words = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / TICKS

    def resident_mb(self) -> float:
        return _resident_mb(self.pid)


def _resident_mb(pid: int) -> float:
    """Without the pages of mapped files, which are the kernel's to take back."""
    table = dict(line.split(":") for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    return int(table["RssAnon"].split()[0]) / 1024


@contextmanager
def started(name: str, command: list[str], sync: bool = False, kernel: str = "") -> Iterator[Server]:
    begun = time.monotonic()
    environment = os.environ | ({"PYROMQ_KERNEL": kernel} if kernel else {})
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment) as process:
        assert process.stdout is not None
        address = process.stdout.readline().partition(" on ")[2].split()[0]
        ready = time.monotonic() - begun
        try:
            yield Server(name, address, process.pid, ready, _resident_mb(process.pid), sync)
        finally:
            process.terminate()


# Java as people run it: the peers of the tests are tuned to start quickly, at a fraction of this speed.
JVM = ("-server", "-Xms4g", "-Xmx4g", "-XX:+UseG1GC", "-XX:MaxDirectMemorySize=4g", "-XX:+AlwaysPreTouch")
SMALL_JVM = ("-server", "-Xms1g", "-Xmx1g", "-XX:+UseG1GC")  # the second one, that answers after the sync
JAVA_DEFAULTS = {
    "mappedFileSizeCommitLog": str(1 << 30),
    "mappedFileSizeConsumeQueue": str(300_000 * 20),
    "maxHashSlotNum": "5000000",
    "maxIndexNum": "20000000",
}
WARM_UP_S = 15  # the Java broker reaches its speed after about as long; everyone gets the same


@contextmanager
def java_broker(folder: Path, sync: bool = False) -> Iterator[Server]:
    from tests.interop.peers import java

    folder.mkdir()
    (folder / "names").mkdir()
    (folder / "broker").mkdir()
    names = java.NameServer("5.5.0", folder / "names")
    begun = time.monotonic()
    settings = JAVA_DEFAULTS | ({"flushDiskType": "SYNC_FLUSH"} if sync else {})
    jvm = SMALL_JVM if sync else JVM
    broker = java.Broker("5.5.0", folder / "broker", [names.address], settings, jvm=jvm)
    pid = broker.program.process.pid
    try:
        yield Server("java", broker.address, pid, time.monotonic() - begun, _resident_mb(pid), sync)
    finally:
        broker.kill()
        names.kill()


def has_java() -> bool:
    """Whether the Java broker can be had: Maven is there, or was when it was fetched."""
    sys.path.insert(0, str(ROOT))
    from tests.interop.peers import cache, java

    try:
        java.runtime()
        java.classes("5.5.0")
    except cache.PeerMissing as why:
        print(f"without the Java broker: {why}")
        return False
    return True


@contextmanager
def our_broker(folder: Path, sync: bool = False, kernel: str = "") -> Iterator[Server]:
    """`kernel`: native or python, which is then its name in the table."""
    command = [sys.executable, "-m", "pyromq", "broker", "--listen", "127.0.0.1:0", "--broker-name", "broker-a"]
    command += ["--store-path-root-dir", str(folder), "--log-level", "error"]
    if sync:
        command += ["--flush-mode", "SYNC_FLUSH"]
    with started(kernel or "ours", command, sync, kernel) as server:
        yield server


def measure(load: Path, case: Case, server: Server, seconds: int) -> dict[str, Any]:
    before = server.cpu_s()
    done = subprocess.run(
        [load, *case.options.split(), "-a", server.address, "-d", str(seconds)],
        capture_output=True,
        text=True,
        check=False,  # it says by its exit code that some requests were refused; the table shows how many
    )
    result: dict[str, Any] = json.loads(done.stdout)
    result["cpu_us"] = (server.cpu_s() - before) * 1e6 / max(1, result["messages"])
    return result


def under_load(load: Path, servers: list[Server], seconds: int) -> None:
    heads = f"{'msg/s':>9} {'of ours':>8} {'p50 us':>8} {'p99 us':>8} {'cpu us/msg':>10} {'refused':>8}"
    print(f"{'case':26} {'server':6} {heads}")
    for server in servers:
        measure(load, WARM_UP, server, WARM_UP_S)
        measure(load, FIRST, server, 1)
    for case in CASES:
        ours = None
        for server in servers:
            if server.sync != case.sync or (server.name == "echo" and not case.echo):
                continue
            one = measure(load, case, server, seconds)
            ours = ours or one
            ratio = one["rate"] / ours["rate"] if ours["rate"] else 0.0
            print(
                f"{case.name:26} {server.name:6} {one['rate']:9.0f} {ratio:8.2f} "
                f"{one['p50_us']:8} {one['p99_us']:8} {one['cpu_us']:10.1f} {one['errors']:8}",
                flush=True,
            )


def at_rest(load: Path, servers: list[Server], messages: int, seconds: int) -> None:
    """Start-up, CPU of an idle broker, memory before and after many messages."""
    brokers = [server for server in servers if server.name != "echo" and not server.sync]
    before = [server.cpu_s() for server in brokers]
    time.sleep(IDLE_S)
    idle = [(server.cpu_s() - cpu) / IDLE_S * 100 for server, cpu in zip(brokers, before, strict=True)]
    print(
        f"\n{'server':6} {'start s':>8} {'idle MB':>8} {'idle cpu %':>10} {'MB now':>8} {'messages':>9} {'MB after':>8}"
    )
    for server, percent in zip(brokers, idle, strict=True):
        begun_mb, sent = server.resident_mb(), 0
        while sent < messages:
            sent += measure(load, MANY, server, seconds)["messages"]
        print(
            f"{server.name:6} {server.start_s:8.1f} {server.idle_mb:8.0f} {percent:10.2f} {begun_mb:8.0f} "
            f"{sent:9} {server.resident_mb():8.0f}",
            flush=True,
        )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--no-java", action="store_true", help="ours and the echo alone")
    options.add_argument("--seconds", type=int, default=5)
    options.add_argument("--messages", type=int, default=10_000_000, help="of the memory figure")
    chosen = options.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        load = folder / "mqload"
        subprocess.run(["cc", "-O2", "-o", load, ROOT / "bench" / "mqload.c"], check=True)
        servers = [
            stack.enter_context(our_broker(folder / f"{kernel}-{sync}", sync, kernel))
            for kernel in (("native", "python") if is_built() else ("python",))
            for sync in (False, True)
        ]
        servers.append(stack.enter_context(started("echo", [sys.executable, "-c", ECHO])))
        if not chosen.no_java and has_java():
            servers.append(stack.enter_context(java_broker(folder / "java")))
            servers.append(stack.enter_context(java_broker(folder / "java-sync", sync=True)))
        under_load(load, servers, chosen.seconds)
        at_rest(load, servers, chosen.messages, chosen.seconds)


if __name__ == "__main__":
    main()
