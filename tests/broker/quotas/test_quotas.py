"""Quotas over sockets: what is beyond one is refused with SYSTEM_BUSY, and told how long; the rest stays native."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import re
import weakref
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pyromq.ambient import SystemClock
from pyromq.broker.quotas import gate, held
from pyromq.broker.quotas.limits import Limit, QuotaKind, parse
from pyromq.broker.quotas.refusal import BeyondQuota, beyond
from pyromq.errors import ConfigError
from pyromq.kernel.state import Bucket
from pyromq.model.codes import ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.requests import RequestCode
from pyromq.testing.clock import ManualClock
from pyromq.transport.client import RemotingClient
from pyromq.transport.dispatch import Reply
from pyromq.transport.turns.stretches import Stretches
from tests.broker.running import Running, running_broker

BUSY, OK = ResponseCode.SYSTEM_BUSY, ResponseCode.SUCCESS


PULL = {
    "consumerGroup": "G",
    "topic": "T",
    "queueId": "0",
    "queueOffset": "0",
    "maxMsgNums": "32",
    "sysFlag": "4",
    "commitOffset": "0",
    "suspendTimeoutMillis": "0",
    "subscription": "*",
    "subVersion": "0",
}


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clocks stand here: a refusal that is held back for a moment would never come."""
    monkeypatch.setattr(held, "HELD_S", 0.0)


async def put(broker: Running, kind: str, name: str, **limits: int) -> None:
    body = msgspec.json.encode({"kind": kind, "name": name, "limits": limits})
    answer = await broker.call(RequestCode.SET_QUOTA, body)
    assert answer.code == OK, answer.remark


async def listed(broker: Running) -> dict[str, Any]:
    lines = msgspec.json.decode((await broker.call(RequestCode.QUOTAS)).body)["quotas"]
    return {f"{one['kind']}:{one['name']}": one for one in lines}


async def short(broker: Running, topic: str) -> None:
    """A send as clients of today write it, which kernels take."""
    fields: dict[str, Any] = {
        "a": "P",
        "b": topic,
        "c": "TBW102",
        "d": 4,
        "e": 0,
        "f": 0,
        "g": 1_700_000_000_000,
        "h": 0,
    }
    answer = await broker.call(RequestCode.SEND_MESSAGE_V2, b"hello", **fields, i="UNIQ_KEY\x01U\x02")
    assert answer.code == OK, answer.remark


def native_puts(broker: Running) -> int:
    """How many messages the kernel stored by itself, since the last look."""
    return sum(count[2] for one in broker.broker.verdicts for count in one.kernel.take_counts()[0])


def wait_ms(refused: Command) -> int:
    assert refused.code == BUSY, refused
    assert "[QUOTA]broker busy" in (refused.remark or "")
    told = int(refused.fields["retryAfterMs"])
    assert f"try again in {told} ms" in (refused.remark or "")
    return told


def test_a_bucket_lets_a_large_message_pass_and_makes_it_pay() -> None:
    bucket = Bucket(100, 0.0)
    assert bucket.wait_s(0.0) == 0
    bucket.take(350, 0.0)
    assert bucket.wait_s(0.0) == pytest.approx(2.51)
    assert bucket.wait_s(2.4) > 0
    assert bucket.wait_s(2.6) == 0
    assert bucket.used(1_000.0) == 0
    assert Bucket(0, 0.0).wait_s(9.0) == float("inf")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("topics:a sendBytes=1", "one of user, group"),
        ("topic:a/b sendBytes=1", "may hold only"),
        ("address:10.0.0.0/8 sendBytes=1", "networks have no quota"),
        ("address:10.0.0.5", "it has no limit"),
        ("topic:a connections=1", "no limit of a topic"),
        ("topic:a sendBytes=x", "LIMIT=NUMBER"),
        ("topic:a sendBytes=-1", "LIMIT=NUMBER"),
    ],
)
def test_a_wrong_quota_is_refused_with_words(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(why)):
        parse(text)


async def test_sends_to_a_topic_beyond_its_quota_are_told_to_wait(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running_broker(tmp_path, clock) as broker:
        for topic in ("T", "other"):
            assert (await broker.send(topic)).code == OK
        await put(broker, "topic", "T", sendMessages=2)
        answers = [(await broker.send("T")) for _ in range(3)]
        assert [one.code for one in answers[:2]] == [OK, OK]
        ms = wait_ms(answers[2])
        assert "topic:T is 2 messages sent a second (sendMessages)" in str(answers[2].remark)
        assert (await broker.send("other")).code == OK
        await clock.advance(seconds=ms / 1000)
        assert (await broker.send("T")).code == OK
        assert (await broker.call(RequestCode.DELETE_QUOTA, kind="topic", name="T")).code == OK
        assert [(await broker.send("T")).code for _ in range(5)] == [OK] * 5


async def test_a_batch_counts_as_its_messages(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running_broker(tmp_path, clock) as broker:
        await broker.send("T")
        await put(broker, "topic", "T", sendMessages=10)
        assert (await broker.send_batch([b"%d" % n for n in range(30)])).code == OK
        assert wait_ms(await broker.send("T")) >= 2_000


@pytest.mark.parametrize(("kind", "name"), [("topic", "T"), ("group", "G"), ("address", "127.0.0.1"), ("address", "*")])
async def test_what_was_read_is_paid_for(tmp_path: Path, kind: str, name: str) -> None:
    clock = ManualClock()
    async with running_broker(tmp_path, clock) as broker:
        for _ in range(4):
            await broker.send("T", b"x" * 1000)
        assert (await broker.pull()).code == OK
        await put(broker, kind, name, readBytes=1000)
        assert (await broker.pull()).code == OK
        assert wait_ms(await broker.pull()) > 3_000
        await clock.advance(seconds=10)
        assert (await broker.pull()).code == OK


async def test_a_pull_that_waited_pays_too(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await broker.send("T")
        await put(broker, "address", "127.0.0.1", readBytes=10)
        waiting = asyncio.ensure_future(broker.pull(offset=1, sysFlag=6, suspendTimeoutMillis=15_000))
        await broker.send("T", b"x" * 5_000)
        assert (await waiting).code == OK
        assert wait_ms(await broker.pull()) > 100_000


async def test_pops_pay_too(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await broker.send("T", b"x" * 5_000)
        await put(broker, "group", "G", readBytes=10)
        pop: dict[str, Any] = {
            "consumerGroup": "G",
            "topic": "T",
            "queueId": -1,
            "maxMsgNums": 8,
            "invisibleTime": 60_000,
        }
        wanted: dict[str, Any] = pop | {"pollTime": 0, "bornTime": 0, "initMode": 1, "expType": "TAG", "exp": "*"}
        answer = await broker.call(RequestCode.POP_MESSAGE, **wanted)
        assert answer.code == OK, answer
        assert wait_ms(await broker.call(RequestCode.POP_MESSAGE, **wanted)) > 100_000


async def test_kernels_serve_what_quotas_are_about(tmp_path: Path) -> None:
    async with running_broker(tmp_path, ManualClock()) as broker:
        for topic in ("T", "other"):
            await broker.send(topic)
            await broker.send(topic)
        native_puts(broker)
        await short(broker, "T")
        assert native_puts(broker) == 1
        await put(broker, "topic", "T", sendMessages=1000)
        await put(broker, "group", "G", readMessages=1000)
        await short(broker, "T")
        await short(broker, "other")
        assert (await listed(broker))["topic:T"]["used"] == {"sendMessages": 1}
        await put(broker, "address", "*", sendMessages=1000)
        await short(broker, "other")
        assert native_puts(broker) == 3
        await broker.call(RequestCode.DELETE_QUOTA, kind="address", name="*")
        await short(broker, "other")
        assert native_puts(broker) == 1


async def test_topics_groups_queues_and_subscriptions(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await put(broker, "address", "127.0.0.1", topics=2, groups=1)
        await put(broker, "topic", "*", queues=8)
        await put(broker, "group", "*", subscriptions=1)
        assert (await broker.send("first")).code == OK
        create: dict[str, Any] = {"defaultTopic": "TBW102", "perm": 6, "topicFilterType": "SINGLE_TAG", "order": False}
        queues: dict[str, Any] = {"readQueueNums": 8, "writeQueueNums": 8}
        second = await broker.call(RequestCode.UPDATE_AND_CREATE_TOPIC, topic="second", **create, **queues)
        assert second.code == OK
        third = await broker.call(RequestCode.UPDATE_AND_CREATE_TOPIC, topic="third", **create, **queues)
        assert third.code == BUSY
        assert "2 topics (topics), 3 wanted" in str(third.remark)
        assert (await broker.send("third")).code == BUSY
        assert (await broker.send("first")).code == OK
        wide: dict[str, Any] = {"readQueueNums": 9, "writeQueueNums": 8}
        assert (await broker.call(RequestCode.UPDATE_AND_CREATE_TOPIC, topic="first", **create, **wide)).code == BUSY
        assert (await broker.call(RequestCode.DELETE_TOPIC_IN_BROKER, topic="second")).code == OK
        assert (await broker.send("third")).code == OK
        for name, code in (("G1", OK), ("G1", OK), ("G2", BUSY)):
            group = msgspec.json.encode({"groupName": name})
            assert (await broker.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, group)).code == code


async def test_what_was_not_made_has_no_maker(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await put(broker, "address", "127.0.0.1", topics=2)
        for number in range(5):
            refused = await broker.send(f"random-{number}", defaultTopic="nothing-such")
            assert refused.code == ResponseCode.TOPIC_NOT_EXIST, refused.remark
        assert (await broker.send("made")).code == OK
        late = await broker.send("made-and-refused", b"", properties={"TIMER_DELAY_SEC": "999999999"})
        assert late.code not in (OK, BUSY)
        there = [name for name in ("made", "made-and-refused") if name in broker.broker.topics]
        quotas = broker.broker.base.quotas
        assert quotas.made_by(QuotaKind.TOPIC, parse("address:127.0.0.1 topics=1").owner) == there


async def test_loop_time_is_the_groups_that_a_request_is_about(tmp_path: Path) -> None:
    """Not that of any group that it names in a field of no use."""
    clock = ManualClock()
    async with running_broker(tmp_path, clock) as broker:
        await broker.send("T")
        groups = ("victim", "G", "P")
        for group in groups:
            await put(broker, "group", group, loopTime=50)
        for group in groups:
            use = broker.broker.base.quotas.use(QuotaKind.GROUP, group)
            assert use is not None
            use.buckets[Limit.LOOP_TIME].take(1000, clock.monotonic())
        victims: dict[str, Any] = {"consumerGroup": "victim", "group": "victim", "producerGroup": "Q"}
        assert (await broker.send("T", **victims)).code == OK
        assert (await broker.pull(group="H", producerGroup="victim")).code == OK
        wait_ms(await broker.send("T", consumerGroup="Q"))
        if os.environ.get("PYROMQ_KERNEL") != "python":  # whose feed serves such a pull by itself
            wait_ms(await broker.pull(producerGroup="Q"))
        wait_ms(await broker.call(RequestCode.QUERY_TOPICS_BY_CONSUMER, group="G", consumerGroup="H"))


async def test_stored_bytes_and_timers(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running_broker(tmp_path, clock) as broker:
        await put(broker, "topic", "T", storedBytes=5_000, timers=0)
        late = await broker.send("T", properties={"TIMER_DELAY_SEC": "60"})
        assert late.code == BUSY
        assert "wait for their time" in str(late.remark)
        codes = []
        for _ in range(10):
            codes.append((await broker.send("T", b"x" * 1000)).code)
            await clock.advance(seconds=2)
        assert codes[:4] == [OK] * 4
        assert codes[-1] == BUSY


HALF = {"TRAN_MSG": "true", "PGROUP": "P"}


@pytest.mark.parametrize(("kind", "name"), [("topic", "T"), ("group", "*")])
async def test_half_messages_that_nobody_ends(tmp_path: Path, kind: str, name: str) -> None:
    async with running_broker(tmp_path, ManualClock()) as broker:
        await put(broker, kind, name, halfMessages=2)
        first, second, third = [await broker.send("T", properties=HALF, sysFlag=4) for _ in range(3)]
        assert (first.code, second.code, third.code) == (OK, OK, BUSY)
        assert "2 half messages that nobody has ended (halfMessages), 2 is used" in str(third.remark)
        assert (await broker.send("T")).code == OK
        end: dict[str, Any] = {
            "producerGroup": "P",
            "tranStateTableOffset": first.fields["queueOffset"],
            "commitLogOffset": int(first.fields["msgId"][16:], 16),
            "commitOrRollback": 12,  # roll back
            "fromTransactionCheck": False,
            "msgId": "x",
            "transactionId": first.fields["transactionId"],
        }
        assert (await broker.call(RequestCode.END_TRANSACTION, **end)).code == OK
        assert (await broker.send("T", properties=HALF, sysFlag=4)).code == OK
        assert (await broker.send("T", properties=HALF, sysFlag=4)).code == BUSY


async def test_half_messages_on_their_way_count(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await put(broker, "topic", "T", halfMessages=3)
        sends = [broker.send("T", properties=HALF, sysFlag=4) for _ in range(9)]
        answers = await asyncio.gather(*sends)
        assert sorted(one.code for one in answers) == [OK] * 3 + [BUSY] * 6


async def test_loop_time_of_an_address(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running_broker(tmp_path, clock) as broker:
        await broker.send("T")
        await put(broker, "address", "127.0.0.1", loopTime=50)
        use = broker.broker.base.quotas.use(QuotaKind.ADDRESS, "127.0.0.1")
        assert use is not None
        use.buckets[Limit.LOOP_TIME].take(40, clock.monotonic())
        assert (await broker.pull()).code == OK
        use.buckets[Limit.LOOP_TIME].take(40, clock.monotonic())
        assert wait_ms(await broker.call(RequestCode.GET_MAX_OFFSET, topic="T", queueId=0)) > 500
        assert (await listed(broker))["address:127.0.0.1"]["used"] == {"loopTime": 80}
        await clock.advance(seconds=1)
        assert (await broker.call(RequestCode.GET_MAX_OFFSET, topic="T", queueId=0)).code == OK
        assert (await broker.call(RequestCode.DELETE_QUOTA, kind="address", name="127.0.0.1")).code == OK


async def test_a_handler_pays_for_each_stretch_of_the_loop() -> None:
    now, spent = [100.0], list[float]()

    async def answer() -> Reply:
        now[0] += 0.2
        await asyncio.sleep(0)
        now[0] += 0.1
        return Reply(remark="done")

    async def others() -> None:
        now[0] += 50

    waiting = asyncio.ensure_future(others())
    assert (await Stretches(answer(), lambda: now[0], spent.append)).remark == "done"
    await waiting
    assert spent == [pytest.approx(0.2), pytest.approx(0.1)]


async def test_connections_of_an_address(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await broker.send("T")
        await put(broker, "address", "127.0.0.1", connections=1)
        assert (await broker.send("T")).code == OK
        other = RemotingClient(clock=SystemClock(), rng=random.Random(9))
        try:
            refused = await other.call(broker.address, Command(code=RequestCode.PULL_MESSAGE, fields=PULL), 20)
        finally:
            await other.close()
        assert refused.code == BUSY
        assert "1 connections (connections), 1 is used" in str(refused.remark)
        assert (await listed(broker))["address:127.0.0.1"]["used"] == {"connections": 1}


async def test_quotas_survive_a_restart_and_settings_come_after_them(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"quotas": ("topic:T sendMessages=5", "topic:U sendMessages=6")}
    async with running_broker(tmp_path, **settings) as broker:
        await put(broker, "topic", "T", sendMessages=7)
    async with running_broker(tmp_path, **settings) as broker:
        lines = await listed(broker)
        assert {name: (one["limits"]["sendMessages"], one["source"]) for name, one in lines.items()} == {
            "topic:T": (7, "table"),
            "topic:U": (6, "settings"),
        }
        assert (
            await broker.call(RequestCode.DELETE_QUOTA, kind="topic", name="U")
        ).code == ResponseCode.QUERY_NOT_FOUND
        assert (await broker.call(RequestCode.DELETE_QUOTA, kind="topic", name="T")).code == OK
        assert (await listed(broker))["topic:T"]["limits"] == {"sendMessages": 5}
        wrong = msgspec.json.encode({"kind": "topic", "name": "T", "limits": {"speed": 1}})
        refused = await broker.call(RequestCode.SET_QUOTA, wrong)
        assert refused.code == ResponseCode.INVALID_PARAMETER
        assert "sendBytes" in str(refused.remark)


async def test_a_refusal_is_held_back_for_a_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held, "HELD_S", 10.0)
    clock = ManualClock()
    async with running_broker(tmp_path, clock) as broker:
        await broker.send("T")
        await put(broker, "topic", "T", sendMessages=1)
        assert (await broker.send("T")).code == OK
        refused = asyncio.ensure_future(broker.send("T"))
        assert (await broker.send("other")).code == OK  # behind it on the same connection
        assert not refused.done()
        await clock.advance(seconds=5)
        assert not refused.done()
        await clock.advance(seconds=6)
        assert wait_ms(await refused) > 0


@pytest.mark.parametrize("held_s", [0.0, 0.01])
async def test_a_refusal_by_a_handler_leaves_no_garbage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held_s: float
) -> None:
    """Circles of exceptions and frames would wait for a search that stops the broker for tens of milliseconds."""
    monkeypatch.setattr(held, "HELD_S", held_s)
    made: list[weakref.ref[BeyondQuota]] = []

    def noted(*given: Any, **more: Any) -> BeyondQuota:
        refusal = beyond(*given, **more)
        made.append(weakref.ref(refusal))
        return refusal

    monkeypatch.setattr(gate, "beyond", noted)
    async with running_broker(tmp_path) as broker:
        await put(broker, "topic", "T", readMessages=0)
        gc.disable()
        try:
            query: dict[str, Any] = {"topic": "T", "key": "k", "maxNum": 1, "beginTimestamp": 0, "endTimestamp": 1}
            answer = await broker.call(RequestCode.QUERY_MESSAGE, **query)
            assert answer.code == BUSY
            assert [one() for one in made] == [None]
        finally:
            gc.enable()
