"""A whole broker as slave, of a scripted master in memory: what it serves, what it refuses, what does not run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pyromq.broker.config import BrokerConfig
from pyromq.broker.registration import Identity
from pyromq.broker.replication.following.joining import no_master
from pyromq.broker.replication.settings import BrokerRole
from pyromq.broker.replication.slave_surface import CHANGES, ENDS, SENDS
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.protocol.grpc import v2
from pyromq.protocol.headers.offsets import GetMaxOffset
from pyromq.protocol.requests import RequestCode as Code
from pyromq.protocol.row import AnyRow
from pyromq.proxy.statuses import Denied
from pyromq.store.message_store import MessageStore
from pyromq.testing.clock import ManualClock
from pyromq.testing.in_process import InProcessBroker, virtual_loops
from pyromq.testing.simulated_disk import SimulatedDisk
from pyromq.transport.memory import MemoryNetwork
from tests.broker.replication.scripted_master import PLACE, ScriptedMaster
from tests.broker.running import SMALL
from tests.broker.virtual import QUIET, Virtual
from tests.store.small import put

SLAVE = {"broker_role": BrokerRole.SLAVE, "broker_id": 1, "ha_master_address": PLACE.ha_address}


class Pair:
    def __init__(self) -> None:
        self.clock, self.network = ManualClock(), MemoryNetwork()
        config = BrokerConfig(**SMALL, broker_name="a", broker_cluster_name="C", listen_port=0)
        self.master = ScriptedMaster(MessageStore(SimulatedDisk(), config, self.clock), self.clock, self.network)
        self.disk = SimulatedDisk(now_ms=self.clock.now_ms)

    @asynccontextmanager
    async def slave(self, folder: Path, **settings: Any) -> AsyncIterator[Virtual]:
        base = SMALL | QUIET | SLAVE | {"broker_name": "a", "broker_cluster_name": "C", "listen_port": 0}
        config = BrokerConfig(**(base | {"store_path_root_dir": folder} | settings))
        life = await InProcessBroker.start(
            config, clock=self.clock, disk=self.disk, connect=self.network.connect, loops=virtual_loops()
        )
        slave = Virtual(life, self.clock, self.disk)
        slave.broker.topics.put(TopicConfig(topic_name="T"))
        await self.clock.advance(2)
        try:
            yield slave
        finally:
            await life.halt()
            await slave.client.close()
            await life.stop()

    async def send(self, *bodies: str, topic: str = "T") -> None:
        put(self.master.store, *bodies, topic=topic)
        for stream in self.master.streams:
            if not stream.is_lost:
                stream.go_on()
        await self.clock.settle()


async def test_what_the_master_has_is_read_from_the_slave(tmp_path: Path) -> None:
    both = Pair()
    put(both.master.store, "one", "two")
    async with both.slave(tmp_path, slave_read_enable=True) as slave:
        assert [message.body for message in await slave.pulled()] == [b"one", b"two"]
        await both.send("three")
        assert [message.body for message in await slave.pulled(offset=2)] == [b"three"]
        assert (await slave.call(Code.GET_MAX_OFFSET, topic="T", queueId=0)).fields["offset"] == "3"


async def test_without_slave_reads_pulls_are_refused(tmp_path: Path) -> None:
    both = Pair()
    async with both.slave(tmp_path) as slave:
        answer = await slave.pull()
        assert answer.code == 2
        assert "slaveReadEnable=true" in str(answer.remark)


@pytest.mark.parametrize("row", [*SENDS, *CHANGES, *ENDS], ids=lambda row: row.name)
async def test_what_only_a_master_serves_is_refused_with_its_address(tmp_path: Path, row: AnyRow) -> None:
    both = Pair()
    async with both.slave(tmp_path) as slave:
        answer = await slave.call(row)
        assert answer.code == (11 if row in ENDS else 14)
        assert f"its master, which serves this, is {PLACE.address}" in str(answer.remark)
        assert slave.broker.store.commit_log.end == 0


async def test_grpc_clients_are_sent_to_the_master(tmp_path: Path) -> None:
    both = Pair()
    async with both.slave(tmp_path) as slave:
        backend, peer = slave.broker.grpc.backend, slave.peer
        for asked in (
            backend.route("T"),
            backend.call("", Code.SEND_MESSAGE_V2, peer=peer, timeout_s=1),
            backend.call("", Code.POP_MESSAGE, peer=peer, timeout_s=1),
        ):
            with pytest.raises(Denied, match=f"endpoint of its master, which is {PLACE.address}") as denied:
                await asked
            assert denied.value.code == v2.Code.HA_NOT_AVAILABLE
        header = GetMaxOffset(topic="T", queue_id=0)
        assert (await backend.call("", Code.GET_MAX_OFFSET, header, peer=peer, timeout_s=1)).code == 0


async def test_sends_do_not_reach_the_log_by_any_way(tmp_path: Path) -> None:
    both = Pair()
    async with both.slave(tmp_path) as slave:
        assert (await slave.send()).code == 14
        assert slave.broker.verdicts[0].judge(b"T") is None


async def test_a_topic_is_deleted_with_its_offsets_and_commits(tmp_path: Path) -> None:
    """`mqadmin deleteSubGroup -c` asks slaves too, and ends at the first one that refuses."""
    both = Pair()
    put(both.master.store, "one")
    async with both.slave(tmp_path, slave_read_enable=True) as slave:
        slave.broker.offsets.commit("T", "G", 0, 1)
        slave.broker.slave_tables.commits.note("T@G", 0, 1)
        assert (await slave.call(Code.DELETE_TOPIC_IN_BROKER, topic="T")).code == 0
        assert "T" not in slave.broker.topics
        assert slave.broker.offsets.find("T", "G", 0) is None
        assert not slave.broker.slave_tables.commits.all()
        assert (await slave.pull()).code == 17
        assert slave.broker.store.queues.of_topic("T")  # the master has not deleted it, as far as is known


@pytest.mark.parametrize("offset", [7, 1 << 40])
async def test_a_slave_that_lacks_messages_sends_nobody_back(tmp_path: Path, offset: int) -> None:
    both = Pair()
    put(both.master.store, "one")
    async with both.slave(tmp_path, slave_read_enable=True) as slave:
        answer = await slave.pull(offset=offset)
        assert (answer.code, answer.fields["nextBeginOffset"]) == (19, str(offset))
    async with both.slave(tmp_path, slave_read_enable=True, offset_check_in_slave=True) as slave:
        assert (await slave.pull(offset=offset)).code == 21


async def test_it_delivers_nothing_by_itself(tmp_path: Path) -> None:
    """A delayed message is the master's to deliver; an hour later the slave has what the master has."""
    both = Pair()
    async with both.slave(tmp_path, slave_read_enable=True) as slave:
        await both.send("later", topic="SCHEDULE_TOPIC_XXXX")
        await both.clock.advance(3600)
        assert slave.broker.store.commit_log.end == both.master.store.commit_log.end


async def test_inspection_says_why_it_does_not_follow(tmp_path: Path) -> None:
    both = Pair()
    both.master.settings["brokerName"] = "b"
    async with both.slave(tmp_path) as slave:
        found = (await slave.call(Code.INSPECT)).body
        assert b"is broker b of cluster C" in found
        runtime = (await slave.call(Code.GET_BROKER_RUNTIME_INFO)).body
        assert b"has stopped following" in runtime


async def test_without_a_master_it_says_whom_it_asked_and_what_to_do(tmp_path: Path) -> None:
    both = Pair()
    async with both.slave(tmp_path, ha_master_address=None, namesrv_addr=["127.0.0.1:9"]) as slave:
        for code in (Code.INSPECT, Code.GET_BROKER_RUNTIME_INFO):
            found = bytes((await slave.call(code)).body).decode()
            assert "no master is known of broker a in cluster C: no name server was reached (127.0.0.1:9" in found
            assert "brokerName=a, brokerId=0" in found
            assert "haMasterAddress" in found


def test_which_name_servers_know_no_master() -> None:
    own = Identity(cluster="C", broker_name="a", address="h:1", broker_id=1)
    assert "set namesrvAddr" in no_master(own, {})
    assert ": n:1 knows none." in no_master(own, {"n:1": "registered"})
    assert ": n:1, n:2 know none (n:3 does not answer: gone)." in no_master(
        own, {"n:1": "registered", "n:3": "gone", "n:2": "registered"}
    )


async def test_ha_status_says_when_the_master_was_heard_last(tmp_path: Path) -> None:
    both = Pair()
    put(both.master.store, "one")
    async with both.slave(tmp_path) as slave:
        await both.send("two")
        shown = json.loads(bytes((await slave.call(Code.GET_BROKER_HA_STATUS)).body))["haClientRuntimeInfo"]
        assert shown["masterAddr"] == PLACE.ha_address
        assert shown["maxOffset"] == both.master.store.commit_log.end
        assert 0 < both.clock.now_ms() - 2000 <= shown["lastReadTimestamp"] <= both.clock.now_ms()
        assert shown["lastReadTimestamp"] <= shown["lastWriteTimestamp"] <= both.clock.now_ms()


async def test_a_slave_that_follows_is_ready(tmp_path: Path) -> None:
    both = Pair()
    async with both.slave(tmp_path) as slave:
        assert b'"ready":true' in bytes((await slave.call(Code.INSPECT)).body)


async def test_who_waits_at_the_slave_is_sent_to_the_master_when_it_returns(tmp_path: Path) -> None:
    both = Pair()
    put(both.master.store, "one")
    async with both.slave(tmp_path, slave_read_enable=True) as slave:
        both.master.go()
        await both.clock.advance(1)
        waiting = asyncio.create_task(slave.pull(offset=1, sysFlag=6, suspendTimeoutMillis=60_000))
        await both.clock.settle()
        assert not waiting.done()
        both.master.come()
        await both.clock.advance(8)
        assert waiting.done()
        answer = await waiting
        assert (answer.code, answer.fields["suggestWhichBrokerId"]) == (19, "0")


async def test_a_slaves_store_is_a_masters_after_a_restart(tmp_path: Path) -> None:
    both = Pair()
    put(both.master.store, "one")
    async with both.slave(tmp_path):
        pass
    promoted = {"broker_role": BrokerRole.ASYNC_MASTER, "broker_id": 0, "ha_master_address": None}
    async with both.slave(tmp_path, **promoted) as master:
        assert (await master.send(body=b"two")).code == 0
        assert [message.body for message in await master.pulled()] == [b"one", b"two"]
