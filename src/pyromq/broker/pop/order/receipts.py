"""Acks and changed times of messages that were popped in order (receipts with revive queue 999), and pops in order.

`OrderedPops` is what `handler.py`, `ack.py` and `change.py` know of all that. Answered once the journal has it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from functools import partial

from ....config import Live
from ....errors import RequestRefused
from ....model.codes import ResponseCode
from ....model.receipt import Receipt
from ....model.wire_text import LONG_MAX
from ....protocol.headers.pop import AckMessage, ChangeInvisibleTime, ChangeInvisibleTimeAnswer
from ....transport.dispatch import Answer, Reply, Request, RequestOf
from ...config import BrokerConfig
from ...intake.intake import Outcome
from ...intake.put_answers import answer, reply_to_put
from ..rollback import NOT_SET
from ..seams import Place
from ..tickets import PopTicket
from ..young.journal import PopJournal
from .lanes import HeldQueues, OrderAck
from .source import OrderSource
from .table import OrderLane

NO_CHANGE = {"popTime": "0", "invisibleTime": "0", "reviveQid": "0"}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class OrderedPops:
    """Event loop only."""

    live: Live[BrokerConfig]
    order: HeldQueues
    source: OrderSource
    journal: PopJournal

    def take(self, ticket: PopTicket, place: Place) -> Awaitable[None] | None:
        return self.source.take(ticket, place)

    def ack(self, request: RequestOf[AckMessage, None], receipt: Receipt) -> Answer:
        header = request.header
        lane = OrderLane(header.topic, header.consumer_group, header.queue_id)
        before = self.order.position(lane)
        done = self.order.ack(lane, receipt.pop_time, header.offset)
        if done is OrderAck.ILLEGAL:
            raise RequestRefused(
                f"offset is illegal, key:{lane.key}@{lane.queue_id}, old:{before}, commit:{header.offset}, next:-1, "
                f"/{request.peer.address}",
                ResponseCode.MESSAGE_ILLEGAL,
            )
        if done is OrderAck.NEEDLESS:
            return Reply()
        self.journal.after(partial(self._answer_put, request))
        return None

    def ack_offsets(self, group: str, topic: str, queue_id: int, pop_time: int, offsets: Sequence[int]) -> None:
        """Acknowledge one entry of a batch; what is wrong with it is not said. Whoever asks waits for the journal."""
        for offset in offsets:
            self.order.ack(OrderLane(topic, group, queue_id), pop_time, offset)

    def change(self, request: RequestOf[ChangeInvisibleTime, None], receipt: Receipt) -> Answer:
        header = request.header
        lane = OrderLane(header.topic, header.consumer_group, header.queue_id)
        position = self.order.position(lane)
        if position is not None and header.offset < position:
            return Reply(remark=NOT_SET, fields=dict(NO_CHANGE))
        visible_at = max(0, min(self.order.clock.now_ms() + header.invisible_time, LONG_MAX))
        is_changed = self.order.change(lane, receipt.pop_time, header.offset, visible_at)
        answered = ChangeInvisibleTimeAnswer(
            pop_time=receipt.pop_time,
            invisible_time=min(visible_at - receipt.pop_time, LONG_MAX),
            revive_qid=receipt.revive_queue,
        )
        reply = Reply(remark=NOT_SET, header=answered)
        if not is_changed:
            return reply
        self.journal.after(partial(self._answer_change, request, reply))
        return None

    def _answer_put(self, request: Request, outcome: Outcome) -> None:
        answer(request, reply_to_put(outcome, self.live.config))

    def _answer_change(self, request: Request, reply: Reply, outcome: Outcome) -> None:
        if outcome.refusal is not None:
            reply = Reply(outcome.refusal.code, str(outcome.refusal), fields=dict(NO_CHANGE))
        answer(request, reply)
