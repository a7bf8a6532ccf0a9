"""Who has not shown who he is gets little: a flood of strangers beside signed clients, over real sockets."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from pyromq.ambient import SystemClock
from pyromq.config import Loaded
from pyromq.errors import ConfigError, ConnectionLost
from pyromq.kernel.seam import Fed, FeedConnection
from pyromq.metrics.settings import Exporter
from pyromq.namesrv.config import NamesrvConfig
from pyromq.namesrv.server import NameServer
from pyromq.protocol.command import Command
from pyromq.protocol.frame import encode_frame
from pyromq.protocol.requests import RequestCode as Code
from pyromq.testing.clock import ManualClock
from pyromq.transport.address import parse_address
from pyromq.transport.client import RemotingClient
from pyromq.transport.connection.strangers import Strangers
from pyromq.transport.limits import StrangerLimits
from tests.access.matrix import ON, SUPER, is_refused, signed
from tests.broker.running import Running, running_broker, turns_until
from tests.metrics.scraping import scrape, value

ATTACKER = "127.0.0.2"
FRAME = 4 << 20
Socket = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def send_of(body: bytes, **more: str) -> Command:
    fields = {"producerGroup": "P", "topic": "T", "defaultTopic": "TBW102", "defaultTopicQueueNums": "1"}
    fields |= {"queueId": "0", "sysFlag": "0", "bornTimestamp": "1700000000000", "flag": "0", "properties": ""}
    return Command(code=Code.SEND_MESSAGE, fields=fields | more, body=body)


def strangers_of(broker: Running) -> Strangers:
    found = broker.broker.listeners.servers[0].strangers
    assert found is not None
    return found


@asynccontextmanager
async def sockets(address: str, count: int, source: str = ATTACKER) -> AsyncIterator[list[Socket]]:
    host, port = parse_address(address)
    opened = [await asyncio.open_connection(host, port, local_addr=(source, 0)) for _ in range(count)]
    try:
        yield opened
    finally:
        for _, writer in opened:
            writer.transport.abort()
            with suppress(OSError):
                await writer.wait_closed()


async def ended(stream: Socket) -> bool:
    """Return whether the server has closed this connection; wait for that."""
    with suppress(ConnectionError):
        await stream[0].read()
    return True


async def ask(broker: Running, command: Command) -> Command:
    return await broker.client.call(broker.address, signed(command, SUPER), 20)


async def test_a_flood_of_strangers_fills_its_own_places_alone(tmp_path: Path) -> None:
    limits: dict[str, Any] = {"stranger_connections_per_address": 20, "stranger_connections": 24}
    async with running_broker(tmp_path, **ON, **limits) as broker:
        strangers = strangers_of(broker)
        async with sockets(broker.address, 30) as flood:
            await asyncio.gather(*(ended(each) for each in flood[20:]))
            assert strangers.refused == {"stranger_connections_per_address": 10}
            for number in range(10):
                assert (await ask(broker, send_of(b"%d" % number))).code == 0
            assert strangers.connections == 20  # the signed client is no stranger any more
            async with sockets(broker.address, 6, "127.0.0.3") as more:
                await asyncio.gather(*(ended(each) for each in more[4:]))
                assert strangers.refused["stranger_connections"] == 2
                assert (await ask(broker, send_of(b"x"))).code == 0
        await turns_until(lambda: not strangers.connections)


async def test_strangers_leave_half_of_the_connections_of_a_listener(tmp_path: Path) -> None:
    async with running_broker(tmp_path, **ON, max_connections=6) as broker, sockets(broker.address, 6) as flood:
        await asyncio.gather(*(ended(each) for each in flood[3:]))
        assert strangers_of(broker).refused == {"stranger_connections": 3}
        flood[0][1].transport.abort()
        await turns_until(lambda: strangers_of(broker).connections == 2)
        assert (await ask(broker, send_of(b"x"))).code == 0


async def test_a_first_send_of_four_megabytes_passes_beside_a_flood_of_bytes(tmp_path: Path) -> None:
    large: dict[str, Any] = {"commit_log_file_bytes": 4 * FRAME, "stranger_bytes": 2 * FRAME}
    async with running_broker(tmp_path, **ON, **large) as broker:
        strangers = strangers_of(broker)
        whole = encode_frame(send_of(bytes(FRAME)))
        async with sockets(broker.address, 12) as flood:
            for _, writer in flood:
                writer.write(whole[: 1 << 20])  # none of them ends
            await turns_until(lambda: strangers.refused["stranger_bytes"] >= 4)
            assert 0 < strangers.held <= 2 * FRAME
            assert (await ask(broker, send_of(bytes(FRAME)))).code == 0
            assert strangers.held <= 2 * FRAME
            assert broker.client._connections  # the signed one is there still
        await turns_until(lambda: not strangers.held)


class Cut:
    """A connection whose bytes are kept after it was cut: its requests are in work."""

    is_open = True

    def violation(self, event: str, **fields: object) -> None:
        self.is_open = False

    def recognised(self) -> None:
        raise AssertionError("nobody has shown who he is")


def test_no_more_are_cut_off_than_have_what_is_too_much() -> None:
    strangers = Strangers(StrangerLimits(held_bytes=1000), ManualClock())
    peers = [Cut() for _ in range(11)]
    for peer in peers:
        stranger = strangers.welcome(ATTACKER)
        stranger.meet(peer)
        stranger.hold(100)
    assert [peer.is_open for peer in peers] == [False] + [True] * 10
    assert strangers.refused == {"stranger_bytes": 1}


@pytest.mark.parametrize("how", ["silent", "trickle", "refused"])
async def test_a_stranger_has_little_time_and_does_not_gain_any(tmp_path: Path, how: str) -> None:
    async with running_broker(tmp_path, **ON, stranger_seconds=1) as broker:
        assert (await ask(broker, send_of(b"first"))).code == 0
        peer = next(iter(broker.client._connections))
        async with sockets(broker.address, 1) as [stream]:
            frame = encode_frame(send_of(b"x"))
            closed = asyncio.create_task(ended(stream))
            for number in range(len(frame)):
                if closed.done():
                    break
                if how != "silent":
                    stream[1].write(frame if how == "refused" else frame[number : number + 1])
                await asyncio.wait((closed,), timeout=0.05)
            assert await closed
        assert strangers_of(broker).refused == {"stranger_seconds": 1}
        assert (await ask(broker, send_of(b"second"))).code == 0
        assert next(iter(broker.client._connections)) is peer  # who is known stays


async def test_the_parser_for_strangers_is_strict_until_they_are_known(tmp_path: Path) -> None:
    async with running_broker(tmp_path, **ON) as broker:
        long = send_of(b"x", more="y" * (100 << 10))
        many = send_of(b"x", **{f"f{number}": "y" for number in range(200)})
        for command in (long, many):
            async with sockets(broker.address, 1) as [stream]:
                stream[1].write(encode_frame(signed(command, SUPER)))
                assert await ended(stream)
        assert strangers_of(broker).refused == {"stranger_frame": 2}
        assert (await ask(broker, send_of(b"first"))).code == 0
        for command in (long, many):
            assert (await ask(broker, command)).code == 0


async def test_no_kernel_sees_a_byte_of_a_stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_broker(tmp_path, **ON) as broker:
        assert (await ask(broker, send_of(b"makes the topic"))).code == 0
        service, fed = broker.broker.listeners.servers[0].service, list[str]()
        feed = service.feed

        def watched(connection: FeedConnection, received: memoryview) -> Fed | bytes:
            fed.append(connection.address)
            return feed(connection, received)

        monkeypatch.setattr(service, "feed", watched)
        async with RemotingClient(clock=SystemClock(), rng=random.Random(2)) as client:
            for secret in ("guessed", "guessed again"):
                assert is_refused(await client.call(broker.address, signed(send_of(b"x"), SUPER, secret), 20))
            assert fed == []
            assert (await client.call(broker.address, signed(send_of(b"x"), SUPER), 20)).code == 0
            assert fed == []
            assert (await client.call(broker.address, signed(send_of(b"x"), SUPER), 20)).code == 0
            assert len(fed) == 1


async def test_many_refused_requests_end_a_connection(tmp_path: Path) -> None:
    async with running_broker(tmp_path, **(ON | {"stranger_refusals": 3})) as broker:
        for _ in range(2):
            assert is_refused(await broker.client.call(broker.address, signed(send_of(b"x"), SUPER, "guessed"), 20))
        with pytest.raises(ConnectionLost):
            await broker.client.call(broker.address, signed(send_of(b"x"), SUPER, "guessed"), 20)
        assert strangers_of(broker).refused == {"stranger_refusals": 1}


async def test_who_is_let_in_by_a_white_list_stays_a_stranger(tmp_path: Path) -> None:
    listed: dict[str, Any] = {"authentication_whitelist": "10", "authorization_whitelist": "10"}
    async with running_broker(tmp_path, **(ON | listed | {"stranger_refusals": 2})) as broker:
        for _ in range(5):
            assert (await broker.client.call(broker.address, send_of(b"x"), 20)).code == 0
        assert strangers_of(broker).connections == 1


async def test_strangers_are_counted_in_metrics(tmp_path: Path) -> None:
    scraped: dict[str, Any] = {"metrics_exporter_type": Exporter.PROM, "metrics_prom_exporter_port": 0}
    settings = ON | scraped | {"stranger_refusals": 1}
    async with running_broker(tmp_path, **settings) as broker, sockets(broker.address, 2):
        with pytest.raises(ConnectionLost):
            await broker.client.call(broker.address, send_of(b"x"), 20)
        await turns_until(lambda: strangers_of(broker).connections == 2)
        found = await scrape(broker.broker.metering.exporting.address)
    assert value(found, "pyromq_strangers") == 2
    assert value(found, "pyromq_stranger_bytes") == 0
    assert value(found, "pyromq_strangers_refused_total", limit="stranger_refusals") == 1


async def test_with_authentication_off_nobody_is_a_stranger(tmp_path: Path) -> None:
    async with running_broker(tmp_path, stranger_seconds=1, stranger_connections=1, stranger_refusals=1) as broker:
        assert all(server.strangers is None for server in broker.broker.listeners.servers)
        async with sockets(broker.address, 5) as five:
            assert (await broker.send("T")).code == 0
            assert not any(reader.at_eof() for reader, _ in five)


async def test_a_name_server_has_the_same_limits(tmp_path: Path) -> None:
    more: dict[str, Any] = {"stranger_connections_per_address": 2}
    config = NamesrvConfig(kv_config_path=tmp_path / "kv.json", listen_port=0, tls_test_mode_enable=False, **ON, **more)
    server = NameServer(Loaded(config), clock=SystemClock(), rng=random.Random(1))
    address = await server.listen()
    async with sockets(address, 4) as flood, RemotingClient(clock=SystemClock(), rng=random.Random(2)) as client:
        await asyncio.gather(*(ended(each) for each in flood[2:]))
        asked = signed(Command(code=Code.GET_BROKER_CLUSTER_INFO), SUPER)
        assert (await client.call(address, asked, 20)).code == 0
    await server.stop()


async def test_what_may_be_held_must_hold_a_first_request(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="strangerBytes = 1000000: the first request of a connection may have"):
        async with running_broker(tmp_path, **ON, stranger_bytes=1_000_000):
            pass
