"""The table of properties: complete, and a send that carries a broker's word is stored without it, of whatever kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyromq.broker.send.properties import OWN_NAMES, RULES, admitted
from pyromq.errors import RequestRefused
from pyromq.protocol.properties import decode_properties
from pyromq.protocol.requests import RequestCode
from pyromq.testing.clock import ManualClock
from tests.broker.hostile import KINDS, PROPERTIES, VALUES, command, text
from tests.broker.virtual import START_MS, properties, virtual_broker

STAMPED = {"CLUSTER", "MSG_REGION", "TRACE_ON"}  # by this broker, anew
WAITING = {"REAL_TOPIC", "REAL_QID", "TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS"}  # by this broker, while it waited
# Stored as they came, whatever they say: decided for each of them.
FREE = [
    "1ST_POP_TIME",
    "ARRIVE_TIME",
    "BORN_TIMESTAMP",
    "BUYER_ID",
    "CHECK_IMMUNITY_TIME_IN_SECONDS",
    "CONSUME_START_TIME",
    "CORRELATION_ID",
    "DLQ_ORIGIN_MESSAGE_ID",
    "DLQ_ORIGIN_TOPIC",
    "DUP_INFO",
    "INNER_MULTI_DISPATCH",
    "INSTANCE_ID",
    "KEYS",
    "MAX_OFFSET",
    "MAX_RECONSUME_TIMES",
    "MIN_OFFSET",
    "MSG_TYPE",
    "ORIGIN_GROUP",
    "ORIGIN_MESSAGE_ID",
    "PGROUP",
    "POP_CK_OFFSET",
    "PUSH_REPLY_TIME",
    "PYRO_REASON",
    "RECONSUME_TIME",
    "REPLY_TO_CLIENT",
    "RETRY_TOPIC",
    "TAGS",
    "TIMER_DELAY_LEVEL",
    "TIMER_DEL_UNIQKEY",
    "TIMER_OUT_MS",
    "TRACE_CONTEXT",
    "TRAN_MSG",
    "TRAN_PREPARED_QUEUE_OFFSET",
    "TTL",
    "UNIQ_KEY",
    "WAIT",
    "__BORNHOST",
    "__LITE_TOPIC",
    "__SEND_ID",
    "__SHARDINGKEY",
    "__transactionId__",
]


def test_every_property_that_is_known_has_a_rule() -> None:
    assert sorted([*RULES, *OWN_NAMES, *FREE]) == PROPERTIES


def test_what_no_rule_concerns_is_stored_as_it_came() -> None:
    for value in VALUES.values():
        assert admitted(dict.fromkeys(FREE, value)) == dict.fromkeys(FREE, value)


def test_a_value_that_is_judged_is_kept_if_it_is_valid() -> None:
    good = {"DELAY": "3", "TIMER_DELAY_SEC": "+10", "_SYS_MSG_PRIORITY_": "2", "CHECK_IMMUNITY_TIME_IN_SECONDS": "60"}
    assert admitted(good) == good


def test_what_is_no_number_is_dropped_or_kept_as_java_does() -> None:
    for value in VALUES.values():
        kept = admitted({"_SYS_MSG_PRIORITY_": "x" + value, "CHECK_IMMUNITY_TIME_IN_SECONDS": "x" + value})
        assert kept == {"CHECK_IMMUNITY_TIME_IN_SECONDS": "x" + value}


@pytest.mark.parametrize("name", ["TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"])
def test_a_timer_that_does_not_count_is_not_judged(name: str) -> None:
    for other in ({"DELAY": "1"}, {"TIMER_OUT_MS": "1"}):
        assert admitted({name: "soon", **other}) == {name: "soon", **other}
    with pytest.raises(RequestRefused, match=f"{name} = 'soon' is no number of"):
        admitted({name: "soon", "DELAY": "0"})


def test_whoever_refuses_says_it_shortly() -> None:
    with pytest.raises(RequestRefused) as refused:
        admitted({"DELAY": "9" * 5000})
    assert len(str(refused.value)) < 200


def test_a_broker_s_word_is_never_a_client_s() -> None:
    assert not set(OWN_NAMES) & RULES.keys()
    assert admitted(dict.fromkeys(OWN_NAMES, "1")) == {}


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "batch"])
async def test_a_broker_s_word_from_a_client_is_not_stored(tmp_path: Path, kind: str) -> None:
    async with virtual_broker(tmp_path, clock=ManualClock(START_MS)) as life:
        sent = command(kind, "m", dict.fromkeys(OWN_NAMES, "lie"))
        answer = await life.call(sent.code, bytes(sent.body), **sent.fields)
        if kind == "half":
            await life.call(
                RequestCode.END_TRANSACTION,
                producerGroup="P",
                tranStateTableOffset=answer.fields["queueOffset"],
                commitLogOffset=int(answer.fields["msgId"][16:], 16),
                commitOrRollback=8,
                msgId="m",
            )
        await life.advance(20)
        topics = ("A", "%RETRY%G", "%DLQ%G")
        (stored,) = [record for topic in topics for queue in range(4) for record in life.stored(topic, queue)]
        found = properties(stored)
        assert "lie" not in found.values()
        assert found.keys() & set(OWN_NAMES) <= STAMPED | (WAITING if kind in ("delayed", "timed", "retry") else set())


async def test_a_message_that_is_sent_on_as_it_came_is_taken(tmp_path: Path) -> None:
    """As a Java consumer does whose request to give it back failed: with all properties and a level."""
    async with virtual_broker(tmp_path) as life:
        await life.send(body=b"timed", properties={"TIMER_DELAY_SEC": "2", "UNIQ_KEY": "U", "TAGS": "t"})
        await life.advance(5)
        (first,) = life.stored("T")
        pairs = decode_properties(first.properties) | {"DELAY": "3", "RETRY_TOPIC": "T", "ORIGIN_MESSAGE_ID": "x"}
        sent = await life.send("%RETRY%G", b"timed", properties=text(pairs), reconsumeTimes=1, maxReconsumeTimes=16)
        assert sent.code == 0, sent.remark
        await life.advance(15)
        (again,) = life.stored("%RETRY%G")
        assert properties(again).items() >= {"RETRY_TOPIC": "T", "TAGS": "t", "UNIQ_KEY": "U", "REAL_QID": "0"}.items()
