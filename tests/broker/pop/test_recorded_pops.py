"""Every recorded pop, ack and change of plain pops, asked of our broker at the recorded times: the same answers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from pyromq.protocol.bodies.groups import SubscriptionGroupConfig
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.protocol.command import Command
from pyromq.protocol.properties import decode_properties
from pyromq.protocol.record import Record
from pyromq.protocol.requests import RequestCode as Code
from pyromq.testing.clock import ManualClock
from tests.broker.peers import FakePeer
from tests.broker.pop.recorded import FRAMES, Exchange, exchanges
from tests.broker.virtual import Virtual, properties, virtual_broker
from tests.wire import decode_records

PLAIN = (Code.POP_MESSAGE, Code.ACK_MESSAGE, Code.BATCH_ACK_MESSAGE, Code.CHANGE_MESSAGE_INVISIBLETIME, 200056)
ORDER = frozenset(range(1, 15))
# Where ours differs on purpose, or cannot be compared, and why.
EXCEPTIONS = {
    19: "both messages are given again at once here, 3 s before Java does",
    20: "the same: the second one came with the first",
    1_595: "Java ended this wait half a second late",
    1_590: "a request without fields: code 1 with another text, ours names the field",
    1_601: "a receipt that is none: code 1 with another text",
    1_602: "as 1590",
    1_610: "as 1590",
}
NEVER = {20}  # not even asked: it would be held
QUEUES = {"PfBatch": 2, "GoldenPop": 2, "GoldenFifo": 4, "GoldenMixed": 4}
DISABLED = ("GID_disabled",)
UNKNOWN = ("pf-nobody",)
# Settings that the recording had changed for one request, and what they are otherwise.
SETTINGS = {
    32: ("initPopOffsetByCheckMsgInMem=false", "initPopOffsetByCheckMsgInMem=true"),
    35: ("maxPopPollingSize=0", "maxPopPollingSize=100000"),
}
MESSAGES = {1_589: 10}  # in each queue of the topic by then
OF_BROKER = {"MSG_REGION", "CLUSTER", "TRACE_ON", "WAIT", "UNIQ_KEY"}


class Replay:
    """Asks recorded requests in their order, with the messages in the store that Java's answers had."""

    def __init__(self, broker: Virtual, found: dict[int, Exchange], peer: str) -> None:
        self.broker, self.clock = broker, broker.clock
        records = [record for one in found.values() for record in decode_records(one.answer.body)]
        self.messages = {(one.topic, one.queue_id, one.queue_offset): one for one in records if not _is_retry(one)}
        self.broker.peer = FakePeer(peer)

    async def ask(self, pair: int, one: Exchange) -> Command:
        self._prepare(one)
        await self._pass_until(one)
        await self._put_missing(one, before=not _is_woken(one))
        await self._fill(MESSAGES.get(pair, 0), one)
        meant, usual = SETTINGS.get(pair, ("", ""))
        self.broker.broker.live.change(meant)
        self._number(one)
        task = asyncio.ensure_future(self.broker.call(one.request.code, bytes(one.request.body), **one.request.fields))
        await self.clock.settle()
        if _is_woken(one):
            await self._pass_to(int(one.answer.fields["popTime"]))
            self._number(one)
            await self._put_missing(one, before=True)
            await self.clock.settle()
        if not task.done():
            self._number(one)
            await self._pass_to(int(one.request.fields["bornTime"]) + int(one.request.fields["pollTime"]))
        answer = await task
        self.broker.broker.live.change(usual)
        return answer

    def _number(self, one: Exchange) -> None:
        if one.request.code == Code.POP_MESSAGE and "reviveQid" in one.answer.fields:
            handler = self.broker.broker.pop_parts.handler
            handler._looks = int(one.answer.fields["reviveQid"])
            handler.pick = lambda _: _chance(one)

    def _prepare(self, one: Exchange) -> None:
        topic, group = one.request.fields.get("topic", ""), one.request.fields.get("consumerGroup", "")
        broker = self.broker.broker
        if topic and "NoSuch" not in topic and broker.topics.find(topic) is None and not topic.startswith("%"):
            queues = QUEUES.get(topic, 1)
            broker.topics.put(TopicConfig(topic_name=topic, read_queue_nums=queues, write_queue_nums=queues, perm=6))
        if group and group not in UNKNOWN and broker.groups.find(group) is None:
            broker.groups.put(SubscriptionGroupConfig(group_name=group, consume_enable=group not in DISABLED))

    async def _pass_until(self, one: Exchange) -> None:
        told = [one.request.fields.get("bornTime", "0")]
        if one.request.code in (Code.POP_MESSAGE, Code.CHANGE_MESSAGE_INVISIBLETIME) and not _waits(one):
            told.append(one.answer.fields.get("popTime", "0"))
        await self._pass_to(max(map(int, told)))

    async def _pass_to(self, time_ms: int) -> None:
        if time_ms > self.clock.now_ms():
            await self.clock.advance((time_ms - self.clock.now_ms()) / 1000)

    async def _put_missing(self, one: Exchange, *, before: bool) -> None:
        """Put the messages that Java's answer has and our store lacks, with others in the gaps before them."""
        if one.request.code != Code.POP_MESSAGE or not before:
            return
        for record in decode_records(one.answer.body):
            if _is_retry(record):
                continue  # ours has it by itself
            queue = self.broker.broker.store.queues.get(record.topic, record.queue_id)
            for offset in range(0 if queue is None else queue.next_offset, record.queue_offset + 1):
                await self._put(self.messages[record.topic, record.queue_id, offset])

    async def _fill(self, count: int, one: Exchange) -> None:
        """Put messages that no answer shows until each queue has so many."""
        topic = one.request.fields.get("topic", "")
        for queue_id in range(QUEUES.get(topic, 1) if count else 0):
            queue = self.broker.broker.store.queues.get(topic, queue_id)
            for _ in range(0 if queue is None else queue.next_offset, count):
                assert (await self.broker.send(topic, b"more", queue_id)).code == 0

    async def _put(self, record: Record) -> None:
        pairs = decode_properties(record.properties)
        answer = await self.broker.send(record.topic, record.body, record.queue_id, pairs, flag=record.flag)
        assert answer.code == 0, answer.remark


def _is_retry(record: Record) -> bool:
    return "POP_CK" in decode_properties(record.properties)


def _chance(one: Exchange) -> int:
    """Return the number that Java must have drawn: it decides which queue comes first."""
    queues = QUEUES.get(one.request.fields["topic"], 1)
    first = one.answer.fields.get("startOffsetInfo", "").split(";")[0].split(" ")
    wanted = int(first[1]) if len(first) == 3 else 0
    return next(chance for chance in range(99, 0, -1) if (queues - 1 + chance) % queues == wanted)


def _waits(one: Exchange) -> bool:
    return _is_woken(one) or one.scenario in ("held to the end", "595")


def _is_woken(one: Exchange) -> bool:
    return one.scenario == "held, woken by a message"


def differences(ours: Command, java: Command) -> dict[str, tuple[Any, Any]]:
    """What is not the same: code, remark, every field but the time of a long wait's end, and each message."""
    found: dict[str, tuple[Any, Any]] = {}
    if (ours.code, ours.remark) != (java.code, java.remark):
        found["answer"] = ((ours.code, ours.remark), (java.code, java.remark))
    for name in ours.fields.keys() | java.fields.keys():
        a, b = ours.fields.get(name), java.fields.get(name)
        if a != b and not (name == "popTime" and a is not None and b is not None and abs(int(a) - int(b)) < 50):
            found[name] = (a, b)
    mine, theirs = [list(map(_told, decode_records(each.body))) for each in (ours, java)]
    if mine != theirs:
        found["messages"] = (mine, theirs)
    return found


def _told(record: Record) -> tuple[Any, ...]:
    pairs = {name: value for name, value in properties(record).items() if name not in OF_BROKER}
    return record.topic, record.queue_id, record.queue_offset, record.body, record.reconsume_times, sorted(pairs)


async def replayed(folder: Path, found: dict[int, Exchange], peer: str) -> dict[int, Any]:
    """Ask all in the order of their times, and return what differs."""
    times = [int(one.request.fields.get("bornTime", 0)) for one in found.values()]
    first_ms = min(time for time in times if time > 10**12) - 1_000
    wrong: dict[int, Any] = {}
    clock = ManualClock(first_ms)
    async with virtual_broker(folder, clock=clock, auto_create_subscription_group=False) as broker:
        replay = Replay(broker, found, peer)
        for pair, one in found.items():
            ours = await replay.ask(pair, one)
            differs = differences(ours, one.answer)
            if pair in EXCEPTIONS:
                assert differs, f"{pair} is an exception no longer"
                assert ours.code == one.answer.code
            elif differs:
                wrong[pair] = one.scenario, differs
    return wrong


async def test_recorded_pops_of_the_grpc_recording(tmp_path: Path) -> None:
    plain = {
        pair: one
        for pair, one in exchanges().items()
        if one.request.code in PLAIN and pair not in ORDER and pair not in NEVER
    }
    assert len(plain) > 25
    assert await replayed(tmp_path, plain, "127.0.0.1:58544") == {}


async def test_recorded_pops_of_the_frames(tmp_path: Path) -> None:
    found = {
        1_000 + pair: one
        for pair, one in exchanges(FRAMES.parents[1] / "frames" / "index.jsonl").items()
        if one.request.code in PLAIN and one.answer.code != 3 and one.request.fields.get("order") != "true"
    }
    assert len(found) > 20

    def time(pair: int) -> int:
        times = (found[pair].request.fields.get("bornTime", 0), found[pair].answer.fields.get("popTime", 0))
        return max(map(int, times)) or 1 << 62

    in_time = {pair: found[pair] for pair in sorted(found, key=time)}
    assert await replayed(tmp_path, in_time, "127.0.0.1:40842") == {}
