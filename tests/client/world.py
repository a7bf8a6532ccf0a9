"""Name servers and brokers that the SDK's tests talk to over real sockets: ours in this process, or Java's.

`Servers` is what a test sees; it asks over the wire what it wants to know, so that either cluster can answer. Ours
is made here, Apache's in `java_world.py`.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from pyromq.access.settings import AccessSettings
from pyromq.ambient import SystemClock
from pyromq.broker.config import BrokerConfig
from pyromq.client.client import Client
from pyromq.client.config import ClientConfig
from pyromq.config import Loaded
from pyromq.machine.budget import Budget
from pyromq.model.codes import ResponseCode
from pyromq.namesrv.config import NamesrvConfig
from pyromq.namesrv.server import NameServer
from pyromq.protocol.command import Command
from pyromq.protocol.requests import RequestCode
from pyromq.store.files.real_disk import RealDisk
from pyromq.testing.in_process import InProcessBroker
from tests.broker.running import SMALL

ON_JAVA = os.environ.get("PYROMQ_TEST_BROKER", "ours") == "java"
HOLD_MS = 60_000  # of a request on the event loop: a busy machine must not put lines about it into a command's output


async def at_once(blocking: Callable[[], None]) -> None:
    blocking()


async def turns_until(condition: Callable[[], bool]) -> None:
    """Until something is so. Other programs take real time: then the processor is left to them between two looks."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.01 if ON_JAVA else 0)


class Addressed(Protocol):
    @property
    def address(self) -> str: ...


class Servers(ABC):
    """By name: the brokers that run; by address: the name servers."""

    folder: Path
    # access_key and secret_key of who asks here, where servers want to know
    keys: Mapping[str, str] = MappingProxyType({})

    @property
    @abstractmethod
    def brokers(self) -> Mapping[str, Addressed]: ...

    @property
    @abstractmethod
    def name_servers(self) -> Mapping[str, object]: ...

    @abstractmethod
    async def start_name_server(self, port: int = 0) -> str:
        """Its address."""

    @abstractmethod
    async def stop_name_server(self, address: str) -> None: ...

    @abstractmethod
    async def start_broker(self, name: str = "broker-a", port: int = 0) -> Addressed:
        """Returns when every name server knows it. One that was stopped has its store again."""

    @abstractmethod
    async def stop_broker(self, name: str = "broker-a") -> None: ...

    @abstractmethod
    async def close(self) -> None: ...

    async def restart_broker(self, name: str = "broker-a") -> Addressed:
        """On the same port."""
        address = self.brokers[name].address
        await self.stop_broker(name)
        return await self.start_broker(name, int(address.rpartition(":")[2]))

    @asynccontextmanager
    async def client(self, **settings: Any) -> AsyncIterator[Client]:
        fast: dict[str, Any] = {"trouble_pause_s": 0.05, "name_servers": tuple(self.name_servers), **self.keys}
        async with Client(ClientConfig(**(fast | settings)), rng=random.Random(3)) as client:
            yield client

    async def ask(self, address: str, code: int, body: bytes = b"", **fields: str) -> Command:
        """One request on a connection of its own, whatever the answer."""
        async with self.client() as client:
            return await client.session.transport.call(address, Command(code=code, fields=fields, body=body), 20)

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
        for running in self.brokers.values():
            answer = await self.ask(running.address, RequestCode.UPDATE_AND_CREATE_TOPIC, b"", **texts)
            assert answer.code == 0, answer.remark
        async with self.client() as client:
            while True:
                route = await client.session.name_servers.route(topic)
                if len(route.addresses) == len(self.brokers):
                    return

    async def create_group(self, group: str, **settings: object) -> None:
        """As `mqadmin updateSubGroup` does. Settings by the names that Java gives them."""
        body = json.dumps({"groupName": group, **settings}).encode()
        for running in self.brokers.values():
            answer = await self.ask(running.address, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body)
            assert answer.code == 0, answer.remark

    async def committed(self, group: str, topic: str = "T") -> int:
        """Over all queues of broker-a."""
        found, address = 0, self.brokers["broker-a"].address
        async with self.client() as client:
            for queue_id in range(8):
                fields = {"consumerGroup": group, "topic": topic, "queueId": str(queue_id)}
                request = Command(code=RequestCode.QUERY_CONSUMER_OFFSET, fields=fields)
                answer = await client.session.transport.call(address, request, 20)
                assert answer.code in (ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND), answer.remark
                found += int(answer.fields.get("offset", 0))
        return found

    async def has_producer(self, group: str) -> bool:
        """Whether broker-a knows one of the group."""
        fields = {"producerGroup": group}
        address = self.brokers["broker-a"].address
        return (await self.ask(address, RequestCode.GET_PRODUCER_CONNECTION_LIST, b"", **fields)).code == 0


class World(Servers):
    """Ours, in this process. Settings are those of `BrokerConfig`; the name servers have those of TLS and users too."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder
        self._settings = settings
        self._brokers: dict[str, InProcessBroker] = {}
        self._name_servers: dict[str, NameServer] = {}

    @property
    def brokers(self) -> dict[str, InProcessBroker]:
        return self._brokers

    @property
    def name_servers(self) -> dict[str, NameServer]:
        return self._name_servers

    async def start_name_server(self, port: int = 0) -> str:
        folder = self.folder / f"names{len(self.name_servers)}"
        of_users = {each.name for each in fields(AccessSettings)}
        shared = {name: value for name, value in self._settings.items() if name.startswith("tls_") or name in of_users}
        config = NamesrvConfig(kv_config_path=folder / "kv.json", listen_port=port, loop_hold_ms=HOLD_MS, **shared)
        server = NameServer(Loaded(config), clock=SystemClock(), rng=random.Random(1), run_blocking=at_once)
        address = await server.listen()
        server.start_loops()
        self._name_servers[address] = server
        return address

    async def stop_name_server(self, address: str) -> None:
        await self._name_servers.pop(address).stop()

    async def start_broker(self, name: str = "broker-a", port: int = 0) -> InProcessBroker:
        """Returns when every name server knows it."""
        folder = self.folder / name
        config = BrokerConfig(
            **(SMALL | {"loop_hold_ms": HOLD_MS} | self._settings),
            broker_name=name,
            listen_port=port,
            fast_listen_port=0,
            store_path_root_dir=folder,
            namesrv_addr=tuple(self.name_servers),
        )
        disk = RealDisk(folder, create=True)
        budget = Budget(memory_bytes=1 << 34)
        running = await InProcessBroker.start(config, clock=SystemClock(), disk=disk, budget=budget)
        self._brokers[name] = running
        await turns_until(lambda: all(self._knows(server, name) for server in self.name_servers.values()))
        return running

    def _knows(self, server: NameServer, broker: str) -> bool:
        return broker in server.table.cluster_info().broker_addr_table

    async def stop_broker(self, name: str = "broker-a") -> None:
        await self._brokers.pop(name).stop()

    async def close(self) -> None:
        for name in list(self.brokers):
            await self.stop_broker(name)
        for address in list(self.name_servers):
            await self.stop_name_server(address)
