"""The client's connections: reuse, one attempt for all, back-off, going away, closing."""

from __future__ import annotations

import asyncio
import random

import pytest

from pyromq.errors import CallTimedOut, ConfigError, ConnectionLost, RequestTooLarge
from pyromq.model.codes import ResponseCode
from pyromq.protocol.frame import FrameLimits
from pyromq.testing.clock import ManualClock
from pyromq.transport.client import Reconnect
from pyromq.transport.dispatch import Dispatcher, Reply, Request
from pyromq.transport.limits import Limits
from pyromq.transport.memory import MemoryNetwork, pair
from pyromq.transport.peer import Peer
from tests.transport.support import ADDRESS, ECHO, MakeClient, MakeServer, command, echo


class Attempts:
    """Counts attempts to connect and decides how they end."""

    def __init__(self, network: MemoryNetwork, clock: ManualClock) -> None:
        self.network = network
        self.clock = clock
        self.at: list[float] = []
        self.takes_s = 0.0

    async def __call__(self, address: str, protocol: asyncio.BaseProtocol) -> None:
        self.at.append(self.clock.monotonic())
        await self.clock.sleep(self.takes_s)
        await self.network.connect(address, protocol)


@pytest.fixture
def attempts(network: MemoryNetwork, clock: ManualClock) -> Attempts:
    return Attempts(network, clock)


async def test_one_connection_serves_all_calls_to_an_address(
    make_server: MakeServer, make_client: MakeClient, attempts: Attempts
) -> None:
    server = make_server(Dispatcher({ECHO: echo}))
    client = make_client(connect=attempts)
    await asyncio.gather(*(client.call(ADDRESS, command(), 3) for _ in range(100)))
    await client.call(ADDRESS, command(), 3)
    assert len(attempts.at) == 1
    assert server.connections == 1


async def test_a_connection_that_is_reset_before_its_peer_can_be_asked_for_has_its_name(
    make_client: MakeClient,
) -> None:
    async def reset(address: str, protocol: asyncio.BaseProtocol) -> None:
        near, _ = pair("client:1", address)
        near._extra["peername"] = None  # type: ignore[attr-defined] # what getpeername makes of a socket that is gone
        near.set_protocol(protocol)
        protocol.connection_made(near)
        protocol.connection_lost(ConnectionResetError("reset by peer"))

    with pytest.raises(ConnectionLost, match=f"the connection to {ADDRESS} ended: reset by peer"):
        await make_client(connect=reset).call(ADDRESS, command(), 3)


async def test_calls_wait_for_the_same_attempt(
    make_server: MakeServer, make_client: MakeClient, attempts: Attempts, clock: ManualClock
) -> None:
    make_server(Dispatcher({ECHO: echo}))
    attempts.takes_s = 2
    client = make_client(connect=attempts)
    impatient = asyncio.create_task(client.call(ADDRESS, command(), timeout_s=1))
    patient = asyncio.create_task(client.call(ADDRESS, command(n="1"), timeout_s=5))
    await clock.advance(3)
    with pytest.raises(CallTimedOut, match="server:1 was not reached within 1 s"):
        await impatient
    assert (await patient).fields == {"n": "1"}
    assert len(attempts.at) == 1


async def test_a_lost_connection_is_made_again(
    make_server: MakeServer, make_client: MakeClient, attempts: Attempts, clock: ManualClock
) -> None:
    gone: list[Peer] = []
    server = make_server(Dispatcher({ECHO: echo}))
    client = make_client(connect=attempts, on_close=gone.append)
    for _ in range(3):
        assert (await client.call(ADDRESS, command(), 3)).code == ResponseCode.SUCCESS
        for peer in server.peers():
            peer.close("test")
        await clock.settle()
    assert len(attempts.at) == 3
    assert len(gone) == 3


async def test_failed_attempts_are_put_off_longer_each_time(
    make_client: MakeClient, make_server: MakeServer, attempts: Attempts, clock: ManualClock
) -> None:
    client = make_client(connect=attempts, reconnect=Reconnect(first_s=1, most_s=8))
    for _ in range(400):  # ten calls a second for forty seconds
        with pytest.raises(ConnectionLost):
            await client.call(ADDRESS, command(), 3)
        await clock.advance(0.1)
    gaps = [later - earlier for earlier, later in zip(attempts.at, attempts.at[1:], strict=False)]
    for gap, full in zip(gaps, (1, 2, 4, 8, 8, 8), strict=False):
        assert full / 2 <= gap <= full + 0.2
    assert 6 <= len(attempts.at) <= 13

    make_server(Dispatcher({ECHO: echo}))
    await clock.advance(8)
    assert (await client.call(ADDRESS, command(), 3)).code == ResponseCode.SUCCESS


async def test_a_success_makes_the_delay_short_again(
    make_server: MakeServer, make_client: MakeClient, network: MemoryNetwork, clock: ManualClock
) -> None:
    client = make_client(reconnect=Reconnect(first_s=1, most_s=100))
    for _ in range(5):
        with pytest.raises(ConnectionLost):
            await client.call(ADDRESS, command(), 3)
        await clock.advance(100)
    server = make_server(Dispatcher({ECHO: echo}))
    await client.call(ADDRESS, command(), 3)
    network.unlisten(ADDRESS)
    for peer in server.peers():
        peer.close("test")
    await clock.settle()
    with pytest.raises(ConnectionLost, match="cannot connect to server:1: nobody listens"):
        await client.call(ADDRESS, command(), 3)
    with pytest.raises(ConnectionLost, match=r"server:1 not reached \(nobody listens.*next attempt in [01]\.\d s"):
        await client.call(ADDRESS, command(), 3)


def test_delays_are_spread_by_chance_and_bounded() -> None:
    reconnect, rng = Reconnect(first_s=0.1, most_s=10), random.Random(1)
    delays = [reconnect.delay_s(5, rng) for _ in range(1000)]
    assert 0.8 <= min(delays) < 0.85 < 1.55 < max(delays) <= 1.6
    assert reconnect.delay_s(10_000, rng) <= 10
    with pytest.raises(ConfigError):
        Reconnect(first_s=2, most_s=1)


async def test_an_attempt_has_its_own_time(make_client: MakeClient, attempts: Attempts, clock: ManualClock) -> None:
    attempts.takes_s = 100
    call = asyncio.create_task(
        make_client(connect=attempts, reconnect=Reconnect(attempt_s=3)).call(ADDRESS, command(), timeout_s=30)
    )
    await clock.advance(4)
    with pytest.raises(ConnectionLost, match="cannot connect to server:1: no answer within 3 s"):
        await call


async def test_a_server_that_goes_away_is_left(
    make_server: MakeServer, make_client: MakeClient, attempts: Attempts, clock: ManualClock
) -> None:
    async def slow(request: Request) -> Reply:
        await clock.sleep(5)
        return Reply(remark="finished")

    make_server(Dispatcher({ECHO: lambda _: Reply(ResponseCode.GO_AWAY), 12: slow}))
    client = make_client(connect=attempts)
    pending = asyncio.create_task(client.call(ADDRESS, command(12), 30))
    await clock.settle()
    assert (await client.call(ADDRESS, command(), 3)).code == ResponseCode.GO_AWAY
    make_server(Dispatcher({ECHO: echo}))  # the next one at that address
    assert (await client.call(ADDRESS, command(n="1"), 3)).fields == {"n": "1"}
    assert len(attempts.at) == 2
    await clock.advance(5)
    assert (await pending).remark == "finished"


async def test_closing_fails_what_waits_and_refuses_what_comes(
    make_server: MakeServer, make_client: MakeClient, attempts: Attempts, clock: ManualClock
) -> None:
    server = make_server(Dispatcher({ECHO: lambda _: None}))
    client = make_client(connect=attempts)
    waiting = asyncio.create_task(client.call(ADDRESS, command(), 30))
    await clock.settle()
    attempts.takes_s = 10
    connecting = asyncio.create_task(client.call("other:1", command(), 30))
    await clock.settle()
    await client.close()
    for call in (waiting, connecting):
        with pytest.raises(ConnectionLost):
            await call
    with pytest.raises(ConnectionLost, match="this client is closed"):
        await client.call(ADDRESS, command(), 3)
    await clock.settle()
    assert server.connections == 0
    assert clock.timers == 0


async def test_cancelling_a_call_leaves_nothing_behind(
    make_server: MakeServer, make_client: MakeClient, clock: ManualClock
) -> None:
    make_server(Dispatcher({ECHO: lambda _: None, 12: echo}))
    client = make_client()
    call = asyncio.create_task(client.call(ADDRESS, command(), 30))
    await clock.settle()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert (await client.connect(ADDRESS)).pending_calls == 0
    assert (await client.call(ADDRESS, command(12), 3)).code == ResponseCode.SUCCESS


async def test_a_request_over_the_frame_limit_is_not_sent(make_server: MakeServer, make_client: MakeClient) -> None:
    make_server(Dispatcher({ECHO: echo}))
    client = make_client(limits=Limits(frame=FrameLimits(frame_bytes=1000)))
    with pytest.raises(RequestTooLarge, match=r"request 30 cannot be sent to server:1: it is a frame of \d+ bytes"):
        await client.call(ADDRESS, command(body=bytes(2000)), 3)
    assert (await client.call(ADDRESS, command(), 3)).code == ResponseCode.SUCCESS


async def test_a_server_that_sends_garbage_is_left(
    make_client: MakeClient, network: MemoryNetwork, clock: ManualClock
) -> None:
    class Garbage(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            transport.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")  # type: ignore[attr-defined]

    def attach(stream: asyncio.Transport) -> None:
        protocol = Garbage()
        stream.set_protocol(protocol)
        protocol.connection_made(stream)

    network.listen(ADDRESS, attach)
    with pytest.raises(ConnectionLost, match="bad bytes from a peer"):
        await make_client().call(ADDRESS, command(), 3)


NO_ADDRESSES = ["nowhere", "host:", ":9876", "host:99999", "host:port", "host:²", "a\0:1", "a" * 999, "h:" + "9" * 5000]


@pytest.mark.parametrize("address", NO_ADDRESSES)
async def test_what_is_no_address_is_said_so(make_client: MakeClient, address: str) -> None:
    """As of a place that is not reached: others name addresses too, and one of them may be none."""
    with pytest.raises(ConnectionLost, match="is no address: write host:port"):
        await make_client().call(address, command(), 3)


async def test_an_end_that_is_told_late_does_not_disturb_the_next_connection(
    make_server: MakeServer, make_client: MakeClient, attempts: Attempts, clock: ManualClock
) -> None:
    """The old connection still has a request of the server in work when the new one is being made."""

    async def slow(request: Request) -> Reply:
        await clock.sleep(5)
        return Reply()

    peers: list[Peer] = []
    server = make_server(Dispatcher({ECHO: lambda request: peers.append(request.peer) or Reply()}))  # type: ignore[func-returns-value]
    client = make_client(connect=attempts, dispatch=Dispatcher({40: slow}), reconnect=Reconnect(attempt_s=20))
    await client.call(ADDRESS, command(), 3)
    asked = asyncio.create_task(peers[0].call(command(40), timeout_s=30))
    await clock.settle()
    peers[0].close("test")
    await clock.settle()
    attempts.takes_s = 10
    again = asyncio.create_task(client.call(ADDRESS, command(), timeout_s=30))
    await clock.advance(15)
    assert (await again).code == ResponseCode.SUCCESS
    await client.call(ADDRESS, command(), 3)
    assert len(attempts.at) == 2
    assert server.connections == 1
    with pytest.raises(ConnectionLost):
        await asked


async def test_connections_to_others_have_a_share_of_their_own(
    make_server: MakeServer, make_client: MakeClient
) -> None:
    for number in range(4):
        make_server(Dispatcher({ECHO: echo}), address=f"server:{number}")
    client = make_client(limits=Limits(connections=2))
    for address in ("nobody:1", "nobody:2", "nobody:3"):  # not reached, so forgotten when there is no place
        with pytest.raises(ConnectionLost):
            await client.call(address, command(), timeout_s=3)
    for number in range(2):
        assert (await client.call(f"server:{number}", command(), timeout_s=3)).code == 0
    with pytest.raises(ConnectionLost, match=r"server:2: there are connections to 2 others, which is the share"):
        await client.call("server:2", command(), timeout_s=3)
    assert (await client.call("server:1", command(), timeout_s=3)).code == 0
