"""Users of an elected set: a change is answered once the set has it, and holds at the next master from its start."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pyromq.access.sharing.exchange import UserExchange
from pyromq.access.users import User, UserStatus
from pyromq.broker.replication.tables.state_queue import StateQueue
from pyromq.model.names import STATE_TOPIC
from pyromq.protocol.bodies.own import UserChangesAnswer
from pyromq.protocol.command import Command
from pyromq.protocol.requests import RequestCode as Code
from pyromq.protocol.row import AnyRow
from tests.access.matrix import ON, SECRET, SUPER, is_refused, signed
from tests.broker.replication.tables.members import Members
from tests.broker.virtual import Virtual

INNER: dict[str, Any] = {
    "inner_client_authentication_credentials": '{"accessKey":"inner","secretKey":"what servers know"}'
}
OTHER: dict[str, Any] = {"inner_client_authentication_credentials": '{"accessKey":"inner","secretKey":"what else"}'}
SHOP = "the secret of the shop"


def secured(folder: Path) -> Members:
    return Members(folder, **ON, **INNER)


async def ask(
    life: Virtual, row: AnyRow, body: object = b"", who: str = SUPER, secret: str = SECRET, **fields: Any
) -> Command:
    def sign(command: Command) -> None:
        signed(command, who, secret)

    life.sign = sign
    return await life.call(row.code, body if isinstance(body, bytes) else json.dumps(body).encode(), **fields)


async def make_shop(life: Virtual) -> None:
    assert (await ask(life, Code.AUTH_CREATE_USER, {"password": SHOP}, username="shop")).code == 0
    entry = {"resource": "Topic:T", "actions": ["Get"], "decision": "Allow"}
    body = {"subject": "User:shop", "policies": [{"policyType": "Custom", "entries": [entry]}]}
    assert (await ask(life, Code.AUTH_CREATE_ACL, body, subject="User:shop")).code == 0


async def may(life: Virtual, secret: str = SHOP) -> bool:
    """Ask as the shop for what it may: whether it is let in."""
    return not is_refused(await ask(life, Code.GET_TOPIC_CONFIG, b"", "shop", secret, topic="T"))


def users(life: Virtual) -> Mapping[str, User]:
    return life.broker.base.access.table.directory.users


def exchange(life: Virtual) -> UserExchange:
    found = life.broker.base.access.admin.exchange
    assert found is not None
    return found


REVOCATIONS: dict[str, tuple[AnyRow, object, dict[str, str]]] = {
    "deleted": (Code.AUTH_DELETE_USER, b"", {"username": "shop"}),
    "disabled": (Code.AUTH_UPDATE_USER, {"userStatus": "disable"}, {"username": "shop"}),
    "another secret": (Code.AUTH_UPDATE_USER, {"password": "another"}, {"username": "shop"}),
    "no policies": (Code.AUTH_DELETE_ACL, b"", {"subject": "User:shop"}),
}


@pytest.mark.parametrize("kind", REVOCATIONS)
async def test_a_revocation_that_was_answered_holds_at_the_next_master(tmp_path: Path, kind: str) -> None:
    members = secured(tmp_path)
    row, body, fields = REVOCATIONS[kind]
    async with members.master("a", gated=False, killed=True) as master, members.follower("b") as follower:
        await make_shop(master)
        await members.stream(master, follower)
        assert await may(master)
        assert await may(follower)
        assert (await ask(master, row, body, **fields)).code == 0
        await members.stream(master, follower, confirm=False)  # the follower has not heard that it is confirmed
        assert await may(follower)
    async with members.master("b") as second:
        assert not await may(second)
        assert is_refused(await ask(second, Code.GET_TOPIC_CONFIG, b"", "shop", SHOP, topic="T"))


async def test_a_change_is_answered_once_the_set_has_it(tmp_path: Path) -> None:
    members = secured(tmp_path)
    async with members.master("a") as master, members.follower("b") as follower:
        await members.stream(master, follower)
        asked = asyncio.ensure_future(ask(master, Code.AUTH_CREATE_USER, {"password": SHOP}, username="shop"))
        await members.clock.settle()
        assert not asked.done()
        await members.stream(master, follower)
        assert (await asked).code == 0
        assert users(follower)["shop"].secrets == (SHOP,)
        late = asyncio.ensure_future(ask(master, Code.AUTH_DELETE_USER, username="shop"))
        await members.clock.advance(4)
        assert (await late).code == 14
        assert "shop" in users(follower)


async def test_a_killed_master_drops_what_was_never_confirmed(tmp_path: Path) -> None:
    members = secured(tmp_path)
    async with members.master("a", killed=True) as old, members.follower("b") as follower:
        made = asyncio.ensure_future(make_shop(old))
        for _ in range(4):
            await members.stream(old, follower)
        await made
        common = old.broker.store.commit_log.end
        table = old.broker.base.access.table
        table.directory.create(User("thief", ("a secret",)))
        table.directory.update("shop", "a secret of the thief", None, None)
        await members.clock.advance(2)
    members.cut("a", common)
    async with members.master("b", gated=False) as master, members.follower("a") as rejoined:
        await members.stream(master, rejoined)
        assert set(users(rejoined)) == {SUPER, "inner", "shop"}
        assert users(rejoined)["shop"].secrets == (SHOP,)
        assert exchange(rejoined).digest == exchange(master).digest


async def test_secrets_in_the_log_are_sealed(tmp_path: Path) -> None:
    members = secured(tmp_path)
    async with members.master("a", gated=False) as master:
        await make_shop(master)
        log = master.broker.store.commit_log
        written = log.read(log.start, log.end - log.start)
    assert b'"shop"' in written
    assert SHOP.encode() not in written
    assert b"what servers know" not in written


async def test_what_the_log_has_of_users_is_shown_to_super_users_alone(tmp_path: Path) -> None:
    members = secured(tmp_path)
    async with members.master("a", gated=False) as master:
        await make_shop(master)
        entry = {"resource": "Topic:*", "actions": ["All"], "decision": "Allow"}
        body = {"policies": [{"entries": [entry]}]}
        assert (await ask(master, Code.AUTH_UPDATE_ACL, body, subject="User:shop")).code == 0
        position = StateQueue(master.broker.store).position_of(0)
        refused = await ask(master, Code.VIEW_MESSAGE_BY_ID, b"", "shop", SHOP, offset=position)
        assert (refused.code, "for super users alone" in (refused.remark or "")) == (16, True)
        assert (await ask(master, Code.VIEW_MESSAGE_BY_ID, offset=position)).code == 0
        for row in (Code.QUERY_MESSAGE, Code.GET_MAX_OFFSET):
            fields = {"topic": STATE_TOPIC, "queueId": "0", "key": "k", "maxNum": "1"}
            fields |= {"beginTimestamp": "0", "endTimestamp": "1"}
            assert is_refused(await ask(master, row, b"", "shop", SHOP, **fields))


async def test_who_has_other_credentials_lets_the_user_in_no_more_and_says_so(tmp_path: Path) -> None:
    members = secured(tmp_path)
    async with members.master("a", gated=False) as master:
        async with members.follower("b", **OTHER) as stranger:
            await make_shop(master)
            await members.stream(master, stranger)
            assert "shop" not in users(stranger)
            trouble = stranger.broker.base.access.of_set.trouble()
            assert trouble is not None
            assert "users shop of the set are let in by nobody here" in trouble
            assert "innerClientAuthenticationCredentials" in trouble
            inspected = await ask(stranger, Code.INSPECT)
            assert trouble in json.loads(bytes(inspected.body))["troubles"]
            await stranger.advance(6)
        async with members.follower("b") as mended:
            await members.stream(master, mended)
            assert users(mended)["shop"].secrets == (SHOP,)
            assert mended.broker.base.access.of_set.trouble() is None


async def test_a_master_with_other_credentials_keeps_what_it_cannot_open_for_the_others(tmp_path: Path) -> None:
    members = secured(tmp_path)
    async with members.master("a", gated=False, killed=True) as master, members.follower("b", **OTHER) as stranger:
        await make_shop(master)
        await members.stream(master, stranger)
        common = master.broker.store.commit_log.end
    members.cut("a", common)
    async with members.master("b", gated=False, **OTHER) as second, members.follower("a") as first:
        assert not await may(second)
        recorder = second.broker.environment.recorder
        assert recorder is not None
        await recorder.write_snapshot()
        await members.stream(second, first)
        assert users(first)["shop"].secrets == (SHOP,)


async def test_inner_credentials_are_replaced_while_servers_run(tmp_path: Path) -> None:
    members = secured(tmp_path)
    async with members.master("a", gated=False, killed=True) as master, members.follower("b") as follower:
        await make_shop(master)
        change = {"username": "inner", "keepOld": "true"}
        assert (await ask(master, Code.AUTH_UPDATE_USER, {"password": "what else"}, **change)).code == 0
        await members.stream(master, follower)
        common = master.broker.store.commit_log.end
    members.cut("a", common)
    async with members.master("b", gated=False, **OTHER) as second, members.follower("a") as first:
        assert await may(second)
        await ask(second, Code.AUTH_UPDATE_USER, {"userStatus": "disable"}, username="shop")
        await members.stream(second, first)
        assert users(first)["shop"].status is UserStatus.DISABLED


async def test_who_is_of_the_settings_is_each_members_own_until_he_is_changed(tmp_path: Path) -> None:
    members = secured(tmp_path)
    async with members.master("a", gated=False) as master, members.follower("b") as follower:
        await members.stream(master, follower)
        assert set(users(follower)) == {SUPER, "inner"}
        assert (
            await ask(master, Code.AUTH_CREATE_USER, {"password": "x", "userType": "Super"}, username="other")
        ).code == 0
        assert (await ask(master, Code.AUTH_DELETE_USER, b"", "other", "x", username=SUPER)).code == 0
        await members.stream(master, follower)
    async with members.master("b", gated=False) as second:
        assert SUPER not in users(second)  # though the settings name him


async def test_what_other_servers_tell_goes_by_the_log_and_the_latest_change_wins(tmp_path: Path) -> None:
    members = secured(tmp_path)
    elsewhere = Members(tmp_path / "elsewhere", **ON, **INNER)
    async with (
        elsewhere.master("x", gated=False) as other,
        members.master("a", gated=False) as master,
        members.follower("b") as follower,
    ):
        await make_shop(other)
        told = exchange(other).question(["shop"])
        assert (await exchange(follower).answer("inner", told)) == UserChangesAnswer(is_same=False)
        assert "shop" not in users(follower)  # a follower takes users from its master alone
        await exchange(master).answer("inner", told)
        await members.stream(master, follower)
        assert await may(follower)
        digests = {exchange(life).digest for life in (other, master, follower)}
        assert len(digests) == 1
        await elsewhere.clock.advance(5)
        assert (await ask(other, Code.AUTH_UPDATE_USER, {"password": "later"}, username="shop")).code == 0
        await exchange(master).answer("inner", exchange(other).question(["shop"]))
        await exchange(master).answer("inner", told)  # an older word, once more
        await members.stream(master, follower)
        assert [users(life)["shop"].secrets for life in (master, follower)] == [("later",)] * 2


async def test_a_new_member_has_the_sets_users_and_not_its_own(tmp_path: Path) -> None:
    members = secured(tmp_path)
    async with members.master("a", gated=False) as master, members.follower("new") as new:
        new.broker.base.access.table.directory.create(User("mine", ("x",)))
        await make_shop(master)
        recorder = master.broker.environment.recorder
        assert recorder is not None
        await recorder.write_snapshot()
        await members.stream(master, new)
        assert set(users(new)) == {SUPER, "inner", "shop"}
