"""The Python SDK beside other clients on one broker of ours: `python bench/client.py [--seconds 3] [--only ours,java]`.

Each client is a process of its own and sends 1 KB messages: one at a time (latency), then 64 in flight (messages per
second, CPU per message), then reads them back with an empty handler. The others are the Java client 5.5.0 (two rounds,
the first is not counted) and the C++ client as PyPI's `rocketmq` 0.4.4 bundles it, which sends one at a time only and
reads what ours has sent before. PyPI's gRPC client is not here: it speaks to Apache's proxy alone, so that its figures
would be those of a JVM in between.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyromq

ROOT = Path(__file__).resolve().parent.parent
TOPIC = "ClientBench"
BODY = b"x" * 1024
IN_FLIGHT = 64
GATHERED_IN_FLIGHT = 1024
FILLED = 20_000
MARK = "@@"
COLUMNS = {
    "p50_us": "p50 us",
    "p99_us": "p99 us",
    "one_cpu_us": "CPU us",
    "send_s": f"send/s, {IN_FLIGHT} in flight",
    "send_cpu_us": "CPU us",
    "gathered_s": "gathered/s",
    "gathered_cpu_us": "CPU us",
    "read_s": "read/s",
    "read_cpu_us": "CPU us",
}


# --- ours -------------------------------------------------------------------------------------------------------------


async def ours(address: str, seconds: float) -> dict[str, float]:
    async with pyromq.connect(address) as client, client.producer() as producer:
        await one_by_one(producer, min(seconds, 1.0))
        found = await one_by_one(producer, seconds)
        rate, cpu_us, count = await many(producer, seconds, IN_FLIGHT)
        found |= {"send_s": rate, "send_cpu_us": cpu_us}
        async with client.producer("gathering", batching=pyromq.Batching(linger_s=0.001)) as gathering:
            rate, cpu_us, _ = await many(gathering, seconds, GATHERED_IN_FLIGHT)
            found |= {"gathered_s": rate, "gathered_cpu_us": cpu_us}
        return found | await read(client, count)


async def one_by_one(producer: Any, seconds: float) -> dict[str, float]:
    took: list[float] = []
    cpu, now = time.process_time(), time.perf_counter()
    until = now + seconds
    while now < until:
        await producer.send(TOPIC, BODY)
        end = time.perf_counter()
        took.append(end - now)
        now = end
    each_us = (time.process_time() - cpu) / len(took) * 1e6
    took.sort()
    return {
        "p50_us": took[len(took) // 2] * 1e6,
        "p99_us": took[int(len(took) * 0.99)] * 1e6,
        "one_cpu_us": each_us,
    }


async def many(producer: Any, seconds: float, in_flight: int) -> tuple[float, float, int]:
    count = 0
    cpu, began = time.process_time(), time.perf_counter()
    until = began + seconds

    async def work() -> None:
        nonlocal count
        while time.perf_counter() < until:
            await producer.send(TOPIC, BODY)
            count += 1

    await asyncio.gather(*(work() for _ in range(in_flight)))
    return count / (time.perf_counter() - began), (time.process_time() - cpu) / count * 1e6, count


async def read(client: Any, wanted: int) -> dict[str, float]:
    seen, began, cpu = 0, 0.0, 0.0
    enough = asyncio.Event()

    async def handle(msg: pyromq.Received) -> None:
        nonlocal seen, began, cpu
        if not seen:
            began, cpu = time.perf_counter(), time.process_time()
        seen += 1
        if seen == wanted:
            enough.set()

    first = pyromq.ConsumeFromWhere.FIRST_OFFSET
    async with client.push_consumer(TOPIC, handle, group=f"bench{time.time_ns()}", begin=first):
        await enough.wait()
        took, used = time.perf_counter() - began, time.process_time() - cpu
    return {"read_s": wanted / took, "read_cpu_us": used / wanted * 1e6}


# --- others -----------------------------------------------------------------------------------------------------------

CPP = """
import json, os, sys, threading, time
from rocketmq.client import Message, Producer, PushConsumer
address, seconds, topic = sys.argv[1], float(sys.argv[2]), sys.argv[3]
producer = Producer("bench_cpp")
producer.set_namesrv_addr(address)
producer.start()
def send(seconds):
    took, cpu, now = [], time.process_time(), time.perf_counter()
    until = now + seconds
    while now < until:
        message = Message(topic)
        message.set_body(b"x" * 1024)
        producer.send_sync(message)
        end = time.perf_counter()
        took.append(end - now)
        now = end
    return sorted(took), (time.process_time() - cpu) / len(took) * 1e6
def read(wanted):
    consumer, enough, seen = PushConsumer(f"bench_cpp_{time.time_ns()}"), threading.Event(), []
    consumer.set_namesrv_addr(address)
    def handle(message):
        seen.append((time.perf_counter(), time.process_time()))
        if len(seen) == wanted:
            enough.set()
    consumer.subscribe(topic + "Read", handle)
    consumer.start()
    enough.wait(60)
    took, used = seen[-1][0] - seen[0][0], seen[-1][1] - seen[0][1]
    return {"read_s": len(seen) / took, "read_cpu_us": used / len(seen) * 1e6}
send(min(seconds, 1.0))
began = time.perf_counter()
took, cpu_us = send(seconds)
rate = len(took) / (time.perf_counter() - began)
print("@@" + json.dumps({"p50_us": took[len(took) // 2] * 1e6, "p99_us": took[int(len(took) * 0.99)] * 1e6,
    "one_cpu_us": cpu_us, "send_s": rate, "send_cpu_us": cpu_us} | read(int(sys.argv[4]))), flush=True)
os._exit(0)  # the library's own shutdown may wait for its heartbeat
"""


async def fill(address: str) -> None:
    """Messages for a client that would take minutes to send as many itself."""
    async with pyromq.connect(address) as client, client.producer() as producer:
        await producer.send_many(f"{TOPIC}Read", (BODY for _ in range(FILLED)))


def command_of(name: str, address: str, seconds: float) -> tuple[list[str], dict[str, str]]:
    """The process of one client, and what its environment needs. PeerMissing where it cannot be had."""
    if name == "ours":
        return [sys.executable, __file__, "--as-ours", address, "--seconds", str(seconds)], {}
    sys.path.insert(0, str(ROOT))
    from tests.interop.peers import cpp, java

    if name == "java":
        path = f"{java.jars('5.5.0')}/*"
        logs = f"-Drocketmq.client.logRoot={tempfile.gettempdir()}/pyromq-bench-logs"
        options = ["-server", "-Xms512m", "-Xmx512m", "-XX:+UseG1GC", logs]
        source = str(ROOT / "bench" / "ClientLoad.java")
        return [java.runtime(), *java.OPENS, *options, "-cp", path, source, address, str(seconds), "64", "1024"], {}
    packages = {"PYTHONPATH": str(cpp.packages())}
    asyncio.run(fill(address))
    return [sys.executable, "-c", CPP, address, str(seconds), TOPIC, str(FILLED)], packages


def run(name: str, address: str, seconds: float) -> dict[str, float]:
    command, environment = command_of(name, address, seconds)
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith(MARK)]
    if not lines:
        raise RuntimeError(f"{name} ended with {done.returncode}:\n{done.stdout[-1000:]}{done.stderr[-2000:]}")
    found: dict[str, float] = json.loads(lines[-1].removeprefix(MARK))
    return found


@contextmanager
def broker(folder: Path) -> Iterator[str]:
    """The address of a name server that knows one broker of ours, both in one process."""
    command = [sys.executable, "-m", "pyromq", "up", "--data", str(folder), "--namesrv-port", "0", "--broker-port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        address = next(line for line in process.stdout if "Name server" in line).split("Name server ")[1].split(",")[0]
        try:
            yield address
        finally:
            process.terminate()


def table(results: dict[str, dict[str, float]]) -> str:
    head = ["client", *COLUMNS.values()]
    rows = [head, ["---"] * len(head)]
    for name, found in results.items():
        rows.append([name, *(f"{found[key]:,.0f}" if key in found else "-" for key in COLUMNS)])
    mine = results.get("ours", {})
    for name, found in results.items():
        if name != "ours" and mine:
            ratios = [f"{mine[key] / found[key]:.2f}x" if key in found and key in mine else "-" for key in COLUMNS]
            rows.append([f"ours / {name}", *ratios])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measurement")
    parser.add_argument("--only", default="ours,java,cpp", help="which clients, with commas between")
    parser.add_argument("--as-ours", metavar="NAMESRV", help=argparse.SUPPRESS)
    wanted = parser.parse_args()
    if wanted.as_ours:
        from pyromq.transport import loop

        print(MARK + json.dumps(loop.run(ours(wanted.as_ours, wanted.seconds))), flush=True)
        return
    results: dict[str, dict[str, float]] = {}
    for name in wanted.only.split(","):
        print(f"{name} ...", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(prefix="pyromq-bench-") as folder, broker(Path(folder) / "data") as address:
            try:
                results[name] = run(name, address, wanted.seconds)
            except Exception as fault:  # a peer that cannot be had on this machine: the others still count
                print(f"{name} is left out: {fault}", file=sys.stderr)
    print(f"client, 1 KB, {wanted.seconds:g} s each, on our broker in a process of its own\n")
    print(table(results))


if __name__ == "__main__":
    main()
