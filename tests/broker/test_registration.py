"""BrokerRegistration: each name server on its own, changes coalesced, a unregister at the end."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from pyromq.broker.registration import BrokerRegistration, Identity, RegistrationFacts
from pyromq.protocol.bodies.body import DataVersion
from pyromq.protocol.bodies.registration import body_crc
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.protocol.frame import FrameLimits
from pyromq.protocol.headers.namesrv import QueryDataVersionAnswer, RegisterBroker
from pyromq.protocol.requests import RequestCode
from pyromq.testing.clock import ManualClock
from pyromq.transport.client import RemotingClient
from pyromq.transport.dispatch import Dispatcher, Handler, Reply, Request
from pyromq.transport.limits import Limits
from pyromq.transport.memory import MemoryNetwork
from pyromq.transport.server import Server
from tests.wire import decode_registration

IDENTITY = Identity(cluster="C", broker_name="broker-a", address="127.0.0.1:10911", ha_address="127.0.0.1:10912")


class NameServer:
    """Answers as a name server would, and remembers what it was told."""

    def __init__(self, network: MemoryNetwork, clock: ManualClock, address: str) -> None:
        self.registrations: list[tuple[RegisterBroker, list[str]]] = []
        self.versions: list[DataVersion] = []
        self.questions = 0
        self.farewells = 0
        self.body = b""
        self.remark: str | None = None
        self.master: dict[str, str] = {}
        self.changed = False
        self.hang: asyncio.Event | None = None
        self._network, self._address = network, address
        handlers: dict[int, Handler] = {
            RequestCode.REGISTER_BROKER: self._register,
            RequestCode.QUERY_DATA_VERSION: self._question,
            RequestCode.UNREGISTER_BROKER: self._farewell,
        }
        self.server = Server(Dispatcher(handlers), clock=clock)
        network.listen(address, self.server.attach)

    async def _register(self, request: Request) -> Reply:
        if self.hang is not None:
            await self.hang.wait()
        header = request.header
        assert header.body_crc32 == body_crc(request.raw_body)
        body = decode_registration(request.raw_body, request.command.version)
        self.versions.append(body.topic_config_serialize_wrapper.data_version)
        self.registrations.append((header, sorted(body.topic_config_serialize_wrapper.topic_config_table)))
        return Reply(fields=self.master, body=self.body, remark=self.remark)

    def _question(self, request: Request) -> Reply:
        self.questions += 1
        return Reply(header=QueryDataVersionAnswer(changed=self.changed))

    def _farewell(self, request: Request) -> Reply:
        self.farewells += 1
        return Reply()

    def drop_connections(self) -> None:
        for peer in self.server.peers():
            peer.close("the name server is restarted")

    def leave(self) -> None:
        self._network.unlisten(self._address)
        self.drop_connections()


class Setting:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.network = MemoryNetwork()
        self.topics = {name: TopicConfig(topic_name=name) for name in ("A", "B")}
        self.version = DataVersion(counter=1, timestamp=1)
        self.ordered: list[str] = []
        self.identity = IDENTITY

    def server(self, address: str) -> NameServer:
        return NameServer(self.network, self.clock, address)

    @asynccontextmanager
    async def registration(self, *addresses: str, frame_bytes: int = 16 << 20) -> AsyncIterator[BrokerRegistration]:
        client = RemotingClient(
            clock=self.clock,
            rng=random.Random(1),
            limits=Limits(frame=FrameLimits(frame_bytes=frame_bytes)),
            connect=self.network.connect,
            on_close=lambda peer: made.lost(peer),
        )
        made = BrokerRegistration(
            client,
            self.clock,
            self.identity,
            addresses,
            lambda: RegistrationFacts(self.version, self.topics),
            rng=random.Random(1),
            period_s=30,
            timeout_s=24,
            frame_bytes=frame_bytes,
            order_topics=self.ordered.extend,
        )
        running = asyncio.create_task(made.run())
        try:
            await self.clock.settle()
            yield made
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await client.close()

    def change(self, name: str) -> None:
        self.topics[name] = TopicConfig(topic_name=name)
        self.version = DataVersion(counter=self.version.counter + 1, timestamp=1)


@pytest.fixture
def setting() -> Setting:
    return Setting()


async def test_every_name_server_is_told_in_full_and_later_only_asked(setting: Setting) -> None:
    first, second = setting.server("a:1"), setting.server("b:1")
    async with setting.registration("a:1", "b:1") as registration:
        await registration.registered(1)
        for server in (first, second):
            header, topics = server.registrations[0]
            assert (header.broker_name, header.broker_addr, header.ha_server_addr) == (
                "broker-a",
                "127.0.0.1:10911",
                "127.0.0.1:10912",
            )
            assert topics == ["A", "B"]
        await setting.clock.advance(31)
        assert [len(server.registrations) for server in (first, second)] == [1, 1]
        assert [server.questions for server in (first, second)] == [1, 1]


async def test_a_slave_registers_in_full_each_time_and_so_learns_of_its_master(setting: Setting) -> None:
    first, second = setting.server("a:1"), setting.server("b:1")
    setting.identity = replace(IDENTITY, broker_id=1)
    async with setting.registration("a:1", "b:1") as registration:
        assert first.registrations[0][0].broker_id == 1
        assert registration.master() is None
        second.master = {"masterAddr": "m:1", "haServerAddr": "m:2"}
        await setting.clock.advance(31)
        assert first.questions == 0
        told = registration.master()
        assert told is not None
        assert (told.master_addr, told.ha_server_addr) == ("m:1", "m:2")
        first.master = {"masterAddr": "n:1", "haServerAddr": "n:2"}  # they differ: the first in the list counts
        second.master = {}  # it does not know the master any more: it may come back
        await setting.clock.advance(31)
        told = registration.master()
        assert told is not None
        assert told.master_addr == "n:1"
        first.leave()
        await setting.clock.advance(31)
        assert registration.master() == told


async def test_a_hung_name_server_delays_nobody_else(setting: Setting) -> None:
    hung, lively = setting.server("a:1"), setting.server("b:1")
    hung.hang = asyncio.Event()
    async with setting.registration("a:1", "b:1") as registration:
        assert len(lively.registrations) == 1
        for name in ("C", "D"):
            setting.change(name)
            registration.announce()
            await setting.clock.settle()
        assert lively.registrations[-1][1] == ["A", "B", "C", "D"]
        assert hung.registrations == []


async def test_who_waits_for_the_registration_waits_for_all_but_only_so_long(setting: Setting) -> None:
    hung, _ = setting.server("a:1"), setting.server("b:1")
    hung.hang = asyncio.Event()
    async with setting.registration("a:1", "b:1", "nobody:1") as registration:
        short, long = (asyncio.create_task(registration.registered(seconds)) for seconds in (1, 5))
        await setting.clock.advance(0.9)
        assert not short.done()
        await setting.clock.advance(0.1)
        assert (short.done(), long.done()) == (True, False)
        hung.hang.set()
        await setting.clock.settle()
        assert (long.done(), len(hung.registrations)) == (True, 1)


async def test_changes_during_a_registration_share_the_next(setting: Setting) -> None:
    server = setting.server("a:1")
    server.hang = asyncio.Event()
    async with setting.registration("a:1") as registration:
        for number in range(50):
            setting.change(f"T{number}")
            registration.announce()
            await setting.clock.settle(2)
        server.hang.set()
        await setting.clock.settle()
        assert len(server.registrations) == 2
        assert len(server.registrations[-1][1]) == 52


async def test_a_change_is_told_once_more_a_period_later(setting: Setting) -> None:
    """A deletion on its way from the brokers to the name servers may have taken what was announced meanwhile."""
    server = setting.server("a:1")
    async with setting.registration("a:1") as registration:
        setting.change("C")
        registration.announce()
        await setting.clock.settle(100)
        assert [topics for _, topics in server.registrations] == [["A", "B"], ["A", "B", "C"]]
        await setting.clock.advance(31)
        assert [topics for _, topics in server.registrations][2:] == [["A", "B", "C"]]
        await setting.clock.advance(60)
        assert (len(server.registrations), server.questions) == (3, 2)


async def test_a_name_server_that_knows_nothing_is_told_again(setting: Setting) -> None:
    server = setting.server("a:1")
    async with setting.registration("a:1"):
        server.changed = True
        await setting.clock.advance(31)
        assert len(server.registrations) == 2


async def test_a_lost_connection_is_made_up_for_at_once(setting: Setting) -> None:
    server = setting.server("a:1")
    async with setting.registration("a:1"):
        server.changed = True
        server.drop_connections()
        await setting.clock.settle(100)
        assert len(server.registrations) == 2


async def test_a_name_server_that_comes_late_is_found(setting: Setting) -> None:
    async with setting.registration("a:1") as registration:
        await setting.clock.advance(3)
        assert "cannot connect" in registration.state()["a:1"] or "could not be reached" in registration.state()["a:1"]
        server = setting.server("a:1")
        await setting.clock.advance(25)
        assert len(server.registrations) == 1
        assert registration.state() == {"a:1": "registered"}


async def test_the_farewell_reaches_all_and_waits_for_nobody_for_long(setting: Setting) -> None:
    first, gone, last = setting.server("a:1"), setting.server("b:1"), setting.server("c:1")
    async with setting.registration("a:1", "b:1", "c:1") as registration:
        gone.leave()
        await registration.unregister()
        assert (first.farewells, gone.farewells, last.farewells) == (1, 0, 1)


async def test_topics_that_the_name_server_declares_as_ordered_are_passed_on(setting: Setting) -> None:
    server = setting.server("a:1")
    server.body = b'{"table":{"Orders":"broker-a:2"}}'
    async with setting.registration("a:1"):
        assert setting.ordered == ["Orders"]


async def test_topics_that_the_name_server_left_out_are_logged_and_told_again_until_it_takes_them(
    setting: Setting, caplog: pytest.LogCaptureFixture
) -> None:
    server = setting.server("a:1")
    server.remark = "1 new topics are left out, the limit (maxTopics) is 1"
    async with setting.registration("a:1"):
        assert "the limit (maxTopics) is 1" in caplog.text
        await setting.clock.advance(31)
        assert len(server.registrations) == 2
        server.remark = None
        await setting.clock.advance(31)
        assert len(server.registrations) == 3
        await setting.clock.advance(31)
        assert (len(server.registrations), server.questions) == (3, 1)


def test_what_the_broker_may_not_do_none_of_its_topics_may() -> None:
    (body,) = RegistrationFacts(DataVersion(), {"T": TopicConfig(topic_name="T", perm=6)}, permission=4).bodies(1 << 20)
    assert decode_registration(body, 513).topic_config_serialize_wrapper.topic_config_table["T"].perm == 4


async def test_a_table_that_is_larger_than_a_frame_goes_in_parts(setting: Setting) -> None:
    setting.topics = {name: TopicConfig(topic_name=name) for name in (f"topic-{n:04}" for n in range(2001))}
    server = setting.server("a:1")
    async with setting.registration("a:1", frame_bytes=200_000) as registration:
        await setting.clock.settle(200)
        assert registration.state() == {"a:1": "registered"}
        assert [len(topics) for _, topics in server.registrations] == [667, 667, 667]
        assert sorted(name for _, topics in server.registrations for name in topics) == sorted(setting.topics)
        assert len({version.timestamp for version in server.versions}) == 3  # or the second part would count as known
        assert server.versions[-1] == setting.version
        await setting.clock.advance(31)
        assert (len(server.registrations), server.questions) == (3, 1)


async def test_a_registration_that_cannot_be_sent_is_complained_of_again_and_again(
    setting: Setting, caplog: pytest.LogCaptureFixture
) -> None:
    setting.topics = {
        "A": TopicConfig(topic_name="A", attributes={"+x": "y" * 60_000}),
        "B": TopicConfig(topic_name="B"),
    }
    setting.server("a:1")
    async with setting.registration("a:1", frame_bytes=50_000) as registration:
        await setting.clock.advance(600)
        assert "50000" in registration.state()["a:1"]
    lines = [line for line in caplog.messages if "the registration is too large" in line and "frameMaxLength" in line]
    assert 5 <= len(lines) <= 15


async def test_many_topics_are_not_registered_without_a_break(setting: Setting) -> None:
    """Each new topic makes the whole table be told: a flood of them must not keep the event loop with that alone."""
    setting.topics = {name: TopicConfig(topic_name=name) for name in (f"topic-{n:04}" for n in range(4000))}
    server = setting.server("a:1")
    async with setting.registration("a:1") as registration:
        for number in range(100):
            setting.change(f"flood-{number}")
            registration.announce()
            await setting.clock.advance(0.01)
        assert 2 <= len(server.registrations) <= 8
        await setting.clock.advance(1)
        assert "flood-99" in server.registrations[-1][1]


async def test_a_name_server_that_is_away_for_a_day_is_still_tried(setting: Setting) -> None:
    """After 1,024 failures the pause was a number that no float holds, and that ended the broker."""
    async with setting.registration("away:1") as registration:
        await setting.clock.advance(hours=4)
        server = setting.server("away:1")
        await setting.clock.advance(seconds=30)
        assert registration.state() == {"away:1": "registered"}
        assert server.registrations


async def test_a_fault_of_ours_in_telling_a_name_server_is_tried_again(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = setting.server("a:1")
    bodies = RegistrationFacts.bodies

    def broken(self: RegistrationFacts, most_bytes: int) -> object:
        monkeypatch.setattr(RegistrationFacts, "bodies", bodies)
        raise KeyError("a fault of ours")

    monkeypatch.setattr(RegistrationFacts, "bodies", broken)
    async with setting.registration("a:1") as registration:
        await setting.clock.advance(5)
        assert registration.state() == {"a:1": "registered"}
        assert server.registrations
