"""Every raw call that was recorded of Java's proxy, asked of ours: code, text and fields are the same."""

from __future__ import annotations

import asyncio
import re
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.proxy.recorded import Replayed, raw_calls, replay

# Calls that are answered otherwise here, by scenario, and why.
NOT_STARTED_YET: dict[str, str] = {}
LITE = "lite topics are not there yet: 50100"
OTHERWISE: dict[str, str] = {}


@cache
def replayed(proxy: str) -> dict[int, Replayed]:
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(replay(Path(folder), proxy))


def plain_text(text: str) -> str:
    """Without the name of Java's exception before it, nor the line of its source behind it."""
    text = text.removeprefix("org.apache.rocketmq.proxy.common.ProxyException: ")
    return re.sub(r"\. \w*(Exception|Error)\. .*", "", text)


def normal(value: Any, key: str = "") -> Any:
    """Without what differs from run to run: times, places in the log, ports, queues of sends that take turns."""
    if isinstance(value, dict):
        left_out = (
            "offset",
            "queue_id",
            "queue_offset",
            "recall_handle",
            "store_host",
            "endpoints",
            "invisible_duration",
        )
        return {
            name: normal(part, name)
            for name, part in value.items()
            if not name.endswith("_timestamp") and name not in left_out
        }
    if isinstance(value, list):
        return [normal(part, key) for part in value]
    if key == "receipt_handle":
        fields = str(value).split(" ")
        return [fields[at] for at in (2, 4, 5) if at < len(fields)] if len(fields) > 7 else value
    return plain_text(value) if key == "message" and isinstance(value, str) else value


def recorded(row: dict[str, Any]) -> list[Any]:
    return [normal(one["json"]) for one in row["messages"] if one["dir"] == "response"]


CALLS = [(proxy, row["call"], row) for proxy in ("cluster", "local") for row in raw_calls(proxy)]


@pytest.mark.parametrize(
    ("proxy", "number", "row"), CALLS, ids=[f"{number} {row['rpc']} {row['scenario']}" for _, number, row in CALLS]
)
def test_recorded_call(proxy: str, number: int, row: dict[str, Any]) -> None:
    ours = replayed(proxy)[number]
    if row["scenario"] in OTHERWISE:
        pytest.skip(OTHERWISE[row["scenario"]])
    if row["status"]["code"] not in ("OK", "CANCELLED_BY_CLIENT"):
        assert (ours.status, plain_text(ours.text)) == (row["status"]["code"], plain_text(row["status"]["details"]))
        return
    assert [normal(one) for one in ours.answers] == recorded(row)
