"""Limits for groups that read what is no longer in memory, and how the commit log is read ahead."""

from __future__ import annotations

from typing import Any

import msgspec

from ...admin import settings
from ...protocol.headers.admin import SetCommitLogReadMode
from ...protocol.requests import RequestCode
from ..command import Run, command
from ..options import BROKER, CLUSTER, need
from ..parsing import UsageError
from ..printing import pretty_value, when
from .brokers import broker_or_all

GROUP = need("g", "consumerGroup", "the group")
SHOWN = ("configTable", "cgColdReadThreshold", "globalColdReadThreshold", "globalAcc")


@command("Cold reads: who reads how much, and the limits", BROKER, CLUSTER)
async def get_cold_data_flow(run: Run) -> None:
    for address, heading in await broker_or_all(run):
        found = msgspec.to_builtins((await run.ask(address, RequestCode.GET_COLD_DATA_FLOW_CTR_INFO)).body)
        runtime = {group: _readable(of) for group, of in found["runtimeTable"].items()}
        run.say(f" {heading}")
        shown = {"runtimeTable": runtime} | {name: found[name] for name in SHOWN}
        run.print(pretty_value(shown) + "\n")


def _readable(of: dict[str, Any]) -> dict[str, Any]:
    return {
        "coldAcc": of["coldAcc"],
        "lastColdReadTimeFormat": when(of["lastColdReadTimeMills"]),
        "createTimeFormat": when(of["createTimeMills"]),
    }


@command(
    "Limit the cold reads of a group",
    BROKER,
    CLUSTER,
    GROUP,
    need("v", "threshold", "bytes per second"),
)
async def update_cold_data_flow(run: Run) -> None:
    limit = {run["g"]: str(run.number("v"))}
    for address in await run.masters():
        await settings.change(run.calls, address, RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG, limit)
        run.say(f"updateColdDataFlowCtrGroupConfig success, {address}")


@command("Take the limit of a group away", BROKER, CLUSTER, GROUP)
async def remove_cold_data_flow(run: Run) -> None:
    for address in await run.masters():
        await run.ask(address, RequestCode.REMOVE_COLD_DATA_FLOW_CTR_CONFIG, body=run["g"].encode())
        run.say(f"remove broker cold read threshold success, {address}")


@command(
    "How the system reads commit log files ahead",
    BROKER,
    CLUSTER,
    need("m", "commitLogReadAheadMode", "0 as usual, 1 not at all: reads are at random places"),
)
async def set_read_ahead(run: Run) -> None:
    mode = run["m"]
    if mode not in ("0", "1"):
        raise UsageError(f"-m {mode}: 0 (as usual) or 1 (random places)")
    for address, heading in await broker_or_all(run):
        answer = await run.ask(address, RequestCode.SET_COMMITLOG_READ_MODE, SetCommitLogReadMode(read_ahead_mode=mode))
        said = answer.remark or f"set commitlog readahead mode success, mode: {mode}"
        run.say(f" {heading}", f"commitLog set readAhead mode rstStr{said}")
