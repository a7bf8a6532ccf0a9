"""What the audit log is told of users: who came, who was refused, what changed; and quotas of users."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pyromq.ambient import SystemClock
from pyromq.audit.opening import audit_log
from pyromq.audit.settings import AuditSettings
from pyromq.audit.verify import entries, verify
from pyromq.model.codes import ResponseCode
from pyromq.protocol.requests import RequestCode as Code
from pyromq.store.message_store import run_at_once
from tests.access.matrix import ON, SECRET, SUPER, is_refused
from tests.access.test_users import LATER, PASSWORD, allow, ask, make_shop, send
from tests.broker.running import Running, running_broker


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Running]:
    log = audit_log("broker", AuditSettings(), tmp_path / "audit", SystemClock(), run_at_once)
    async with log as audit, running_broker(tmp_path / "store", audit=audit, **ON) as running:
        yield running


def told(folder: Path, kind: str, **fields: Any) -> list[dict[str, Any]]:
    return [
        one
        for one in entries(folder / "audit")
        if one["kind"] == kind and all(one.get(name) == value for name, value in fields.items())
    ]


async def test_who_came_who_was_refused_and_what_changed(broker: Running, tmp_path: Path) -> None:
    await make_shop(broker, allow("Topic:T", "Pub"))
    for _ in range(3):
        assert (await send(broker, "T")).code == 0
        assert is_refused(await send(broker, "Other"))
        assert is_refused(await send(broker, "T", "guessed"))
    body = {"password": LATER}
    assert (await ask(broker, Code.AUTH_UPDATE_USER, username="shop", body=body)).code == 0
    assert (await ask(broker, Code.AUTH_DELETE_ACL, subject="User:shop")).code == 0
    assert (await ask(broker, Code.AUTH_DELETE_USER, username="shop")).code == 0
    (made,) = told(tmp_path, "call", call="AUTH_CREATE_USER")
    assert (made["user"], made["before"], made["after"]["username"]) == (SUPER, None, "shop")
    (given,) = told(tmp_path, "call", call="AUTH_CREATE_ACL")
    assert given["before"]["policies"] == []
    assert given["after"]["policies"][0]["entries"][0]["resource"] == "Topic:T"
    (changed,) = told(tmp_path, "call", call="AUTH_UPDATE_USER")
    assert changed["passwordChanged"] is True
    (gone,) = told(tmp_path, "call", call="AUTH_DELETE_USER")
    assert gone["after"] is None
    assert {one["user"] for one in told(tmp_path, "login")} == {SUPER, "shop"}
    assert len(told(tmp_path, "refusal", user="shop")) == 1
    refused = told(tmp_path, "refusal", user="")
    assert [(one["call"], one["why"]) for one in refused] == [("SEND_MESSAGE", "check signature failed.")]
    assert verify(tmp_path / "audit").alarms == []
    written = b"".join(path.read_bytes() for path in (tmp_path / "audit").iterdir())
    for secret in (PASSWORD, LATER, SECRET):
        assert secret.encode() not in written
        assert json.dumps(secret).encode() not in written


async def test_a_user_has_his_own_quota_and_others_go_on(broker: Running, tmp_path: Path) -> None:
    await make_shop(broker, allow("Topic:T", "Pub"))
    body = {"kind": "user", "name": "shop", "limits": {"sendMessages": 1}}
    assert (await ask(broker, Code.SET_QUOTA, body=body)).code == 0
    codes = [(await send(broker, "T")).code for _ in range(5)]
    assert codes[0] == 0
    assert ResponseCode.SYSTEM_BUSY in codes
    fields = {"producerGroup": "P", "topic": "T", "defaultTopic": "TBW102", "defaultTopicQueueNums": "1"}
    fields |= {"queueId": "0", "sysFlag": "0", "bornTimestamp": "1700000000000", "flag": "0", "properties": ""}
    for _ in range(5):
        assert (await ask(broker, Code.SEND_MESSAGE, body=b"x", **fields)).code == 0
    (noted,) = told(tmp_path, "call", call="SET_QUOTA")
    assert (noted["before"], noted["after"]) == (None, {"sendMessages": 1})
