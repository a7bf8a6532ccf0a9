"""What 1,000 brokers with 50,000 topics cost a name server, as a ratio to 10 brokers with 500, and beside Java's.

    python bench/namesrv_scale.py [--brokers 1000] [--queries 60000] [--java 5.5.0 | --no-java]

Each topic is on 4 brokers and each broker has 200 topics, whatever the number of brokers, so a registration is the same
body and a route the same answer in both sizes: a ratio of 1 means that the cost does not grow with the cluster. Costs
are CPU time of the server's threads, read from /proc, because the load comes from the same machine. Linux only.
"""

from __future__ import annotations

import argparse
import os
import random
import socket
import struct
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for tests.interop.peers

from pyromq.protocol.bodies.body import DataVersion
from pyromq.protocol.bodies.registration import RegisterBrokerBody, encode_registration
from pyromq.protocol.bodies.topics import TopicConfig, TopicConfigAndMappingSerializeWrapper
from pyromq.protocol.command import Command
from pyromq.protocol.frame import encode_frame
from pyromq.protocol.headers.namesrv import GetRouteInfo, RegisterBroker
from pyromq.protocol.requests import RequestCode as Code
from tests.interop.peers import java, ours
from tests.interop.peers.cache import PeerMissing

TOPICS_OF_A_BROKER = 200
COPIES = 4
SMALL = 10
IN_FLIGHT = 64
REPEATS = 3  # the least counts: what else runs on the machine only ever adds
JVM = ("-Xms1g", "-Xmx2g")


@dataclass
class Costs:
    """CPU microseconds of the server for one request of each kind, and its memory."""

    first_registration: float
    same_again: float
    changed: float
    first_route: float
    route: float
    cluster_info: float
    resident_mb: float
    growth_mb: float  # since before the first registration


class Load:
    """A blocking connection that keeps requests in flight and cares only for the answers' number and code."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = bytearray()

    def run(self, frames: Iterator[bytes], in_flight: int) -> int:
        """How many were answered, all with success."""
        answered, done = 0, False
        while not done:
            batch = [frame for _, frame in zip(range(in_flight), frames, strict=False)]
            done = len(batch) < in_flight
            self._socket.sendall(b"".join(batch))
            self._take(len(batch))
            answered += len(batch)
        return answered

    def _take(self, wanted: int) -> None:
        while wanted:
            if len(self._received) >= 4:
                (length,) = struct.unpack_from(">i", self._received)
                if len(self._received) >= 4 + length:
                    if b'"code":0' not in self._received[8:64]:
                        sys.exit(f"a request failed: {bytes(self._received[8 : 4 + length])!r}")
                    del self._received[: 4 + length]
                    wanted -= 1
                    continue
            piece = self._socket.recv(1 << 20)
            if not piece:
                sys.exit("the name server closed the connection")
            self._received += piece


def topics_of(broker: int, brokers: int) -> list[str]:
    """Topic t is on the brokers t, t+1, t+2 and t+3, counted round."""
    topics = brokers * TOPICS_OF_A_BROKER // COPIES
    return [f"topic-{t:06d}" for t in range(topics) if (broker - t) % brokers < COPIES]


def registrations(brokers: int, counter: int) -> list[bytes]:
    """One frame per broker; another counter is another data version."""
    return [encode_frame(registration(number, brokers, counter)) for number in range(brokers)]


def registration(number: int, brokers: int, counter: int) -> Command:
    table = {
        name: TopicConfig(topic_name=name, read_queue_nums=8, write_queue_nums=8) for name in topics_of(number, brokers)
    }
    version = DataVersion(counter=counter, timestamp=1_794_769_118_114)
    wrapper = TopicConfigAndMappingSerializeWrapper(data_version=version, topic_config_table=table)
    header = RegisterBroker(
        broker_name=f"broker-{number:04d}",
        broker_addr=f"10.{number >> 8}.{number & 255}.1:10911",
        cluster_name=f"cluster-{number % 10}",
        ha_server_addr=f"10.{number >> 8}.{number & 255}.1:10912",
        broker_id=0,
        enable_acting_master=False,
    )
    body = encode_registration(RegisterBrokerBody(topic_config_serialize_wrapper=wrapper))
    return Command(Code.REGISTER_BROKER, fields=header.to_fields(), body=body)


def queries(topics: Iterable[int]) -> Iterator[bytes]:
    for number in topics:
        header = GetRouteInfo(topic=f"topic-{number:06d}")
        yield encode_frame(Command(Code.GET_ROUTEINFO_BY_TOPIC, fields=header.to_fields()))


def cpu_s(pid: int) -> float:
    """Of all its threads, to the nanosecond: a tick of the ordinary figure would swallow small clusters."""
    stats = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(one.read_text().split()[0]) for one in stats) / 1e9


def resident_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def measured(pid: int, load: Load, frames: list[bytes] | Iterator[bytes], in_flight: int = IN_FLIGHT) -> float:
    """CPU microseconds per request."""
    before = cpu_s(pid)
    count = load.run(iter(frames), in_flight)
    return (cpu_s(pid) - before) / count * 1e6


def measure(pid: int, address: str, brokers: int, count: int) -> Costs:
    load, rng = Load(address), random.Random(1)
    topics = range(brokers * TOPICS_OF_A_BROKER // COPIES)
    rounds = max(1, 1000 // brokers)
    before_mb = resident_mb(pid)
    first = measured(pid, load, registrations(brokers, 1), 8)
    first_route = measured(pid, load, queries(topics))
    load.run(queries(rng.choices(topics, k=count)), IN_FLIGHT)  # warm: Java compiles what it runs often
    return Costs(
        first_registration=first,
        same_again=min(measured(pid, load, registrations(brokers, 1) * rounds, 8) for _ in range(REPEATS)),
        changed=measured(pid, load, [one for n in range(rounds) for one in registrations(brokers, 2 + n)], 8),
        first_route=first_route,
        route=min(measured(pid, load, queries(rng.choices(topics, k=count))) for _ in range(REPEATS)),
        cluster_info=measured(pid, load, [encode_frame(Command(Code.GET_BROKER_CLUSTER_INFO))] * 100, 4),
        resident_mb=resident_mb(pid),
        growth_mb=resident_mb(pid) - before_mb,
    )


def of_ours(brokers: int, count: int) -> Costs:
    with tempfile.TemporaryDirectory() as folder:
        server = ours.NameServer(Path(folder), arguments=("--log-level", "error"))
        try:
            return measure(server.program.pid, server.address, brokers, count)
        finally:
            server.kill()


def of_java(version: str, brokers: int, count: int) -> Costs:
    with tempfile.TemporaryDirectory() as folder:
        server = java.NameServer(version, Path(folder), jvm=JVM)
        try:
            return measure(server.program.pid, server.address, brokers, count)
        finally:
            server.kill()


def report(small: dict[str, Costs], large: dict[str, Costs], brokers: int) -> None:
    rows = {
        "registration, first time": "first_registration",
        "registration, same data version": "same_again",
        "registration, new data version": "changed",
        "route query, first of its topic": "first_route",
        "route query": "route",
        "cluster info (the whole list)": "cluster_info",
        "resident memory, MB": "resident_mb",
        "of which since the start, MB": "growth_mb",
    }
    print(
        f"{'CPU microseconds each':34}"
        + "".join(f"{f'{who}, {SMALL}':>16}{f'{brokers}':>10}{'ratio':>8}" for who in small)
    )
    for title, name in rows.items():
        line = f"{title:34}"
        for who in small:
            few, many = getattr(small[who], name), getattr(large[who], name)
            line += f"{few:16,.1f}{many:10,.1f}{many / few if few else float('nan'):8.2f}"
        print(line)
    if len(large) == 2:
        mine, other = large.values()
        print(
            f"ours / Java at {brokers}: route query {mine.route / other.route:.2f}, same registration "
            f"{mine.same_again / other.same_again:.2f}, memory {mine.resident_mb / other.resident_mb:.2f}"
        )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--brokers", type=int, default=1000)
    options.add_argument("--queries", type=int, default=60_000)
    options.add_argument("--java", default="5.5.0", help="version of the Java name server")
    options.add_argument("--no-java", action="store_true")
    wanted = options.parse_args()
    small, large = {}, {}
    small["ours"], large["ours"] = (of_ours(number, wanted.queries) for number in (SMALL, wanted.brokers))
    if not wanted.no_java:
        try:
            small["Java"] = of_java(wanted.java, SMALL, wanted.queries)
            large["Java"] = of_java(wanted.java, wanted.brokers, wanted.queries)
        except PeerMissing as reason:
            print(f"without Java: {reason}")
    report(small, large, wanted.brokers)


if __name__ == "__main__":
    main()
