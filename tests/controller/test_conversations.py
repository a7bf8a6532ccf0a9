"""Conversations of brokers and administrators with controllers, over the simulations' coordination store."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from pyromq.controller.leadership import ControllerPlace, Leadership
from pyromq.errors import ConfigError
from pyromq.protocol.command import Command
from pyromq.protocol.headers import replication as headers
from pyromq.protocol.requests import RequestCode as Code
from pyromq.testing.coordination import CoordinationFaults
from pyromq.testing.virtual_time import VirtualClock, run_virtually
from tests.controller.world import CLUSTER, NAME, LedBroker, World


def play(folder: Path, scene: Callable[[World], Awaitable[None]], **settings: Any) -> None:
    async def run(clock: VirtualClock) -> None:
        world = World(clock, folder, **settings)
        await world.start()
        await scene(world)
        await world.close()

    run_virtually(run)


def body(answer: Command) -> Any:
    return json.loads(bytes(answer.body))


async def two_in_sync(world: World) -> tuple[LedBroker, LedBroker]:
    first, second = LedBroker(world, 1), LedBroker(world, 2)
    assert (await first.join()).code == 0
    assert (await second.join()).code == 2011  # the master is there: that is success for a broker
    assert (await first.alter([1, 2], epoch=1, set_epoch=1)).code == 0
    return first, second


async def sync_state(world: World, name: str = NAME, at: str = "n0") -> Any:
    asked = await world.talk(at)
    answer = await asked.ask(Code.CONTROLLER_GET_SYNC_STATE_DATA, body=json.dumps([name]).encode())
    assert answer.code == 0, answer
    return body(answer)["replicasInfoTable"].get(name)


async def until(world: World, found: Callable[[], Awaitable[bool]]) -> None:
    for _ in range(200):
        if await found():
            return
        await world.clock.sleep(0.5)
    raise AssertionError("it did not come to that")


def test_a_broker_gets_the_next_id_registers_and_is_elected(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        broker = LedBroker(world, 1)
        broker.talk = await world.talk()
        named = headers.ControlledBroker(broker_name=NAME, cluster_name=CLUSTER)
        answer = await broker.ask(Code.CONTROLLER_GET_NEXT_BROKER_ID, named)
        assert answer.fields == {"clusterName": CLUSTER, "brokerName": NAME, "nextBrokerId": "1"}
        elected = await broker.join()
        assert elected.fields == {
            "masterBrokerId": "1", "masterAddress": broker.address, "syncStateSetEpoch": "1", "masterEpoch": "1",
        }  # fmt: skip
        assert b'{"brokerMemberGroup":{"brokerAddrs":{"1":"broker-a-1:10911"},"brokerName":"broker-a","cluster"' in (
            elected.body
        )
        assert (await broker.ask(Code.CONTROLLER_GET_NEXT_BROKER_ID, named)).fields["nextBrokerId"] == "2"
        info = await broker.ask(Code.CONTROLLER_GET_REPLICA_INFO, headers.GetReplicaInfo(broker_name=NAME))
        assert info.fields == {"masterBrokerId": "1", "masterAddress": broker.address, "masterEpoch": "1"}
        assert body(info) == {"syncStateSet": [1], "syncStateSetEpoch": 1}
        told = await broker.told.get()
        assert (told.code, told.fields["masterBrokerId"]) == (Code.NOTIFY_BROKER_ROLE_CHANGED, "1")

    play(tmp_path, scene)


def test_registering_answers_with_the_master_only_while_it_is_there(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        first, second = await two_in_sync(world)
        answer = await second.register()
        assert (answer.fields["masterBrokerId"], answer.fields["syncStateSetEpoch"]) == ("1", "2")
        await world.clock.sleep(11)
        await second.heartbeat()
        assert "masterBrokerId" not in (await second.register()).fields
        assert body(await second.register())["syncStateSet"] == [1, 2]
        del first

    play(tmp_path, scene, scan_not_active_broker_interval=60_000, scan_inactive_master_interval=60_000)


def test_a_master_whose_connection_ends_is_replaced_at_once_and_the_others_are_told(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        first, second = await two_in_sync(world)
        await world.clock.sleep(6)
        for broker in (first, second):
            await broker.heartbeat()
        while not second.told.empty():
            second.told.get_nowait()
        begun = world.clock.monotonic()
        first.die()
        told = await second.told.get()
        assert world.clock.monotonic() - begun < 1
        assert told.fields["masterBrokerId"] == "2"
        assert body(told) == {"syncStateSet": [2], "syncStateSetEpoch": 3}
        found = await sync_state(world)
        assert (found["masterBrokerId"], found["masterEpoch"]) == (2, 2)
        assert [one["brokerId"] for one in found["notInSyncReplicas"]] == [1]

    play(tmp_path, scene)


def test_a_silent_master_is_replaced_after_its_time(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        _, second = await two_in_sync(world)

        async def replaced() -> bool:
            await second.heartbeat()
            return bool((await sync_state(world))["masterBrokerId"] == 2)

        await until(world, replaced)
        assert world.clock.monotonic() > 10

    play(tmp_path, scene)


def test_nobody_is_elected_who_is_not_in_sync_and_the_set_waits_for_one_that_is(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        first, second = await two_in_sync(world)
        assert (await first.alter([1], epoch=1, set_epoch=2)).code == 0
        await world.clock.sleep(6)
        for broker in (first, second):
            await broker.heartbeat()
        first.die()
        await world.clock.sleep(2)
        found = await sync_state(world)
        assert found.get("masterBrokerId") is None
        assert found["masterEpoch"] == 2
        answer = await second.elect()
        assert (answer.code, answer.remark) == (2012, "Failed to elect a new master")
        info = await second.ask(Code.CONTROLLER_GET_REPLICA_INFO, headers.GetReplicaInfo(broker_name=NAME))
        assert info.fields == {"masterEpoch": "2"}
        assert (await first.join()).fields["masterEpoch"] == "3"

    play(tmp_path, scene)


def test_an_administrator_elects_a_replica_that_is_in_sync(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        first, second = await two_in_sync(world)
        answer = await second.elect(designated=True)
        assert (answer.code, answer.fields["masterEpoch"]) == (0, "2")
        again = await second.elect(designated=True)
        assert again.code == 2011
        assert again.remark == "The old master 2 is still alive, not need to elect new master for broker broker-a"
        assert body(again) == {"syncStateSet": [2]}
        assert (await first.elect(designated=True)).code == 2012

    play(tmp_path, scene)


def test_the_minimum_of_the_settings_holds_and_may_be_changed(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        first, _ = await two_in_sync(world)
        refused = await first.alter([1], epoch=1, set_epoch=2)
        assert (refused.code, "minInSyncReplicas is 2" in (refused.remark or "")) == (2013, True)
        assert (await first.ask(Code.UPDATE_CONTROLLER_CONFIG, body=b"minInSyncReplicas=1")).code == 0
        assert (await first.alter([1], epoch=1, set_epoch=2)).code == 0

    play(tmp_path, scene, min_in_sync_replicas=2)


def test_settings_are_shown_and_those_of_the_black_list_are_not_changed(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        talk = await world.talk()
        shown = bytes((await talk.ask(Code.GET_CONTROLLER_CONFIG)).body).decode()
        assert "enableElectUncleanMaster=false\n" in shown
        assert "controllerDLegerSelfId=n0\n" in shown
        assert "Password" not in shown
        black = await talk.ask(Code.UPDATE_CONTROLLER_CONFIG, body=b"configStorePath=/x")
        assert (black.code, black.remark) == (16, "Can not update config in black list.")
        fixed = await talk.ask(Code.UPDATE_CONTROLLER_CONFIG, body=b"listenPort=1")
        assert fixed.code == 16
        assert (await talk.ask(Code.UPDATE_CONTROLLER_CONFIG, body=b"nonsense=1")).code != 0

    play(tmp_path, scene)


def test_brokers_are_forgotten(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        first, second = await two_in_sync(world)

        async def clean(ids: str, *, living: bool = False) -> int:
            header = headers.CleanBrokerData(
                cluster_name=CLUSTER,
                broker_name=NAME,
                broker_controller_ids_to_clean=ids,
                is_clean_living_broker=living,
            )
            return (await first.ask(Code.CLEAN_BROKER_DATA, header)).code

        assert await clean("2") == 2009
        second.die()
        await world.clock.sleep(1)
        assert await clean("2") == 0
        assert [one["brokerId"] for one in (await sync_state(world))["inSyncReplicas"]] == [1]
        assert await clean("", living=True) == 0
        assert await sync_state(world) is None
        assert await clean("") == 2009

    play(tmp_path, scene)


def test_only_the_controller_that_leads_answers_and_all_say_who_it_is(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        await world.start("n1")
        await two_in_sync(world)
        other = await world.talk("n1")
        refused = await other.ask(Code.CONTROLLER_GET_REPLICA_INFO, headers.GetReplicaInfo(broker_name=NAME))
        assert (refused.code, refused.remark) == (2007, "The controller is not in leader state")
        found = await other.ask(Code.CONTROLLER_GET_METADATA_INFO)
        assert found.fields["controllerLeaderAddress"] == "n0:9877"
        assert found.fields["isLeader"] == "false"
        leading = await (await world.talk()).ask(Code.CONTROLLER_GET_METADATA_INFO)
        assert leading.fields["isLeader"] == "true"

        async def both_are_known() -> bool:
            known = await other.ask(Code.CONTROLLER_GET_METADATA_INFO)
            return known.fields["peers"] == "n0:n0:9877;n1:n1:9877;"

        await until(world, both_are_known)

    play(tmp_path, scene)


def test_another_controller_leads_when_the_first_is_gone_and_replaces_masters(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        await world.start("n1")
        first, second = await two_in_sync(world)
        world.members["n0"].faults = CoordinationFaults(is_reachable=False)
        other = await world.talk("n1")

        async def led() -> bool:
            second.talk = other
            await second.heartbeat()
            found = await other.ask(Code.CONTROLLER_GET_METADATA_INFO)
            return found.fields["isLeader"] == "true"

        await until(world, led)

        async def replaced() -> bool:
            await second.heartbeat()
            return bool((await sync_state(world, at="n1"))["masterBrokerId"] == 2)

        await until(world, replaced)
        asked = await first.ask(Code.CONTROLLER_GET_REPLICA_INFO, headers.GetReplicaInfo(broker_name=NAME))
        assert asked.code == 2007

    play(tmp_path, scene)


def test_two_controllers_of_one_name_are_refused(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        with pytest.raises(ConfigError, match="the controller at n0:9877 has this name"):
            await Leadership(world.store.member("x"), world.clock, "pyromq", "/pyromq").join(
                ControllerPlace("n0", "elsewhere:1")
            )

    play(tmp_path, scene)


def test_a_change_whose_answer_is_lost_is_settled_before_it_is_answered(tmp_path: Path) -> None:
    """A late change must not come behind an answer that says that it failed."""

    async def scene(world: World) -> None:
        first, _ = await two_in_sync(world)
        world.members["n0"].faults = CoordinationFaults(late=0.5, unanswered=0.3, late_s=30.0)
        outcome = await first.alter([1], epoch=1, set_epoch=2)
        world.members["n0"].faults = CoordinationFaults()
        said = await kept(world)
        await world.clock.sleep(60)
        assert await kept(world) == said
        if outcome.code == 0:
            assert said == [1]

    async def kept(world: World) -> Any:
        return json.loads(world.store.keys[f"/pyromq/{CLUSTER}/{NAME}/controlled"].value)["inSync"]

    for seed in range(20):
        play(tmp_path / str(seed), scene)


def test_all_keys_begin_with_the_prefix_of_the_settings(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        await two_in_sync(world)
        assert (await sync_state(world))["masterBrokerId"] == 1
        assert {key.split("/")[1] for key in world.store.keys} == {"elsewhere"}

    play(tmp_path, scene, etcd_prefix="/elsewhere")


def test_without_its_store_a_controller_says_so(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        first, _ = await two_in_sync(world)
        world.members["n0"].faults = CoordinationFaults(is_reachable=False)
        answer = await first.ask(Code.CONTROLLER_GET_REPLICA_INFO, headers.GetReplicaInfo(broker_name=NAME))
        assert answer.code == 1
        assert "the coordination store" in (answer.remark or "")

    play(tmp_path, scene)


@pytest.mark.parametrize(
    ("code", "header", "answer"),
    [
        (Code.CONTROLLER_GET_REPLICA_INFO, headers.GetReplicaInfo(broker_name="none"), 2008),
        (Code.CONTROLLER_GET_REPLICA_INFO, headers.GetReplicaInfo(), 2005),
        (Code.CONTROLLER_GET_REPLICA_INFO, headers.GetReplicaInfo(broker_name="../state"), 2005),
        (Code.CONTROLLER_APPLY_BROKER_ID, headers.ApplyBrokerId(broker_name="a", cluster_name="c"), 2005),
        (Code.CONTROLLER_REGISTER_BROKER, headers.RegisterBrokerToController(broker_name="a"), 2005),
        (Code.CONTROLLER_ELECT_MASTER, headers.ElectMaster(broker_name="a", cluster_name="c", broker_id=1), 2010),
        (Code.CONTROLLER_GET_SYNC_STATE_DATA, None, 1),
        (Code.BROKER_CLOSE_CHANNEL_REQUEST, None, 3),
        (Code.RAFT_BROKER_HEART_BEAT_EVENT_REQUEST, None, 3),
    ],
)
def test_what_names_nothing_known_is_refused(tmp_path: Path, code: int, header: Any, answer: int) -> None:
    async def scene(world: World) -> None:
        assert (await (await world.talk()).ask(code, header)).code == answer

    play(tmp_path, scene)


def test_heartbeats_beyond_the_limit_and_without_an_id_are_refused(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        first, second = LedBroker(world, 1), LedBroker(world, 2)
        first.talk = second.talk = await world.talk()
        heard = await first.heartbeat()
        assert (heard.code, heard.remark) == (0, "Heart beat success")
        assert (await first.heartbeat()).code == 0
        assert (await second.heartbeat()).code == 2
        assert (await first.heartbeat(broker_id=None)).code == 2005

    play(tmp_path, scene, max_brokers=1)
