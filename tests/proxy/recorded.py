"""Recorded gRPC calls replayed on virtual time: each call at its moment, streams held open as long as they were.

Receipts of the recording are replaced by ours of the same message. The recording keeps two of repeated sends only: what
it shows as received and not as sent is sent here at the time of its birth.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToDict, ParseDict

from pyromq.protocol.bodies.groups import (
    CustomizedRetryPolicy,
    ExponentialRetryPolicy,
    GroupRetryPolicy,
)
from pyromq.protocol.grpc import v2
from pyromq.testing.clock import ManualClock
from pyromq.transport.http2.calls import GrpcError
from tests.broker.virtual import virtual_broker
from tests.proxy.calling import Endpoint, TestCall, listened
from tests.support import GOLDEN

Answer = list[dict[str, Any]]
STREAMS = ("ReceiveMessage", "PullMessage")
_TOPICS = {
    "GNormal": ("NORMAL", 2, 2, 6),
    "GOne": ("NORMAL", 1, 1, 6),
    "GUneven": ("NORMAL", 3, 2, 6),
    "GRo": ("NORMAL", 2, 2, 4),
    "GWo": ("NORMAL", 2, 2, 2),
    "GNo": ("NORMAL", 2, 2, 0),
    "GNone": ("", 2, 2, 6),
    "GFifo": ("FIFO", 2, 2, 6),
    "GDelay": ("DELAY", 2, 2, 6),
    "GTx": ("TRANSACTION", 2, 2, 6),
    "GUnspec": ("UNSPECIFIED", 2, 2, 6),
    "GPrio": ("PRIORITY", 4, 4, 6),
    "GLite": ("LITE", 2, 2, 6),
}
_EXPONENTIAL = GroupRetryPolicy(type="EXPONENTIAL", exponential_retry_policy=ExponentialRetryPolicy())
_CUSTOMIZED = GroupRetryPolicy(customized_retry_policy=CustomizedRetryPolicy(next=[1000, 2000, 4000]))
_GROUPS: dict[str, dict[str, Any]] = {
    "g-fifo": {"consume_message_orderly": True},
    "g-dlq": {"retry_max_times": 1},
    "g-exp": {"group_retry_policy": _EXPONENTIAL},
    "g-cust": {"group_retry_policy": _CUSTOMIZED},
    "g-off": {"consume_enable": False},
    "g-lite": {"attributes": {"lite.bind.topic": "GLite"}},
}
_SETTINGS: dict[str, Any] = {
    "broker_cluster_name": "DefaultCluster",
    "enable_property_filter": True,
    "recall_message_enable": True,
    "transaction_check_interval": 5_000,
    "transaction_time_out": 2_000,
    "use_endpoint_port_from_request": True,
}


@cache
def raw_calls(proxy: str) -> list[dict[str, Any]]:
    """Return the calls that can be asked again; `cut_calls` has the others."""
    return [row for row in _all_raw_calls() if row["proxy"] == proxy and not _is_cut(row)]


def cut_calls() -> list[dict[str, Any]]:
    """Return the calls whose request was too long to keep: the recording has its length and its answer only."""
    return [row for row in _all_raw_calls() if _is_cut(row)]


@cache
def _all_raw_calls() -> list[dict[str, Any]]:
    lines = (GOLDEN / "grpc" / "index.jsonl").read_text("utf-8").splitlines()
    return [row for row in map(json.loads, lines) if row["client"] == "raw"]


def _is_cut(row: dict[str, Any]) -> bool:
    return any(message.get("truncated") for message in row["messages"])


@dataclass
class Replayed:
    """What ours answered to one call: the messages, and the gRPC status if it was not OK."""

    answers: Answer = field(default_factory=list)
    status: str = "OK"
    text: str = ""


class Replay:
    """One broker, asked everything in the order of the recording."""

    def __init__(self, grpc: Endpoint, calls: list[dict[str, Any]]) -> None:
        self.grpc = grpc
        self.calls = calls
        self.results: dict[int, Replayed] = {}
        self._receipts: dict[str, str] = {}  # of the recording, to ours
        self._recalls: dict[str, str] = {}
        self._open: list[asyncio.Future[Any]] = []

    async def run(self) -> dict[int, Replayed]:
        events: list[tuple[float, int, Any]] = [(row["time"], row["call"], self._call(row)) for row in self.calls]
        events += [(when, 0, self._send(message)) for when, message in self._unsent()]
        for when, _, work in sorted(events, key=lambda event: event[:2]):
            wait_s = (when - self.grpc.clock.now_ms()) / 1000
            if wait_s > 0:
                await self.grpc.clock.advance(wait_s)
            self._open.append(asyncio.ensure_future(work))
            await self.grpc.clock.settle()
        for _ in range(200):
            if all(task.done() for task in self._open):
                break
            await self.grpc.clock.advance(1)
        for task in self._open:
            if not task.done():
                task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
        return self.results

    def _unsent(self) -> list[tuple[float, v2.Message]]:
        sent: set[str] = set()
        seen: dict[str, dict[str, Any]] = {}
        for row in self.calls:
            for one in row["messages"]:
                for message in one["json"].get("messages", ()):
                    sent.add(message.get("system_properties", {}).get("message_id", ""))
                if one["dir"] == "response" and "message" in one["json"]:
                    message = one["json"]["message"]
                    seen.setdefault(message["system_properties"]["message_id"], message)
        found: list[tuple[float, v2.Message]] = []
        for id_, message in seen.items():
            if id_ in sent or "lite_topic" in message["system_properties"]:
                continue
            made = ParseDict(message, v2.Message())
            born_ms = made.system_properties.born_timestamp.ToMilliseconds()
            for name in ("receipt_handle", "queue_offset", "store_timestamp", "delivery_attempt", "store_host"):
                made.system_properties.ClearField(name)
            made.user_properties.pop("__SHARDINGKEY", None)
            found.append((born_ms, made))
        return found

    async def _send(self, message: v2.Message) -> None:
        await self.grpc.ask("SendMessage", v2.SendMessageRequest(messages=[message]), client="filler")

    async def _call(self, row: dict[str, Any]) -> None:
        self.results[row["call"]] = result = Replayed()
        metadata = dict(row["metadata"])
        limit = row["deadline_ms"]
        deadline = None if limit is None else self.grpc.clock.monotonic() + limit / 1000
        call = TestCall(row["rpc"], metadata, deadline)
        method = self.grpc.methods[call.method]
        try:
            if row["rpc"] == "Telemetry":
                await self._telemetry(row, call)
            elif method.stream is not None:
                call.asked.put_nowait(self._request(row, row["messages"][0]))
                call.asked.put_nowait(None)
                await method.stream(call)
            else:
                assert method.unary is not None
                answer = method.unary(call, self._request(row, row["messages"][0]))
                call.answered.put_nowait(answer if isinstance(answer, bytes) else await answer)
        except GrpcError as fault:
            result.status, result.text = fault.status.name, fault.text
        kind = "TelemetryCommand" if row["rpc"] == "Telemetry" else row["rpc"] + "Response"
        while not call.answered.empty():
            answer = getattr(v2, kind).FromString(call.answered.get_nowait())
            result.answers.append(MessageToDict(answer, preserving_proto_field_name=True))
        self._learn(row, result.answers)

    async def _telemetry(self, row: dict[str, Any], call: TestCall) -> None:
        method = self.grpc.methods[call.method]
        stream = asyncio.ensure_future(listened(method.listener, call))
        at = 0.0
        for message in row["messages"]:
            if message["dir"] != "request":
                continue
            await self.grpc.clock.sleep((message["t_ms"] - at) / 1000)
            at = message["t_ms"]
            call.asked.put_nowait(base64.b64decode(message["b64"]))
            await self.grpc.clock.settle()
        if not stream.done():
            await self.grpc.clock.sleep((row["status"]["t_ms"] - at) / 1000)
        if row["status"]["code"] == "CANCELLED_BY_CLIENT":
            stream.cancel()
            await asyncio.gather(stream, return_exceptions=True)
            return
        call.asked.put_nowait(None)
        await stream

    # --- receipts -------------------------------------------------------------------------------------------------

    def _request(self, row: dict[str, Any], message: dict[str, Any]) -> bytes:
        request = getattr(v2, row["rpc"] + "Request").FromString(base64.b64decode(message["b64"]))
        if row["rpc"] == "AckMessage":
            for entry in request.entries:
                entry.receipt_handle = self._ours(entry.receipt_handle)
        elif row["rpc"] in ("ChangeInvisibleDuration", "ForwardMessageToDeadLetterQueue"):
            request.receipt_handle = self._ours(request.receipt_handle)
        elif row["rpc"] == "RecallMessage":
            request.recall_handle = self._recalls.get(request.recall_handle, request.recall_handle)
        data: bytes = request.SerializeToString()
        return data

    def _ours(self, recorded: str) -> str:
        """Our receipt for one of the recording; what the recorder changed in one is changed in ours too."""
        if recorded in self._receipts:
            return self._receipts[recorded]
        given = recorded.split(" ")
        for known, ours in self._receipts.items():
            base, own = known.split(" "), ours.split(" ")
            if base[:3] == given[:3]:
                return " ".join(own[at] if text == base[at] else text for at, text in enumerate(given))
        return recorded

    def _learn(self, row: dict[str, Any], answers: Answer) -> None:
        recorded = [one["json"] for one in row["messages"] if one["dir"] == "response"]
        if row["rpc"] == "ReceiveMessage":
            ours = {_id(one): _receipt(one) for one in answers if "message" in one}
            for one in recorded:
                if "message" in one and _id(one) in ours:
                    self._receipts[_receipt(one)] = ours[_id(one)]
        elif row["rpc"] == "ChangeInvisibleDuration" and recorded and "receipt_handle" in recorded[0]:
            self._receipts[recorded[0]["receipt_handle"]] = answers[0].get("receipt_handle", "")
        elif row["rpc"] == "SendMessage" and recorded:
            pairs = zip(recorded[0].get("entries", ()), answers[0].get("entries", ()), strict=False)
            for theirs, own in pairs:
                if "recall_handle" in theirs:
                    self._recalls[theirs["recall_handle"]] = own.get("recall_handle", "")


def _id(answer: dict[str, Any]) -> str:
    return str(answer["message"]["system_properties"]["message_id"])


def _receipt(answer: dict[str, Any]) -> str:
    return str(answer["message"]["system_properties"]["receipt_handle"])


@asynccontextmanager
async def _set_up(folder: Path, start_ms: int) -> AsyncIterator[Endpoint]:
    clock = ManualClock(start_ms)
    async with virtual_broker(folder, clock=clock, **_SETTINGS) as virtual:
        grpc = Endpoint(virtual)
        for name, (type_, read, write, perm) in _TOPICS.items():
            grpc.topic(name, type_, read_queue_nums=read, write_queue_nums=write, perm=perm)
        for name in ("g-simple", "g-push"):
            grpc.group(name)
        for name, settings in _GROUPS.items():
            grpc.group(name, **settings)
        yield grpc


def _start_ms(calls: list[dict[str, Any]]) -> int:
    """The start of a broker whose rounds of transaction checks come when the recorded ones came."""
    row = next(row for row in calls if row["scenario"] == "telemetry transaction producer")
    check_ms = row["time"] + next(one["t_ms"] for one in row["messages"] if "settings" not in one["json"])
    rounds = (check_ms - calls[0]["time"]) // 5_000 + 1
    return int(check_ms - 20 - rounds * 5_000)


async def replay(folder: Path, proxy: str) -> dict[int, Replayed]:
    """Every raw call against one proxy, with what ours answered."""
    calls = raw_calls(proxy)
    async with _set_up(folder, _start_ms(calls)) as grpc:
        mixed = next((row for row in calls if row["scenario"] == "route mixed"), None)
        if mixed is not None:
            grpc.clock.call_later((mixed["time"] - grpc.clock.now_ms()) / 1000 - 0.1, grpc.topic, "GMixed", "MIXED")
        return await Replay(grpc, calls).run()
