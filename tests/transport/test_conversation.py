"""Requests and responses between a server and a client, over streams in memory."""

from __future__ import annotations

import asyncio

import pytest

from pyromq.errors import CallTimedOut, ConnectionLost, ProtocolError, RequestRefused
from pyromq.model.client_info import Language
from pyromq.model.codes import ResponseCode
from pyromq.protocol.command import Command, Encoding
from pyromq.testing.clock import ManualClock
from pyromq.transport.dispatch import Dispatcher, Reply, Request
from pyromq.transport.peer import Peer
from tests.transport.support import ADDRESS, ECHO, MakeClient, MakeServer, command, echo, frames, raw_peer


async def test_a_call_is_answered(make_server: MakeServer, make_client: MakeClient) -> None:
    make_server(Dispatcher({ECHO: echo}))
    response = await make_client().call(ADDRESS, command(topic="T", body=b"hello"), timeout_s=3)
    assert (response.code, response.fields, response.body) == (ResponseCode.SUCCESS, {"topic": "T"}, b"hello")


async def test_pipelined_requests_are_answered_on_one_connection(make_server: MakeServer) -> None:
    server = make_server(Dispatcher({ECHO: echo}))
    peer = raw_peer(server)
    peer.write(frames(*(command(opaque=n, n=str(n)) for n in range(500))))
    answers = await peer.answers(500)
    assert {each.opaque: each.fields["n"] for each in answers} == {n: str(n) for n in range(500)}


async def test_a_frame_may_arrive_in_pieces_of_any_size(make_server: MakeServer) -> None:
    server = make_server(Dispatcher({ECHO: echo}))
    for chunk_bytes in (1, 3, 7, 64):
        peer = raw_peer(server, chunk_bytes=chunk_bytes)
        peer.write(frames(*(command(opaque=n, body=bytes(n)) for n in range(20))))
        assert sorted(len(each.body) for each in await peer.answers(20)) == list(range(20))


async def test_responses_may_overtake_each_other_by_opaque(make_server: MakeServer, make_client: MakeClient) -> None:
    first: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def wait_for_the_second(request: Request) -> Reply:
        if request.command.fields["n"] == "1":
            await first
        else:
            first.set_result(None)
        return echo(request)

    make_server(Dispatcher({ECHO: wait_for_the_second}))
    client = make_client()
    one, two = await asyncio.gather(*(client.call(ADDRESS, command(n=n), 3) for n in ("1", "2")))
    assert (one.fields["n"], two.fields["n"]) == ("1", "2")


async def test_both_encodings_are_answered_in_kind(make_server: MakeServer, make_client: MakeClient) -> None:
    make_server(Dispatcher({ECHO: echo}))
    for encoding in Encoding:
        request = command(topic="T")
        request.encoding = encoding
        assert (await make_client().call(ADDRESS, request, 3)).encoding is encoding


async def test_a_oneway_request_is_never_answered(make_server: MakeServer) -> None:
    served: list[int] = []

    def refuse(request: Request) -> Reply:
        served.append(request.command.opaque)
        raise RequestRefused("no")

    server = make_server(Dispatcher({ECHO: echo, 12: refuse}))
    peer = raw_peer(server)
    peer.write(
        frames(
            command(opaque=1, oneway=True),
            command(12, opaque=2, oneway=True),  # refused
            command(9999, opaque=3, oneway=True),  # not supported
            command(opaque=4),
        )
    )
    assert [each.opaque for each in await peer.answers(1)] == [4]
    peer.write(frames(command(opaque=5)))
    assert [each.opaque for each in await peer.answers(2)] == [4, 5]
    assert served == [2]


async def test_the_client_sends_oneway(make_server: MakeServer, make_client: MakeClient, clock: ManualClock) -> None:
    served: list[Command] = []
    make_server(Dispatcher({ECHO: lambda request: served.append(request.command)}))
    await make_client().send(ADDRESS, command(topic="T"))
    await clock.settle()
    assert [(each.is_oneway, each.fields) for each in served] == [(True, {"topic": "T"})]


async def test_the_server_calls_the_client(make_server: MakeServer, make_client: MakeClient) -> None:
    async def ask_back(request: Request) -> Reply:
        answer = await request.peer.call(command(40, question="who"), timeout_s=3)
        return Reply(fields=answer.fields)

    make_server(Dispatcher({ECHO: ask_back}))
    client = make_client(dispatch=Dispatcher({40: lambda request: Reply(fields=request.command.fields | {"i": "am"})}))
    response = await client.call(ADDRESS, command(), timeout_s=3)
    assert response.fields == {"question": "who", "i": "am"}


async def test_a_call_that_is_not_answered_times_out_alone(
    make_server: MakeServer, make_client: MakeClient, clock: ManualClock
) -> None:
    make_server(Dispatcher({ECHO: echo, 11: lambda request: None}))
    client = make_client()
    slow = asyncio.create_task(client.call(ADDRESS, command(11), timeout_s=3))
    await clock.advance(2.9)
    assert not slow.done()
    await clock.advance(0.2)
    with pytest.raises(CallTimedOut, match=r"server:1 did not answer request 11 within 3 s"):
        await slow
    assert (await client.call(ADDRESS, command(), timeout_s=3)).code == ResponseCode.SUCCESS


async def test_a_late_response_is_ignored(
    make_server: MakeServer, make_client: MakeClient, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "pyromq.transport")
    held: list[Request] = []
    make_server(Dispatcher({ECHO: echo, 11: held.append}))
    client = make_client()
    slow = asyncio.create_task(client.call(ADDRESS, command(11), timeout_s=1))
    await clock.advance(2)
    held[0].peer.send(Reply().to_command(held[0].command))
    with pytest.raises(CallTimedOut):
        await slow
    assert (await client.call(ADDRESS, command(n="1"), timeout_s=3)).fields == {"n": "1"}
    assert "response that nobody waits for" in caplog.text


async def test_a_handler_may_answer_later(make_server: MakeServer, make_client: MakeClient, clock: ManualClock) -> None:
    held: list[Request] = []
    make_server(Dispatcher({11: held.append}))
    pull = asyncio.create_task(make_client().call(ADDRESS, command(11), timeout_s=30))
    await clock.advance(15)
    held[0].peer.send(Reply(19, remark="no message").to_command(held[0].command))
    assert (await pull).code == 19


async def test_calls_fail_when_the_connection_ends(make_server: MakeServer, make_client: MakeClient) -> None:
    make_server(Dispatcher({ECHO: lambda request: request.peer.close("enough")}))
    with pytest.raises(ConnectionLost, match="connection to server:1 ended"):
        await make_client().call(ADDRESS, command(), timeout_s=3)


async def test_refusals_and_failures_become_response_codes(make_server: MakeServer, make_client: MakeClient) -> None:
    def refuse(request: Request) -> Reply:
        raise RequestRefused("topic T is not there: create it", ResponseCode.TOPIC_NOT_EXIST)

    async def refuse_later(request: Request) -> Reply:
        raise RequestRefused("later too", ResponseCode.NO_PERMISSION)

    def fail(request: Request) -> Reply:
        raise KeyError("a fault of ours")

    make_server(Dispatcher({1: refuse, 2: refuse_later, 3: fail}))
    client = make_client()
    answers = [await client.call(ADDRESS, command(code), 3) for code in (1, 2, 3, 4)]
    assert [(each.code, each.remark) for each in answers] == [
        (ResponseCode.TOPIC_NOT_EXIST, "topic T is not there: create it"),
        (ResponseCode.NO_PERMISSION, "later too"),
        (ResponseCode.SYSTEM_ERROR, "internal error, see the server's log"),
        (ResponseCode.REQUEST_CODE_NOT_SUPPORTED, " request type 4 not supported"),
    ]


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_protocol_error_in_a_handler_closes_the_connection(make_server: MakeServer, is_async: bool) -> None:
    def fail(request: Request) -> Reply:
        raise ProtocolError("body is no JSON")

    async def fail_later(request: Request) -> Reply:
        raise ProtocolError("body is no JSON")

    gone: list[Peer] = []
    server = make_server(Dispatcher({ECHO: fail_later if is_async else fail}), on_close=gone.append)
    peer = raw_peer(server)
    peer.write(frames(command()))
    await peer.lost()
    assert [each.address for each in gone] == ["peer:1000"]
    assert server.connections == 0


async def test_the_server_knows_its_peers_and_hears_of_their_end(make_server: MakeServer, clock: ManualClock) -> None:
    gone: list[Peer] = []
    server = make_server(Dispatcher({ECHO: echo}), on_close=gone.append)
    peer = raw_peer(server)
    peer.write(frames(Command(code=ECHO, language=Language.GO, version=317)))
    await peer.answers(1)
    known = list(server.peers())
    assert [(each.address, each.language, each.version, each.is_open) for each in known] == [
        ("peer:1000", Language.GO, 317, True)
    ]
    assert peer.stream is not None
    peer.stream.close()
    await clock.settle()
    assert gone == known
    assert not gone[0].is_open


async def test_sending_to_a_peer_that_is_gone_is_silent(make_server: MakeServer) -> None:
    gone: list[Peer] = []
    server = make_server(Dispatcher({ECHO: echo}), on_close=gone.append)
    peer = raw_peer(server)
    assert peer.stream is not None
    peer.stream.abort()
    await peer.lost()
    gone[0].send(command())
    with pytest.raises(ConnectionLost):
        await gone[0].call(command(), timeout_s=1)


async def test_what_a_peer_sent_before_it_left_is_served_and_then_its_end_is_told(
    make_server: MakeServer, clock: ManualClock
) -> None:
    """A consumer that shuts down sends its offsets one way and closes: none of them may be lost."""
    events: list[str] = []

    async def commit(request: Request) -> Reply:
        await clock.sleep(1)
        events.append(request.command.fields["n"])
        return Reply()

    server = make_server(
        Dispatcher({15: lambda request: events.append(request.command.fields["n"]), 30: commit}),
        on_close=lambda peer: events.append("closed"),
    )
    peer = raw_peer(server)
    sent = [str(n) for n in range(200)]  # more than a turn serves
    peer.write(frames(command(30, n="slow"), *(command(15, n=n, oneway=True) for n in sent)))
    assert peer.stream is not None
    peer.stream.close()
    await clock.settle()
    assert events == sent
    await clock.advance(1)
    assert events == [*sent, "slow", "closed"]
    assert server.connections == 0


async def test_what_a_peer_had_waiting_that_was_cut_off_is_dropped(make_server: MakeServer, clock: ManualClock) -> None:
    events: list[str] = []

    def serve(request: Request) -> None:
        if request.command.fields["n"] == "bad":
            raise ProtocolError("bad body")
        events.append(request.command.fields["n"])

    server = make_server(serve, on_close=lambda peer: events.append("closed"))
    peer = raw_peer(server)
    peer.write(frames(command(n="1"), command(n="bad"), *(command(n="after") for _ in range(500))))
    await peer.lost()
    await clock.settle()
    assert events == ["1", "closed"]
    assert server.connections == 0


async def test_a_listener_for_lost_connections_that_fails_stops_nothing(
    make_server: MakeServer, clock: ManualClock
) -> None:
    def fail(peer: Peer) -> None:
        raise KeyError("a fault of ours")

    server = make_server(Dispatcher({ECHO: echo}), on_close=fail)
    leaving, staying = raw_peer(server, "leaving:1"), raw_peer(server, "staying:1")
    leaving.write(frames(*(command(opaque=n) for n in range(100))))
    staying.write(frames(*(command(opaque=n) for n in range(100))))
    assert leaving.stream is not None
    leaving.stream.close()
    assert len(await staying.answers(100)) == 100
    assert server.connections == 1
