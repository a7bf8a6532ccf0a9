"""Namespaces as Java's clients have them: names with `ns%` before them, which policies name as requests do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyromq.model.names import DLQ_PREFIX, RETRY_PREFIX
from pyromq.protocol.command import Command
from pyromq.protocol.requests import RequestCode as Code
from tests.access.matrix import ON, is_refused
from tests.access.test_users import PASSWORD, allow, ask, make_shop, send
from tests.broker.running import Running, running_broker

NS, OTHER = "MQ_INST_1%", "MQ_INST_12%"
OF_NS = (allow(f"Topic:{NS}*", "Pub", "Sub"), allow(f"Group:{NS}*", "Sub"))


async def pulls(broker: Running, topic: str, group: str) -> Command:
    fields = {"consumerGroup": group, "topic": topic, "queueId": "0", "queueOffset": "0", "maxMsgNums": "1"}
    fields |= {"sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*"}
    return await ask(broker, Code.PULL_MESSAGE, "shop", PASSWORD, subVersion="0", **fields)


async def test_a_prefix_is_the_right_to_a_namespace_and_to_no_other(tmp_path: Path) -> None:
    async with running_broker(tmp_path, **ON) as broker:
        await make_shop(broker, *OF_NS)
        assert (await send(broker, f"{NS}T")).code == 0
        for other in ("T", f"{OTHER}T", f"{OTHER}{NS}T", NS.removesuffix("%") + "T"):
            assert is_refused(await send(broker, other)), other
        assert not is_refused(await pulls(broker, f"{NS}T", f"{NS}G"))
        for topic, group in ((f"{NS}T", "G"), (f"{NS}T", f"{OTHER}G"), ("T", f"{NS}G"), (f"{OTHER}T", f"{NS}G")):
            assert is_refused(await pulls(broker, topic, group)), (topic, group)


@pytest.mark.parametrize("prefix", [RETRY_PREFIX, DLQ_PREFIX])
async def test_retries_and_dead_letters_of_a_namespace_are_its_groups(tmp_path: Path, prefix: str) -> None:
    async with running_broker(tmp_path, **ON) as broker:
        await make_shop(broker, *OF_NS)
        assert not is_refused(await pulls(broker, f"{prefix}{NS}G", f"{NS}G"))
        assert is_refused(await pulls(broker, f"{prefix}{OTHER}G", f"{NS}G"))
        assert is_refused(await pulls(broker, f"{prefix}G", f"{NS}G"))


async def test_a_name_without_its_namespace_is_another_one(tmp_path: Path) -> None:
    async with running_broker(tmp_path, **ON) as broker:
        await make_shop(broker, allow("Topic:T", "Pub"))
        assert (await send(broker, "T")).code == 0
        assert is_refused(await send(broker, f"{NS}T"))


async def test_the_namespace_of_newer_clients_is_no_part_of_a_name(tmp_path: Path) -> None:
    """`namespaceV2` of 5.x: two fields beside the name, signed as all others are, which 5.5.0 does not judge by."""
    async with running_broker(tmp_path, **ON) as broker:
        await make_shop(broker, allow("Topic:T", "Pub"), allow("Topic:inst*", "Pub"))
        fields: dict[str, Any] = {"ns": "inst", "nsd": "true"}
        assert (await send(broker, "T", **fields)).code == 0
        assert is_refused(await send(broker, "Other", **fields))
