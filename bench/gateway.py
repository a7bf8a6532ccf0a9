"""`pyromq proxy` and Java's proxy before the same broker of ours, in one run: `python bench/gateway.py [--row NAME]`.

The load is bench/grpcload.c, as in bench/grpc.py, of which this takes the rows and the tables. CPU is the gateway's
alone, without the broker's, which is the same for both. `--no-java` leaves Java out.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from bench.grpc import JAVA_WARM_UP_S, ROWS, WARM_UP_S, Endpoint, loaded, run_row  # noqa: E402
from bench.measure.compiled import compiled  # noqa: E402
from bench.servers import JVM, Case, Server, built, has_java, measure, our_cluster, scratch, started  # noqa: E402

SENT_OR_RECEIVED = ("grpc-send", "grpc-send-1", "grpc-receive-ack")


class Before(Endpoint):
    """A gateway behind its broker among the processes: topics are made there, and CPU is the gateway's."""

    def cpu_s(self) -> float:
        return self.processes[-1].cpu_s()


@contextmanager
def our_gateway(broker: Server) -> Iterator[Endpoint]:
    command = [sys.executable, "-m", "pyromq", "proxy", "-n", broker.name_server, "--listen", "127.0.0.1:0"]
    with started("ours", [*command, "--remoting-listen-port", "-1", "--log-level", "error"]) as served:
        yield Before("ours", served.address, [broker, served])


@contextmanager
def java_gateway(folder: Path, broker: Server) -> Iterator[Endpoint]:
    from tests.interop.peers.java_proxy import Proxy

    folder.mkdir()
    proxy = Proxy(folder, broker.name_server, jvm=JVM)
    try:
        served = broker._replace(name="java", pid=proxy.program.process.pid, address=proxy.endpoint)
        yield Before("java", proxy.endpoint, [broker, served])
    finally:
        proxy.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--row", action="append", choices=SENT_OR_RECEIVED, help="only these")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--no-java", action="store_true")
    parser.add_argument("--folder", help="where stores lie meanwhile")
    parser.add_argument("--json", help="append the figures to this file")
    chosen = parser.parse_args()
    chosen.clients = 0
    with ExitStack() as stack:
        folder = stack.enter_context(scratch(chosen.folder))
        load, mqload = compiled(ROOT / "bench" / "grpcload.c", folder, "-lnghttp2"), built(folder, "mqload")
        broker = stack.enter_context(our_cluster(folder / "cluster"))
        served = [stack.enter_context(our_gateway(broker))]
        if not chosen.no_java and has_java():
            served.append(stack.enter_context(java_gateway(folder / "proxy", broker)))
        measure(mqload, Case("first", "send -t Bench -c 1 -w 1 -s 128 -q 4"), broker, 0.2)
        for one in served:
            loaded(load, one, "send -c 4 -w 16 -s 128", JAVA_WARM_UP_S if one.name == "java" else WARM_UP_S)
        for name in chosen.row or SENT_OR_RECEIVED:
            run_row(name, ROWS[name], load, mqload, served, chosen)


if __name__ == "__main__":
    main()
