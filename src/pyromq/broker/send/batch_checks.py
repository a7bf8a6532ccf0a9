"""What a batch must be like to be stored. Called by `handler.py`. Pure: nothing is stored here."""

from __future__ import annotations

import re

from ...errors import ProtocolError, RequestRefused
from ...model.codes import ResponseCode
from ...model.message import WRAPPED_BATCH, Property, SysFlag
from ...model.names import MAX_TOPIC, is_retry
from ...protocol.batch import BatchEntry, decode_batch, has_more_than
from ...protocol.headers.send import SendMessage
from ..intake.intake import illegal_batch

# Properties that make a message more than plain, and that a batch as a whole cannot have.
KINDS = (
    Property.DELAY,
    Property.TIMER_DELAY_SEC,
    Property.TIMER_DELAY_MS,
    Property.TIMER_DELIVER_MS,
    Property.TRAN_MSG,
    Property.LITE_TOPIC,
    Property.PRIORITY,
    Property.INNER_NUM,
)


def having_any(names: tuple[str, ...]) -> re.Pattern[str]:
    """Return a pattern that finds encoded properties with one of these names."""
    return re.compile("(?:^|\x02)(?:" + "|".join(names) + ")\x01")


_KIND = having_any(KINDS)


def check_batch(header: SendMessage, properties: str, body: bytes | memoryview, max_messages: int) -> None:
    """Raise RequestRefused if the batch as a whole cannot be stored, in Java's order of checks."""
    if is_retry(header.topic):
        raise RequestRefused(f"batch request does not support retry group {header.topic}", ResponseCode.MESSAGE_ILLEGAL)
    if len(header.topic) > MAX_TOPIC:
        raise RequestRefused(f"message topic length too long {len(header.topic)}", ResponseCode.MESSAGE_ILLEGAL)
    if _KIND.search(properties) is not None or header.sys_flag & (SysFlag.TRANSACTION_MASK | WRAPPED_BATCH):
        raise RequestRefused(
            "the batch is illegal: delay, timer, transaction and batch marks are not for a batch",
            ResponseCode.MESSAGE_ILLEGAL,
        )
    if has_more_than(body, max_messages):
        raise illegal_batch(
            f"more than {max_messages} messages in it, the limit (maxMessagesInBatch). Send it in parts"
        )


def batch_entries(body: bytes | memoryview, max_property_bytes: int) -> list[BatchEntry]:
    """Decode the messages of a batch. RequestRefused if that fails, or if the properties of one are too long."""
    try:
        entries = decode_batch(body)
    except ProtocolError as fault:
        raise illegal_batch(str(fault)) from None
    for number, entry in enumerate(entries):
        if len(entry.properties) > max_property_bytes:
            raise illegal_batch(
                f"the properties of message {number} take {len(entry.properties)} bytes, "
                f"the limit is {max_property_bytes}"
            )
    return entries
