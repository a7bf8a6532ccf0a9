"""Pops and acks as clients write them, and two brokers that get the same ones: what they answer, note and store."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from pyromq.model.codes import ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.frame import decode_frames, encode_frame
from pyromq.protocol.properties import decode_properties
from pyromq.protocol.record import decode_record
from pyromq.testing.clock import ManualClock
from tests.broker.virtual import Virtual, virtual_broker
from tests.kernel.pop_steps import State, state_of
from tests.kernel.test_native_send import send
from tests.kernel.twins import PEER, choose, contents, ready, split
from tests.transport.support import raw_peer

NOW = 1_700_000_000_000
# Where a record stands in the log.
PLACE = re.compile(rb"(\xda\xa3 \xa7.{20}).{8}", re.DOTALL)
POP, ACK, CHANGE, BATCH = 200050, 200051, 200053, 200151


def frame(code: int, number: int, fields: dict[str, Any], body: bytes = b"", flag: int = 0) -> bytes:
    """A request as a client writes it; a field that is None is left out."""
    texts = {name: str(value) for name, value in fields.items() if value is not None}
    return encode_frame(Command(code=code, opaque=number, flag=flag, version=401, fields=texts, body=body))


def pop(number: int = 1, queue: int = -1, count: int = 32, *, flag: int = 0, body: bytes = b"", **extra: Any) -> bytes:
    fields = {
        "consumerGroup": "G",
        "topic": "A",
        "queueId": queue,
        "maxMsgNums": count,
        "invisibleTime": 60_000,
        "pollTime": 0,
        "bornTime": NOW,
        "initMode": 0,
        "expType": "TAG",
        "exp": "*",
        "order": "false",
    }
    return frame(POP, number, fields | extra, body, flag)


class Popped(NamedTuple):
    """One message of an answer."""

    topic: str
    mark: str
    queue_id: int
    start: int
    pop_time: int
    invisible_ms: int
    revive_queue: int
    offset: int
    asked: int  # the number of the pop

    @property
    def receipt(self) -> str:
        head = f"{self.start} {self.pop_time} {self.invisible_ms} {self.revive_queue}"
        return f"{head} {self.mark} broker-a {self.queue_id} {self.offset}"


def popped(answer: Command) -> list[Popped]:
    """The messages that the texts of an answer name."""
    fields = answer.fields
    if answer.code != ResponseCode.SUCCESS or not fields.get("msgOffsetInfo"):
        return []
    starts = {tuple(one.split(" ")[:2]): int(one.split(" ")[2]) for one in fields["startOffsetInfo"].split(";")}
    found = []
    for one in fields["msgOffsetInfo"].split(";"):
        mark, queue, offsets = one.split(" ")
        topic = {"0": "A", "1": "%RETRY%G_A", "2": "%RETRY%G+A"}[mark]
        times = int(fields["popTime"]), int(fields["invisibleTime"]), int(fields["reviveQid"])
        found += [
            Popped(topic, mark, int(queue), starts[mark, queue], *times, int(offset), answer.opaque)
            for offset in offsets.split(",")
        ]
    return found


def ack(one: Popped, number: int = 100, code: int = ACK, flag: int = 0, **extra: Any) -> bytes:
    fields = {
        "consumerGroup": "G",
        "topic": one.topic,
        "queueId": one.queue_id,
        "extraInfo": one.receipt,
        "offset": one.offset,
    }
    return frame(code, number, fields | extra, flag=flag)


def change(one: Popped, number: int = 200, invisible: object = 5_000, **extra: Any) -> bytes:
    return ack(one, number, CHANGE, invisibleTime=invisible, **extra)


def entry(messages: Sequence[Popped], **extra: Any) -> dict[str, Any]:
    """What a batch says of messages of one check point."""
    one, bits = messages[0], 0
    for each in messages:
        bits |= 1 << each.offset - one.start
    text = base64.b64encode(bits.to_bytes((bits.bit_length() + 7) // 8, "little")).decode()
    said = {"b": text, "c": "G", "it": one.invisible_ms, "pt": one.pop_time, "q": one.queue_id, "r": one.mark}
    return said | {"rq": one.revive_queue, "so": one.start, "t": "A"} | extra


def batch(messages: Sequence[Popped], number: int = 300, **extra: Any) -> bytes:
    """One batch for all of them."""
    points: dict[Any, list[Popped]] = {}
    for one in messages:
        points.setdefault((one.mark, one.queue_id, one.start, one.pop_time), []).append(one)
    return acks(number, *(entry(each, **extra) for each in points.values()))


def acks(number: int, *entries: dict[str, Any]) -> bytes:
    """A batch that says this."""
    body = {"acks": entries, "brokerName": "broker-a"}
    return frame(BATCH, number, {}, json.dumps(body, separators=(",", ":")).encode())


def filled(count: int = 40, tags: int = 2) -> bytes:
    """Messages for the four queues of topic A."""
    return b"".join(
        send(
            1000 + number,
            queue=number % 4,
            body=b"x" * (number * 37 % 90 + 1),
            properties=f"UNIQ_KEY\x01U{number}\x02TAGS\x01t{number // 4 % tags}\x02",
        )
        for number in range(count)
    )


class Told(NamedTuple):
    """What can be seen from outside, and what the kernel did."""

    answers: list[bytes]
    is_lost: bool
    offsets: object
    table: State
    files: dict[str, bytes]
    held: int
    messages: int
    acks: int
    changes: int
    suspended: int


Step = bytes | float | Callable[[Virtual, list[Popped]], object]
Before = Callable[[Virtual], object]


def without_places(answer: bytes) -> tuple[Any, ...]:
    """An answer, but for what follows from where its messages stand in the log."""
    command = decode_frames(answer)[0][0]
    fields = {name: value for name, value in command.fields.items() if name != "msgId"}
    found, at = [], 0
    while at < len(command.body):
        size = int.from_bytes(command.body[at : at + 4], "big")
        record = decode_record(bytes(command.body[at : at + size]), verify=False)
        properties = decode_properties(record.properties)
        properties.pop("__CRC32#", None)
        found.append((record.topic, record.queue_id, record.queue_offset, record.magic, record.body, properties))
        at += size
    return command.opaque, command.code, command.remark, fields, found


def handed_out(told: Told) -> list[tuple[Any, ...]]:
    """All messages of all answers, but for where they stand and which pop got them."""
    found = [one for answer in told.answers for one in without_places(answer)[-1]]
    return sorted(
        (topic, queue_id, magic, body, sorted((name, value) for name, value in properties.items() if name != "POP_CK"))
        for topic, queue_id, _, magic, body, properties in found
    )


async def pops(
    folder: Path, steps: Sequence[Step], module: ModuleType | None, before: Before | None = None, **settings: Any
) -> Told:
    """Steps one after the other: bytes are written, seconds pass; calls get what was popped, and may return bytes.
    `before` all of them and before there are topics."""
    with pytest.MonkeyPatch.context() as patch:
        choose(patch, module)
        clock = ManualClock(NOW)
        async with virtual_broker(folder, clock=clock, **settings) as life:
            if before is not None:
                before(life)
            await ready(life)
            peer = raw_peer(life.broker.servers[0], PEER)
            for step in steps:
                if isinstance(step, float):
                    await clock.advance(step)
                else:
                    found = [one for answer in peer.received for one in popped(answer)]
                    raw = step if isinstance(step, bytes) else step(life, found)
                    if isinstance(raw, bytes) and not peer.is_lost:
                        peer.write(raw)
                await clock.settle(30)
                await life.broker.store.flush_log()
                await clock.settle()
            await life.broker.store.flush_all()
            broker = life.broker
            pulled = [broker.offsets.pulled("A", "G", queue) for queue in range(4)]
            kernels = [one.kernel for one in broker.listeners.pop_verdicts]
            return Told(
                sorted(split(peer.raw)),
                peer.is_lost,
                (dict(broker.offsets.all()), pulled),
                state_of(broker.pop_parts.table),
                contents(life.disk),
                len(broker.pop_parts.handler.held),
                sum(one.messages for one in kernels),
                sum(one.acks for one in kernels),
                sum(one.changes for one in kernels),
                sum(one.suspended for one in kernels),
            )


async def same(folder: Path, steps: Sequence[Step], module: ModuleType, *, files: bool = True, **settings: Any) -> Told:
    """Both answer, note and store the same; what the native one did.

    Without `files` the log may be another: in one turn one of them may put two journal records, and the other one.
    """
    ours = await pops(folder / "native", steps, module, **settings)
    theirs = await pops(folder / "python", steps, None, **settings)
    assert ours[1:4] == theirs[1:4]
    assert ours.held == theirs.held
    if files:
        assert ours.answers == theirs.answers
        assert ours.files.keys() == theirs.files.keys()
        assert [name for name in ours.files if ours.files[name] != theirs.files[name]] == []
    else:
        assert [without_places(one) for one in ours.answers] == [without_places(one) for one in theirs.answers]
    assert theirs[6:] == (0, 0, 0, 0)
    return ours
