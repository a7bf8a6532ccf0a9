"""A whole cluster under one seed: brokers of one elected set, name servers, etcd's twin, clients of the SDK.

result = run_cluster(7, scenario)        # `scenario` is given the cluster, on virtual time
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import logging
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from pyromq.broker.elected.set_keys import SetKeys
from pyromq.broker.election.set_state import SetState, decode_state
from tests.cluster.machines import NAME, BrokerMachine, ClientMachine, NameServerMachine, Surroundings
from tests.cluster.network import SocketCalls
from tests.cluster.processes import ProcessLoop

T = TypeVar("T")

KEYS = SetKeys(f"/pyromq/DefaultCluster/{NAME}/")


class ClusterLoop(SocketCalls, ProcessLoop):  # type: ignore[misc]
    """The loop of all simulated machines."""


class Cluster:
    """All machines are off until `start`."""

    def __init__(self, loop: ProcessLoop, seed: int, folder: Path, **settings: Any) -> None:
        self.around = around = Surroundings(loop, seed, folder)
        self.clock, self.rng, self.network, self.store = around.clock, around.rng, around.network, around.store
        self.name_servers = [NameServerMachine(around, number) for number in (1, 2)]
        names = tuple(each.address for each in self.name_servers)
        self.brokers = [BrokerMachine(around, number, names, **settings) for number in (1, 2, 3)]
        self.clients = [ClientMachine(around, number, names) for number in (1, 2)]
        self.settings = settings
        self._trace = hashlib.sha256(b"%d" % seed)

    def start(self) -> None:
        for name_server in self.name_servers:
            name_server.start()
        for broker in self.brokers:
            broker.start()

    def note(self, event: str) -> None:
        """Add an event to the trace: it is equal for two runs of one seed."""
        self._trace.update(f"{self.clock.monotonic():.9f} {event}\n".encode())

    @property
    def trace(self) -> str:
        return self._trace.hexdigest()

    def recorded(self) -> SetState | None:
        """Return the state that the store has, whoever knows of it."""
        found = self.store.keys.get(KEYS.state)
        return None if found is None else decode_state(found.value)

    @property
    def is_whole(self) -> bool:
        """Return whether all replicas are in the in-sync set."""
        state = self.recorded()
        return state is not None and len(state.in_sync) == len(self.brokers)

    def master(self) -> BrokerMachine | None:
        """Return the machine that the state names as master; None: there is no state, or it is down."""
        state = self.recorded()
        found = [each for each in self.brokers if each.is_up and each.member is not None]
        return next((each for each in found if each.member and state and each.member.me == state.master), None)

    async def until(self, is_so: Callable[[], bool], within_s: float, what: str) -> None:
        """Let time pass until something is so. AssertionError, if it is not in time."""
        limit = self.clock.monotonic() + within_s
        while not is_so():
            if self.clock.monotonic() > limit:
                faults = {each.host: each.fault for each in self.brokers if each.fault is not None}
                raise AssertionError(f"{what}: not within {within_s:g} s; {self.recorded()}, ended brokers: {faults}")
            await self.clock.sleep(0.05)

    def end(self) -> None:
        """End everything."""
        for process in self.around.processes:
            process.end()
        for process in self.around.processes:
            process.bury()


def run_cluster(seed: int, scenario: Callable[[Cluster], Coroutine[Any, Any, T]], **settings: Any) -> T:
    """Run a scenario to its end on a loop of its own."""
    hook, level, is_collecting = sys.unraisablehook, logging.root.manager.disable, gc.isenabled()
    logging.disable(logging.CRITICAL)
    gc.disable()  # nothing happens because garbage is found: the same seed takes the same steps

    async def main(folder: Path) -> T:
        cluster = Cluster(asyncio.get_running_loop(), seed, folder, **settings)  # type: ignore[arg-type]
        try:
            return await scenario(cluster)
        finally:
            sys.unraisablehook = lambda _: None  # killed processes complain, when they are freed, that they were killed
            cluster.end()

    try:
        with TemporaryDirectory(prefix="pyromq-sim-") as folder, asyncio.Runner(loop_factory=ClusterLoop) as runner:
            return runner.run(main(Path(folder)))
    finally:
        gc.collect()
        sys.unraisablehook = hook
        logging.disable(level)
        if is_collecting:
            gc.enable()
