"""Plain SendMessage calls as frames for the broker's feed, and its answers as responses: what is taken and left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyromq.kernel import choice
from pyromq.kernel.grpc_sends import HotPeer, SendRules, TopicRules
from pyromq.kernel.http2 import CallBegun, Event, HalfClosed, Http2Limits, MessageArrived
from pyromq.kernel.seam import Fed, PendingReply
from pyromq.protocol.command import Command
from pyromq.protocol.frame import FrameLimits, decode_frames, encode_frame
from pyromq.protocol.grpc import v2
from pyromq.protocol.headers.send import SendMessageV2
from pyromq.protocol.properties import decode_properties
from pyromq.transport.dispatch import Reply
from tests.kernel.http2_peer import DATA, SEND, Peer, frame, framed, headers
from tests.support import require

OK = v2.Status(code=v2.Code.OK, message="OK")
RULES = SendRules(
    path=SEND,
    body_bytes=1000,
    properties=4,
    property_bytes=200,
    group_bytes=64,
    names=("KEYS", "TAGS", "__SHARDINGKEY", "TRACE_CONTEXT"),
    ok_status=OK.SerializeToString(),
)
TOPICS = {"A": TopicRules(4, True, False, "broker-a"), "Fifo": TopicRules(4, False, True, "broker-a")}


class Broker:
    """Judges topics, keeps the frames of a feed and answers them, or does with them what a test says."""

    def __init__(self) -> None:
        self.commands: list[Command] = []
        self.asked: list[str] = []
        self.outcome: Callable[[memoryview, bytes], Fed | bytes] = lambda _, answers: answers
        self.code = 0

    def judge(self, topic: str) -> TopicRules | None:
        self.asked.append(topic)
        return TOPICS.get(topic)

    def answer_of(self, code: int, remark: str) -> bytes:
        return v2.SendMessageResponse(status=v2.Status(code=50401, message=f"{code} {remark}")).SerializeToString()

    def feed(self, connection: object, received: memoryview) -> Fed | bytes:
        assert isinstance(connection, HotPeer)
        commands, used, _ = decode_frames(bytes(received), FrameLimits(1 << 24, 1 << 20))
        assert used == len(received)
        self.commands += commands
        answers = []
        for number, command in enumerate(commands):
            unique = decode_properties(command.fields["i"])["UNIQ_KEY"]
            fields = {"msgId": "0" * 32, "queueId": "0", "queueOffset": str(number * 300), "transactionId": unique}
            reply = Reply(code=self.code, remark="late" if self.code else None, fields=fields)
            answers.append(encode_frame(reply.to_command(command)))
        return self.outcome(received, b"".join(answers))


class Wire:
    """A client, a session and a broker between them."""

    def __init__(self, rules: SendRules = RULES) -> None:
        module = choice.native_http2()
        require(module is not None, "HTTP/2 is not built natively here: make native (it needs libnghttp2-dev)")
        assert module is not None
        self.broker = Broker()
        self.hot = module.HotSends(self.broker, self.broker.feed, rules)
        self.session: Any = module.Http2Session(Http2Limits())
        self.session.serve_hot(self.hot, HotPeer("10.0.0.7:5", "grpc"), "10.0.0.7:5")
        self.peer = Peer()
        self.exchange()

    def exchange(self) -> list[Event]:
        told: list[Event] = []
        while True:
            said = self.peer.said()
            told += self.session.receive(said) if said else ()
            answered = self.session.take_output()
            if answered:
                self.peer.hear(answered)
            if not said and not answered:
                return told

    def send(self, *requests: v2.SendMessageRequest, path: str = SEND, **more: Any) -> list[Event]:
        for number, request in enumerate(requests):
            self.peer.call(2 * number + 1, request.SerializeToString(), path=path, **more)
        return self.exchange()

    def response(self, stream: int) -> v2.SendMessageResponse:
        _, data, trailers, end = self.peer.answers[stream]
        assert (trailers, end) == ({"grpc-status": "0"}, "ended")
        assert isinstance(data, bytes)
        return v2.SendMessageResponse.FromString(data[5:])


def message(topic: str = "A", body: bytes = b"hello", **more: Any) -> v2.Message:
    made = v2.Message(topic=v2.Resource(name=topic), body=body)
    made.system_properties.message_id = "01ABCDEF"
    made.system_properties.born_host = "client-host"
    made.system_properties.born_timestamp.FromMilliseconds(1_700_000_000_123)
    for name, value in more.items():
        if name == "keys":
            made.system_properties.keys.extend(value)
        elif name == "born_timestamp":
            made.system_properties.born_timestamp.CopyFrom(value)
        else:
            setattr(made.system_properties, name, value)
    return made


def request(*messages: v2.Message) -> v2.SendMessageRequest:
    return v2.SendMessageRequest(messages=messages)


def test_a_plain_message_is_the_frame_of_a_remoting_client_and_its_answer_a_response() -> None:
    wire, sent = Wire(), message(tag="blue", keys=["k1", "k2"], trace_context="t", delivery_attempt=2, message_type=1)
    sent.user_properties["color"] = "red"
    assert wire.send(request(sent)) == []
    (command,) = wire.broker.commands
    header = SendMessageV2.from_fields(command.fields)
    assert (command.code, command.body, header.topic, header.producer_group) == (310, b"hello", "A", "A")
    assert (header.queue_id, header.sys_flag, header.born_timestamp, header.flag) == (0, 0, 1_700_000_000_123, 0)
    assert header.bname == "broker-a"
    assert header.properties == "".join(
        f"{name}\x01{value}\x02"
        for name, value in {
            "color": "red",
            "TAGS": "blue",
            "KEYS": "k1 k2",
            "UNIQ_KEY": "01ABCDEF",
            "RECONSUME_TIME": "2",
            "PGROUP": "A",
            "TRACE_CONTEXT": "t",
            "__BORNHOST": "client-host",
            "BORN_TIMESTAMP": "1700000000123",
        }.items()
    )
    entry = v2.SendResultEntry(status=OK, message_id="01ABCDEF", transaction_id="01ABCDEF")
    assert wire.response(1) == v2.SendMessageResponse(status=OK, entries=[entry])


def test_all_of_a_buffer_are_fed_at_once_in_turn_over_the_queues() -> None:
    wire = Wire()
    feeds: list[int] = []
    wire.broker.outcome = lambda received, answers: feeds.append(len(received)) or answers  # type: ignore[func-returns-value]
    assert wire.send(*(request(message(body=b"%d" % number)) for number in range(6))) == []
    assert len(feeds) == 1
    assert [command.fields["e"] for command in wire.broker.commands] == ["0", "1", "2", "3", "0", "1"]
    assert [wire.response(2 * number + 1).entries[0].offset for number in range(6)] == [300 * n for n in range(6)]
    assert wire.broker.asked == ["A"]
    assert wire.session.hot_calls == wire.hot.taken == 6


def test_messages_of_a_group_go_to_its_queue_by_guava_s_hash() -> None:
    wire = Wire()
    groups = ("a", "order-7", "x" * 63, "Zürich"[:1] + "urich", "12345")
    assert wire.send(*(request(message("Fifo", message_group=group)) for group in groups)) == []
    # computed by com.google.common.hash.Hashing.consistentHash(s.hashCode(), 4)'s rule, see proxy/queues.py
    assert [command.fields["e"] for command in wire.broker.commands] == [str(expected(group, 4)) for group in groups]
    stored = decode_properties(wire.broker.commands[1].fields["i"])
    assert stored["__SHARDINGKEY"] == "order-7"


def expected(group: str, buckets: int) -> int:
    value = 0
    for one in group:
        value = (value * 31 + ord(one)) & 0xFFFFFFFF
    state, candidate = (value - (1 << 32) if value >> 31 else value) & ((1 << 64) - 1), 0
    while True:
        state = (2862933555777941757 * state + 1) & ((1 << 64) - 1)
        following = int((candidate + 1) / (((state >> 33) + 1) / (1 << 31)))
        if following >= buckets:
            return candidate
        candidate = following


def with_user(name: str, value: str, count: int = 1) -> v2.Message:
    made = message()
    for number in range(count):
        made.user_properties[name + (str(number) if number else "")] = value
    return made


def later() -> v2.Message:
    made = message()
    made.system_properties.delivery_timestamp.FromMilliseconds(1_800_000_000_000)
    return made


NOT_PLAIN = {
    "none": request(),
    "two": request(message(), message()),
    "unknown topic": request(message("Unknown")),
    "group on a plain topic": request(message(message_group="g")),
    "no group on a fifo topic": request(message("Fifo")),
    "long group": request(message("Fifo", message_group="x" * 64)),
    "empty body": request(message(body=b"")),
    "large body": request(message(body=b"x" * 1001)),
    "transaction": request(message(message_type=4)),
    "delay": request(later()),
    "priority": request(message(priority=1)),
    "lite": request(message(lite_topic="l")),
    "blank id": request(message(message_id=" ")),
    "no id": request(message(message_id="")),
    "tag with a bar": request(message(tag="a|b")),
    "blank tag": request(message(tag="  ")),
    "control in a key": request(message(keys=["a\tb"])),
    "blank key": request(message(keys=[""])),
    "many keys": request(message(keys=[str(number) for number in range(17)])),
    "reserved name": request(with_user("TAGS", "x")),
    "sharding key by a property": request(with_user("__SHARDINGKEY", "x")),
    "more than ascii": request(with_user("color", "grün")),
    "control in a value": request(with_user("color", "a\x7f")),
    "empty value": request(with_user("color", "")),
    "many properties": request(with_user("a", "x", 5)),
    "large properties": request(with_user("a", "x" * 200)),
    "no time": request(message(born_timestamp=v2.Message().system_properties.born_timestamp)),
    "padded host": request(message(born_host=" host")),
}


@pytest.mark.parametrize("why", NOT_PLAIN)
def test_what_is_not_plain_is_python_s_untouched(why: str) -> None:
    wire, sent = Wire(), NOT_PLAIN[why].SerializeToString()
    wire.peer.call(1, sent)
    begun, *rest = wire.exchange()
    assert isinstance(begun, CallBegun)
    assert rest == [MessageArrived(1, sent), HalfClosed(1)]
    assert wire.broker.commands == []


@pytest.mark.parametrize(
    "more", [{"grpc_encoding": "gzip"}, {"x_mq_client_id": " "}, {"path": "/apache.rocketmq.v2.MessagingService/Other"}]
)
def test_calls_whose_headers_must_be_looked_at_are_python_s(more: dict[str, str]) -> None:
    wire = Wire()
    if "x_mq_client_id" in more:
        fields = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", SEND),
            (":authority", "x"),
            ("content-type", "application/grpc"),
        ]
        wire.peer.h2.send_headers(1, [*fields, ("x-mq-client-id", " ")])
        wire.peer.h2.send_data(1, framed(request(message()).SerializeToString()), end_stream=True)
        told = wire.exchange()
    else:
        told = wire.send(request(message()), **more)
    assert [type(one) for one in told] == [CallBegun, MessageArrived, HalfClosed]
    assert wire.broker.commands == []


def test_what_the_feed_leaves_is_python_s() -> None:
    wire = Wire()

    def leave(received: memoryview, answers: bytes) -> Fed:
        """The second one by its frame, the third because the feed stopped before it."""
        first = 4 + int.from_bytes(received[:4], "big")
        answer = 4 + int.from_bytes(answers[:4], "big")
        return Fed(2 * first, answers[:answer], (), [received[first : 2 * first]])

    wire.broker.outcome = leave
    sent = [request(message(body=b"%d" % number)) for number in range(3)]
    told = wire.send(*sent)
    assert [one for one in told if not isinstance(one, CallBegun)] == [
        MessageArrived(3, sent[1].SerializeToString()),
        HalfClosed(3),
        MessageArrived(5, sent[2].SerializeToString()),
        HalfClosed(5),
    ]
    assert wire.response(1).status == OK
    wire.session.finish(3, 8, "no")
    wire.exchange()
    assert wire.peer.answers[3][0]["grpc-status"] == "8"  # type: ignore[index]


def test_answers_that_wait_for_the_log_leave_when_they_are_handed_back_also_behind_a_goaway() -> None:
    wire = Wire()
    wire.broker.outcome = lambda received, answers: Fed(len(received), b"", [PendingReply(77, answers)])
    assert wire.send(request(message()), request(message())) == []
    assert wire.peer.answers == {}
    ((position, answers),) = wire.session.take_parked()
    assert position == 77
    assert wire.session.take_parked() == ()
    wire.peer.h2.reset_stream(3)
    assert wire.exchange() == []
    wire.session.goaway()
    assert wire.session.take_output()  # which h2 would take for the end
    wire.session.answer_parked(answers)
    assert wire.exchange() == []
    assert wire.response(1).status == OK
    assert 3 not in wire.peer.answers


def test_an_answer_of_another_code_is_the_proxy_s_to_word() -> None:
    wire = Wire()
    wire.broker.code = 10
    wire.send(request(message()))
    assert wire.response(1).status == v2.Status(code=50401, message="10 late")


def test_a_verdict_counts_until_it_is_revoked_and_behind_a_goaway_none_does() -> None:
    wire = Wire()
    wire.send(request(message()), request(message("Unknown")))
    wire.peer.call(5, request(message()).SerializeToString())
    wire.exchange()
    assert wire.broker.asked == ["A", "Unknown"]
    wire.hot.revoke("A")
    wire.peer.call(7, request(message()).SerializeToString())
    assert wire.exchange() == []
    assert wire.broker.asked == ["A", "Unknown", "A"]
    wire.session.goaway()
    wire.peer.call(9, request(message()).SerializeToString())
    wire.session.receive(wire.peer.said())
    assert len(wire.broker.commands) == 3


@pytest.mark.parametrize("step", [1, 5, 50])
def test_pieces_are_put_together(step: int) -> None:
    wire, sent = Wire(), request(message(body=b"x" * 700))
    wire.peer.call(1, sent.SerializeToString())
    said = wire.peer.said()
    assert [one for at in range(0, len(said), step) for one in wire.session.receive(said[at : at + step])] == []
    wire.exchange()
    assert [command.body for command in wire.broker.commands] == [b"x" * 700]
    assert wire.response(1).status == OK
    assert wire.session.pending_bytes == wire.session.unsent_bytes == wire.session.open_calls == 0


@pytest.mark.parametrize("extra", [b"\0" * 200, framed(b"more")], ids=["padding", "more"])
def test_a_message_whose_frame_ends_in_a_later_read_is_kept(extra: bytes) -> None:
    """The message is whole at the end of a read; what its frame still has comes in bytes that lie where it lay."""
    wire, sent = Wire(), framed(request(message(body=b"x" * 300)).SerializeToString())
    wire.peer.h2.send_headers(1, headers())
    wire.session.receive(wire.peer.said())
    is_padding = not any(extra)
    payload = bytes((len(extra),)) + sent + extra if is_padding else sent + extra
    said = frame(DATA, payload, 1, 1 | (8 if is_padding else 0))
    cut = len(said) - len(extra)
    read = bytearray(said[:cut])
    assert wire.session.receive(read) == []
    read[:] = b"?" * len(read)
    told = wire.session.receive(said[cut:])
    if is_padding:
        assert [command.body for command in wire.broker.commands] == [b"x" * 300]
    else:
        assert [one for one in told if isinstance(one, MessageArrived)] == [
            MessageArrived(1, sent[5:]),
            MessageArrived(1, b"more"),
        ]
    wire.session.take_output()
    assert wire.session.pending_bytes == 0


def test_two_messages_in_a_unary_call_and_one_without_any_are_python_s() -> None:
    wire, sent = Wire(), request(message()).SerializeToString()
    wire.peer.call(1, sent, sent)
    wire.peer.call(3)
    told = [one for one in wire.exchange() if not isinstance(one, CallBegun)]
    assert told == [MessageArrived(1, sent), MessageArrived(1, sent), HalfClosed(1), HalfClosed(3)]


def test_a_message_without_a_host_has_the_peer_s_address() -> None:
    wire = Wire()
    assert wire.send(request(message(born_host=""))) == []
    assert decode_properties(wire.broker.commands[0].fields["i"])["__BORNHOST"] == "10.0.0.7:5"
