"""What administration sees of a broker: its tables, who consumes, its store. Each handler of this folder has it."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from ...config import Live
from ...errors import RequestRefused
from ...model.codes import ResponseCode
from ...protocol.bodies.keyed import MessageQueue
from ...store.message_store import MessageStore
from ...transport.turns.slices import Slices
from ..clients.consumers import Consumers
from ..config import BrokerConfig
from ..metadata.groups import Groups
from ..metadata.offsets import Offsets
from ..metadata.topics import Topics

MOST_QUEUES = 1 << 16


@dataclass(slots=True, eq=False, repr=False)
class BrokerView:
    """Event loop only. Tables are walked through in `slices` of the loop's time: others are served in between."""

    live: Live[BrokerConfig]
    address: str  # that clients are given
    topics: Topics
    groups: Groups
    offsets: Offsets
    consumers: Consumers
    store: MessageStore
    slices: Slices

    def queue(self, topic: str, queue_id: int) -> MessageQueue:
        return MessageQueue(broker_name=self.live.config.broker_name, queue_id=queue_id, topic=topic)

    def offset_range(self, topic: str, queue_id: int) -> tuple[int, int]:
        """Return the minimum and the readable end of a queue; zeros if there is none."""
        queue = self.store.queues.get(topic, queue_id)
        return (0, 0) if queue is None else (queue.min_offset, queue.readable_end)

    def is_of_interest(self, group: str, topic: str) -> bool:
        """Return whether its offsets matter: those of topics that an online group no longer subscribes to are old."""
        members = self.consumers.find(group)
        return members is None or not members.subscriptions or topic in members.subscriptions


def change(before: object, after: object) -> dict[str, object]:
    """Return what the audit log says of a change: the whole of both, None where there was or is nothing."""
    return {"before": msgspec.to_builtins(before), "after": msgspec.to_builtins(after)}


def illegal(remark: str) -> RequestRefused:
    """Return the refusal of a request that asks for what cannot be."""
    return RequestRefused(remark, ResponseCode.INVALID_PARAMETER)


def check(fault: str | None) -> None:
    """Refuse a request whose names have a fault."""
    if fault is not None:
        raise illegal(fault)
