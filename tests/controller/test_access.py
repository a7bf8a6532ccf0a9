"""Who may ask a controller what: brokers by the inner credentials, others by their policies; and what is noted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pyromq.access.directory import Directory
from pyromq.access.forms import policies_of
from pyromq.access.settings import AccessSettings
from pyromq.access.signatures import is_signed
from pyromq.access.users import User
from pyromq.audit.log import AuditLog
from pyromq.audit.settings import AuditSettings
from pyromq.audit.verify import entries
from pyromq.audit.writer import ChainWriter
from pyromq.protocol.bodies.groups import AclInfo, PolicyEntryInfo, PolicyInfo
from pyromq.protocol.headers import replication as headers
from pyromq.protocol.requests import RequestCode as Code
from pyromq.store.message_store import run_at_once
from pyromq.testing.virtual_time import VirtualClock, run_virtually
from tests.access.matrix import ON, SECRET, is_refused, request_of, signed
from tests.access.sharing_servers import Memory, server_with
from tests.controller.test_conversations import play
from tests.controller.world import CLUSTER, NAME, LedBroker, World

INNER = "inner"
SECURED = ON | {"inner_client_authentication_credentials": f'{{"accessKey":"{INNER}","secretKey":"{SECRET}"}}'}


def allow(directory: Directory, name: str, *actions: str) -> None:
    directory.create(User(name, (SECRET,)))
    entry = PolicyEntryInfo(resource="Cluster:DefaultCluster", actions=list(actions), decision="Allow")
    directory.put(name, policies_of(AclInfo(policies=[PolicyInfo(entries=[entry])])))


def broker(world: World, replica: int, signs: str = INNER) -> LedBroker:
    found = LedBroker(world, replica)
    found.sign = lambda command: signed(command, signs)
    return found


def test_a_broker_takes_part_by_the_inner_credentials_and_a_stranger_does_not(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        stranger = LedBroker(world, 7)
        stranger.talk = await world.talk()
        for answer in (await stranger.register(), await stranger.heartbeat(), await stranger.elect()):
            assert is_refused(answer), answer
        assert is_refused(await stranger.alter([7], epoch=1, set_epoch=1))
        assert (await broker(world, 1).join()).code == 0
        known = await world.store.member("test").read(f"/pyromq/{CLUSTER}/{NAME}/")
        (stored,) = known.keys.values()
        assert list(json.loads(stored.value)["replicas"]) == ["1"]

    play(tmp_path, scene, **SECURED)


def test_who_may_read_changes_nothing(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        await broker(world, 1).join()
        directory = world.controllers["n0"].access.table.directory
        allow(directory, "reader", "Get")
        allow(directory, "operator", "Get", "Update")
        for name, is_let in (("reader", False), ("operator", True)):
            asker = broker(world, 1, name)
            asker.talk = await world.talk()
            info = headers.GetReplicaInfo(broker_name=NAME)
            assert (await asker.ask(Code.CONTROLLER_GET_REPLICA_INFO, info)).code == 0
            changes = [
                await asker.elect(designated=True),
                await asker.ask(Code.UPDATE_CONTROLLER_CONFIG, body=b"maxBrokers=9\n"),
                await asker.ask(Code.CLEAN_BROKER_DATA, headers.CleanBrokerData(broker_name=NAME)),
            ]
            assert [not is_refused(answer) for answer in changes] == [is_let] * 3

    play(tmp_path, scene, **SECURED)


def test_what_it_tells_brokers_is_signed(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        first, second = broker(world, 1), broker(world, 2)
        await first.join()
        await second.join()
        await first.alter([1, 2], epoch=1, set_epoch=1)
        first.die()
        notice = await second.told.get()
        while notice.code != Code.NOTIFY_BROKER_ROLE_CHANGED.code:
            notice = await second.told.get()
        assert notice.fields["AccessKey"] == INNER
        assert is_signed(notice, (SECRET,))

    play(tmp_path, scene, **SECURED)


def test_users_are_those_that_brokers_tell_of(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        master = broker(world, 1)
        await master.join()
        settings = AccessSettings(**{key: value for key, value in SECURED.items() if not key.startswith("stranger")})
        other = server_with(settings, Memory(), world.clock.now_ms, "broker")
        allow(other.table.directory, "shop", "Get")
        row = Code.SHARE_USERS
        told = other.exchange.question(["shop"])
        assert (await master.ask(row, body=row.takes.write_body(told))).code == 0
        shop = broker(world, 1, "shop")
        shop.talk = await world.talk()
        assert (await shop.ask(Code.CONTROLLER_GET_METADATA_INFO)).code == 0
        other.table.directory.delete("shop")
        assert (await master.ask(row, body=row.takes.write_body(other.exchange.question(["shop"])))).code == 0
        assert is_refused(await shop.ask(Code.CONTROLLER_GET_METADATA_INFO))
        assert is_refused(await shop.ask(row, body=row.takes.write_body(told)))

    play(tmp_path, scene, **SECURED)


def test_calls_and_refusals_are_in_the_audit_log_without_secrets(tmp_path: Path) -> None:
    async def run(clock: VirtualClock) -> None:
        settings = AuditSettings()
        writer = ChainWriter.open(tmp_path / "audit", settings.audit_file_bytes, settings.audit_files)
        audit = AuditLog(writer, clock, run_at_once, settings.audit_repeat_seconds)
        world = World(clock, tmp_path, **SECURED)
        await world.start(audit=audit)
        await broker(world, 1).join()
        stranger = LedBroker(world, 2)
        stranger.talk = await world.talk()
        assert is_refused(await stranger.elect())
        admin = broker(world, 1, "boss")
        admin.talk = await world.talk()
        assert (await admin.ask(Code.UPDATE_CONTROLLER_CONFIG, body=b"maxBrokers=9\n")).code == 0
        command = signed(request_of(Code.AUTH_CREATE_USER), "boss")
        command.fields["username"], command.body = "late", json.dumps({"password": SECRET}).encode()
        assert (await admin.talk.ask_command(signed(command, "boss"))).code == 0
        await world.close()
        await audit.close()

    run_virtually(run)
    noted = list(entries(tmp_path / "audit"))
    calls: dict[str, Any] = {one["call"]: one for one in noted if one["kind"] == "call"}
    assert calls["CONTROLLER_ELECT_MASTER"]["user"] == INNER
    assert (calls["UPDATE_CONTROLLER_CONFIG"]["user"], calls["AUTH_CREATE_USER"]["user"]) == ("boss", "boss")
    changed = calls["UPDATE_CONTROLLER_CONFIG"]
    assert (changed["before"]["maxBrokers"], changed["after"]["maxBrokers"]) == ("10000", "9")
    assert [one["call"] for one in noted if one["kind"] == "refusal"] == ["CONTROLLER_ELECT_MASTER"]
    for file in (tmp_path / "audit").iterdir():
        assert SECRET.encode() not in file.read_bytes()


@pytest.mark.parametrize("authentication", [True, False])
def test_users_are_kept_over_restarts_only_where_somebody_is_asked_who_he_is(
    tmp_path: Path, authentication: bool
) -> None:
    settings = SECURED if authentication else {}

    async def scene(world: World) -> None:
        admin = broker(world, 1, "boss")
        admin.talk = await world.talk()
        body = json.dumps({"password": SECRET}).encode()
        command = request_of(Code.AUTH_CREATE_USER)
        command.fields["username"], command.body = "shop", body
        answer = await admin.talk.ask_command(signed(command, "boss"))
        assert (answer.code == 0) is authentication
        await world.stop()
        again = await world.start()
        assert ("shop" in again.access.table.directory.users) is authentication

    play(tmp_path, scene, **settings)
