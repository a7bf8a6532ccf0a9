"""Administration of groups over the wire."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pyromq.model.codes import ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.requests import RequestCode
from tests.broker.running import Running, running_broker


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Running]:
    async with running_broker(tmp_path) as running:
        yield running


async def update(broker: Running, **config: object) -> Command:
    return await broker.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, json.dumps(config).encode())


async def test_a_group_is_made_changed_shown_and_on_disk(broker: Running) -> None:
    assert (await update(broker, groupName="G", retryMaxTimes=3, attributes={"+priority.factor": "7"})).code == 0
    shown = json.loads(bytes((await broker.call(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, group="G")).body))
    assert (shown["retryMaxTimes"], shown["attributes"]) == (3, {"priority.factor": "7"})
    file = broker.broker.live.config.store_path_root_dir / "config" / "subscriptionGroup.json"
    assert json.loads(file.read_text())["subscriptionGroupTable"]["G"]["retryMaxTimes"] == 3


@pytest.mark.parametrize(
    ("config", "code", "remark"),
    [
        ({"groupName": "bad group"}, ResponseCode.INVALID_PARAMETER, "may hold only"),
        ({"groupName": ""}, ResponseCode.INVALID_PARAMETER, "is empty"),
        ({"groupName": "G", "retryQueueNums": -1}, ResponseCode.INVALID_PARAMETER, "retryQueueNums -1"),
        ({"groupName": "G", "attributes": {"+nonsense": "1"}}, ResponseCode.SYSTEM_ERROR, "unsupported key"),
    ],
)
async def test_what_may_not_be_is_refused(broker: Running, config: dict[str, object], code: int, remark: str) -> None:
    answer = await update(broker, **config)
    assert (answer.code, remark in (answer.remark or "")) == (code, True), answer.remark
    assert "G" not in broker.broker.groups


async def test_a_request_without_a_body_is_refused(broker: Running) -> None:
    assert (await broker.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP)).code == ResponseCode.SYSTEM_ERROR


async def test_an_unknown_group_is_not_made_by_asking(broker: Running) -> None:
    answer = await broker.call(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, group="G")
    assert (answer.code, json.loads(bytes(answer.body))["groupName"]) == (0, "G")  # as it would be made
    assert "G" not in broker.broker.groups


async def test_a_group_that_nobody_may_make_by_consuming_is_missing(broker: Running) -> None:
    assert (await broker.call(RequestCode.UPDATE_BROKER_CONFIG, b"autoCreateSubscriptionGroup=false")).code == 0
    answer = await broker.call(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, group="G")
    assert answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


async def test_many_are_made_together_or_not_at_all(broker: Running) -> None:
    def body(*names: str) -> bytes:
        return json.dumps({"groupConfigList": [{"groupName": name} for name in names]}).encode()

    assert (await broker.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, body("A", "no good"))).code
    assert "A" not in broker.broker.groups
    assert (await broker.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, body("A", "B"))).code == 0
    assert "B" in broker.broker.groups


async def test_the_table_is_told_whole_or_in_pages(broker: Running) -> None:
    whole = await broker.call(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
    assert set(json.loads(bytes(whole.body))["subscriptionGroupTable"]) == set(broker.broker.groups.all())
    page = await broker.call(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, groupSeq=0, maxGroupNum=3)
    assert len(json.loads(bytes(page.body))["subscriptionGroupTable"]) == 3
    assert page.fields["totalGroupNum"] == str(len(broker.broker.groups))


@pytest.mark.parametrize("clean", [True, False])
async def test_a_deleted_group_keeps_its_offsets_unless_they_are_to_go(broker: Running, clean: bool) -> None:
    await update(broker, groupName="G")
    broker.broker.offsets.commit("T", "G", 0, 5)
    answer = await broker.call(RequestCode.DELETE_SUBSCRIPTIONGROUP, groupName="G", cleanOffset=clean)
    assert answer.code == 0
    assert "G" not in broker.broker.groups
    assert broker.broker.offsets.find("T", "G", 0) == (None if clean else 5)


async def test_reading_a_topic_is_forbidden_to_a_group_and_allowed_again(broker: Running) -> None:
    async def ask(**extra: Any) -> bool:
        answer = await broker.call(RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, group="G", topic="T", **extra)
        readable: bool = json.loads(bytes(answer.body))["readable"]
        return readable

    assert await ask()
    assert not await ask(readable=False)
    assert not await ask()
    assert await ask(readable=True)
