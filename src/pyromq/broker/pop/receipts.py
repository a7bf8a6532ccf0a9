"""What an ack or a change names: the check point of a receipt, and whether topic, queue and offset are there at all."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import RequestRefused
from ...model.codes import ResponseCode
from ...model.receipt import BadReceipt, Receipt, decode_receipt
from ...protocol.bodies.topics import TopicConfig
from ...protocol.headers.pop import AckMessage
from ...store.message_store import MessageStore
from ...transport.peer import Peer
from ..metadata.topics import Topics
from .checks import FAQ, illegal_queue
from .seams import HandedOut


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ReceiptChecks:
    """Event loop only."""

    topics: Topics
    store: MessageStore

    def topic(self, header: AckMessage, peer: Peer) -> TopicConfig:
        """Return the topic that the header names: the real one, so the retry topic of a message that is from there."""
        topic = self.topics.find(header.topic)
        if topic is None:
            raise RequestRefused(
                f"topic[{header.topic}] not exist, apply first please! {FAQ}", ResponseCode.TOPIC_NOT_EXIST
            )
        if not 0 <= header.queue_id < topic.read_queue_nums:
            raise RequestRefused(illegal_queue(header.queue_id, topic, peer), ResponseCode.MESSAGE_ILLEGAL)
        return topic

    def ends(self, topic: str, queue_id: int) -> tuple[int, int]:
        """Return the first offset of a queue, and the one behind its last."""
        queue = self.store.queues.get(topic, queue_id)
        return (0, 0) if queue is None else (queue.min_offset, queue.next_offset)


def receipt_of(header: AckMessage) -> Receipt:
    """Return the receipt of a request; its queue and offset are the header's."""
    try:
        receipt = decode_receipt(header.extra_info, header.offset)
    except BadReceipt as fault:
        raise RequestRefused(f"extraInfo: {fault}") from None
    return receipt._replace(queue_id=header.queue_id, offset=header.offset)


def handed_out(group: str, topic: str, receipt: Receipt) -> HandedOut:
    return HandedOut(
        group,
        topic,
        receipt.queue_id,
        receipt.start,
        receipt.pop_time,
        receipt.invisible_ms,
        receipt.revive_queue,
    )
