"""Changes of users and policies as Apache's broker 5.5.0 answered them (tests/interop/decisions): ours answers as it,
and shows the same users and policies after them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from tests.broker.running import running_broker
from tests.interop import wire
from tests.interop.decisions.record import CHANGES
from tests.interop.secured import ADMIN, SECRET
from tests.interop.signing import Administrator

SEQUENCES: list[list[Any]] = json.loads(CHANGES.read_text("utf-8"))


async def test_ours_changes_users_and_policies_as_javas_broker(tmp_path: Path) -> None:
    first = json.dumps({"username": ADMIN, "password": SECRET})
    on: dict[str, Any] = {
        "authentication_enabled": True,
        "authorization_enabled": True,
        "init_authentication_user": first,
    }
    async with running_broker(tmp_path, **on) as running:
        different = await asyncio.to_thread(differences, Administrator(running.address, ADMIN, SECRET))
    assert different.keys() == DELIBERATE.keys(), different


# Where ours answers otherwise, and why.
DELIBERATE = {
    "u-no-body": "a request without a user is refused; RocketMQ fails with a NullPointerException",
    "a-two-customs": "two policies of a kind in one request become one; RocketMQ shows both, and only the first counts",
    "r-short-block": "10.1/16 is no block; RocketMQ looks 10.1 up as the name of a machine, as it would localhost/8",
}


def differences(server: Administrator) -> dict[str, list[object]]:
    found: dict[str, list[object]] = {}
    for name, *steps in SEQUENCES:
        for code, fields, body, *wanted in steps:
            answer = server.ask(code, fields, body)
            if not is_same(answer, *wanted):
                found.setdefault(name, []).append((answer, wanted))
    return found


def is_same(answer: wire.Answer, code: int, remark: str, body: Any) -> bool:
    """Tell whether an answer is the recorded one. A fault of Java's comes with its class and place around its words."""
    shown = json.loads(answer.body) if answer.body else None
    words = answer.remark if answer.code else ""
    return (answer.code, shown) == (code, body) and (words in remark if "Exception: " in remark else words == remark)
