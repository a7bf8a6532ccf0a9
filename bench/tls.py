"""The same sends plain, over TLS and signed, ours and Java's: `python bench/tls.py [--no-java] [--runs 3] ...`.

Both brokers take all on one port. `signed` carries the fields of Java's signing clients (AccessKey, Signature); with
authentication off neither broker checks them, so what shows is what the fields cost and not the checking. The load
generator is Python's ssl (mqload speaks no TLS), 4 connections with 16 in flight each: it takes as much CPU as a
broker, so rates are a lower bound and CPU a message is the figure to look at.
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
import threading
import time
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from bench.results import heading, note, shown  # noqa: E402
from bench.servers import Server, has_java, java_broker, our_broker, scratch  # noqa: E402

from pyromq.kernel.choice import is_built  # noqa: E402

CONNECTIONS, WINDOW, BODY = 4, 16, b"x" * 128
KEY = b"0" * 32


PLAIN, TLS, SIGNED = "plain", "TLS", "signed"
SIGNATURE = '"AccessKey":"bench-access-key","Signature":"dGhpcyBpcyAyMCBieXRlcyE="'


def frame(queue: int, how: str) -> bytes:
    """A send whose key is to be filled in."""
    fields = (
        f'"a":"P","b":"Tls","c":"TBW102","d":"4","e":"{queue}","f":"0","g":"{int(time.time() * 1000)}","h":"0",'
        f'"i":"UNIQ_KEY\\u0001{KEY.decode()}\\u0002TAGS\\u0001TagA","j":"0","k":"false","m":"false"'
    )
    fields = f"{SIGNATURE},{fields}" if how == SIGNED else fields
    header = f'{{"code":310,"extFields":{{{fields}}},"flag":0,"language":"JAVA","opaque":1,"version":401}}'.encode()
    return struct.pack(">II", 4 + len(header) + len(BODY), len(header)) + header + BODY


class Sender(threading.Thread):
    """One connection: a window of sends, all their answers, the next window."""

    def __init__(self, address: str, queue: int, until: float, how: str) -> None:
        super().__init__()
        host, _, port = address.rpartition(":")
        self._peer = socket.create_connection((host, int(port)))
        self._peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if how == TLS:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            self._peer = context.wrap_socket(self._peer)
        one = frame(queue, how)
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


def measure(server: Server, how: str, seconds: float) -> dict[str, float]:
    until, before = time.monotonic() + seconds, server.cpu_s()
    senders = [Sender(server.address, number % 4, until, how) for number in range(CONNECTIONS)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    acked = sum(sender.acked for sender in senders)
    spent = (server.cpu_s() - before) * 1e6 / max(1, acked)
    return {"rate": acked / seconds, "cpu_us": spent, "errors": sum(sender.refused for sender in senders)}


def our_tls_broker(folder: Path, kernel: str, stack: ExitStack) -> Server:
    certificate, key = folder / "cert.pem", folder / "key.pem"
    if not certificate.exists():
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
        subprocess.run([*command, "-out", certificate, "-keyout", key], check=True, capture_output=True)
    os.environ["PYROMQ_BROKER_TLS_SERVER_CERT_PATH"] = str(certificate)
    os.environ["PYROMQ_BROKER_TLS_SERVER_KEY_PATH"] = str(key)
    return stack.enter_context(our_broker(folder / kernel, kernel))


def show(found: dict[tuple[str, str], list[dict[str, float]]], chosen: argparse.Namespace) -> None:
    print("| server | | msg/s | of plain | CPU us a message | of plain | refused |\n|---|---|---|---|---|---|---|")
    for (name, how), runs in found.items():
        part = {
            key: statistics.median(one[key] for one in runs)
            / max(1e-9, statistics.median(one[key] for one in found[name, PLAIN]))
            for key in ("rate", "cpu_us")
        }
        print(
            f"| {name} | {how} | {shown([one['rate'] for one in runs])} | {part['rate']:.2f} "
            f"| {shown([one['cpu_us'] for one in runs])} | {part['cpu_us']:.2f} "
            f"| {sum(one['errors'] for one in runs):.0f} |"
        )
        note(chosen.json, "tls", name, runs, how)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=3)
    options.add_argument("--seconds", type=float, default=3)
    options.add_argument("--no-java", action="store_true")
    options.add_argument("--python", action="store_true", help="our Python kernel too")
    options.add_argument("--folder", help="where stores go")
    options.add_argument("--json", help="append the figures to this file")
    chosen = options.parse_args()
    with ExitStack() as stack:
        folder = stack.enter_context(scratch(chosen.folder))
        kernels = ["native"] if is_built() else []
        kernels += ["python"] if chosen.python or not kernels else []
        servers = [our_tls_broker(folder, kernel, stack) for kernel in kernels]
        if not chosen.no_java and has_java():
            servers.append(stack.enter_context(java_broker(folder / "java")))  # it makes a certificate by itself
        for server in servers:
            measure(server, PLAIN, 12 if server.name == "java" else 2)
            measure(server, TLS, 3 if server.name == "java" else 1)
        heading("plain, TLS and signed sends, 128 B, 4 x 16 in flight", "python bench/tls.py")
        found: dict[tuple[str, str], list[dict[str, float]]] = {}
        for _ in range(chosen.runs):
            for server in servers:
                for how in (PLAIN, TLS, SIGNED):
                    found.setdefault((server.name, how), []).append(measure(server, how, chosen.seconds))
        show(dict(sorted(found.items(), key=lambda one: [server.name for server in servers].index(one[0][0]))), chosen)


if __name__ == "__main__":
    main()
