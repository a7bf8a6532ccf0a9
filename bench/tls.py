"""The same sends in plain and over TLS, ours and Java's: `python bench/tls.py [--no-java] [--runs 3] [--seconds 3]`.

Both brokers take both on one port. The load generator is Python's ssl (mqload speaks no TLS), 4 connections with 16 in
flight each: it takes as much CPU as a broker, so rates are a lower bound and CPU a message is the figure to look at.
"""

from __future__ import annotations

import argparse
import os
import socket
import ssl
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from bench.servers import Server, has_java, java_broker, our_broker  # noqa: E402

CONNECTIONS, WINDOW, BODY = 4, 16, b"x" * 128
KEY = b"0" * 32


def frame(queue: int) -> bytes:
    """A send whose key is to be filled in."""
    fields = (
        f'"a":"P","b":"Tls","c":"TBW102","d":"4","e":"{queue}","f":"0","g":"{int(time.time() * 1000)}","h":"0",'
        f'"i":"UNIQ_KEY\\u0001{KEY.decode()}\\u0002TAGS\\u0001TagA","j":"0","k":"false","m":"false"'
    )
    header = f'{{"code":310,"extFields":{{{fields}}},"flag":0,"language":"JAVA","opaque":1,"version":401}}'.encode()
    return struct.pack(">II", 4 + len(header) + len(BODY), len(header)) + header + BODY


class Sender(threading.Thread):
    """One connection: a window of sends, all their answers, the next window."""

    def __init__(self, address: str, queue: int, until: float, tls: bool) -> None:
        super().__init__()
        host, _, port = address.rpartition(":")
        self._peer = socket.create_connection((host, int(port)))
        self._peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            self._peer = context.wrap_socket(self._peer)
        one = frame(queue)
        self._window = bytearray(one * WINDOW)
        self._keys = [number * len(one) + one.index(KEY) for number in range(WINDOW)]
        self._until = until
        self._serial = queue << 56
        self.acked = self.refused = 0

    def run(self) -> None:
        with self._peer:
            while time.monotonic() < self._until:
                for at in self._keys:
                    self._serial += 1
                    self._window[at : at + 32] = b"%032d" % self._serial
                self._peer.sendall(self._window)
                self._take_answers()

    def _take_answers(self) -> None:
        data, taken = b"", 0
        while taken < WINDOW:
            received = self._peer.recv(1 << 16)
            if not received:
                raise SystemExit("the broker closed a connection")
            data += received
            while len(data) >= 4 and len(data) >= 4 + int.from_bytes(data[:4], "big"):
                size = 4 + int.from_bytes(data[:4], "big")
                self.refused += b'"code":0,' not in data[:size]
                data = data[size:]
                taken += 1
        self.acked += WINDOW


def measure(server: Server, tls: bool, seconds: float) -> dict[str, float]:
    until, before = time.monotonic() + seconds, server.cpu_s()
    senders = [Sender(server.address, number % 4, until, tls) for number in range(CONNECTIONS)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    acked = sum(sender.acked for sender in senders)
    spent = (server.cpu_s() - before) * 1e6 / max(1, acked)
    return {"rate": acked / seconds, "cpu_us": spent, "refused": sum(sender.refused for sender in senders)}


def our_tls_broker(folder: Path, stack: ExitStack) -> Server:
    certificate, key = folder / "cert.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    subprocess.run([*command, "-out", certificate, "-keyout", key], check=True, capture_output=True)
    os.environ["PYROMQ_BROKER_TLS_SERVER_CERT_PATH"] = str(certificate)
    os.environ["PYROMQ_BROKER_TLS_SERVER_KEY_PATH"] = str(key)
    return stack.enter_context(our_broker(folder / "ours"))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=3)
    options.add_argument("--seconds", type=float, default=3)
    options.add_argument("--no-java", action="store_true")
    chosen = options.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        servers = [our_tls_broker(folder, stack)]
        if not chosen.no_java and has_java():
            servers.append(stack.enter_context(java_broker(folder / "java")))  # it makes a certificate by itself
        for server in servers:
            measure(server, False, 12 if server.name == "java" else 2)
            measure(server, True, 3 if server.name == "java" else 1)
        print(f"{time.strftime('%Y-%m-%d %H:%M')}, load {os.getloadavg()[0]:.1f}\n")
        print("| server | | msg/s (spread) | CPU us a message | refused |\n|---|---|---|---|---|")
        found: dict[tuple[str, bool], list[dict[str, float]]] = {}
        for _ in range(chosen.runs):
            for server in servers:
                for tls in (False, True):
                    found.setdefault((server.name, tls), []).append(measure(server, tls, chosen.seconds))
        for (name, tls), runs in found.items():
            rates = [one["rate"] for one in runs]
            print(
                f"| {name} | {'TLS' if tls else 'plain'} | {statistics.median(rates):.0f} ({min(rates):.0f}-"
                f"{max(rates):.0f}) | {statistics.median(one['cpu_us'] for one in runs):.1f} "
                f"| {sum(one['refused'] for one in runs):.0f} |"
            )


if __name__ == "__main__":
    main()
