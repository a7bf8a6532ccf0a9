"""A name server, a clock and memory streams; raw frames in, decoded responses out."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyromq.config import Loaded
from pyromq.model.client_info import Version
from pyromq.namesrv.config import NamesrvConfig
from pyromq.namesrv.server import NameServer
from pyromq.protocol.bodies.body import DataVersion
from pyromq.protocol.bodies.registration import RegisterBrokerBody, encode_registration
from pyromq.protocol.bodies.topics import TopicConfig, TopicConfigAndMappingSerializeWrapper
from pyromq.protocol.command import Command, Encoding
from pyromq.protocol.frame import encode_frame
from pyromq.protocol.headers.header import Header
from pyromq.protocol.headers.namesrv import RegisterBroker
from pyromq.protocol.requests import RequestCode
from pyromq.testing.clock import ManualClock
from pyromq.transport.memory import MemoryNetwork
from tests.wire import FrameDecoder

ADDRESS = "namesrv:9876"


async def at_once(blocking: Callable[[], None]) -> None:
    """Instead of a helper thread: the file is written before anything else happens."""
    blocking()


class Talk(asyncio.Protocol):
    """One connection to the name server, by frames."""

    def __init__(self) -> None:
        self._decoder = FrameDecoder()
        self._responses: asyncio.Queue[Command] = asyncio.Queue()
        self._stream: Any = None
        self.lost = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._stream = transport

    def data_received(self, data: bytes) -> None:
        for command in self._decoder.feed(data):
            self._responses.put_nowait(command)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set_result(None)

    async def ask_raw(self, frame: bytes) -> Command:
        self._stream.write(frame)
        return await self._responses.get()

    async def ask(
        self,
        code: int,
        header: Header | None = None,
        body: bytes = b"",
        version: int = Version.CURRENT,
        encoding: Encoding = Encoding.JSON,
        **fields: str,
    ) -> Command:
        pairs = (header.to_fields() if header else {}) | fields
        return await self.ask_raw(
            encode_frame(Command(code, fields=pairs, body=body, version=version, encoding=encoding))
        )

    def close(self) -> None:
        self._stream.abort()


class World:
    """`open` may be called again after `close`: the name server restarts on the same folder."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder
        self.clock = ManualClock()
        self.network = MemoryNetwork()
        self.settings = settings
        self.run_blocking: Any = at_once

    @property
    def kv_path(self) -> Path:
        return self.folder / "kvConfig.json"

    async def open(self, loaded: Loaded[NamesrvConfig] | None = None) -> None:
        config = NamesrvConfig(kv_config_path=self.kv_path, **self.settings)
        self.namesrv = NameServer(
            loaded or Loaded(config),
            clock=self.clock,
            rng=random.Random(1),
            run_blocking=self.run_blocking,
            connect=self.network.connect,
        )
        self.network.listen(ADDRESS, self.namesrv.server.attach)
        self.namesrv.start_loops()

    async def close(self) -> None:
        await self.namesrv.stop()

    async def talk(self) -> Talk:
        talk = Talk()
        await self.network.connect(ADDRESS, talk)
        return talk

    def set(self, **changes: Any) -> None:
        """Settings as if they had been changed over the wire."""
        self.namesrv.live.change("".join(f"{key}={value}\n" for key, value in changes.items()))


def broker_header(name: str = "broker-a", broker_id: int = 0, **other: Any) -> RegisterBroker:
    facts: dict[str, Any] = {
        "broker_addr": f"{name}-{broker_id}:10911",
        "cluster_name": "DefaultCluster",
        "ha_server_addr": f"{name}-{broker_id}:10912",
        "enable_acting_master": False,
    }
    return RegisterBroker(broker_name=name, broker_id=broker_id, **(facts | other))


def broker_body(topics: dict[str, TopicConfig], version: DataVersion | None = None, **other: Any) -> RegisterBrokerBody:
    wrapper = TopicConfigAndMappingSerializeWrapper(
        data_version=version or DataVersion(counter=1, timestamp=1), topic_config_table=topics, **other
    )
    return RegisterBrokerBody(topic_config_serialize_wrapper=wrapper)


async def register(talk: Talk, topics: dict[str, TopicConfig], header: RegisterBroker | None = None) -> Command:
    body = encode_registration(broker_body(topics))
    return await talk.ask(RequestCode.REGISTER_BROKER, header or broker_header(), body)
