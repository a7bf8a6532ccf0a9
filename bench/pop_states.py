"""Pops while much is in flight, at a start after a kill, and when much expires at once: rows of bench/pop.py.

`python -m bench.pop_states [--java] [--small] [--json FILE] [ROW ...]`. Each row starts brokers of its own. Memory is
what a broker has for itself (RssAnon), looked at five times a second. Loads: bench/popload.c, bench/mqload.c.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from bench.measure.priority import real_time
from bench.probe import answers, connect, frame
from bench.results import heading, note, number
from bench.servers import POPPING, Server, built, java_broker, our_broker, scratch

RUNTIME_INFO = 28
LOOK_S = 0.2
HOUR_MS = 3_600_000
PROBED = 20_000
SAVED_S = 3  # queues, index and check point are synced each second
WAITING, GROUPS = 50_000, 50
REVIVE_TURNS = 3


class Tools(NamedTuple):
    """The generators, and where stores lie."""

    folder: Path
    mqload: Path
    popload: Path

    def fill(self, server: Server, topic: str, messages: int, queues: int = 4) -> None:
        """So many messages of 128 bytes; a broker that refuses some is asked for more."""
        words = f"send -a {server.address} -t {topic} -c 4 -w 4 -B 32 -s 128 -q {queues} -d 300 -N"
        while messages > 0:
            done = subprocess.run([self.mqload, *words.split(), str(messages)], stdout=subprocess.PIPE, check=False)
            messages -= json.loads(done.stdout)["messages"]

    def sends(self, server: Server, seconds: float) -> dict[str, Any]:
        """Send 2,000 messages a second, with real-time priority: their times."""
        with self.sending(server, seconds) as process:
            found: dict[str, Any] = json.loads(process.communicate()[0])
        return found

    def sending(self, server: Server, seconds: float) -> subprocess.Popen[str]:
        words = f"send -a {server.address} -t Beside -c 2 -w 64 -s 128 -r 2000 -d {seconds}"
        return subprocess.Popen([*real_time(), self.mqload, *words.split()], stdout=subprocess.PIPE, text=True)

    def pops(self, server: Server, words: str) -> dict[str, Any]:
        return self.ended(server, self.popping(server, words))

    def popping(self, server: Server, words: str) -> subprocess.Popen[str]:
        command = [str(self.popload), *words.split(), "-a", server.address]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def ended(self, server: Server, process: subprocess.Popen[str]) -> dict[str, Any]:
        said, complaint = process.communicate()
        if not said:
            raise SystemExit(f"popload at {server.name} ended with {process.returncode}: {complaint.strip()}")
        found: dict[str, Any] = json.loads(said)
        return found


Starting = Callable[[Path], AbstractContextManager[Server]]


class Seen:
    """The most memory that a server had, from when it was made until `most_mb` is asked for."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._most = server.resident_mb()
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._ends.wait(LOOK_S):
            self._most = max(self._most, self._server.resident_mb())

    def most_mb(self) -> float:
        self._ends.set()
        self._thread.join()
        return self._most


def runtime(server: Server) -> dict[str, str]:
    """Figures of a broker as it says them itself."""
    bodies: list[bytes] = []
    with connect(server) as connection:
        connection.sendall(frame(RUNTIME_INFO, {}, 1))
        answers(connection, 1, bodies)
    figures: dict[str, str] = json.loads(bodies[0])["table"]
    return figures


def probe(tools: Tools, server: Server, group: str) -> dict[str, Any]:
    """One consumer that pops 32, acks each and pops again: its times in the best of three rounds."""
    words = f"drain -t Probe -c 1 -w 1 -n 32 -A 1 -d 20 -m {PROBED - 100}"
    rounds = [tools.pops(server, f"{words} -g {group}-{turn}") for turn in range(3)]
    return min(rounds, key=lambda one: int(one["pop_p50"]) + int(one["ack_p50"]))


def until(server: Server, happened: Callable[[dict[str, str]], bool], limit_s: float = 300) -> float:
    """Wait until a broker's figures say so; return the seconds."""
    begun = time.monotonic()
    while not happened(runtime(server)) and time.monotonic() < begun + limit_s:
        time.sleep(LOOK_S)
    return time.monotonic() - begun


def inflight(tools: Tools, starting: Starting, messages: int) -> Iterator[dict[str, Any]]:
    """Pops and acks beside messages that nobody acknowledges: before, while they leave memory, and afterwards."""
    with starting(tools.folder / "inflight") as server:
        tools.fill(server, "Probe", PROBED)
        tools.fill(server, "Held", messages)
        empty = probe(tools, server, "empty")
        memory, seen = server.resident_mb(), Seen(server)
        yield {"state": "nothing in flight", **_times(empty, empty), "grown_mb": 0.0}
        popped = tools.pops(
            server, f"drain -t Held -g held -c 4 -w 4 -n 32 -A 0 -i {HOUR_MS} -d 120 -m {messages - 100}"
        )
        until(server, lambda figures: int(figures["pyromqPopSpilled"]) > 0)
        leaving = probe(tools, server, "leaving")
        took = until(server, lambda figures: not int(figures["pyromqPopTableBytes"]))
        grown = seen.most_mb() - memory
        yield {"state": f"{popped['messages']:,} leave memory", **_times(leaving, empty), "grown_mb": grown}
        after = probe(tools, server, "after")
        grown = server.resident_mb() - memory
        yield {"state": f"they have left it ({took:.0f} s)", **_times(after, empty), "grown_mb": grown}


def _times(found: dict[str, Any], empty: dict[str, Any]) -> dict[str, float]:
    ratio = (found["pop_p50"] + found["ack_p50"]) / max(1, empty["pop_p50"] + empty["ack_p50"])
    named = {name: found[name] for name in ("pop_p50", "pop_p99", "ack_p50", "ack_p99")}
    return {**named, "p50 of empty": ratio}


def restart(tools: Tools, starting: Starting, messages: int) -> Iterator[dict[str, Any]]:
    """A start after kill -9 with so many messages in flight: 32 in a check point, and one in each."""
    for per in (32, 1):
        folder = tools.folder / f"restart-{per}"
        with starting(folder) as server:
            tools.fill(server, "Held", messages)
            time.sleep(SAVED_S)  # the row is about what was popped, not about messages that were sent a moment ago
            options = f"drain -t Held -g held -c 4 -w 16 -n {per} -A 0 -i {HOUR_MS} -d 120 -m {messages - 100}"
            popped = tools.pops(server, options)
            os.kill(server.pid, signal.SIGKILL)
        with starting(folder) as server:
            cpu = server.cpu_s()
            known = int(runtime(server).get("pyromqPopInFlight", 0))
            state = f"{popped['messages']:,} in flight, {per} a pop"
            yield {"state": state, "start_s": server.start_s, "cpu_s": cpu, "in_memory": known}
        subprocess.run(["rm", "-rf", str(folder)], check=False)


def revive(tools: Tools, starting: Starting, messages: int) -> Iterator[dict[str, Any]]:
    """So many messages expire together, beside sends at a fixed rate; the same sends alone, and beside the same pops
    of as many new messages."""
    with starting(tools.folder / "revive") as server:
        tools.sends(server, 3)
        for turn in range(REVIVE_TURNS):
            for topic in ("Expiring", "New"):
                tools.fill(server, f"{topic}-{turn}", messages)
            time.sleep(SAVED_S)
            yield _one_revive(tools, server, turn, messages)


def _one_revive(tools: Tools, server: Server, turn: int, messages: int) -> dict[str, Any]:
    words = f"-g revive-{turn} -c 4 -w 4 -n 32 -d 60 -m {messages - 100}"
    alone = tools.sends(server, 4)
    with tools.sending(server, 4) as process:
        time.sleep(1)
        tools.pops(server, f"drain -t New-{turn} -A 1 {words}")
        new = json.loads(process.communicate()[0])
    pops = tools.popping(server, f"drain -t Expiring-{turn} -A 4 -i 5000 {words}")
    time.sleep(4)
    beside = tools.sends(server, 4)
    late = tools.ended(server, pops)
    return {
        "state": f"{late['messages']:,} came again",
        "late_p50_ms": late["late_p50"] / 1e3,
        "late_p99_ms": late["late_p99"] / 1e3,
        "alone_p99_us": alone["p99_us"],
        "new_p99_us": new["p99_us"],
        "sends_p99_us": beside["p99_us"],
        "new_ratio": new["p99_us"] / max(1, alone["p99_us"]),
        "ratio": beside["p99_us"] / max(1, alone["p99_us"]),
    }


def waiting(tools: Tools, starting: Starting, held: int) -> Iterator[dict[str, Any]]:
    """Messages for one group at a hundred a second, with few and with many pops that wait beside it."""
    with starting(tools.folder / "waiting") as server:
        words = "e2e -t Woken -g woken -c 4 -w 16 -n 1 -r 100 -s 128 -d 5 -p 20000"
        tools.pops(server, words)
        few = tools.pops(server, words)
        yield {"state": "64 pops wait", "p50_us": few["pop_p50"], "p99_us": few["pop_p99"], "ratio": 1.0}
        tools.fill(server, "Quiet", 1)
        memory = server.resident_mb()
        each = held // GROUPS
        beside = tools.popping(
            server, f"drain -t Quiet -g quiet -G {GROUPS} -c {GROUPS} -w {each} -A 0 -d 25 -p 120000"
        )
        time.sleep(6)
        grown, before = server.resident_mb() - memory, server.cpu_s()
        time.sleep(4)
        idle = (server.cpu_s() - before) / 4
        many = tools.pops(server, words)
        tools.ended(server, beside)
        yield {
            "state": f"{held:,} more, {1024 * grown / held:.2f} KB each, {100 * idle:.1f} % of a core idle",
            "p50_us": many["pop_p50"],
            "p99_us": many["pop_p99"],
            "ratio": many["pop_p50"] / max(1, few["pop_p50"]),
        }


class State(NamedTuple):
    what: str
    run: Callable[[Tools, Starting, int], Iterator[dict[str, Any]]]
    size: int
    with_java: bool


STATES = {
    "pop-inflight": State(
        "messages in flight, beside a consumer that pops 32 and acks each", inflight, 5_000_000, False
    ),
    "pop-restart": State("start after kill -9 with messages in flight", restart, 1_000_000, False),
    "revive": State("messages that expire together, beside 2,000 sends a second", revive, 100_000, True),
    "pop-waiting": State("100 messages a second, beside pops that wait", waiting, WAITING, True),
}


def run_state(name: str, tools: Tools, servers: dict[str, Starting], small: bool, file: str | None) -> None:
    state = STATES[name]
    heading(state.what, f"python -m bench.pop_states {name}")
    has_head = False
    for server, starting in servers.items():
        own = tools._replace(folder=tools.folder / server)
        for found in state.run(own, starting, state.size // 10 if small else state.size):
            if not has_head:
                print(f"| server | {' | '.join(found)} |\n|{'---|' * (1 + len(found))}")
                has_head = True
            cells = (value if isinstance(value, str) else number(value) for value in found.values())
            print(f"| {server} | {' | '.join(cells)} |", flush=True)
            note(file, name, server, [found], state.what)


def starters(with_java: bool) -> dict[str, Starting]:
    """Brokers by their name in the table."""

    @contextmanager
    def merged(folder: Path) -> Iterator[Server]:
        with java_broker(folder, **POPPING, enablePopBufferMerge="true") as server:
            yield server

    ours: dict[str, Starting] = {"native": lambda folder: our_broker(folder, "native")}
    javas: dict[str, Starting] = {"java": lambda folder: java_broker(folder, **POPPING), "java-merge": merged}
    return ours | (javas if with_java else {})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"of {', '.join(STATES)}; all if none is named")
    parser.add_argument("--java", action="store_true", help="Java's broker too, where a row is for both")
    parser.add_argument("--small", action="store_true", help="a tenth of the messages")
    parser.add_argument("--folder", help="where stores lie meanwhile")
    parser.add_argument("--json", help="append the figures to this file")
    chosen = parser.parse_args()
    with scratch(chosen.folder) as folder:
        tools = Tools(folder, built(folder, "mqload"), built(folder, "popload"))
        for name in chosen.rows or STATES:
            run_state(name, tools, starters(chosen.java and STATES[name].with_java), chosen.small, chosen.json)


if __name__ == "__main__":
    main()
