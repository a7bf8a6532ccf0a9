"""One owner over a switch: what waits is delivered by the new master, once, whatever the old one does that nobody has.

The old master goes on after the switch, as one does that was paused and does not know. Then it follows: both logs are
the same bytes. Then it leads again, and what it did before is forgotten.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from pyromq.model.pop_names import retry_topic_v2
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.protocol.requests import RequestCode as Code
from tests.broker.pop.popping import ack, pop
from tests.broker.replication.tables.members import Members, copy
from tests.broker.transactions.test_transactions import COMMIT, OP, end, register, send_half
from tests.broker.virtual import Virtual

DELAY, TIMER = {"DELAY": "3"}, {"TIMER_DELAY_SEC": "10"}


class Switch:
    """Member a leads, b follows; then b leads, while a goes on; then a follows, and leads again."""

    def __init__(self, folder: Path, *, killed: bool = True) -> None:
        """`killed`: that is how the old master ends; else it is stopped, as one that finds itself deposed."""
        self._killed = killed
        self.members = Members(folder, recall_message_enable=True, duplicate_window_enable=True)
        self._lives: dict[str, AsyncExitStack] = {}
        self.common = 0  # where both logs are the same when b begins to lead

    async def __aenter__(self) -> Switch:
        self.a = await self._open("a", self.members.master("a", killed=self._killed))
        self.b = await self._open("b", self.members.follower("b"))
        for topic in ("T", "%RETRY%G", retry_topic_v2("T", "G")):
            self.a.broker.topics.put(TopicConfig(topic_name=topic, read_queue_nums=1, write_queue_nums=1))
        self.a.broker.groups.ensure("G", self.a.broker.live.config)
        await self.stream()
        return self

    async def __aexit__(self, *_: object) -> None:
        for name in [*self._lives]:
            await self.close(name)

    async def _open(self, name: str, life: Any) -> Virtual:
        self._lives[name] = AsyncExitStack()
        opened: Virtual = await self._lives[name].enter_async_context(life)
        return opened

    async def close(self, name: str) -> None:
        await self._lives.pop(name).aclose()

    async def stream(self) -> None:
        await self.members.stream(self.a, self.b)

    async def advance(self, seconds: float) -> None:
        await self.members.clock.advance(seconds)

    async def until_a_delivers(self, count: int) -> None:
        """Let time pass, with the follower up to date, until a has delivered so many: the follower has none of them."""
        while True:
            await self.stream()
            await self.advance(0.25)
            queue = self.a.broker.store.queues.get("T", 0)
            if queue is not None and queue.next_offset:
                assert queue.next_offset == count
                return

    async def to_b(self, *, until: int | None = None) -> Virtual:
        """Let b lead. `until`: what it still gets of a's log, unconfirmed."""
        if until is not None:
            copy(self.a, self.b, until)
        self.common = self.b.broker.store.commit_log.end
        await self.close("b")
        self.b = await self._open("b", self.members.master("b", gated=False))
        return self.b

    async def back_to_a(self) -> Virtual:
        """Let a follow until it has all of b's log, compare the two, and let it lead."""
        await self.close("a")
        self.members.cut("a", self.common)
        self.a = await self._open("a", self.members.follower("a"))
        await self.members.stream(self.b, self.a)
        mine, theirs = self.a.broker.store.commit_log, self.b.broker.store.commit_log
        assert mine.end == theirs.end
        assert mine.read(0, mine.end) == theirs.read(0, theirs.end)
        await self.advance(6)
        await self.members.stream(self.b, self.a)
        await self.close("a")
        await self.close("b")
        self.a = await self._open("a", self.members.master("a", gated=False))
        return self.a


async def send_all(life: Virtual, how: dict[str, str]) -> list[str]:
    for number in range(5):
        answer = await life.send(body=b"m%d" % number, properties=how | {"UNIQ_KEY": f"U{number}"})
        assert answer.code == 0
    return [f"m{number}" for number in range(5)]


def delivered_end(life: Virtual, count: int) -> int:
    """Return where the record of so many delivered messages ends in the log."""
    queue = life.broker.store.queues.get("T", 0)
    assert queue is not None
    entry = queue.entry_at(count - 1)
    assert entry is not None
    return entry.position + entry.size


@pytest.mark.parametrize("how", [DELAY, TIMER], ids=["delay", "timer"])
@pytest.mark.parametrize("reached", [0, 1, 3, 5])
async def test_what_waits_is_delivered_once(tmp_path: Path, how: dict[str, str], reached: int) -> None:
    """The old master has delivered all; so many of these deliveries are in the new master's log, no progress is."""
    async with Switch(tmp_path) as switch:
        bodies = await send_all(switch.a, how)
        await switch.until_a_delivers(5)
        assert switch.a.bodies("T") == []  # nobody has confirmed it
        b = await switch.to_b(until=delivered_end(switch.a, reached) if reached else None)
        await switch.advance(30)
        assert sorted(b.bodies("T")) == bodies
        assert switch.a.bodies("T") == []
        a = await switch.back_to_a()
        await switch.advance(60)
        assert sorted(a.bodies("T")) == bodies


@pytest.mark.parametrize("killed", [True, False], ids=["killed", "stopped"])
@pytest.mark.parametrize("how", [DELAY, TIMER], ids=["delay", "timer"])
async def test_a_master_that_returns_delivers_what_was_cut_off(
    tmp_path: Path, how: dict[str, str], killed: bool
) -> None:
    """It delivered and noted that, nobody had it; it leads again before the other one delivers anything."""
    async with Switch(tmp_path, killed=killed) as switch:
        bodies = await send_all(switch.a, how)
        await switch.until_a_delivers(5)
        common = switch.b.broker.store.commit_log.end
        await switch.advance(25)
        await switch.close("a")
        switch.members.cut("a", common)
        async with switch.members.master("a", gated=False) as a:
            await switch.advance(30)
            assert sorted(a.bodies("T")) == bodies


async def test_progress_that_is_confirmed_is_gone_on_from(tmp_path: Path) -> None:
    async with Switch(tmp_path) as switch:
        bodies = await send_all(switch.a, DELAY)
        await switch.stream()
        await switch.advance(30)  # the log is synced, and the progress noted
        await switch.stream()
        await switch.advance(2)
        await switch.stream()
        b = await switch.to_b()
        assert b.broker.timing.progress.offsets == {3: 5}
        await switch.advance(30)
        assert sorted(b.bodies("T")) == bodies


async def test_a_recall_is_honoured_by_the_next_master(tmp_path: Path) -> None:
    async with Switch(tmp_path) as switch:
        sent = await switch.a.send(body=b"no", properties=TIMER | {"UNIQ_KEY": "U1"})
        await switch.stream()
        handle = sent.fields["recallHandle"]
        answer = await switch.a.call(Code.RECALL_MESSAGE, producerGroup="P", topic="T", recallHandle=handle)
        assert answer.code == 0
        await switch.stream()
        b = await switch.to_b()
        await switch.advance(30)
        assert b.bodies("T") == []


async def test_half_messages_are_ended_once(tmp_path: Path) -> None:
    """One was committed and confirmed, one was committed and nobody has that, one is undecided."""
    async with Switch(tmp_path) as switch:
        halves = []
        for key in ("done", "doubtful", "open"):
            await switch.stream()
            sent = await switch.a.send(
                body=key.encode(),
                properties={"TRAN_MSG": "true", "PGROUP": "P", "UNIQ_KEY": f"id-{key}"},
                sysFlag=4,
                bornTimestamp=switch.a.clock.now_ms(),
            )
            assert sent.code == 0
            await switch.stream()
            halves.append(switch.a.stored("RMQ_SYS_TRANS_HALF_TOPIC")[-1])
        assert (await end(switch.a, halves[0], COMMIT)).code == 0
        await switch.advance(4)
        await switch.stream()
        assert (await end(switch.a, halves[1], COMMIT)).code == 0
        b = await switch.to_b()
        peer = register(b)
        assert b.bodies("T") == ["done"]
        await switch.advance(130)
        asked = {one.fields["msgId"] for one in peer.sent if one.code == Code.CHECK_TRANSACTION_STATE}
        assert asked == {"id-doubtful", "id-open"}
        for half in halves[1:]:
            assert (await end(b, half, COMMIT)).code == 0
        assert sorted(b.bodies("T")) == ["done", "doubtful", "open"]
        await switch.advance(4)
        assert len(b.stored(OP)) >= 2


async def test_a_commit_whose_op_message_is_missing_is_not_put_twice(tmp_path: Path) -> None:
    async with Switch(tmp_path) as switch:
        switch.a.broker.store.confirm(None)
        half = await send_half(switch.a)
        assert (await end(switch.a, half, COMMIT)).code == 0
        b = await switch.to_b(until=delivered_end(switch.a, 1))
        await end(b, half, COMMIT)
        assert b.bodies("T") == ["k"]


async def test_popped_messages_come_again_unless_their_ack_was_confirmed(tmp_path: Path) -> None:
    async with Switch(tmp_path) as switch:
        await send_all(switch.a, {})
        await switch.stream()
        first = await pop(switch.a, invisibleTime=30_000)
        assert [one.body for one in first] == ["m0", "m1", "m2", "m3", "m4"]
        await ack(switch.a, first[0])
        await switch.stream()
        await ack(switch.a, first[1])  # nobody has this
        b = await switch.to_b()
        assert await pop(b) == []
        await switch.advance(31)
        again = [one.body for one in await pop(b, invisibleTime=30_000)]
        assert sorted(again) == ["m1", "m2", "m3", "m4"]
        assert sorted(b.bodies(retry_topic_v2("T", "G")) or b.bodies("%RETRY%G_T")) == ["m1", "m2", "m3", "m4"]


async def test_retries_and_dead_letters_are_records(tmp_path: Path) -> None:
    async with Switch(tmp_path) as switch:
        await send_all(switch.a, {})
        await switch.stream()
        for number, level in ((0, -1), (1, 3)):
            message = switch.a.stored("T")[number]
            answer = await switch.a.call(
                Code.CONSUMER_SEND_MSG_BACK, offset=message.physical_offset, group="G", delayLevel=level
            )
            assert answer.code == 0
        await switch.stream()
        b = await switch.to_b()
        await switch.advance(30)
        assert b.bodies("%DLQ%G") == ["m0"]
        assert "%DLQ%G" in b.broker.topics
        assert b.bodies("%RETRY%G") == ["m1"]


async def test_the_window_of_send_ids_is_in_force_at_once(tmp_path: Path) -> None:
    async with Switch(tmp_path) as switch:
        await switch.a.send(body=b"one", properties={"__SEND_ID": "p/1/1"})
        await switch.stream()
        b = await switch.to_b()
        again = await b.send(body=b"one", properties={"__SEND_ID": "p/1/1"})
        assert (again.code, again.fields["queueOffset"]) == (0, "0")
        assert b.bodies("T") == ["one"]


async def test_offsets_are_a_second_old_at_most(tmp_path: Path) -> None:
    async with Switch(tmp_path) as switch:
        await send_all(switch.a, {})
        for offset in range(1, 5):
            switch.a.broker.offsets.commit("T", "G", 0, offset)
            await switch.advance(1.1)
            await switch.stream()
        switch.a.broker.offsets.commit("T", "G", 0, 5)
        await switch.stream()
        b = await switch.to_b()
        assert b.broker.offsets.find("T", "G", 0) == 4


async def test_locks_of_orderly_consumers_stay_with_their_owner(tmp_path: Path) -> None:
    body = b'{"consumerGroup":"G","clientId":"%s","mqSet":[{"topic":"T","brokerName":"broker-a","queueId":0}]}'
    async with Switch(tmp_path) as switch:
        switch.a.broker.store.confirm(None)
        assert b"queueId" in bytes((await switch.a.call(Code.LOCK_BATCH_MQ, body % b"one")).body)
        await switch.stream()
        b = await switch.to_b()
        assert b"queueId" not in bytes((await b.call(Code.LOCK_BATCH_MQ, body % b"two")).body)
        assert b"queueId" in bytes((await b.call(Code.LOCK_BATCH_MQ, body % b"one")).body)
        await switch.advance(61)
        assert b"queueId" in bytes((await b.call(Code.LOCK_BATCH_MQ, body % b"two")).body)
