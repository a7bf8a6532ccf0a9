"""Three machines of one elected set, and a fourth with a name server and the clients: real processes, real faults."""

from __future__ import annotations

import asyncio
import json
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any

from pyromq.ambient import SystemClock
from pyromq.broker.elected.set_keys import SetKeys
from pyromq.broker.election.set_state import SetState, decode_state
from pyromq.coordination.etcd import EtcdCoordination
from pyromq.coordination.etcd_settings import EtcdSettings
from pyromq.coordination.store import CoordinationUnreachable
from tests.coordination.etcd_peer import EtcdMember
from tests.faults.disks import Shelf
from tests.faults.hosts import Host, Network
from tests.faults.node import ETCD_PORT, PEER_PORT, Node
from tests.faults.shim import built_shim
from tests.interop.peers.process import Program

NAMES = ("a", "b", "c")
CLIENT = "client"
NAME_SERVER_PORT = 9876
KEYS = SetKeys("/pyromq/DefaultCluster/broker-f/")
LIMIT_S = 90.0


class NotInTime(Exception):
    """The set did not come to be as it should within the limit, although all is mended."""


def wait_until(is_so: Callable[[], bool], what: str, limit_s: float = LIMIT_S) -> None:
    """Wait until it is so. Raises NotInTime. A machine that stands still for a while does not use up the limit."""
    waited, last = 0.0, time.monotonic()
    while not is_so():
        now = time.monotonic()
        waited, last = waited + min(now - last, 2.0), now
        if waited > limit_s:
            raise NotInTime(f"{what}: not within {limit_s:g} s")
        time.sleep(0.1)


@dataclass
class Room:
    """A running set. Blocking; one thread."""

    network: Network
    nodes: dict[str, Node]
    client: Host
    folder: Path

    def __post_init__(self) -> None:
        self._led = next(iter(self.nodes.values()))

    @property
    def name_server(self) -> str:
        return f"{self.client.address}:{NAME_SERVER_PORT}"

    def known(self) -> tuple[SetState | None, dict[int, str]]:
        """Return the state that etcd has, and the addresses of all replicas. Raises CoordinationUnreachable."""
        return self.client.call(lambda: asyncio.run(self._read()))

    async def _read(self) -> tuple[SetState | None, dict[int, str]]:
        settings = EtcdSettings(endpoints=tuple(node.etcd.endpoint for node in self.nodes.values()))
        async with EtcdCoordination(settings, SystemClock()) as coordination:
            found = await coordination.read(KEYS.prefix)
        stored = found.keys.get(KEYS.state)
        places = {replica: place.address for replica, place in KEYS.places_in(found).items()}
        return (None if stored is None else decode_state(stored.value)), places

    def epoch(self) -> int:
        """Return the epoch that etcd has, once it answers. Raises NotInTime."""
        found: list[int] = []

        def is_known() -> bool:
            with suppress(CoordinationUnreachable):
                state, _ = self.known()
                assert state is not None
                found.append(state.epoch)
            return bool(found)

        wait_until(is_known, "etcd answers")
        return found[-1]

    def master(self) -> Node:
        """Return the machine whose broker leads, as etcd has it, or had it when it answered last."""
        with suppress(CoordinationUnreachable):
            state, places = self.known()
            assert state is not None
            self._led = next(node for node in self.nodes.values() if node.address == places[state.master])
        return self._led

    def followers(self) -> list[Node]:
        """Return the other machines."""
        master = self.master()
        return [node for node in self.nodes.values() if node is not master]

    def is_whole(self) -> bool:
        """Return whether all replicas are in the in-sync set."""
        with suppress(CoordinationUnreachable):
            state, _ = self.known()
            return state is not None and len(state.in_sync) == len(self.nodes)
        return False

    def wait_whole(self) -> None:
        """Wait until all replicas are in the in-sync set. Raises NotInTime."""
        wait_until(self.is_whole, "all replicas in sync")

    def others(self, node: Node) -> list[str]:
        """Return the names of all other hosts, the client's among them."""
        return [name for name in (*self.nodes, CLIENT) if name != node.name]


def move_etcd_leader(to: EtcdMember, members: Sequence[EtcdMember], host: Host) -> None:
    """Let this member of etcd lead. Raises NotInTime where it does not come to that."""

    def ask(member: EtcdMember, what: str, **asked: str) -> dict[str, Any]:
        request = urllib.request.Request(f"{member.endpoint}/v3/maintenance/{what}", json.dumps(asked).encode())
        with urllib.request.urlopen(request, timeout=2) as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    def does_it_lead() -> bool:
        with suppress(OSError, HTTPException):
            status = ask(to, "status")
            mine, leads = status["header"]["member_id"], status["leader"]
            if mine == leads:
                return True
            for member in members:  # the one that leads does it, others refuse
                with suppress(OSError, HTTPException):
                    ask(member, "transfer-leadership", targetID=mine)
        return False

    wait_until(lambda: host.call(does_it_lead), f"etcd's leader is {to.name}", 10.0)


@contextmanager
def running_room(folder: Path, settings: Mapping[str, str] | None = None) -> Iterator[Room]:
    """Run a set in the block. Nothing is left running or mounted."""
    with ExitStack() as stack:
        network = stack.enter_context(Network((*NAMES, CLIENT)))
        shelf = Shelf(folder / "disks")
        stack.callback(shelf.close)
        library = built_shim(folder)
        cluster = ",".join(f"{name}=http://{network.hosts[name].address}:{PEER_PORT}" for name in NAMES)
        nodes = {}
        for name in NAMES:
            nodes[name] = Node(name, network.hosts[name], shelf, library, cluster)
            stack.callback(nodes[name].close)
        room = Room(network, nodes, network.hosts[CLIENT], folder)
        stack.enter_context(_name_server(room))
        endpoints = [f"http://{node.host.address}:{ETCD_PORT}" for node in nodes.values()]
        for node in nodes.values():
            node.configure(room.name_server, endpoints, settings or {})
            node.etcd.start()
        for node in nodes.values():
            node.etcd.wait_ready()
        with ThreadPoolExecutor(len(nodes)) as pool:
            list(pool.map(Node.restart, nodes.values()))
        room.wait_whole()
        yield room


@contextmanager
def _name_server(room: Room) -> Iterator[None]:
    command: list[str | Path] = [
        sys.executable, "-m", "pyromq.cli.main", "namesrv", "--insecure",
        "--listen", room.name_server, "--kv-config-path", room.folder / "kv.json",
    ]  # fmt: skip
    with Program(room.client.within(command), name="name server", cwd=room.folder) as program:
        program.wait_for(r"\b10\.77\.0\.\d+:\d+\b")
        yield
