"""The front door of the SDK: `connect` gives a `Client`, which makes producers and consumers over shared connections.

async with pyromq.connect("127.0.0.1:9876") as client:
    async with client.producer() as producer:
        await producer.send("orders", {"id": 1})
"""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self

from ..ambient import Clock, Random, SystemClock, system_random
from ..transport.client import Connect
from .config import ClientConfig, name_servers
from .outgoing import Packing
from .producer import DEFAULT_GROUP, Producer
from .sending import SendPolicy
from .session import Session


def connect(namesrv: str | Iterable[str] | None = None, **settings: Any) -> Client:
    """A client of the cluster behind these name servers: argument, else PYROMQ_NAMESRV, NAMESRV_ADDR, 127.0.0.1:9876.

    Nothing is opened before `async with`. Further settings are those of `ClientConfig`.
    """
    return Client(ClientConfig(name_servers=name_servers(namesrv), **settings))


class Client:
    """Event loop only. Leaving its `async with` block stops what it made: consumers first, then producers."""

    def __init__(
        self,
        config: ClientConfig,
        *,
        clock: Clock | None = None,
        rng: Random | None = None,
        connect: Connect | None = None,
    ) -> None:
        self.session = Session(config, clock=clock or SystemClock(), rng=rng or system_random(), connect=connect)
        self._producers: list[Producer] = []

    @property
    def client_id(self) -> str:
        """What brokers call us."""
        return self.session.client_id

    async def start(self) -> None:
        self.session.start()

    async def stop(self) -> None:
        for producer in self._producers:
            await producer.stop()
        await self.session.stop()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def producer(
        self, group: str = DEFAULT_GROUP, *, policy: SendPolicy | None = None, packing: Packing | None = None
    ) -> Producer:
        """Retries and time-outs are the policy's, compression and sizes the packing's."""
        producer = Producer(self.session, group, policy, packing)
        self._producers.append(producer)
        return producer
