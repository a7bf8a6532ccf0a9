"""The SDK beside PyPI's gRPC client (`rocketmq-python-client`): `python bench/client_grpc.py [--rounds 3]`.

That client speaks to Apache's proxy alone, so both are measured on one Java broker 5.5.0 with its proxy in the same
process (local mode): ours by the broker's own port, the other by the proxy's. 1 KB messages, clients in turns: one send
at a time, 64 in flight, then reading with an empty handler. Its consumer begins with what comes after it, so its
messages are stored once it stands.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from bench.client import Found, answer_of, fill, table  # noqa: E402
from bench.measure.latency import latency  # noqa: E402
from bench.results import heading, note  # noqa: E402

VERSION, CLIENT = "5.5.0", "rocketmq-python-client==5.1.2"
TOPIC, READ_TOPIC = "ClientBench", "ClientBenchRead"
BODY = b"x" * 1024
GROUP = "bench"
IN_FLIGHT = 64
JVM = ("-server", "-Xms1g", "-Xmx1g", "-XX:+UseG1GC")


# --- the process of the gRPC client -----------------------------------------------------------------------------------


def one_by_one(producer: Any, make: Any, seconds: float) -> Found:
    took: list[float] = []
    cpu, now = time.process_time(), time.perf_counter()
    until = now + seconds
    while now < until:
        producer.send(make())
        end = time.perf_counter()
        took.append(end - now)
        now = end
    return latency(took, time.process_time() - cpu)


def many(producer: Any, make: Any, seconds: float) -> Found:
    slots, count = threading.Semaphore(IN_FLIGHT), 0
    cpu, began = time.process_time(), time.perf_counter()
    while time.perf_counter() < began + seconds:
        slots.acquire()
        producer.send_async(make()).add_done_callback(lambda _: slots.release())
        count += 1
    for _ in range(IN_FLIGHT):
        slots.acquire()
    took, used = time.perf_counter() - began, time.process_time() - cpu
    return {"send_s": count / took, "send_cpu_us": used / count * 1e6}


def read(configuration: Any, address: str, filled: int) -> Found:
    from rocketmq import ConsumeResult, FilterExpression, MessageListener, PushConsumer

    numbers, marks, enough = itertools.count(1), [], threading.Event()

    class Count(MessageListener):  # type: ignore[misc]
        def consume(self, message: object) -> object:
            number = next(numbers)
            if number == 1 or number == filled:
                marks.append((time.perf_counter(), time.process_time()))
                if number == filled:
                    enough.set()
            return ConsumeResult.SUCCESS

    consumer = PushConsumer(configuration, GROUP, Count(), {READ_TOPIC: FilterExpression()})
    consumer.startup()
    time.sleep(8)  # until it has its queues; nothing tells
    asyncio.run(fill(address, filled))
    if not enough.wait(120):
        raise SystemExit(f"the gRPC client read {next(numbers) - 1} of {filled} messages in 120 s")
    took, used = marks[1][0] - marks[0][0], marks[1][1] - marks[0][1]
    return {"read_s": filled / took, "read_cpu_us": used / filled * 1e6}


def as_client(endpoint: str, address: str, seconds: float, filled: int) -> Found:
    from rocketmq import ClientConfiguration, Credentials, Message, Producer

    def make() -> Any:
        message = Message()
        message.topic, message.body = TOPIC, BODY
        return message

    configuration = ClientConfiguration(endpoint, Credentials())
    producer = Producer(configuration, (TOPIC,))
    producer.startup()
    one_by_one(producer, make, min(seconds, 1.0))
    found = one_by_one(producer, make, seconds) | many(producer, make, seconds)
    return found | read(configuration, address, filled)


# --- servers and turns ------------------------------------------------------------------------------------------------


def packages() -> Path:
    from tests.interop.peers import cache

    def build(folder: Path) -> None:
        command = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        done = subprocess.run([*command, "--target", str(folder / "packages"), CLIENT], capture_output=True, text=True)
        if done.returncode != 0:
            raise cache.PeerMissing(f"pip could not fetch the gRPC client:\n{done.stderr[-2000:]}")

    return cache.once(CLIENT.replace("==", "-"), build) / "packages"


@contextmanager
def proxy(folder: Path) -> Iterator[tuple[str, str]]:
    """Java's name server, and its broker with the proxy around it: the name server's address and the proxy's."""
    from tests.interop.peers import java
    from tests.interop.peers.process import Program

    library = java.fetched(f"java-{VERSION}-proxy", VERSION, ["proxy", "broker", "namesrv"])
    names = java.NameServer(VERSION, folder / "namesrv")
    try:
        port, grpc_port = java.free_broker_port(), java.free_broker_port()
        home = folder / "proxy"
        (home / "conf").mkdir(parents=True)
        settings = {
            "brokerClusterName": "DefaultCluster",
            "brokerName": "broker-a",
            "brokerId": "0",
            "brokerIP1": "127.0.0.1",
            "listenPort": str(port),
            "namesrvAddr": names.address,
            "storePathRootDir": str(home / "store"),
            "storePathCommitLog": str(home / "store" / "commitlog"),
            "mappedFileSizeCommitLog": str(256 << 20),
            "diskMaxUsedSpaceRatio": "99",
        }
        broker_conf, proxy_conf = home / "conf" / "broker.conf", home / "conf" / "rmq-proxy.json"
        broker_conf.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        shape = {
            "rocketMQClusterName": "DefaultCluster",
            "namesrvAddr": names.address,
            "grpcServerPort": grpc_port,
            "remotingListenPort": java.free_broker_port(),
        }
        proxy_conf.write_text(json.dumps(shape))
        command = [java.runtime(), *java.OPENS, *JVM, f"-Duser.home={home}", f"-Djava.io.tmpdir={home}"]
        command += ["-cp", f"{library}/*", "org.apache.rocketmq.proxy.ProxyStartup", "-pm", "local"]
        command += ["-n", names.address, "-bc", str(broker_conf), "-pc", str(proxy_conf)]
        environment = {"HOME": str(home), "ROCKETMQ_HOME": str(home)}
        with Program(command, name="proxy", env=environment, cwd=home) as program:
            program.wait_for("proxy startup successfully|rocketmq-proxy startup successfully", timeout_s=90)
            yield names.address, f"127.0.0.1:{grpc_port}"
    finally:
        names.kill()


def turn(name: str, address: str, endpoint: str, wanted: argparse.Namespace) -> Found:
    if name == "ours":
        command = [sys.executable, str(ROOT / "bench" / "client_ours.py"), address, str(wanted.seconds)]
        return answer_of(name, [*command, str(wanted.filled)], {})
    command = [sys.executable, __file__, "--as-client", endpoint, "--names", address]
    command += ["--seconds", str(wanted.seconds), "--filled", str(wanted.filled)]
    return answer_of(name, command, {"PYTHONPATH": str(packages())})


def measure(wanted: argparse.Namespace) -> None:
    heading("Clients on Java's broker and proxy, 1 KB", "python bench/client_grpc.py")
    results: dict[str, list[Found]] = {"ours": [], "gRPC": []}
    with tempfile.TemporaryDirectory(prefix="pyromq-bench-") as folder, proxy(Path(folder)) as (address, endpoint):
        asyncio.run(fill(address, wanted.filled))
        asyncio.run(fill(address, 1, TOPIC))  # it makes no topics itself, and no groups
        mqadmin = str(Path(sys.executable).with_name("mqadmin"))
        made = [mqadmin, "updateSubGroup", "-n", address, "-c", "DefaultCluster", "-g", GROUP]
        subprocess.run(made, check=True, capture_output=True)
        for number in range(wanted.rounds):
            for name, runs in results.items():
                print(f"round {number + 1}: {name} ...", file=sys.stderr, flush=True)
                runs.append(turn(name, address, endpoint, wanted))
    print(table(results))
    for name, runs in results.items():
        note(wanted.json, "client-grpc", name, runs, "clients on Java's broker and proxy, 1 KB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement of sends")
    parser.add_argument("--filled", type=int, default=10_000, help="messages to read")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", help="append the figures to this file")
    parser.add_argument("--as-client", metavar="ENDPOINT", help=argparse.SUPPRESS)
    parser.add_argument("--names", help=argparse.SUPPRESS)
    wanted = parser.parse_args()
    if wanted.as_client:
        found = as_client(wanted.as_client, wanted.names, wanted.seconds, wanted.filled)
        print("@@" + json.dumps(found), flush=True)
        os._exit(0)  # its threads would go on
    measure(wanted)


if __name__ == "__main__":
    main()
