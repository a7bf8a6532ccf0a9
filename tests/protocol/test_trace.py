"""Trace bodies: the layout that Java's TraceDataEncoder writes, older ones, and the story that is made of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.model.message_trace import (
    Consumed,
    ConsumeOutcome,
    ConsumeStarted,
    MessageKind,
    Recalled,
    Sent,
    Traced,
    TransactionEnded,
    assemble,
    message_ids,
)
from pyromq.protocol.trace import TraceError, decode_trace, encode_trace, trace_keys

SENT = Sent(
    message_id="7F01",
    time_ms=1_700_000_000_000,
    region="DefaultRegion",
    group="PG",
    topic="Orders",
    tags="TagA",
    keys="k1 k2",
    store_host="127.0.0.1:10911",
    body_length=5,
    cost_ms=12,
    kind=MessageKind.NORMAL,
    offset_id="7F00000100002A9F0000000000000000",
)
STARTED = ConsumeStarted(
    message_id="7F01", time_ms=1_700_000_000_100, region="R", group="G", request_id="r1", keys="k1"
)
DONE = Consumed(message_id="7F01", time_ms=1_700_000_000_200, group="G", request_id="r1", cost_ms=9, keys="k1")
ENDED = TransactionEnded(
    message_id="7F01", time_ms=1_700_000_000_050, topic="Orders", transaction_id="t", state="COMMIT_MESSAGE"
)
EVERY: list[Traced] = [
    SENT,
    STARTED,
    DONE,
    ENDED,
    Recalled(message_id="7F01", time_ms=5, topic="Orders", success=False),
]


def test_a_sent_record_has_javas_fourteen_fields() -> None:
    assert encode_trace([SENT]) == (
        b"Pub\x011700000000000\x01DefaultRegion\x01PG\x01Orders\x017F01\x01TagA\x01k1 k2"
        b"\x01127.0.0.1:10911\x015\x0112\x010\x017F00000100002A9F0000000000000000\x01true\x02"
    )


def test_every_kind_comes_back_as_it_was() -> None:
    assert decode_trace(encode_trace(EVERY)) == EVERY


def test_old_clients_leave_fields_out() -> None:
    fields = encode_trace([SENT]).decode().rstrip("\x02").split("\x01")
    without_place = decode_trace("\x01".join([*fields[:12], "false"]).encode())
    assert isinstance(without_place[0], Sent)
    assert (without_place[0].success, without_place[0].offset_id) == (False, "")
    assert decode_trace(b"SubAfter\x01r1\x017F01\x019\x01true\x01k1\x02") == [
        Consumed(message_id="7F01", request_id="r1", cost_ms=9, keys="k1")
    ]


@pytest.mark.parametrize(
    "body", [b"Pub\x01x\x01", b"Pub\x011\x02", b"SubBefore\x011\x01r\x02", b"SubAfter\x01r\x01m\x01x"]
)
def test_a_broken_record_says_what_is_wrong(body: bytes) -> None:
    with pytest.raises(TraceError, match="trace"):
        decode_trace(body)


def test_kinds_of_later_versions_are_passed_over() -> None:
    assert decode_trace(b"Future\x011\x02" + encode_trace([DONE])) == [DONE]
    assert decode_trace(b"") == []


def test_what_would_smuggle_in_a_record_is_refused() -> None:
    with pytest.raises(ValueError, match="field 3"):
        encode_trace([Sent(message_id="m", group="G\x02Pub", topic="T")])


def test_a_trace_is_found_by_ids_and_keys() -> None:
    assert trace_keys([SENT, STARTED, Recalled(message_id="8F", topic="T")]) == ["7F01", "k1", "k2", "8F"]


def test_the_story_of_one_message() -> None:
    other = Sent(message_id="9F", topic="Orders", keys="k1", time_ms=3)
    failed = Consumed(
        message_id="7F01", request_id="r2", outcome=ConsumeOutcome.FAILED, success=False, group="H", time_ms=9
    )
    story = assemble([DONE, failed, other, STARTED, ENDED, SENT], "7F01")
    assert (story.sent, story.ends) == ((SENT,), (ENDED,))
    assert [(one.group, one.before, one.after) for one in story.deliveries] == [
        ("H", None, failed),
        ("G", STARTED, DONE),
    ]
    assert assemble([SENT], SENT.offset_id).sent == (SENT,)
    assert message_ids([SENT, other], "k1") == ["9F", "7F01"]
    assert assemble([other], "7F01").sent == ()


@given(
    st.binary(max_size=60), st.lists(st.sampled_from([b"Pub", b"SubAfter", b"1", b"x"]), max_size=16).map(b"\x01".join)
)
def test_bytes_of_anybody_raise_nothing_else(noise: bytes, made: bytes) -> None:
    for body in (noise, made):
        try:
            events = decode_trace(body)
        except TraceError:
            continue
        assert all(isinstance(event, Traced) for event in events)
