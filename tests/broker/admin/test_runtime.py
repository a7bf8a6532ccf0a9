"""The runtime info (28) has every key that Java's has, with counted numbers; a lone master's HA state (907)."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pyromq.errors import ConfigError
from pyromq.model.codes import ResponseCode
from pyromq.protocol.requests import RequestCode
from tests.broker.running import Running, running_broker

GOLDEN = Path(__file__).parents[2] / "golden" / "mqadmin" / "brokerStatus.txt"
OPEN: dict[str, Any] = {"bind_address": "0.0.0.0", "allow_unauthenticated": True}
OF_ITS_STATE = re.compile(r"scheduleMessageOffset_|commitLogDiskRatio_")  # levels used there, and its own folder


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Running]:
    async with running_broker(tmp_path) as running:
        yield running


async def runtime(broker: Running) -> dict[str, str]:
    answer = await broker.call(RequestCode.GET_BROKER_RUNTIME_INFO)
    table: dict[str, str] = json.loads(bytes(answer.body))["table"]
    return table


async def test_no_key_of_java_is_missing(broker: Running) -> None:
    recorded = GOLDEN.read_text().split("mqadmin brokerStatus")[1]
    wanted = {line.split(":")[0].strip() for line in recorded.splitlines()[1:] if ":" in line}
    assert len(wanted) > 50
    assert {key for key in wanted if not OF_ITS_STATE.match(key)} - set(await runtime(broker)) == set()


async def test_puts_are_counted_and_weighed(broker: Running) -> None:
    assert (await runtime(broker))["putMessageDistributeTime"] == "null"
    for number in range(4):
        await broker.send(body=b"x" * 100 * (number + 1))
    await broker.send(topic="T", body=b"y" * (2 << 20))  # larger than a log file
    told = await runtime(broker)
    size = broker.broker.store.commit_log.end
    assert (told["putMessageTimesTotal"], told["putMessageFailedTimes"]) == ("4", "1")
    assert (told["putMessageSizeTotal"], told["putMessageAverageSize"]) == (str(size), str(size / 4))


async def test_a_delay_level_that_was_used_is_shown(broker: Running) -> None:
    await broker.send(properties={"DELAY": "18"})
    assert (await runtime(broker))["scheduleMessageOffset_18"] == "0,1"


async def test_a_lone_master_has_no_slaves_and_no_epochs(broker: Running) -> None:
    await broker.send()
    state = json.loads(bytes((await broker.call(RequestCode.GET_BROKER_HA_STATUS)).body))
    assert (state["master"], state["haConnectionInfo"], state["inSyncSlaveNums"]) == (True, [], 0)
    assert state["masterCommitLogMaxOffset"] == broker.broker.store.commit_log.end > 0
    epochs = await broker.call(RequestCode.GET_BROKER_EPOCH_CACHE)
    assert (epochs.code, epochs.remark) == (ResponseCode.SYSTEM_ERROR, "this request only for controllerMode ")


async def test_the_settings_name_the_address_that_clients_are_told(broker: Running) -> None:
    shown = bytes((await broker.call(RequestCode.GET_BROKER_CONFIG)).body).decode()
    assert re.search(r"^brokerIP1=127\.0\.0\.1$", shown, re.MULTILINE)
    assert f"listenPort={broker.address.rpartition(':')[2]}\n" in shown


async def test_clients_are_told_a_name_and_records_have_its_number(tmp_path: Path) -> None:
    """As in containers, whose addresses change and whose names stay."""
    async with running_broker(tmp_path, **OPEN, broker_ip1="localhost") as broker:
        assert broker.address.startswith("localhost:")
        sent = await broker.send(body=b"x")
        assert sent.fields["msgId"].startswith("7F000001")


async def test_a_name_that_nobody_knows_ends_the_start_with_the_setting(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"brokerIP1 = no-such-host\.invalid: nobody knows a number"):
        async with running_broker(tmp_path, **OPEN, broker_ip1="no-such-host.invalid"):
            pass
