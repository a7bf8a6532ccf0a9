"""Answers to pops become receipts: recorded ones of Apache's broker, and ones that make no sense."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyromq.client.pop.pop_answers import count_repeats, receipts_of
from pyromq.errors import Malformed
from pyromq.model.message import Property
from pyromq.protocol.headers.pop import PopMessageAnswer
from pyromq.protocol.messages import read_messages
from pyromq.protocol.requests import RequestCode
from tests.client.messages import stored

FRAMES = Path(__file__).parents[1] / "golden" / "grpc" / "pop-frames.jsonl"


def recorded() -> Iterator[tuple[dict[str, Any], bytes]]:
    """Header fields and bodies of recorded answers with messages."""
    for line in FRAMES.read_text("utf-8").splitlines():
        frame = json.loads(line)
        if frame["requestCode"] == RequestCode.POP_MESSAGE and frame["dir"] == "response" and frame["code"] == 0:
            raw = base64.b64decode(frame["frame_b64"])
            yield frame["header"]["extFields"], raw[len(raw) - frame["body_len"] :]


def header(**fields: Any) -> PopMessageAnswer:
    known = {"pop_time": 5, "invisible_time": 60, "revive_qid": 3, "rest_num": 0}
    return PopMessageAnswer(**(known | fields))


def test_recorded_answers_give_each_message_the_receipt_that_names_it() -> None:
    seen = 0
    for fields, body in recorded():
        answer = PopMessageAnswer.from_fields(fields)
        messages = read_messages(body).messages
        for message, receipt in zip(messages, receipts_of(answer, messages, "broker-a"), strict=True):
            seen += 1
            assert receipt.pop_time == answer.pop_time
            assert receipt.start <= receipt.offset == message.queue_offset
            stamped = message.properties.get(Property.POP_CK)
            assert stamped is None or stamped == receipt.encode()
    assert seen > 20


def test_the_same_place_in_topic_and_retry_topic_is_told_apart_by_the_record() -> None:
    answer = header(start_offset_info="0 0 5;1 0 6", msg_offset_info="0 0 6;1 0 6")
    plain, retried = stored(6, b"a"), stored(6, b"b")
    retried.properties[Property.POP_CK] = "6 5 60 3 1 b 0 6"
    assert [each.encode() for each in receipts_of(answer, [plain, retried], "b")] == [
        "5 5 60 3 0 b 0 6",
        "6 5 60 3 1 b 0 6",
    ]


def test_a_property_of_the_sender_s_does_not_name_another_receipt() -> None:
    answer = header(start_offset_info="0 0 5", msg_offset_info="0 0 6")
    forged = stored(6, b"a")
    forged.properties[Property.POP_CK] = "1 1 1 1 1 elsewhere 1 1"
    assert [each.encode() for each in receipts_of(answer, [forged], "b")] == ["5 5 60 3 0 b 0 6"]


def test_counts_of_an_ordered_pop() -> None:
    messages = [stored(1, b"a"), stored(2, b"b"), stored(3, b"c")]
    count_repeats(header(order_count_info="0 qo0%1 2;0 qo0%2 1;0 0 0"), messages)
    assert [each.reconsume_times for each in messages] == [2, 1, 0]


@pytest.mark.parametrize("text", ["0 0", "0 x 1", "0 0 1 2", "0 0 ²"])
def test_what_makes_no_sense_is_said(text: str) -> None:
    with pytest.raises(Malformed):
        receipts_of(header(start_offset_info=text, msg_offset_info="0 0 1"), [stored(1, b"a")], "b")
