"""A client that pops: requests 200050, 200051, 200053 and 200151, with receipts made as Java's client makes them."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from pyromq.model.message import StoredMessage
from pyromq.model.pop_names import popped_topic
from pyromq.model.receipt import decode_receipt
from pyromq.protocol.command import Command
from pyromq.protocol.requests import RequestCode
from tests.broker.running import Running
from tests.wire import decode_messages


class Popped(NamedTuple):
    """A message that was handed out, with what acknowledges it."""

    body: str
    extra_info: str
    topic: str  # the real one: that of the retry topic, if it came from there
    group: str
    message: StoredMessage

    @property
    def queue_id(self) -> int:
        return decode_receipt(self.extra_info).queue_id

    @property
    def offset(self) -> int:
        return decode_receipt(self.extra_info).offset


def request(topic: str = "T", group: str = "G", **extra: Any) -> dict[str, Any]:
    return {
        "consumerGroup": group,
        "topic": topic,
        "queueId": -1,
        "maxMsgNums": 32,
        "invisibleTime": 60_000,
        "pollTime": 0,
        "bornTime": 0,
        "initMode": 0,
    } | extra


async def pop_answer(broker: Running, topic: str = "T", group: str = "G", **extra: Any) -> Command:
    return await broker.call(RequestCode.POP_MESSAGE, **request(topic, group, **extra))


async def pop(broker: Running, topic: str = "T", group: str = "G", **extra: Any) -> list[Popped]:
    """Pop, and return the messages; none if there are none."""
    answer = await pop_answer(broker, topic, group, **extra)
    assert answer.code in (0, 210), (answer.code, answer.remark)
    return popped(answer, topic, group)


def popped(answer: Command, topic: str = "T", group: str = "G") -> list[Popped]:
    """Give each message of an answer its receipt, as Java's client does."""
    fields = answer.fields
    starts = dict(_split(fields.get("startOffsetInfo", "")))
    order = [(place, int(at)) for place, text in _split(fields.get("msgOffsetInfo", "")) for at in text.split(",")]
    messages = decode_messages(answer.body)
    assert len(messages) == len(order)
    found = []
    for message, ((retry, queue_id), offset) in zip(messages, order, strict=True):
        info = " ".join(
            (
                starts[retry, queue_id],
                fields["popTime"],
                fields["invisibleTime"],
                fields["reviveQid"],
                retry,
                "broker-a",
                queue_id,
                str(offset),
            )
        )
        assert message.properties.get("POP_CK", info) == info
        assert (message.queue_id, message.queue_offset) == (int(queue_id), offset)
        found.append(Popped(message.body.decode(), info, popped_topic(topic, group, retry), group, message))
    return found


def _split(text: str) -> Iterable[tuple[tuple[str, str], str]]:
    for part in filter(None, text.split(";")):
        retry, queue_id, rest = part.split(" ")
        yield (retry, queue_id), rest


async def ack(broker: Running, one: Popped, **extra: Any) -> Command:
    fields: dict[str, Any] = {
        "consumerGroup": one.group,
        "topic": one.topic,
        "queueId": one.queue_id,
        "offset": one.offset,
        "extraInfo": one.extra_info,
    }
    return await broker.call(RequestCode.ACK_MESSAGE, **(fields | extra))


async def change(broker: Running, one: Popped, invisible_ms: int, **extra: Any) -> tuple[Command, Popped]:
    """Change the invisible time, and return the message with its new receipt."""
    fields: dict[str, Any] = {
        "consumerGroup": one.group,
        "topic": one.topic,
        "queueId": one.queue_id,
        "offset": one.offset,
        "extraInfo": one.extra_info,
        "invisibleTime": invisible_ms,
    }
    answer = await broker.call(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, **(fields | extra))
    if answer.code:
        return answer, one
    old = one.extra_info.split(" ")
    new = [str(one.offset), answer.fields["popTime"], answer.fields["invisibleTime"], answer.fields["reviveQid"]]
    return answer, one._replace(extra_info=" ".join([*new, *old[4:]]))


async def ack_batch(broker: Running, messages: Sequence[Popped], topic: str = "T") -> Command:
    """Acknowledge messages with one request: an entry for each check point."""
    entries: dict[tuple[Any, ...], int] = {}
    for one in messages:
        receipt = decode_receipt(one.extra_info)
        key = (one.group, receipt.retry, *receipt[:4], receipt.queue_id)
        entries[key] = entries.get(key, 0) | 1 << (receipt.offset - receipt.start)
    acks = [
        {"c": group, "t": topic, "r": retry, "so": start, "pt": pop_time, "it": invisible, "rq": revive, "q": queue_id}
        | {"b": bits_text(bits)}
        for (group, retry, start, pop_time, invisible, revive, queue_id), bits in entries.items()
    ]
    return await broker.call(
        RequestCode.BATCH_ACK_MESSAGE, json.dumps({"brokerName": "broker-a", "acks": acks}).encode()
    )


def bits_text(bits: int) -> str:
    return base64.b64encode(bits.to_bytes((bits.bit_length() + 7) // 8, "little")).decode()


def bodies(messages: Iterable[Popped]) -> list[str]:
    return [one.body for one in messages]
