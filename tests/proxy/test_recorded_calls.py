"""Every raw call that was recorded of Java's proxy, asked of ours: code, text and fields are the same."""

from __future__ import annotations

import asyncio
import re
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from pyromq.protocol.grpc import v2
from tests.proxy.calling import endpoint, message
from tests.proxy.recorded import Replayed, cut_calls, raw_calls, replay

LITE = "lite topics are refused"
EARLY = "redelivered at the end of its invisible time, where Java's broker is seconds late"
UNKEPT = "the recording leaves out acks or ends of transactions that came before"
SERVED = "Java's proxy does not serve it"
LOCAL = "Java's local mode looks at no broker's name, and its receipts after a change end nothing"
FORGOTTEN = "Java forgets a transaction that is not decided"

# Calls that are answered otherwise here, by scenario: the code of our first status, and why.
OTHERWISE: dict[str, tuple[str, str]] = {
    "route cluster topic": ("ILLEGAL_TOPIC", "topics named like cluster and broker are the system's, as in local mode"),
    "route broker topic": ("ILLEGAL_TOPIC", "the same"),
    "route mixed": ("OK", "Java's proxy has not read the new topic's type yet"),
    "telemetry lite push consumer": ("NOT_IMPLEMENTED", LITE),
    "heartbeat lite push consumer": ("UNRECOGNIZED_CLIENT_TYPE", LITE),
    "terminate lite push consumer": ("UNRECOGNIZED_CLIENT_TYPE", LITE),
    "heartbeat lite": ("UNRECOGNIZED_CLIENT_TYPE", LITE),
    "terminate lite": ("UNRECOGNIZED_CLIENT_TYPE", LITE),
    "send lite": ("NOT_IMPLEMENTED", LITE),
    "send lite to mixed topic": ("NOT_IMPLEMENTED", LITE),
    "lite send": ("NOT_IMPLEMENTED", LITE),
    "lite send 2": ("NOT_IMPLEMENTED", LITE),
    "lite receive": ("UNRECOGNIZED_CLIENT_TYPE", LITE),
    "lite receive more": ("UNRECOGNIZED_CLIENT_TYPE", LITE),
    "lite change suspend": ("INVALID_RECEIPT_HANDLE", LITE),
    **{
        f"lite {what}": ("NOT_IMPLEMENTED", LITE)
        for what in (
            *("add", "complete", "add empty", "remove", "remove all"),
            *("add other group", "add normal topic", "add unknown group"),
        )
    },
    "send batch": ("OK", "each message of a batch has an entry of its own"),
    "send fifo batch": ("OK", "the same"),
    "send priority -1": ("BAD_REQUEST", "Java answers an exception"),
    "receive batch -1": ("BAD_REQUEST", "Java answers an exception"),
    "send unknown topic": ("TOPIC_NOT_FOUND", "Java says that its type is UNSPECIFIED"),
    "send normal to mixed topic": ("TOPIC_NOT_FOUND", "the topic is not there yet"),
    "recall unknown topic": ("TOPIC_NOT_FOUND", "the same"),
    "receive unknown topic": ("TOPIC_NOT_FOUND", "Java's local mode answers an exception"),
    "receive without settings": ("UNRECOGNIZED_CLIENT_TYPE", "clients send their settings then; Java: an exception"),
    "send to retry topic": ("OK", "the retry topic of a group is made by its first heartbeat"),
    "send with deadline 1 ms": ("OK", "the deadline is the transport's, which this test does without"),
    "recall handle due": ("INTERNAL_SERVER_ERROR", "the text says how late it is"),
    "recall handle other topic": ("INTERNAL_SERVER_ERROR", "the text says which topic"),
    "recall handle of other broker": ("BAD_REQUEST", LOCAL),
    "ack unknown broker": ("INVALID_RECEIPT_HANDLE", LOCAL),
    "pull": ("OK", SERVED),
    "update offset": ("OK", SERVED),
    "get offset": ("OK", SERVED),
    "query offset": ("OK", SERVED),
    "telemetry transaction producer": ("OK", "Java asks about transactions that were decided a moment ago, too"),
    "end transaction from check": ("INTERNAL_SERVER_ERROR", "Java asked about one that was decided"),
    "end transaction again after unspecified": ("OK", FORGOTTEN),
    "receive committed": ("OK", UNKEPT),
    "receive again after change 0": ("OK", EARLY),
    "receive redelivered": ("OK", EARLY),
    "ack redelivered": ("OK", EARLY),
    "receive batch 33": ("MESSAGE_NOT_FOUND", LOCAL),
    "receive empty tag": ("MESSAGE_NOT_FOUND", LOCAL),
    "fifo drain": ("OK", "each message of a batch was sent by itself, so that its place is another"),
    "fifo change second": ("OK", "the invisible time of the receipt counts from another moment"),
    "fifo receive after change": ("OK", "Java's local mode does not count the delivery"),
    "telemetry relay consumer": ("OK", "who asked for the relays is not in the recording"),
}


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


# The requests that the recording has not kept, as their scenarios describe them.
MADE_AGAIN: dict[str, dict[str, Any]] = {
    "send body 4 MiB": {"body": bytes(4 << 20)},
    "send body 4 MiB + 1": {"body": bytes((4 << 20) + 1)},
    "send properties 16 KiB": {"properties": {"k": "v" * 16_383}},
    "send properties 16 KiB + 1": {"properties": {"k": "v" * 16_384}},
    "send tag counts": {"properties": {"k": "v" * 16_383}, "tag": "t"},
    "send keys count": {"properties": {"k": "v" * 16_383}, "keys": ["k"]},
}


@pytest.mark.parametrize("row", cut_calls(), ids=lambda row: row["scenario"])
async def test_recorded_call_made_again(row: dict[str, Any], tmp_path: Path) -> None:
    async with endpoint(tmp_path, commit_log_file_bytes=16 << 20) as grpc:
        grpc.topic("GNormal", queues=1)
        sent = message("GNormal", **MADE_AGAIN[row["scenario"]])
        answer = await grpc.ask("SendMessage", v2.SendMessageRequest(messages=[sent]))
    (wanted,) = recorded(row)
    assert (v2.Code(answer.status.code).name, answer.status.message) == tuple(wanted["status"].values())
    assert [each.status.message for each in answer.entries] == ["OK"] * len(wanted.get("entries", ()))


def test_every_call_that_was_cut_is_made_again() -> None:
    assert {row["scenario"] for row in cut_calls()} == MADE_AGAIN.keys()


CALLS = [(proxy, row["call"], row) for proxy in ("cluster", "local") for row in raw_calls(proxy)]


@pytest.mark.parametrize(
    ("proxy", "number", "row"), CALLS, ids=[f"{number} {row['rpc']} {row['scenario']}" for _, number, row in CALLS]
)
def test_recorded_call(proxy: str, number: int, row: dict[str, Any]) -> None:
    ours = replayed(proxy)[number]
    shown = [normal(one) for one in ours.answers]
    if row["status"]["code"] in ("OK", "CANCELLED_BY_CLIENT"):
        is_same = shown == recorded(row)
    else:
        is_same = (ours.status, plain_text(ours.text)) == (row["status"]["code"], plain_text(row["status"]["details"]))
    if not is_same and row["scenario"] in OTHERWISE:
        code, _ = OTHERWISE[row["scenario"]]
        assert shown[0]["status"]["code"] == code
        return
    assert is_same, (ours.status, ours.text, shown)


def test_every_exception_is_needed() -> None:
    differing = {
        row["scenario"]
        for proxy, number, row in CALLS
        if [normal(one) for one in replayed(proxy)[number].answers] != recorded(row)
    }
    assert OTHERWISE.keys() - differing == set()
