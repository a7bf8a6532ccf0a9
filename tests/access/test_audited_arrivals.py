"""What changes users here though nobody asked for it here is a line of the audit log: other servers, files, the log."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pyromq.access.directory import Arrival
from pyromq.access.forms import policies_of
from pyromq.access.settings import AccessSettings
from pyromq.access.users import User, UserStatus
from pyromq.ambient import SystemClock
from pyromq.audit.log import AuditLog
from pyromq.audit.opening import audit_log
from pyromq.audit.settings import AuditSettings
from pyromq.audit.verify import entries, verify
from pyromq.model.codes import ResponseCode
from pyromq.protocol.bodies.groups import AclInfo, PolicyEntryInfo, PolicyInfo
from pyromq.protocol.command import Command
from pyromq.protocol.requests import RequestCode as Code
from pyromq.store.message_store import run_at_once
from tests.access.each_server import SERVERS, serving
from tests.access.hidden import told_in_files
from tests.access.matrix import SECRET, signed
from tests.access.sharing_servers import Memory, SharingServer, server_with
from tests.access.test_plain_layer import BOSS, SHOP, Files, as_shop, is_taken
from tests.broker.replication.tables.members import Members
from tests.broker.replication.tables.test_users_in_log import make_shop, secured
from tests.broker.running import running_broker, turn

INNER: dict[str, Any] = {
    "inner_client_authentication_credentials": json.dumps({"accessKey": "inner", "secretKey": SECRET})
}
FIRST, SECOND = "the first secret of the shop", "the second secret of the shop"


@asynccontextmanager
async def audited(folder: Path) -> AsyncIterator[AuditLog]:
    async with audit_log("server", AuditSettings(), folder, SystemClock(), run_at_once) as audit:
        assert audit is not None
        yield audit


def lines(folder: Path) -> list[dict[str, Any]]:
    assert verify(folder).alarms == []
    return [one for one in entries(folder) if one["kind"] == "policy"]


async def written(folder: Path, count: int) -> None:
    while sum(one["kind"] == "policy" for one in entries(folder)) < count:
        await turn()


def other_server() -> SharingServer:
    settings = AccessSettings(authentication_enabled=True, **INNER)
    return server_with(settings, Memory(), lambda: 1_800_000_000_000, "other:10911")


def entry(resource: str) -> Any:
    return policies_of(
        AclInfo(policies=[PolicyInfo(entries=[PolicyEntryInfo(resource=resource, actions=["Pub"], decision="Allow")])])
    )


@pytest.mark.parametrize("kind", SERVERS)
async def test_what_another_server_tells(kind: str, tmp_path: Path) -> None:
    """Each change once, with before and after, who told it and where it was made; no secret, no old word."""
    other, row = other_server(), Code.SHARE_USERS
    directory = other.table.directory
    async with audited(tmp_path / "audit") as audit, serving(kind, tmp_path / "own", audit, **INNER) as (ask, _):

        async def tell(who: str = "inner") -> Command:
            body = row.takes.write_body(other.exchange.question(["shop"]))
            return await ask(signed(Command(row.code, body=body), who))

        directory.create(User("shop", (FIRST,)))
        directory.put("shop", entry("Topic:A"))
        assert (await tell()).code == (await tell()).code == 0
        directory.put("shop", entry("Topic:B"))
        assert (await tell("boss")).code == ResponseCode.NO_PERMISSION
        assert (await tell()).code == 0
        directory.update("shop", SECOND, None, UserStatus.DISABLED)
        assert (await tell()).code == 0
        directory.delete("shop")
        assert (await tell()).code == 0
    told = lines(tmp_path / "audit")
    assert len(told) == 4
    assert {(one["user"], one["about"], one["madeAt"]) for one in told} == {("inner", "User:shop", "other:10911")}
    assert all(one["from"].startswith("127.0.0.1:") for one in told)
    made, given, changed, gone = told
    assert made["before"] is None
    assert made["after"]["username"] == "shop"
    assert [one["resource"] for one in made["after"]["policies"][0]["entries"]] == ["Topic:A"]
    assert given["before"] == made["after"]
    assert [one["resource"] for one in given["after"]["policies"][0]["entries"]] == ["Topic:A", "Topic:B"]
    assert "passwordChanged" not in given
    assert (changed["passwordChanged"], changed["after"]["userStatus"]) == (True, "disable")
    assert gone["after"] is None
    assert told_in_files(tmp_path / "audit", [FIRST, SECOND, SECRET], []) == {}


async def test_what_is_learnt_by_asking_names_who_was_asked() -> None:
    here, other = other_server(), other_server()
    other.table.directory.create(User("shop", (FIRST,)))
    heard: list[Arrival] = []
    here.table.directory.on_arrival.append(heard.append)
    await here.exchange.take([other.exchange.entry("shop")], "10.0.0.7:10911")
    (one,) = heard
    assert (one.name, one.told_by, one.source, one.made_at) == ("shop", "inner", "10.0.0.7:10911", "other:10911")


async def test_what_files_of_acl_1_say(tmp_path: Path) -> None:
    """Nothing at the start; then each account that is another than before, and addresses that are let in."""
    files = Files(tmp_path)
    files.write(SHOP)
    store = tmp_path / "store"
    async with audited(tmp_path / "audit") as audit, running_broker(store, audit=audit, **files.settings) as broker:
        assert is_taken(await as_shop(broker))
        files.write(SHOP | {"topicPerms": ["Other=PUB"]})
        await written(tmp_path / "audit", 1)
        files.write(
            SHOP | {"topicPerms": ["Other=PUB"], "secretKey": SECOND}, BOSS | {"whiteRemoteAddress": "10.1.*.*"}
        )
        await written(tmp_path / "audit", 3)
        files.write(BOSS, white=("127.0.0.*",))
        await written(tmp_path / "audit", 6)
    told = lines(tmp_path / "audit")
    assert {one["user"] for one in told} == {""}
    assert {one["from"] for one in told} == {str(files.main)}
    assert [one["about"] for one in told] == [
        "User:the-shop",  # another permission
        "User:the-boss",  # made
        "User:the-shop",  # another secret
        "all accounts",  # an address
        "User:the-boss",  # without one
        "User:the-shop",  # gone
    ]
    first, boss, secret, white, less, gone = told
    before, after = (
        {one["resource"] for one in each["policies"][0]["entries"] if one["resource"].startswith("Topic:")}
        for each in (first["before"], first["after"])
    )
    assert (before - after, after - before) == ({"Topic:T"}, {"Topic:Other"})
    assert (boss["before"], boss["after"]["believedFrom"]) == (None, ["10.1.*.*"])
    assert secret["passwordChanged"] is True
    assert (white["before"], white["after"]) == (None, {"believedFrom": ["127.0.0.*"]})
    assert "believedFrom" not in less["after"]
    assert gone["after"] is None
    assert told_in_files(tmp_path / "audit", [SECOND, str(SHOP["secretKey"]), str(BOSS["secretKey"])], []) == {}


async def test_what_the_log_of_an_elected_set_says(tmp_path: Path) -> None:
    members: Members = secured(tmp_path)
    async with members.master("a", gated=False) as master, members.follower("b") as follower:
        heard: list[Arrival] = []
        follower.broker.base.access.table.directory.on_arrival.append(heard.append)
        await make_shop(master)
        await members.stream(master, follower)
    about_shop = [one for one in heard if one.name == "shop"]
    assert about_shop
    assert {(one.told_by, one.source) for one in about_shop} == {("", "the log of the set")}
    assert about_shop[0].before.user is None
    assert about_shop[-1].after.policies
