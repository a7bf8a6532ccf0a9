"""Users of an elected set: made at any replica; whom a master has revoked, the next one refuses from the first on."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pyromq.protocol.headers.admin import ADMIN_ADDRESS
from pyromq.protocol.requests import RequestCode as Code
from pyromq.protocol.row import AnyRow
from tests.access.matrix import is_refused
from tests.access.over_sockets import SECRET, SECURED, SHOP, ask
from tests.elected.elected_set import ElectedSet, elected_set
from tests.elected.sends import send_of
from tests.elected.test_failover import eventually
from tests.interop import wire

TOPIC = "orders"
ALLOWED = {"resource": f"Topic:{TOPIC}", "actions": ["Pub"], "decision": "Allow"}
POLICIES = {"subject": "User:shop", "policies": [{"policyType": "Custom", "entries": [ALLOWED]}]}


def done(answer: wire.Answer) -> bool:
    return answer.code == 0


async def sends(at: str, who: str, secret: str) -> wire.Answer:
    return await asyncio.to_thread(partial(ask, at, Code.SEND_MESSAGE, b"x", who, secret, **send_of(TOPIC).fields))


async def followers(members: ElectedSet) -> list[str]:
    master = await members.master()
    return [one.address for one in members.brokers if one.address != master.address]


REVOCATIONS: dict[str, tuple[AnyRow, Any, dict[str, str]]] = {
    "deleted": (Code.AUTH_DELETE_USER, b"", {"username": "shop"}),
    "no policies": (Code.AUTH_DELETE_ACL, b"", {"subject": "User:shop"}),
}


@pytest.mark.parametrize("kind", ["deleted", pytest.param("no policies", marks=pytest.mark.slow)])
def test_a_revocation_that_was_answered_holds_at_the_next_master(tmp_path: Path, kind: str) -> None:
    with elected_set(tmp_path, SECURED) as members:
        asyncio.run(_revoked(members, *REVOCATIONS[kind]))
        for broker in members.brokers:
            for file in (broker.home / "store").rglob("*"):
                assert not (file.is_file() and SHOP.encode() in file.read_bytes()), file


async def _revoked(members: ElectedSet, row: AnyRow, body: Any, fields: dict[str, str]) -> None:
    await eventually(members.is_whole)
    master, others = (await members.master()).address, await followers(members)
    for at in (others[0], master, others[1]):  # as tools ask one after the other
        assert done(ask(at, Code.AUTH_CREATE_USER, {"password": SHOP}, username="shop"))
        assert done(ask(at, Code.AUTH_CREATE_ACL, POLICIES, subject="User:shop"))

    async def passes() -> bool:
        return done(await sends(master, "shop", SHOP))

    await eventually(passes)
    killed = await members.master()
    assert done(ask(master, row, body, **fields))
    killed.kill()
    answers: list[wire.Answer] = []

    async def is_led() -> bool:
        answers.extend([await sends(at, "shop", SHOP) for at in others])
        return any([done(await sends(at, "boss", SECRET)) for at in others])

    await eventually(is_led)
    answers.extend([await sends(at, "shop", SHOP) for at in others])
    assert [answer for answer in answers if done(answer)] == []
    assert all(is_refused(answer) for answer in answers[-2:])


def test_users_are_changed_at_a_follower_of_a_set_whose_administration_stands_apart(tmp_path: Path) -> None:
    with elected_set(tmp_path, SECURED | {"adminListener": "127.0.0.1:0"}, size=2) as members:
        asyncio.run(eventually(members.is_whole))
        user: dict[str, str] = {"username": "shop"}
        (other,) = asyncio.run(followers(members))
        told = ask(other, Code.AUTH_CREATE_USER, {"password": SHOP}, **user)
        assert done(ask(told.fields[ADMIN_ADDRESS], Code.AUTH_CREATE_USER, {"password": SHOP}, **user))
        at_master = ask(asyncio.run(members.master()).address, Code.AUTH_GET_USER, **user).fields[ADMIN_ADDRESS]
        assert at_master != told.fields[ADMIN_ADDRESS]
        assert b"shop" in ask(at_master, Code.AUTH_GET_USER, **user).body


def test_a_replica_without_a_master_changes_no_users(tmp_path: Path) -> None:
    with elected_set(tmp_path, SECURED, size=2) as members:
        asyncio.run(eventually(members.is_whole))
        master = asyncio.run(members.master())
        (other,) = asyncio.run(followers(members))
        master.kill()
        refused = ask(other, Code.AUTH_CREATE_USER, {"password": SHOP}, username="shop")
        assert refused.code != 0
        assert "users are changed at the master of this set" in (refused.remark or "")
