"""Single requests of a plain client, one after the other: what a send, a pull at either end and a search cost now.

Used by bench/scale.py and bench/backlog.py, which compare the same probes of a small and of a large broker. The client
is a blocking socket, so that what is measured is the server; its CPU is from /proc.
"""

from __future__ import annotations

import json
import socket
import statistics
import struct
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from bench.results import note, number
from bench.servers import Case, Server, measure

PULL, CREATE_TOPIC, SEARCH, MAX_OFFSET = 11, 17, 29, 30
REQUESTS, ROUNDS = 1_000, 3
FOUND = 0
AT_ONCE = 32


def frame(code: int, fields: dict[str, object], opaque: int, body: bytes = b"") -> bytes:
    """As Java's client writes it: another shape would not be the native kernel's to serve."""
    texts = {name: str(value) for name, value in fields.items()}
    parts = {"code": code, "extFields": texts, "flag": 0, "language": "JAVA", "opaque": opaque, "version": 401}
    header = json.dumps(parts, separators=(",", ":")).encode()
    return struct.pack(">iI", 4 + len(header) + len(body), len(header)) + header + body


def connect(server: Server) -> socket.socket:
    host, _, port = server.address.rpartition(":")
    peer = socket.create_connection((host, int(port)))
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return peer


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


def pull_fields(topic: str, queue: int, offset: int) -> dict[str, object]:
    return {
        "consumerGroup": "probe",
        "topic": topic,
        "queueId": queue,
        "queueOffset": offset,
        "maxMsgNums": AT_ONCE,
        "sysFlag": 4,
        "commitOffset": 0,
        "suspendTimeoutMillis": 0,
        "subscription": "*",
        "subVersion": 0,
        "expressionType": "TAG",
    }


def end_of(server: Server, topic: str, queue: int = 0) -> int:
    with connect(server) as connection:
        connection.sendall(frame(MAX_OFFSET, {"topic": topic, "queueId": queue}, 1))
        return int(answers(connection, 1)[0]["extFields"]["offset"])


def start_s(starting: Callable[[], AbstractContextManager[Server]], times: int = 3) -> float:
    """Until a broker is ready, the middle one of so many starts, each after a clean stop."""
    took = []
    for _ in range(times):
        with starting() as server:
            took.append(server.start_s)
    return statistics.median(took)


class Probe:
    """The same few kinds of request on one topic, as often as one likes, in rounds of which the middle one counts. Each
    is warmed up before."""

    def __init__(self, load: Path, server: Server, topic: str, seconds: float, requests: int = REQUESTS) -> None:
        self._load = load
        self._server = server
        self._topic = topic
        self._seconds = seconds
        self._requests = requests

    def search(self, times_ms: Sequence[int]) -> dict[str, float]:
        """By store time, in turns for these."""

        def search(number: int) -> bytes:
            fields = {"topic": self._topic, "queueId": 0, "timestamp": times_ms[number % len(times_ms)]}
            return frame(SEARCH, {**fields, "boundaryType": "LOWER"}, number)

        return self._ask(search)

    def pull_head(self) -> dict[str, float]:
        """The oldest messages: 32 a pull, a few pulls far, again and again."""
        return self._ask(lambda number: frame(PULL, pull_fields(self._topic, 0, number % 8 * AT_ONCE), number))

    def pull_tail(self) -> dict[str, float]:
        end = end_of(self._server, self._topic)
        first = max(0, end - 8 * AT_ONCE)
        return self._ask(lambda number: frame(PULL, pull_fields(self._topic, 0, first + number % 8 * AT_ONCE), number))

    def send(self) -> dict[str, float]:
        case = Case("send", f"send -t {self._topic} -c 4 -w 16 -s 128 -q 4")
        measure(self._load, case, self._server, self._seconds / 3)
        rounds = [measure(self._load, case, self._server, self._seconds / ROUNDS) for _ in range(ROUNDS)]
        return _middle([{name: one[name] for name in ("p50_us", "p99_us", "cpu_us", "rate")} for one in rounds])

    def _ask(self, request: Callable[[int], bytes]) -> dict[str, float]:
        with connect(self._server) as connection:
            for number in range(self._requests // 10):
                self._one(connection, request(number))
            return _middle([self._round(connection, request) for _ in range(ROUNDS)])

    def _round(self, connection: socket.socket, request: Callable[[int], bytes]) -> dict[str, float]:
        before = self._server.cpu_us()
        took = sorted(self._one(connection, request(number)) for number in range(self._requests))
        spent = (self._server.cpu_us() - before) / self._requests
        return {"p50_us": took[len(took) // 2] * 1e6, "p99_us": took[len(took) * 99 // 100] * 1e6, "cpu_us": spent}

    def _one(self, connection: socket.socket, request: bytes) -> float:
        begun = time.perf_counter()
        connection.sendall(request)
        (answer,) = answers(connection, 1)
        if answer["code"] != FOUND:
            raise SystemExit(f"a probe was refused: {answer}")
        return time.perf_counter() - begun


def _middle(rounds: Sequence[dict[str, float]]) -> dict[str, float]:
    return {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}


class Table:
    """Probes of one state a row, each beside the first state's: the small case."""

    def __init__(self, row: str, file: str | None) -> None:
        self._row = row
        self._file = file
        self._small: dict[str, dict[str, float]] = {}
        print("| state | what | p50 us | of small | CPU us | of small |\n|---|---|---|---|---|---|", flush=True)

    def add(self, state: str, found: dict[str, dict[str, float]]) -> None:
        for what, one in found.items():
            small = self._small.setdefault(what, one)
            cpu = f"{number(one['cpu_us'])} | {one['cpu_us'] / small['cpu_us']:.2f}" if "cpu_us" in one else "- | -"
            print(f"| {state} | {what} | {number(one['p50_us'])} | {one['p50_us'] / small['p50_us']:.2f} | {cpu} |")
            ratios = {f"{name}_of_small": one[name] / small[name] for name in ("p50_us", "cpu_us") if small.get(name)}
            note(self._file, self._row, state, [{**one, **ratios}], what)
        print(end="", flush=True)
