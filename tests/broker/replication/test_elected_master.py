"""A whole broker as master of an elected set: what its clients hear of sends, by either kernel, whatever was sent."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from pyromq.ambient import SystemClock
from pyromq.broker.broker import Broker
from pyromq.broker.config import BrokerConfig
from pyromq.broker.elected.mastership import Mastership
from pyromq.broker.elected.role import ElectedRole
from pyromq.broker.replication.settings import BrokerRole
from pyromq.config import Loaded
from pyromq.errors import ConnectionLost
from pyromq.machine.budget import Budget
from pyromq.model.codes import ResponseCode
from pyromq.protocol.replication.epochs import EpochList, MasterEpoch
from pyromq.store.config import FlushMode
from pyromq.store.epochs import save_epochs
from pyromq.store.files.real_disk import RealDisk
from pyromq.store.message_store import run_at_once
from pyromq.testing.in_process import InProcessBroker
from pyromq.transport.client import RemotingClient
from tests.broker.replication.elected_pair import ActingLead
from tests.broker.replication.test_sync_master import all_kinds
from tests.broker.running import SMALL, Running, turns_until

FIRST = EpochList([MasterEpoch(1, 0)])
NO_WAIT = {"WAIT": "false"}


class Elected(Running):
    """A broker that leads replica 2, which says what the test says."""

    lead: ActingLead

    def report(self) -> None:
        """Let replica 2 have all of the log."""
        self.lead.note_report(2, self.broker.store.commit_log.end)


@asynccontextmanager
async def elected_master(
    folder: Path, members: tuple[int, ...] = (1, 2), slave_timeout: int = 60_000, **settings: Any
) -> AsyncIterator[Elected]:
    own = {
        "broker_name": "a",
        "listen_port": 0,
        "store_path_root_dir": folder,
        "etcd_endpoints": ("http://127.0.0.1:1",),
    }
    role = {"broker_role": BrokerRole.SYNC_MASTER, "slave_timeout": slave_timeout, "min_in_sync_replicas": 2}
    config = BrokerConfig(**(SMALL | own | role | settings))
    disk, clock = RealDisk(folder, create=True), SystemClock()
    save_epochs(disk, FIRST)
    lead = ActingLead(1, 1, members, 0, 0)
    broker = await Broker.open(
        Loaded(config),
        clock=clock,
        rng=random.Random(7),
        disk=disk,
        run_blocking=run_at_once,
        budget=Budget(memory_bytes=1 << 34),
        elected=ElectedRole(me=1, epochs=FIRST, members=list, mastership=cast(Mastership, lead)),
    )
    starting = asyncio.create_task(broker.start())
    life = InProcessBroker(broker, broker.loops())
    client = RemotingClient(clock=clock, rng=random.Random(8))
    made = Elected(broker, await starting, client, [])
    made.lead = lead
    try:
        yield made
    finally:
        lead.end()
        await client.close()
        await life.stop()


async def made_topic(master: Elected) -> None:
    await master.send(properties=NO_WAIT)
    master.report()


@pytest.mark.parametrize("flush_mode", FlushMode)
async def test_sends_of_all_kinds_are_answered_once_the_set_has_them(tmp_path: Path, flush_mode: FlushMode) -> None:
    async with elected_master(tmp_path, flush_mode=flush_mode) as master:
        await made_topic(master)
        appended = master.broker.store.appended
        sending = asyncio.create_task(all_kinds(master))
        await appended.reached(appended.value + 1)
        while not sending.done():
            await turns_until(lambda: sending.done() or master.lead.confirmed < appended.value)
            master.report()
        assert set((await sending).values()) == {ResponseCode.SUCCESS}
        assert master.broker.store.readable.value == master.broker.store.commit_log.end


async def test_what_is_late_is_said_so_and_is_not_readable_by_that(tmp_path: Path) -> None:
    async with elected_master(tmp_path, slave_timeout=300) as master:
        await made_topic(master)
        before = master.broker.store.readable.value
        codes = await all_kinds(master)
        assert codes.pop("no wait") == ResponseCode.SUCCESS
        assert set(codes.values()) == {ResponseCode.FLUSH_SLAVE_TIMEOUT}
        late = await master.send()
        assert "not confirmed by the in-sync set within 300 ms (slaveTimeout)" in (late.remark or "")
        assert master.broker.store.readable.value == before
        master.report()
        assert master.broker.store.readable.value == master.broker.store.commit_log.end


async def test_a_set_below_its_minimum_stores_nothing(tmp_path: Path) -> None:
    async with elected_master(tmp_path, members=(1,)) as master:
        end = master.broker.store.commit_log.end
        refused = await master.send()
        assert (refused.code, refused.remark) == (ResponseCode.SYSTEM_ERROR, "in-sync replicas not enough")
        assert master.broker.store.commit_log.end == end


async def test_a_deposed_master_cuts_who_waits_and_answers_nobody(tmp_path: Path) -> None:
    async with elected_master(tmp_path) as master:
        await made_topic(master)
        appended = master.broker.store.appended
        sends = [asyncio.create_task(master.send()) for _ in range(3)]  # by the kernel
        sends += [asyncio.create_task(master.send(properties={"DELAY": "3"})) for _ in range(3)]  # by the intake
        await turns_until(lambda: master.broker.listeners.pending_replies() + master.broker.intake.waiting == 6)
        master.lead.end()
        faults = await asyncio.gather(*sends, return_exceptions=True)
        assert {type(fault) for fault in faults} == {ConnectionLost}
        assert master.broker.store.readable.value < appended.value
