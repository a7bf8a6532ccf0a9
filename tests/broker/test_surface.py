"""Every known code is answered: empty, random or hostile, with a code and never with silence or a traceback."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pyromq.broker.surface import NOT_SERVED, page
from pyromq.model.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command, Encoding
from tests.broker.running import Running, running_broker

DOCS = Path(__file__).parents[2] / "docs" / "codes.md"
REASONS = {code: reason for reason, codes in NOT_SERVED.items() for code in codes}

FIELD_NAMES = (
    "topic consumerGroup producerGroup group queueId queueOffset maxMsgNums sysFlag "
    "commitOffset key maxNum offset timestamp beginTimestamp endTimestamp suspendTimeoutMillis "
    "subscription subVersion expressionType defaultTopic defaultTopicQueueNums bornTimestamp flag properties "
    "readQueueNums writeQueueNums perm topicFilterType attributes order statsName statsKey "
    "srcGroup destGroup compareGroup filterGroups isForce clientID clientId msgId "
    "groupName readable index count a b c d "
    "e f g h i j k l "
    "m n"
)
FIELDS = FIELD_NAMES.split()

HOSTILE = [
    "",
    "-1",
    "0",
    "9223372036854775807",
    "-9223372036854775809",
    "1e9",
    "NaN",
    "null",
    "../../etc/passwd",
    "T\x00",
    "%n%s",
    "\x01\x02\x01",
    "x" * 5000,
    "🙂",
    "true",
]
BODIES = [
    b"",
    b"{",
    b"{}",
    b"[]",
    b"null",
    b"\x00" * 64,
    b'{"clientID":{}}',
    b'{"topicConfigList":[{}]}',
    b"=\n=",
    b"[" * 3000,
]


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Running]:
    async with running_broker(tmp_path) as running:
        await running.send()
        yield running


def test_the_page_in_docs_is_up_to_date() -> None:
    assert DOCS.read_text() == page(), "run: python -m pyromq.broker.surface > docs/codes.md"


def test_a_code_has_one_state() -> None:
    listed = [code for codes in NOT_SERVED.values() for code in codes]
    assert len(listed) == len(set(listed))


async def test_every_known_code_is_either_served_or_refused_with_the_reason(broker: Running) -> None:
    handlers = broker.broker.front.dispatchers["main"]._handlers
    assert [code.name for code in RequestCode if code not in handlers] == []
    for code, reason in REASONS.items():
        answer = await broker.call(code)
        assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        assert answer.remark == f" request type {code.value} not supported: {reason}"


async def test_an_unknown_code_is_answered_as_java_does(broker: Running) -> None:
    answer = await broker.call(99_999)
    assert (answer.code, answer.remark) == (3, " request type 99999 not supported")


async def test_the_fast_port_serves_everything_but_what_may_wait(broker: Running) -> None:
    fast = broker.broker.front.dispatchers["fast"]._handlers
    assert RequestCode.SEND_MESSAGE_V2 in fast
    assert RequestCode.HEART_BEAT in fast
    assert RequestCode.PULL_MESSAGE not in fast


def state_of(broker: Running) -> tuple[object, ...]:
    parts = broker.broker
    return (
        parts.store.commit_log.end,
        dict(parts.topics.all()),
        dict(parts.groups.all()),
        {key: dict(queues) for key, queues in parts.offsets.all().items()},
        parts.live.config,
        parts.pulls.held,
    )


@pytest.mark.parametrize("code", [code for code in RequestCode if code not in REASONS], ids=lambda code: code.name)
async def test_bad_input_gets_an_answer_and_changes_nothing(
    broker: Running, code: RequestCode, caplog: pytest.LogCaptureFixture
) -> None:
    rng = random.Random(code)
    before = state_of(broker)
    hostile: list[tuple[dict[str, str], bytes]] = [({}, body) for body in BODIES]
    for _ in range(25):
        names = rng.sample(FIELDS, rng.randrange(1, len(FIELDS)))
        hostile.append(({name: rng.choice(HOSTILE) for name in names}, rng.choice(BODIES)))
    for number, (fields, body) in enumerate(hostile):
        encoding = Encoding.ROCKETMQ if number % 2 and code < 1 << 15 else Encoding.JSON
        command = Command(code=code, fields=dict(fields), body=body, encoding=encoding)
        answer = await broker.client.call(broker.address, command, 20)
        assert "Traceback" not in (answer.remark or "")
        assert "internal error" not in (answer.remark or ""), (fields, body)
    assert (await broker.call(RequestCode.GET_MAX_OFFSET, topic="T", queueId=0)).fields == {"offset": "1"}
    assert state_of(broker) == before
    assert "request failed" not in caplog.text
