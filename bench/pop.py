"""Pop and ack beside Java's broker: `python -m bench.pop [--java] [--messages N] [--json FILE] [ROW ...]`.

Load: bench/popload.c. The servers take turns, `--rounds` times, while the others stand still; each round drains the
same messages with a group of its own. The last round counts, so that Java is warm; it is there with its
default settings and with its buffer merge, and ratios are to the better of the two. CPU a message is the server's own.
The rows of bench/pop_states.py are run as well.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from bench.pop_states import STATES, Tools, run_state, runtime, starters
from bench.results import heading, note, number
from bench.servers import POPPING, Server, alone, built, has_java, java_broker, our_broker, scratch

SETTLED_S = 2  # until what was sent is on the disk, and Java's threads have done what they put off
EXPIRED_S = 12  # until Java has moved check points and acks of 10 s from its timers to its revive topic
PUT_BYTES = "commitLogMaxOffset"


class Row(NamedTuple):
    """Options of popload. `sync`: of brokers that answer once a message is on the medium."""

    what: str
    options: str
    topic: str = "Bench"
    sync: bool = False
    share: float = 1.0  # of the messages: what is slow takes fewer


ROWS = {
    "pop-ack": Row("pop 32, ack each, 4 x 4", "drain -A 1 -c 4 -w 4 -n 32"),
    "pop-batch": Row("pop 32, batch ack, 4 x 4", "drain -A 2 -c 4 -w 4 -n 32"),
    "pop-1": Row("pop 1, ack, 4 x 16", "drain -A 1 -c 4 -w 16 -n 1", share=0.25),
    "pop-order": Row("pop 32 in order, ack each, 16 queues", "drain -A 1 -O 1 -c 4 -w 4 -n 32", "Ordered", share=0.25),
    "pop-sync": Row("SYNC_FLUSH: pop 32, ack each, 4 x 4", "drain -A 1 -c 4 -w 4 -n 32", sync=True, share=0.25),
    "pop-e2e": Row("10,000 a second to held pops, acked", "e2e -A 1 -c 4 -w 4 -n 32 -r 10000 -d 6 -p 5000", "{group}"),
    "pop-written": Row("bytes of the log for a message popped and acked", "drain -A 1 -c 4 -w 4 -n 32 -i 10000"),
    # Last: what it leaves in flight leaves memory meanwhile, and takes its time from the row behind it.
    "pop-change": Row("pop 32, change each, 4 x 4", "drain -A 3 -c 4 -w 4 -n 32 -I 600000"),
}
QUEUES = {"Ordered": 16}


def run(tools: Tools, server: Server, name: str, group: str, messages: int) -> dict[str, Any]:
    """One round of a row: what popload says, and the CPU that a message took."""
    row = ROWS[name]
    ends = "" if row.options.startswith("e2e") else f"-d 20 -m {int(messages * row.share) * 99 // 100}"
    if "{" in row.topic:
        tools.fill(server, group, 1)  # Java refuses pops of a topic that it does not know
    before, put = server.cpu_s(), _put_bytes(server) if name == "pop-written" else 0
    queues = QUEUES.get(row.topic, 4)
    found = tools.pops(server, f"{row.options} -t {row.topic.format(group=group)} -g {group} -q {queues} {ends}")
    found["cpu_us"] = (server.cpu_s() - before) * 1e6 / max(1, found["messages"])
    if name == "pop-written":
        time.sleep(EXPIRED_S if server.name.startswith("java") else SETTLED_S)
        found["put_bytes"] = (_put_bytes(server) - put) / max(1, found["messages"])
        found["message_bytes"] = found["MBps"] * 1e6 * found["seconds"] / max(1, found["messages"])
    return found


def _put_bytes(server: Server) -> int:
    return int(runtime(server)[PUT_BYTES])


def show(name: str, found: dict[str, dict[str, Any]]) -> None:
    """A table of the servers, each beside the better of Java's."""
    if name == "pop-written":
        print("| server | bytes a message | of the message |\n|---|---|---|")
        for server, one in found.items():
            print(f"| {server} | {number(one['put_bytes'])} | {one['put_bytes'] / one['message_bytes']:.2f} |")
        return
    javas = [one for server, one in found.items() if server.startswith("java") and one["messages"]]
    best_rate = max((one["rate"] for one in javas), default=0)
    best_cpu, best_p99 = (min((one[of] for one in javas), default=0) for of in ("cpu_us", "pop_p99"))
    print("| server | a second | of Java | CPU us each | of Java | p50 us | p99 us | of Java | refused |")
    print("|---|---|---|---|---|---|---|---|---|")
    for server, one in found.items():
        rate = f"{number(one['rate'])} | {_ratio(one['rate'], best_rate)}"
        cpu = f"{number(one['cpu_us'])} | {_ratio(one['cpu_us'], best_cpu)}"
        late = f"{one['pop_p50']} | {one['pop_p99']} | {_ratio(one['pop_p99'], best_p99)}"
        print(f"| {server} | {rate} | {cpu} | {late} | {one['errors'] or '-'} |", flush=True)


def _ratio(value: float, to: float) -> str:
    return f"{value / to:.3g}" if to else "-"


def measure(tools: Tools, servers: Sequence[Server], names: Sequence[str], chosen: argparse.Namespace) -> None:
    for server in servers:
        for topic in {ROWS[name].topic for name in names} - {"{group}"}:
            share = max(ROWS[name].share for name in names if ROWS[name].topic == topic)
            tools.fill(server, topic, int(chosen.messages * share), QUEUES.get(topic, 4))
    time.sleep(SETTLED_S)
    last: dict[str, dict[str, dict[str, Any]]] = {name: {} for name in names}
    for name in sorted(names, key=list(ROWS).index):
        for turn in range(chosen.rounds):
            if name == "pop-written" and turn < chosen.rounds - 1:
                continue  # bytes need no warm server
            for server in servers:
                group = f"{name}-{turn}"
                with alone(server, servers):
                    found = last[name][server.name] = run(tools, server, name, group, chosen.messages)
                said = (
                    f"{name} {server.name}: {found['messages']:,} in {found['seconds']:.1f} s, codes {found['codes']}"
                )
                print(f"round {turn + 1} of {chosen.rounds}, {said}", file=sys.stderr, flush=True)
    for name in names:
        heading(ROWS[name].what, f"python -m bench.pop {name}")
        show(name, last[name])
        for server_name, found in last[name].items():
            note(chosen.json, name, server_name, [found], ROWS[name].what)


def started(folder: Path, stack: ExitStack, chosen: argparse.Namespace, sync: bool) -> list[Server]:
    """Ours on both kernels, and Java's with and without its buffer merge."""
    ours = ["--flush-disk-type", "SYNC_FLUSH"] if sync else []
    kernels = ["native"] if chosen.no_python else ["native", "python"]
    servers = [stack.enter_context(our_broker(folder / kernel, kernel, *ours)) for kernel in kernels]
    settings = POPPING | ({"flushDiskType": "SYNC_FLUSH"} if sync else {})
    if chosen.java and has_java():
        servers.append(stack.enter_context(java_broker(folder / "java", **settings)))
        merging = java_broker(folder / "java-merge", **settings, enablePopBufferMerge="true")
        servers.append(stack.enter_context(merging)._replace(name="java-merge"))
    return servers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    every = [*ROWS, *STATES]
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"of {', '.join(every)}; all if none is named")
    parser.add_argument("--java", action="store_true", help="Java's broker too, by default and with its buffer merge")
    parser.add_argument("--no-python", action="store_true", help="leave out our Python kernel")
    parser.add_argument("--messages", type=int, default=200_000, help="that each row drains")
    parser.add_argument("--rounds", type=int, default=3, help="the last one counts")
    parser.add_argument("--small", action="store_true", help="a tenth of the messages of bench/pop_states.py")
    parser.add_argument("--folder", help="where stores lie meanwhile")
    parser.add_argument("--json", help="append the figures to this file")
    chosen = parser.parse_args()
    names = chosen.rows or every
    unknown = [name for name in names if name not in every]
    if unknown:
        parser.error(f"there is no row {unknown[0]}: {', '.join(every)}")
    with scratch(chosen.folder) as folder:
        tools = Tools(folder, built(folder, "mqload"), built(folder, "popload"))
        for sync in (False, True):
            rows = [name for name in names if name in ROWS and ROWS[name].sync is sync]
            if rows:
                with ExitStack() as stack:
                    measure(tools, started(folder / f"sync-{sync}", stack, chosen, sync), rows, chosen)
        for name in names:
            if name in STATES:
                with_java = chosen.java and STATES[name].with_java
                run_state(name, tools, starters(with_java), chosen.small, chosen.json)


if __name__ == "__main__":
    main()
