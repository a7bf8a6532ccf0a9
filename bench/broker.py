"""The broker under load beside its peers in one run: `python bench/broker.py [--row NAME ...] [--runs 3] [--no-java]`.

Each row starts what it needs: our broker on the native kernel (and on Python's with --python), the Java broker 5.5.0
where Maven is present, the echo in C where a floor is asked for. The servers take turns, `--runs` times; the table has
the median and the spread. A row takes one to four minutes. Every message has a key of its own. `--list` names them.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from bench.measure.stalls import PauseWatch, paused_ms, pauses_watched  # noqa: E402
from bench.results import note  # noqa: E402
from bench.servers import Case, Server, built, c_echo, has_java, java_broker, measure, our_broker, scratch  # noqa: E402

from pyromq.kernel.choice import is_built  # noqa: E402

WARM_UP = Case("warm-up", "send -t Warm -c 4 -w 16 -s 128 -q 4")
FIRST = Case("first", "send -t Bench -c 1 -w 1 -s 128 -q 4")  # who reads from a topic that is not there is refused
MANY = "send -t Many -c 4 -w 4 -B 32 -s 128 -q 4 -N {}"
MANY_LIMIT_S = 240
FILL = Case("fill", "send -t Fill -c 4 -w 4 -B 32 -s 128 -q 4")
JAVA_WARM_UP_S, WARM_UP_S = 15, 3  # the Java broker reaches its speed after about as long
SETTLE_S, IDLE_S = 4, 8  # a JVM goes on compiling for a while


class Row(NamedTuple):
    """A case on all servers. `floor`: the echo in C too. `fill`: before, so many seconds of batches to read from."""

    case: Case
    floor: bool = False
    sync: bool = False  # brokers that answer after the sync
    fill: float = 0.0


ROWS = {
    "send-64": Row(Case("send 128 B, 4 x 16 in flight", "send -t Bench -c 4 -w 16 -s 128 -q 4"), floor=True),
    "send-1024": Row(Case("send 128 B, 4 x 256 in flight", "send -t Bench -c 4 -w 256 -s 128 -q 4")),
    "send-1": Row(Case("send 128 B, 1 in flight", "send -t Bench -c 1 -w 1 -s 128 -q 4"), floor=True),
    "sync-64": Row(Case("send 1 KB, sync flush, 4 x 16", "send -t Bench -c 4 -w 16 -s 1024 -q 4"), sync=True),
    "sync-1": Row(Case("send 1 KB, sync flush, 1", "send -t Bench -c 1 -w 1 -s 1024 -q 4"), floor=True, sync=True),
    "batch": Row(Case("batches of 32 x 128 B, 4 x 4", "send -t Bench -c 4 -w 4 -B 32 -s 128 -q 4")),
    "drain-32": Row(Case("drain by pulls of 32", "drain -t Fill -g bench -q 4 -n 32"), fill=4),
    "drain-2048": Row(Case("drain by pulls of 2,048", "drain -t Fill -g pyromq-spark -q 4 -n 2048"), fill=4),
    "e2e": Row(Case("end to end at 10,000/s", "e2e -t Bench -g bench -q 4 -c 4 -r 10000 -s 128")),
}
AT_REST = "rest"  # start-up, idle CPU, memory idle and after --messages


class Found(NamedTuple):
    """All runs of one server in one row."""

    server: str
    runs: list[dict[str, Any]]

    def middle(self, key: str) -> float:
        return float(statistics.median(one[key] for one in self.runs))

    def spread(self, key: str) -> str:
        values = [one[key] for one in self.runs]
        return f"{min(values):.0f}-{max(values):.0f}"


def servers_of(
    folder: Path, stack: ExitStack, chosen: argparse.Namespace, sync: bool = False, floor: bool = False
) -> list[Server]:
    def enter(server: AbstractContextManager[Server]) -> Server:
        return stack.enter_context(server)

    flags = ("--flush-mode", "SYNC_FLUSH") if sync else ()
    kernels = (["native"] if is_built() else []) + (["python"] if chosen.python or not is_built() else [])
    servers = [enter(our_broker(folder / kernel, kernel, *flags)) for kernel in kernels]
    if floor:
        servers.append(enter(c_echo(folder, *([str(folder / "echoed")] if sync else []))))
    if not chosen.no_java and has_java():
        servers.append(enter(java_broker(folder / "java", **({"flushDiskType": "SYNC_FLUSH"} if sync else {}))))
    return servers


def run_rows(names: list[str], load: Path, chosen: argparse.Namespace) -> None:
    """Rows that can share their servers."""
    rows = [ROWS[name] for name in names]
    with ExitStack() as stack:
        folder = stack.enter_context(scratch(chosen.folder))
        servers = servers_of(folder, stack, chosen, rows[0].sync, any(row.floor for row in rows))
        for server in servers:
            if server.name != "echo":
                warm_up(load, server, max(row.fill for row in rows))
        for name, row in zip(names, rows, strict=True):
            taking_part = [server for server in servers if row.floor or server.name != "echo"]
            found = [Found(server.name, []) for server in taking_part]
            with pauses_watched(folder) as pauses:
                for _ in range(chosen.runs):
                    for server, one in zip(taking_part, found, strict=True):
                        one.runs.append(measured(load, row.case, server, chosen.seconds, pauses))
            show(name, row, found)
            for one in found:
                note(chosen.json, name, one.server, one.runs, row.case.name)


def measured(load: Path, case: Case, server: Server, seconds: float, pauses: PauseWatch) -> dict[str, Any]:
    """With the share of the time, in percent, in which a CPU served nobody: latencies cannot be better than that."""
    begin_ms = time.time() * 1000
    found = measure(load, case, server, seconds)
    end_ms = time.time() * 1000
    return {**found, "paused_percent": 100 * paused_ms(pauses.seen(), begin_ms, end_ms) / (end_ms - begin_ms)}


def warm_up(load: Path, server: Server, fill: float) -> None:
    measure(load, WARM_UP, server, JAVA_WARM_UP_S if server.name == "java" else WARM_UP_S)
    measure(load, FIRST, server, 0.5)
    if fill:
        measure(load, FILL, server, fill)


def show(name: str, row: Row, found: list[Found]) -> None:
    """As a table of Markdown; ratios are of the first server to each other."""
    ours = found[0]
    print(f"\n{row.case.name} (`--row {name}`), {time.strftime('%Y-%m-%d %H:%M')}, load {os.getloadavg()[0]:.1f}\n")
    print(
        "| server | msg/s (spread) | ours to it | p50 us (spread) | p99 us (spread) | CPU us a message "
        "| CPU served nobody, % | refused |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for one in found:
        ratio = ours.middle("rate") / one.middle("rate") if one.middle("rate") else 0.0
        print(
            f"| {one.server} | {one.middle('rate'):.0f} ({one.spread('rate')}) | {ratio:.2f} "
            f"| {one.middle('p50_us'):.0f} ({one.spread('p50_us')}) | {one.middle('p99_us'):.0f} "
            f"({one.spread('p99_us')}) | {one.middle('cpu_us'):.1f} | {one.middle('paused_percent'):.1f} "
            f"| {sum(run['errors'] for run in one.runs)} |",
            flush=True,
        )


def at_rest(load: Path, chosen: argparse.Namespace) -> None:
    """Start-up, CPU of an idle broker, memory before and after many messages."""
    print(f"\nat rest (`--row {AT_REST}`), {time.strftime('%Y-%m-%d %H:%M')}, load {os.getloadavg()[0]:.1f}\n")
    print("| server | ready s | idle CPU % | anonymous MB idle | messages | MB after a tenth of them | MB after |")
    print("|---|---|---|---|---|---|---|")
    found: dict[str, list[dict[str, Any]]] = {}
    for run in range(chosen.runs):
        # one on Python's kernel takes as long as all others together: once, and with a tenth
        with_python = chosen.python and run == 0
        rested = _rest(load, argparse.Namespace(**{**vars(chosen), "python": with_python}))
        for name, figures in rested.items():
            found.setdefault(name, []).append(figures)
    for name, runs in found.items():
        note(chosen.json, AT_REST, name, runs)


def _rest(load: Path, chosen: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """One run, of all servers at a time."""
    found = {}
    with ExitStack() as stack:
        folder = stack.enter_context(scratch(chosen.folder))
        servers = servers_of(folder, stack, chosen)
        time.sleep(SETTLE_S)
        before = [server.cpu_s() for server in servers]
        time.sleep(IDLE_S)
        idle = [(server.cpu_s() - cpu) / IDLE_S * 100 for server, cpu in zip(servers, before, strict=True)]
        for server, percent in zip(servers, idle, strict=True):
            wanted = chosen.messages // 10 if server.name == "python" else chosen.messages
            tenth = _send(load, server, wanted // 10)
            early = server.resident_mb()
            sent = tenth + _send(load, server, wanted - tenth)
            late = server.resident_mb()
            print(
                f"| {server.name} | {server.start_s:.2f} | {percent:.2f} | {server.idle_mb:.0f} | {sent:,} "
                f"| {early:.0f} | {late:.0f} |",
                flush=True,
            )
            figures = {"start_s": server.start_s, "idle_percent": percent, "idle_mb": server.idle_mb, "messages": sent}
            found[server.name] = {**figures, "mb_after_tenth": early, "mb_after": late}
    return found


def _send(load: Path, server: Server, messages: int) -> int:
    """How many it became in the time that there is."""
    return int(measure(load, Case("many", MANY.format(messages)), server, MANY_LIMIT_S)["messages"])


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--row", action="append", choices=[*ROWS, AT_REST], help="these alone")
    options.add_argument("--list", action="store_true", help="name the rows")
    options.add_argument("--runs", type=int, default=3)
    options.add_argument("--seconds", type=float, default=3)
    options.add_argument("--messages", type=int, default=10_000_000, help="of the memory figure")
    options.add_argument("--no-java", action="store_true", help="without the Java broker")
    options.add_argument("--python", action="store_true", help="our Python kernel too")
    options.add_argument("--folder", help="where stores go; the file system counts in the sync rows")
    options.add_argument("--json", help="append the figures to this file")
    chosen = options.parse_args()
    if chosen.list:
        print("\n".join([*(f"{name:12} {row.case.name}" for name, row in ROWS.items()), f"{AT_REST:12} at rest"]))
        return
    with scratch() as work:
        load = built(work, "mqload")
        wanted = chosen.row or [*ROWS, AT_REST]
        for sync in (False, True):
            names = [name for name in wanted if name in ROWS and ROWS[name].sync == sync]
            if names:
                run_rows(names, load, chosen)
        if AT_REST in wanted:
            at_rest(load, chosen)


if __name__ == "__main__":
    main()
