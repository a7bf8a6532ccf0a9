"""What a broker of an elected set has shown stays readable over its lives in one process, and no more than that."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pyromq.broker.broker_life import BrokerLife
from pyromq.broker.election.joining import LogCut
from pyromq.client.errors import Refused
from pyromq.model.codes import ResponseCode
from pyromq.protocol.headers.offsets import UpdateConsumerOffset
from pyromq.protocol.requests import RequestCode
from pyromq.store.message_store import MessageStore
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.cluster.cluster import Cluster, run_cluster
from tests.cluster.machines import MAIN
from tests.store.small import SMALL, message

FILE_BYTES = 1 << 20


async def cut_off_follower(cluster: Cluster) -> BrokerLife:
    """Return the lives of a follower that reaches nobody any more, and that has noticed it."""
    cluster.start()
    await cluster.until(lambda: cluster.is_whole, 20, "the set is whole")
    machine = next(each for each in cluster.brokers if each is not cluster.master())
    machine.coordination.faults.is_reachable = False
    hosts = [each.host for each in cluster.brokers if each is not machine]
    cluster.network.cuts |= {pair for host in hosts for pair in ((machine.host, host), (host, machine.host))}
    member, life = machine.member, machine.life
    assert member is not None
    assert life is not None
    await cluster.until(lambda: member.stream is None, 20, "the follower is cut off")
    return life


def four_more(store: MessageStore) -> tuple[bytes, list[int]]:
    """Return what a log like this one gets when four messages are put into it, and where they begin and end."""
    log = store.commit_log
    end = log.end
    copy = MessageStore(
        SimulatedDisk(), replace(SMALL, commit_log_file_bytes=FILE_BYTES, whole_record_crc=True), ManualClock()
    )
    copy.following.take(0, log.read(0, end))
    places = copy.put([message(b"%d" % number) for number in range(4)])
    data = copy.commit_log.read(end, copy.commit_log.end - end)
    ends = [*(place.position for place in places), copy.commit_log.end]
    copy.close()
    return data, ends


@pytest.mark.parametrize(("cut_at", "shown"), [(3, 2), (2, 2), (1, 1)])
def test_a_part_of_what_came_in_one_piece_stays_readable_over_a_cut(cut_at: int, shown: int) -> None:
    """The checkpoint has no position within such a piece. What is cut off though it was confirmed counts no more."""

    async def story(cluster: Cluster) -> None:
        life = await cut_off_follower(cluster)
        data, ends = four_more(life.store)
        life.store.following.restart()
        life.store.following.take(ends[0], data)
        life.store.confirm(ends[2])  # within what was taken at once
        assert life.readable == ends[2]
        await life.cut(LogCut(ends[cut_at], life.epochs, max(ends[2] - ends[cut_at], 0)))
        assert (life.end, life.store.readable.value, life.readable) == (ends[cut_at], ends[shown], ends[shown])
        life.store.following.restart()
        life.store.following.take(ends[cut_at], data[ends[cut_at] - ends[0] :])
        await life.cut(LogCut(ends[3], life.epochs, 0))
        assert life.store.readable.value == ends[shown]

    run_cluster(1, story, commit_log_file_bytes=FILE_BYTES)


def test_a_follower_keeps_no_offset_of_its_own_and_says_so() -> None:
    """The next record of its master's would bring the old one back, and the group would never hear of it."""

    async def story(cluster: Cluster) -> None:
        cluster.start()
        await cluster.until(lambda: cluster.is_whole, 20, "the set is whole")
        master = cluster.master()
        assert master is not None
        follower = next(each for each in cluster.brokers if each is not master)
        client = cluster.clients[0].client()

        async def commit(host: str) -> int | None:
            header = UpdateConsumerOffset(consumer_group="G", topic="T", queue_id=0, commit_offset=1)
            try:
                await client.session.ask(f"{host}:{MAIN}", RequestCode.UPDATE_CONSUMER_OFFSET, header)
            except Refused as refusal:
                return refusal.code
            return ResponseCode.SUCCESS

        async def told() -> list[int | None]:
            async with client, client.producer() as producer, client.pull_consumer("G", begin="first") as consumer:
                await producer.send("T", b"x")
                await cluster.clock.sleep(1)  # until name servers know the topic
                await consumer.assign(await consumer.queues("T"))
                await consumer.poll(timeout=1)  # now brokers know the group
                return [await commit(master.host), await commit(follower.host)]

        answers = await cluster.clients[0].process.begin(told())
        assert answers == [ResponseCode.SUCCESS, ResponseCode.SERVICE_NOT_AVAILABLE]

    run_cluster(1, story)
