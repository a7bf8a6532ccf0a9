"""Verdicts on pulls that are revoked: between buffers, inside a frame, while a pull is held, at random."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pyromq.model.codes import ResponseCode
from pyromq.model.topic import Perm
from pyromq.protocol.bodies.groups import SubscriptionGroupConfig
from pyromq.protocol.command import Command
from pyromq.protocol.frame import encode_frame
from pyromq.protocol.requests import RequestCode
from pyromq.store.config import FlushMode
from tests.broker.virtual import Virtual, virtual_broker
from tests.kernel.pull_frames import BY_ITSELF, GROUP, HOLD, filled, pull
from tests.kernel.test_native_send import send
from tests.kernel.twins import PEER, choose, native_module, ready
from tests.transport.support import RawPeer, raw_peer
from tests.wire import decode_messages


class Life:
    """A broker behind the native kernel with messages in topic A, and a peer."""

    def __init__(self, life: Virtual, peer: RawPeer) -> None:
        self.life, self.peer, self.broker = life, peer, life.broker

    async def write(self, *frames: bytes) -> None:
        self.peer.write(b"".join(frames))
        await self.life.clock.settle()

    @property
    def codes(self) -> dict[int, int]:
        return {answer.opaque: answer.code for answer in self.peer.received if answer.opaque < 1000}

    def count(self, opaque: int) -> int:
        """Messages in an answer."""
        found = [answer for answer in self.peer.received if answer.opaque == opaque]
        return len(decode_messages(bytes(found[0].body)))

    @property
    def by_kernel(self) -> int:
        return sum(one.kernel.messages for one in self.broker.pull_verdicts)

    def permit(self, perm: int) -> None:
        topic = self.broker.topics.find("A")
        assert topic is not None
        self.broker.topics.put(msgspec.structs.replace(topic, perm=perm))

    def delete(self) -> None:
        self.broker.topics.delete("A")
        self.broker.store.queues.remove_topic("A")


@asynccontextmanager
async def native_life(folder: Path, **settings: Any) -> AsyncIterator[Life]:
    with pytest.MonkeyPatch.context() as patch:
        choose(patch, native_module())
        async with virtual_broker(folder, **settings) as life:
            await ready(life)
            one = Life(life, raw_peer(life.broker.servers[0], PEER))
            await one.write(filled(30))
            await life.broker.store.flush_log()
            await life.clock.settle()
            yield one


def heartbeat(number: int, tags: str, version: int, topic: str = "A") -> bytes:
    subscription = {
        "topic": topic,
        "subString": tags,
        "tagsSet": [] if tags == "*" else tags.split("||"),
        "codeSet": [],
        "subVersion": version,
        "expressionType": "TAG",
        "classFilterMode": False,
    }
    consumer = {
        "groupName": GROUP,
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
        "subscriptionDataSet": [subscription],
        "unitMode": False,
    }
    body = msgspec.json.encode({"clientID": "c", "consumerDataSet": [consumer], "producerDataSet": []})
    return encode_frame(Command(code=RequestCode.HEART_BEAT, opaque=number, version=401, body=body))


def disable(one: Life) -> None:
    group = one.broker.groups.find(GROUP)
    assert group is not None
    one.broker.groups.put(msgspec.structs.replace(group, consume_enable=False))


CHANGES: list[tuple[Callable[[Life], object], int]] = [
    (lambda one: one.permit(Perm.WRITE), ResponseCode.NO_PERMISSION),
    (lambda one: one.delete(), ResponseCode.TOPIC_NOT_EXIST),
    (disable, ResponseCode.NO_PERMISSION),
    (lambda one: one.broker.live.change("brokerPermission=2"), ResponseCode.NO_PERMISSION),
    (lambda one: one.broker.offsets.reset("A", GROUP, 0, 3), ResponseCode.PULL_OFFSET_MOVED),
    (lambda one: one.broker.store.queues.remove_topic("A"), ResponseCode.PULL_OFFSET_MOVED),
]


@pytest.mark.parametrize(("change", "code"), CHANGES)
async def test_a_change_counts_from_the_next_byte_on(
    tmp_path: Path, change: Callable[[Life], object], code: int
) -> None:
    async with native_life(tmp_path) as one:
        await one.write(pull(1, 1))
        taken = one.by_kernel
        assert taken == 10
        change(one)
        await one.write(pull(2, 1))
        assert one.codes == {1: 0, 2: code}
        assert one.by_kernel == taken


@pytest.mark.parametrize(("change", "code"), CHANGES)
async def test_a_change_while_a_frame_is_half_there(
    tmp_path: Path, change: Callable[[Life], object], code: int
) -> None:
    wire = pull(1, 1) + pull(2, 1)
    async with native_life(tmp_path) as one:
        await one.write(wire[:-9])
        change(one)
        await one.write(wire[-9:])
        assert one.codes == {1: 0, 2: code}
        assert one.by_kernel == 10


async def test_what_the_kernel_counts_is_there_when_it_is_asked_for(tmp_path: Path) -> None:
    async with native_life(tmp_path) as one:
        counters = one.broker.counters
        before = counters.got_total
        await one.write(pull(1, 1), pull(2, 4))
        assert one.by_kernel == 10 + 7
        assert counters.got_total == before + 17
        await one.write(pull(3, 9))
        found = counters.find("GROUP_GET_NUMS", f"A@{GROUP}")
        assert found is not None
        assert (found.value, found.times) == (19, 3)
        assert one.broker.offsets.pulled("A", GROUP, 0) == 9


async def test_a_reset_of_another_group_changes_nothing_for_this_one(tmp_path: Path) -> None:
    async with native_life(tmp_path) as one:
        await one.write(pull(1, 1))
        one.broker.offsets.reset("A", "Other", 0, 3)
        await one.write(pull(2, 1))
        assert one.codes == {1: 0, 2: 0}
        assert one.by_kernel == 20


async def test_offsets_that_were_dropped_are_noted_anew(tmp_path: Path) -> None:
    async with native_life(tmp_path) as one:
        offsets = one.broker.offsets
        await one.write(pull(1, 1, flags=BY_ITSELF | 1, commitOffset=1), pull(2, 2))
        assert (offsets.find("A", GROUP, 0), offsets.pulled("A", GROUP, 0)) == (1, 2)
        offsets.store_changed()
        offsets.drop_group(GROUP)
        assert offsets.pulled("A", GROUP, 0) is None
        await one.write(pull(3, 5))
        assert offsets.pulled("A", GROUP, 0) == 5
        assert offsets.store_changed()


async def test_verdicts_come_back(tmp_path: Path) -> None:
    async with native_life(tmp_path) as one:
        await one.write(pull(1, 1))
        one.permit(Perm.WRITE)
        await one.write(pull(2, 1))
        one.permit(Perm.READ_WRITE)
        await one.write(pull(3, 1))
        one.broker.offsets.reset("A", GROUP, 0, 3)
        await one.write(pull(4, 1))
        await one.write(pull(5, 3))  # Python's: with this one commits count again
        await one.write(pull(6, 3))
        assert one.codes == {1: 0, 2: ResponseCode.NO_PERMISSION, 3: 0, 4: ResponseCode.PULL_OFFSET_MOVED, 5: 0, 6: 0}
        assert one.by_kernel == 10 + 10 + 8


async def test_the_subscription_of_heartbeats(tmp_path: Path) -> None:
    """Told, changed, and gone with its member; a heartbeat in front of a pull in one buffer counts for it."""
    async with native_life(tmp_path) as one:
        await one.write(heartbeat(1, "*", 1), pull(2, 1, flags=0, subscription=None, subVersion=1))
        assert (one.count(2), one.by_kernel) == (10, 0)  # behind a heartbeat, so Python's
        await one.write(pull(3, 1, flags=0, subscription=None, subVersion=1))
        assert (one.count(3), one.by_kernel) == (10, 10)
        await one.write(heartbeat(4, "t0", 2))
        await one.write(pull(5, 1, flags=0, subscription=None, subVersion=1))
        assert one.by_kernel == 10 + one.count(5)
        assert one.count(5) == 5
        await one.write(pull(6, 1, flags=0, subscription=None, subVersion=3))
        assert one.codes[6] == ResponseCode.SUBSCRIPTION_NOT_LATEST
        one.broker.groups.set_readable(GROUP, "A", False)
        await one.write(pull(7, 1, flags=0, subscription=None, subVersion=2))
        assert one.codes[7] == ResponseCode.NO_PERMISSION
        one.broker.groups.set_readable(GROUP, "A", True)
        other = raw_peer(one.broker.servers[0], "127.0.0.1:50002")
        other.write(pull(8, 1, flags=0, subscription=None, subVersion=2))
        await one.life.clock.settle()
        assert [answer.code for answer in other.received] == [0]
        assert one.peer.stream is not None
        one.peer.stream.close()
        await one.life.clock.settle()
        other.write(pull(9, 1, flags=0, subscription=None, subVersion=2))
        await one.life.clock.settle()
        assert [answer.code for answer in other.received] == [0, ResponseCode.SUBSCRIPTION_NOT_EXIST]


async def test_limits_follow_the_settings(tmp_path: Path) -> None:
    async with native_life(tmp_path) as one:
        await one.write(pull(1, 1))
        one.broker.live.change("maxTransferCountOnMessageInMemory=3")
        await one.write(pull(2, 1))
        assert (one.count(1), one.count(2), one.by_kernel) == (10, 3, 13)


async def test_a_recreated_topic_starts_anew(tmp_path: Path) -> None:
    async with native_life(tmp_path) as one:
        await one.write(pull(1, 1))
        topic = one.broker.topics.find("A")
        assert topic is not None
        one.delete()
        one.broker.topics.put(msgspec.structs.replace(topic, perm=6, read_queue_nums=3))
        await one.write(pull(2, 1))
        await one.write(send(3, body=b"anew"))
        await one.write(pull(4, 0))
        assert one.codes == {1: 0, 2: ResponseCode.PULL_OFFSET_MOVED, 3: 0, 4: 0}
        assert one.count(4) == 1


async def test_nothing_beyond_what_is_readable(tmp_path: Path) -> None:
    """Under SYNC_FLUSH a message is there for readers once it is synced; then it wakes who waits for it."""
    async with native_life(tmp_path, flush_mode=FlushMode.SYNC) as one:
        await one.write(pull(1, 11, flags=HOLD | BY_ITSELF), send(2, body=b"unsynced"))
        await one.write(pull(3, 10, flags=BY_ITSELF))
        assert (one.codes, one.count(3), one.by_kernel) == ({3: 0}, 1, 1)
        await one.broker.store.flush_log()
        await one.life.clock.settle()
        assert (one.codes, one.count(1), one.by_kernel) == ({1: 0, 2: 0, 3: 0}, 1, 2)


# --- held pulls -----------------------------------------------------------------------------------------------------


async def test_a_changed_topic_answers_who_waits(tmp_path: Path) -> None:
    async with native_life(tmp_path) as one:
        await one.write(pull(1, 11, flags=HOLD | BY_ITSELF))
        assert len(one.broker.pulls.suspended) == 1
        one.broker.pulls.suspended.end_topic("A")
        await one.life.clock.settle()
        assert one.codes == {1: ResponseCode.PULL_NOT_FOUND}


@pytest.mark.parametrize("how", ["setting", "group"])
async def test_a_verdict_that_is_gone_when_a_held_pull_wakes(tmp_path: Path, how: str) -> None:
    """Python answers it as it stood when it came, which is what Python does with those that it held itself."""
    async with native_life(tmp_path) as one:
        await one.write(pull(1, 11, flags=HOLD | BY_ITSELF, subscription="t1"))
        if how == "setting":
            one.broker.live.change("maxTransferCountOnMessageInMemory=3")
        else:
            one.broker.groups.put(SubscriptionGroupConfig(group_name=GROUP, retry_max_times=3))
        tags = "UNIQ_KEY\x01U\x02TAGS\x01t1\x02"
        await one.write(*(send(1000 + n, properties=tags, body=b"woken") for n in range(5)))
        assert (one.codes[1], one.by_kernel) == (0, 0)
        assert one.count(1) == (3 if how == "setting" else 5)


async def test_who_waits_is_forgotten_with_his_connection(tmp_path: Path) -> None:
    async with native_life(tmp_path) as one:
        await one.write(pull(1, 11, flags=HOLD | BY_ITSELF))
        assert one.peer.stream is not None
        one.peer.stream.close()
        await one.life.clock.settle()
        assert len(one.broker.pulls.suspended) == 0


async def test_waiting_pulls_are_answered_when_the_broker_stops(tmp_path: Path) -> None:
    async with native_life(tmp_path) as one:
        await one.write(pull(1, 11, flags=HOLD | BY_ITSELF))
        one.broker.pulls.suspended.end_all()
        await one.life.clock.settle()
        assert one.codes == {1: ResponseCode.PULL_NOT_FOUND}


# --- order and stress -----------------------------------------------------------------------------------------------


async def test_a_pull_does_not_overtake_what_python_has_of_its_connection(tmp_path: Path) -> None:
    async with native_life(tmp_path) as one:
        await one.write(pull(1, 1), pull(2, 99), pull(3, 1), pull(4, 2))
        assert one.by_kernel == 10
        assert [answer.opaque for answer in one.peer.received if answer.opaque < 1000] == [1, 2, 3, 4]
        await one.write(pull(5, 1))
        assert one.by_kernel == 20


@pytest.mark.parametrize("seed", range(8))
async def test_random_revocations_among_random_pieces(tmp_path: Path, seed: int) -> None:
    """Every pull is answered, with all there is or with the refusal of the moment, whatever was cut where."""
    rng = random.Random(seed)
    async with native_life(tmp_path) as one:
        wire, count = b"", 0
        for _ in range(60):
            for _ in range(rng.randrange(6)):
                count += 1
                wire += pull(count, 1, queue=rng.randrange(3), subscription=rng.choice(["*", "t0"]))
            cut = rng.randrange(len(wire) + 1)
            one.peer.write(wire[:cut])
            wire = wire[cut:]
            if rng.random() < 0.3:
                one.permit(rng.choice((Perm.WRITE, Perm.READ_WRITE)))
            if rng.random() < 0.1:
                one.broker.live.change(f"maxTransferCountOnMessageInMemory={rng.choice((32, 33))}")
            await one.life.clock.settle(rng.randrange(4))
        await one.write(wire)
        assert sorted(one.codes) == list(range(1, count + 1))
        assert set(one.codes.values()) == {0, ResponseCode.NO_PERMISSION}
        assert {one.count(number) for number, code in one.codes.items() if code == 0} == {10, 5}
        assert one.by_kernel > 0


# --- what verdicts take ---------------------------------------------------------------------------------------------


def verdict_bytes(one: Life) -> int:
    return sum(verdicts.kernel.grants_bytes for verdicts in one.broker.pull_verdicts)


async def test_a_pull_with_fields_longer_than_any_that_makes_sense_gets_no_verdict(tmp_path: Path) -> None:
    async with native_life(tmp_path) as one:
        for number in range(40):
            await one.write(pull(number + 1, 1, subscription=" " * (50_000 + number)))
        assert set(one.codes.values()) == {ResponseCode.SUCCESS}
        assert (one.by_kernel, verdict_bytes(one)) == (0, 0)


async def test_verdicts_for_keys_that_a_client_made_up_are_bounded_in_bytes(tmp_path: Path) -> None:
    async with native_life(tmp_path) as one:
        most = 0
        for start in range(0, 5000, 250):
            flood = (
                pull(2000 + n, 1, maxMsgNums=1, subVersion=n, subscription=" " * 3800)
                for n in range(start, start + 250)
            )
            await one.write(*flood, pull(1, 1))
            most = max(most, verdict_bytes(one))
        assert 8 << 20 < most <= 16 << 20
        assert one.by_kernel == 5000 + 20 * 10  # the honest pull among them keeps its verdict, or gets it anew


async def test_verdicts_of_groups_that_are_gone_are_forgotten(tmp_path: Path) -> None:
    async with native_life(tmp_path) as one:
        for number in range(100):
            await one.write(pull(number + 1, 1, consumerGroup=f"gone-{number}"))
        full = verdict_bytes(one)
        for _ in range(2):
            await one.write(pull(200, 1))
            one.broker.listeners.forget_unused_verdicts()
        await one.write(pull(201, 1))
        assert 0 < verdict_bytes(one) < full / 50
        assert one.by_kernel == 103 * 10
