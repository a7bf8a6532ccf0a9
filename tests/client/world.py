"""A name server and brokers of ours in this process, on real sockets and a folder of the test."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pyromq.ambient import SystemClock
from pyromq.broker.broker import Broker
from pyromq.broker.config import BrokerConfig
from pyromq.client.client import Client
from pyromq.client.config import ClientConfig
from pyromq.config import Loaded
from pyromq.model.codes import RequestCode
from pyromq.namesrv.config import NamesrvConfig
from pyromq.namesrv.server import NameServer
from pyromq.protocol.command import Command
from pyromq.store.message_store import run_at_once
from pyromq.store.real_disk import RealDisk
from tests.broker.running import SMALL, turns_until


async def at_once(blocking: Callable[[], None]) -> None:
    blocking()


class RunningBroker:
    def __init__(self, broker: Broker, address: str) -> None:
        self.broker = broker
        self.address = address
        self._loops = [asyncio.create_task(loop) for loop in broker.loops()]

    async def stop(self) -> None:
        for loop in self._loops:
            loop.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)
        await self.broker.stop()


class World:
    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder
        self._settings = settings
        self.brokers: dict[str, RunningBroker] = {}
        self.name_servers: dict[str, NameServer] = {}

    async def start_name_server(self, port: int = 0) -> str:
        folder = self.folder / f"names{len(self.name_servers)}"
        config = NamesrvConfig(kv_config_path=folder / "kv.json", listen_port=port)
        server = NameServer(Loaded(config), clock=SystemClock(), rng=random.Random(1), run_blocking=at_once)
        address = await server.listen()
        server.start_loops()
        self.name_servers[address] = server
        return address

    async def stop_name_server(self, address: str) -> None:
        await self.name_servers.pop(address).stop()

    async def start_broker(self, name: str = "broker-a", port: int = 0) -> RunningBroker:
        """Returns when every name server knows it."""
        folder = self.folder / name
        config = BrokerConfig(
            **(SMALL | self._settings),
            broker_name=name,
            listen_port=port,
            fast_listen_port=0,
            store_path_root_dir=folder,
            namesrv_addr=tuple(self.name_servers),
        )
        broker = Broker(
            Loaded(config),
            clock=SystemClock(),
            rng=random.Random(7),
            disk=RealDisk(folder, create=True),
            run_blocking=run_at_once,
            memory_bytes=1 << 34,
        )
        running = self.brokers[name] = RunningBroker(broker, await broker.start())
        await turns_until(lambda: all(self._knows(server, name) for server in self.name_servers.values()))
        return running

    def _knows(self, server: NameServer, broker: str) -> bool:
        return broker in server.table.cluster_info().broker_addr_table

    async def restart_broker(self, name: str = "broker-a") -> RunningBroker:
        address = self.brokers[name].address
        await self.stop_broker(name)
        return await self.start_broker(name, int(address.rpartition(":")[2]))

    async def stop_broker(self, name: str = "broker-a") -> None:
        await self.brokers.pop(name).stop()

    @asynccontextmanager
    async def client(self, **settings: Any) -> AsyncIterator[Client]:
        fast: dict[str, Any] = {"trouble_pause_s": 0.05, "name_servers": tuple(self.name_servers)}
        async with Client(ClientConfig(**(fast | settings)), rng=random.Random(3)) as client:
            yield client

    async def create_topic(self, topic: str, queues: int = 4, **fields: Any) -> None:
        """On every broker, and known to the name servers."""
        texts = {
            "topic": topic,
            "defaultTopic": "TBW102",
            "readQueueNums": str(queues),
            "writeQueueNums": str(queues),
            "perm": "6",
            "topicFilterType": "SINGLE_TAG",
            "order": "false",
        } | {name: str(value) for name, value in fields.items()}
        async with self.client() as client:
            for running in self.brokers.values():
                request = Command(code=RequestCode.UPDATE_AND_CREATE_TOPIC, fields=dict(texts))
                answer = await client.session.transport.call(running.address, request, 20)
                assert answer.code == 0, answer.remark
            while True:
                route = await client.session.name_servers.route(topic)
                if len(route.addresses) == len(self.brokers):
                    return

    async def close(self) -> None:
        for name in list(self.brokers):
            await self.stop_broker(name)
        for address in list(self.name_servers):
            await self.stop_name_server(address)
