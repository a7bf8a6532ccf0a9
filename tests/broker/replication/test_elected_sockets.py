"""Two stores on a real disk, over real sockets: the stream of an elected set, with a follower that leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TypeVar

from pyromq.ambient import SystemClock
from pyromq.broker.replication.following.elected_follower import join
from pyromq.broker.replication.following.follower import FollowSettings
from pyromq.broker.replication.leading.elected_copies import ElectedCopies
from pyromq.broker.replication.leading.elected_streams import ElectedStreams
from pyromq.broker.replication.leading.ha_port import HaPort
from pyromq.broker.replication.leading.log_source import CommitLogSource
from pyromq.broker.replication.settings import ReplicationSettings
from pyromq.errors import PyroError
from pyromq.store.epochs import EpochFile
from pyromq.store.files.real_disk import RealDisk
from pyromq.store.message_store import MessageStore
from pyromq.store.tools.verify import verify_store
from pyromq.transport.client import connect_socket
from pyromq.transport.listening import bind
from tests.broker.replication.elected_pair import ActingLead
from tests.broker.running import turns_until
from tests.store.small import SMALL, message
from tests.store.test_following import assert_same, log_of

T = TypeVar("T")


async def in_thread(call: Callable[[], T]) -> T:
    return await asyncio.to_thread(call)


async def follow(store: MessageStore, epochs: EpochFile, address: str) -> None:
    stream = await join(connect_socket, address, 2, SystemClock(), FollowSettings(heartbeat_s=0.3, silence_s=30))
    with suppress(PyroError):
        await stream.follow(store, epochs)


async def test_a_follower_that_leaves_and_returns_has_all_that_was_put_meanwhile(tmp_path: Path) -> None:
    disks = [RealDisk(tmp_path / name, create=True) for name in ("master", "follower")]
    clock = SystemClock()
    master, follower = (MessageStore(disk, SMALL, clock, in_thread, is_elected=True) for disk in disks)
    epochs, theirs = EpochFile(disks[0], master.commit_log), EpochFile(disks[1], follower.commit_log)
    epochs.begin(1)
    lead = ActingLead(1, 1, (1, 2), master.readable.value, master.commit_log.end)
    source = CommitLogSource(master.commit_log, in_thread)
    copies = ElectedCopies(master, lead, minimum=2)
    streams = ElectedStreams(lead, source, epochs.list, 1)
    settings = ReplicationSettings(ha_send_heartbeat_interval=300, ha_housekeeping_interval=60_000)

    async def members() -> list[str]:
        return []

    port = HaPort(source, clock, lambda: settings, members, lambda: None, master.on_append, streams.wire)
    listening = await bind("127.0.0.1", 0)
    port.accept(listening)

    numbers = iter(range(1000))

    def put_some(count: int) -> None:
        for number in islice(numbers, count):
            master.put([message(b"%d" % number * 20, queue_id=number % 3)])

    put_some(100)
    assert master.readable.value == 0
    task = asyncio.create_task(follow(follower, theirs, listening.address))
    await master.readable.reached(master.commit_log.end)
    put_some(50)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await turns_until(lambda: not streams.replicas)
    put_some(50)
    confirmed = master.readable.value
    assert confirmed < master.commit_log.end
    task = asyncio.create_task(follow(follower, theirs, listening.address))
    await master.readable.reached(master.commit_log.end)
    await follower.readable.reached(master.commit_log.end)
    assert log_of(follower) == log_of(master)
    assert_same(master, follower)
    assert theirs.list == epochs.list

    await port.close()
    await task
    copies.close()
    for store, disk in zip((master, follower), disks, strict=True):
        store.close()
        assert verify_store(disk, SMALL).exit_code == 0
