"""What a long backlog costs: `python bench/backlog.py [--row real] [--row cold] [--row synthetic]`.

`real`: 10^8 small messages (13 GB of log, 4 of queues and index; fewer where the disk or --limit-s does not allow it,
and it says so) beside 10^5. `synthetic`: 10^9 messages, all but the ends holes (bench/sparse.py), beside 10^5.
Of both: start after a clean stop, search by time, pulls at both ends and sends, as ratios to the small case.
`cold`: sends at half of what the broker takes, alone, while the backlog is read from the page cache, and while it is
read from the disk. On 2 cores with the native kernel all of it takes four to eight minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from bench.probe import Probe, Table, create_topic, start_s  # noqa: E402
from bench.results import heading, note, number  # noqa: E402
from bench.servers import Case, Server, built, measure, our_broker, scratch  # noqa: E402
from bench.sparse import build  # noqa: E402

TOPIC = "B"
SMALL = 100_000
MESSAGE_BYTES = 173  # of log, queue and index on disk
FILES_BYTES = 5 << 29  # made ahead, and what the sends after it take
KEPT_FREE = 4 << 30
FULL_AT = 0.89  # a broker refuses messages from 0.9 on
AT_MOST = Case("at most", "send -t Hot -c 4 -w 64 -s 128 -q 4")
SAMPLES = 500
BLOCK = 4096


def affordable(messages: int, folder: str | None) -> int:
    """As many as the disk has room for, and before a broker takes it for full: a tenth if not all."""
    usage = shutil.disk_usage(folder or tempfile.gettempdir())
    room = min(usage.free - KEPT_FREE, (usage.used + usage.free) * FULL_AT - usage.used)
    while messages > SMALL and room < messages * MESSAGE_BYTES + FILES_BYTES:
        print(f"(no room for {messages:,} messages: {room / 1e9:.0f} GB may be used; a tenth of them is taken)\n")
        messages //= 10
    return messages


def fill(load: Path, server: Server, messages: int, limit_s: float) -> int:
    """How many it became."""
    say(f"making {messages:,} messages")
    case = Case("fill", f"send -t {TOPIC} -c 4 -w 4 -B 256 -s 1 -K 8 -q 4 -N {messages}")
    found = measure(load, case, server, limit_s)
    say(f"made {found['messages']:,} in {found['seconds']:.0f} s")
    if found["messages"] < messages:
        print(f"(cut: {found['messages']:,} instead of {messages:,} messages were made in {limit_s:.0f} s)\n")
    return int(found["messages"])


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def probes(load: Path, store: Path, times_ms: list[int], seconds: float) -> dict[str, dict[str, float]]:
    """In this order: a hole has entries for searches only as long as nothing was sent."""
    say("starting again")
    found = {"start-up": {"p50_us": start_s(lambda: our_broker(store)) * 1e6}}
    with our_broker(store) as server:
        probe = Probe(load, server, TOPIC, seconds)
        found["search by time"] = probe.search(times_ms)
        found["pull at the head"] = probe.pull_head()
        found["pull at the tail"] = probe.pull_tail()
        found["send"] = probe.send()
    return found


def spread_over(begun: float, ended: float) -> list[int]:
    return [int((begun + (ended - begun) * part / 50) * 1000) for part in range(50)]


def real(folder: Path, load: Path, table: Table, messages: int, chosen: argparse.Namespace) -> Path:
    """Fills a store, starts a broker on it again and asks."""
    store, begun = folder / f"real{messages}", time.time()
    with our_broker(store) as server:
        create_topic(server, TOPIC, 4)
        made = fill(load, server, messages, chosen.limit_s)
        ended = time.time()
    table.add(f"{made:,} messages", probes(load, store, spread_over(begun, ended), chosen.seconds))
    return store


def synthetic(folder: Path, load: Path, table: Table, messages: int, chosen: argparse.Namespace) -> None:
    store = folder / f"synthetic{messages}"
    with our_broker(store) as server:
        create_topic(server, TOPIC, 4)
    say(f"a store as of {messages:,} messages")
    made = build(store, TOPIC, messages, SMALL)
    table.add(f"{made.messages:,} messages", probes(load, store, made.times_ms, chosen.seconds))
    shutil.rmtree(store)


# -- cold reads beside hot writes -------------------------------------------------------------------------------------


def cold(store: Path, load: Path, chosen: argparse.Namespace) -> None:
    heading("cold reads beside hot writes", "python bench/backlog.py --row cold")
    with our_broker(store) as server:
        measure(load, AT_MOST, server, 2)
        rate = round(measure(load, AT_MOST, server, chosen.seconds)["rate"] / 2)
        print(f"Sends at {rate:,}/s, open loop; the backlog is drained by pulls of 32 from four queues.\n")
        print("| state | p50 us | of alone | p99 us | of alone | max us | read msg/s | log in the page cache before |")
        print("|---|---|---|---|---|---|---|---|", flush=True)
        case = Case("half", f"send -t Hot -c 4 -w 512 -s 128 -q 4 -r {rate}")
        alone: dict[str, Any] | None = None
        for state in ("alone", "hot reads", "cold reads"):
            if state == "hot reads":
                warm(store)
            if state == "cold reads":
                drop(store)
            share = resident_share(store)
            found = half_load(load, server, case, chosen.seconds * 2, reads=state != "alone")
            alone = alone or found
            print(
                f"| {state} | {found['p50_us']} | {found['p50_us'] / alone['p50_us']:.2f} | {found['p99_us']} | "
                f"{found['p99_us'] / alone['p99_us']:.2f} | {found['max_us']} | {number(found['read_rate'])} | "
                f"{'-' if share is None else format(share, '.0%')} |",
                flush=True,
            )
            note(chosen.json, "cold", state, [{**found, "resident": share}])


def half_load(load: Path, server: Server, case: Case, seconds: float, reads: bool) -> dict[str, Any]:
    with ExitStack() as stack:
        drain = None
        if reads:
            command: list[str | Path] = [
                load,
                "drain",
                "-t",
                TOPIC,
                "-g",
                "cold",
                "-q",
                "4",
                "-n",
                "32",
                "-a",
                server.address,
            ]
            drain = stack.enter_context(
                subprocess.Popen([*command, "-d", str(seconds)], stdout=subprocess.PIPE, text=True)
            )
            stack.callback(drain.kill)
        found = measure(load, case, server, seconds)
        found["read_rate"] = 0.0 if drain is None else json.loads(drain.communicate()[0])["rate"]
        return found


def log_files(store: Path) -> list[Path]:
    """All but the newest, which are written."""
    return sorted((store / "commitlog").iterdir())[:-2]


def warm(store: Path) -> None:
    for path in log_files(store)[:4]:  # as much as a drain of seconds reads
        with path.open("rb", buffering=0) as file:
            while file.read(1 << 22):
                pass


def drop(store: Path) -> None:
    """Out of the page cache; what is dirty cannot be dropped."""
    for path in [*log_files(store), *(store / "consumequeue" / TOPIC).rglob("0*")]:
        if not path.is_file():
            continue
        descriptor = os.open(path, os.O_RDWR)
        try:
            os.fdatasync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def resident_share(store: Path) -> float | None:
    """Of samples over the part that a drain reads first; None: there are no files but the newest."""
    seen = there = 0
    for path in log_files(store)[:4]:
        with path.open("rb", buffering=0) as file:
            size = path.stat().st_size
            for part in range(SAMPLES):
                with suppress(BlockingIOError):
                    there += os.preadv(file.fileno(), [bytearray(BLOCK)], size * part // SAMPLES, os.RWF_NOWAIT) > 0
                seen += 1
    return there / seen if seen else None


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--row", action="append", choices=["real", "cold", "synthetic"], help="these alone")
    options.add_argument("--messages", type=int, default=100_000_000, help="of `real`; `cold` alone takes a tenth")
    options.add_argument("--synthetic", type=int, default=1_000_000_000, help="messages of `synthetic`")
    options.add_argument("--limit-s", type=float, default=300, help="no more messages are made after so long")
    options.add_argument("--seconds", type=float, default=3, help="of sends, in each state")
    options.add_argument("--folder", help="where stores go: up to 22 GB")
    options.add_argument("--json", help="append the figures to this file")
    chosen = options.parse_args()
    wanted = chosen.row or ["real", "cold", "synthetic"]
    os.environ["PYROMQ_BROKER_FORCE_ENABLED"] = "false"  # from 0.85 on the oldest files would go
    with scratch(chosen.folder) as folder:
        load = built(folder, "mqload")
        if "real" in wanted or "cold" in wanted:
            run_real(folder, load, wanted, chosen)
        if "synthetic" in wanted:
            heading("a synthetic backlog", "python bench/backlog.py --row synthetic")
            table = Table("synthetic", chosen.json)
            for messages in (SMALL, chosen.synthetic):
                synthetic(folder, load, table, messages, chosen)


def run_real(folder: Path, load: Path, wanted: list[str], chosen: argparse.Namespace) -> None:
    """The store of `real` serves `cold` as well."""
    if "real" in wanted:
        heading("a real backlog", "python bench/backlog.py --row real")
        messages = affordable(chosen.messages, chosen.folder)
        table = Table("backlog", chosen.json)
        shutil.rmtree(real(folder, load, table, SMALL, chosen))
        store = real(folder, load, table, messages, chosen)
    else:
        store = folder / "store"
        with our_broker(store) as server:
            create_topic(server, TOPIC, 4)
            fill(load, server, affordable(chosen.messages // 10, chosen.folder), chosen.limit_s)
    if "cold" in wanted:
        cold(store, load, chosen)
    shutil.rmtree(store)


if __name__ == "__main__":
    main()
