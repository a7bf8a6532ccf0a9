"""gRPC clients of our broker and of Java's proxy, in one run: `python bench/grpc.py [--row NAME ...] [--runs 2]`.

The load is bench/grpcload.c: request ids, dates and time-outs change from call to call. Ours is one process (the broker
serves gRPC itself), on nghttp2 and on the Python kernel; Java's is its proxy in cluster mode over its broker, both
warm, their CPU added up; with its default settings and with its buffer merge, and ratios are to the better of the two.
The servers take turns. `--list` names the rows, `--no-java` leaves Java out.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from bench.measure.compiled import compiled  # noqa: E402
from bench.pop_states import Tools  # noqa: E402
from bench.results import heading, note, number  # noqa: E402
from bench.servers import JVM, POPPING, Case, Server, built, has_java, java_broker, measure, our_broker, scratch  # noqa: E402

from pyromq.kernel.choice import is_built  # noqa: E402

JAVA_WARM_UP_S, WARM_UP_S = 15, 2
FILLED = 40_000  # messages that are received
FIGURES = ("rate", "p50_us", "p99_us", "cpu_us")
COME_S = 10  # for thousands of clients to come


class Row(NamedTuple):
    """Options of grpcload. `fill`: before each run something to receive is sent, to a topic of that run."""

    what: str
    options: str
    own_topic: bool = False
    fill: bool = False


ROWS = {
    "grpc-send": Row("gRPC send 128 B, 4 x 16", "send -c 4 -w 16 -s 128"),
    "grpc-send-1": Row("gRPC send 128 B, 1 x 1", "send -c 1 -w 1 -s 128"),
    "grpc-receive-ack": Row(
        "gRPC receive 32, ack each", "receive -g {group} -c 4 -w 1 -n 32", own_topic=True, fill=True
    ),
    "grpc-e2e": Row("gRPC end to end at 5,000/s", "e2e -g {group} -c 4 -w 4 -r 5000 -s 128", own_topic=True),
    "grpc-idle": Row("gRPC clients idle, telemetry and heartbeats", "idle -g idle -c {clients} -b {beat}"),
}


class Endpoint(NamedTuple):
    """A server of gRPC calls: where it is, and the processes that it takes."""

    name: str
    address: str
    processes: list[Server]

    def cpu_s(self) -> float:
        return sum(one.cpu_s() for one in self.processes)

    def resident_mb(self) -> float:
        return sum(one.resident_mb() for one in self.processes)


@contextmanager
def java_endpoint(folder: Path, name: str, **settings: str) -> Iterator[Endpoint]:
    from tests.interop.peers.java_proxy import Proxy

    with java_broker(folder, **POPPING, **settings) as broker:
        (folder / "proxy").mkdir()
        proxy = Proxy(folder / "proxy", broker.name_server, jvm=JVM)
        try:
            served = broker._replace(name="proxy", pid=proxy.program.process.pid, address=proxy.endpoint)
            yield Endpoint(name, proxy.endpoint, [broker, served])
        finally:
            proxy.kill()


def endpoints(folder: Path, stack: ExitStack, chosen: argparse.Namespace) -> list[Endpoint]:
    kernels = (["native"] if is_built() else []) + ([] if chosen.no_python else ["python"])
    brokers = [stack.enter_context(our_broker(folder / kernel, kernel)) for kernel in kernels]
    found = [Endpoint(broker.name, broker.address, [broker]) for broker in brokers]
    if not chosen.no_java and has_java():
        found.append(stack.enter_context(java_endpoint(folder / "java", "java")))
        merging = java_endpoint(folder / "java-merge", "java-merge", enablePopBufferMerge="true")
        found.append(stack.enter_context(merging))
    return found


def loaded(load: Path, endpoint: Endpoint, options: str, seconds: float, topic: str = "Bench") -> dict[str, Any]:
    before = endpoint.cpu_s()
    command = [str(load), *options.split(), "-t", topic, "-a", endpoint.address, "-d", str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout:
        raise SystemExit(f"grpcload {options} at {endpoint.name}: {done.stderr.strip() or 'it said nothing'}")
    found: dict[str, Any] = json.loads(done.stdout)
    spent = endpoint.cpu_s() - before
    found["cpu_us"] = spent * 1e6 / max(1, found["calls"] if found["mode"] == "send" else found["messages"])
    found["errors"] = found["codes"] + found["statuses"]
    return found


def rested(load: Path, endpoint: Endpoint, options: str, chosen: argparse.Namespace) -> dict[str, Any]:
    """CPU and memory while clients rest: from when all have come on, heartbeat by heartbeat."""
    memory = endpoint.resident_mb()
    seconds = COME_S + (chosen.beats + 1) * chosen.beat
    command = [str(load), *options.split(), "-t", "Bench", "-a", endpoint.address, "-d", str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        time.sleep(COME_S)
        before, begun = endpoint.cpu_s(), time.monotonic()
        grown = [middle_growth(endpoint, memory, chosen.beat) for _ in range(chosen.beats)]
        spent, took = endpoint.cpu_s() - before, time.monotonic() - begun
        found: dict[str, Any] = json.loads(process.communicate()[0])
    errors = found["codes"] + found["statuses"]
    return {**found, "cpu_percent": 100 * spent / took, "grown_mb": grown, "errors": errors}


def middle_growth(endpoint: Endpoint, memory: float, seconds: float) -> float:
    """Return the median over some seconds, in MB: at any moment a few clients are awake."""
    seen = []
    for _ in range(20):
        time.sleep(seconds / 20)
        seen.append(endpoint.resident_mb() - memory)
    return statistics.median(seen)


def make_topic(mqload: Path, endpoint: Endpoint, topic: str) -> None:
    measure(mqload, Case("first", f"send -t {topic} -c 1 -w 1 -s 128 -q 4"), endpoint.processes[0], 0.2)


def make_group(endpoint: Endpoint, group: str) -> None:
    """Java's proxy refuses clients of a group that its broker does not know yet."""
    command = [str(Path(sys.executable).with_name("mqadmin")), "updateSubGroup", "-b", endpoint.processes[0].address]
    subprocess.run([*command, "-g", group], stdout=subprocess.DEVNULL, check=True)


def run_row(name: str, row: Row, load: Path, mqload: Path, served: list[Endpoint], chosen: argparse.Namespace) -> None:
    heading(row.what, f"python bench/grpc.py --row {name}")
    runs: dict[str, list[dict[str, Any]]] = {one.name: [] for one in served}
    for turn in range(1 if name == "grpc-idle" else 1 + chosen.runs):  # the first is to warm up
        for one in served:
            topic = f"{name}-{turn}" if row.own_topic else "Bench"
            make_topic(mqload, one, topic)
            if row.fill:
                Tools(load.parent, mqload, load).fill(one.processes[0], topic, FILLED)
            group = f"g{turn}-{int(time.time())}"
            if row.own_topic:
                make_group(one, group)
            options = row.options.format(group=group, clients=chosen.clients, beat=chosen.beat)
            if name == "grpc-idle":
                runs[one.name].append(rested(load, one, options, chosen))
            else:
                runs[one.name].append(loaded(load, one, options, 20 if row.fill else chosen.seconds, topic))
            print(f"{name} {one.name}, turn {turn}: {runs[one.name][-1]}", file=sys.stderr, flush=True)
    if name != "grpc-idle":
        runs = {server: found[1:] for server, found in runs.items()}
    show(runs, name == "grpc-idle", chosen.clients)
    for server, found in runs.items():
        note(chosen.json, name, server, found, row.what)


def show(runs: dict[str, list[dict[str, Any]]], is_idle: bool, clients: int) -> None:
    if is_idle:
        print("| server | clients | CPU, % of a core | KB a client, by heartbeats | refused |\n|---|---|---|---|---|")
        for server, (rest,) in runs.items():
            each = [f"{after}: {mb * 1024 / clients:.1f}" for after, mb in enumerate(rest["grown_mb"], 1)]
            shown = ", ".join(one for after, one in enumerate(each, 1) if after in (1, len(each)) or after % 5 == 0)
            print(f"| {server} | {clients} | {rest['cpu_percent']:.1f} | {shown} | {rest['errors']} |", flush=True)
        return
    print("| server | a second | of Java | p50 us | p99 us | of Java | CPU us each | of Java | refused |")
    print("|---|---|---|---|---|---|---|---|---|")
    middles = {server: middle(found) for server, found in runs.items()}
    javas = [one for server, one in middles.items() if server.startswith("java")]
    best = {key: min((one[key] for one in javas), default=0.0) for key in FIGURES}
    best["rate"] = max((one["rate"] for one in javas), default=0.0)
    for server, one in middles.items():
        ratio = {key: f"{value / best[key]:.3g}" if best[key] else "-" for key, value in one.items()}
        figures = f"{number(one['rate'])} | {ratio['rate']} | {number(one['p50_us'])} | {number(one['p99_us'])}"
        figures += f" | {ratio['p99_us']} | {number(one['cpu_us'])} | {ratio['cpu_us']}"
        print(f"| {server} | {figures} | {sum(each['errors'] for each in runs[server])} |", flush=True)


def middle(found: list[dict[str, Any]]) -> dict[str, float]:
    return {key: statistics.median(one[key] for one in found) for key in FIGURES}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--row", action="append", choices=sorted(ROWS), help="only these")
    parser.add_argument("--runs", type=int, default=2, help="after one to warm up; the median counts")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--clients", type=int, default=5000, help="of grpc-idle")
    parser.add_argument("--beat", type=float, default=10, help="seconds between two heartbeats of a client")
    parser.add_argument("--beats", type=int, default=5, help="heartbeats of each client, of grpc-idle")
    parser.add_argument("--no-java", action="store_true")
    parser.add_argument("--no-python", action="store_true")
    parser.add_argument("--folder", help="where stores lie meanwhile")
    parser.add_argument("--json", help="append the figures to this file")
    parser.add_argument("--list", action="store_true")
    chosen = parser.parse_args()
    if chosen.list:
        print("\n".join(f"{name}: {row.what}" for name, row in ROWS.items()))
        return
    with ExitStack() as stack:
        folder = stack.enter_context(scratch(chosen.folder))
        load = compiled(ROOT / "bench" / "grpcload.c", folder, "-lnghttp2")
        served = endpoints(folder, stack, chosen)
        mqload = built(folder, "mqload")
        for one in served:
            make_topic(mqload, one, "Bench")
            loaded(load, one, "send -c 4 -w 16 -s 128", JAVA_WARM_UP_S if one.name.startswith("java") else WARM_UP_S)
        for name in chosen.row or ROWS:
            run_row(name, ROWS[name], load, mqload, served, chosen)


if __name__ == "__main__":
    main()
