"""Apache's own benchmark against our broker and Java's, in turns: `python bench/apache.py [--runs 3] [--seconds 20]`.

`org.apache.rocketmq.example.benchmark.Producer` with 64 threads and bodies of 128 bytes, unmodified, then `Consumer`
with 64 threads on what was sent. Figures are those that they print (sends a second, average and maximal response time,
messages consumed a second, each over the last ten seconds), beside the broker's CPU from /proc. The programs take most
of the machine themselves: on few cores the broker's share of CPU tells more than the rate.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from bench.broker import warm_up  # noqa: E402
from bench.results import heading, note, shown  # noqa: E402
from bench.servers import Server, built, has_java, java_broker, our_cluster, scratch  # noqa: E402

from pyromq.kernel.choice import is_built  # noqa: E402
from tests.interop.peers import java  # noqa: E402
from tests.interop.peers.process import Program  # noqa: E402

VERSION = "5.5.0"
PACKAGE = "org.apache.rocketmq.example.benchmark"
JVM = ("-server", "-Xms512m", "-Xmx512m", "-XX:+UseG1GC")
WINDOW_S = 10  # over which the programs count
SENT = re.compile(r"Send TPS: (\d+) \| Max RT\(ms\): (\d+) \| Average RT\(ms\): +([\d.]+) \| Send Failed: (\d+)")
CONSUMED = re.compile(r"Consume TPS: (\d+)")


@contextmanager
def benchmark(main: str, server: Server, home: Path, *arguments: str) -> Iterator[Program]:
    library = java.fetched(f"java-{VERSION}-example", VERSION, ["example"])
    logs = [f"-Duser.home={home}", f"-Drocketmq.client.logRoot={home}/logs", f"-Djava.io.tmpdir={home}"]
    home.mkdir(parents=True, exist_ok=True)
    command = [java.runtime(), *java.OPENS, *JVM, *logs, "-cp", f"{library}/*", f"{PACKAGE}.{main}"]
    options = ["-n", server.name_server, "-w", "64", "-ri", "1000", *arguments]
    with Program([*command, *options], name=f"benchmark {main}", env={"HOME": str(home)}, cwd=home) as program:
        yield program


def produce(server: Server, home: Path, topic: str, seconds: float) -> dict[str, Any]:
    """The last full window: what came before it is the JVM's warm-up."""
    with benchmark("Producer", server, home, "-t", topic, "-s", "128") as program:
        program.wait_for(SENT.pattern, timeout_s=60)
        time.sleep(max(0.0, seconds - 2 * WINDOW_S))
        before, begun = server.cpu_s(), time.monotonic()
        time.sleep(WINDOW_S)
        spent, took = server.cpu_s() - before, time.monotonic() - begun
        (rate, worst, average, failed) = last(program, SENT)
    return {
        "rate": float(rate),
        "average_ms": float(average),
        "max_ms": float(worst),
        "cpu_share": spent / took / (os.cpu_count() or 1),
        "cpu_us": spent * 1e6 / max(1.0, float(rate) * took),
        "errors": float(failed),
    }


def consume(server: Server, home: Path, topic: str, seconds: float) -> dict[str, Any]:
    """The best window: the backlog may end before the time does."""
    with benchmark("Consumer", server, home, "-t", topic, "-g", f"{topic}_readers") as program:
        program.wait_for("Consumer Started", timeout_s=60)
        before = server.cpu_s()
        program.wait_for(CONSUMED.pattern, timeout_s=60)
        time.sleep(max(0.0, seconds - WINDOW_S))
        spent = server.cpu_s() - before
        rates = [float(found[1]) for line in list(program.lines) if (found := CONSUMED.search(line))]
    return {"rate": max(rates), "cpu_s": spent}


def last(program: Program, pattern: re.Pattern[str]) -> tuple[str | Any, ...]:
    return next(found for line in reversed(program.lines) if (found := pattern.search(line))).groups()


def run(server: Server, home: Path, turn: int, chosen: argparse.Namespace) -> dict[str, Any]:
    topic = f"Benchmark{turn}"
    sent = produce(server, home / f"{server.name}-{turn}-p", topic, chosen.seconds)
    print(f"{time.strftime('%H:%M:%S')} {server.name}: {sent}", file=sys.stderr, flush=True)
    consumed = consume(server, home / f"{server.name}-{turn}-c", topic, chosen.seconds)
    print(f"{time.strftime('%H:%M:%S')} {server.name}: {consumed}", file=sys.stderr, flush=True)
    return {**sent, "consumed": consumed["rate"]}


def show(found: dict[str, list[dict[str, Any]]], chosen: argparse.Namespace) -> None:
    print("| broker | sends/s | ours to it | average ms | max ms | its CPU | CPU us a send | consumed/s | failed |")
    print("|---|---|---|---|---|---|---|---|---|")
    ours = statistics.median(run["rate"] for run in next(iter(found.values())))
    for name, runs in found.items():
        share = statistics.median(run["cpu_share"] for run in runs)
        text = [shown([run[key] for run in runs]) for key in ("rate", "average_ms", "max_ms", "cpu_us", "consumed")]
        ratio = ours / max(1.0, statistics.median(run["rate"] for run in runs))
        print(
            f"| {name} | {text[0]} | {ratio:.2f} | {text[1]} | {text[2]} | {share:.0%} | {text[3]} | {text[4]} "
            f"| {sum(run['errors'] for run in runs):.0f} |",
            flush=True,
        )
        note(chosen.json, "apache", name, runs, "Apache's benchmark, 64 threads, 128 B")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=3)
    options.add_argument("--seconds", type=float, default=30, help="of a producer, and of a consumer")
    options.add_argument("--no-java", action="store_true", help="without the Java broker")
    options.add_argument("--python", action="store_true", help="our Python kernel too, once")
    options.add_argument("--folder", help="where stores go")
    options.add_argument("--json", help="append the figures to this file")
    chosen = options.parse_args()
    if not has_java():  # the benchmark is Java's, too
        print("not run: Apache's benchmark needs Java and Maven, see above")
        return
    heading("Apache's benchmark, 64 threads, 128 B", "python bench/apache.py")
    with ExitStack() as stack:
        folder = stack.enter_context(scratch(chosen.folder))
        kernels = ["native"] if is_built() else []
        kernels += ["python"] if chosen.python or not kernels else []
        servers = [stack.enter_context(our_cluster(folder / kernel, kernel)) for kernel in kernels]
        if not chosen.no_java:
            servers.append(stack.enter_context(java_broker(folder / "java")))
        load = built(folder, "mqload")
        for server in servers:  # Java's broker reaches its speed after a while
            warm_up(load, server, 0)
        found: dict[str, list[dict[str, Any]]] = {server.name: [] for server in servers}
        for turn in range(chosen.runs):
            for server in servers:
                if turn and server.name == "python":
                    continue  # once will do
                found[server.name].append(run(server, folder / "home", turn, chosen))
        show(found, chosen)


if __name__ == "__main__":
    main()
