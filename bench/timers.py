"""Timed and delayed messages: `python bench/timers.py [--java] [--count 1000000] [--window 3600] [--watch 60]`.

Sends timers spread over a window, then says what they cost: memory before and after, the time of a restart with all
of them pending, CPU in the dearest second while they come due, and how late they left (store time against due time).
Then delay levels against plain sends, as CPU of the broker for each message, delivery included.

With a window longer than `--watch` only the first seconds are watched, and the rest stays pending: every second of the
window has as many. A million in five minutes: `--lead 170 --watch 60 --levels 0`.
"""

from __future__ import annotations

import argparse
import json
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from pyromq.protocol.messages import read_messages

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.servers import Server, java_broker, started  # noqa: E402

SEND, PULL, MAX_OFFSET = 310, 11, 30
SYSTEM_BUSY, BUSY_S = 2, 0.1
IN_FLIGHT = 256
BODY = b"x" * 128
COMPACT = json.JSONEncoder(separators=(",", ":"))  # as clients write it: our kernel takes no other for a plain send


class Connection:
    """One blocking connection. Requests are written in bursts, answers read after each."""

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), 60)
        self._stream = self._socket.makefile("rb", 1 << 20)

    def burst(self, requests: Iterable[tuple[int, dict[str, str], bytes]]) -> list[tuple[dict[str, Any], bytes]]:
        frames = []
        for opaque, (code, fields, body) in enumerate(requests):
            header = {"code": code, "flag": 0, "language": "JAVA", "opaque": opaque, "version": 513}
            packed = COMPACT.encode(header | {"extFields": fields, "serializeTypeCurrentRPC": "JSON"}).encode()
            frames.append(struct.pack(">ii", 4 + len(packed) + len(body), len(packed)) + packed + body)
        self._socket.sendall(b"".join(frames))
        return [self._answer() for _ in frames]

    def _answer(self) -> tuple[dict[str, Any], bytes]:
        length, head = struct.unpack(">ii", self._stream.read(8))
        rest = self._stream.read(length - 4)
        head &= 0xFFFFFF
        return json.loads(rest[:head]), rest[head:]


def message(topic: str, properties: str, queue: int) -> tuple[int, dict[str, str], bytes]:
    fields = {"a": "bench", "b": topic, "c": "TBW102", "d": "4", "e": str(queue), "f": "0", "g": "1", "h": "0"}
    return SEND, fields | {"i": properties, "j": "0", "k": "false", "m": "false"}, BODY


def send(
    address: str, topic: str, count: int, properties: Callable[[int], str], seen: Callable[[int], None] | None = None
) -> float:
    """Seconds that it took. What a busy broker refuses is sent again after a pause, as clients do. `seen`: how far."""
    connection, begun = Connection(address), time.monotonic()
    busy = 0
    for start in range(0, count, IN_FLIGHT):
        numbers = list(range(start, min(start + IN_FLIGHT, count)))
        while numbers:
            answers = connection.burst(message(topic, properties(number), number % 4) for number in numbers)
            refused = [(number, answer) for number, (answer, _) in zip(numbers, answers, strict=True) if answer["code"]]
            if any(answer["code"] != SYSTEM_BUSY for _, answer in refused):
                raise SystemExit(f"refused: {refused[0][1]}")
            numbers = [number for number, _ in refused]
            if numbers:
                busy += len(numbers)
                time.sleep(BUSY_S)
        if seen is not None:
            seen(start)
    if busy:
        print(f"      (a busy broker refused {busy} sends, they were sent again)")
    return time.monotonic() - begun


def stored(address: str, topic: str) -> int:
    asks = ((MAX_OFFSET, {"topic": topic, "queueId": str(queue)}, b"") for queue in range(4))
    return sum(int(answer["extFields"]["offset"]) for answer, _ in Connection(address).burst(asks))


def lateness_ms(address: str, topic: str) -> Iterator[int]:
    """Of everything in a topic: store time less due time."""
    connection = Connection(address)
    for queue in range(4):
        offset = 0
        while True:
            fields = {"consumerGroup": "bench", "topic": topic, "queueId": str(queue), "queueOffset": str(offset)}
            fields |= {"maxMsgNums": "32", "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0"}
            fields |= {"subscription": "*", "subVersion": "0", "expressionType": "TAG"}
            ((answer, body),) = connection.burst([(PULL, fields, b"")])
            if answer["code"]:
                break
            messages = read_messages(body).messages
            yield from (one.store_timestamp - int(one.properties["TIMER_DELIVER_MS"]) for one in messages)
            offset = messages[-1].queue_offset + 1


def ours(folder: Path, stack: ExitStack) -> Server:
    command = [sys.executable, "-m", "pyromq", "broker", "--listen", "127.0.0.1:0", "--broker-name", "broker-a"]
    command += ["--store-path-root-dir", str(folder / "store"), "--log-level", "error"]
    return stack.enter_context(started("ours", command))


def timers(server: Server, count: int, window_s: int, watch_s: int, lead_s: int) -> None:
    memory, cpu = server.resident_mb(), server.cpu_s()
    first = int(time.time() * 1000) + lead_s * 1000
    tenths: list[float] = []

    def seen(number: int) -> None:
        if number >= count // 10 * (len(tenths) + 1):
            tenths.append(server.resident_mb())

    def due(number: int) -> str:
        return f"TIMER_DELIVER_MS\x01{first + number * window_s * 1000 // count}\x02"

    took = send(server.address, "Timed", count, due, seen)
    print(
        f"{server.name:5} {count} timers over {window_s} s: {count / took:.0f} sends/s, "
        f"{(server.cpu_s() - cpu) / count * 1e6:.1f} us CPU each; memory {memory:.0f} MB before, "
        f"{' '.join(f'{one:.0f}' for one in tenths)} MB after each tenth, {server.resident_mb():.0f} MB with all"
    )
    if took > lead_s:
        print(f"      (sending took {took:.0f} s: what was due by then was stored at once; use a longer --lead)")
    time.sleep(max(0.0, first / 1000 - time.time()))
    dearest, before = 0.0, server.cpu_s()
    for _ in range(min(window_s, watch_s) + 3):
        time.sleep(1)
        now = server.cpu_s()
        dearest, before = max(dearest, now - before), now
    late = sorted(lateness_ms(server.address, "Timed"))
    print(
        f"      due: {len(late)} delivered, {dearest:.0%} of a core in the dearest second, late p50 "
        f"{late[len(late) // 2]} ms, p99 {late[len(late) * 99 // 100]} ms, worst {late[-1]} ms, earliest {late[0]} ms"
    )


def levels(server: Server, count: int) -> None:
    costs = {}
    for name, topic, properties in (
        ("warm-up", "Warm", ""),
        ("plain", "Plain", ""),
        ("level 1", "Level", "DELAY\x011\x02"),
    ):
        before, begun = server.cpu_s(), time.monotonic()
        took = send(server.address, topic, count, lambda n, pairs=properties: pairs)  # type: ignore[misc]
        while stored(server.address, topic) < count:
            time.sleep(0.05)
        costs[name] = (server.cpu_s() - before) / count * 1e6
        if name != "warm-up":
            done = time.monotonic() - begun
            print(
                f"{server.name:5} {name:8} {count / took:7.0f} sends/s, {count / done:7.0f} /s until the last "
                f"is delivered, {costs[name]:.1f} us CPU each"
            )
    print(f"      a delayed message costs {costs['level 1'] / costs['plain']:.2f} plain ones")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--java", action="store_true")
    options.add_argument("--count", type=int, default=1_000_000)
    options.add_argument("--window", type=int, default=3600, help="seconds over which they are due")
    options.add_argument("--lead", type=int, default=300, help="seconds from the first send to the first that is due")
    options.add_argument("--watch", type=int, default=60)
    options.add_argument("--levels", type=int, default=50_000, help="0: leave that part out")
    chosen = options.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        with ExitStack() as first:
            server = ours(folder, first)
            if chosen.levels:
                levels(server, chosen.levels)
            timers(server, chosen.count, chosen.window, chosen.watch, chosen.lead)
        again = ours(folder, stack)
        print(f"ours  ready {again.start_s:.2f} s after a restart, {again.resident_mb():.0f} MB")
        if chosen.java and chosen.levels:
            javas = stack.enter_context(java_broker(folder / "java"))
            levels(javas, chosen.levels)  # its timers are switched off here, as in our tests of other things


if __name__ == "__main__":
    main()
