"""Mutated receives, acks and changes at the native session. Also in `make sanitize`.

Whatever the kernel takes Python must have read the same way; whatever it leaves is told as it came. By hand:
`PYROMQ_FUZZ_FRAMES=1000000 pytest tests/kernel/test_grpc_pops_fuzz.py`. A failure names its seed.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from typing import Any

from google.protobuf.message import DecodeError

from pyromq.broker.wiring.grpc_pops import MEANINGS
from pyromq.broker.wiring.grpc_sends import send_rules
from pyromq.kernel import choice
from pyromq.kernel.grpc_pops import AckVerdict, HandedMessages, PopRules, ReceiveVerdict
from pyromq.kernel.grpc_sends import HotPeer, TopicRules
from pyromq.kernel.http2 import Http2Limits, MessageArrived
from pyromq.kernel.seam import NOTHING, Fed
from pyromq.model.ids import pack_host
from pyromq.model.receipt import decode_receipt
from pyromq.protocol.command import Command
from pyromq.protocol.frame import FrameLimits, decode_frames, encode_frame
from pyromq.protocol.grpc import v2
from pyromq.protocol.headers.pop import ChangeInvisibleTimeAnswer, PopMessageAnswer
from pyromq.protocol.record import Record, decode_record, encode_record
from pyromq.proxy.config import ProxySettings
from pyromq.proxy.messages.convert import message_of
from pyromq.proxy.methods import PATH
from pyromq.transport.dispatch import Reply
from tests.kernel.grpc_client import ack, change, wish
from tests.kernel.http2_peer import Peer
from tests.support import require

FRAMES = int(os.environ.get("PYROMQ_FUZZ_FRAMES", "4000"))
NOW = 1_700_000_000_000
OK = v2.Status(code=v2.Code.OK, message="OK").SerializeToString()
RECEIPT = f"5 {NOW} 30000 1 0 broker-a 2 7 1234"
WORDS = (
    b"",
    b"a\x01b\x02",
    b"\x02",
    b"TAGS\x01t\x02",
    b"KEYS\x01 a  b \x02",
    b"n\x01v",
    b"POP_CK\x01" + RECEIPT.encode(),
)
RULES = PopRules(
    receive_path=PATH + "ReceiveMessage",
    ack_path=PATH + "AckMessage",
    change_path=PATH + "ChangeInvisibleDuration",
    broker="broker-a",
    least_poll_ms=5000,
    most_poll_ms=20000,
    reserve_ms=50,
    least_invisible_ms=10,
    most_invisible_ms=43_200_000,
    renewed_ms=60_000,
    messages=32,
    names=MEANINGS,
    ok_status=OK,
    no_match=b"\x0a\x02\x08\x01",
)


class Broker:
    """Judges, answers each frame with records of its own, and checks that Python reads the same from the request."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.asked: dict[int, tuple[str, bytes]] = {}
        self.taken = 0
        self.records: list[bytes] = []

    # --- the proxy ------------------------------------------------------------------------------------------------

    def judge(self, topic: str) -> TopicRules | None:
        return None

    def answer_of(self, code: int, remark: str) -> bytes:
        raise AssertionError("nobody sends")

    def judge_receive(self, client_id: str, group: str, topic: str, broker: str, kind: int, text: str) -> Any:
        if not (group.isidentifier() and topic.isidentifier()):
            return None
        fields = {
            "consumerGroup": group,
            "topic": topic,
            "queueId": "-1",
            "initMode": "1",
            "expType": "TAG",
            "exp": text,
        }
        return ReceiveVerdict(client_id, group, topic, "broker-a", frozenset(), 17, 3000, fields)

    def judge_ack(self, group: str, topic: str) -> AckVerdict | None:
        return AckVerdict([topic, f"1{topic}", f"2{topic}"]) if group.isidentifier() and topic.isidentifier() else None

    def now_ms(self) -> int:
        return NOW

    def is_renewed(self, client_id: str, group: str, receipt: str) -> bool:
        return False

    def message(self, verdict: ReceiveVerdict, record: bytes, handed: HandedMessages) -> bytes | None:
        made: bytes = message_of(decode_record(record, verify=False), handed.pop_time, "r").SerializeToString()
        return made if self.rng.random() < 0.9 else None

    def is_there(self, verdict: ReceiveVerdict) -> bool:
        return True

    def delivered(self, verdict: ReceiveVerdict, handed: HandedMessages) -> bool:
        return True

    def give_back(self, verdict: ReceiveVerdict, handed: HandedMessages) -> None: ...

    def abandoned(self, peer: object, stream: int) -> bool:
        return False

    def gone(self, peer: object) -> None: ...

    def refused(self, method: str, code: int, remark: str, answer: bytes) -> Sequence[bytes]:
        return (b"refused",)

    # --- the feed -------------------------------------------------------------------------------------------------

    def feed(self, connection: object, received: memoryview) -> Fed | bytes:
        if self.rng.random() < 0.1:
            return NOTHING
        commands, used, _ = decode_frames(bytes(received), FrameLimits(1 << 24, 1 << 20))
        assert used == len(received)
        return b"".join(self.answer(command) for command in commands)

    def answer(self, command: Command) -> bytes:
        self.taken += 1
        method, data = self.asked[command.opaque]
        fields = command.fields
        request = getattr(v2, method + "Request").FromString(data)  # Python reads it, too
        assert fields["consumerGroup"] == request.group.name
        if method == "ReceiveMessage":
            assert fields["topic"] == request.message_queue.topic.name
            assert int(fields["maxMsgNums"]) == min(request.batch_size, 32)
            expected = 60_000 if request.auto_renew else request.invisible_duration.ToMilliseconds()
            assert int(fields["invisibleTime"]) == expected
            starts = ";".join(f"0 {queue} {self.rng.randrange(9)}" for queue in range(3))
            found = PopMessageAnswer(
                pop_time=NOW, invisible_time=expected, revive_qid=1, rest_num=0, start_offset_info=starts,
                msg_offset_info="",
            )  # fmt: skip
            self.records = [self.record() for _ in range(self.rng.randrange(1, 6))]
            reply = Reply(fields=found.to_fields(), body=b"".join(self.records))
            return encode_frame(reply.to_command(command))
        texts = [one.receipt_handle for one in request.entries] if method == "AckMessage" else [request.receipt_handle]
        receipts = [decode_receipt(text) for text in texts]
        assert fields["extraInfo"] in [one.encode() for one in receipts]
        assert (int(fields["queueId"]), int(fields["offset"])) in [(one.queue_id, one.offset) for one in receipts]
        if method == "AckMessage":
            return encode_frame(Reply().to_command(command))
        assert int(fields["invisibleTime"]) == request.invisible_duration.ToMilliseconds()
        changed = ChangeInvisibleTimeAnswer(pop_time=NOW, invisible_time=int(fields["invisibleTime"]), revive_qid=1)
        return encode_frame(Reply(fields=changed.to_fields()).to_command(command))

    def record(self) -> bytes:
        rng = self.rng
        properties = b"".join(rng.choice(WORDS) for _ in range(rng.randrange(5)))
        host = pack_host("::1" if rng.random() < 0.1 else "10.0.0.1", 10911)
        return encode_record(
            Record(
                topic=rng.choice(("T", "T", "a%T", "x" * 200)), properties=properties,
                body=rng.randbytes(rng.randrange(130)),
                queue_id=rng.randrange(3), queue_offset=rng.randrange(1 << 40), physical_offset=rng.randrange(1 << 40),
                born_timestamp=rng.choice((0, 1, NOW)), store_timestamp=NOW, born_host=host, store_host=host,
                sys_flag=rng.choice((0, 0, 0, 1)), reconsume_times=rng.choice((0, 1, 20)),
            )
        )  # fmt: skip


def requests(rng: random.Random) -> tuple[str, bytes]:
    """A call that is plain, or nearly."""
    message = v2.Message(topic=v2.Resource(name="T"))
    system = message.system_properties
    system.message_id, system.receipt_handle = "id", rng.choice((RECEIPT, RECEIPT.replace("broker-a", "other")))
    made: list[tuple[str, Any]] = [
        ("ReceiveMessage", wish("T", auto_renew=rng.random() < 0.5)),
        ("AckMessage", ack(*[message] * rng.randrange(1, 4))),
        ("ChangeInvisibleDuration", change(message, 5)),
    ]
    method, request = rng.choice(made)
    data = bytearray(request.SerializeToString())
    for _ in range(rng.choice((0, 0, 1, 1, 2, 5))):
        at = rng.randrange(len(data))
        kind = rng.randrange(4)
        if kind == 0:
            data[at] = rng.randrange(256)
        elif kind == 1:
            del data[at : at + rng.randrange(1, 4)]
        elif kind == 2:
            data[at:at] = rng.randbytes(rng.randrange(1, 4))
        else:
            data[at:at] = data[at : at + rng.randrange(1, 12)]
        if not data:
            break
    return method, bytes(data)


def test_what_is_taken_of_mutated_calls_is_what_python_reads() -> None:
    native = choice.native_http2()
    require(native is not None, "HTTP/2 is not built natively here: make native (it needs libnghttp2-dev)")
    assert native is not None
    taken = 0
    for seed in range(max(1, FRAMES // 40)):
        taken += one_connection(native, seed)
    assert taken > FRAMES // 10


def one_connection(native: Any, seed: int) -> int:
    rng = random.Random(seed)
    broker = Broker(rng)
    hot = native.HotSends(broker, broker.feed, send_rules(ProxySettings()))
    hot.serve_pops(native.HotPops(broker, {}, RULES))
    session = native.Http2Session(Http2Limits(message_bytes=1 << 20))
    session.serve_hot(hot, HotPeer("10.0.0.7:5", "grpc"), "10.0.0.7:5")
    peer = Peer()
    told: set[int] = set()
    try:
        for number in range(40):
            stream = 2 * number + 1
            method, data = requests(rng)
            broker.asked[stream] = method, data
            peer.call(stream, data, path=PATH + method)
            for event in session.receive(peer.said()):
                if isinstance(event, MessageArrived):
                    assert event.message == broker.asked[event.stream][1]
                    told.add(event.stream)
                    session.finish(event.stream, 0)
            peer.hear(session.take_output())
            assert stream in told or check_answer(broker, peer, stream, method)
        session.lose()
    except (AssertionError, DecodeError) as fault:
        raise AssertionError(f"seed {seed}") from fault
    return broker.taken


def check_answer(broker: Broker, peer: Peer, stream: int, method: str) -> bool:
    """Whether every element of an answer can be read, and messages carry what their records do."""
    data = b"".join(part for part in peer.answers[stream] if isinstance(part, bytes))
    elements = []
    while data:
        size = int.from_bytes(data[1:5], "big")
        elements.append(getattr(v2, method + "Response").FromString(data[5 : 5 + size]))
        data = data[5 + size :]
    if method == "ReceiveMessage":
        records = {one.queue_offset: one for one in (decode_record(raw, verify=False) for raw in broker.records)}
        for one in (each.message for each in elements if each.HasField("message")):
            system = one.system_properties
            if system.receipt_handle == "r":
                continue  # Python's
            record = records[system.queue_offset]
            assert decode_receipt(system.receipt_handle).position == record.physical_offset
            invisible_ms = system.invisible_duration.ToMilliseconds()
            assert one == message_of(record, NOW, system.receipt_handle, invisible_ms)
        assert elements[-1].delivery_timestamp.ToMilliseconds() == NOW
    return bool(elements)
