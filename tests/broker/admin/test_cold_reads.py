"""Limits on cold reads over the wire, and groups that are stopped because they read too far behind."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pyromq.model.codes import ResponseCode
from pyromq.protocol.requests import RequestCode
from tests.broker.running import Running, running_broker
from tests.wire import decode_messages


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Running]:
    async with running_broker(tmp_path, consumer_fallbehind_threshold=1000) as running:
        yield running


async def test_limits_are_set_shown_and_dropped(broker: Running) -> None:
    assert (await broker.call(RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG, b"G=1048576\nH=5\n")).code == 0
    shown = bytes((await broker.call(RequestCode.GET_COLD_DATA_FLOW_CTR_INFO)).body)
    assert json.loads(shown)["configTable"] == {"G": 1048576, "H": 5}
    assert shown.startswith(b'{"runtimeTable":{},"configTable":')
    assert (await broker.call(RequestCode.REMOVE_COLD_DATA_FLOW_CTR_CONFIG, b"G")).code == 0
    shown = bytes((await broker.call(RequestCode.GET_COLD_DATA_FLOW_CTR_INFO)).body)
    assert json.loads(shown)["configTable"] == {"H": 5}


@pytest.mark.parametrize("body", [b"", b"G=many", b"G=0", b"bad group=7", b"G=5\nH=-1", b"\xff"])
async def test_limits_that_make_no_sense_are_refused(broker: Running, body: bytes) -> None:
    assert (await broker.call(RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG, body)).code == ResponseCode.SYSTEM_ERROR
    shown = json.loads(bytes((await broker.call(RequestCode.GET_COLD_DATA_FLOW_CTR_INFO)).body))
    assert shown["configTable"] == {}


@pytest.mark.usefixtures("python_pulls")
async def test_a_cold_read_over_the_limit_is_put_off_and_loses_nothing(
    broker: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        await broker.send(body=str(number).encode() * 50)
    monkeypatch.setattr(broker.broker.store.reader, "read_resident", lambda ranges: None)  # nothing is in memory
    few = decode_messages((await broker.pull()).body)
    assert [message.queue_offset for message in few] == list(range(8))  # fewer from disk
    broker.broker.live.change("coldDataFlowControlEnable=true\ncgColdReadThreshold=1")
    put_off = await broker.pull(offset=8)
    assert (put_off.code, put_off.fields["nextBeginOffset"]) == (ResponseCode.PULL_RETRY_IMMEDIATELY, "8")
    broker.broker.live.change("coldDataFlowControlEnable=false")
    assert [message.queue_offset for message in decode_messages((await broker.pull(offset=8)).body)] == list(
        range(8, 16)
    )


async def test_a_group_too_far_behind_is_stopped_until_it_is_allowed_again(broker: Running) -> None:
    for _ in range(10):
        await broker.send()
    await broker.pull(group="Slow")
    await broker.pull(group="Quick", offset=9)
    broker.broker.pull_parts.protect()
    assert (await broker.pull(group="Slow")).code == 0  # not unless it is wanted
    broker.broker.live.change("disableConsumeIfConsumerReadSlowly=true")
    await broker.pull(group="Quick", offset=9)
    broker.broker.pull_parts.protect()
    refused = await broker.pull(group="Slow")
    assert (refused.code, refused.fields) == (ResponseCode.NO_PERMISSION, {"forbiddenType": "2"})
    assert (await broker.pull(group="Quick", offset=9)).code == 0


async def test_reading_ahead_is_switched_off_and_on(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as running:
        log = running.broker.store.commit_log
        await running.send()
        for mode, random in (("1", True), ("0", False)):
            assert (await running.call(RequestCode.SET_COMMITLOG_READ_MODE, READ_AHEAD_MODE=mode)).code == 0
            assert log.reads_are_random is random
            assert (await running.pull()).code == 0
        assert (await running.call(RequestCode.SET_COMMITLOG_READ_MODE, READ_AHEAD_MODE="2")).code == 1
        assert (await running.call(RequestCode.SET_COMMITLOG_READ_MODE)).code == 1
        assert log.reads_are_random is False
