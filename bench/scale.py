"""What many connections, held pulls and queues cost: `python bench/scale.py [--connections 5000] [--polls 50000] ...`.

One broker, small at first: the cost of a send, of pulls at both ends of a queue, of a search by time (in a topic that
stays as it was: what many messages cost a search is for backlog.py) and of a start. The same after each step (idle
connections, held pulls, queues), as ratios to the small case; a start with all queues is the last line. Memory and idle
CPU stand below. The clients are plain sockets. It takes two to four minutes.
"""

from __future__ import annotations

import argparse
import json
import resource
import select
import socket
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from bench.probe import PULL, Probe, Table, answers, connect, create_topic, frame, pull_fields, start_s  # noqa: E402
from bench.results import heading, note  # noqa: E402
from bench.servers import Case, Server, built, measure, our_broker, scratch  # noqa: E402

FILL = Case("fill", "send -t Small -c 4 -w 4 -B 32 -s 128 -q 4")
TIMED = Case("timed", "send -t Timed -c 4 -w 4 -B 32 -s 128 -q 4")  # searched in all states, and not changed by any
SEND_MESSAGE, HEART_BEAT_ROUTE, INSPECT = 10, 105, 30_001
BUSY = 2
AT_ONCE = 2_000  # pulls between two looks
TOPIC_QUEUES = 1_000
WAIT_MS = 15 * 60_000  # longer than the run: held pulls stay held
MAY_BE_HELD = 2
SETTLE_LOOKS, LOOK_S = 10, 2


def until_held(server: Server, count: int) -> None:
    """Whoever asks too fast is refused: wait until so many are held."""
    with connect(server) as connection:
        while True:
            connection.sendall(frame(INSPECT, {}, 1))
            bodies: list[bytes] = []
            (answer,) = answers(connection, 1, bodies)
            held = json.loads(bodies[0])["polled"]["pulls"]
            if answer["code"] != 0 or held >= count:
                return
            time.sleep(0.05)


def hold_pulls(server: Server, count: int, connections: list[socket.socket]) -> None:
    """Spread over the connections; all on queues where nothing comes."""
    create_topic(server, "Quiet", TOPIC_QUEUES)
    for number in range(count):
        fields = pull_fields("Quiet", number % TOPIC_QUEUES, 0)
        fields |= {"consumerGroup": f"G{number % 50}", "sysFlag": 4 | MAY_BE_HELD, "suspendTimeoutMillis": WAIT_MS}
        connections[number % len(connections)].sendall(frame(PULL, fields, number))
        if (number + 1) % AT_ONCE == 0 or number + 1 == count:
            until_held(server, number + 1)
    # poll, not select: descriptors go beyond 1,024
    poll = select.poll()
    for connection in connections:
        poll.register(connection, select.POLLIN)
    answered = poll.poll(0)
    if answered:
        by_number = {connection.fileno(): connection for connection in connections}
        print(f"{len(answered)} connections were answered: {answers(by_number[answered[0][0]], 1)}", file=sys.stderr)


def fill_queues(server: Server, count: int) -> None:
    """One message into each of so many queues."""
    sender = connect(server)
    with sender:
        for start in range(0, count, TOPIC_QUEUES):
            topic = f"Many{start // TOPIC_QUEUES}"
            create_topic(server, topic, TOPIC_QUEUES)
            for low in range(0, TOPIC_QUEUES, 50):
                send_to_each(sender, topic, list(range(low, low + 50)))


def send_to_each(sender: socket.socket, topic: str, queues: list[int]) -> None:
    """A message that makes its queue costs a file: who is refused for it (2) comes again."""
    while queues:
        for queue in queues:
            sender.sendall(frame(SEND_MESSAGE, send_fields(topic, queue), queue, b"x" * 16))
        got = answers(sender, len(queues))
        queues = [one["opaque"] for one in got if one["code"] == BUSY]
        bad = [one for one in got if one["code"] not in (0, BUSY)]
        if bad:
            raise SystemExit(f"a send to {topic} was refused: {bad[0]}")


def send_fields(topic: str, queue: int) -> dict[str, object]:
    return {
        "producerGroup": "P",
        "topic": topic,
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": 4,
        "queueId": queue,
        "sysFlag": 0,
        "bornTimestamp": int(time.time() * 1000),
        "flag": 0,
        "properties": f"KEYS\x01k{queue}\x02",
    }


class States:
    """A row of probes for each state of the broker, memory and idle CPU at the end."""

    def __init__(self, load: Path, times_ms: list[int], chosen: argparse.Namespace) -> None:
        """`times_ms`: to search for."""
        self._load = load
        self._times_ms = times_ms
        self._chosen = chosen
        self._table = Table("scale", chosen.json)
        self._rest: list[str] = []

    def add(self, state: str, server: Server, start_s: float = 0.0) -> None:
        """`start_s`: so long took the start that led to this state."""
        idle = settled(server)
        probe = Probe(self._load, server, "Small", self._chosen.seconds)
        timed = Probe(self._load, server, "Timed", self._chosen.seconds)
        found = {"start-up": {"p50_us": start_s * 1e6}} if start_s else {}
        steps: dict[str, Callable[[], dict[str, float]]] = {
            "search by time": lambda: timed.search(self._times_ms),
            "pull at the head": probe.pull_head,
            "pull at the tail": probe.pull_tail,
            "send": probe.send,
        }
        self._table.add(state, found | {what: step() for what, step in steps.items()})
        rest = {"memory_mb": server.resident_mb(), "idle_cpu_percent": idle}
        note(self._chosen.json, "scale", state, [rest], "at rest")
        self._rest.append(f"| {state} | {rest['memory_mb']:.0f} | {idle:.2f} |")

    def show_rest(self) -> None:
        print("\n| state | MB | idle CPU % |\n|---|---|---|")
        print("\n".join(self._rest), flush=True)


def settled(server: Server) -> float:
    """Percent of a CPU once the work that the step left behind is done: 50,000 new files are synced, say."""
    idle = 0.0
    for _ in range(SETTLE_LOOKS):
        begun, cpu = time.monotonic(), server.cpu_s()
        time.sleep(LOOK_S)
        idle = (server.cpu_s() - cpu) / (time.monotonic() - begun) * 100
        if idle < 2:
            break
    return idle


def grow(states: States, server: Server, chosen: argparse.Namespace) -> None:
    """Step by step, on one broker."""
    with ExitStack() as stack:
        connections = [stack.enter_context(connect(server)) for _ in range(chosen.connections)]
        for number, connection in enumerate(connections):  # who says nothing for 30 s is cut off
            connection.sendall(frame(HEART_BEAT_ROUTE, {}, number))
        for connection in connections:
            answers(connection, 1)
        states.add(f"{chosen.connections:,} idle connections", server)
        hold_pulls(server, chosen.polls, connections)
        states.add(f"and {chosen.polls:,} held pulls", server)
        begun = time.monotonic()
        fill_queues(server, chosen.queues)
        print(f"({chosen.queues:,} queues filled in {time.monotonic() - begun:.0f} s)", file=sys.stderr, flush=True)
        states.add(f"and {chosen.queues:,} queues", server)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--connections", type=int, default=5_000)
    options.add_argument("--polls", type=int, default=50_000)
    options.add_argument("--queues", type=int, default=50_000)
    options.add_argument("--seconds", type=float, default=3, help="of sends after each step")
    options.add_argument("--folder", help="where the store goes")
    options.add_argument("--json", help="append the figures to this file")
    chosen = options.parse_args()
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    with scratch(chosen.folder) as folder:
        load = built(folder, "mqload")
        with our_broker(folder / "store") as server:
            measure(load, FILL, server, chosen.seconds)
            begun_ms = int(time.time() * 1000)
            measure(load, TIMED, server, chosen.seconds)
            took_ms = int(time.time() * 1000) - begun_ms
        heading("connections, held pulls, queues", "python bench/scale.py")
        states = States(load, [begun_ms + took_ms * part // 50 for part in range(50)], chosen)
        first_s = start_s(lambda: our_broker(folder / "store"))
        with our_broker(folder / "store") as server:
            states.add("small", server, first_s)
            grow(states, server, chosen)
        with our_broker(folder / "store") as server:
            states.add("started again with the queues", server, server.start_s)
        states.show_rest()


if __name__ == "__main__":
    main()
