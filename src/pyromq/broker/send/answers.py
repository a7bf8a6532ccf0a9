"""The answers to sends: where a message was stored, and the limits that follow from what one answer can carry.

Made by `handler.py`; `verdicts.py` makes the same answers for a native kernel.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...kernel.records import Placed
from ...model.ids import offset_message_id, offset_message_ids
from ...model.message import Property
from ...model.recall_handle import RecallHandle
from ...model.wire_text import whole_number
from ...protocol.frame import MOST_HEADER_BYTES, FrameLimits
from ...protocol.properties import find_property
from ...protocol.record import Record
from ..config import BrokerConfig

_OTHER_ANSWER_BYTES = 256 << 10  # of the answer to a batch, besides its ids: a unique id in escapes is the most of it


def region_fields(config: BrokerConfig) -> dict[str, str]:
    return {"MSG_REGION": config.region_id, "TRACE_ON": "true" if config.trace_on else "false"}


def place_fields(places: Sequence[Placed], store_host: bytes) -> dict[str, str]:
    """Describe where the message is, or the messages of a batch are."""
    first = places[0]
    return {
        "msgId": ",".join(offset_message_ids(store_host, [placed.position for placed in places])),
        "queueId": str(first.queue_id),
        "queueOffset": str(first.queue_offset),
    }


def recall_handle(topic: str, broker_name: str, parked: Record, unique: str) -> str:
    """Return the handle by which the sender of a timed message may recall it."""
    slot_ms = whole_number(find_property(parked.properties, Property.TIMER_OUT_MS.encode())) or 0
    return RecallHandle(topic, broker_name, slot_ms + 1, unique).encode()


def most_in_batch(frame: FrameLimits, store_host: bytes) -> int:
    """Return how many messages a batch may have, so that one answer can carry their ids."""
    limit = min(frame.frame_bytes, MOST_HEADER_BYTES)
    other = min(_OTHER_ANSWER_BYTES, limit // 4)
    return max(1, (limit - other) // (len(offset_message_id(store_host, 0)) + 1))
