"""Requests that were recorded with the Java broker, asked of ours on the same store: the same codes, or a reason."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pyromq.access.users import User, UserType
from pyromq.broker.surface import SERVED
from pyromq.protocol.requests import ROWS
from pyromq.protocol.requests import RequestCode as Code
from pyromq.protocol.row import ServedBy
from tests.broker.running import Running, running_broker
from tests.broker.test_golden_answers import GOLDEN, AtTheCapture
from tests.support import golden_store
from tests.wire import FrameDecoder

# Where the answer hung on who was connected, or on what the recording had done before.
NEEDS_LIVE_CLIENTS = {
    Code.HEART_BEAT,
    Code.GET_CONSUMER_LIST_BY_GROUP,
    Code.GET_CONSUMER_CONNECTION_LIST,
    Code.GET_PRODUCER_CONNECTION_LIST,
    Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
    Code.INVOKE_BROKER_TO_RESET_OFFSET,
    Code.GET_CONSUMER_RUNNING_INFO,
    Code.CONSUME_MESSAGE_DIRECTLY,
    Code.VIEW_BROKER_STATS_DATA,
    Code.CONSUMER_SEND_MSG_BACK,
    Code.QUERY_CONSUMER_OFFSET,
    Code.END_TRANSACTION,
    Code.SEND_REPLY_MESSAGE,
    Code.SEND_REPLY_MESSAGE_V2,
    Code.CHECK_CLIENT_CONFIG,
    Code.POP_MESSAGE,  # the same: pop/test_recorded_pops.py
    Code.RECALL_MESSAGE,  # its handles have times: timing/test_recall.py asks at those
}
# What we answer differently on purpose (docs/broker.md): code, Java's answer, ours.
ON_PURPOSE = {
    (Code.SEND_MESSAGE, 1, 13),  # an empty body is the sender's fault, not an internal error
    (Code.SEND_MESSAGE_V2, 1, 13),
    (Code.SEND_BATCH_MESSAGE, 1, 13),
    (Code.UPDATE_AND_CREATE_TOPIC, 0, 29),  # perm=99
    (Code.DELETE_TOPIC_IN_BROKER, 29, 1),  # no topic at all
    (Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, 0, 1),  # no body
    (Code.UPDATE_COLD_DATA_FLOW_CTR_CONFIG, 0, 1),  # no body
    (Code.REMOVE_COLD_DATA_FLOW_CTR_CONFIG, 0, 1),
    (Code.RESUME_CHECK_HALF_MESSAGE, 0, 1),  # a message that is no half
    (Code.UPDATE_BROKER_CONFIG, 0, 16),  # a key that is not live
    (Code.NOTIFY_BROKER_ROLE_CHANGED, 0, 1),  # a broker that no controller leads: Java says yes and does nothing
    (Code.CHANGE_MESSAGE_INVISIBLETIME, 0, 208),  # a message that nobody here has popped
}
NOT_HERE = {code for code, row in ROWS.items() if row.by not in SERVED}
OF_USERS = {code for code, row in ROWS.items() if row.by is ServedBy.USERS and code < 30_000}  # one story, told below
# What a Java broker says that was given no authenticationMetadataProvider. Ours has users from the start.
WITHOUT_USERS = ("An system error occurred", "java.lang.IllegalStateException: The authorizationMetadataProvider")


def exchanges() -> dict[int, list[tuple[dict[str, Any], dict[str, Any]]]]:
    """By request code: requests to the broker and their answers, but for those that were refused as it was busy."""
    pairs: dict[int, dict[str, dict[str, Any]]] = {}
    for line in (GOLDEN / "frames" / "index.jsonl").read_text().splitlines():
        row = json.loads(line)
        if row["peer"] == "broker":
            pairs.setdefault(row["pair"], {})[row["dir"]] = row
    found: dict[int, list[tuple[dict[str, Any], dict[str, Any]]]] = {}
    for pair in pairs.values():
        if (
            {"request", "response"} <= pair.keys()
            and pair["response"]["code"] != 2
            and not pair["request"]["truncated"]
        ):
            found.setdefault(pair["request"]["requestCode"], []).append((pair["request"], pair["response"]))
    return found


EXCHANGES = exchanges()


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Running]:
    golden_store(tmp_path)
    settings: dict[str, Any] = {"trace_topic_enable": True, "recall_message_enable": True}  # as it was recorded
    async with running_broker(tmp_path / "store", AtTheCapture(), **settings) as running:
        yield running


def is_comparable(request: dict[str, Any]) -> bool:
    """A pull by heartbeat needs the client that sent it, a transaction the room that serves it."""
    fields = request["header"].get("extFields") or {}
    if request["requestCode"] in (Code.PULL_MESSAGE, Code.LITE_PULL_MESSAGE):
        return bool(int(fields.get("sysFlag", "4")) & 4) and fields.get("consumerGroup") != "GID_adm"
    return "TRAN_MSG" not in fields.get("i", "")


@pytest.mark.parametrize(
    "code",
    sorted(set(EXCHANGES) & ROWS.keys() - NOT_HERE - NEEDS_LIVE_CLIENTS - OF_USERS),
    ids=lambda c: ROWS[c].name,
)
async def test_the_recorded_requests_get_the_recorded_codes(broker: Running, code: int) -> None:
    for request, response in EXCHANGES[code]:
        if not is_comparable(request):
            continue
        (command,) = FrameDecoder().feed(base64.b64decode(request["frame_b64"]))
        if "suspendTimeoutMillis" in command.fields:
            command.fields["suspendTimeoutMillis"] = "10"
        answer = await broker.client.call(broker.address, command, 20)
        if (code, response["code"], answer.code) not in ON_PURPOSE:
            assert answer.code == response["code"], (request["header"], response["remark"], answer.remark)


async def test_the_recorded_requests_about_users_get_the_recorded_codes(broker: Running) -> None:
    """Each recorded client's in its order, by opaque: who is changed is made before, and deleted at the end."""
    boss = User("boss", ("secret",), UserType.SUPER)
    broker.broker.base.access.table.directory.create(boss)  # as by the recording's initAuthenticationUser
    told = [pair for code in OF_USERS for pair in EXCHANGES[code] if not has_no_users(pair[1])]
    for request, response in sorted(told, key=lambda pair: pair[0]["header"]["opaque"]):
        (command,) = FrameDecoder().feed(base64.b64decode(request["frame_b64"]))
        answer = await broker.client.call(broker.address, command, 20)
        assert answer.code == response["code"], (request["header"], response["remark"], answer.remark)
    assert {request["requestCode"] for request, _ in told} == OF_USERS


def has_no_users(response: dict[str, Any]) -> bool:
    return (response["remark"] or "").startswith(WITHOUT_USERS)
