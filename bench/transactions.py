"""Transactions per second, as a ratio against the Java broker in the same run: `python bench/transactions.py`.

A transaction is a half message, answered, and its commit, answered; several connections keep a window of them under
way. CPU is the server's own. Java is measured before it served any other transaction: afterwards one of its threads
spins. Behind that come many undecided half messages on our broker: memory, and what rounds of checks do to the log.
"""

from __future__ import annotations

import argparse
import importlib
import json
import socket
import struct
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

peers: Any = importlib.import_module("servers")  # of this folder

SEND, UPDATE_CONFIG, HEART_BEAT, END, CHECK, COMMIT = 10, 25, 34, 37, 39, 8
ONEWAY = 2
BODY = bytes(128)
TOPIC, GROUP = "BenchTx", "PID_bench"
CHECK_MS = 5000
COMPACT = json.JSONEncoder(separators=(",", ":"))  # as clients write it: our kernel takes no other
ALIVE_S = 30  # who is silent for two minutes is taken for dead


def frame(code: int, opaque: int, fields: dict[str, str], body: bytes = b"", flag: int = 0) -> bytes:
    header: dict[str, Any] = {"code": code, "flag": flag, "language": "JAVA", "opaque": opaque, "version": 513}
    packed = COMPACT.encode(header | {"extFields": fields, "serializeTypeCurrentRPC": "JSON"}).encode()
    return struct.pack(">ii", 4 + len(packed) + len(body), len(packed)) + packed + body


def answer(stream: BinaryIO) -> dict[str, Any]:
    total, header = struct.unpack(">iI", stream.read(8))
    payload = stream.read(total - 4)
    found: dict[str, Any] = json.loads(payload[: header & 0xFFFFFF])
    if found["code"] == CHECK:
        return answer(stream)  # we are asked about a half message: no answer means that nobody knows
    if found["code"] != 0:
        raise SystemExit(f"refused: {found}")
    return found


def half(number: int, connection: int) -> bytes:
    pairs = {"TRAN_MSG": "true", "PGROUP": GROUP, "UNIQ_KEY": f"B{connection:04X}{number:016X}", "WAIT": "true"}
    fields = {"producerGroup": GROUP, "topic": TOPIC, "defaultTopic": "TBW102", "defaultTopicQueueNums": "4"}
    fields |= {"queueId": "0", "sysFlag": "4", "bornTimestamp": str(int(time.time() * 1000)), "flag": "0"}
    fields |= {"properties": "".join(f"{name}\x01{value}\x02" for name, value in pairs.items())}
    return frame(SEND, number, fields | {"reconsumeTimes": "0", "unitMode": "false", "batch": "false"}, BODY)


def commit(number: int, sent: dict[str, Any]) -> bytes:
    fields = sent["extFields"]
    position = struct.unpack(">q", bytes.fromhex(fields["msgId"])[-8:])[0]
    end = {"producerGroup": GROUP, "tranStateTableOffset": fields["queueOffset"], "commitLogOffset": str(position)}
    end |= {"commitOrRollback": str(COMMIT), "msgId": f"B{number}", "fromTransactionCheck": "false"}
    return frame(END, number, end)


class Connection(threading.Thread):
    """Windows of transactions until the time is over."""

    def __init__(self, address: str, number: int, window: int, seconds: float) -> None:
        super().__init__()
        self.done, self._number, self._window, self._seconds = 0, number, window, seconds
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def run(self) -> None:
        stream = self._socket.makefile("rb")
        deadline = time.monotonic() + self._seconds
        while time.monotonic() < deadline:
            numbers = range(self.done, self.done + self._window)
            self._socket.sendall(b"".join(half(number, self._number) for number in numbers))
            sent = {found["opaque"]: found for found in (answer(stream) for _ in numbers)}
            self._socket.sendall(b"".join(commit(number, sent[number]) for number in numbers))
            for _ in numbers:
                answer(stream)
            self.done += self._window
        self._socket.close()


def transactions(server: Any, connections: int, window: int, seconds: float) -> tuple[float, float]:
    """Per second, and the server's CPU for each in us."""
    before, begun = server.cpu_s(), time.monotonic()
    threads = [Connection(server.address, number, window, seconds) for number in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    done = sum(thread.done for thread in threads)
    return done / (time.monotonic() - begun), (server.cpu_s() - before) * 1e6 / max(1, done)


def compare(servers: list[Any], seconds: float) -> None:
    print(f"{'case':22} {'server':6} {'tx/s':>8} {'of ours':>8} {'cpu us/tx':>10}")
    for server in servers:
        transactions(server, 2, 16, seconds)  # warm
    for connections, window in ((1, 1), (4, 16), (4, 128)):
        ours = None
        for server in servers:
            rate, cpu_us = transactions(server, connections, window, seconds)
            ours = ours or rate
            name = f"{connections} x {window} in flight"
            print(f"{name:22} {server.name:6} {rate:8.0f} {rate / ours:8.2f} {cpu_us:10.1f}", flush=True)


def undecided(folder: Path, count: int, rounds: int) -> None:
    """What many half messages cost that nobody ends."""
    settings: dict[str, Any] = {
        "transactionCheckInterval": CHECK_MS,
        "transactionTimeOut": 3600_000,
        "transactionCheckMax": 100,
    }
    settings |= {"waitTimeMillsInSendQueue": 60_000, "storePathRootDir": folder / "store"}  # a busy machine is fine
    conf = folder / "broker.conf"
    conf.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    command = [sys.executable, "-m", "pyromq", "broker", "--listen", "127.0.0.1:0", "-c", str(conf)]
    with peers.started("ours", [*command, "--log-level", "error"]) as server:
        empty_mb = server.resident_mb()
        connection = socket.create_connection(tuple(server.address.rsplit(":", 1)))
        stream = connection.makefile("rb")
        beat = {"clientID": "bench", "producerDataSet": [{"groupName": GROUP}], "consumerDataSet": []}
        connection.sendall(frame(HEART_BEAT, 0, {}, json.dumps(beat).encode()))
        answer(stream)
        for begin in range(0, count, 100):
            connection.sendall(b"".join(half(number, 9) for number in range(begin, begin + 100)))
            for _ in range(100):
                answer(stream)
        sent_mb, log = server.resident_mb(), folder / "store" / "commitlog"
        size = used_bytes(log)
        connection.sendall(frame(UPDATE_CONFIG, 0, {}, b"transactionTimeOut=0\n"))  # now they are old enough
        answer(stream)
        print(f"\n{count} undecided: {empty_mb:.0f} MB before, {sent_mb:.0f} MB with them", flush=True)
        for number in range(1, rounds + 1):
            asked(stream)  # the round begins
            before, begun = server.cpu_s(), time.monotonic()
            alive = begun
            for _ in range(1, count):
                if time.monotonic() - alive > ALIVE_S:
                    alive = time.monotonic()
                    connection.sendall(frame(HEART_BEAT, 0, {}, json.dumps(beat).encode(), ONEWAY))
                asked(stream)
            cpu_s, took_s = server.cpu_s() - before, time.monotonic() - begun
            print(
                f"round {number}: {took_s:.1f} s, {cpu_s:.1f} s of CPU ({cpu_s * 1e6 / count:.0f} us a check), "
                f"{server.resident_mb():.0f} MB, "
                f"the log grew by {used_bytes(log) - size} bytes",
                flush=True,
            )
        connection.close()


def asked(stream: BinaryIO) -> None:
    """One check of the broker's, unread."""
    stream.read(struct.unpack(">i", stream.read(4))[0])


def used_bytes(folder: Path) -> int:
    """Files are allocated whole: the end of what is written counts."""
    found = 0
    for path in sorted(folder.iterdir()):
        with path.open("rb") as file:
            while part := file.read(1 << 20):
                found += len(part.rstrip(b"\0"))
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--no-java", action="store_true", help="ours alone")
    options.add_argument("--seconds", type=float, default=5)
    options.add_argument("--undecided", type=int, default=100_000, help="0: leave that part out")
    options.add_argument("--rounds", type=int, default=2, help="of checks")
    options.add_argument("--only-undecided", action="store_true")
    chosen = options.parse_args()
    if not chosen.only_undecided:
        ended(chosen.seconds, not chosen.no_java)
    if chosen.undecided:
        with tempfile.TemporaryDirectory() as name:
            undecided(Path(name), chosen.undecided, chosen.rounds)


def ended(seconds: float, with_java: bool) -> None:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        servers = [stack.enter_context(peers.our_broker(folder / "ours"))]
        if with_java and peers.has_java():
            servers.append(stack.enter_context(peers.java_broker(folder / "java")))
        compare(servers, seconds)


if __name__ == "__main__":
    main()
