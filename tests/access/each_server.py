"""A broker, a name server or a controller with users, on a socket of this machine, and a client of it."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pyromq.access.directory import Directory
from pyromq.ambient import SystemClock, seeded_random
from pyromq.audit.log import AuditLog
from pyromq.config import Loaded
from pyromq.controller.config import ControllerConfig
from pyromq.controller.server import Controller
from pyromq.namesrv.config import NamesrvConfig
from pyromq.namesrv.server import NameServer
from pyromq.protocol.command import Command
from pyromq.testing.coordination import SimulatedCoordination
from pyromq.transport.client import RemotingClient
from tests.access.matrix import ON, make_users
from tests.broker.running import running_broker

Ask = Callable[[Command], Awaitable[Command]]
SERVERS = ("broker", "name server", "controller")


@asynccontextmanager
async def serving(
    kind: str, folder: Path, audit: AuditLog | None = None, **settings: Any
) -> AsyncIterator[tuple[Ask, Directory]]:
    """Yield what asks the server, and its users: those of the matrix."""
    clock, wanted = SystemClock(), ON | settings
    if kind == "broker":
        async with running_broker(folder, audit=audit, **wanted) as running:
            directory = running.broker.base.access.table.directory
            make_users(directory)
            yield lambda command: running.client.call(running.address, command, 20), directory
        return
    own: dict[str, Any] = {"listen_port": 0, "tls_test_mode_enable": False} | wanted
    found: NameServer | Controller
    if kind == "controller":
        store = SimulatedCoordination(clock, seeded_random(1)).member("n0")
        own["etcd_endpoints"] = ("http://unused:2379",)
        config = ControllerConfig(controller_store_path=folder, **own)
        found = Controller(Loaded(config), store, clock=clock, rng=random.Random(1), audit=audit)
    else:
        names = NamesrvConfig(kv_config_path=folder / "kv.json", **own)
        found = NameServer(Loaded(names), clock=clock, rng=random.Random(1), audit=audit)
    address = await found.listen()
    make_users(found.access.table.directory)
    try:
        async with RemotingClient(clock=clock, rng=random.Random(2)) as client:
            yield lambda command: client.call(address, command, 20), found.access.table.directory
    finally:
        await found.stop()
