"""The broker under load, as ratios against a peer in the same run: `python bench/broker.py [--java] [--seconds 5]`.

Runs bench/mqload.c against our broker, against a bare echo on our own transport (what this Python can do at best) and,
with --java, against the Java broker 5.5.0. CPU is the server's own, from /proc.
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


WARM_UP = Case("warm-up", "send -t Warm -c 4 -w 16 -s 128 -q 4")
CASES = [
    Case("send 128 B, 1 in flight", "send -t Bench -c 1 -w 1 -s 128 -q 4"),
    Case("send 128 B, 4 x 16", "send -t Bench -c 4 -w 16 -s 128 -q 4"),
    Case("send 128 B, 4 x 256", "send -t Bench -c 4 -w 256 -s 128 -q 4"),
    Case("batch of 32, 4 x 4", "send -t Bench -c 4 -w 4 -B 32 -s 128 -q 4"),
    Case("drain by pulls of 32", "drain -t Bench -g bench -q 4", echo=False),
    Case("end to end at 1,000/s", "e2e -t Ends -g bench -q 4 -c 4 -r 1000 -s 128", echo=False),
]


class Server(NamedTuple):
    name: str
    address: str
    pid: int

    def cpu_s(self) -> float:
        words = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / TICKS

    def resident_mb(self) -> float:
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


@contextmanager
def started(name: str, command: list[str]) -> Iterator[Server]:
    begun = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        address = process.stdout.readline().split()[-1]
        server = Server(name, address, process.pid)
        print(f"{name}: ready after {time.monotonic() - begun:.1f} s, {server.resident_mb():.0f} MB")
        try:
            yield server
        finally:
            print(f"{name}: {server.resident_mb():.0f} MB at the end")
            process.terminate()


# Java as people run it: the peers of the tests are tuned to start quickly, at a fraction of this speed.
JVM = ("-server", "-Xms4g", "-Xmx4g", "-XX:+UseG1GC", "-XX:MaxDirectMemorySize=4g", "-XX:+AlwaysPreTouch")
JAVA_DEFAULTS = {
    "mappedFileSizeCommitLog": str(1 << 30),
    "mappedFileSizeConsumeQueue": str(300_000 * 20),
    "maxHashSlotNum": "5000000",
    "maxIndexNum": "20000000",
}
WARM_UP_S = 15  # the Java broker reaches its speed after about as long; everyone gets the same


@contextmanager
def java_broker(folder: Path) -> Iterator[Server]:
    sys.path.insert(0, str(ROOT))
    from tests.interop.peers import java

    names = java.NameServer("5.5.0", folder / "names")
    broker = java.Broker("5.5.0", folder / "broker", [names.address], JAVA_DEFAULTS, jvm=JVM)
    try:
        yield Server("java", broker.address, broker.program.process.pid)
    finally:
        broker.kill()
        names.kill()


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


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--java", action="store_true")
    options.add_argument("--seconds", type=int, default=5)
    chosen = options.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        load = folder / "mqload"
        subprocess.run(["cc", "-O2", "-o", load, ROOT / "bench" / "mqload.c"], check=True)
        broker = [sys.executable, "-m", "pyromq", "broker", "--listen", "127.0.0.1:0", "--broker-name", "broker-a"]
        broker += ["--store-path-root-dir", str(folder / "store"), "--log-level", "error"]
        servers = [
            stack.enter_context(started("ours", broker)),
            stack.enter_context(started("echo", [sys.executable, "-c", ECHO])),
        ]
        if chosen.java:
            servers.append(stack.enter_context(java_broker(folder / "java")))
        heads = f"{'msg/s':>9} {'of ours':>8} {'p50 us':>8} {'p99 us':>8} {'cpu us/msg':>10} {'refused':>8}"
        print(f"{'case':26} {'server':6} {heads}")
        for server in servers:
            measure(load, WARM_UP, server, WARM_UP_S)
        for case in CASES:
            ours = None
            for server in servers:
                if server.name == "echo" and not case.echo:
                    continue
                one = measure(load, case, server, chosen.seconds)
                ours = ours or one
                ratio = one["rate"] / ours["rate"] if ours["rate"] else 0.0
                print(
                    f"{case.name:26} {server.name:6} {one['rate']:9.0f} {ratio:8.2f} "
                    f"{one['p50_us']:8} {one['p99_us']:8} {one['cpu_us']:10.1f} {one['errors']:8}"
                )


if __name__ == "__main__":
    main()
