"""A master for a follower's tests: a store, the questions that it answers, and its log as a stream, both in memory.

It sends what the test says: the log as it is, in pieces of any size, or something that no slave may take.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from pyromq.broker.registration import Identity
from pyromq.broker.replication.following.follower import Follower, FollowSettings, MasterPlace
from pyromq.protocol.bodies.body import encode_body
from pyromq.protocol.bodies.route import KVTable
from pyromq.protocol.replication.classic import ReportReader, encode_header
from pyromq.protocol.requests import RequestCode as Code
from pyromq.store.message_store import MessageStore
from pyromq.testing.clock import ManualClock
from pyromq.transport.client import RemotingClient
from pyromq.transport.dispatch import Dispatcher, Reply, Request
from pyromq.transport.memory import MemoryNetwork
from pyromq.transport.server import Server

PLACE = MasterPlace("master:10911", "master:10912")
OWN = Identity(cluster="C", broker_name="a", address="slave:10911", broker_id=1)


class Stream(asyncio.Protocol):
    """One slave's connection."""

    def __init__(self, master: ScriptedMaster) -> None:
        self._master, self._reader = master, ReportReader()
        self.reports: list[int] = []
        self.is_lost = False
        self.sent = -1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        report = self._reader.receive(data)
        if report is None:
            return
        self.reports.append(report)
        if self.sent < 0:
            size = self._master.store.commit_log.file_bytes
            end = self._master.store.commit_log.end
            self.sent = report or end - end % size
        self.go_on()

    def go_on(self) -> None:
        """Send all that is there, as the master's script turns it."""
        log, piece = self._master.store.commit_log, self._master.piece
        while self._master.sends and self.sent < log.end:
            data = log.read(self.sent, min(piece, log.end - self.sent))
            header = encode_header(self.sent, len(data))
            self.sent += len(data)
            self.transport.write(header + self._master.turned(self.sent - len(data), data))

    def heartbeat(self) -> None:
        self.transport.write(encode_header(self.sent, 0))

    def connection_lost(self, _: Exception | None) -> None:
        self.is_lost = True


class ScriptedMaster:
    """Event loop only."""

    def __init__(self, store: MessageStore, clock: ManualClock, network: MemoryNetwork, piece: int = 1000) -> None:
        self.store, self.piece, self.network = store, piece, network
        self.sends = True
        self.turned: Callable[[int, bytes], bytes] = lambda position, data: data
        self.settings = {"brokerClusterName": "C", "brokerName": "a", "brokerRole": "ASYNC_MASTER"}
        self.file_bytes = store.commit_log.file_bytes
        self.streams: list[Stream] = []
        handlers = {
            Code.GET_BROKER_CONFIG.code: self._show_settings,
            Code.GET_BROKER_RUNTIME_INFO.code: self._show_runtime,
            Code.VIEW_MESSAGE_BY_ID.code: self._show_record,
        }
        self._server = Server(Dispatcher(handlers), clock=clock)
        self.come()

    def come(self) -> None:
        self.network.listen(PLACE.address, self._server.attach)
        self.network.listen(PLACE.ha_address, self._attach)

    def go(self) -> None:
        """Cut the streams; nobody listens any more."""
        self.network.unlisten(PLACE.address)
        self.network.unlisten(PLACE.ha_address)
        for stream in self.streams:
            stream.transport.abort()

    def _attach(self, transport: asyncio.Transport) -> None:
        stream = Stream(self)
        self.streams.append(stream)
        transport.set_protocol(stream)
        stream.connection_made(transport)

    def _show_settings(self, _: Request) -> Reply:
        lines = self.settings | {"mappedFileSizeCommitLog": str(self.file_bytes)}
        text = "".join(f"{key}={value}\n" for key, value in lines.items())
        return Reply(fields={"version": "{}"}, body=text.encode())

    def _show_runtime(self, _: Request) -> Reply:
        log = self.store.commit_log
        return Reply(
            body=encode_body(KVTable(table={"commitLogMinOffset": str(log.start), "commitLogMaxOffset": str(log.end)}))
        )

    def _show_record(self, request: Request) -> Reply:
        position = int(request.command.fields["offset"])
        size = int.from_bytes(self.store.commit_log.read(position, 4), "big")
        return Reply(body=self.store.commit_log.read(position, size)) if size else Reply(code=1, remark="nothing there")


class Following:
    """A follower of that master, on its own store, and its task."""

    def __init__(
        self, store: MessageStore, clock: ManualClock, network: MemoryNetwork, settings: FollowSettings | None = None
    ) -> None:
        self.store, self.clock = store, clock
        self.place: MasterPlace | None = PLACE
        self.looks = self.joins = 0
        self.client = RemotingClient(clock=clock, rng=random.Random(1), connect=network.connect)
        self.follower = Follower(
            store=store,
            identity=OWN,
            client=self.client,
            connect=network.connect,
            clock=clock,
            rng=random.Random(2),
            settings=settings or FollowSettings(),
            find=lambda: self.place,
            look=self._look,
            no_master=lambda: "no master is known",
            joined=self._joined,
        )

    def _look(self) -> None:
        self.looks += 1

    def _joined(self) -> None:
        self.joins += 1

    async def __aenter__(self) -> Following:
        self._task = asyncio.create_task(self.follower.run())
        await self.clock.settle()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self.client.close()
