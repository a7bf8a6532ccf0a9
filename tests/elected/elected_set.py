"""Three of our brokers as one elected set, with Debian's etcd and a name server of ours: real processes on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyromq.ambient import SystemClock
from pyromq.broker.elected.set_keys import SetKeys
from pyromq.broker.election.set_state import SetState, decode_state
from pyromq.coordination.etcd import EtcdCoordination
from pyromq.coordination.etcd_settings import EtcdSettings
from tests.coordination.etcd_peer import EtcdCluster, require_etcd
from tests.interop.peers.ours import Broker, NameServer

NAME, CLUSTER = "broker-e", "DefaultCluster"
KEYS = SetKeys(f"/pyromq/{CLUSTER}/{NAME}/")


@dataclass
class ElectedSet:
    """A running set. `brokers` by their place in the start, which is not their number in the set."""

    etcd: EtcdCluster
    name_server: NameServer
    brokers: list[Broker]

    async def known(self) -> tuple[SetState | None, dict[int, str]]:
        """Return the state that etcd has, and the addresses of all replicas."""
        settings = EtcdSettings(endpoints=self.etcd.endpoints)
        async with EtcdCoordination(settings, SystemClock()) as coordination:
            found = await coordination.read(KEYS.prefix)
        stored = found.keys.get(KEYS.state)
        places = {replica: place.address for replica, place in KEYS.places_in(found).items()}
        return (None if stored is None else decode_state(stored.value)), places

    async def master(self) -> Broker:
        """Return the broker that the state names as master."""
        state, places = await self.known()
        assert state is not None
        return next(one for one in self.brokers if one.address == places[state.master])

    async def is_whole(self) -> bool:
        """Return whether all replicas are in the in-sync set."""
        state, _ = await self.known()
        return state is not None and len(state.in_sync) == len(self.brokers)


@contextmanager
def elected_set(folder: Path, settings: dict[str, str] | None = None, size: int = 3) -> Iterator[ElectedSet]:
    """Run a set in the block. Nothing is left running."""
    require_etcd()
    with ExitStack() as stack:
        etcd = stack.enter_context(EtcdCluster(folder / "etcd"))
        name_server = NameServer(folder / "namesrv")
        stack.callback(name_server.kill)
        given = {"etcdEndpoints": ";".join(etcd.endpoints), **(settings or {})}

        def start(number: int) -> Broker:
            home = folder / f"broker-{number}"
            home.mkdir()
            broker = Broker(home, [name_server.address], given, name=NAME, cluster=CLUSTER)
            stack.callback(broker.kill)
            return broker

        with ThreadPoolExecutor(size) as pool:
            brokers = list(pool.map(start, range(size)))
        yield ElectedSet(etcd, name_server, brokers)
