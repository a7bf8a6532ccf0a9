"""Each limit: what happens at it, and the one line that names peer, limit and value."""

from __future__ import annotations

import struct

import pytest

from pyromq.errors import ConfigError
from pyromq.machine.connection_quota import ConnectionQuota
from pyromq.model.codes import ResponseCode
from pyromq.protocol.command import Command, Encoding
from pyromq.protocol.frame import FrameLimits
from pyromq.protocol.requests import RequestCode as Code
from pyromq.protocol.row import RequestClass
from pyromq.testing.clock import ManualClock
from pyromq.transport.dispatch import Dispatcher, Reply, Request
from pyromq.transport.limits import Limits
from tests.transport.support import ADDRESS, ECHO, MakeClient, MakeServer, command, echo, frames, raw_peer, violations

Logs = pytest.LogCaptureFixture


# --- frames ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wire", "fault"),
    [
        (struct.pack(">iI", 0x7FFF_FFFF, 100), "frame length 2147483647 is outside 4 to 1000"),
        (struct.pack(">iI", -5, 100), "frame length -5 is outside 4 to 1000"),
        (struct.pack(">iI", 1001, 10), "frame length 1001 is outside 4 to 1000"),
        (struct.pack(">iI", 100, 200), "header length 200 is more than the frame's 96"),
        (struct.pack(">iI", 900, 600), "header length 600 is over the limit of 500"),
        (struct.pack(">iI", 20, 9 << 24 | 10) + bytes(16), "unknown serialize type 9"),
        (frames(Command(code=1, fields={f"f{n}": "" for n in range(11)})), "11 header fields, the limit is 10"),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "frame length 1195725856 is outside 4 to 1000"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "the peer speaks HTTP/2, as gRPC clients do: give it the address"),
        (b"\x16\x03\x01\x02\x00\x01\x00", "the peer speaks TLS, which is disabled here"),
    ],
)
async def test_a_frame_over_a_limit_closes_its_connection(
    make_server: MakeServer, caplog: Logs, wire: bytes, fault: str
) -> None:
    server = make_server(
        Dispatcher({ECHO: echo}), Limits(frame=FrameLimits(frame_bytes=1000, header_bytes=500, header_fields=10))
    )
    other = raw_peer(server, "other:1")
    peer = raw_peer(server, "bad:1")
    peer.write(wire)
    await peer.lost()
    (line,) = violations(caplog)
    assert line["peer"] == "bad:1"
    assert fault in str(line["fault"])
    other.write(frames(command(opaque=7)))
    assert (await other.answers(1))[0].opaque == 7


async def test_a_length_word_alone_costs_no_memory(make_server: MakeServer, clock: ManualClock) -> None:
    """Sixteen megabytes are announced, ten bytes arrive: ten bytes are held."""
    server = make_server(Dispatcher({ECHO: echo}))
    peer = raw_peer(server)
    peer.write(struct.pack(">iI", 16 << 20, 100) + b"{}")
    await clock.settle()
    assert server.service.buffered_bytes == 10


async def test_message_properties_over_the_limit_are_refused(make_server: MakeServer, caplog: Logs) -> None:
    server = make_server(Dispatcher({Code.SEND_MESSAGE: echo, Code.SEND_MESSAGE_V2: echo}), Limits(property_bytes=20))
    peer = raw_peer(server)
    peer.write(
        frames(
            command(Code.SEND_MESSAGE, opaque=1, properties="x" * 20),
            command(Code.SEND_MESSAGE, opaque=2, properties="x" * 21),
            command(Code.SEND_MESSAGE_V2, opaque=3, i="ü" * 11),
            command(Code.SEND_MESSAGE_V2, opaque=4, properties="x" * 100, i="ok"),  # no properties of this form
        )
    )
    codes = {each.opaque: (each.code, each.remark) for each in await peer.answers(4)}
    assert codes[1] == (0, None)
    assert codes[4] == (0, None)
    for opaque, size in ((2, 21), (3, 22)):
        remark = f"message properties of {size} bytes, the limit (property_bytes) is 20: put data into the body"
        assert codes[opaque] == (ResponseCode.MESSAGE_ILLEGAL, remark)
    assert violations(caplog) == [
        {"event": "request refused", "peer": "peer:1000", "limit": "property_bytes", "value": 20}
    ]


@pytest.mark.parametrize("encoding", list(Encoding))
async def test_an_answer_over_the_limit_becomes_an_error(
    make_server: MakeServer, caplog: Logs, encoding: Encoding
) -> None:
    def large(request: Request) -> Reply:
        return Reply(body=bytes(2000)) if request.command.opaque == 1 else Reply(fields={"f": "x" * 1600})

    server = make_server(Dispatcher({ECHO: large}), Limits(frame=FrameLimits(frame_bytes=1500, header_bytes=500)))
    peer = raw_peer(server)
    for opaque in (1, 2):
        request = command(opaque=opaque)
        request.encoding = encoding
        peer.write(frames(request))
    for answer in await peer.answers(2):
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "bytes (the limit is 1500): ask for less" in (answer.remark or "")
        assert answer.encoding is encoding
    (line,) = violations(caplog)
    assert (line["event"], line["peer"]) == ("answer too large", "peer:1000")


@pytest.mark.parametrize("encoding", list(Encoding))
async def test_an_answer_whose_header_is_longer_than_24_bits_can_say_becomes_an_error(
    make_server: MakeServer, encoding: Encoding
) -> None:
    server = make_server(
        Dispatcher({ECHO: lambda _: Reply(fields={"f": "x" * (1 << 24)})}),
        Limits(frame=FrameLimits(frame_bytes=1 << 30)),
    )
    peer = raw_peer(server)
    request = command(opaque=3)
    request.encoding = encoding
    peer.write(frames(request))
    (answer,) = await peer.answers(1)
    assert (answer.opaque, answer.code) == (3, ResponseCode.SYSTEM_ERROR)
    assert "which does not fit the 24 bits of its length: ask for less" in (answer.remark or "")


async def test_an_answer_may_have_a_longer_header_than_a_request(make_server: MakeServer) -> None:
    """A batch is answered with an id for each of its messages."""
    server = make_server(
        Dispatcher({ECHO: lambda _: Reply(fields={"f": "x" * 600})}), Limits(frame=FrameLimits(header_bytes=500))
    )
    peer = raw_peer(server)
    peer.write(frames(command(opaque=3)))
    (answer,) = await peer.answers(1)
    assert (answer.code, len(answer.fields["f"])) == (ResponseCode.SUCCESS, 600)


async def test_an_answer_that_cannot_be_encoded_becomes_an_error(make_server: MakeServer) -> None:
    server = make_server(Dispatcher({ECHO: lambda _: Reply(fields={"bad": "\ud800"})}))
    peer = raw_peer(server)
    peer.write(frames(command(opaque=3)))
    (answer,) = await peer.answers(1)
    assert (answer.opaque, answer.code) == (3, ResponseCode.SYSTEM_ERROR)


# --- connections -----------------------------------------------------------------------------------------------------


async def test_connections_over_the_limit_are_refused_until_one_is_gone(
    make_server: MakeServer, clock: ManualClock, caplog: Logs
) -> None:
    server = make_server(Dispatcher({ECHO: echo}), Limits(connections=2))
    first, second, third = (raw_peer(server, f"peer{n}:1") for n in range(3))
    await third.lost()
    assert violations(caplog) == [
        {"event": "connection refused", "peer": "peer2:1", "limit": "connections", "value": 2}
    ]
    second.write(frames(command()))
    await second.answers(1)
    assert first.stream is not None
    first.stream.close()
    await clock.settle()
    fourth = raw_peer(server, "peer3:1")
    fourth.write(frames(command()))
    await fourth.answers(1)


async def test_connections_per_address_are_counted_by_host(
    make_server: MakeServer, clock: ManualClock, caplog: Logs
) -> None:
    server = make_server(Dispatcher({ECHO: echo}), Limits(connections_per_address=2))
    mine = [raw_peer(server, f"greedy:{port}") for port in (1, 2, 3)]
    other = raw_peer(server, "other:1")
    await mine[2].lost()
    other.write(frames(command()))
    await other.answers(1)
    assert violations(caplog) == [
        {"event": "connection refused", "peer": "greedy:3", "limit": "connections_per_address", "value": 2}
    ]
    assert mine[0].stream is not None
    mine[0].stream.abort()
    await clock.settle()
    again = raw_peer(server, "greedy:4")
    again.write(frames(command()))
    await again.answers(1)


async def test_per_address_is_off_by_default(make_server: MakeServer, clock: ManualClock) -> None:
    server = make_server(Dispatcher({ECHO: echo}))
    for port in range(200):
        raw_peer(server, f"same:{port}")
    await clock.settle()
    assert server.connections == 200


async def test_listeners_of_one_process_share_its_descriptors_and_none_takes_them_all(
    make_server: MakeServer, clock: ManualClock, caplog: Logs
) -> None:
    quota = ConnectionQuota(16)
    main = make_server(Dispatcher({ECHO: echo}), quota=quota)
    fast = make_server(Dispatcher({ECHO: echo}), quota=quota, address="server:2")
    flood = [raw_peer(main, f"flood:{port}") for port in range(20)]
    await flood[-1].lost()
    assert [peer.is_lost for peer in flood] == [False] * 14 + [True] * 6
    assert {key: violations(caplog)[0][key] for key in ("event", "limit", "value")} == {
        "event": "connection refused",
        "limit": "open files",
        "value": 16,
    }
    honest = [raw_peer(fast, f"honest:{port}") for port in range(3)]
    honest[1].write(frames(command()))
    await honest[1].answers(1)
    await honest[2].lost()
    for peer in flood:
        assert peer.stream is not None
        peer.stream.abort()
    await clock.settle()
    late = raw_peer(main, "late:1")
    late.write(frames(command()))
    await late.answers(1)
    assert quota.in_use == 3


async def test_many_violations_share_one_log_line(make_server: MakeServer, clock: ManualClock, caplog: Logs) -> None:
    server = make_server(Dispatcher({}), Limits(connections=1))
    peers = [raw_peer(server, f"peer{n}:1") for n in range(50)]
    for peer in peers[1:]:
        await peer.lost()
    assert len(violations(caplog)) == 1
    await clock.advance(6)
    raw_peer(server, "later:1")
    assert violations(caplog)[1]["held_back"] == 48


# --- slow, half-open and idle peers ----------------------------------------------------------------------------------


async def test_a_peer_that_never_says_anything_is_closed(
    make_server: MakeServer, clock: ManualClock, caplog: Logs
) -> None:
    peer = raw_peer(make_server(Dispatcher({})))
    await clock.advance(29)
    assert not peer.is_lost
    await clock.advance(2)
    assert peer.is_lost
    assert violations(caplog) == [{"event": "slow peer", "peer": "peer:1000", "limit": "opening_s", "value": 30.0}]


async def test_a_frame_must_be_complete_in_time(make_server: MakeServer, clock: ManualClock, caplog: Logs) -> None:
    peer = raw_peer(make_server(Dispatcher({ECHO: echo})))
    wire = frames(command(body=bytes(1000)))
    peer.write(wire + wire[:20])  # whole frames before do not help
    for _ in range(5):
        await clock.advance(10)
        peer.write(wire[20:21])  # nor does a byte now and then
    await clock.advance(9)
    assert not peer.is_lost
    await clock.advance(2)
    assert peer.is_lost
    assert violations(caplog) == [{"event": "slow peer", "peer": "peer:1000", "limit": "frame_s", "value": 60.0}]


async def test_frames_that_keep_coming_in_pieces_are_not_slow(make_server: MakeServer, clock: ManualClock) -> None:
    """Each read ends inside a frame, for longer than a frame may take: each frame has its own time."""
    peer = raw_peer(make_server(Dispatcher({ECHO: echo})))
    wire = frames(command(body=bytes(100)))
    peer.write(wire[:50])
    for _ in range(20):
        await clock.advance(10)
        peer.write(wire[50:] + wire[:50])
    await clock.advance(10)
    assert not peer.is_lost
    assert len(peer.received) == 20


async def test_an_idle_connection_is_closed_after_120_s(
    make_server: MakeServer, clock: ManualClock, caplog: Logs
) -> None:
    peer = raw_peer(make_server(Dispatcher({ECHO: echo})))
    peer.write(frames(command()))
    await peer.answers(1)
    await clock.advance(119)
    peer.write(frames(command()))
    await clock.advance(119)
    assert not peer.is_lost
    await clock.advance(2)
    assert peer.is_lost
    assert violations(caplog) == []  # an ordinary event


async def test_what_the_server_writes_keeps_a_connection_alive(make_server: MakeServer, clock: ManualClock) -> None:
    held: list[Request] = []
    peer = raw_peer(make_server(Dispatcher({ECHO: held.append})))
    peer.write(frames(command()))
    await clock.advance(100)
    held[0].peer.send(command(40))
    await clock.advance(100)
    assert not peer.is_lost
    await clock.advance(30)
    assert peer.is_lost


async def test_the_client_closes_idle_connections_too(
    make_server: MakeServer, make_client: MakeClient, clock: ManualClock
) -> None:
    server = make_server(Dispatcher({ECHO: echo}), Limits(idle_s=10_000))
    client = make_client()
    await client.call(ADDRESS, command(), timeout_s=3)
    await clock.advance(119)
    assert server.connections == 1
    await clock.advance(2)
    assert server.connections == 0


async def test_a_closed_connection_leaves_no_timer(make_server: MakeServer, clock: ManualClock) -> None:
    peer = raw_peer(make_server(Dispatcher({ECHO: echo})))
    peer.write(frames(command()) + b"\0\0")
    await peer.answers(1)
    assert clock.timers > 0
    assert peer.stream is not None
    peer.stream.close()
    await clock.settle()
    assert clock.timers == 0


# --- overload --------------------------------------------------------------------------------------------------------


async def test_requests_over_the_queue_of_a_class_are_refused_as_busy(make_server: MakeServer, caplog: Logs) -> None:
    server = make_server(Dispatcher({Code.SEND_MESSAGE: echo, Code.HEART_BEAT: echo}), Limits(queued_requests=10))
    peer = raw_peer(server)
    sends = [command(Code.SEND_MESSAGE, opaque=n) for n in range(15)]
    peer.write(frames(*sends, command(Code.HEART_BEAT, opaque=99)))
    answers = {each.opaque: each for each in await peer.answers(16)}
    assert [n for n in range(15) if answers[n].code == ResponseCode.SYSTEM_BUSY] == [10, 11, 12, 13, 14]
    assert answers[10].remark == (
        "[OVERLOAD] 10 send requests wait, which is the limit (queued_requests): try again later"
    )
    assert answers[99].code == ResponseCode.SUCCESS  # another class is not touched
    assert violations(caplog) == [
        {"event": "request refused", "peer": "peer:1000", "limit": "queued_requests", "value": 10}
    ]


# --- the settings themselves -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "setting",
    [
        {"idle_s": 0},
        {"connections": 0},
        {"write_high_bytes": -1},
        {"shares": {RequestClass.SEND: 1}},
        {"write_high_bytes": 100, "write_max_bytes": 99},
    ],
)
def test_limits_that_cannot_work_are_refused(setting: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=next(iter(setting))):
        Limits(**setting)  # type: ignore[arg-type]
