"""Someone who replays yesterday: reads from the medium go by turns through a helper thread, sends and syncs go on."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pyromq.model.codes import ResponseCode
from pyromq.protocol.requests import RequestCode as Code
from pyromq.store.config import FlushMode
from pyromq.store.queues.consume_queue import ConsumeQueue
from tests.access.matrix import ON, is_refused
from tests.access.test_users import PASSWORD, allow, ask, make_shop, send
from tests.broker.running import Running, running_broker, turns_until
from tests.wire import decode_messages

MESSAGES = 100
pytestmark = pytest.mark.usefixtures("python_pulls")


class Helper:
    """Stands for the helper threads: reads wait until they are let go, all else is done at once."""

    def __init__(self) -> None:
        self.reading = 0
        self.most = 0
        self.reads = 0
        self.go = asyncio.Event()

    async def __call__(self, call: Any) -> Any:
        if {"read_cold", "warm"} & set(call.__code__.co_names):
            self.reads += 1
            self.reading += 1
            self.most = max(self.most, self.reading)
            await self.go.wait()
            self.reading -= 1
        return call()


async def filled(broker: Running) -> Helper:
    for number in range(MESSAGES):
        assert (await broker.send(body=b"%d" % number)).code == 0
    return helper_of(broker)


def helper_of(broker: Running) -> Helper:
    helper = Helper()
    broker.broker.store._reading.run_blocking = helper
    return helper


async def test_cold_records_are_read_by_turns_and_sends_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_broker(tmp_path, flush_mode=FlushMode.SYNC) as broker:
        helper = await filled(broker)
        monkeypatch.setattr(type(broker.broker.store.reader), "read_resident", lambda reader, ranges: None)
        pulls = [asyncio.create_task(broker.pull(offset=number, group=f"G{number}")) for number in range(10)]
        await turns_until(lambda: helper.reading == 1)
        assert (await broker.send(body=b"meanwhile")).code == 0  # on the medium, too
        assert helper.reads == 1
        assert not any(pull.done() for pull in pulls)
        helper.go.set()
        for number, answer in enumerate(await asyncio.gather(*pulls)):
            first = decode_messages(answer.body)[0]
            assert (answer.code, first.body) == (0, b"%d" % number)
        assert (helper.reads, helper.most) == (10, 1)


async def test_cold_entries_are_fetched_by_a_helper_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    warmed: list[tuple[int, int]] = []
    async with running_broker(tmp_path) as broker:
        helper = await filled(broker)
        monkeypatch.setattr(ConsumeQueue, "is_resident", lambda queue, offset, scan: False)
        monkeypatch.setattr(ConsumeQueue, "warm", lambda queue, offset, scan: warmed.append((offset, scan)))
        pulls = [asyncio.create_task(broker.pull(offset=number)) for number in (3, 5)]
        await turns_until(lambda: helper.reading == 1)
        assert (await broker.send(body=b"meanwhile")).code == 0
        helper.go.set()
        answers = await asyncio.gather(*pulls)
        assert [decode_messages(answer.body)[0].body for answer in answers] == [b"3", b"5"]
        assert warmed == [(3, 800), (5, 800)]
        assert helper.most == 1


async def test_near_the_end_nobody_asks_what_is_cold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_broker(tmp_path) as broker:
        helper = await filled(broker)
        monkeypatch.setattr(ConsumeQueue, "is_resident", lambda queue, offset, scan: False)
        messages = decode_messages((await broker.pull(offset=MESSAGES - 32)).body)
        assert [message.body for message in messages] == [b"%d" % number for number in range(MESSAGES - 32, MESSAGES)]
        assert helper.reads == 0


async def test_cold_entries_without_a_match_are_answered_as_warm_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_broker(tmp_path) as broker:
        helper = await filled(broker)
        helper.go.set()
        warm = await broker.pull(offset=2, tags="none")
        monkeypatch.setattr(ConsumeQueue, "is_resident", lambda queue, offset, scan: False)
        cold = await broker.pull(offset=2, tags="none")
        assert helper.reads == 1
        assert (cold.code, cold.remark, cold.fields) == (warm.code, warm.remark, warm.fields)


@pytest.mark.parametrize("cold", ["entries", "records", "records before an expression"])
async def test_who_loses_his_rights_meanwhile_does_not_get_what_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cold: str
) -> None:
    async with running_broker(tmp_path, **ON, enable_property_filter=True) as broker:
        await make_shop(broker, allow("Topic:T", "Pub", "Sub"), allow("Group:G", "Sub"))
        for _ in range(40):
            assert (await send(broker, "T")).code == 0
        fields = {"consumerGroup": "G", "topic": "T", "queueId": "0", "queueOffset": "3", "maxMsgNums": "32"}
        fields |= {"sysFlag": "6", "commitOffset": "0", "suspendTimeoutMillis": "15000", "subVersion": "0"}
        fields |= {"subscription": "*"}
        if cold == "entries":
            monkeypatch.setattr(ConsumeQueue, "is_resident", lambda queue, offset, scan: False)
            monkeypatch.setattr(ConsumeQueue, "warm", lambda queue, offset, scan: None)
        else:
            monkeypatch.setattr(type(broker.broker.store.reader), "read_resident", lambda reader, ranges: None)
        if cold == "records before an expression":
            fields |= {"subscription": "n IS NULL", "expressionType": "SQL92"}
        helper = helper_of(broker)
        pulling = asyncio.create_task(ask(broker, Code.PULL_MESSAGE, "shop", PASSWORD, **fields))
        await turns_until(lambda: helper.reading == 1)
        assert (await ask(broker, Code.AUTH_UPDATE_USER, body={"userStatus": "disable"}, username="shop")).code == 0
        helper.go.set()
        answer = await pulling
        assert (answer.code, answer.fields["nextBeginOffset"]) == (ResponseCode.PULL_NOT_FOUND, "3")
        assert bytes(answer.body) == b""
        assert (helper.reads, len(broker.broker.pulls.suspended)) == (1, 0)  # and nothing more is read for it
        assert is_refused(await ask(broker, Code.PULL_MESSAGE, "shop", PASSWORD, **fields))
