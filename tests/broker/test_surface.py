"""Every known code is answered: empty, random or hostile, with a code and never with silence or a traceback."""

from __future__ import annotations

import random
import runpy
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pyromq.broker.surface import SERVED
from pyromq.model.codes import ResponseCode
from pyromq.protocol.command import Command, Encoding
from pyromq.protocol.requests import ROWS, RequestCode
from pyromq.protocol.row import AnyRow
from pyromq.transport.dispatch import bound
from tests.broker.running import Running, running_broker

DOCS = Path(__file__).parents[2] / "docs" / "codes.md"
REASONS = {code: row.by.value for code, row in ROWS.items() if row.by not in SERVED}

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
    page = runpy.run_path(str(DOCS.parents[1] / "scripts" / "codes.py"))["page"]
    assert DOCS.read_text() == page(), "run: python scripts/codes.py > docs/codes.md"


def test_a_handler_without_a_row_or_a_row_without_a_handler_is_an_error() -> None:
    rows: tuple[AnyRow, ...] = (RequestCode.GET_MAX_OFFSET, RequestCode.PUT_KV_CONFIG)
    with pytest.raises(ValueError, match=r"SEND_MESSAGE.*PUT_KV_CONFIG"):
        bound([(row, lambda _: None) for row in rows], *SERVED)


async def test_every_known_code_is_either_served_or_refused_with_the_reason(broker: Running) -> None:
    handlers = broker.broker.listeners.dispatchers["main"].handlers
    assert [row.name for code, row in ROWS.items() if code not in handlers] == []
    for code, reason in REASONS.items():
        answer = await broker.call(code)
        assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        assert answer.remark == f" request type {code} not supported: {reason}"


async def test_an_unknown_code_is_answered_as_java_does(broker: Running) -> None:
    answer = await broker.call(99_999)
    assert (answer.code, answer.remark) == (3, " request type 99999 not supported")


async def test_the_fast_port_serves_everything_but_what_may_wait(broker: Running) -> None:
    fast = broker.broker.listeners.dispatchers["fast"].handlers
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
        len(parts.pulls.suspended),
    )


@pytest.mark.parametrize("code", [row for row in ROWS.values() if row not in REASONS], ids=lambda code: code.name)
async def test_bad_input_gets_an_answer_and_changes_nothing(
    broker: Running, code: int, caplog: pytest.LogCaptureFixture
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
