"""Pop and ack beside Java's broker: `python -m bench.pop [--java] [--messages N] [ROW ...]`, by bench/popload.c.

Each server gets the same messages, then each row drains them with a group of its own, `--rounds` times by turns; the
last round of the rows counts, so that Java is warm. CPU a message is the server's own (utime + stime).
"""

from __future__ import annotations

import argparse
import json
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.servers import Server, built, java_broker, our_broker, scratch

ROWS = {
    "pop-ack": "-A 1 -c 4 -w 4 -n 32",
    "pop-batch": "-A 2 -c 4 -w 4 -n 32",
    "pop-1": "-A 1 -c 4 -w 16 -n 1",
    "pop-change": "-A 3 -c 4 -w 4 -n 32 -I 600000",
}


def fill(load: Path, server: Server, messages: int) -> None:
    command = f"{load} send -a {server.address} -t Bench -c 4 -w 16 -s 128 -q 4 -d 120 -N {messages}"
    subprocess.run(command.split(), check=True, stdout=subprocess.DEVNULL)


def drain(load: Path, server: Server, options: str, group: str, messages: int) -> dict[str, Any]:
    before = server.cpu_s()
    command = f"{load} drain -a {server.address} -t Bench -g {group} -d 60 -m {messages} {options}"
    said = subprocess.run(command.split(), check=False, stdout=subprocess.PIPE, text=True).stdout
    found: dict[str, Any] = json.loads(said)
    found["cpu_us"] = (server.cpu_s() - before) * 1e6 / max(1, found["messages"])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"of {', '.join(ROWS)}; all if none is named")
    parser.add_argument("--java", action="store_true", help="Java's broker too, with its default settings")
    parser.add_argument("--messages", type=int, default=200_000, help="that each row drains")
    parser.add_argument("--rounds", type=int, default=3, help="the last one counts")
    chosen = parser.parse_args()
    names = chosen.rows or list(ROWS)
    unknown = [name for name in names if name not in ROWS]
    if unknown:
        parser.error(f"there is no row {unknown[0]}: {', '.join(ROWS)}")
    with scratch() as folder, ExitStack() as stack:
        sends, pops = built(folder, "mqload"), built(folder, "popload")
        servers = [stack.enter_context(our_broker(folder / kernel, kernel)) for kernel in ("native", "python")]
        if chosen.java:
            servers.append(stack.enter_context(java_broker(folder / "java")))
        for server in servers:
            fill(sends, server, chosen.messages)
        for round_number in range(chosen.rounds):
            for name in names:
                for server in servers:
                    group = f"{name}-{round_number}"
                    found = drain(pops, server, ROWS[name], group, chosen.messages * 99 // 100)
                    if round_number == chosen.rounds - 1:
                        tail = f"p99 {found['pop_p99']} us, errors {found['errors']}"
                        print(f"{name:12} {server.name:8} {found['rate']:>9} /s {found['cpu_us']:8.2f} us CPU, {tail}")


if __name__ == "__main__":
    main()
