"""Receipts of messages that clients hold: decoded, and as requests to brokers have them. Pure."""

from __future__ import annotations

from ..model.codes import ResponseCode
from ..model.pop_names import popped_topic
from ..model.receipt import BadReceipt, Receipt, decode_receipt
from ..protocol.command import Command
from ..protocol.grpc.v2 import Code
from ..protocol.headers.pop import AckMessage, ChangeInvisibleTime, ChangeInvisibleTimeAnswer
from .statuses import Denied, from_broker, refused

_EXPIRED = "receipt handle is expired"


def read_receipt(text: str) -> Receipt:
    """Decode a client's receipt. Denied in Java's words, with the code that it has for what is none."""
    fields = text.count(" ") + 1
    if fields < 8:
        raise Denied(Code.INTERNAL_SERVER_ERROR, f"Parse failed, dataList size {fields}")
    try:
        return decode_receipt(text)
    except BadReceipt as fault:
        raise Denied(Code.INTERNAL_SERVER_ERROR, str(fault)) from None


def check_valid(receipt: Receipt, now_ms: int) -> None:
    if now_ms >= receipt.pop_time + receipt.invisible_ms:
        raise refused(Code.INVALID_RECEIPT_HANDLE, _EXPIRED)


def change_refusal(code: int, remark: str | None) -> Denied:
    """Return a broker's refusal of a change: what is not in flight any more is as good as expired."""
    if code == ResponseCode.NO_MESSAGE:
        return refused(Code.INVALID_RECEIPT_HANDLE, _EXPIRED)
    return from_broker(code, remark)


def ack_header(group: str, topic: str, receipt: Receipt, lite_topic: str = "") -> AckMessage:
    return AckMessage(
        consumer_group=group,
        topic=popped_topic(topic, group, receipt.retry),
        queue_id=receipt.queue_id,
        extra_info=receipt.encode(),
        offset=receipt.offset,
        lite_topic=lite_topic or None,
    )


def change_header(
    group: str, topic: str, receipt: Receipt, invisible_ms: int, *, suspend: bool = False, lite_topic: str = ""
) -> ChangeInvisibleTime:
    return ChangeInvisibleTime(
        consumer_group=group,
        topic=popped_topic(topic, group, receipt.retry),
        queue_id=receipt.queue_id,
        extra_info=receipt.encode(),
        offset=receipt.offset,
        invisible_time=invisible_ms,
        suspend=suspend,
        lite_topic=lite_topic or None,
    )


def changed_receipt(receipt: Receipt, answer: Command) -> Receipt:
    """Return the receipt after a change. Denied if the broker did not change it."""
    if answer.code != ResponseCode.SUCCESS:
        raise change_refusal(answer.code, answer.remark)
    header = ChangeInvisibleTimeAnswer.from_fields(answer.fields)
    return receipt._replace(
        start=receipt.offset,
        pop_time=header.pop_time,
        invisible_ms=header.invisible_time,
        revive_queue=header.revive_qid,
    )
