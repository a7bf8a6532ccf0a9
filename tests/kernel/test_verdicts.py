"""Order between kernel and Python, and verdicts that are revoked: between buffers, inside a frame, at random."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pyromq.model.codes import ResponseCode
from pyromq.model.topic import Perm
from pyromq.protocol.bodies.body import encode_body
from pyromq.protocol.bodies.heartbeat import HeartbeatData, ProducerData
from pyromq.protocol.command import RESPONSE_FLAG, Command
from pyromq.protocol.frame import encode_frame
from pyromq.protocol.requests import RequestCode
from pyromq.store.config import FlushMode
from pyromq.transport.connection.flow import Pause
from tests.broker.virtual import Virtual, virtual_broker
from tests.kernel.test_native_send import send
from tests.kernel.twins import PEER, choose, native_module, ready
from tests.transport.support import RawPeer, raw_peer

ODD = "TAGS\x01t"  # without an id of its own: Python's to serve


class Life:
    """A broker behind the native kernel, and a peer."""

    def __init__(self, life: Virtual, peer: RawPeer) -> None:
        self.life, self.peer, self.broker = life, peer, life.broker
        self.begun = {queue: len(life.stored("A", queue)) for queue in range(4)}

    async def write(self, *frames: bytes) -> None:
        self.peer.write(b"".join(frames))
        await self.life.clock.settle()

    @property
    def codes(self) -> dict[int, int]:
        return {answer.opaque: answer.code for answer in self.peer.received}

    def bodies(self, queue: int = 0, topic: str = "A") -> list[str]:
        begun = self.begun[queue] if topic == "A" else 1
        return self.life.bodies(topic, queue)[begun:]

    @property
    def by_kernel(self) -> int:
        return sum(one.kernel.messages for one in self.broker.verdicts)

    def permit(self, perm: int) -> None:
        topic = self.broker.topics.find("A")
        assert topic is not None
        self.broker.topics.put(msgspec.structs.replace(topic, perm=perm))


@asynccontextmanager
async def native_life(folder: Path, **settings: Any) -> AsyncIterator[Life]:
    with pytest.MonkeyPatch.context() as patch:
        choose(patch, native_module())
        async with virtual_broker(folder, **settings) as life:
            await ready(life)
            yield Life(life, raw_peer(life.broker.servers[0], PEER))


def numbered(number: int, **extra: Any) -> bytes:
    return send(number, body=b"%d" % number, **extra)


async def test_what_python_serves_is_not_overtaken_by_the_kernel(tmp_path: Path) -> None:
    async with native_life(tmp_path) as one:
        await one.write(
            numbered(1),
            numbered(2, properties=ODD),
            numbered(3),
            numbered(4, queue=1),  # the same topic
            numbered(5, topic="B"),
            numbered(6, properties=ODD),
            numbered(7),
        )
        assert one.by_kernel == 2
        assert one.bodies() == ["1", "2", "3", "6", "7"]
        assert (one.bodies(1), one.bodies(0, "B")) == (["4"], ["5"])
        await one.write(numbered(8))  # all is finished, the kernel takes the topic again
        assert (one.by_kernel, one.bodies()[-1]) == (3, "8")
        assert one.codes == dict.fromkeys(range(1, 9), 0)


async def test_a_burst_that_python_has_not_put_yet_stays_before(tmp_path: Path) -> None:
    async with native_life(tmp_path) as one:
        other = raw_peer(one.broker.servers[0], "127.0.0.1:50002")
        for number in range(1, 20, 2):
            other.write(numbered(number, properties=ODD))
            one.peer.write(numbered(number + 1))
            await one.life.clock.settle(1)
        await one.life.clock.settle()
        assert sorted(map(int, one.bodies())) == list(range(1, 21))
        assert [int(body) for body in one.bodies() if int(body) % 2 == 0] == list(range(2, 21, 2))
        assert one.by_kernel == 10


async def test_a_permission_that_is_taken_away_counts_from_the_next_byte_on(tmp_path: Path) -> None:
    async with native_life(tmp_path) as one:
        await one.write(numbered(1))
        one.permit(Perm.READ)
        await one.write(numbered(2))
        one.permit(Perm.READ_WRITE)
        await one.write(numbered(3))
        assert one.codes == {1: 0, 2: ResponseCode.NO_PERMISSION, 3: 0}
        assert (one.bodies(), one.by_kernel) == (["1", "3"], 2)


async def test_a_verdict_is_revoked_while_a_frame_is_half_there(tmp_path: Path) -> None:
    wire = numbered(1) + numbered(2)
    for cut in (len(numbered(1)) + 5, len(wire) - 1):
        async with native_life(tmp_path) as one:
            await one.write(wire[:cut])
            one.permit(Perm.READ)
            await one.write(wire[cut:])
            assert one.codes == {1: 0, 2: ResponseCode.NO_PERMISSION}
            assert (one.bodies(), one.by_kernel) == (["1"], 1)


async def test_a_changed_setting_and_attribute_and_a_deletion_revoke(tmp_path: Path) -> None:
    async with native_life(tmp_path, enforce_message_type=True) as one:
        await one.write(numbered(1))
        one.broker.live.change("brokerPermission=4")
        await one.write(numbered(2))
        one.broker.live.change("brokerPermission=6")
        topic = one.broker.topics.find("A")
        assert topic is not None
        one.broker.topics.put(msgspec.structs.replace(topic, attributes={"message.type": "TRANSACTION"}))
        await one.write(numbered(3))
        one.broker.live.change("autoCreateTopicEnable=false")
        one.broker.topics.delete("A")
        await one.write(numbered(4))
        assert one.by_kernel == 1
        assert [one.codes[number] for number in (1, 3, 4)] == [
            0,
            ResponseCode.MESSAGE_ILLEGAL,
            ResponseCode.TOPIC_NOT_EXIST,
        ]


async def test_a_recreated_topic_starts_anew(tmp_path: Path) -> None:
    async with native_life(tmp_path) as one:
        await one.write(numbered(1))
        topic = one.broker.topics.find("A")
        assert topic is not None
        one.broker.topics.delete("A")
        one.broker.store.queues.remove_topic("A")
        one.broker.topics.put(msgspec.structs.replace(topic, perm=6, read_queue_nums=3))
        await one.write(numbered(2))
        await one.write(numbered(3))
        assert one.life.bodies("A") == ["2", "3"]
        assert one.by_kernel == 2  # Python made the queue


async def test_overload_is_said_by_python(tmp_path: Path) -> None:
    async with native_life(tmp_path, max_unflushed_bytes=1 << 20, commit_log_file_bytes=8 << 20) as one:
        await one.broker.store.flush_log()
        await one.write(send(1, body=bytes(3 << 19)))
        await one.write(numbered(2))
        assert one.codes == {1: 0, 2: ResponseCode.SYSTEM_BUSY}
        await one.broker.store.flush_log()
        await one.write(numbered(3))
        assert (one.codes[3], one.by_kernel) == (0, 2)


async def test_a_loop_that_runs_late_is_said_by_python(tmp_path: Path) -> None:
    async with native_life(tmp_path, max_loop_lag_ms=50) as one:
        lag = one.broker.statistics.lag
        await one.write(numbered(1))
        lag.measured(lag.due, 51.0)  # seen last time
        await one.write(numbered(2))
        lag.measured(lag.due - 0.2, 0.0)  # overdue right now
        await one.write(numbered(3))
        lag.measured(lag.due + 0.2, 0.0)
        await one.write(numbered(4))
        assert one.codes == {1: 0, 2: ResponseCode.SYSTEM_BUSY, 3: ResponseCode.SYSTEM_BUSY, 4: 0}
        assert (one.bodies(), one.by_kernel) == (["1", "4"], 2)


async def test_verdicts_are_of_one_listener(tmp_path: Path) -> None:
    """The main port and the fast one have their own, and what one was told holds there alone."""
    async with native_life(tmp_path) as one:
        main, fast = one.broker.verdicts
        await one.write(numbered(1))
        raw_peer(one.broker.servers[1], "127.0.0.1:50002").write(numbered(2) + numbered(3))
        await one.life.clock.settle()
        assert (main.kernel.messages, fast.kernel.messages) == (1, 2)
        assert one.bodies() == ["1", "2", "3"]


async def test_a_full_disk_is_said_by_python_and_passes(tmp_path: Path) -> None:
    async with native_life(tmp_path, allocation_step_bytes=4096) as one:
        disk: Any = one.life.disk
        capacity, disk.capacity = disk.capacity, disk.usage().used
        for number in range(1, 2000):  # until a file needs more room
            await one.write(numbered(number))
            if one.codes[number]:
                break
        assert one.codes[number] == ResponseCode.SERVICE_NOT_AVAILABLE
        disk.capacity = capacity
        before = one.by_kernel
        await one.write(numbered(1000))
        assert (one.codes[1000], one.by_kernel) == (0, before + 1)


async def test_replies_wait_for_the_sync_and_who_waits_in_vain_is_cut_off(tmp_path: Path) -> None:
    async with native_life(tmp_path, flush_mode=FlushMode.SYNC) as one:
        await one.write(numbered(1), numbered(2))
        assert (one.codes, one.bodies(), one.by_kernel) == ({}, [], 2)
        await one.broker.store.flush_log()
        await one.life.clock.settle()
        assert (one.codes, one.bodies()) == ({1: 0, 2: 0}, ["1", "2"])
        await one.write(numbered(3))
        disk: Any = one.life.disk
        disk.fail_sync_once("commitlog")
        with pytest.raises(Exception, match="sync"):
            await one.broker.store.flush_log()
        await one.peer.lost()
        assert 3 not in one.codes
        other = raw_peer(one.broker.servers[0], "127.0.0.1:50002")
        other.write(numbered(4))
        assert [answer.code for answer in await other.answers(1)] == [ResponseCode.SERVICE_NOT_AVAILABLE]


@pytest.mark.parametrize("seed", range(12))
async def test_random_revocations_among_random_pieces(tmp_path: Path, seed: int) -> None:
    """Acked is stored and refused is not, each queue in the order in which it was sent, whatever was cut where."""
    rng = random.Random(seed)
    async with native_life(tmp_path) as one:
        wire, count = b"", 0
        for _ in range(60):
            for _ in range(rng.randrange(6)):
                count += 1
                odd = {"properties": ODD} if rng.random() < 0.2 else {}
                wire += numbered(count, queue=rng.randrange(3), flag=0, **odd)
            cut = rng.randrange(len(wire) + 1)
            one.peer.write(wire[:cut])
            wire = wire[cut:]
            if rng.random() < 0.3:
                one.permit(rng.choice((Perm.READ, Perm.READ_WRITE)))
            await one.life.clock.settle(rng.randrange(4))
        await one.write(wire)
        assert sorted(one.codes) == list(range(1, count + 1))
        acked = {number for number, code in one.codes.items() if code == 0}
        stored = [[int(body) for body in one.bodies(queue)] for queue in range(3)]
        assert {number for queue in stored for number in queue} == acked
        assert all(queue == sorted(queue) for queue in stored)
        assert 0 < one.by_kernel < len(acked)
        assert set(one.codes.values()) == {0, ResponseCode.NO_PERMISSION}


async def test_reading_stops_until_python_has_put_what_it_has(tmp_path: Path) -> None:
    async with native_life(tmp_path) as one:
        one.peer.write(numbered(1, properties=ODD) + b"".join(numbered(number) for number in range(2, 600)))
        one.peer.write(b"".join(numbered(number) for number in range(600, 900)))
        await one.life.clock.settle()
        assert one.by_kernel > 600  # what came while Python had sends waited, and was the kernel's then
        assert [int(body) for body in one.bodies()] == list(range(1, 900))


async def test_reading_goes_on_where_all_sends_are_python_s(tmp_path: Path) -> None:
    """Or a heartbeat behind a storm of them would wait for its end."""
    async with native_life(tmp_path) as one:
        for burst in (b"".join(numbered(n, properties=ODD) for n in range(1, 99)), numbered(1, topic="Delayed") * 99):
            one.peer.write(burst)
            await one.life.clock.settle(1)
            (connection,) = one.broker.servers[0].peers()
            assert Pause.DRAINING not in getattr(connection, "_flow").reasons  # noqa: B009
            await one.life.clock.settle()


async def test_a_reply_to_a_client_on_the_same_connection_does_not_keep_its_answer_from_being_read(
    tmp_path: Path,
) -> None:
    """The reply is finished when that client has answered: no send may keep that answer from being read."""
    beat = HeartbeatData(client_id="me", producer_data_set=[ProducerData(group_name="P")])
    async with native_life(tmp_path) as one:
        await one.write(encode_frame(Command(code=RequestCode.HEART_BEAT, opaque=1, body=encode_body(beat))))
        await one.write(numbered(2, code=325, topic="DefaultCluster_REPLY_TOPIC", properties="REPLY_TO_CLIENT\x01me"))
        (push,) = [came for came in one.peer.received if came.code == RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT]
        await one.write(numbered(3, properties=ODD), numbered(4))
        await one.write(encode_frame(Command(code=0, opaque=push.opaque, flag=RESPONSE_FLAG)))
        await one.life.clock.advance(20)  # so that a push without an answer has failed by now
        assert [one.codes.get(number) for number in (1, 2, 3, 4)] == [0, 0, 0, 0]
