"""What many connections, held pulls and queues cost: `python bench/scale.py [--connections 5000] [--polls 50000] ...`.

One broker, small at first: the cost of a send then. After each step (idle connections, held pulls, queues) memory and
the cost of a send again, as ratios to the small case. The clients here are plain sockets, so that what is measured is
the server; its CPU and memory are from /proc.
"""

from __future__ import annotations

import argparse
import json
import resource
import select
import socket
import struct
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from bench.servers import Case, Server, measure, our_broker  # noqa: E402

SEND = Case("send", "send -t Small -c 4 -w 16 -s 128 -q 4")
SEND_MESSAGE, PULL, CREATE_TOPIC, INSPECT = 10, 11, 17, 30_001
BUSY = 2
AT_ONCE = 2_000  # pulls between two looks
TOPIC_QUEUES = 1_000
WAIT_MS = 15 * 60_000  # longer than the run: held pulls stay held


def frame(code: int, fields: dict[str, object], opaque: int, body: bytes = b"") -> bytes:
    texts = {name: str(value) for name, value in fields.items()}
    header = json.dumps({"code": code, "flag": 0, "language": "JAVA", "opaque": opaque, "extFields": texts}).encode()
    return struct.pack(">iI", 4 + len(header) + len(body), len(header)) + header + body


def connect(server: Server) -> socket.socket:
    host, _, port = server.address.rpartition(":")
    return socket.create_connection((host, int(port)))


def answers(connection: socket.socket, count: int, bodies: list[bytes] | None = None) -> list[dict[str, Any]]:
    """So many responses' headers, and their bodies if somebody wants them."""
    got: list[dict[str, Any]] = []
    data = b""
    while len(got) < count:
        if len(data) < 8 or len(data) < 4 + struct.unpack(">i", data[:4])[0]:
            received = connection.recv(1 << 20)
            if not received:
                raise SystemExit("the broker closed a connection")
            data += received
            continue
        size, header = struct.unpack(">iI", data[:8])
        got.append(json.loads(data[8 : 8 + (header & 0xFFFFFF)]))
        if bodies is not None:
            bodies.append(data[8 + (header & 0xFFFFFF) : 4 + size])
        data = data[4 + size :]
    return got


def create_topic(server: Server, name: str, queues: int) -> None:
    fields: dict[str, object] = {
        "topic": name,
        "defaultTopic": "TBW102",
        "readQueueNums": queues,
        "writeQueueNums": queues,
        "perm": 6,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
        "order": "false",
    }
    with connect(server) as connection:
        connection.sendall(frame(CREATE_TOPIC, fields, 1))
        (answer,) = answers(connection, 1)
        if answer["code"] != 0:
            raise SystemExit(f"topic {name}: {answer}")


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
        fields: dict[str, object] = {
            "consumerGroup": f"G{number % 50}",
            "topic": "Quiet",
            "queueId": number % TOPIC_QUEUES,
            "queueOffset": 0,
            "maxMsgNums": 32,
            "sysFlag": 2 | 4,
            "commitOffset": 0,
            "suspendTimeoutMillis": WAIT_MS,
            "subscription": "*",
            "subVersion": 0,
        }
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
        print(f"{len(answered)} connections were answered: {answers(by_number[answered[0][0]], 1)}")


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


class Table:
    """One line a step, each beside the small case."""

    def __init__(self, load: Path, server: Server, seconds: int) -> None:
        self._load = load
        self._server = server
        self._seconds = seconds
        self._small: dict[str, Any] | None = None
        print(
            f"{'state':34} {'MB':>6} {'msg/s':>8} {'cpu us/msg':>10} {'of small':>8} {'p50 us':>7} {'idle cpu %':>10}"
        )

    def line(self, state: str) -> None:
        idle = self._settled()
        one = measure(self._load, SEND, self._server, self._seconds)
        small = self._small = self._small or one
        print(
            f"{state:34} {self._server.resident_mb():6.0f} {one['rate']:8.0f} {one['cpu_us']:10.1f} "
            f"{one['cpu_us'] / small['cpu_us']:8.2f} {one['p50_us']:7} {idle:10.2f}",
            flush=True,
        )

    def _settled(self) -> float:
        """Percent of a CPU once the work that the step left behind is done: 50,000 new files are synced, say."""
        for _ in range(30):
            begun, cpu = time.monotonic(), self._server.cpu_s()
            time.sleep(3)
            idle = (self._server.cpu_s() - cpu) / (time.monotonic() - begun) * 100
            if idle < 2:
                break
        return idle


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--connections", type=int, default=5_000)
    options.add_argument("--polls", type=int, default=50_000)
    options.add_argument("--queues", type=int, default=50_000)
    options.add_argument("--seconds", type=int, default=5)
    chosen = options.parse_args()
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        load = folder / "mqload"
        subprocess.run(["cc", "-O2", "-o", load, ROOT / "bench" / "mqload.c"], check=True)
        server = stack.enter_context(our_broker(folder / "store"))
        measure(load, SEND, server, chosen.seconds)
        table = Table(load, server, chosen.seconds)
        table.line("small")
        connections = [stack.enter_context(connect(server)) for _ in range(chosen.connections)]
        for number, connection in enumerate(connections):  # who says nothing for 30 s is cut off
            connection.sendall(frame(105, {}, number))
        for connection in connections:
            answers(connection, 1)
        table.line(f"{chosen.connections} idle connections")
        hold_pulls(server, chosen.polls, connections)
        table.line(f"and {chosen.polls} held pulls")
        begun = time.monotonic()
        fill_queues(server, chosen.queues)
        print(f"({chosen.queues} queues filled in {time.monotonic() - begun:.0f} s)")
        table.line(f"and {chosen.queues} queues")


if __name__ == "__main__":
    main()
