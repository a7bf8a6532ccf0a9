"""The Python SDK beside other clients on one broker of ours: `python bench/client.py [--rounds 3] [--only ours,java]`.

Clients take turns, each a process of its own on a new broker, and send 1 KB messages: one at a time (latency), then
with 64 in flight (messages per second, CPU per message), one-way, and many to a request; then they read a topic
that was filled before with an empty handler. The others are the Java client 5.5.0 (its first turn of sends does not
count) and the C++ client that PyPI's `rocketmq` 0.4.4 bundles. One that cannot be had here is named with the reason.
PyPI's gRPC client speaks to Apache's proxy alone: see bench/client_grpc.py.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyromq

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from bench.results import heading, note, shown  # noqa: E402

READ_TOPIC = "ClientBenchRead"
BODY = b"x" * 1024
MARK = "@@"
CLIENTS = ("ours", "java", "cpp")
Found = dict[str, float]
# What is printed of each way to send or read: its name, the figure, and the CPU of the client's process per message.
ROWS = (
    ("latency p50, us", "p50_us", "one_cpu_us"),
    ("latency p99, us", "p99_us", ""),
    ("sends/s, 64 in flight", "send_s", "send_cpu_us"),
    ("one-way sends/s", "oneway_s", "oneway_cpu_us"),
    ("sends/s, gathered (1,024 in flight, 1 ms)", "gathered_s", "gathered_cpu_us"),
    ("sends/s, many to a request", "many_s", "many_cpu_us"),
    ("reads/s, a handler", "read_s", "read_cpu_us"),
    ("reads/s, a handler of batches", "read_batch_s", "read_batch_cpu_us"),
    ("reads/s, polls", "poll_s", "poll_cpu_us"),
    ("reads/s, a loop over messages", "loop_s", "loop_cpu_us"),
)


async def fill(address: str, count: int, topic: str = READ_TOPIC) -> None:
    """What all of them read."""
    async with pyromq.connect(address) as client, client.producer() as producer:
        await producer.send_many(topic, (BODY for _ in range(count)))


def command_of(name: str, arguments: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The process of one client, and what its environment needs. PeerMissing where it cannot be had."""
    if name == "ours":
        return [sys.executable, str(ROOT / "bench" / "client_ours.py"), *arguments], {}
    from tests.interop.peers import cpp, java

    if name == "java":
        logs = f"-Drocketmq.client.logRoot={tempfile.gettempdir()}/pyromq-bench-logs"
        options = ["-server", "-Xms512m", "-Xmx512m", "-XX:+UseG1GC", logs, "-cp", f"{java.jars('5.5.0')}/*"]
        return [java.runtime(), *java.OPENS, *options, str(ROOT / "bench" / "ClientLoad.java"), *arguments], {}
    return [sys.executable, str(ROOT / "bench" / "client_cpp.py"), *arguments], {"PYTHONPATH": str(cpp.packages())}


def answer_of(name: str, command: Sequence[str], environment: dict[str, str]) -> Found:
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith(MARK)]
    if not lines:
        raise RuntimeError(f"{name} ended with {done.returncode}:\n{done.stdout[-1000:]}{done.stderr[-2000:]}")
    found: Found = json.loads(lines[-1].removeprefix(MARK))
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


def turn(name: str, seconds: float, filled: int) -> Found:
    with tempfile.TemporaryDirectory(prefix="pyromq-bench-") as folder, broker(Path(folder) / "data") as address:
        command, environment = command_of(name, [address, str(seconds), str(filled)])
        asyncio.run(fill(address, filled))
        return answer_of(name, command, environment)


def table(results: dict[str, list[Found]]) -> str:
    others = [name for name in results if name != "ours"]
    head = ["1 KB messages"]
    for name in results:
        head += [name, "CPU us"]
    head += [f"ours / {name} (CPU)" for name in others if "ours" in results]
    lines = [head, ["---"] * len(head)]
    for title, rate, cpu in ROWS:
        line = [title]
        for runs in results.values():
            line += [_figure(runs, rate), _figure(runs, cpu)]
        line += [_ratio(results["ours"], results[name], rate, cpu) for name in others if "ours" in results]
        lines.append(line)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _figure(runs: Sequence[Found], key: str) -> str:
    values = [run[key] for run in runs if key in run]
    return shown(values) if values else "-"


def _ratio(ours: Sequence[Found], theirs: Sequence[Found], rate: str, cpu: str) -> str:
    """Of medians."""
    if not all(rate in run for run in (*ours, *theirs)):
        return "-"
    shares = [
        f"{statistics.median(run[key] for run in ours) / statistics.median(run[key] for run in theirs):.2f}x"
        for key in (rate, cpu)
        if key
    ]
    return shares[0] if len(shares) == 1 else f"{shares[0]} ({shares[1]})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement of sends")
    parser.add_argument("--filled", type=int, default=100_000, help="messages to read")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default=",".join(CLIENTS), help="which clients, with commas between")
    parser.add_argument("--json", help="append the figures to this file")
    wanted = parser.parse_args()
    if strange := set(wanted.only.split(",")).difference(CLIENTS):
        parser.error(f"--only {','.join(sorted(strange))}: there are {', '.join(CLIENTS)}")
    results: dict[str, list[Found]] = {name: [] for name in wanted.only.split(",")}
    heading("Clients on our broker, 1 KB", "python bench/client.py")
    for number in range(wanted.rounds):
        for name in tuple(results):
            print(f"round {number + 1}: {name} ...", file=sys.stderr, flush=True)
            try:
                results[name].append(turn(name, wanted.seconds, wanted.filled))
            except Exception as fault:  # a peer that cannot be had on this machine: the others still count
                print(f"{name} is left out: {fault}", flush=True)
                del results[name]
    print(table(results))
    for name, runs in results.items():
        note(wanted.json, "client", name, runs, "clients, 1 KB")


if __name__ == "__main__":
    main()
