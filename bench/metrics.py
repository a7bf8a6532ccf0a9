"""What metrics cost: a scrape of 10,000 and 100,000 series, and the rate of sends with and without scrapes.

    python bench/metrics.py [--seconds 5] [--turns 5] [--every 1]

The scrapes are of a broker in this process, over a socket, with groups behind on topics of eight queues. Beside them
stands prometheus-client writing as many series, which has them in memory already: its time is 1. `longest hold` is how
late a timer was that wants its turn each millisecond meanwhile.

The rates are of a broker in a process of its own under mqload, in turns: without scrapes, and with one each `--every`
seconds, fifteen times as often as Prometheus comes by default.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from bench.servers import Case, Server, built, measure, our_broker, scratch
from prometheus_client import CollectorRegistry, Gauge, generate_latest

from pyromq.metrics.settings import Exporter
from tests.broker.running import Running, running_broker
from tests.support import free_ports

TOPICS, QUEUES, SERIES_OF_PAIR = 10, 8, 5
SEND = Case("send", "send -t Bench -c 4 -w 16 -s 128")


# --- one scrape -------------------------------------------------------------------------------------------------------


async def scrapes(series: int) -> dict[str, float]:
    """Return what one scrape of so many series takes, the least of five."""
    groups = series // SERIES_OF_PAIR // TOPICS
    prom: dict[str, Any] = {
        "metrics_exporter_type": Exporter.PROM,
        "metrics_prom_exporter_port": 0,
        "max_consumer_offsets": 1 << 20,
    }
    with tempfile.TemporaryDirectory() as folder:
        async with running_broker(Path(folder), **prom, metrics_otel_cardinality_limit=1 << 20) as broker:
            await _fill(broker, groups)
            address = broker.broker.metering.exporting.address
            found = [await _scraped(address) for _ in range(5)]
    return {name: min(one[name] for one in found) for name in found[0]}


async def _fill(broker: Running, groups: int) -> None:
    for number in range(TOPICS):
        for queue in range(QUEUES):
            await broker.send(topic=f"T{number}", queue=queue % 4, defaultTopicQueueNums=QUEUES)
    offsets = broker.broker.offsets
    for number in range(TOPICS):
        for group in range(groups):
            for queue in range(4):
                offsets.commit(f"T{number}", f"group-{group}", queue, group % 2)


async def _scraped(address: str) -> dict[str, float]:
    holds, stop = [0.0], asyncio.Event()

    async def tick() -> None:
        while not stop.is_set():
            begun = time.perf_counter()
            await asyncio.sleep(0.001)
            holds.append(time.perf_counter() - begun - 0.001)

    ticking = asyncio.create_task(tick())
    begun, cpu = time.perf_counter(), time.process_time()
    body = await asyncio.to_thread(_get, address)
    wall, cpu = time.perf_counter() - begun, time.process_time() - cpu
    stop.set()
    await ticking
    lines = sum(not line.startswith(b"#") for line in body.splitlines())
    return {"series": lines, "ms": cpu * 1000, "wall_ms": wall * 1000, "longest_ms": max(holds) * 1000}


def _get(address: str) -> bytes:
    with urllib.request.urlopen(f"http://{address}/metrics") as reply:
        return reply.read()  # type: ignore[no-any-return]


def prometheus_client_ms(series: int) -> float:
    registry = CollectorRegistry()
    gauges = [Gauge(f"lag_{number}", "Lag.", ["topic", "group"], registry=registry) for number in range(SERIES_OF_PAIR)]
    for number in range(series // SERIES_OF_PAIR):
        for gauge in gauges:
            gauge.labels(f"T{number % TOPICS}", f"group-{number}").set(number)
    took = []
    for _ in range(5):
        begun = time.process_time()
        generate_latest(registry)
        took.append((time.process_time() - begun) * 1000)
    return min(took)


# --- at full rate -----------------------------------------------------------------------------------------------------


@contextmanager
def scraping(port: int, every_s: float) -> Iterator[list[float]]:
    """Scrape all the time, in a thread; yield how long each took."""
    took: list[float] = []
    stop = threading.Event()

    def run() -> None:
        while not stop.wait(every_s):
            begun = time.perf_counter()
            _get(f"127.0.0.1:{port}")
            took.append((time.perf_counter() - begun) * 1000)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield took
    finally:
        stop.set()
        thread.join()


def in_turns(load: Path, server: Server, port: int, seconds: float, turns: int, every_s: float) -> None:
    found: dict[str, list[dict[str, float]]] = {"without": [], "with": []}
    scraped: list[float] = []
    measure(load, SEND, server, 1)
    for _ in range(turns):
        found["without"].append(measure(load, SEND, server, seconds))
        with scraping(port, every_s) as took:
            found["with"].append(measure(load, SEND, server, seconds))
        scraped += took
    rows = {
        name: {key: statistics.median(one[key] for one in runs) for key in ("rate", "p99_us", "cpu_us")}
        for name, runs in found.items()
    }
    print(f"\nsends of 128 bytes, {turns} turns of {seconds:g} s, a scrape each {every_s:g} s (median of the turns)\n")
    print("| | msg/s | p99 us | CPU us a message |\n|---|---|---|---|")
    for name, row in rows.items():
        print(f"| {name} scrapes | {row['rate']:,.0f} | {row['p99_us']:,.0f} | {row['cpu_us']:.3f} |")
    ratios = {key: rows["with"][key] / rows["without"][key] for key in ("rate", "p99_us", "cpu_us")}
    print(f"| ratio | {ratios['rate']:.4f} | {ratios['p99_us']:.3f} | {ratios['cpu_us']:.4f} |")
    print(f"\n{len(scraped)} scrapes, median {statistics.median(scraped or [0]):.1f} ms under load")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--every", type=float, default=1)
    given = parser.parse_args()
    print("| series | CPU ms | prometheus-client CPU ms | ratio | longest hold ms |\n|---|---|---|---|---|")
    for series in (10_000, 100_000):
        ours, theirs = asyncio.run(scrapes(series)), prometheus_client_ms(series)
        cells = f"{ours['ms']:.0f} | {theirs:.0f} | {ours['ms'] / theirs:.2f} | {ours['longest_ms']:.0f}"
        print(f"| {ours['series']:,.0f} | {cells} |", flush=True)
    (port,) = free_ports(1)
    flags = ("--metrics-exporter-type", "PROM", "--metrics-prom-exporter-port", str(port))
    with scratch() as folder:
        load = built(folder, "mqload")
        with our_broker(folder / "store", "native", *flags) as server:
            in_turns(load, server, port, given.seconds, given.turns, given.every)


if __name__ == "__main__":
    main()
