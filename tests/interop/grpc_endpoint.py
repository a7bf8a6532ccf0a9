"""A name server and a broker of ours whose gRPC endpoint Apache's clients use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from .conftest import OwnCluster
from .peers import ours
from .peers.java import free_broker_port


class Endpoint(OwnCluster):
    """A name server and a broker of ours, whose gRPC endpoint is at `endpoint`."""

    endpoint: str

    @property
    def certificate(self) -> Path:
        (found,) = self.broker.home.rglob("self-signed.crt")
        return found

    def kill_and_restart(self) -> None:
        self.broker.kill()
        self.restart_broker()


@contextmanager
def grpc_endpoint(home: Callable[[str], Path], settings: dict[str, str]) -> Iterator[Endpoint]:
    """Serve with these settings of the broker."""
    port = free_broker_port()
    with ExitStack() as stack:
        name_server = ours.NameServer(home("grpc-namesrv"))
        stack.callback(name_server.kill)
        broker = ours.Broker(home("grpc-broker"), [name_server.address], {"grpcServerPort": str(port), **settings})
        stack.callback(broker.kill)
        cluster = Endpoint(name_server, broker)
        cluster.endpoint = f"127.0.0.1:{port}"
        yield cluster
