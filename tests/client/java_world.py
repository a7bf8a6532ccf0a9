"""The same worlds out of Apache's own name server and broker 5.5.0, for `PYROMQ_TEST_BROKER=java` (make test-sdk-java).

JVMs are dear, so one name server and one broker serve all tests that ask for no more: what a test made there (topics,
groups, settings) is taken back when its world closes. A test that stops name servers, or a broker that serves others
too, has programs of its own: after a kill -9 Java's broker finds the messages of deleted topics again.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyromq.model import names
from pyromq.protocol.command import Command
from pyromq.protocol.requests import RequestCode
from tests.client.world import Servers
from tests.interop import wire
from tests.interop.peers import java

VERSION = "5.5.0"
# Quick where a test would wait for nothing but the default, and everything on that one of the tests turns on.
SETTINGS = {
    "timerWheelEnable": "true",
    "traceTopicEnable": "true",
    "transactionCheckInterval": "500",
    "transactionOpBatchInterval": "10",  # until it has noted an end (3 s by default) it asks again, and commits twice
    "brokerFastFailureEnable": "false",  # this machine may be busy with other things
}
_RESTORED = ("transactionCheckInterval", "transactionTimeOut", "recallMessageEnable", "traceOn", "enablePropertyFilter")


class Shared:
    """One name server and one broker for the run, started at the first question."""

    def __init__(self, folder: Callable[[str], Path]) -> None:
        self.folder = folder
        self._names: java.NameServer | None = None
        self.broker: java.Broker | None = None

    def name_server(self) -> java.NameServer:
        if self._names is None:
            self._names = java.NameServer(VERSION, self.folder("names"))
        return self._names

    def close(self) -> None:
        for program in (self.broker, self._names):
            if program is not None:
                program.kill()


class JavaWorld(Servers):
    """See `Servers`. `is_shared`: with the run's name server and broker-a."""

    def __init__(self, folder: Path, shared: Shared, *, is_shared: bool = True, **settings: Any) -> None:
        self.folder = folder
        self._shared = shared
        self._is_shared = is_shared
        self._settings = {_camel(name): str(value).lower() for name, value in settings.items()}
        if "transactionTimeOut" in self._settings:  # it also asks about what is just being ended, if it is this old
            self._settings |= {"transactionTimeOut": "3000", "transactionCheckInterval": "500"}
        self._before: dict[str, str] = {}
        self._homes = itertools.count()
        self._stopped: dict[str, java.Broker] = {}
        self._brokers: dict[str, java.Broker] = {}
        self._name_servers: dict[str, java.NameServer] = {}

    @property
    def brokers(self) -> dict[str, java.Broker]:
        return self._brokers

    @property
    def name_servers(self) -> dict[str, java.NameServer]:
        return self._name_servers

    async def start_name_server(self, port: int = 0) -> str:
        assert port == 0
        make = self._shared.name_server if self._is_shared else lambda: java.NameServer(VERSION, self._home("names"))
        server = await asyncio.to_thread(make)
        self.name_servers[server.address] = server
        return server.address

    async def stop_name_server(self, address: str) -> None:
        await asyncio.to_thread(self.name_servers.pop(address).kill)

    async def start_broker(self, name: str = "broker-a", port: int = 0) -> java.Broker:
        """Returns when every name server knows it: ten seconds after its start."""
        broker = self._shared.broker if self._is_shared and name == "broker-a" else None
        if name in self._stopped:
            broker = self._stopped.pop(name)
            await asyncio.to_thread(broker.restart, port or java.free_broker_port())
        elif broker is None:
            broker = await asyncio.to_thread(
                java.Broker, VERSION, self._home(name), list(self.name_servers), SETTINGS, name=name
            )
            if self._is_shared and name == "broker-a":
                self._shared.broker = broker
        self.brokers[name] = broker
        for address in self.name_servers:
            while broker.address.encode() not in await self._body(address, wire.GET_CLUSTER_INFO):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        if self._settings and not self._before:
            self._before = await self._broker_settings(broker)
        if self._settings:
            await self._set(broker, self._settings)
        return broker

    async def stop_broker(self, name: str = "broker-a") -> None:
        """kill -9: a clean stop takes Java 20 s and more."""
        assert not (self._is_shared and name == "broker-a"), "others use it: mark the test with fresh_broker"
        self._stopped[name] = self.brokers.pop(name)
        await asyncio.to_thread(self._stopped[name].kill)

    async def close(self) -> None:
        if not self._is_shared:
            for running in [each.program for each in self.brokers.values()] + [
                each.program for each in self.name_servers.values()
            ]:
                await asyncio.to_thread(running.kill)
            return
        for name, broker in self.brokers.items():
            if name != "broker-a":
                await asyncio.to_thread(broker.kill)
        if "broker-a" in self.brokers:
            await self._clean(self.brokers["broker-a"].address)
        if self._before:
            await self._set(self.brokers["broker-a"], self._before)

    # --- the shared broker -----------------------------------------------------------------------------------------

    async def _clean(self, broker: str) -> None:
        """As mqadmin deleteTopic and deleteSubGroup do. Clients are gone by now."""
        topics = wire.json_with_bare_keys(await self._body(broker, RequestCode.GET_ALL_TOPIC_CONFIG))
        made = [topic for topic in topics["topicConfigTable"] if not _is_javas(topic)]
        for topic in made:
            await self._ask(broker, RequestCode.DELETE_TOPIC_IN_BROKER, topic=topic)
        table = wire.json_with_bare_keys(await self._body(broker, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG))
        for group in table["subscriptionGroupTable"]:
            if not names.is_system_group(group):
                await self._ask(broker, RequestCode.DELETE_SUBSCRIPTIONGROUP, groupName=group, cleanOffset="true")
        for address in self.name_servers:
            for topic in made:
                await self._ask(address, RequestCode.DELETE_TOPIC_IN_NAMESRV, topic=topic)

    async def _broker_settings(self, broker: java.Broker) -> dict[str, str]:
        text = (await self._body(broker.address, RequestCode.GET_BROKER_CONFIG)).decode()
        found = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
        return {key: found[key] for key in _RESTORED}

    async def _set(self, broker: java.Broker, settings: dict[str, str]) -> None:
        body = "".join(f"{key}={value}\n" for key, value in settings.items()).encode()
        await self._ask(broker.address, RequestCode.UPDATE_BROKER_CONFIG, body)

    async def _body(self, address: str, code: int) -> bytes:
        return bytes((await self._ask(address, code)).body)

    async def _ask(self, address: str, code: int, body: bytes = b"", **fields: str) -> Command:
        answer = await self.ask(address, code, body, **fields)
        assert answer.code == 0, (code, fields, answer.remark)
        return answer

    def _home(self, name: str) -> Path:
        return self._shared.folder(f"{name}{next(self._homes)}")


def _camel(name: str) -> str:
    return re.sub(r"_(\w)", lambda found: found[1].upper(), name)


def _is_javas(topic: str) -> bool:
    made_at_start = {"TBW102", "BenchmarkTest", "SELF_TEST_TOPIC", "DefaultCluster", "broker-a", "OFFSET_MOVED_EVENT"}
    return topic in made_at_start or names.is_system_topic(topic) or topic.startswith(("DefaultCluster", "broker-"))
