"""Debian's etcd for tests: one member or several on loopback, that may be killed, paused and started again."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.interop.peers.process import Program
from tests.support import free_ports, require

ELECTION_MS = 500


def require_etcd() -> None:
    require(shutil.which("etcd") is not None, "`etcd` is not installed: apt-get install etcd-server")


@dataclass
class EtcdMember:
    """One process of etcd; `options` are added to its command line, `within` makes it one that runs in another host."""

    name: str
    folder: Path
    client_port: int
    peer_port: int
    cluster: str
    options: Sequence[str] = ()
    scheme: str = "http"
    program: Program | None = None
    host: str = "127.0.0.1"
    within: Callable[[Sequence[str | Path]], Sequence[str | Path]] = tuple

    @property
    def endpoint(self) -> str:
        return f"{self.scheme}://{self.host}:{self.client_port}"

    def start(self) -> None:
        own, peer = self.endpoint, f"http://{self.host}:{self.peer_port}"
        command: list[str | Path] = [
            "etcd", "--name", self.name, "--data-dir", self.folder / self.name,
            "--listen-client-urls", own, "--advertise-client-urls", own,
            "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
            "--initial-cluster", self.cluster, "--heartbeat-interval", str(ELECTION_MS // 5),
            "--election-timeout", str(ELECTION_MS), "--logger", "zap", "--unsafe-no-fsync", *self.options,
        ]  # fmt: skip
        self.program = Program(self.within(command), name=f"etcd {self.name}")

    def wait_ready(self) -> None:
        self.running.wait_for("serving client traffic")

    @property
    def running(self) -> Program:
        assert self.program is not None
        return self.program

    def kill(self) -> None:
        if self.program is not None:
            self.program.kill()
            self.program = None

    def pause(self) -> None:
        self.running.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.running.signal(signal.SIGCONT)


@dataclass
class EtcdCluster:
    """Members of one etcd. A context manager: they run within it."""

    folder: Path
    size: int = 1
    options: Sequence[str] = ()
    scheme: str = "http"
    members: list[EtcdMember] = field(default_factory=list)

    @property
    def endpoints(self) -> tuple[str, ...]:
        return tuple(member.endpoint for member in self.members)

    def __enter__(self) -> EtcdCluster:
        ports = free_ports(2 * self.size)
        pairs = list(zip(ports[::2], ports[1::2], strict=True))
        cluster = ",".join(f"m{place}=http://127.0.0.1:{peer}" for place, (_, peer) in enumerate(pairs))
        for place, (client, peer) in enumerate(pairs):
            made = EtcdMember(f"m{place}", self.folder, client, peer, cluster, self.options, self.scheme)
            self.members.append(made)
            made.start()
        for member in self.members:
            member.wait_ready()
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.members:
            member.kill()
