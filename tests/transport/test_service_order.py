"""Fairness through the whole server, by order of service."""

from __future__ import annotations

from pyromq.protocol.requests import ROWS
from pyromq.protocol.requests import RequestCode as Code
from pyromq.protocol.row import RequestClass
from pyromq.testing.clock import ManualClock
from pyromq.transport.dispatch import Dispatcher, Reply, Request
from pyromq.transport.limits import Limits
from pyromq.transport.turns.fair_queue import class_of
from tests.transport.support import MakeServer, command, frames, raw_peer

SHARES = dict.fromkeys(RequestClass, 4)


class Recorder:
    """Answers everything and remembers in which order."""

    def __init__(self) -> None:
        self.served: list[tuple[str, int]] = []

    def __call__(self, request: Request) -> Reply:
        self.served.append((request.peer.address, request.command.code))
        return Reply()


async def test_one_greedy_connection_does_not_starve_others(make_server: MakeServer, clock: ManualClock) -> None:
    recorder = Recorder()
    server = make_server(recorder, Limits(shares=SHARES))
    greedy, modest = raw_peer(server, "greedy:1"), raw_peer(server, "modest:1")
    greedy.write(frames(*(command(Code.SEND_MESSAGE, opaque=n) for n in range(500))))
    modest.write(frames(command(Code.SEND_MESSAGE)))
    await modest.answers(1)
    await greedy.answers(500)
    place = recorder.served.index(("modest:1", Code.SEND_MESSAGE))
    assert place < 2 * SHARES[RequestClass.SEND], f"served after {place} requests of the greedy one"
    assert len(recorder.served) == 501


async def test_a_storm_of_administration_does_not_delay_heartbeats_sends_and_pulls(make_server: MakeServer) -> None:
    recorder = Recorder()
    server = make_server(recorder, Limits(shares=SHARES))
    storm, client = raw_peer(server, "storm:1"), raw_peer(server, "client:1")
    storm.write(frames(*(command(Code.GET_ALL_TOPIC_CONFIG, opaque=n) for n in range(500))))
    client.write(frames(command(Code.PULL_MESSAGE), command(Code.SEND_MESSAGE), command(Code.HEART_BEAT)))
    await client.answers(3)
    await storm.answers(500)
    mine = [code for address, code in recorder.served if address == "client:1"]
    assert mine == [Code.HEART_BEAT, Code.SEND_MESSAGE, Code.PULL_MESSAGE]
    last = max(place for place, (address, _) in enumerate(recorder.served) if address == "client:1")
    assert last < 20, f"served after {last - 2} administrative requests"


async def test_a_request_that_waits_lets_the_others_pass(make_server: MakeServer, clock: ManualClock) -> None:
    async def slow(request: Request) -> Reply:
        await clock.sleep(10)
        return Reply()

    server = make_server(Dispatcher({Code.QUERY_MESSAGE: slow, Code.GET_MAX_OFFSET: lambda _: Reply()}))
    peer = raw_peer(server)
    peer.write(frames(command(Code.QUERY_MESSAGE, opaque=1), command(Code.GET_MAX_OFFSET, opaque=2)))
    await peer.answers(1)
    assert peer.opaques == [2]
    await clock.advance(10)
    assert peer.opaques == [2, 1]


async def test_a_request_knows_when_it_came_and_the_server_how_many_wait(
    make_server: MakeServer, clock: ManualClock
) -> None:
    seen: list[tuple[float, int]] = []

    def look(request: Request) -> Reply:
        seen.append((request.arrived, server.service.waiting(RequestClass.QUERY)))
        return Reply()

    server = make_server(look, Limits(shares=SHARES))
    peer = raw_peer(server)
    await clock.advance(7)
    peer.write(frames(*(command(Code.GET_MAX_OFFSET, opaque=n) for n in range(6))))
    await peer.answers(6)
    assert seen == [(7.0, left) for left in (5, 4, 3, 2, 1, 0)]


def test_every_request_code_has_a_class_and_each_class_has_codes() -> None:
    assert {class_of(code) for code in ROWS} == set(RequestClass)
    assert class_of(Code.HEART_BEAT) is RequestClass.HEARTBEAT
    assert class_of(Code.REGISTER_BROKER) is RequestClass.HEARTBEAT
    assert class_of(Code.SEND_MESSAGE_V2) is RequestClass.SEND
    assert class_of(Code.POP_MESSAGE) is RequestClass.PULL
    assert class_of(Code.GET_ROUTEINFO_BY_TOPIC) is RequestClass.QUERY
    assert class_of(Code.DELETE_TOPIC_IN_BROKER) is RequestClass.ADMIN
    assert class_of(987_654) is RequestClass.ADMIN
