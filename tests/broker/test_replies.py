"""Replies to request messages (324, 325): pushed to whoever waits, stored, and honest about what failed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyromq.broker.quotas.limits import QuotaKind, parse
from pyromq.model.codes import ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.properties import decode_properties, encode_properties
from pyromq.protocol.requests import RequestCode
from tests.broker.peers import FakePeer
from tests.broker.virtual import START_MS, Virtual, properties, virtual_broker

TOPIC = "DefaultCluster_REPLY_TOPIC"
PAIRS = {"MSG_TYPE": "reply", "REPLY_TO_CLIENT": "asker@1", "UNIQ_KEY": "U", "TTL": "5000", "CORRELATION_ID": "c-1"}


async def reply(life: Virtual, code: int = RequestCode.SEND_REPLY_MESSAGE_V2, **changed: str) -> Command:
    pairs = encode_properties(PAIRS | changed).decode()
    values: dict[str, Any] = {"a": "R", "b": TOPIC, "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": START_MS, "h": 0}
    if code == RequestCode.SEND_REPLY_MESSAGE:
        names = ["producerGroup", "topic", "defaultTopic", "defaultTopicQueueNums"]
        names += ["queueId", "sysFlag", "bornTimestamp", "flag"]
        values = dict(zip(names, values.values(), strict=True)) | {"properties": pairs}
    else:
        values |= {"i": pairs, "m": False}
    return await life.call(code, b"the answer", **values)


def waiting_client(life: Virtual) -> FakePeer:
    peer = FakePeer("127.0.0.1:7001")
    life.broker.producers.register(peer, "asker@1", "P", life.clock.monotonic(), life.clock.now_ms())
    return peer


@pytest.mark.parametrize("code", [RequestCode.SEND_REPLY_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2])
async def test_it_is_pushed_and_stored(tmp_path: Path, code: int) -> None:
    async with virtual_broker(tmp_path) as life:
        client = waiting_client(life)
        client.answers.append(Command(code=0))
        answer = await reply(life, code)
        (stored,) = life.stored(TOPIC)
        assert (answer.code, answer.fields["queueOffset"], answer.fields["MSG_REGION"]) == (0, "0", "DefaultRegion")
        assert (stored.body, properties(stored)["CORRELATION_ID"]) == (b"the answer", "c-1")
        (pushed,) = client.sent
        assert (pushed.code, bytes(pushed.body)) == (RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, b"the answer")
        fields = dict(pushed.fields)
        own = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true", "PUSH_REPLY_TIME": str(START_MS)}
        assert decode_properties(fields.pop("properties")) == PAIRS | own
        assert fields == {
            "producerGroup": "R",
            "topic": TOPIC,
            "defaultTopic": "TBW102",
            "defaultTopicQueueNums": "4",
            "queueId": "0",
            "sysFlag": "0",
            "bornTimestamp": str(START_MS),
            "flag": "0",
            "unitMode": "false",
            "bornHost": "127.0.0.1:50001",
            "storeHost": life.broker.address,
            "storeTimestamp": str(START_MS),
        }


@pytest.mark.parametrize("pushed", [True, False])
async def test_a_half_reply_is_under_way_until_it_is_stored(tmp_path: Path, pushed: bool) -> None:
    async with virtual_broker(tmp_path) as life:
        quotas = life.broker.base.quotas
        quotas.put(parse("group:R halfMessages=5"))
        if pushed:
            waiting_client(life).answers.append(Command(code=0))
        await reply(life, TRAN_MSG="true", PGROUP="R")
        await life.clock.settle()
        use = quotas.use(QuotaKind.GROUP, "R")
        assert use is not None
        assert use.halves_under_way == 0


async def test_a_push_that_fails_is_told_and_the_reply_is_kept(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        nobody = await reply(life)
        assert nobody.code == ResponseCode.SYSTEM_ERROR
        assert "asker@1 is not connected" in str(nobody.remark)
        client = waiting_client(life)
        silent = await reply(life)
        assert (silent.code, "does not answer" in str(silent.remark)) == (ResponseCode.SYSTEM_ERROR, True)
        client.answers.append(Command(code=1, remark="nobody asked"))
        refused = await reply(life)
        assert (refused.code, "nobody asked" in str(refused.remark)) == (ResponseCode.SYSTEM_ERROR, True)
        lost = await reply(life, REPLY_TO_CLIENT="")
        assert "REPLY_TO_CLIENT is missing" in str(lost.remark)
        await life.clock.settle()
        assert len(life.stored(TOPIC)) == 4


async def test_without_storing(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path, store_reply_message_enable=False) as life:
        client = waiting_client(life)
        client.answers.append(Command(code=0))
        answer = await reply(life)
        assert (answer.code, answer.fields["msgId"], answer.fields["queueOffset"]) == (0, "0", "0")
        assert (await reply(life)).code == ResponseCode.SYSTEM_ERROR
        assert life.stored(TOPIC) == []
